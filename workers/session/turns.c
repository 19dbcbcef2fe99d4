/* What a connection may take of its worker's time: frames that wait for their turn, or for their output.
 *
 * The engine's frames (OPEN, BEGIN, ATTACH, DETACH, END, CLOSE) cost up to some hundred microseconds each, more with
 * each session and link that a connection has.  So they have a share of each turn, and a connection a share of that.
 * Behind its share, or behind more output than its peer takes, a connection stops before its next such frame; what has
 * been read of its socket stays, and no more is read.  Those that are behind read on in the order in which they have
 * stopped.  Most of these frames make a message to the core.  While the core has TOLD_MOST of them to read, they wait,
 * too: others' messages would wait behind them.  What is behind when its socket breaks is never read.
 *
 *   a connection      --its share is used up-->              behind, one of those that wait for a turn
 *                     --too much of its output waits-->      behind and choked; its socket is not read
 *   a connection      --too many states of deliveries-->     behind and full; its socket is not read
 *   choked            --the socket has taken half of that--> one of those that wait for a turn
 *                     --or nothing for the idle timeout-->   it ends
 *   full              --half of those have been passed on--> one of those that wait for a turn
 *   a client          --octets come before the answer to its login--> behind and asking; its socket is not read
 *   asking            --its login is answered-->             one of those that wait for a turn
 *   behind            --its frames have been read-->         its socket is read again
 *
 * Connections that we dialled are not choked: two routers that both wait for the other to read would wait for ever.
 */
#include "workers/session/session.h"
#include "workers/transport/transport.h"

enum { TURN_OF_ALL = 1000000, TURN_OF_ONE = 500000 };          /* nanoseconds of control frames */
enum { SAID_MOST = 256 };              /* states of a connection's deliveries on their way, besides outcomes */
enum { OUT_MOST = 256 << 10 };         /* octets of output: with more of them, its control frames wait */

/* ---- those that wait for a turn ---- */

static void waiting_add(lane_connection *l)
{
    pump *p = l->p;
    if (l->waiting) return;
    l->waiting = true;
    l->behind_next = NULL;
    l->behind_previous = p->behind_last;
    *(p->behind_last ? &p->behind_last->behind_next : &p->behind_first) = l;
    p->behind_last = l;
}

PRIVATE void turn_forget(lane_connection *l)
{
    pump *p = l->p;
    if (!l->waiting) return;
    l->waiting = false;
    *(l->behind_previous ? &l->behind_previous->behind_next : &p->behind_first) = l->behind_next;
    *(l->behind_next ? &l->behind_next->behind_previous : &p->behind_last) = l->behind_previous;
}

/* A connection has stopped before a frame: notes what starts it again. */
PRIVATE void turn_await(lane_connection *l)
{
    mark_dirty(l->p, l->c);
    if (!l->choked && !l->full && !l->asking) waiting_add(l);
    else conn_pause(l->p, l->c);
}

static void turn_go_on(pump *p, lane_connection *l)
{
    lane_go_on(l);
    uint64_t began = turn_begin(l);
    events_drain(p);
    turn_count(l, began);
}

/* Reads on of connections that wait for a turn, as long as there is time for that. */
PRIVATE void turns_serve(pump *p)
{
    for (lane_connection *last = p->behind_last, *l; last && (l = p->behind_first) && p->spent < TURN_OF_ALL;) {
        if (p->actions.waiting || core_crowded(p)) return;     /* the core is to catch up; the first one stays first */
        turn_forget(l);
        if (!pn_transport_closed(l->transport)) turn_go_on(p, l);
        if (l == last) return;
    }
}

/* ---- the share ---- */

static void turn_enter(lane_connection *l)
{
    if (l->turn == l->p->turn) return;
    l->turn = l->p->turn;
    l->spent = 0;
}

/* The time from which on turn_lasts and turn_count count. */
PRIVATE uint64_t turn_begin(lane_connection *l)
{
    turn_enter(l);
    return clock_ns();
}

/* Whether a control frame may be read in this turn; if not, its connection is behind. */
PRIVATE bool turn_allows(lane_connection *l)
{
    pump *p = l->p;
    turn_enter(l);
    l->choked = l->out_end - l->out_at > OUT_MOST && !l->c->dialled;
    if (l->choked) l->said_ms = p->now_ms;
    l->behind = l->choked || p->spent >= TURN_OF_ALL || l->spent >= TURN_OF_ONE || core_crowded(p);
    return !l->behind;
}

/* Counts what a connection has taken of this turn since then. */
PRIVATE void turn_count(lane_connection *l, uint64_t began)
{
    uint64_t took = clock_ns() - began;
    l->spent += took;
    l->p->spent += took;
}

/* Whether a connection may take more of this turn, for work that began then and goes on in the next turns. */
PRIVATE bool turn_lasts(const lane_connection *l, uint64_t began)
{
    uint64_t took = clock_ns() - began;
    return l->p->spent + took < TURN_OF_ALL && l->spent + took < TURN_OF_ONE;
}

/* Counts work that a connection has made, in nanoseconds, for frames that are the lane's own.  False: its share is used
 * up, and it is behind. */
PRIVATE bool turn_work(lane_connection *l, uint64_t took)
{
    pump *p = l->p;
    turn_enter(l);
    l->spent += took;
    p->spent += took;
    l->behind = p->spent >= TURN_OF_ALL || l->spent >= TURN_OF_ONE;
    return !l->behind;
}

/* Ends the deliveries of a link that the peer detaches, or the links of a session that it ends, before the engine hears
 * of that.  False: there are more than this turn has time for. */
PRIVATE bool frame_ends(lane_connection *l, const lane_frame *f)
{
    worker_session *s = session_of(lane_map_get(&l->by_remote, f->channel));
    uint32_t handle;
    if (!s) return true;
    if (f->performative == LANE_END) {
        s->closed_here = true;                                 /* our END follows, as soon as all links are gone */
        return session_lost(l->p, s, false);
    }
    if (f->performative != LANE_DETACH || lane_detach_read(f, &handle)) return true;
    worker_link *k = HANDLE_LINK(lane_map_get(&s->handles, handle));
    return !k || link_ends(l->p, k);
}

/* ---- states of deliveries on their way ---- */

/* Whether a connection has said so many states besides outcomes that it is to wait. */
PRIVATE bool said_full(const lane_connection *l) { return l->said >= SAID_MOST; }

/* A connection is behind until its states have been passed on. */
PRIVATE void turn_fill(lane_connection *l) { l->behind = l->full = true; }

/* One of its states has been passed on. */
PRIVATE void turn_unfill(lane_connection *l)
{
    l->said--;
    if (!l->full || l->said > SAID_MOST / 2) return;
    l->full = false;
    waiting_add(l);
    conn_resume(l->p, l->c);
}

/* A client's login is answered: what it has said meanwhile is read. */
PRIVATE void lane_answered(lane_connection *l)
{
    if (!l->asking) return;
    l->asking = false;
    waiting_add(l);
    conn_resume(l->p, l->c);
}

/* Ends a choked connection whose socket has taken nothing for its idle timeout: nobody hears whether its peer is
 * there. */
PRIVATE void turn_overdue(lane_connection *l)
{
    const uint32_t idle = l->p->listeners[l->c->listener].idle_timeout_ms;
    if (!l->choked || !idle || l->p->now_ms - l->said_ms < idle) return;
    layers_fail(l, "amqp:resource-limit-exceeded", "the peer has taken no octets for the idle timeout");
    mark_dirty(l->p, l->c);
}

/* The socket has taken some of a choked connection's output. */
PRIVATE void turn_unchoke(lane_connection *l)
{
    if (l->out_end - l->out_at > OUT_MOST / 2) return;
    l->choked = false;
    waiting_add(l);
    conn_resume(l->p, l->c);
}
