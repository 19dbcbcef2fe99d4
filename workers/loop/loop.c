/* The worker's loop: engine events, the sockets of connections, and the turn.
 *
 * A turn waits for sockets or the doorbell, reads and handles input, serves the work ring, publishes actions, and
 * writes. Under load no process sleeps, so none has to be woken.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "workers/loop/loop.h"
#include "workers/amqp/amqp.h"
#include "workers/framed/framed.h"
#include "workers/source_routes/source_routes.h"
#include "workers/transport/transport.h"

#define SWEEP_MS 100                   /* interval of checks of idle timeouts and heartbeats */
#define LONGEST_SLEEP_MS 1000
#define CROWDED_NS 100000              /* pause of a worker before which the core has to catch up */

/* ---- links ---- */

GLUE worker_link *link_new(pump *p, worker_connection *c, pn_link_t *engine)
{
    worker_link *k = link_begin(p, c, pn_link_is_sender(engine));
    if (!k) return NULL;
    k->engine = engine;
    pn_link_set_context(engine, k);
    lane_link_new(k);
    return k;
}

/* Ends everything that a link still has, and forgets it.  The caller closes the engine's link. */
GLUE void link_free(pump *p, worker_link *k)
{
    worker_connection *c = k->conn;
    if (k->outgoing) egress_lost(p, k);
    else intake_lost(p, k);
    intake_unstall(p, k);
    if (k->previous == ROUTERD_NIL) c->link_first = k->next;
    else ((worker_link *) pool_at(&p->links, k->previous))->next = k->next;
    if (k->next != ROUTERD_NIL) ((worker_link *) pool_at(&p->links, k->next))->previous = k->previous;
    if (k->outgoing) c->links_out--;
    else c->links_in--;
    for (uint32_t class = 0; class < 2; class++) k->payer->kept[class] -= k->kept[class];
    if (k->engine) pn_link_set_context(k->engine, NULL);
    lane_link_free(k);
    if (k->router_initiated) name_wait(k);
    if (k->router_initiated) dial_done(c, pn_link_session(k->engine));
    if (k->sender) free(k->sender->reach);
    free(k->sender);
    free(k->walk);
    pool_give(&p->links, k);
    stats_set(p->stats, N_LINKS, p->links.used);
}

/* Python posts the DETACH (its callback runs first in the ring's order: UPDATEs were posted by egress_lost). */
GLUE void link_lost(pump *p, worker_link *k, int event)
{
    if (k->outgoing) egress_lost(p, k);
    else intake_lost(p, k);
    if (k->known) p->on_event(p->self, event, k->conn, k, k->engine, NULL);
    link_free(p, k);
}

/* Ends the deliveries of a receiver's link that goes.  False: it has more than its connection has time for in this
 * turn, and is behind. */
PRIVATE bool link_ends(pump *p, worker_link *k)
{
    while (egress_ends(p, k, ENDS_AT_ONCE) == ENDS_AT_ONCE)
        if (!turn_work(k->conn->lane, ENDS_AT_ONCE * ENDS_NS)) return false;
    return true;
}

/* Ends the links of a session: all, or as many as there is time for.  True: all are gone. */
PRIVATE bool session_lost(pump *p, worker_session *s, bool all)
{
    uint64_t began = turn_begin(s->connection);
    for (uint32_t n = 1; s->links || (!all && session_crowded(s)); n++) {
        const bool thins = !all && session_crowded(s);
        if (!all && !(thins ? session_thin(s) : link_ends(p, s->links))) return false;
        if (!thins) link_lost(p, s->links, EV_LINK_LOST);
        if (!all && !(n % PORTION) && (!turn_lasts(s->connection, began) || core_crowded(p))) return false;
    }
    return true;
}

/* ---- events ---- */

static void event_link_closed(pump *p, pn_link_t *engine, bool closed)
{
    worker_link *k = (worker_link *) pn_link_get_context(engine);
    if (k) link_lost(p, k, EV_DETACH);
    if (pn_link_state(engine) & PN_LOCAL_UNINIT) pn_link_open(engine);
    if (closed) pn_link_close(engine);
    else pn_link_detach(engine);
    name_end(engine);
    pn_link_free(engine);
}

enum { REFUSED_WAIT_MS = 5000 };    /* a peer that does not end a connection closed for its violation loses it */

/* Closes a connection for what its peer has said. */
static void conn_refuse(pump *p, worker_connection *c, const char *name, const char *description)
{
    pn_condition_t *error = pn_connection_condition(c->engine);
    pn_condition_set_name(error, name);
    pn_condition_set_description(error, description);
    pn_connection_close(c->engine);
    c->deadline = p->now_ms + REFUSED_WAIT_MS;
    mark_dirty(p, c);
}

static void event_session(pump *p, pn_session_t *session, bool open)
{
    if (!open) {
        worker_connection *c = (worker_connection *) pn_connection_get_context(pn_session_connection(session));
        worker_session *s = session_here(session);
        if (s) (void) session_lost(p, s, true);
        if (s) names_end(s);
        if (c && c->sessions && !session_router_initiated(session)) c->sessions--;
        lane_session_gone(session);
        if (!(pn_session_state(session) & PN_LOCAL_UNINIT)) pn_session_close(session);
        pn_session_free(session);
        return;
    }
    if (session_router_initiated(session)) { dial_answered(session); return; }
    lane_session_opened(session);
    worker_connection *c = (worker_connection *) pn_connection_get_context(pn_session_connection(session));
    if (!c || !security_session(p, c)) return;
    if (channels_left(c->lane)) lane_session_begin(c, session, 0);
    else conn_refuse(p, c, "amqp:resource-limit-exceeded", "more sessions than the lower channel-max of both sides");
}

static void event_connection(pump *p, pn_connection_t *engine, bool open)
{
    worker_connection *c = (worker_connection *) pn_connection_get_context(engine);
    if (!c) return;
    if (open) {
        c->opened = true;
        c->known = !p->detached;
        c->deadline = 0;
        c->tick_at = p->now_ms;
    }
    p->on_event(p->self, open ? EV_CONNECTION_OPEN : EV_CONNECTION_CLOSE, c, NULL, engine, NULL);
    if (!open) c->leaving = true;                               /* nothing is sent after the peer's CLOSE */
}

/* Whether a peer's attach has this terminus.  The engine gives a source without address no type. */
GLUE bool terminus_there(pn_terminus_t *t)
{
    return pn_terminus_get_type(t) != PN_UNSPECIFIED || pn_data_size(pn_terminus_capabilities(t)) > 0;
}

/* Whether a peer's answer refuses our attach: with a null terminus, whose detach says why (AMQP 1.0 part 2.6.3). The
 * engine does not distinguish a source without address from a null one, so without an address of ours only the detach
 * counts. An answer without our address is a refusal, too: some clients open whatever comes. In a link-route pair the
 * far peer judges that: it gets the answer, and the detach that may follow. */
static bool attach_refused(const worker_link *k)
{
    pn_terminus_t *here = k->outgoing ? pn_link_target(k->engine) : pn_link_source(k->engine);
    pn_terminus_t *there = k->outgoing ? pn_link_remote_target(k->engine) : pn_link_remote_source(k->engine);
    bool named = pn_terminus_get_address(here);
    if (named && !k->routed) return !pn_terminus_get_address(there);
    if (!k->outgoing && (k->routed || (!named && !pn_terminus_is_dynamic(here)))) return false;
    return pn_terminus_get_type(there) == PN_UNSPECIFIED;
}

/* Handles a peer's attach, or its answer to ours. */
static void event_attach(pump *p, pn_link_t *engine)
{
    worker_connection *c = (worker_connection *)
        pn_connection_get_context(pn_session_connection(pn_link_session(engine)));
    worker_link *k = (worker_link *) pn_link_get_context(engine);
    if (k) lane_link_answered(k);
    if (!c || !(pn_session_state(pn_link_session(engine)) & PN_LOCAL_ACTIVE)) return;
    if (!attach_sound(engine)) {
        conn_refuse(p, c, "amqp:decode-error", "an array in an attach is not what it claims to be");
        return;
    }
    worker_session *s = session_here(pn_link_session(engine));
    if (!k && s && !attach_room(s)) { fault_raise(c->lane, s, NULL, LANE_HANDLES); return; }
    if (fault_attach(c->lane, k, engine)) return;
    if (!k) {
        if (pn_link_state(engine) & PN_LOCAL_UNINIT) p->on_event(p->self, EV_ATTACH, c, NULL, engine, NULL);
    } else if (k->asked && !attach_refused(k)) {
        k->open = true;
        p->on_event(p->self, EV_ATTACHED, c, k, engine, NULL);
    }
}

static void event_handle(pump *p, int type, void *object)
{
    switch (type) {
    case PN_LINK_REMOTE_OPEN: event_attach(p, (pn_link_t *) object); return;
    case PN_LINK_REMOTE_CLOSE: event_link_closed(p, (pn_link_t *) object, true); return;
    case PN_LINK_REMOTE_DETACH: event_link_closed(p, (pn_link_t *) object, false); return;
    case PN_SESSION_REMOTE_OPEN: event_session(p, (pn_session_t *) object, true); return;
    case PN_SESSION_REMOTE_CLOSE: event_session(p, (pn_session_t *) object, false); return;
    case PN_CONNECTION_REMOTE_OPEN: event_connection(p, (pn_connection_t *) object, true); return;
    case PN_CONNECTION_REMOTE_CLOSE: event_connection(p, (pn_connection_t *) object, false); return;
    default: return;
    }
}

PRIVATE void events_drain(pump *p)
{
    pn_event_t *e;
    while ((e = pn_collector_peek(p->collector))) {
        event_handle(p, pn_event_type(e), pn_event_context(e));
        pn_collector_pop(p->collector);
    }
}

/* ---- connections ---- */

static void conn_serve(pump *p, worker_connection *c)
{
    if (c->framed) {
        framed_serve(p, c);
        if (c->failed) ending_add(p, c);
        return;
    }
    if (c->leaving && (c->link_first != ROUTERD_NIL || pn_transport_closed(c->transport))) {
        ending_add(p, c);
        return;
    }
    for (int i = 0; i < 16; i++) {
        enum serve_result left = c->want_write ? SERVE_EMPTY : egress_turn(p, c);
        bool flowing = conn_write(p, c);
        events_drain(p);
        if (pn_transport_closed(c->transport)) {
            c->leaving = true;
            ending_add(p, c);
            return;
        }
        if (!flowing || left == SERVE_BLOCKED || (left == SERVE_EMPTY && !c->work_mask)) return;
    }
    if (c->work_mask) mark_dirty(p, c);                         /* others get their turn first */
}

static void conns_serve(pump *p)
{
    uint32_t index = p->dirty_first;
    p->dirty_first = ROUTERD_NIL;
    while (index != ROUTERD_NIL) {
        worker_connection *c = (worker_connection *) pool_at(&p->conns, index);
        index = c->dirty_next;
        c->list = LIST_NONE;
        if (c->slot.next_free == SLOT_USED) conn_serve(p, c);
    }
}

static void conn_sweep(pump *p, worker_connection *c)
{
    if (c->framed) { framed_sweep(p, c); return; }
    lane_rest(c);
    if (c->admitted) relay_forgo(c);
    if (c->deadline && p->now_ms >= c->deadline) {
        c->deadline = 0;
        /* no OPEN, no end after a CLOSE, or a CLOSE that the socket has not taken, within the time given */
        conn_broken(p, c);
        return;
    }
    if (pn_condition_is_set(pn_transport_condition(c->transport))) {
        if (!c->deadline && !c->failed) c->deadline = p->now_ms + LAST_WORD_MS;
    } else {
        turn_overdue(c->lane);
        slow_relieve(c->lane);
    }
    if (c->tick_at && p->now_ms >= c->tick_at) {
        lane_pulse(c->lane);
        c->tick_at = pn_transport_tick(c->transport, p->now_ms);
        mark_dirty(p, c);
    }
}

static void conns_sweep(pump *p)
{
    slow_hindrance(p);
    p->next_sweep = p->now_ms + SWEEP_MS;
    for (uint32_t i = 0; i < p->conns.high; i++) {
        worker_connection *c = (worker_connection *) pool_at(&p->conns, i);
        if (c->slot.next_free == SLOT_USED) conn_sweep(p, c);
    }
}

/* ---- the turn ---- */

/* Reads of a connection that is not open: TLS costs up to milliseconds, and OPEN what Python has to do for it. */
static void handshake_event(pump *p, worker_connection *c)
{
    p->teller = TELLER_BEGINNING;
    p->looked = 0;
    if (begin_allowed(p)) {
        uint64_t began = clock_ns();
        for (int i = 0; i < READ_TURNS && conn_read(p, c); i++) events_drain(p);
        events_drain(p);
        p->begun += clock_ns() - began;
    }
    p->teller = TELLER_FRAMES;
}

static void socket_event(pump *p, const struct epoll_event *e)
{
    uint64_t name = e->data.u64;
    switch (name >> 60) {
    case EPOLL_DOORBELL:                                       /* it has woken us: that is all it is for */
        return;
    case EPOLL_WAKE:
        p->woken = true;
        return;
    case EPOLL_LISTENER:
        p->teller = TELLER_BEGINNING;
        p->looked = 0;
        sockets_accept(p, &p->listeners[name & 0xffff]);
        p->teller = TELLER_FRAMES;
        return;
    default: {
        worker_connection *c = (worker_connection *) pool_at(&p->conns, (uint32_t) name);
        if ((uint32_t) name >= p->conns.high || c->slot.next_free != SLOT_USED
            || (c->slot.generation & 0xfffffff) != (name >> 32 & 0xfffffff))
            return;
        if (c->framed) {
            if (framed_event(p, c, e->events)) reads_serve(p, c);
            return;
        }
        if (e->events & EPOLLOUT) { c->want_write = false; conn_watch(p, c); mark_dirty(p, c); }
        if (e->events & EPOLLERR) { dial_failed(c); conn_broken(p, c); return; }
        if ((e->events & EPOLLHUP) && !c->reading) { conn_broken(p, c); return; }
        if ((e->events & EPOLLRDHUP) && relay_ended(c)) { conn_broken(p, c); return; }
        if (!(e->events & (EPOLLIN | EPOLLHUP))) return;
        if (c->lane->behind || conn_waits(p, c)) return;
        if (!c->opened) { handshake_event(p, c); return; }
        reads_serve(p, c);
    }
    }
}

static int turn_timeout(pump *p, int64_t until)
{
    int64_t at = p->conns.used && p->next_sweep < until ? p->next_sweep : until;
    if (p->accept_retry && p->accept_retry < at) at = p->accept_retry;
    if (p->dirty_first != ROUTERD_NIL || p->ending_first != ROUTERD_NIL || p->rest_first || p->behind_first
        || p->waits_first || p->drain_first || work_unstalls(p) || at <= p->now_ms)
        return 0;
    return at - p->now_ms < LONGEST_SLEEP_MS ? (int) (at - p->now_ms) : LONGEST_SLEEP_MS;
}

static void turn_timers(pump *p)
{
    if (p->accept_retry && p->now_ms >= p->accept_retry) sockets_retry(p);
    waits_serve(p);
    if (p->now_ms >= p->next_sweep) {
        conns_sweep(p);
        accept_calm(p);
        streams_check(p);
        starving_check(p);
        pressure_check(p);
        stats_set(p->stats, N_UNSETTLED, p->unsettled);
    }
}

static void pump_turn(pump *p, int64_t until)
{
    struct epoll_event events[EPOLL_BATCH];
    int n = 0;
    if (p->actions.waiting || p->crowded) nanosleep(&(struct timespec) { .tv_nsec = CROWDED_NS }, NULL);
    if (!p->actions.waiting) n = turn_wait(p, events, work_pending(p) ? 0 : turn_timeout(p, until));
    uint64_t began = clock_ns();
    p->now_ns = began;
    p->now_ms = (int64_t) (began / 1000000u);
    p->turn++;
    p->spent = p->begun = 0;
    p->crowded = false;
    reads_begin(p, n, p->behind_first ? 0 : began);
    turns_serve(p);
    for (int i = 0; i < n; i++) socket_event(p, &events[i]);
    drains_serve(p);
    intake_flush(p);
    publish_actions(p);
    work_turn(p);
    if (p->arena.free_count[0] < p->low_small || p->arena.free_count[1] < p->low_large || p->paused) pressure_check(p);
    turn_timers(p);
    conns_serve(p);
    ending_serve(p);
    intake_flush(p);
    publish_actions(p);
    stats_add(p->stats, N_LOOPS, 1);
    atomic_store_explicit(&p->stats->heartbeat, atomic_load_explicit(&p->stats->heartbeat, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    uint64_t took = clock_ns() - began;
    if (took > stats_get(p->stats, N_LONGEST_TURN_NS)) stats_set(p->stats, N_LONGEST_TURN_NS, took);
}

/* Turn until `until` (milliseconds of CLOCK_MONOTONIC), or until the control socket has something to say. */
GLUE void pump_run(pump *p, int64_t until)
{
    p->woken = false;
    publish_actions(p);                     /* what Python has posted since the last round does not wait for a socket */
    do pump_turn(p, until); while (!p->woken && p->now_ms < until && !p->actions.failed);
}
