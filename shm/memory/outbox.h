/* A producer that never waits: a ring, and a private queue for records that find the ring full.
 *
 * Records keep their order: while the queue has records, new ones join it.  The owner calls outbox_publish() once per
 * batch, which moves records from the queue into the ring.  `waiting` is the queue's length, so that the owner can stop
 * accepting work that would add to it.
 *
 * A record whose type is still 0 has not got all that it needs.  It waits in the queue, and all behind it do, until the
 * owner completes it (outbox_first).
 */
#ifndef ROUTERD_SHM_OUTBOX_H
#define ROUTERD_SHM_OUTBOX_H

#include <stdlib.h>

#include "shm/memory/ring.h"

typedef struct {
    routerd_producer ring;
    routerd_record *queue;      /* [first, first + waiting) */
    size_t first, waiting, size;
    bool failed;                /* out of memory: a record was lost, and the process must exit */
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
    if (o->first > o->size / 2) {           /* more free places than records to move: each record moves once */
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

/* The record that has waited longest; NULL: none waits. */
static inline routerd_record *outbox_first(const routerd_outbox *o) { return o->waiting ? &o->queue[o->first] : NULL; }

/* A record that waits for the ring. */
__attribute__((noinline)) static routerd_record *outbox_queue(routerd_outbox *o)
{
    static routerd_record lost;
    if (o->first + o->waiting == o->size && !outbox_grow(o)) {
        o->failed = true;
        return &lost;
    }
    return &o->queue[o->first + o->waiting++];
}

/* A zeroed record, posted already, which the caller fills in before the next call. */
static inline routerd_record *outbox_post(routerd_outbox *o)
{
    routerd_record *r = __builtin_expect(!o->waiting, 1) ? ring_slot(&o->ring) : NULL;
    if (__builtin_expect(r != NULL, 1)) ring_push(&o->ring);
    else r = outbox_queue(o);
    memset(r, 0, sizeof *r);
    return r;
}

/* True if anything new became visible to the consumer. */
static inline bool outbox_publish(routerd_outbox *o)
{
    while (o->waiting) {
        routerd_record *r = ring_slot(&o->ring);
        if (!r || !o->queue[o->first].type) break;
        *r = o->queue[o->first];
        ring_push(&o->ring);
        o->first++;
        if (!--o->waiting) o->first = 0;
    }
    return ring_publish(&o->ring);
}

#endif
