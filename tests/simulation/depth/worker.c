/* Workers, and what Python does for them (workers/control and the glue in workers/loop/pump.pyx).  Clients are here,
 * too: they speak by the lane's functions. */
#include "tests/simulation/depth/shared.h"

static ssize_t worker_readv(int fd, const struct iovec *to, int pieces);
static ssize_t worker_send(int fd, const void *from, size_t size, int flags);
static ssize_t worker_sendmsg(int fd, const struct msghdr *message, int flags);
static int worker_polls(struct pollfd *sockets, nfds_t count, int timeout);
static int worker_watches(int epoll, int operation, int fd, struct epoll_event *event);
static int worker_waits(int epoll, struct epoll_event *events, int most, int timeout);
static int worker_shuts(int fd, int how);
static int worker_sets(int fd, int level, int name, const void *value, socklen_t size);
static int worker_posts(sem_t *whose);

#define read wire_read
#define readv worker_readv
#define send worker_send
#define sendmsg worker_sendmsg
#define close wire_close
#define shutdown worker_shuts
#define setsockopt worker_sets
#define poll worker_polls
#define epoll_ctl worker_watches
#define epoll_wait worker_waits
#define sem_post worker_posts

#define WAITS_MOST 4u                  /* few are many here, so that what is done for many is done in portions */
#define DRAINS_MOST 2u
#define SAID_AT_ONCE 2u
#define SETTLED_NS 100000u
#define ENDS_AT_ONCE 2u
#define ENDS_NS 100000u
#define ENDED_DELIVERIES 4u

#include "workers/loop/unity.c"

#include "shm/memory/layout.h"
#include "tests/simulation/depth/sourced.h"

enum { BACKLOG = 4, POLL_NS = 1000000000 };
#define BROKER "broker"                /* the container of those behind the link route */
enum { OPENINGS = CLIENTS * CLIENT_LINKS, OPENING_NS = 20000000 };
enum { POOL_MOST = 4096 };             /* objects of a worker of each kind */

int pn_link_remote_snd_settle_mode(pn_link_t *link);
int pn_link_remote_rcv_settle_mode(pn_link_t *link);
void pn_link_set_rcv_settle_mode(pn_link_t *link, int mode);
int pn_terminus_set_type(pn_terminus_t *terminus, int type);
pn_bytes_t pn_data_get_symbol(pn_data_t *data);

typedef struct { pn_connection_t *engine; pn_transport_t *transport; } engine_half;

static struct {
    pump p;
    annotations_self identity;
    int backlog[BACKLOG];              /* wires to be accepted */
    uint32_t waiting;
    bool core_back, core_gone;         /* what the supervisor has said, in this order */
    bool born, serving, quiet, coming;
    engine_half engines[WIRES];        /* by the wire */
    route_engine routes;
    told openings[OPENINGS];           /* whose names other links still have */
    uint32_t opening_count;
} workers[MOST_WORKERS];
static sem_t core_semaphore;

worker_terms listener_terms;

#include "tests/simulation/depth/worker_calls.h"

/* ---- what Python does ---- */

#include "tests/simulation/depth/worker_neighbours.h"

static uint8_t address_of(pn_terminus_t *t)
{
    const char *text = pn_terminus_get_address(t);
    if (!text || !*text) return ANONYMOUS;
    for (uint8_t i = 0; i < NAMED; i++) if (!strcmp(text, (const char *) address_text(i))) return i;
    HOLDS(false, "a link to %s", text);
}

static void worker_says(pump *p, uint32_t kind, const told *t)
{
    if (p->detached) return;
    routerd_record r = { .type = A_CONTROL, .state = kind, .link = t->link, .link_gen = t->generation,
                         .arena = (uint8_t) p->index };
    HOLDS(control_post(p, &r, t, sizeof *t), "a control message is too long");
}

/* Asks the core about an attach, or presents an open link. */
static void tell(pump *p, worker_link *k)
{
    pn_terminus_t *at = k->outgoing ? pn_link_remote_source(k->engine) : pn_link_remote_target(k->engine);
    const int modes[2] = { pn_link_remote_snd_settle_mode(k->engine), pn_link_remote_rcv_settle_mode(k->engine) };
    told t = { .link = pool_index(&p->links, k), .generation = k->slot.generation,
               .connection = pool_index(&p->conns, k->conn), .outgoing = k->outgoing,
               .address = k->routed ? ROUTED : address_of(at), .capacity = link_configured(k),
               .restored = k->open && !k->asked, .granted = k->outgoing || !k->open ? 0 : resync_credit(k),
               .settles = k->outgoing && modes[0] == PN_SND_SETTLED, .routed = k->routed, .request = k->asked,
               .kind = kind_of(at), .to_table = k->to_table,
               .modes = { (uint8_t) modes[0], (uint8_t) modes[1] } };
    snprintf(t.name, sizeof t.name, "%s", pn_link_name(k->engine));
    k->known = true;
    worker_says(p, C_ATTACH, &t);
}

#include "tests/simulation/depth/worker_routes.h"

static void link_opens(pump *p, const told *t)
{
    worker_link *k = (worker_link *) pool_find2(&p->links, t->link, t->generation);
    if (!k) return;
    pn_link_t *engine = k->engine;
    if (t->refused) {
        mark_dirty(p, k->conn);
        link_free(p, k);
        pn_link_open(engine);
        pn_condition_set_name(pn_link_condition(engine), "amqp:not-found");
        pn_link_close(engine);
        return;
    }
    if (t->routed) {
        link_terms(engine, t);
        pn_link_open(engine);
        k->open = true;
        link_routed(k);
        mark_dirty(p, k->conn);
        if (k->outgoing) egress_flow(p, k);
        return;
    }
    pn_terminus_copy(pn_link_source(engine), pn_link_remote_source(engine));
    pn_terminus_copy(pn_link_target(engine), pn_link_remote_target(engine));
    if (terminus_there(pn_link_source(engine))) pn_terminus_set_type(pn_link_source(engine), PN_SOURCE);
    pn_link_set_snd_settle_mode(engine, pn_link_remote_snd_settle_mode(engine));
    pn_link_set_rcv_settle_mode(engine, pn_link_remote_rcv_settle_mode(engine));
    pn_link_open(engine);
    k->open = true;
    k->to_table = t->to_table;
    mark_dirty(p, k->conn);
}

static void control_comes(pump *p, const routerd_record *r)
{
    told t;
    HOLDS(payload_load(p, r->arena, r->block, (uint8_t *) &t, sizeof t) == sizeof t, "a control message is broken");
    if (r->state == C_ATTACHED) link_opens(p, &t);
    else if (r->state == C_OPEN_LINK) far_link_opens(p, &t);
    else if (r->state == C_DETACH) link_goes(p, &t);
    else if (r->state == C_PRESENTED) pump_present(p);
    else HOLDS(false, "a control message of kind %u", r->state);
}

static void on_event(void *self, int event, worker_connection *c, worker_link *k, void *object, const routerd_record *r)
{
    pump *p = (pump *) self;
    switch (event) {
    case EV_CONTROL: control_comes(p, r); return;
    case EV_CONNECTION_OPEN:
        pn_connection_set_container(c->engine, "router");
        pn_connection_open(c->engine);
        c->admitted = true;
        annotations_begin(c);
        mark_dirty(p, c);
        tell_connection(p, c, C_CONNECTION_OPENED);
        return;
    case EV_CONNECTION_CLOSE:
        pn_connection_close(c->engine);
        mark_dirty(p, c);
        return;
    case EV_CONNECTION_GONE:
        tell_connection(p, c, C_CONNECTION_CLOSED);
        workers[p->index].engines[c->fd].engine = NULL;
        return;
    case EV_ATTACH:
        k = link_new(p, c, (pn_link_t *) object);
        HOLDS(k, "no room for a link");
        if (c->known && !p->detached) tell(p, k);
        return;
    case EV_ATTACHED:
        tell(p, k);
        k->asked = 0;
        return;
    case EV_DETACH: case EV_LINK_LOST:
        if (k->asked) { worker_says(p, C_LINK_REFUSED, &(told) { .request = k->asked }); return; }
        worker_says(p, C_DETACH, &(told) { .link = pool_index(&p->links, k), .generation = k->slot.generation });
        return;
    case EV_ROUTE_SENDER:
        k->sender->anonymous = address_of(pn_link_remote_target(k->engine)) == ANONYMOUS;
        k->sender->off = !k->sender->anonymous;        /* no link leads to a route worker */
        return;
    case EV_MESSAGE_REFUSED: HOLDS(sourced.on, "a message is refused: %s", (const char *) object); return;
    default: HOLDS(false, "event %d", event);
    }
}

/* Presents connections and links; false: blocks ran out. */
static bool present_all(pump *p)
{
    uint32_t unknown[POOL_MOST], n = 0;
    for (uint32_t i = 0; i < p->conns.high; i++) {
        worker_connection *c = (worker_connection *) pool_at(&p->conns, i);
        if (c->slot.next_free != SLOT_USED || !c->opened || c->known) continue;
        if (!blocks_left(p)) return false;
        c->known = true;
        tell_connection(p, c, C_CONNECTION_OPENED);
    }
    for (uint32_t i = 0; i < p->links.high; i++) {
        worker_link *k = (worker_link *) pool_at(&p->links, i);
        if (k->slot.next_free == SLOT_USED && !k->known) unknown[n++] = i;
    }
    for (uint32_t i = 0; i < n; i++)               /* in the order of their attaches */
        for (uint32_t j = i + 1; j < n; j++) {
            const worker_link *a = (worker_link *) pool_at(&p->links, unknown[i]), *b = (worker_link *)
                  pool_at(&p->links, unknown[j]);
            if (b->order < a->order) { uint32_t t = unknown[i]; unknown[i] = unknown[j]; unknown[j] = t; }
        }
    for (uint32_t i = 0; i < n; i++) {
        worker_link *k = (worker_link *) pool_at(&p->links, unknown[i]);
        if (!blocks_left(p)) return false;
        tell(p, k);
        resync_link(p, k);
    }
    return blocks_left(p);
}

/* Takes the newest configuration of route workers into use (workers/source_routes/senders.py). */
static void routes_configure(uint32_t w)
{
    static uint8_t bytes[NODE_TABLE];
    if (!sourced.on || sourced.used[w] == sourced.count) return;
    const uint32_t version = sourced.count;
    route_table *t = route_table_load(bytes, sourced_table(version, bytes));
    HOLDS(t, "a table of route workers makes no sense");
    route_engine_set(&workers[w].routes, t);
    workers[w].p.routes = &workers[w].routes;
    sourced.used[w] = version;
}

static void supervisor_says(uint32_t w)
{
    pump *p = &workers[w].p;
    shared.wake[w] = false;
    if (workers[w].core_back) {
        workers[w].core_back = false;
        HOLDS(pump_return(p, (routerd_ring *) (shared.rings + layout_action_ring(w)),
                          (routerd_ring *) (shared.rings + layout_work_ring(w))), "no return to a new core");
        workers[w].coming = true;
    }
    if (workers[w].core_gone) {
        workers[w].core_gone = workers[w].coming = false;
        pump_leave(p, true);
        unask(p);
        workers[w].opening_count = 0;
        workers[w].quiet = true;
    }
    if (workers[w].coming && present_all(p)) {
        worker_says(p, C_PRESENTED, &(told) { 0 });
        workers[w].coming = false;
    }
    openings_step(w);
    routes_configure(w);
    publish_actions(p);
    while (workers[w].waiting) {
        int number = workers[w].backlog[--workers[w].waiting];
        worker_connection *c = conn_new(p, number, 0);
        HOLDS(c, "no room for a connection");
        workers[w].engines[number] = (engine_half) { c->engine, c->transport };
    }
}

/* ---- the process ---- */

static void worker_opens(uint32_t w)
{
    pump *p = &workers[w].p;
    uint32_t index = w;
    HOLDS(layers_found(), "this engine is another one");
    buffers_word = 0;                  /* the engine has another heap: its buffers stay as they are */
    memset(p, 0, sizeof *p);
    memcpy(workers[w].identity.id, router_text(0), ROUTER_OCTETS);
    workers[w].identity.length = ROUTER_OCTETS;
    p->index = index;
    p->workers = shared.workers;
    p->identity = &workers[w].identity;
    for (uint32_t i = 0; i <= shared.workers; i++)
        HOLDS(arena_attach(&p->views[i], shared.arena[i], i < shared.workers ? shared.arena_bytes : shared.core_bytes),
              "no arena");
    for (uint32_t i = 0; i < shared.workers; i++) p->others[i] = (stats_page *) (shared.control + layout_stats(i));
    p->stats = p->others[index];
    p->own_bell = (routerd_doorbell *) (shared.control + layout_worker_doorbell(index));
    p->core_bell = (routerd_doorbell *) (shared.control + LAYOUT_CORE_DOORBELL);
    p->core_semaphore = &core_semaphore;
    HOLDS(outbox_attach(&p->actions, (routerd_ring *) (shared.rings + layout_action_ring(index)))
          && ring_consume(&p->work, (routerd_ring *) (shared.rings + layout_work_ring(index))), "no rings");
    HOLDS(pool_open(&p->conns, sizeof(worker_connection), POOL_MOST) && pool_open(&p->links, sizeof(worker_link),
          POOL_MOST)
          && pool_open(&p->ins, sizeof(in_delivery), POOL_MOST) && pool_open(&p->outs, sizeof(out_delivery), POOL_MOST)
          && arena_own(&p->arena, &p->views[index]), "no tables");
    p->collector = pn_collector();
    p->dirty_first = p->ending_first = p->stalled_first = p->stalled_last = ROUTERD_NIL;
    p->low_small = p->views[index].small_count / 16;
    p->low_large = p->views[index].large_count / 16;
    p->reserve = CONTROL_RESERVE > p->low_small ? CONTROL_RESERVE : p->low_small;
    p->on_event = on_event;
    p->self = p;
    *listener_new(p) = (worker_listener) { .fd = -1, .max_frame = listener_terms.frame, .channel_max = 8,
                                           .window = listener_terms.window, .widest = 2 * listener_terms.window,
                                           .link_capacity = listener_terms.capacity, .mechanisms = "ANONYMOUS" };
    workers[w].born = true;
    HOLDS(route_engine_open(&workers[w].routes), "no memory");
    if (sourced.on) sourced.used[w] = 0;
    routes_configure(w);
}

void worker_birth(uint32_t w)
{
    HOLDS(!workers[w].born, "worker %u is there", w);
    workers[w].waiting = workers[w].opening_count = 0;
    workers[w].core_gone = workers[w].core_back = workers[w].serving = workers[w].quiet = workers[w].coming = false;
    shared.wake[w] = true;
    process_start((int) w, worker_body);
}

void worker_body(int number)
{
    uint32_t w = (uint32_t) number;
    pump *p = &workers[w].p;
    worker_opens(w);
    workers[w].serving = true;
    for (uint64_t next = virtual_now + POLL_NS;;) {
        supervisor_says(w);
        if (virtual_now >= next) {
            poll_all_links(p, virtual_now);
            next = virtual_now + POLL_NS;
        }
        const uint64_t until = workers[w].coming ? virtual_now + 1000000 : workers[w].opening_count
            ? virtual_now + OPENING_NS : next;
        pump_run(p, (int64_t) ((until < next ? until : next) / 1000000));
        HOLDS(!p->actions.failed, "an action was lost");
    }
}

/* What the engine has of a dead worker's connections. */
void worker_bury(uint32_t w)
{
    pump *p = &workers[w].p;
    wires_lost((int) w);
    if (!workers[w].born) return;
    for (int i = 0; i < WIRES; i++) {
        engine_half *half = &workers[w].engines[i];
        if (!half->engine) continue;
        pn_connection_set_context(half->engine, NULL);
        pn_transport_unbind(half->transport);
        pn_transport_free(half->transport);
        pn_connection_free(half->engine);
        half->engine = NULL;
    }
    while (pn_collector_peek(p->collector)) pn_collector_pop(p->collector);
    pn_collector_free(p->collector);
    pool *const pools[] = { &p->conns, &p->links, &p->ins, &p->outs };
    for (int i = 0; i < 4; i++) if (pools[i]->base) munmap(pools[i]->base, pools[i]->item * (size_t) pools[i]->limit);
    workers[w].born = false;
}

/* True: it is to be quiet; false: it does not serve yet. */
bool worker_core_gone(uint32_t w)
{
    if (!workers[w].serving) return false;
    workers[w].quiet = false;
    workers[w].core_gone = shared.wake[w] = true;
    return true;
}

void worker_core_back(uint32_t w)
{
    workers[w].quiet = workers[w].core_gone = false;
    workers[w].core_back = shared.wake[w] = true;
}

bool worker_quiet(uint32_t w) { return workers[w].quiet; }

bool worker_connect(uint32_t w, int wire)
{
    if (workers[w].waiting == BACKLOG) return false;
    workers[w].backlog[workers[w].waiting++] = wire;
    shared.wake[w] = true;
    return true;
}

#include "tests/simulation/depth/worker_checks.h"
#include "tests/simulation/depth/client.h"
