/* What clients choose to do. */
#ifndef ROUTERD_TESTS_SIMULATION_PEOPLE_H
#define ROUTERD_TESTS_SIMULATION_PEOPLE_H

#include "tests/simulation/depth/client.h"

static bool obliging, leaving;
static bool quarrels;                  /* links and connections end in this life */

/* ---- senders ---- */

static uint32_t some_body(void)
{
    switch (below(16)) {
    case 0: case 1: case 2: case 3: return below(440);
    case 4: return below(4000);
    case 5: return below(4) ? below(16000) : below(BODY_MOST);
    default: return below(90);
    }
}

static bool message_begins(client *k, peer_link *l, lane_transfer *t)
{
    delivery_known *s = NULL;
    bool settled = l->sender_mode == PN_SND_SETTLED || (l->sender_mode == PN_SND_MIXED && one_in(3));
    if (!settled && !(s = known_new(k->sent, &k->sent_count))) return false;
    uint8_t address = l->address == ANONYMOUS ? (uint8_t) below(ADDRESSES) : l->address;
    if (tables.on && l->address == ANONYMOUS && !one_in(3))
        address = one_in(6) ? ENDPOINT + (uint8_t) below(ENDPOINTS) : TABLE;
    const bool by_route = sourced.on && l->address == ANONYMOUS && address != UNAVAILABLE && address != SETTLING
        && !one_in(4);
    const uint32_t most = listener_terms.frame - LANE_TRANSFER_MAX - HEAD_OCTETS - (l->kind || by_route ? PRELUDE : 0)
        - (address == TABLE ? PROPERTIES_MOST : 0);
    const uint32_t body = some_body();
    l->number = message_new(l->name, address, listener_terms.whole ? body % most : body, settled,
                            l->address == TABLE);
    l->at = 0;
    l->settled = settled;
    ledger.all[l->number].targeted = l->address != ANONYMOUS;
    ledger.all[l->number].from_router = l->kind;
    if (by_route) route_begins(k, l, l->number);
    if (l->kind) neighbour_begins(l, l->number);
    else if (network.neighbours && address != TABLE && address_treatment(address) == MULTICAST
             && ledger.calm <= ledger.rested)
        ledger.all[l->number].wanted = core_reach(address);    /* the core knows of all that is gone */
    t->tag = (amqp_octets) { (const uint8_t *) &l->number, sizeof l->number };
    t->has_format = true;
    if (!s) return true;
    *s = (delivery_known) { .id = k->s.id_out, .number = l->number, .link = (uint8_t) (l - k->links), .used = true };
    return true;
}

/* A TRANSFER of a link; false: it must wait, or there is nothing to send. */
static bool sender_sends(client *k, peer_link *l)
{
    static uint8_t frame[FRAME_ROOM];
    lane_transfer t = { .has_settled = true };
    if (!k->s.out_window || (!l->number && (obliging || !l->lane.credit || (l->lane.drain && one_in(2))))) return false;
    bool first = !l->number;
    if (first && !message_begins(k, l, &t)) return false;
    message *m = &ledger.all[l->number];
    const prelude *p = l->kind || m->sourced.on ? prelude_of(l) : NULL;
    uint32_t left = m->length + (p ? p->size : 0) - l->at, n = listener_terms.frame - LANE_TRANSFER_MAX;
    if (!listener_terms.whole && one_in(4)) n = 1 + below(n);
    if (n > left) n = left;
    t.settled = l->settled;
    t.aborted = !first && !obliging && one_in(40);
    t.more = n < left && !t.aborted;
    if (first && t.more) total.streams++;
    lane_send(&k->s, &l->lane, &t);
    uint8_t *at = lane_put_transfer(frame, 0, &t);
    const uint8_t form = l->kind ? network.form[l->router] : ANNOTATIONS_MAP;
    if (!t.aborted && p) annotated_write(p, form, l->number, l->at, n, at);
    else if (!t.aborted) message_write(l->number, l->at, n, at);
    say(k, frame, lane_put_size(frame, at + (t.aborted ? 0 : n)));
    l->at += n;
    if (t.more) return true;
    m->flags |= t.aborted ? ABORTED : WHOLE;
    delivery_known *s = l->settled ? NULL : known_find(k->sent, t.id);
    /* an aborted delivery is settled (AMQP 1.0 part 2.7.5) */
    if (s && (t.aborted || s->over)) {
        m->flags &= (uint8_t) ~ALIVE;
        known_end(s, &k->sent_count);
    }
    l->number = 0;
    return true;
}

/* Settles what it has been told an outcome of, or, seldom, what it does not wait for any longer. */
static bool sender_settles(client *k, bool impatient)
{
    for (uint32_t i = 0, from = below(OUTSTANDING); i < OUTSTANDING && k->sent_count; i++) {
        delivery_known *s = &k->sent[(from + i) % OUTSTANDING];
        const uint8_t outcome = (uint8_t) ~state_bit(S_RECEIVED);
        if (!s->used || s->over || k->links[s->link].number == s->number) continue;
        if (!(s->said & outcome) && !impatient) continue;
        message *m = &ledger.all[s->number];
        m->flags = (uint8_t) ((m->flags | OF_SENDER) & ~ALIVE);
        say_disposition(k, false, true, s->id, 0);
        known_end(s, &k->sent_count);
        return true;
    }
    return false;
}

/* ---- receivers ---- */

static bool receiver_answers(client *k)
{
    static const uint8_t states[] = { S_ACCEPTED, S_ACCEPTED, S_ACCEPTED, S_ACCEPTED, S_REJECTED, S_RELEASED,
          S_MODIFIED };
    for (uint32_t i = 0, from = below(OUTSTANDING); i < OUTSTANDING && k->got_count; i++) {
        delivery_known *g = &k->got[(from + i) % OUTSTANDING];
        if (!g->used || g->over) continue;
        const peer_link *l = &k->links[g->link];
        if (!obliging && one_in(16)) {
            say_disposition(k, true, false, g->id, S_RECEIVED);
            message_said(g->number, S_RECEIVED);
            return true;
        }
        uint8_t state = states[below(sizeof states)];
        message_said(g->number, state);
        bool waits = l->second && !one_in(4);
        say_disposition(k, true, !waits, g->id, state);
        if (waits) g->over = true;
        else known_end(g, &k->got_count);
        return true;
    }
    return false;
}

static bool receiver_grants(client *k, peer_link *l)
{
    if (l->lane.credit > (obliging ? 4 : 0) && !(one_in(4) && l->lane.credit < LARGEST_GRANT)) return false;
    const bool many = k->got_count > OUTSTANDING / 8;
    /* what one link has may wait for an outcome of copies for another one: then credit for one message at a time */
    if (many && (!obliging || l->lane.credit || k->got_count + CLIENT_LINKS >= OUTSTANDING)) return false;
    l->lane.drain = false;
    lane_grant(&l->lane, many ? 1 : 1 + below(LARGEST_GRANT) + (obliging ? LARGEST_GRANT / 2 : 0));
    say_flow(k, l);
    return true;
}

/* ---- all ---- */

/* Says what is due; false: nothing is. */
static bool client_due(client *k)
{
    for (uint32_t i = 0; i < k->places; i++) {
        peer_link *l = &k->links[i];
        if (l->state != ATTACHED) continue;
        if (!l->receives && l->lane.drain && l->lane.credit && !l->number && (obliging || one_in(2)))
              lane_drained(&l->lane);
        if (!l->lane.tell) continue;
        say_flow(k, l);
        return true;
    }
    if (!k->s.tell) return false;
    say_flow(k, NULL);
    return true;
}

static bool client_connects(client *k)
{
    const uint32_t number = (uint32_t) (k - clients);
    if (obliging || leaving) return false;
    uint32_t worker = below(shared.workers);
    if (!processes[worker].alive) return false;
    int wire = wire_new((int) worker);
    if (wire < 0) return false;
    if (!worker_connect(worker, wire)) { wires[wire].used = false; return false; }
    *k = (client) { .connected = true, .wire = wire, .places = CLIENT_LINKS,
                    .router = (uint8_t) (number < network.neighbours ? number + 1 : 0) };
    const uint32_t place = number - network.neighbours;
    k->broker = !k->router && brokers && (takers ? !place : one_in(brokers));
    k->taker = takers && !k->router && place <= SLOW_TAKER ? (enum taker) place : NO_TAKER;
    if (k->broker) k->places = 1;
    say_open(k);
    total.connections++;
    return true;
}

static void link_leaves(client *k, peer_link *l)
{
    uint32_t handle = (uint32_t) (l - k->links);
    say_end(k, handle, LANE_DETACH);
    for (uint32_t i = 0; i < OUTSTANDING; i++) {
        if (k->sent[i].used && k->sent[i].link == handle) {
            ledger.all[k->sent[i].number].flags &= (uint8_t) ~ALIVE;
            known_end(&k->sent[i], &k->sent_count);
        }
        if (k->got[i].used && k->got[i].link == handle) known_end(&k->got[i], &k->got_count);
    }
    l->state = LEAVING;
    people_disturbed();
}

static bool client_ends(client *k)
{
    if (!quarrels && !leaving) return false;
    if (!leaving && !one_in(3)) {
        peer_link *l = &k->links[below(k->places)];
        if (l->state != ATTACHED || l->kind == CONTROL_KIND || one_in(2)) return false;
        link_leaves(k, l);
        return true;
    }
    if (one_in(2)) {
        total.vanished++;
        connection_over(k);
        return true;
    }
    if (!k->begun || k->closing) return false;
    for (uint32_t i = 0; i < k->places; i++) {
        if (k->links[i].state != ATTACHED || (k->router && !leaving) || !one_in(2)) continue;
        link_leaves(k, &k->links[i]);
        return true;
    }
    say_end(k, 0, LANE_CLOSE);
    k->closing = true;
    if (k->router) people_disturbed();                 /* its links go with it */
    return true;
}

static bool client_obliges(client *k)
{
    bool did = false;
    if (client_hears(k)) return true;
    if (!k->begun || !may_say(k)) return false;
    for (uint32_t i = 0; i < k->places; i++) {
        peer_link *l = &k->links[i];
        if (l->state != ATTACHED) continue;
        if (l->receives) did |= receiver_grants(k, l);
        else if (l->number) did |= sender_sends(k, l);
    }
    return client_due(k) || receiver_answers(k) || sender_settles(k, false) || did;
}

#include "tests/simulation/depth/takers.h"

bool client_step(uint32_t number)
{
    client *k = &clients[number];
    bool done;
    if (!k->connected) return one_in(4) && client_connects(k);
    if (k->taker && taker_step(k, &done)) return done;
    if (takers && k->broker && !obliging && !leaving && broker_feeds(k)) return true;
    if (leaving && may_say(k) && client_ends(k)) return true;
    if (obliging || leaving) return client_obliges(k);
    if (one_in(3) && client_hears(k)) return true;
    if (!k->begun || !may_say(k)) return client_hears(k);
    peer_link *l = &k->links[below(k->places)];
    switch (below(64)) {
    case 0: if (one_in(4)) return client_ends(k); break;
    case 1: case 2: return sender_settles(k, one_in(8));
    case 3: case 4: case 5: case 6: case 7: case 8: return client_due(k);
    case 9:
        if (l->state != ATTACHED || !l->receives || !l->lane.credit) return false;
        l->lane.drain = true;
        say_flow(k, l);
        return true;
    case 10: case 11: case 12: case 13: case 14: case 15: case 16: case 17: case 18: case 19: case 20: case 21:
        return receiver_answers(k);
    case 22: case 23: case 24: case 25: return client_hears(k);
    default: break;
    }
    if (k->router && one_in(200)) {
        network_changes();
        ledger.moved = ledger.count + 1;
    }
    if (l->state == DETACHED && !k->broker && !one_in(4)) {
        if (k->router) neighbour_attach(k, (uint32_t) (l - k->links));
        else say_attach(k, (uint32_t) (l - k->links));
        return true;
    }
    if (l->state != ATTACHED) return client_hears(k);
    if (l->kind == CONTROL_KIND) return client_hears(k);
    return l->receives ? receiver_grants(k, l) : sender_sends(k, l);
}

void people_begin(bool feeds)
{
    takers = feeds;
    memset(clients, 0, sizeof clients);
    ledger.count = ledger.calm = ledger.moved = ledger.rested = 0;
    names = 0;
    brokers = one_in(2) ? 2 + below(3) : 0;
    obliging = leaving = false;
    if (takers) brokers = 1;
    quarrels = !one_in(4);
    for (uint32_t i = 0; i < sizeof ledger.pattern; i++) ledger.pattern[i] = (uint8_t) (i * 2654435761u >> 24);
}

void people_oblige(bool on) { obliging = on; }

bool people_goodbye(void)
{
    leaving = true;
    for (uint32_t i = 0; i < CLIENTS; i++) if (clients[i].connected) return false;
    return true;
}

void people_disturbed(void) { ledger.calm = ledger.count + 1; }

#include "tests/simulation/depth/people_checks.h"

#endif
