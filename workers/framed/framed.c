/* Framed connections, which have no AMQP engine: the protocols of RMR (rmr.c) and Ockam (ockam.c).
 *
 *   a connection    connecting (only if we made it) --connected--> its links are attached --the incoming ones are
 *                   open--> read
 *   a frame         at hand --> message begun, posted --payload--> complete --core settles--> gone
 *
 * This file, out.c and connection.c have the common part: buffer, back pressure, sent frames, links.  The connection's
 * plain_protocol defines frames.  Frames are posted unsettled, and the socket is read only while there are credit and
 * blocks: no frame is dropped, the sender's socket fills up.  A malformed frame ends its connection.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "workers/framed/framed.h"
#include "shm/arena.h"
#include "shm/content.h"
#include "shm/counters.h"
#include "shm/record.h"
#include "shm/stats.h"
#include "workers/amqp/amqp.h"
#include "workers/state/pool.h"
#include "workers/state/pump.h"
#include "workers/transport/transport.h"

/* large blocks that a frame may need at once: what a buffer holds, and its front */
#define PLAIN_BLOCKS 8u

PRIVATE inline const plain_terms *plain_terms_of(const pump *p, const wconn *c)
{
    return p->listeners[c->listener].plain;
}

/* ---- the socket ---- */

PRIVATE inline void plain_watch(pump *p, wconn *c)
{
    plain_conn *x = c->plain;
    struct epoll_event e = { .events = (c->reading ? EPOLLIN : 0u) | (c->want_write ? EPOLLOUT : 0u),
                             .data.u64 = epoll_name(EPOLL_CONNECTION, pool_handle(&p->conns, c)) };
    bool wanted = e.events != 0;       /* epoll would go on telling of a peer that is gone, whose frames still have to
                                          wait */
    if (wanted || x->watched)
        epoll_ctl(p->epoll_fd, !wanted ? EPOLL_CTL_DEL : x->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &e);
    x->watched = wanted;
}

static void plain_read_on(pump *p, wconn *c, bool reading)
{
    if (c->reading == reading) return;
    c->reading = reading;
    plain_watch(p, c);
}

GLUE void plain_close(pump *p, wconn *c, const char *why)
{
    if (!c->failed) c->plain->why = why;
    c->failed = true;
    mark_dirty(p, c);
}

PRIVATE inline void plain_malformed(pump *p, wconn *c, enum counter counter, const char *why)
{
    stats_add(p->stats, counter, 1);
    plain_close(p, c, why);
}

/* ---- what the core hears of a frame ---- */

PRIVATE inline win *plain_win(pump *p, wlink *k)
{
    win *s = (win *) pool_take(&p->ins);
    if (!s) return NULL;
    s->writer.head = ROUTERD_NIL;
    win_link(k, s);
    p->unsettled++;
    return s;
}

/* May a frame be taken on this link now?  If not, something will wake its connection up. */
PRIVATE inline bool plain_may(pump *p, wlink *k)
{
    if (k->held || k->stalled || k->credit <= 0 || p->withhold) return false;
    if (!p->resting && blocks_left(p) && p->arena.free_count[1] >= PLAIN_BLOCKS && !over_share(p, k)) return true;
    intake_stall(p, k);
    return false;
}

/* All of the frame's payload is there, or passed over. */
static void plain_finish(pump *p, wconn *c, win *s)
{
    wlink *k = c->plain->into;
    c->plain->into = NULL;
    if (s->refund) k->credit++;
    if (!s->discard) {
        chain_publish(&p->arena, &s->writer, CONTENT_COMPLETE);
        post_continue(p, s, F_COMPLETE);
    }
    s->complete = true;
    k->current = NULL;
    k->held = false;
    if (s->discard || s->settled) win_free(p, s);
}

/* Where the next bytes of the payload go; NULL: nowhere now. */
static uint8_t *plain_room(pump *p, wconn *c, uint32_t *room)
{
    wlink *k = c->plain->into;
    win *s = k->current;
    const uint32_t before[2] = { p->arena.free_count[0], p->arena.free_count[1] };
    if (s->writer.written - s->read_to >= HOLD_HIGH) { k->held = true; return NULL; }
    uint8_t *to = blocks_left(p) ? chain_room(&p->arena, &s->writer, ARENA_LARGE, room) : NULL;
    if (!to) intake_stall(p, k);
    kept_change(p, k, before);
    return to;
}

/* So many bytes of the payload have been written there. */
static void plain_wrote(pump *p, wconn *c, uint32_t size)
{
    plain_conn *x = c->plain;
    win *s = x->into->current;
    chain_wrote(&s->writer, size);
    x->left -= size;
    if (!x->left) { plain_finish(p, c, s); return; }
    chain_publish(&p->arena, &s->writer, CONTENT_RECEIVING);
    intake_grown(p, s);
}

/* The payload of the frame being received, from the buffer. */
static enum plain_step plain_fill(pump *p, wconn *c)
{
    plain_conn *x = c->plain;
    if (x->into->current->discard) {
        x->skip += x->left;
        x->left = 0;
        plain_finish(p, c, x->into->current);
        return PLAIN_ON;
    }
    while (x->left && x->first < x->end) {
        uint32_t room, size = x->end - x->first;
        uint8_t *to = x->into->held || x->into->stalled ? NULL : plain_room(p, c, &room);
        if (!to) return PLAIN_WAIT;
        if (size > room) size = room;
        if (size > x->left) size = (uint32_t) x->left;
        memcpy(to, x->in + x->first, size);
        x->first += size;
        plain_wrote(p, c, size);
    }
    return x->left ? PLAIN_MORE : PLAIN_ON;
}

/* Whatever the buffer holds, as far as it goes. */
static enum plain_step plain_take(pump *p, wconn *c)
{
    plain_conn *x = c->plain;
    for (;;) {
        enum plain_step step = PLAIN_ON;
        if (c->failed) return PLAIN_WAIT;
        if (x->left) step = plain_fill(p, c);
        else if (x->skip) {
            uint32_t size = x->end - x->first;
            if (size > x->skip) size = (uint32_t) x->skip;
            x->first += size;
            x->skip -= size;
            if (x->skip) step = PLAIN_MORE;
        } else step = x->speaks->next(p, c);
        if (step != PLAIN_ON) return step;
    }
}

/* Take what can be taken, and read on or not. */
PRIVATE inline void plain_input(pump *p, wconn *c)
{
    plain_conn *x = c->plain;
    if (!x->other || !x->other->open || (x->data && !x->data->open) || c->failed) return;
    x->waiting = plain_take(p, c) == PLAIN_WAIT;
    if (x->ended && !x->waiting)
        plain_close(p, c, x->left || x->skip || x->first != x->end ? "it ended inside a frame" : NULL);
    else plain_read_on(p, c, !x->waiting && !x->ended);
}

/* All of the buffer was taken; one that had to grow for a long frame is small again. */
static void plain_buffer_empty(plain_conn *x)
{
    x->first = x->end = 0;
    uint8_t *in = x->room > PLAIN_BUFFER ? (uint8_t *) realloc(x->in, PLAIN_BUFFER) : NULL;
    if (!in) return;
    x->in = in;
    x->room = PLAIN_BUFFER;
}

/* Read once; true if there may be more. */
PRIVATE inline bool plain_read(pump *p, wconn *c)
{
    plain_conn *x = c->plain;
    uint32_t room = 0;
    uint8_t *to = NULL;
    bool direct = x->left && x->first == x->end && !x->into->current->discard && !x->into->held && !x->into->stalled;
    if (direct && !(to = plain_room(p, c, &room))) { x->waiting = true; plain_read_on(p, c, false); return false; }
    if (direct && room > x->left) room = (uint32_t) x->left;
    if (!direct) {
        if (x->first == x->end) plain_buffer_empty(x);
        else if (x->room - x->end < PLAIN_READ_MIN) {
            memmove(x->in, x->in + x->first, x->end - x->first);
            x->end -= x->first;
            x->first = 0;
        }
        to = x->in + x->end;
        room = x->room - x->end;
    }
    ssize_t n = read(c->fd, to, room);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) plain_close(p, c, strerror(errno));
        return false;
    }
    if (n == 0) x->ended = true;
    else if (direct) plain_wrote(p, c, (uint32_t) n);
    else x->end += (uint32_t) n;
    stats_add(p->stats, N_BYTES_IN, (uint64_t) n);
    plain_input(p, c);
    return (uint32_t) n == room && c->reading;
}
