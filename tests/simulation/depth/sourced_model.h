/* Who configures route workers, and the judge of messages that pass them (docs/source-routes.md, Workers). */
#ifndef ROUTERD_TESTS_SIMULATION_SOURCED_MODEL_H
#define ROUTERD_TESTS_SIMULATION_SOURCED_MODEL_H

#include "shm/codec/scan.h"
#include "tests/simulation/depth/sourced.h"

sourced_view sourced;

/* ---- versions ---- */

static uint8_t some_node(void) { return (uint8_t) (NODE + below(ROUTE_NODES)); }
static uint8_t some_end(void)
{
    static const uint8_t ends[] = { 0, 1, 2, 4, 5, 6 };
    return ends[below(sizeof ends)];
}

/* What wraps sends to another node: one that unwraps, or does not. */
static route_node some_work(void)
{
    route_node n = { .kind = (uint8_t) (1 + below(NODE_KINDS - 1)), .traces = one_in(2) };
    const bool leads = n.kind == NODE_STATIC || n.kind == NODE_EXTEND || n.kind == NODE_WRAP;
    if (leads) n.stops = (uint8_t) (1 + below(NODE_ROUTE));
    for (uint32_t i = 0; i < n.stops; i++) n.route[i] = some_node();
    if (n.kind == NODE_TEE) { n.stops = 1; n.route[0] = one_in(3) ? some_node() : some_end(); }
    if (n.kind == NODE_TEE || n.kind == NODE_EXTEND) n.traces = true;
    if (n.kind == NODE_STATIC || n.kind == NODE_WRAP) n.traces = false;
    return n;
}

void sourced_change(void)
{
    if (sourced.count + 1 >= NODE_VERSIONS) return;
    const nodes_version *last = &sourced.version[sourced.count];
    nodes_version *v = &sourced.version[++sourced.count];
    *v = *last;
    for (uint32_t i = 0; i < ROUTE_NODES; i++)
        if (sourced.count == 1 || one_in(4)) v->node[i] = one_in(4) ? (route_node) { 0 } : some_work();
    for (uint32_t w = 0; w < shared.workers; w++) shared.wake[w] = true;
}

void sourced_begin(bool on)
{
    static const uint32_t changes[] = { 50, 200, 1000, 4000 };
    memset(&sourced, 0, sizeof sourced);
    if (!on) return;
    sourced.on = true;
    sourced.changes = changes[below(4)];
    sourced_change();
}

/* ---- what Python compiles (workers/source_routes/table.py) ---- */

static uint8_t *put_le(uint8_t *to, uint64_t n, uint32_t octets)
{
    for (uint32_t i = 0; i < octets; i++) to[i] = (uint8_t) (n >> 8 * i);
    return to + octets;
}

static uint8_t *put_stop_of(uint8_t *to, uint8_t address)
{
    to = put_le(put_le(to, 0, 1), ADDRESS_OCTETS, 2);
    memcpy(to, address_text(address), ADDRESS_OCTETS);
    return to + ADDRESS_OCTETS;
}

static uint8_t *put_node(uint8_t *to, uint32_t place, const route_node *n)
{
    /* in the order of enum route_kind: what the nodes are there */
    static const uint8_t kinds[NODE_KINDS] = { 0, 0, 1, 3, 9, 7, 8 };
    to = put_le(to, kinds[n->kind], 1);
    to = put_le(to, 0, 7);             /* AMQP, no cutting, no metadata, no scopes */
    to = put_le(to, 0xffff, 2);        /* nobody asks for it as a source */
    to = put_stop_of(put_stop_of(to, (uint8_t) (NODE + place)), (uint8_t) (NODE + place));
    to = put_le(to, 0, 2 + 32);        /* all may send */
    to = put_le(to, 0, 1);             /* no inner address */
    to = put_le(to, n->traces, 1);
    if (n->traces) to = put_stop_of(to, (uint8_t) (NODE + place));
    to = put_le(to, n->stops, 2);
    for (uint32_t i = 0; i < n->stops; i++) to = put_stop_of(to, n->route[i]);
    return put_le(to, 0, 3 * 2 + 32 + 1);
}

uint32_t sourced_table(uint32_t version, uint8_t *to)
{
    const nodes_version *v = &sourced.version[version];
    static const uint8_t limits[] = { SOURCE_HOPS, SOURCE_ONWARD, SOURCE_RETURN, 8, 16, 255, 0, 0, 16, 0, 4, 0 };
    uint8_t *at = to;
    uint32_t count = 0;
    memcpy(at, limits, sizeof limits);
    for (uint32_t i = 0; i < ROUTE_NODES; i++) count += v->node[i].kind != NODE_ABSENT;
    at = put_le(put_le(at + sizeof limits, 0, 2), count, 2);
    for (uint32_t i = 0; i < ROUTE_NODES; i++) if (v->node[i].kind) at = put_node(at, i, &v->node[i]);
    HOLDS(at - to <= NODE_TABLE, "a table of route workers has %zu octets", (size_t) (at - to));
    return (uint32_t) (at - to);
}

/* ---- messages ---- */

sourced_way sourced_new(uint32_t worker, uint8_t address)
{
    sourced_way w = { .on = true, .worker = (uint8_t) worker, .from = sourced.used[worker] };
    for (uint32_t i = below(SENT_STOPS); i; i--) w.onward.stop[w.onward.count++] = some_node();
    w.onward.stop[w.onward.count++] = address;
    for (uint32_t i = below(3); i; i--) w.back.stop[w.back.count++] = (uint8_t) below(ADDRESSES);
    return w;
}

static uint8_t *put_stops(uint8_t *to, const char *name, const stops *s)
{
    to = amqp_put_octets(to, AMQP_SYMBOL8, name, (uint32_t) strlen(name));
    uint8_t *head = to, *items = to + 9, *end = items;
    for (uint32_t i = 0; i < s->count; i++)
        end = amqp_put_octets(end, AMQP_STRING8, address_text(s->stop[i]), ADDRESS_OCTETS);
    amqp_put_items_head(head, AMQP_LIST32, (uint32_t) (end - items), s->count);
    return end;
}

uint32_t sourced_put(const sourced_way *way, uint8_t *to)
{
    uint8_t *head = amqp_put_descriptor(to, SECTION_MESSAGE_ANNOTATIONS), *items = head + 9, *end = items;
    uint32_t count = 2;
    if (way->back.count) end = put_stops(end, "x-opt-route.return", &way->back), count += 2;
    end = put_stops(end, "x-opt-route.onward", &way->onward);
    amqp_put_items_head(head, AMQP_MAP32, (uint32_t) (end - items), count);
    return (uint32_t) (end - to);
}

/* ---- the judge ---- */

static bool stops_put(stops *s, const uint8_t *stop, uint32_t count)
{
    if (s->count + count > ROUTE_LONGEST) return false;
    memmove(s->stop + count, s->stop, s->count);
    memcpy(s->stop, stop, count);
    s->count = (uint8_t) (s->count + count);
    return true;
}

static uint8_t stops_take(stops *s)
{
    const uint8_t first = s->stop[0];
    memmove(s->stop, s->stop + 1, --s->count);
    return first;
}

static bool stops_same(const stops *a, const stops *b)
{
    return a->count == b->count && !memcmp(a->stop, b->stop, a->count);
}

enum { WRAPS_MOST = 8 };

typedef struct { stops onward, back; uint32_t hops; } wrapped;

/* The way of a message or of a tee's copy; false: it is refused. */
static bool way_taken(const nodes_version *v, wrapped *level, uint32_t hops, sourced_end *end)
{
    uint32_t depth = 0;
    for (;;) {
        wrapped *l = &level[depth];
        const uint8_t at = l->onward.stop[0];
        const route_node *n = at >= NODE ? &v->node[at - NODE] : NULL;
        if (!n || !n->kind) {
            end->onward = l->onward;
            end->back = l->back;
            return true;
        }
        if (hops++ >= SOURCE_HOPS) return false;
        (void) stops_take(&l->onward);
        if (n->kind == NODE_WRAP) {
            if (!l->onward.count || depth == WRAPS_MOST) return false;
            l = &level[++depth];
            memset(l, 0, sizeof *l);
        }
        if (n->kind == NODE_UNWRAP) {
            if (l->onward.count || !depth) return false;
            l = &level[--depth];
        }
        if (n->kind != NODE_TEE && !stops_put(&l->onward, n->route, n->stops)) return false;
        if (!l->onward.count) return false;
        if (n->traces && !stops_put(&l->back, &at, 1)) return false;
        if (l->onward.count > SOURCE_ONWARD || l->back.count > SOURCE_RETURN) return false;
        end->tees |= n->kind == NODE_TEE;
    }
}

static sourced_end sourced_ends(uint32_t version, const sourced_way *way)
{
    static wrapped level[WRAPS_MOST + 2];
    sourced_end end = { 0 };
    level[0] = (wrapped) { .onward = way->onward, .back = way->back };
    end.refused = !way_taken(&sourced.version[version], level, 0, &end);
    return end;
}

/* Whether a copy of a tee can come to an address: one of the tees that it passed may lead there. */
static bool tee_leads(const nodes_version *v, uint8_t address)
{
    for (uint32_t i = 0; i < ROUTE_NODES; i++)
        if (v->node[i].kind == NODE_TEE && (v->node[i].route[0] == address || v->node[i].route[0] >= NODE)) return true;
    return false;
}

enum sourced_copy sourced_comes(const sourced_way *way, uint8_t address, const stops *onward, const stops *back)
{
    enum sourced_copy found = COPY_NONE;
    for (uint32_t i = way->from; i <= sourced.used[way->worker]; i++) {
        const sourced_end end = sourced_ends(i, way);
        if (end.refused) continue;
        if (end.onward.stop[0] == address && stops_same(&end.onward, onward) && stops_same(&end.back, back))
            return COPY_MAIN;
        if (end.tees && tee_leads(&sourced.version[i], address)) found = COPY_OF_TEE;
    }
    return found;
}

/* What its sender was told of one that nobody got. */
bool sourced_rests(const sourced_way *way, uint32_t told)
{
    for (uint32_t i = way->from; i <= sourced.used[way->worker]; i++)
        if (sourced_ends(i, way).refused == (told == S_REJECTED)) return true;
    return false;
}

static void stops_text(const stops *s, char *to, size_t room)
{
    size_t n = strlen(to);
    for (uint32_t i = 0; i < s->count && n + 8 < room; i++) n += (size_t) sprintf(to + n, " %u", s->stop[i]);
}

/* What its sender wrote, what has come of it, and what the first version makes of it. */
void sourced_text(const sourced_way *w, const stops *onward, const stops *back, char *to, size_t room)
{
    const sourced_end e = sourced_ends(w->from, w);
    const stops *all[] = { &w->onward, &w->back, onward, back, &e.onward, &e.back };
    snprintf(to, room, "worker %u, versions %u to %u:", w->worker, w->from, sourced.used[w->worker]);
    for (uint32_t i = 0; i < 6; i++) {
        stops_text(all[i], to, room);
        if (strlen(to) + 8 < room) strcat(to, i & 1 ? ";" : " /");
    }
}

#endif
