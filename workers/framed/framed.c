/* Framed connections, which have no AMQP engine: the protocols of RMR (rmr.c) and Ockam (ockam.c).
 *
 *   a connection    connecting (only if we made it) --connected--> its links are attached --the incoming ones are
 *                   open--> read
 *   a frame         at hand --> message begun, posted --payload--> complete --core settles--> gone
 *
 * This file, out.c and connection.c have the common part: buffer, back pressure, sent frames, links.  The connection's
 * framed_protocol defines frames.  Frames are posted unsettled, and the socket is read only while there are credit and
 * blocks: no frame is dropped, the sender's socket fills up.  A malformed frame ends its connection.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "workers/framed/framed.h"
#include "workers/amqp/amqp.h"
#include "workers/transport/transport.h"

#define FRAMED_BLOCKS 8u               /* large blocks that a frame may need at once, for a full buffer and its front */

PRIVATE inline const framed_terms *framed_terms_of(const pump *p, const worker_connection *c)
{
    return p->listeners[c->listener].framed;
}

/* ---- the socket ---- */

PRIVATE inline void framed_watch(pump *p, worker_connection *c)
{
    framed_connection *x = c->framed;
    struct epoll_event e = { .events = (c->reading ? EPOLLIN : 0u) | (c->want_write ? EPOLLOUT : 0u),
                             .data.u64 = epoll_name(EPOLL_CONNECTION, pool_handle(&p->conns, c)) };
    bool wanted = e.events != 0;       /* else epoll would report a peer's end again and again while frames wait */
    if (wanted || x->watched)
        epoll_ctl(p->epoll_fd, !wanted ? EPOLL_CTL_DEL : x->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &e);
    x->watched = wanted;
}

static void framed_read_on(pump *p, worker_connection *c, bool reading)
{
    if (c->reading == reading) return;
    c->reading = reading;
    framed_watch(p, c);
}

GLUE void framed_close(pump *p, worker_connection *c, const char *why)
{
    if (!c->failed) {
        c->framed->why = why;
        conn_unwatch(p, c);
    }
    c->failed = true;
    mark_dirty(p, c);
}

PRIVATE inline void framed_malformed(pump *p, worker_connection *c, enum counter counter, const char *why)
{
    stats_add(p->stats, counter, 1);
    framed_close(p, c, why);
}

/* ---- what the core hears of a frame ---- */

PRIVATE inline in_delivery *framed_in(pump *p, worker_link *k)
{
    in_delivery *s = (in_delivery *) pool_take(&p->ins, sizeof(in_delivery));
    if (!s) return NULL;
    s->writer.head = ROUTERD_NIL;
    in_delivery_link(k, s);
    p->unsettled++;
    return s;
}

/* Whether a frame may be taken on this link now.  If not, what is missing wakes its connection when it comes. */
PRIVATE inline bool framed_may(pump *p, worker_link *k)
{
    if (k->held || k->stalled || k->credit <= 0 || p->withhold) return false;
    if (!p->resting && blocks_left(p) && p->arena.free_count[1] >= FRAMED_BLOCKS && !over_share(p, k)) return true;
    intake_stall(p, k);
    return false;
}

/* Ends a frame whose payload has arrived or been skipped. */
static void framed_finish(pump *p, worker_connection *c, in_delivery *s)
{
    worker_link *k = c->framed->into;
    c->framed->into = NULL;
    if (s->refund) k->credit++;
    if (!s->discard) {
        chain_publish(&p->arena, &s->writer, CONTENT_COMPLETE);
        post_continue(p, s, F_COMPLETE);
    }
    s->complete = true;
    k->current = NULL;
    k->held = false;
    if (s->discard || s->settled) in_delivery_free(p, s);
}

/* Where the next bytes of the payload go; NULL: nowhere now. */
static uint8_t *framed_room(pump *p, worker_connection *c, uint32_t *room)
{
    worker_link *k = c->framed->into;
    in_delivery *s = k->current;
    const uint32_t before[2] = { p->arena.free_count[0], p->arena.free_count[1] };
    if (s->writer.written - s->read_to >= hold_high(p)) { k->held = true; return NULL; }
    uint8_t *to = blocks_left(p) ? chain_room(&p->arena, &s->writer, ARENA_LARGE, room) : NULL;
    if (!to) intake_stall(p, k);
    kept_change(p, k, before);
    return to;
}

/* Counts bytes of the payload that have been written into framed_room. */
static void framed_wrote(pump *p, worker_connection *c, uint32_t size)
{
    framed_connection *x = c->framed;
    in_delivery *s = x->into->current;
    chain_wrote(&s->writer, size);
    x->left -= size;
    if (!x->left) { framed_finish(p, c, s); return; }
    chain_publish(&p->arena, &s->writer, CONTENT_RECEIVING);
    intake_grown(p, s);
}

/* Moves the payload of the frame that is being received from the buffer into blocks. */
static enum framed_step framed_fill(pump *p, worker_connection *c)
{
    framed_connection *x = c->framed;
    if (x->into->current->discard) {
        x->skip += x->left;
        x->left = 0;
        framed_finish(p, c, x->into->current);
        return FRAMED_ON;
    }
    while (x->left && x->first < x->end) {
        uint32_t room, size = x->end - x->first;
        uint8_t *to = x->into->held || x->into->stalled ? NULL : framed_room(p, c, &room);
        if (!to) return FRAMED_WAIT;
        if (size > room) size = room;
        if (size > x->left) size = (uint32_t) x->left;
        memcpy(to, x->in + x->first, size);
        x->first += size;
        x->moved[FRAMED_IN] += size;
        framed_wrote(p, c, size);
    }
    return x->left ? FRAMED_MORE : FRAMED_ON;
}

/* Takes everything that the buffer holds, until something is missing. */
static enum framed_step framed_take(pump *p, worker_connection *c)
{
    framed_connection *x = c->framed;
    for (;;) {
        enum framed_step step = FRAMED_ON;
        if (c->failed) return FRAMED_WAIT;
        if (x->left) step = framed_fill(p, c);
        else if (x->skip) {
            uint32_t size = x->end - x->first;
            if (size > x->skip) size = (uint32_t) x->skip;
            x->first += size;
            x->skip -= size;
            if (x->skip) step = FRAMED_MORE;
        } else step = x->speaks->next(p, c);
        if (step != FRAMED_ON) return step;
    }
}

/* Gives back what a long frame has needed, when little is left in the buffer. */
static void framed_buffer_fit(pump *p, worker_connection *c)
{
    framed_connection *x = c->framed;
    const uint32_t there = x->end - x->first;
    if (!there) x->first = x->end = 0;
    if (x->room == FRAMED_BUFFER || there > FRAMED_BUFFER / 2) return;
    memmove(x->in, x->in + x->first, there);
    x->first = 0;
    x->end = there;
    uint8_t *in = (uint8_t *) realloc(x->in, FRAMED_BUFFER);
    if (!in) return;
    x->in = in;
    x->room = FRAMED_BUFFER;
    long_give(p, c, FRAMED_IN, 0);
}

/* Takes what can be taken, and decides whether the socket is read on. */
PRIVATE inline void framed_input(pump *p, worker_connection *c)
{
    framed_connection *x = c->framed;
    if (!x->other || !x->other->open || (x->data && !x->data->open) || c->failed) return;
    x->waiting = framed_take(p, c) == FRAMED_WAIT;
    framed_buffer_fit(p, c);
    if (x->ended && !x->waiting)
        framed_close(p, c, x->left || x->skip || x->first != x->end ? "it ended inside a frame" : NULL);
    else framed_read_on(p, c, !x->waiting && !x->ended);
}

/* Reads once; true if there may be more. */
PRIVATE inline bool framed_read(pump *p, worker_connection *c)
{
    framed_connection *x = c->framed;
    uint32_t room = 0;
    uint8_t *to = NULL;
    bool direct = x->left && x->first == x->end && !x->into->current->discard && !x->into->held && !x->into->stalled;
    if (direct && !(to = framed_room(p, c, &room))) { x->waiting = true; framed_read_on(p, c, false); return false; }
    if (direct && room > x->left) room = (uint32_t) x->left;
    if (!direct) {
        if (x->room - x->end < FRAMED_READ_MIN) {
            memmove(x->in, x->in + x->first, x->end - x->first);
            x->end -= x->first;
            x->first = 0;
        }
        to = x->in + x->end;
        room = x->room - x->end;
        if (c->read_most && room > c->read_most) room = c->read_most;
    }
    ssize_t n = read(c->fd, to, room);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) framed_close(p, c, strerror(errno));
        return false;
    }
    pump_look(p);
    if (n == 0) x->ended = true;
    else if (direct) framed_wrote(p, c, (uint32_t) n);
    else x->end += (uint32_t) n;
    x->moved[FRAMED_IN] += (uint64_t) n;
    stats_add(p->stats, N_BYTES_IN, (uint64_t) n);
    framed_input(p, c);
    return (uint32_t) n == room && c->reading;
}
