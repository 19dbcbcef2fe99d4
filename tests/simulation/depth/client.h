/* A client: what it says, and what it makes of what it hears.  It keeps its side of the protocol, and checks the
 * router's. */
#ifndef ROUTERD_TESTS_SIMULATION_CLIENT_H
#define ROUTERD_TESTS_SIMULATION_CLIENT_H

#include "tests/simulation/depth/annotated.h"

enum { OUTSTANDING = 320, SENDERS_KNOWN = 64, LATELY = 1024, FRAME_ROOM = 5000, LARGEST_GRANT = 20 };

enum taker { NO_TAKER, IDLE_TAKER, SLOW_TAKER };
enum peer_state { DETACHED, ASKED, ATTACHED, LEAVING };

typedef struct {                       /* a link, as a client knows it */
    enum peer_state state;
    bool receives, heard, sends_settled;
    uint8_t address, sender_mode;      /* of a sender: ANONYMOUS; snd-settle-mode */
    bool second;                       /* rcv-settle-mode second: it waits for its sender to settle */
    bool fed;                          /* a taker's: it has all the credit that it gets (takers.h) */
    uint32_t name, there;              /* a number of each link; the router's handle */
    lane_link lane;
    uint32_t number, at, id;           /* the message on its way (0: none), octets of it */
    bool settled, nameless;            /* that delivery; its number is not known yet */
    bool early, waits;                 /* a receiver has settled it, or said an outcome, before it had all of it */
    uint8_t kind, router;              /* between routers: of the link, and the neighbour; else 0 */
    bool parsed, wrapped;              /* the prelude of what comes is over; what comes is wrapped: a tee's copy */
    annotated said;                    /* by it */
    uint8_t to[ADDRESS_OCTETS];
    uint8_t owner;                     /* a client's link: which client's */
    stops onward, back;                /* source routes in what comes */
    bool comes_settled;                /* its first TRANSFER says so */
    uint8_t head[HEAD_OCTETS];
    uint32_t last[SENDERS_KNOWN], of[SENDERS_KNOWN];   /* the last message of each sender */
} peer_link;

typedef struct { uint32_t id, number; uint8_t link, said; bool used, over; } delivery_known;

typedef struct {
    bool connected, headed, begun, closing;
    uint8_t router;                    /* it is a neighbour; 0: a client */
    bool broker;                       /* it is behind the link route: the router attaches, in a session of its own */
    enum taker taker;
    uint64_t deaf_until, deaths;       /* it hears nothing until then; deaths until it began that */
    int wire;
    uint16_t channel;                  /* the router's */
    uint32_t max_frame, unparsed;
    lane_session s;
    uint32_t places;                   /* of links: those in use are among them */
    peer_link links[BROKER_LINKS];
    delivery_known sent[OUTSTANDING], got[OUTSTANDING];
    uint32_t sent_count, got_count;
    uint64_t settled[LATELY];          /* the deliveries that the router has settled lately: their ids plus 1 */
} client;

static client clients[CLIENTS];
static uint32_t names, brokers;        /* brokers: one in so many clients is one; 0: none */
static bool takers;                    /* a broker feeds receivers who take little (takers.h) */
static prelude preludes[NEXT][NEIGHBOURS_LINKS];   /* of what neighbours send or get */
static prelude annotations[CLIENTS][BROKER_LINKS]; /* the same of clients, with source routes */

#include "tests/simulation/depth/client_says.h"
#include "tests/simulation/depth/neighbours.h"
#include "tests/simulation/depth/client_routes.h"
static void slow_heard(const peer_link *l);  /* takers.h */

/* ---- deliveries ---- */

static delivery_known *known_new(delivery_known *of, uint32_t *count)
{
    for (uint32_t i = 0; i < OUTSTANDING; i++) if (!of[i].used) { ++*count; return &of[i]; }
    return NULL;
}

static delivery_known *known_find(delivery_known *of, uint32_t id)
{
    for (uint32_t i = 0; i < OUTSTANDING; i++) if (of[i].used && of[i].id == id) return &of[i];
    return NULL;
}

static void known_end(delivery_known *d, uint32_t *count) { d->used = false; --*count; }

/* A link is gone: nobody waits for its deliveries. */
static void link_over(client *k, uint32_t handle)
{
    peer_link *l = &k->links[handle];
    if (l->state == DETACHED) return;
    for (uint32_t i = 0; i < OUTSTANDING; i++) {
        if (k->sent[i].used && k->sent[i].link == handle) {
            ledger.all[k->sent[i].number].flags &= (uint8_t) ~ALIVE;
            known_end(&k->sent[i], &k->sent_count);
        }
        if (k->got[i].used && k->got[i].link == handle) known_end(&k->got[i], &k->got_count);
    }
    if (!l->receives && l->number) ledger.all[l->number].flags &= (uint8_t) ~ALIVE;
    l->state = DETACHED;
    people_disturbed();
}

static void connection_over(client *k)
{
    if (!k->connected) return;
    for (uint32_t i = 0; i < k->places; i++) link_over(k, i);
    lane_session_end(&k->s);
    wire_hang_up(k->wire);
    k->connected = false;
    people_disturbed();
}

/* ---- what it hears ---- */

static peer_link *heard_link(client *k, uint32_t handle)
{
    for (uint32_t i = 0; i < k->places; i++)
        if (k->links[i].state != DETACHED && k->links[i].heard && k->links[i].there == handle) return &k->links[i];
    return NULL;
}

/* What an ATTACH says of the settle modes of sender and receiver. */
static void modes_heard(const lane_frame *f, uint8_t modes[2])
{
    lane_fields fields = f->fields;
    for (int i = 0; i < 3; i++) field_next(&fields);
    for (int i = 0; i < 2; i++) {
        amqp_value v = field_next(&fields);
        modes[i] = v.at && v.size == 2 ? v.at[1] : i ? 0 : PN_SND_MIXED;
    }
}

/* The router attaches a link of a link route: a broker answers, or refuses. */
static void broker_heard(client *k, const lane_frame *f, const lane_attach *a, uint32_t name)
{
    uint32_t handle = 0;
    uint8_t modes[2];
    while (handle < k->places && k->links[handle].state != DETACHED) handle++;
    HOLDS(handle < BROKER_LINKS, "too many links to a broker");
    if (handle == k->places) k->places++;
    peer_link *l = &k->links[handle];
    modes_heard(f, modes);
    *l = (peer_link) { .owner = (uint8_t) (k - clients), .state = ATTACHED, .receives = !a->receiver, .heard = true,
                       .name = name, .address = ROUTED,
                       .there = a->handle, .sender_mode = modes[0], .second = modes[1],
                       .sends_settled = modes[0] == PN_SND_SETTLED };
    l->lane = (lane_link) { .handle = handle, .outgoing = !l->receives, .count = l->receives ? a->count : 7 };
    const bool refused = one_in(12);
    say_link(k, handle, a->name, refused);
    if (!refused) return;
    say_end(k, handle, LANE_DETACH);
    l->state = LEAVING;
}

static void attach_heard(client *k, const lane_frame *f)
{
    lane_attach a;
    uint32_t handle, name;
    HOLDS(!lane_attach_read(f, &a), "an ATTACH makes no sense");
    HOLDS(sscanf((const char *) a.name.at, "%u.%u", &handle, &name) == 2, "an ATTACH of another");
    if (k->broker) { broker_heard(k, f, &a, name); return; }
    HOLDS(handle < k->places, "an ATTACH of another");
    peer_link *l = &k->links[handle];
    HOLDS(l->state != DETACHED && l->name == name && !l->heard && a.receiver == !l->receives, "an ATTACH of no link");
    HOLDS(!heard_link(k, a.handle), "the router uses handle %u twice", a.handle);
    l->heard = true;
    l->there = a.handle;
    if (l->receives) l->lane.count = a.count;
    if (l->state == ASKED) l->state = ATTACHED;
}

static void detach_heard(client *k, const lane_frame *f)
{
    static const char taken[] = "takes nothing";
    lane_ending e;
    uint32_t there;
    HOLDS(!lane_detach_read(f, &there), "a DETACH makes no sense");
    peer_link *l = heard_link(k, there);
    HOLDS(l, "a DETACH of no link");
    HOLDS(!lane_ending_read(f, &e), "a DETACH makes no sense");
    if (e.description.at && memmem(e.description.at, e.description.size, taken, sizeof taken - 1)) slow_heard(l);
    uint32_t handle = (uint32_t) (l - k->links);
    if (l->state != LEAVING) {
        HOLDS(l->address == UNAVAILABLE || l->address == ROUTED || (tables.on && l->address == TABLE),
              "the router detaches link %u", handle);
        say_end(k, handle, LANE_DETACH);
    }
    link_over(k, handle);
}

static void flow_heard(client *k, const lane_frame *f)
{
    lane_flow flow;
    HOLDS(!lane_flow_read(f, &flow), "a FLOW makes no sense");
    peer_link *l = flow.has_handle ? heard_link(k, flow.handle) : NULL;
    HOLDS(l || !flow.has_handle, "a FLOW of no link");
    lane_heard heard = lane_hear(&k->s, l ? &l->lane : NULL, &flow);
    if (!l) return;
    if (l->receives) { if (heard.returned || !l->lane.credit) l->lane.drain = false; return; }
    if (l->address == ROUTED) return;                      /* what the other end gives */
    const uint32_t most = listener_terms.capacity ? listener_terms.capacity : ROUTERD_LINK_CREDIT_MOST;
    HOLDS(l->lane.credit <= most, "a sender has %u credit of %u", l->lane.credit, most);
}

/* The number of the message that comes is known. */
static void transfer_named(peer_link *l)
{
    l->number = be32(l->head + NUMBER_AT + 4);
    l->nameless = false;
    HOLDS(!be32(l->head + NUMBER_AT), "what comes has no number");
    message_comes(l->number);
    const message *m = &ledger.all[l->number];
    if (l->kind) neighbour_gets(l);
    else if (m->properties) message_at_endpoint(l->number, l->address);
    else if (m->sourced.on) message_by_route(l->number, l->address, &l->onward, &l->back, l->comes_settled);
    else HOLDS(m->address == l->address, "message %u to address %u comes to %u", l->number, m->address, l->address);
    uint32_t place = m->sender % SENDERS_KNOWN;
    /* a table may name an endpoint twice, and a tee may copy to where the message goes */
    const bool again = (m->properties || m->sourced.on) && l->last[place] == l->number;
    HOLDS(l->of[place] != m->sender || again || l->last[place] < l->number,
          "message %u of sender %u comes behind %u", l->number, m->sender, l->last[place]);
    l->of[place] = m->sender;
    l->last[place] = l->number;
}

static void octets_heard(peer_link *l, const uint8_t *octets, uint32_t size)
{
    static uint8_t expected[FRAME_ROOM];
    if (l->nameless) {
        uint32_t n = size < HEAD_OCTETS - l->at ? size : HEAD_OCTETS - l->at;
        memcpy(l->head + l->at, octets, n);
        l->at += n;
        octets += n;
        size -= n;
        if (l->at < HEAD_OCTETS) return;
        transfer_named(l);
        message_write(l->number, 0, HEAD_OCTETS, expected);
        HOLDS(!memcmp(l->head, expected, HEAD_OCTETS), "the beginning of message %u is another one", l->number);
    }
    HOLDS(l->at + size <= ledger.all[l->number].length, "message %u has %u octets, %u come", l->number,
          ledger.all[l->number].length, l->at + size);
    HOLDS(size <= sizeof expected, "a TRANSFER of %u octets", size);
    message_write(l->number, l->at, size, expected);
    HOLDS(!memcmp(octets, expected, size), "octets of message %u behind %u are others", l->number, l->at);
    l->at += size;
}

/* The same of a link between routers: the prelude first. */
static void annotated_heard(peer_link *l, const uint8_t *octets, uint32_t size)
{
    prelude *p = prelude_of(l);
    if (!l->parsed) {
        const uint32_t n = size < PRELUDE_ROOM - p->size ? size : PRELUDE_ROOM - p->size;
        memcpy(p->octets + p->size, octets, n);
        p->size += n;
        octets += n;
        size -= n;
        const uint32_t place = l->kind ? prelude_place(network.form[l->router]) : HEADER_OCTETS;
        const uint32_t used = l->kind ? prelude_over(l) : routes_over(l);
        HOLDS(used || !size, "annotations have more than %u octets", p->size);
        if (!used) return;
        l->parsed = true;
        if (l->wrapped) return;
        octets_heard(l, p->octets, place);
        octets_heard(l, p->octets + used, p->size - used);
    }
    if (size && !l->wrapped) octets_heard(l, octets, size);
}

/* It has read enough of a message. */
static void early_outcome(client *k, peer_link *l)
{
    if (l->second) l->waits = true;
    else l->early = true;
    message_said(l->number, S_ACCEPTED);
    ledger.all[l->number].whole++;
    say_disposition(k, true, l->early, l->id, S_ACCEPTED);
}

static void transfer_heard(client *k, const lane_frame *f)
{
    lane_transfer t;
    lane_piece piece;
    HOLDS(!lane_transfer_read(f, &t), "a TRANSFER makes no sense");
    peer_link *l = heard_link(k, t.handle);
    HOLDS(l, "a TRANSFER of no link");
    enum lane_fault fault = lane_receive(&k->s, &l->lane, &t, &piece);
    HOLDS(!fault, "a TRANSFER: %s", lane_faults[fault].description);
    if (piece.first) {
        l->nameless = true;
        l->early = l->waits = l->parsed = l->wrapped = false;
        prelude_of(l)->size = 0;
        l->onward.count = l->back.count = 0;
        l->comes_settled = piece.settled;
        l->at = l->number = 0;
        l->id = l->lane.id;
        HOLDS(t.tag.at, "a first TRANSFER has no tag");
        HOLDS(!known_find(k->got, l->id), "delivery %u comes twice", l->id);
    }
    if (l->state != ATTACHED) return;
    if (l->kind || (sourced.on && l->address != ROUTED)) annotated_heard(l, f->payload, f->payload_size);
    else octets_heard(l, f->payload, f->payload_size);
    HOLDS(!l->wrapped || piece.settled, "what is wrapped comes unsettled");
    if (l->wrapped) return;
    if (!piece.last) {
        if (piece.settled || l->nameless || l->early || l->waits) return;
        if (one_in(20) && may_say(k)) early_outcome(k, l);
        return;
    }
    if (l->early) return;
    HOLDS(!l->sends_settled || piece.settled, "a receiver of settled messages gets one that is not");
    if (!piece.aborted) {
        HOLDS(!l->nameless && l->at == ledger.all[l->number].length, "a message ends after %u octets", l->at);
        if (!l->waits) message_complete(l->number, piece.settled);
    }
    if (piece.settled) return;
    delivery_known *d = known_new(k->got, &k->got_count);
    HOLDS(d, "too many deliveries");
    *d = (delivery_known) { .id = l->id, .number = l->number, .link = (uint8_t) (l - k->links), .used = true,
                            .over = l->waits };
}

/* Of what it has sent. */
static void outcome_heard(client *k, const lane_disposition *d, uint32_t id)
{
    delivery_known *s = known_find(k->sent, id);
    uint32_t code = d->state.at ? lane_state_code(d->state) : 0;
    if (d->settled) {
        HOLDS(k->settled[id % LATELY] != (uint64_t) id + 1, "delivery %u is settled twice", id);
        k->settled[id % LATELY] = (uint64_t) id + 1;
    }
    /* it has settled it itself, or its link is gone: the DISPOSITION was on its way */
    if (!s) return;
    if (!d->settled) {
        message_told(s->number, code, false);
        s->said |= state_bit(code);
        return;
    }
    if (!code && s->said) code = 0;
    message_told(s->number, code, true);
    peer_link *l = &k->links[s->link];
    s->over = true;
    if (l->number == s->number) return;                        /* it goes on sending it */
    known_end(s, &k->sent_count);
}

static void disposition_heard(client *k, const lane_frame *f)
{
    lane_disposition d;
    HOLDS(!lane_disposition_read(f, &d), "a DISPOSITION makes no sense");
    HOLDS(d.last - d.first < OUTSTANDING, "a DISPOSITION of %u deliveries", d.last - d.first + 1);
    for (uint32_t id = d.first; (int32_t) (d.last - id) >= 0; id++) {
        if (d.receiver) { outcome_heard(k, &d, id); continue; }
        delivery_known *g = known_find(k->got, id);
        if (g && d.settled) known_end(g, &k->got_count);
    }
}

static const char *printable(const uint8_t *octets, size_t size)
{
    static char text[160];
    if (size >= sizeof text) size = sizeof text - 1;
    for (size_t i = 0; i < size; i++) text[i] = octets[i] < ' ' || octets[i] > '~' ? ' ' : (char) octets[i];
    text[size] = 0;
    return text;
}

static void frame_heard(client *k, const uint8_t *octets, size_t size)
{
    lane_frame f;
    lane_begin b;
    HOLDS(!lane_frame_read(octets, size, &f), "a frame makes no sense");
    switch (f.performative) {
    case 0: case LANE_OPEN: return;
    case LANE_BEGIN:
        HOLDS(!lane_begin_read(&f, &b) && b.answers == !k->broker && !b.remote_channel && !k->begun,
              "a BEGIN makes no sense");
        if (k->broker) { say_begin(k, &b); return; }
        lane_session_begun(&k->s, &b);
        k->begun = true;
        if (k->router) neighbour_attaches(k);
        return;
    case LANE_ATTACH: attach_heard(k, &f); return;
    case LANE_DETACH: detach_heard(k, &f); return;
    case LANE_FLOW: flow_heard(k, &f); return;
    case LANE_TRANSFER: transfer_heard(k, &f); return;
    case LANE_DISPOSITION: disposition_heard(k, &f); return;
    case LANE_CLOSE:
        HOLDS(k->closing, "the router closes a connection: %s", printable(octets, size));
        connection_over(k);
        return;
    default: HOLDS(false, "performative %#x", f.performative);
    }
}

/* Hears some of what is there; false: nothing is. */
static bool client_hears(client *k)
{
    wire_way *y = &wires[k->wire].out;
    uint32_t there = y->end - y->at;
    if (there <= k->unparsed && y->closed) { connection_over(k); return true; }
    if (there <= k->unparsed) return false;
    if (one_in(2)) there = k->unparsed + 1 + below(there - k->unparsed);
    k->unparsed = 0;
    if (!k->headed) {
        if (there < 8) { k->unparsed = there; return true; }
        HOLDS(!memcmp(y->octets + y->at, "AMQP", 4), "no header");
        y->at += 8;
        there -= 8;
        k->headed = true;
    }
    while (k->connected && there) {
        size_t size = lane_frame_size(y->octets + y->at, there, k->max_frame);
        HOLDS(size != AMQP_WRONG, "the router writes no frame, or a longer one than %u", k->max_frame);
        if (!size || size > there) { k->unparsed = there; break; }
        frame_heard(k, y->octets + y->at, size);
        y->at += (uint32_t) size;
        there -= (uint32_t) size;
    }
    return true;
}

#include "tests/simulation/depth/people.h"

#endif
