/* Deliveries, in and out, until they are settled.
 *
 * An outgoing delivery is on one of its link's two lists: undelivered (queued, or being written) or unsettled (written,
 * waiting for the receiver).  A presettled one is gone as soon as it is written.
 */
#ifndef ROUTERD_WORKERS_DELIVERY_H
#define ROUTERD_WORKERS_DELIVERY_H

#include "workers/state/link.h"

typedef struct in_delivery {
    slot_head slot;
    pn_delivery_t *engine;
    worker_link *link;
    struct in_delivery *next, *previous;
    uint64_t core;                 /* the core's handle, 0 until told */
    arena_writer writer;
    uint64_t read_to;              /* the position of the slowest reader */
    uint32_t outcome;              /* an outcome before the message's end; the sender gets it at the end */
    uint64_t wasted;               /* bytes received since; beyond HOLD_HIGH the sender gets the outcome at once */
    bool whole;                    /* arrived in one piece: no writer */
    bool posted, settled, complete, discard, refund, grown;
    bool outcome_sent;             /* its sender has the outcome and is to settle */
    bool passed;                   /* it has passed route workers */
    bool wants_whole;              /* a route worker needs the whole message */
    uint8_t origin;                /* enum deliver_origin (record.h); 0: none */
    uint32_t to_offset, to_length; /* the place of its next address, if not 0 */
    struct route_body *body;       /* the wrapping or unwrapping of its remaining payload; NULL: none */
} in_delivery;

typedef struct out_delivery {
    slot_head slot;
    pn_delivery_t *engine;         /* NULL until the first byte is written */
    worker_link *link;
    struct out_delivery *next, *previous;
    uint64_t core;
    arena_reader reader;
    uint64_t reported;             /* position last reported to the core */
    uint64_t began, finished;      /* the times of its first and its last written byte; 0: not yet */
    uint64_t starved;              /* its link's time without credit: before it arrived; once begun, since it arrived */
    routerd_record *initial_state; /* its sender's state from before its begin (initial_state.c); NULL: none */
    uint32_t override;             /* the block of its to-override in the core's arena, plus 1; 0: none */
    uint8_t routed;                /* enum send_routed */
    uint8_t arena, priority;
    bool settled, droppable, streaming, outcome_known, sent, aborted;
    bool begun;                    /* of a frame (framed/out.c): the kernel has a part, or gets it in any case */
    bool waits;                    /* its receiver took no message at the last poll (out_waits) */
} out_delivery;

/* Notes that the first byte of a delivery is sent, so its link has credit. */
static inline void out_begun(const pump *p, worker_link *k, out_delivery *o)
{
    if (__builtin_expect(k->starved_since != 0, 0)) {
        k->starved = link_starved(p, k);
        k->starved_since = 0;
    }
    o->starved = k->starved - o->starved;
    o->began = p->now_ns;
}

/* Writes into a record the time of a delivery's last byte, the time of writing, and the time without credit. */
static inline void out_times(const out_delivery *o, routerd_record *r)
{
    uint64_t writing = (o->finished - o->began) / 1000;
    r->time = o->finished;
    r->credit = writing < UINT32_MAX ? (uint32_t) writing : UINT32_MAX;
    r->length = o->starved;
}

#endif
