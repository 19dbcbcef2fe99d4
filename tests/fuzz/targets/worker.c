/* A worker's native half with the AMQP engine: whatever its clients and its core say, in pieces of any size, it stays
 * in its memory, and nothing of a connection is left behind it.
 *
 * The target is the clients, the core, and what Python does at events.  Clients say frames that are mostly right, or
 * octets of the input; the core forwards and settles what arrives, or writes records that make no sense, loses its
 * blocks, and dies.
 */
#include "tests/fuzz/parts/input.h"

#include "tests/native/worker_world.h"

#include "tests/fuzz/parts/client.h"

enum { ARENA = 512 << 10, CLIENTS = 3, KNOWN = 32, STEPS = 300, LAST_TURNS = 500 };

void pn_link_set_rcv_settle_mode(pn_link_t *link, int mode);
int pn_link_remote_snd_settle_mode(pn_link_t *link);
int pn_link_remote_rcv_settle_mode(pn_link_t *link);
int pn_terminus_set_type(pn_terminus_t *terminus, int type);

static struct {
    pump p;
    worker_world core;
    client clients[CLIENTS];
    routerd_record delivered[KNOWN];   /* what has arrived, and is not settled */
    uint32_t delivered_count;
    struct { uint32_t index, generation; bool outgoing; } links[KNOWN];
    uint32_t links_count;              /* of all that have been attached */
    uint64_t handles[KNOWN];           /* of the worker's deliveries */
    uint32_t handles_count;
    uint64_t sent;
} world;

/* ---- what Python does ---- */

static routerd_record *to_worker(uint8_t type, uint32_t link, uint32_t generation)
{
    routerd_record *r = ring_slot(&world.core.work);
    if (!r) return NULL;
    *r = (routerd_record) { .type = type, .link = link, .link_gen = generation, .block = ROUTERD_NIL };
    ring_push(&world.core.work);
    return r;
}

static void refuse(pn_link_t *engine)
{
    pn_link_open(engine);
    pn_condition_set_name(pn_link_condition(engine), "amqp:not-found");
    pn_link_close(engine);
}

static void attach(worker_connection *c, pn_link_t *engine)
{
    uint32_t how = below(8);
    worker_link *k = how == 7 ? NULL : link_new(&world.p, c, engine);
    if (!k) { refuse(engine); return; }
    pn_terminus_copy(pn_link_source(engine), pn_link_remote_source(engine));
    pn_terminus_copy(pn_link_target(engine), pn_link_remote_target(engine));
    if (terminus_there(pn_link_source(engine))) pn_terminus_set_type(pn_link_source(engine), PN_SOURCE);
    pn_link_set_snd_settle_mode(engine, pn_link_remote_snd_settle_mode(engine));
    pn_link_set_rcv_settle_mode(engine, pn_link_remote_rcv_settle_mode(engine));
    pn_link_open(engine);
    k->open = k->known = true;
    if (how == 6) link_routed(k);
    mark_dirty(&world.p, c);
    uint32_t index = pool_index(&world.p.links, k), place = world.links_count++ % KNOWN;
    world.links[place].index = index;
    world.links[place].generation = k->slot.generation;
    world.links[place].outgoing = k->outgoing;
    routerd_record *r = k->outgoing ? NULL : to_worker(W_FLOW, index, k->slot.generation);
    if (r) r->credit = 1 + below(20);
}

static void on_event(void *self, int event, worker_connection *c, worker_link *k, void *object,
                     const routerd_record *record)
{
    (void) self, (void) k, (void) record;
    if (!world_answers(&world.p, event, c) && event == EV_ATTACH) attach(c, (pn_link_t *) object);
}

/* ---- the core ---- */

static uint64_t reached[A_WAITS + 1];  /* how often each action has come, of all inputs together */

const char *fuzz_missing(void)
{
    return !reached[A_DELIVER] ? "a message that arrives" : !reached[A_CONTINUE] ? "a message in parts"
        : !reached[A_UPDATE] ? "an outcome" : !reached[A_DONE] ? "a settled message that is sent"
        : !reached[A_DRAIN] ? "a drain" : NULL;
}

static void heard(const routerd_record *r)
{
    if (r->type <= A_WAITS) reached[r->type]++;
    if (r->type == A_DELIVER) {
        world.delivered[world.delivered_count++ % KNOWN] = *r;
    } else if (r->type == A_UPDATE && r->peer) {
        world.handles[world.handles_count++ % KNOWN] = r->peer;
    } else if (r->type == A_DRAIN) {
        to_worker(W_DRAINED, r->link, r->link_gen);
    }
}

static void core_hears(void)
{
    for (const routerd_record *r; (r = ring_peek(&world.core.actions)); ring_advance(&world.core.actions)) heard(r);
    ring_return(&world.core.actions);
}

/* One of those that have arrived; all that was there before goes round. */
static routerd_record *some_delivered(void)
{
    uint32_t there = world.delivered_count < KNOWN ? world.delivered_count : KNOWN;
    return there ? &world.delivered[below(there)] : NULL;
}

static uint32_t some_link(bool outgoing)
{
    uint32_t there = world.links_count < KNOWN ? world.links_count : KNOWN, at = there ? below(there) : 0;
    for (uint32_t i = 0; i < there; i++, at = (at + 1) % there) if (world.links[at].outgoing == outgoing) return at;
    return KNOWN;
}

static void core_sends(void)
{
    routerd_record *d = some_delivered();
    uint32_t at = some_link(true);
    routerd_record *r = d && at < KNOWN ? to_worker(W_SEND, world.links[at].index, world.links[at].generation) : NULL;
    if (!r) return;
    r->arena = d->arena;
    r->block = d->block;
    r->length = d->length;
    r->flags = d->flags & (F_SETTLED | F_COMPLETE);
    r->priority = (uint8_t) below(ROUTERD_PRIORITIES);
    r->peer = UINT64_C(1) << 32 | ++world.sent;
}

/* The blocks go back once; a core at its best behaviour waits for the readers of the message, this one may not. */
static void core_settles(void)
{
    static const uint32_t states[] = { S_ACCEPTED, S_REJECTED, S_RELEASED, S_MODIFIED, 0, S_RECEIVED };
    routerd_record *d = some_delivered();
    routerd_record *r = d ? to_worker(W_UPDATE, d->link, d->link_gen) : NULL;
    if (!r) return;
    r->flags = F_IN | F_SETTLED | (d->block == ROUTERD_NIL ? 0 : F_RELEASE);
    r->state = states[below(6)];
    r->delivery = d->peer;
    r->arena = d->arena;
    r->block = d->block;
    r->credit = 1;
    d->block = ROUTERD_NIL;
    d->length = 0;
}

static void core_goes_on(void)
{
    static const uint8_t types[] = { W_CONTINUE, W_CONSUMED, W_ACCEPTED, W_FLOW, W_DRAIN, W_DRAINED, W_UPDATE };
    routerd_record *d = some_delivered();
    uint32_t at = some_link(below(2));
    routerd_record *r = at < KNOWN ? to_worker(types[below(7)], world.links[at].index, world.links[at].generation)
                        : NULL;
    if (!r) return;
    r->delivery = r->type == W_CONSUMED || r->type == W_ACCEPTED ? (d ? d->peer : 0)
                  : world.handles[below(KNOWN)];
    r->peer = UINT64_C(1) << 32 | (1 + below(20));
    r->length = below(70000);
    r->credit = below(30);
    r->flags = (uint8_t) (below(8) ? F_COMPLETE : below(256));
    if (r->type == W_UPDATE) { r->state = S_ACCEPTED; r->flags = F_SETTLED; }
    if (r->type == W_CONTINUE) r->delivery = 0;
}

static void core_is_confused(void)
{
    routerd_record noise;
    routerd_record *r = to_worker(0, 0, 0);
    scribble(&noise, sizeof noise);
    if (!r) return;
    *r = noise;
    r->type = (uint8_t) below(18);
    r->arena = (uint8_t) below(3);
    if (below(4)) r->block = below(arena_blocks(&world.p.views[0]));
    if (below(4)) r->link = world.links[below(KNOWN)].index;
    if (below(4)) r->link_gen = world.links[below(KNOWN)].generation;
    if (below(2)) r->delivery = world.handles[below(KNOWN)];
    if (r->type == W_CONTROL) r->type = W_SEND;               /* Python's */
}

static void core_dies(void)
{
    ring_publish(&world.core.work);
    pump_leave(&world.p, true);
    pump_run(&world.p, 0);
    for (uint32_t i = 0; i < 2; i++) arena_mark_none(&world.p.views[i]);
    layout_format_rings(world.core.rings, 1);
    CHECK(pump_return(&world.p, (routerd_ring *) (world.core.rings + layout_action_ring(0)),
                      (routerd_ring *) (world.core.rings + layout_work_ring(0))), "no return to a new core");
    CHECK(ring_consume(&world.core.actions, (routerd_ring *) (world.core.rings + layout_action_ring(0)))
          && ring_produce(&world.core.work, (routerd_ring *) (world.core.rings + layout_work_ring(0))), "no rings");
    for (uint32_t i = 0; i < world.p.links.high; i++) {
        worker_link *k = (worker_link *) pool_at(&world.p.links, i);
        if (k->slot.next_free != SLOT_USED) continue;
        k->known = true;
        resync_credit(k);
        resync_link(&world.p, k);
    }
    for (uint32_t i = 0; i < world.p.conns.high; i++) ((worker_connection *) pool_at(&world.p.conns, i))->known = true;
    pump_present(&world.p);
    world.delivered_count = world.handles_count = 0;
}

/* ---- the clients ---- */

static void client_begins(client *k)
{
    int pair[2];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), "no sockets");
    memset(k, 0, sizeof *k);
    k->fd = pair[1];
    worker_connection *c = conn_new(&world.p, pair[0], 0);
    CHECK(c, "no connection");
    c->known = true;
    if (below(16) == 15) return;
    say_open(k);
    say_begin(k, 0);
}

static void step(void)
{
    client *k = &world.clients[below(CLIENTS)];
    uint32_t how = below(32);
    if (k->fd < 0) { client_begins(k); return; }
    if (how < 12) client_speaks(k);
    else if (how < 17) client_writes(k);
    else if (how < 19) client_reads(k);
    else if (how < 23) core_sends();
    else if (how < 26) core_settles();
    else if (how < 28) core_goes_on();
    else if (how == 28) core_is_confused();
    else if (how == 29 && below(16) == 15) core_dies();
    else if (how == 30 && below(4) == 3) client_ends(k);
    else {
        ring_publish(&world.core.work);
        pump_run(&world.p, 0);
        core_hears();
    }
}

/* ---- the whole ---- */

static void world_open(void)
{
    worker_open(&world.core, &world.p, ARENA, on_event,
                (worker_listener) { .fd = -1, .max_frame = 16384, .channel_max = 100, .idle_timeout_ms = 60000,
                                    .handshake_ms = 60000, .link_capacity = 20, .window = 64, .widest = 64,
                                    .mechanisms = "ANONYMOUS" });
    world.p.extracts = EXTRACT_MESSAGES | EXTRACT_TRANSACTIONS;
    for (uint32_t i = 0; i < CLIENTS; i++) world.clients[i].fd = -1;
}

static void world_rest(void)
{
    pump *p = &world.p;
    for (uint32_t i = 0; i < CLIENTS; i++) if (world.clients[i].fd >= 0) client_ends(&world.clients[i]);
    ring_publish(&world.core.work);
    for (uint32_t i = 0; i < LAST_TURNS && p->conns.used; i++) {
        if (i > LAST_TURNS / 2) world_breaks(p);               /* those that have not been read to their end */
        pump_run(p, 0);
        core_hears();
    }
    CHECK(!p->conns.used, "%u connections are left", p->conns.used);
    CHECK(!p->links.used, "%u links are left", p->links.used);
    CHECK(!p->ins.used && !p->outs.used, "%u and %u deliveries are left", p->ins.used, p->outs.used);
    CHECK(!p->unsettled, "%u deliveries are counted", p->unsettled);
    core_dies();                                               /* the next input begins with all blocks */
    world.links_count = 0;
    world.sent = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t size)
{
    if (!world.core.control) world_open();
    input_open(octets, size);
    for (uint32_t i = 0; i < STEPS && choices_left(); i++) step();
    world_rest();
    return 0;
}
