/* A producer that never waits: a ring, and a private queue behind it for when the ring is full.
 *
 * Records keep their order: while anything is queued, new records are queued behind it. The owner calls
 * outbox_publish() once per batch; it moves what fits from the queue into the ring. `waiting` says how much is queued,
 * so that the owner can stop taking in work that would add to it.
 */
#ifndef ROUTERD_SHM_OUTBOX_H
#define ROUTERD_SHM_OUTBOX_H

#include <stdlib.h>

#include "shm/ring.h"

typedef struct {
    routerd_producer ring;
    routerd_record *queue;      /* [first, first + waiting) */
    size_t first, waiting, size;
    bool failed;                /* out of memory: a record was lost, the process must give up */
} routerd_outbox;

static inline bool outbox_attach(routerd_outbox *o, routerd_ring *ring)
{
    memset(o, 0, sizeof *o);
    return ring_produce(&o->ring, ring);
}

static inline void outbox_detach(routerd_outbox *o)
{
    free(o->queue);
    memset(o, 0, sizeof *o);
}

static inline bool outbox_grow(routerd_outbox *o)
{
    if (o->first > o->size / 2) {           /* at least as many left as there are to move: each record moves once */
        memmove(o->queue, o->queue + o->first, o->waiting * sizeof *o->queue);
        o->first = 0;
        return true;
    }
    size_t size = o->size ? o->size * 2 : 256;
    routerd_record *queue = (routerd_record *) realloc(o->queue, size * sizeof *queue);
    if (!queue) return false;
    o->queue = queue;
    o->size = size;
    return true;
}

/* A zeroed record to fill in before the next call; it counts at once. */
static inline routerd_record *outbox_post(routerd_outbox *o)
{
    static routerd_record lost;
    routerd_record *r = o->waiting ? NULL : ring_slot(&o->ring);
    if (r) {
        ring_push(&o->ring);
    } else {
        if (o->first + o->waiting == o->size && !outbox_grow(o)) {
            o->failed = true;
            return &lost;
        }
        r = &o->queue[o->first + o->waiting++];
    }
    memset(r, 0, sizeof *r);
    return r;
}

/* True if anything new became visible to the consumer. */
static inline bool outbox_publish(routerd_outbox *o)
{
    while (o->waiting) {
        routerd_record *r = ring_slot(&o->ring);
        if (!r) break;
        *r = o->queue[o->first];
        ring_push(&o->ring);
        o->first++;
        if (!--o->waiting) o->first = 0;
    }
    return ring_publish(&o->ring);
}

#endif
