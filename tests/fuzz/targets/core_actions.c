/* Invariant: whatever stands in the action rings and arenas of the workers, the core neither crashes nor touches a byte
 * outside its segments and its own tables, and gives back all its memory in the end.
 *
 * Records are random, but often nearly right: small indices, handles that were once given out, blocks that exist.
 * Each segment is an allocation of its own, for AddressSanitizer.
 */
#include "tests/fuzz/parts/input.h"

#define MANY_COPIES 2u                 /* few receivers are many here */
#define WORKER_BEHIND 20u
#define FAN_TURN 3u                    /* and seldom served in one turn */
#define FAN_PORTION 2u
#define TELL_PORTION 2u
#define LEAVE_PORTION 2u
#define RANK_FEW 2u
#define ALIAS_BYTES (20u * 1100u)
#include "core/forwarder/unity.c"

#define WORKERS 2u
#define ARENA_BYTES (192u * 1024u)
#define ROUTERS 4u
#define PLACES 4u
#define SEEN 32u                       /* handles of the core that each worker remembers */

#include "tests/fuzz/parts/promises.h"
#include "tests/fuzz/parts/routes.h"

static void *segment(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, bytes)) exit(2);
    memset(memory, 0, bytes);
    return memory;
}

typedef struct { uint64_t at[SEEN]; uint32_t count; } handles;

static uint64_t some_handle(const handles *seen)
{
    switch (below(6)) {
    case 0: case 1: case 2: return seen->count ? seen->at[below(seen->count < SEEN ? seen->count : SEEN)] : 0;
    case 3: return routerd_handle(below(40), 1 + below(3));
    case 4: return 0;
    default: return any();
    }
}

static uint32_t some_block(const arena_view *v) { return below(8) ? below(arena_blocks(v)) : (uint32_t) any(); }

/* A record that a confused worker might write; one in eight is pure noise. */
static routerd_record some_record(const arena_view *arenas, uint32_t w, const handles *seen)
{
    static const uint8_t types[] = {A_DELIVER, A_DELIVER, A_DELIVER, A_CONTINUE, A_UPDATE, A_UPDATE, A_UPDATE, A_DONE,
        A_PROGRESS,
                                    A_DRAIN, A_DRAINED, A_FREE, A_WAITS, A_CONTROL, A_NONE, 255};
    static const uint32_t states[] = {0, S_RECEIVED, S_ACCEPTED, S_REJECTED, S_RELEASED, S_MODIFIED, S_DECLARED,
        S_TRANSACTIONAL, 77};
    routerd_record r = { 0 };
    if (below(2)) scribble(&r, sizeof r);
    if (below(8) == 7) return r;
    r.type = types[below(sizeof types)];
    r.arena = below(8) ? (uint8_t) w : (uint8_t) below(WORKERS + 2);
    if (below(2)) r.flags &= F_SETTLED | F_COMPLETE | F_EXTRACT;
    r.link = below(8) ? below(12) : (uint32_t) any();
    r.link_gen = below(8) ? 1 : (uint32_t) any();
    r.block = some_block(&arenas[below(8) ? w : below(WORKERS + 1)]);
    r.delivery = some_handle(seen);
    r.peer = some_handle(seen);
    r.state = states[below(sizeof states / sizeof *states)];
    r.credit = below(3) ? below(10) : (uint32_t) any();
    r.length = below(3) ? below(100000) : any();
    if (r.type == A_DELIVER && below(2)) {
        r.state = below(3);
        r.delivery = route_key((int32_t) (96 + below(10)), (int32_t) below(4) - 1);
        r.extra = below(2) ? below(40) | (uint64_t) below(5) << 32 : any();
        r.credit = below(2) ? below(40) : (uint32_t) any();
    }
    return r;
}

/* Scribbles on a block: content headers, next indices and lengths become lies. */
static void damage(const arena_view *v)
{
    static const uint8_t key[] = { AMQP_DESCRIBED, AMQP_SMALLULONG, SECTION_APPLICATION_PROPERTIES, AMQP_MAP8, 25, 4,
                                   AMQP_STRING8, 6, 'r', 'm', 'r', '.', 'm', 't', AMQP_SMALLINT, 101,
                                   AMQP_STRING8, 8, 'r', 'm', 'r', '.', 'm', 'e', 'i', 'd', AMQP_STRING8, 2, 'm', '1',
                                   0 };
    uint32_t index = below(arena_blocks(v));
    arena_block *b = arena_at(v, index);
    uint32_t size = arena_capacity(v, index, false);
    if (below(2)) atomic_store(&b->next, some_block(v));
    arena_content *c = arena_content_of(v, index);
    if (below(2)) {
        atomic_store(&c->length, below(2) ? below(2000) : any());
        c->key_block = below(2) ? ROUTERD_NIL : some_block(v);
        c->to_offset = below(2) ? below(600) : (uint32_t) any();
        c->to_length = below(2) ? 1 + below(8) : (uint32_t) any();
        c->annotations = (uint8_t) below(4);
        c->routed = (uint8_t) below(8);
        c->phase = (uint8_t) below(12);
        c->ingress = below(2) ? below(600) : (uint32_t) any();
        c->ingress_length = below(2) ? below(10) : (uint32_t) any();
        c->trace = below(2) ? below(600) : (uint32_t) any();
        c->trace_length = below(2) ? below(40) : (uint32_t) any();
        c->trace_count = below(2) ? below(4) : (uint32_t) any();
        c->section_end = (uint32_t) any();
        c->message_annotations = below(2) ? ARENA_NO_OFFSET : below(40);
        c->body = below(4) ? 0 : below(600);
        if (!c->body) memcpy(c + 1, key, sizeof key);
        uint8_t *digest = (uint8_t *) &c->extract;
        for (uint32_t i = 0; i < sizeof c->extract; i++)
            digest[i] = below(3) ? (uint8_t) (i % 4 ? 0 : any()) : (uint8_t) any();
    } else {
        b->data[below(size)] = (uint8_t) any();
    }
}

/* The flow log is on or off, and somebody reads it. */
static void telemetry(core_router *c, core_flow *f)
{
    c->flow = below(3) ? f : NULL;
    atomic_store(&f->view.header->tail, atomic_load(&f->view.header->head));
}

/* What Python would do when it is needed. */
static void python(core_router *c, enum core_stop stop, core_address **addresses)
{
    if (stop == STOP_UNKNOWN) {
        core_address *idle = NULL;
        alias_insert(c, c->text_scope, c->text, c->text_length, below(8) ? addresses[below(4)] : NULL, below(2));
        while (alias_evict(c, &idle)) continue;
        core_address *unused[ALIAS_IDLE_ROOM];
        uint64_t pause;
        alias_thin(c, unused, &pause);
        return;
    }
    if (stop == STOP_LOCAL) {
        routerd_record own;
        while (local_take(c, &own)) continue;
        c->network.thirsty = false;
        return;
    }
    uint32_t w = c->stop_worker;
    const arena_content *content = c->control.arena == w ? arena_content_of(&c->arena[w], c->control.block) : NULL;
    if (!content) return;
    uint64_t length = chain_length(content);
    if (length <= CONTENT_CONTROL_MAX) {
        uint8_t *copy = (uint8_t *) malloc((size_t) length + 1);
        if (content_copy(&c->arena[w], c->control.block, 0, copy, (uint32_t) length, CONTENT_HOPS) && length < 4096)
            core_post_control(c, w, C_ATTACHED, copy, (uint32_t) length);
        free(copy);
    }
    core_release(c, (uint8_t) w, c->control.block, NULL, 0);
}

/* Routers come and go, and so do their ways, connections and receivers. */
static void network(core_router *c, core_address **addresses)
{
    core_network *n = &c->network;
    uint32_t bit = 1 + below(ROUTERS), place = below(PLACES);
    core_address *a = addresses[below(4)];
    core_node *node = &n->node[bit];
    switch (below(8)) {
    case 0:
        if (!node->known) network_add(c, bit, (const uint8_t *) "0/x", 3);
        else if (!below(20)) network_remove(c, bit);
        break;
    case 1:
        if (node->known && n->node[1 + below(ROUTERS)].known)
            network_path(c, bit, below(8) ? (int) (1 + below(ROUTERS)) : -1, below(4), (core_mask) {{any(), any()}});
        break;
    case 2:
        if (node->known) network_neighbour(c, bit, n->neighbour[place].taken ? (int) place : -1);
        break;
    case 3:
        if (node->known) address_add_remote(c, a, bit);
        break;
    case 4: address_drop_remote(c, a, bit); break;
    case 5: n->radius = below(3); break;
    case 6: neighbour_take(c, below(2), below(2)); break;
    default:
        if (n->neighbour[place].taken && !below(20)) {
            for (uint32_t w = 0; w < WORKERS; w++)
                for (uint32_t i = 0; i < c->worker[w].link_room; i++) {
                    core_link *l = c->worker[w].link[i];
                    if (l && l->kind != LINK_ENDPOINT && l->neighbour == place) link_remove(c, l, below(2));
                }
            neighbour_give(c, place);
        }
    }
    if (!a->text && !below(100)) a->text = text_new((const uint8_t *) "address", 7);
    c->network.thirsty = false;
}

/* A link between routers. */
static void inter_router(core_router *c, uint32_t w, uint32_t link, bool outgoing, uint32_t place)
{
    core_link t = { .outgoing = outgoing, .capacity = 1 + below(20), .annotated = true };
    core_link *l = c->network.neighbour[place].taken ? link_place(c, w, link, 1, &t) : NULL;
    if (!l) return;
    l->kind = (uint8_t) (LINK_CONTROL + below(3));
    neighbour_add_link(c, l, place, below(ROUTERD_PRIORITIES));
    if (!outgoing) link_credit(c, l, 0);
}

static void control_plane(core_router *c, core_address **addresses, core_address *table)
{
    uint32_t w = below(WORKERS), link = below(12);
    network(c, addresses);
    bool outgoing = below(2);
    core_address *a = below(4) || outgoing ? addresses[below(4)] : NULL;
    core_link *known = link_find(c, w, link, 1);
    if (!known && !below(12)) {
        /* no link to a table: the core looks for the key of what comes */
        link_add(c, w, link, 1, &(core_link) { .address = table, .capacity = 1 + below(20), .to_table = link % 4 });
        return;
    }
    if (!known && !below(3)) inter_router(c, w, link, outgoing, below(PLACES));
    else if (!known) {
        core_link t = { .outgoing = outgoing, .address = a, .capacity = 1 + below(20), .settles = below(4) == 0,
                        .granted = below(4) ? 0 : (int64_t) below(40) - 10, .edge = below(4) ? 0 : 1 + below(3),
                        .fallback = below(8) == 0 };
        link_add(c, w, link, 1, &t);
    }
    else if (!below(10)) link_remove(c, known, below(2));
    if (below(2000)) return;
    uint32_t handled = 0;
    for (enum core_stop stop; (stop = core_batch(c, w, UINT32_MAX, &handled)) != STOP_NOTHING;)
        python(c, stop, addresses);
    core_reclaim(c, w);
}

/* A worker reads its work, and what waited for room in its ring, and remembers handles. */
static void listen(core_router *c, uint32_t w, routerd_consumer *work, handles *seen)
{
    ring_consume(work, c->worker[w].work.ring);
    for (bool more = true; more; core_flush_all(c)) {
        more = false;
        for (const routerd_record *r; (r = ring_peek(work)); ring_advance(work), more = true) {
            if (r->peer) seen->at[seen->count++ % SEEN] = r->peer;
            routerd_record done = {.type = A_FREE, .arena = r->arena, .block = r->block};
            if (r->type == W_CONTROL && below(50)) core_action(c, w, &done);  /* without it the core's arena fills up */
        }
        ring_return(work);
    }
}

typedef struct {
    core_router *c;
    core_flow *flow;
    core_flight flight;
    routerd_producer actions[WORKERS];
    routerd_consumer work[WORKERS];
    core_address *addresses[4];
    fuzz_routes tables;
    handles seen[WORKERS];
} world;

/* All inputs have the same segments: the flow log outlives a core, and the others are formatted anew. */
static struct { uint8_t *control, *rings, *memory[WORKERS + 1], *log, *flight; } segments;

static void segments_open(void)
{
    if (!segments.log) {
        segments.control = (uint8_t *) segment(layout_control_bytes(WORKERS));
        segments.rings = (uint8_t *) segment(layout_rings_bytes(WORKERS));
        for (uint32_t i = 0; i <= WORKERS; i++) segments.memory[i] = (uint8_t *) segment(ARENA_BYTES);
        segments.log = (uint8_t *) segment(telemetry_bytes());
        segments.flight = (uint8_t *) segment(flight_bytes(FLIGHT_LEAST));
    }
    memset(segments.control, 0, layout_control_bytes(WORKERS));
    layout_format_control(segments.control, WORKERS, ARENA_BYTES);
    for (uint32_t i = 0; i < WORKERS; i++) {
        CHECK(ring_format((routerd_ring *) (segments.rings + layout_action_ring(i)), 64)
              && ring_format((routerd_ring *) (segments.rings + layout_work_ring(i)), 64), "no ring");
    }
    for (uint32_t i = 0; i <= WORKERS; i++) {
        memset(segments.memory[i], 0, ARENA_BYTES);
        layout_format_arena(segments.memory[i], ARENA_BYTES);
    }
}

static void world_open(world *w)
{
    core_router *c = w->c = (core_router *) calloc(1, sizeof *c);
    segments_open();
    for (uint32_t i = 0; i <= WORKERS; i++)
        CHECK(arena_attach(&c->arena[i], segments.memory[i], ARENA_BYTES), "no arena");
    for (uint32_t i = 0; i < WORKERS; i++)
        CHECK(!setup_worker(c, i, segments.control, segments.rings, -1), "no worker");
    CHECK(!core_open(c, WORKERS, segments.control, 7), "no core");
    CHECK(flight_open(&w->flight, segments.flight, flight_bytes(FLIGHT_LEAST), &(flight_header) {.layout = 0}),
          "no ring");
    c->flight = &w->flight;
    w->flow = (core_flow *) calloc(1, sizeof *w->flow);
    flow_open(w->flow, segments.log, (const uint8_t *) "me", 2, 1, 7);
    for (uint8_t t = 0; t < 4; t++) {
        w->addresses[t] = (core_address *) pool_take(&c->addresses);
        w->addresses[t]->treatment = t;
        w->addresses[t]->priority = (int8_t) (t - 1);
    }
    w->tables.routes.address = (core_address *) pool_take(&c->addresses);
    w->tables.routes.address->priority = -1;
    address_set_routes(c, w->tables.routes.address, &w->tables.routes);
}

/* What a life begins with, so that messages go somewhere from the first one on. */
static void world_furnish(world *w)
{
    core_router *c = w->c;
    fuzz_renew(c, &w->tables);
    fuzz_owners(c, &w->tables.routes);
    fuzz_bind(&w->tables.routes.table->endpoints, w->addresses);
    fuzz_bind(&w->tables.routes.owners->endpoints, w->addresses);
    network_add(c, 1, (const uint8_t *) "0/x", 3);
    uint32_t place = (uint32_t) neighbour_take(c, 0, 0);
    for (uint32_t i = 0; i < WORKERS; i++) {
        for (uint32_t link = 0; link < 6; link++)
            link_add(c, i, link, 1, &(core_link) { .outgoing = link & 1, .address = w->addresses[link / 2],
                                                   .capacity = 20 });
        for (uint32_t link = 6; link < 8; link++)
            link_add(c, i, link, 1, &(core_link) { .address = w->tables.routes.address, .capacity = 20,
                                                   .to_table = link == 6 });
        inter_router(c, i, 8, true, place);
        inter_router(c, i, 9, false, place);
    }
    network_neighbour(c, 1, (int) place);
    network_path(c, 1, 1, 1, (core_mask) {{ UINT64_MAX, UINT64_MAX }});
    for (uint32_t i = 0; i < 4; i++) address_add_remote(c, w->addresses[i], 1);
    c->network.thirsty = false;
}

static void world_turn(world *w, uint32_t round)
{
    core_router *c = w->c;
    uint32_t worker = below(WORKERS);
    ring_produce(&w->actions[worker], c->worker[worker].actions.ring);
    for (uint32_t n = below(20); n && choices_left(); n--) {
        routerd_record *slot = ring_slot(&w->actions[worker]);
        if (!slot) break;
        *slot = some_record(c->arena, worker, &w->seen[worker]);
        ring_push(&w->actions[worker]);
    }
    ring_publish(&w->actions[worker]);
    damage(&c->arena[below(WORKERS)]);
    telemetry(c, w->flow);
    control_plane(c, w->addresses, w->tables.routes.address);
    fuzz_tables(c, &w->tables, w->addresses);
    for (enum core_stop stop; (stop = core_step(c, round)) != STOP_NOTHING;) python(c, stop, w->addresses);
    promise_places(c);
    bool lazy = below(4) == 3;
    for (worker = 0; worker < WORKERS && !lazy; worker++) listen(c, worker, &w->work[worker], &w->seen[worker]);
}

/* What was reached, of all inputs together: a fuzzer that reaches nothing proves nothing. */
static struct { const char *what; uint64_t often; } reached[] = {
    { "a message that is forwarded", 0 }, { "a record of the flow log", 0 }, { "no entry of a route table", 0 },
    { "a refusal by a route table", 0 }, { "a message in transit", 0 }, { "a message of another router", 0 }
};

static void world_count(const world *w)
{
    const core_routes *p = &w->tables.routes;
    const uint64_t counts[] = { stats_get(w->c->stats, N_FORWARDED), stats_get(w->c->stats, N_FLOW_RECORDS),
                                p->no_entry, p->refused, stats_get(w->c->stats, N_TRANSIT),
                                stats_get(w->c->stats, N_FROM_ROUTERS) };
    for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++) reached[i].often += counts[i];
}

const char *fuzz_missing(void)
{
    for (uint32_t i = 0; i < sizeof reached / sizeof *reached; i++) if (!reached[i].often) return reached[i].what;
    return NULL;
}

static void world_close(world *w)
{
    core_router *c = w->c;
    for (uint32_t i = 0; i < WORKERS; i++) core_reclaim(c, i);
    for (uint32_t i = 0; i < NEIGHBOURS; i++) if (c->network.neighbour[i].taken) neighbour_give(c, i);
    do core_step(c, UINT32_MAX); while (c->fans.live);     /* whose copies were not made yet are over */
    CHECK(!c->ins.live && !c->outs.live && !c->links.live
        && !c->fans.live && !c->tells.live, "something is left in the tables");
    promise_balance(c->stats);
    world_count(w);
    fuzz_routes_close(c, &w->tables);
    core_close(c);
    flow_close(w->flow);
    free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t size)
{
    world w = { 0 };
    input_open(octets, size);
    world_open(&w);
    world_furnish(&w);
    for (uint32_t round = 0; choices_left(); round++) world_turn(&w, round);
    world_close(&w);
    return 0;
}
