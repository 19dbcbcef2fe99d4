/* The memory for long frames, which a worker's framed connections share.
 *
 *   in    a frame that its protocol needs whole, in its connection's buffer (ockam.c)
 *   out   a message that is gathered, or what the kernel has not taken of a frame that it has begun with (out.c)
 *
 * In each direction a connection may hold FRAMED_SURE octets at any time, also beside what it is lent; what it gathers
 * and what the kernel has not taken count together.  A longer frame is lent the room for all of
 * it before it is held, so that it can end whatever others do: it waits until its room fits into FRAMED_LENT with that
 * of the others, or nobody has any.  Who waits longest is next.
 *
 * Frames that never end could keep all of it.  So while others wait, one ends that has moved less than FRAMED_PACE in
 * each of FRAMED_PATIENCE sweeps: with its connection, or a message that is gathered as rejected.  The time without a
 * core or blocks does not count. That without credit does, or whole frames for slow receivers could keep all of it.
 */
#include "workers/framed/framed.h"
#include "workers/amqp/amqp.h"

#define FRAMED_LENT (128u << 20)       /* octets of all frames that are longer than FRAMED_SURE */
#define FRAMED_PACE (25u << 10)        /* octets in a sweep, of which there are ten in a second */
#define FRAMED_PATIENCE 40u            /* sweeps */

static const char too_slow[] = "it held the memory for long frames and brought or took less than 250 KiB a second for "
                               "4 s, while others waited for that memory";

static void long_wait(pump *p, worker_connection *c)
{
    framed_connection *x = c->framed;
    x->wants = true;
    if (x->queued) return;
    x->queued = true;
    x->queue_next = NULL;
    x->queue_previous = p->long_last;
    *(p->long_last ? &p->long_last->framed->queue_next : &p->long_first) = c;
    p->long_last = c;
}

/* Whoever waits longest tries again. */
static void long_wake(pump *p)
{
    if (p->long_first) mark_dirty(p, p->long_first);
}

/* A connection waits no more. */
PRIVATE void long_unqueue(pump *p, worker_connection *c)
{
    framed_connection *x = c->framed;
    if (!x->queued) return;
    x->queued = false;
    *(x->queue_previous ? &x->queue_previous->framed->queue_next : &p->long_first) = x->queue_next;
    *(x->queue_next ? &x->queue_next->framed->queue_previous : &p->long_last) = x->queue_previous;
    long_wake(p);
}

/* Lends the room for a frame of so many octets.  False: its connection waits, and is served when it may try again. */
PRIVATE bool long_lend(pump *p, worker_connection *c, enum framed_way way, uint64_t size)
{
    framed_connection *x = c->framed;
    const uint64_t others = p->long_lent - x->lent[way];
    const bool turn = !p->long_first || p->long_first == c;
    if (size <= FRAMED_SURE || size <= x->lent[way]) return true;
    if (others && (!turn || others + size > FRAMED_LENT)) { long_wait(p, c); return false; }
    p->long_lent = others + size;
    x->lent[way] = size;
    x->slow[way] = 0;
    return true;
}

/* No more than so many octets are held. */
PRIVATE void long_give(pump *p, worker_connection *c, enum framed_way way, uint64_t held)
{
    framed_connection *x = c->framed;
    if (held <= FRAMED_SURE) held = 0;
    if (held >= x->lent[way]) return;
    p->long_lent -= x->lent[way] - held;
    x->lent[way] = held;
    long_wake(p);
}

/* Ends what keeps others waiting.  To be called in each sweep. */
PRIVATE void long_sweep(pump *p, worker_connection *c)
{
    framed_connection *x = c->framed;
    const bool waited = p->long_first && !p->resting && !p->paused;
    for (enum framed_way way = FRAMED_IN; way <= FRAMED_OUT; way++) {
        const bool slow = waited && x->lent[way] && x->moved[way] < FRAMED_PACE;
        x->moved[way] = 0;
        x->slow[way] = slow ? (uint8_t) (x->slow[way] + 1) : 0;
        if (x->slow[way] < FRAMED_PATIENCE || (way == FRAMED_OUT && framed_forgo(p, c, too_slow))) continue;
        framed_close(p, c, too_slow);
        return;
    }
}
