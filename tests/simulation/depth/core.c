/* The core's forwarder and its loop, and what Python does for them (core/process). */
#include "tests/simulation/depth/shared.h"

static int core_waits(sem_t *semaphore, int clock, const struct timespec *until);
static int core_asks(sem_t *semaphore);
static int core_closes(sem_t *semaphore);
static ssize_t core_rings(int fd, const void *octets, size_t size);

#define sem_clockwait core_waits
#define sem_trywait core_asks
#define sem_close core_closes
#define write core_rings

#define MANY_COPIES 2u                 /* few are many here, so that what is done for many is done in portions */
#define FAN_TURN 3u
#define FAN_PORTION 2u
#define TELL_PORTION 2u
#define LEAVE_PORTION 2u
#define WORKER_BEHIND 20u
#define RANK_FEW 2u
#define ROUTES_PORTION 2u
#define ROUTE_BUSIEST_CHUNK 8u
#define CORE_BRIEF_NS 2000u
#include "core/forwarder/unity.c"

enum { PATIENCE_NS = 1000000000, TICK_NS = 10000000 };

static struct {
    core_router *c;
    core_address *addresses[NAMED];        /* those that are in use */
    uint32_t awaited, presented, gone[MOST_WORKERS], reclaimed[MOST_WORKERS];
    bool is_gone[MOST_WORKERS];
    /* a DETACH of a link with many deliveries: the worker's later records wait; and its other end */
    struct { told t, other; uint32_t other_worker; bool paired; } held[MOST_WORKERS];
    uint64_t late_at, pristine[2], seed;
    uint32_t presenting, looked, requests;
    struct { uint32_t worker, connection, generation; } brokers[WIRES];   /* some may have vanished */
    uint32_t broker_count;
    /* attaches that wait for their other end; request 0: none */
    struct { uint32_t request, worker, far; bool cancelled; told near; } waiting[CLIENTS * CLIENT_LINKS];
} it;
static sem_t semaphore;

static const uint8_t treatments[NAMED] = { T_BALANCED, T_CLOSEST, T_MULTICAST, T_UNAVAILABLE, T_BALANCED, T_MULTICAST,
                                           T_CLOSEST, T_BALANCED, T_BALANCED, T_BALANCED, T_BALANCED, T_CLOSEST,
                                           T_MULTICAST, T_BALANCED, T_CLOSEST, T_BALANCED, T_BALANCED, T_BALANCED,
                                           T_BALANCED, T_BALANCED, T_BALANCED, T_BALANCED };
static const int8_t priorities[NAMED] = { -1, -1, -1, -1, 9, 3, -1, 0, -1, -1, -1, -1, -1, 9, 3, -1, -1, -1, -1, -1,
                                          -1, -1 };

const uint8_t *address_text(uint32_t address)
{
    static uint8_t text[NAMED][ADDRESS_OCTETS + 1];
    snprintf((char *) text[address], sizeof text[address], address < 10 ? "address%u" : "addres%u", address);
    return text[address];
}

uint32_t address_treatment(uint32_t address)
{
    if (address == TABLE) return MULTICAST;                /* a copy for each group */
    return treatments[address] == T_MULTICAST ? MULTICAST : treatments[address] == T_UNAVAILABLE ? UNAVAILABLE
        : treatments[address] == T_CLOSEST ? CLOSEST : BALANCED;
}

static int core_waits(sem_t *whose, int clock, const struct timespec *until)
{
    (void) whose, (void) clock;
    if (!shared.semaphore) process_sleep((uint64_t) until->tv_sec * 1000000000u + (uint64_t) until->tv_nsec);
    if (!shared.semaphore) return -1;
    shared.semaphore--;
    return 0;
}

static int core_asks(sem_t *whose)
{
    (void) whose;
    if (!shared.semaphore) return -1;
    shared.semaphore--;
    return 0;
}

static int core_closes(sem_t *whose) { (void) whose; return 0; }

static ssize_t core_rings(int fd, const void *octets, size_t size)
{
    (void) octets;
    shared.bell[fd] = true;
    return (ssize_t) size;
}

/* ---- what Python does ---- */

static void core_says(uint32_t w, uint32_t kind, const told *t)
{
    HOLDS(core_post_control(it.c, w, kind, (const uint8_t *) t, sizeof *t), "no memory");
}

static void go_on(void)
{
    for (uint32_t w = 0; w < shared.workers && !it.awaited; w++)
        if (it.presented >> w & 1) core_says(w, C_PRESENTED, &(told) { 0 });
    if (!it.awaited) it.presented = 0;
}

static void routes_watch(uint32_t address);
static void routes_note(void);

/* An address, which is made if it is not in use. */
static core_address *address_of(uint32_t address)
{
    core_address *a = it.addresses[address];
    if (a) return a;
    it.addresses[address] = a = (core_address *) pool_take(&it.c->addresses);
    a->treatment = treatments[address];
    a->priority = priorities[address];
    routes_watch(address);
    return a;
}

/* Those that nobody uses any more go. */
static void addresses_settle(void)
{
    for (uint32_t i = 0; i < NAMED; i++) {
        core_address *a = it.addresses[i];
        if (!a || !address_idle(a)) continue;
        it.addresses[i] = NULL;
        routes_watch(i);
        address_free(it.c, a);
    }
}

static void learn(void)
{
    core_router *c = it.c;
    core_address *a = NULL;
    for (uint32_t i = 0; i < NAMED; i++)
        if (c->text_length == ADDRESS_OCTETS && !memcmp(c->text, address_text(i), ADDRESS_OCTETS)) a = address_of(i);
    HOLDS(a, "a message to %.*s", (int) c->text_length, (const char *) c->text);
    HOLDS(alias_insert(c, c->text_scope, c->text, c->text_length, a, false), "no memory");
}

#include "tests/simulation/depth/core_routes.h"
#include "tests/simulation/depth/core_neighbours.h"
#include "tests/simulation/depth/core_tables.h"

static void attach(uint32_t w, const told *t)
{
    if (t->request) { answered(w, t); return; }
    if (t->routed) { refuse(w, *t); return; }          /* nobody knows what was on its way between the two */
    if (t->address == ROUTED) { route(w, t); return; }
    if (t->kind) { inter_router_attach(w, t); return; }
    core_link terms = { .outgoing = t->outgoing, .capacity = t->capacity ? t->capacity : ROUTERD_LINK_CREDIT,
                        .settles = t->settles,
                        .to_table = routes.there && t->address == TABLE && (t->to_table || !t->restored),
                        .growth = !t->capacity && !t->outgoing,
                        .address = t->address == ANONYMOUS ? NULL : address_of(t->address),
                        .connection = t->address == ANONYMOUS ? t->connection + 1 : 0,
                        .granted = t->restored ? t->granted : 0 };
    told answer = *t;
    if (!terms.growth && terms.granted > terms.capacity) terms.granted = terms.capacity;
    answer.refused = terms.address && terms.address->treatment == T_UNAVAILABLE;
    answer.to_table = terms.to_table;
    if (!t->restored) core_says(w, C_ATTACHED, &answer);
    if (answer.refused) return;
    HOLDS(link_add(it.c, w, t->link, t->generation, &terms), "link %u of worker %u is there", t->link, w);
    if (t->outgoing) routes_receiver(w, t->address, true);
}

static void detach(uint32_t w, const told *t)
{
    core_link *l = link_find(it.c, w, t->link, t->generation);
    if (cancelled(w, t) || !l) return;
    while (park_finish(it.c, l) == STOP_UNKNOWN) learn();
    if (!link_left(l)) {
        routes_leaves(l);
        it.held[w].t = *t;
        it.held[w].paired = l->kind == LINK_ROUTED && l->pair;
        if (it.held[w].paired) {
            it.held[w].other = (told) { .link = l->pair->link, .generation = l->pair->link_gen };
            it.held[w].other_worker = l->pair->worker;
        }
    }
    if (link_thin(it.c, l)) { it.c->held |= 1ull << w; return; }
    if (it.held[w].paired) core_says(it.held[w].other_worker, C_DETACH, &it.held[w].other);
    link_remove(it.c, l, false);
    inter_router_detached(w, t);
}

static void control(void)
{
    core_router *c = it.c;
    uint32_t w = c->stop_worker;
    told t;
    HOLDS(c->control.arena == w && content_copy(&c->arena[w], c->control.block, 0, (uint8_t *) &t, sizeof t,
                                                CONTENT_HOPS), "a control message of worker %u is broken", w);
    core_release(c, (uint8_t) w, c->control.block, NULL, 0);
    switch (c->control.state) {
    case C_ATTACH: attach(w, &t); break;
    case C_DETACH: detach(w, &t); break;
    case C_CONNECTION_OPENED:
        if (t.router) inter_router_opened(w, &t); else broker_opened(w, &t);
        break;
    case C_CONNECTION_CLOSED:
        if (t.router) inter_router_closed(w, &t); else broker_closed(w, &t);
        break;
    case C_LINK_REFUSED: refused(&t); break;
    case C_PRESENTED:
        it.awaited &= ~(1u << w);
        it.presented |= 1u << w;
        go_on();
        break;
    default: break;
    }
}

static void held(uint32_t w)
{
    it.c->held &= ~(1ull << w);
    const told t = it.held[w].t;
    detach(w, &t);
}

static void handle(enum core_stop stop)
{
    if (stop == STOP_HELD) for (uint32_t w = 0; w < shared.workers; w++) if (it.c->held >> w & 1) held(w);
    if (stop == STOP_HELD) return;
    if (stop == STOP_UNKNOWN) learn();
    else if (stop == STOP_CONTROL) control();
    else if (stop == STOP_LOCAL) it.c->network.thirsty = false;    /* neighbours have attached all links there are */
    else HOLDS(stop == STOP_NOTHING, "the core stops for %d", stop);
}

static void reclaim(uint32_t w)
{
    uint32_t handled = 0;
    for (;;) {
        if (it.c->held >> w & 1) { held(w); continue; }
        const enum core_stop stop = core_batch(it.c, w, UINT32_MAX, &handled);
        if (stop == STOP_NOTHING) break;
        handle(stop);
    }
    routes_lost(w);
    core_reclaim(it.c, w);
    routes_worker_gone(w);
    inter_routers_lost(w);
    it.awaited &= ~(1u << w);
    it.presented &= ~(1u << w);
    go_on();
    core_publish(it.c);
    it.is_gone[w] = false;
    it.reclaimed[w] = it.gone[w];
}

static void tick(void)
{
    core_address *idle = NULL, *unused[ALIAS_IDLE_ROOM];
    uint64_t pause;
    if (it.awaited && !it.late_at) it.late_at = virtual_now + PATIENCE_NS;
    if (it.awaited && virtual_now >= it.late_at) { it.awaited = 0; go_on(); }
    while (alias_evict(it.c, &idle)) continue;
    alias_thin(it.c, unused, &pause);
    (void) stall_step(it.c);
}

/* ---- the process ---- */

void core_birth(uint32_t presenting, uint64_t seed)
{
    it.presenting = presenting;
    it.seed = seed;
    it.c = NULL;
    for (uint32_t w = 0; w < shared.workers; w++) {
        it.is_gone[w] = false;
        it.reclaimed[w] = 0;
    }
    process_start(CORE, core_body);
}

static void core_opens(void)
{
    core_router *c = (core_router *) calloc(1, sizeof *c);
    it.awaited = it.presenting;
    it.presented = it.looked = it.broker_count = it.requests = 0;
    memset(it.waiting, 0, sizeof it.waiting);
    it.late_at = 0;
    for (uint32_t i = 0; i <= shared.workers; i++)
        HOLDS(arena_attach(&c->arena[i], shared.arena[i], i < shared.workers ? shared.arena_bytes : shared.core_bytes),
              "no arena");
    for (uint32_t i = 0; i < shared.workers; i++)
        HOLDS(!setup_worker(c, i, shared.control, shared.rings, (int) i), "no worker");
    HOLDS(!core_open(c, shared.workers, shared.control, it.seed), "no core");
    c->sem = &semaphore;
    memset(it.addresses, 0, sizeof it.addresses);
    it.pristine[0] = c->own.free_count[0];
    it.pristine[1] = c->own.free_count[1];
    it.c = c;
    interior_begin();
    routes_birth();
}

void core_body(int number)
{
    (void) number;
    core_opens();
    for (uint64_t next = 0;;) {
        for (uint32_t w = 0; w < shared.workers; w++) if (it.is_gone[w]) reclaim(w);
        news_heard();
        if (virtual_now >= next) {
            tick();
            next = virtual_now + TICK_NS;
        }
        addresses_settle();
        routes_turn();
        core_publish(it.c);
        handle(core_run(it.c, routes_restless() ? 0 : next, 0));
    }
}

void core_worker_gone(uint32_t worker, uint32_t generation)
{
    it.gone[worker] = generation;
    it.is_gone[worker] = true;
    shared.semaphore++;
}

uint32_t core_reclaimed(uint32_t worker) { return it.reclaimed[worker]; }

/* ---- what is looked at ---- */

core_view core_see(uint32_t worker, uint32_t link, uint32_t generation)
{
    core_view v = { 0 };
    const core_link *l = it.c ? link_find(it.c, worker, link, generation) : NULL;
    if (!l) return v;
    v = (core_view) { .there = true, .outgoing = l->outgoing, .granted = l->granted, .capacity = l->capacity,
                      .count = l->count, .address = ANONYMOUS, .draining = l->draining };
    if (!l->outgoing) { v.withheld = l->withheld; v.owed = l->owed; }
    if (l->kind == LINK_ROUTED) v.address = l->pair ? ROUTED : ROUTED + 1;
    for (uint32_t i = 0; i < NAMED; i++)
        if (l->kind != LINK_ROUTED && l->address && l->address == it.addresses[i]) v.address = (uint8_t) i;
    return v;
}

/* The credit of a link, one after the other. */
void core_hold_still(void)
{
    const core_router *c = it.c;
    if (!c || !processes[CORE].alive) return;
    uint32_t w = it.looked % shared.workers, room = c->worker[w].link_room;
    const core_link *l = room ? c->worker[w].link[it.looked / shared.workers % room] : NULL;
    it.looked += l ? 1 : 1 + below(64) * shared.workers;
    if (!l) return;
    if (l->outgoing || l->leaving || l->kind == LINK_ROUTED) return;   /* a link that goes gives no credit back */
    if (link_inter_router(l)) {            /* it has its credit back once the message goes on */
        const int64_t used = l->capacity - l->granted - l->withheld;
        HOLDS(used >= 0 && used <= l->count + 1, "link %u of worker %u: capacity %u, granted %ld, outstanding %u, "
              "withheld %u", l->link, w, l->capacity, (long) l->granted, l->count, l->withheld);
        return;
    }
    HOLDS(l->capacity == l->granted + l->count + l->withheld,
          "link %u of worker %u: capacity %u, granted %ld, outstanding %u, withheld %u", l->link, w, l->capacity,
          (long) l->granted, l->count, l->withheld);
}

static uint64_t counted(uint32_t which) { return stats_get(it.c->stats, which); }

void core_rests(bool empty)
{
    const core_router *c = it.c;
    HOLDS(!c->ins.live && !c->outs.live, "%u incoming and %u outgoing deliveries are left", c->ins.live, c->outs.live);
    HOLDS(!c->payloads.count, "%u payloads are left", c->payloads.count);
    HOLDS(!c->fans.live && !c->tells.live && !c->park_count, "%u fans, %u tells, %u parked links are left",
          c->fans.live, c->tells.live, c->park_count);
    for (uint32_t w = 0; w < shared.workers; w++)
        HOLDS(!c->worker[w].overflow.count, "%u records wait for worker %u", c->worker[w].overflow.count, w);
    HOLDS(c->own.free_count[0] + interior_rests() == it.pristine[0] && c->own.free_count[1] == it.pristine[1],
          "the core has %u small and %u large blocks free, not %lu and %lu", c->own.free_count[0],
          c->own.free_count[1], (unsigned long) it.pristine[0], (unsigned long) it.pristine[1]);
    HOLDS(!counted(N_BAD_RECORDS), "%lu records made no sense to the core", (unsigned long) counted(N_BAD_RECORDS));
    count_totals(c);
    HOLDS(counted(N_RECEIVED) == counted(N_ACCEPTED) + counted(N_REJECTED) + counted(N_RELEASED) + counted(N_MODIFIED)
          + counted(N_NO_OUTCOME) + counted(N_PRESETTLED) + counted(N_OWN_PRESETTLED),
          "deliveries are not counted once: %lu received",
          (unsigned long) counted(N_RECEIVED));
    uint32_t incoming = 0, outgoing = 0;
    for (uint32_t i = 0; i < NAMED; i++) {
        if (!it.addresses[i]) continue;
        outgoing += it.addresses[i]->out_count;
        incoming += it.addresses[i]->in_count;
    }
    HOLDS(incoming + outgoing <= c->links.live, "%u and %u links of addresses, %u in all", incoming, outgoing,
          c->links.live);
    core_tables_rest();
    if (!empty) return;
    HOLDS(!c->links.live && !incoming && !outgoing, "%u links are left", c->links.live);
    HOLDS(c->aliases.count <= NAMED, "%u spellings are left", c->aliases.count);
}

void core_shown(void)
{
    const core_router *c = it.c;
    if (!c || !processes[CORE].alive) return;
    fprintf(stderr, "core: ins %u, outs %u, links %u, awaited %#x, presented %#x, semaphore %u\n", c->ins.live,
          c->outs.live,
            c->links.live, it.awaited, it.presented, shared.semaphore);
    uint32_t at = 0;
    for (core_in *in; (in = (core_in *) pool_next(&c->ins, &at));)
        fprintf(stderr, "    in of link %d: flags %#x, copies %u, length %lu, consumed %lu, peer %lx\n", in->link
              ? (int) in->link->link : -1,
                in->flags, in->copy_count, (unsigned long) in->length, (unsigned long) in->consumed, (unsigned long)
                      in->peer);
    at = 0;
    for (core_out *o; (o = (core_out *) pool_next(&c->outs, &at));)
        fprintf(stderr, "    out of link %u.%u: flags %#x, state %#x, progress %lu, peer %lx\n", o->link->worker,
              o->link->link,
                o->flags, o->state, (unsigned long) o->progress, (unsigned long) o->peer);
}
