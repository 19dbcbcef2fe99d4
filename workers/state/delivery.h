/* Deliveries, in and out, until they are settled.
 *
 * An outgoing delivery is on one of its link's two lists: undelivered (queued, or being written) or unsettled (written,
 * waiting for the receiver).  A presettled one is gone as soon as it is written.
 */
#ifndef ROUTERD_WORKERS_DELIVERY_H
#define ROUTERD_WORKERS_DELIVERY_H

#include "workers/state/link.h"
#include "workers/state/session.h"

/* Octets that wait, in pieces (session/held.c). */
typedef struct held_piece held_piece;
typedef struct {
    held_piece *first, *last;
    uint32_t at;                   /* octets of the first piece that have been taken */
    size_t size;                   /* of those that wait */
} held_octets;

/* A delivery between this end of a link and its peer's (AMQP 1.0 part 2.6.12), from its first octet until both have
 * forgotten it.  All of a link's are on its list; those that came and were not taken are on its list of unread ones,
 * too.
 *
 * What most messages need comes first, in two cache lines.  What comes behind `tag` is set in few of them: it is the
 * same in a spare delivery as in a new one. */
typedef struct delivery {
    _Alignas(64) struct delivery *next;    /* of the link, or of spare ones */
    struct delivery *previous;
    worker_link *link;
    void *context;                 /* the in_delivery or out_delivery; NULL: none */
    struct delivery *after, *before;       /* in: of the link's unread ones; out: of those that wait for the window */
    uint32_t id;                   /* the delivery-id, once numbered */
    uint32_t local_code;           /* our state */
    uint32_t state_code, state_size;
    const uint8_t *state;          /* the peer's state as octets, valid if it has a code */
    struct delivery *changed_next, *changed_previous;
    const uint8_t *direct;         /* the payload of the frame that is being read */
    uint32_t direct_size;
    uint32_t format;               /* of the message (AMQP 1.0 part 2.7.5) */
    bool outgoing;
    bool partial, aborted;         /* in: more is to come; it was aborted */
    bool settled, updated;         /* the peer has settled it; its state or settlement has not been looked at */
    bool unread;                   /* in: it is on its link's list of unread ones */
    bool mapped;                   /* its session finds it by its id */
    bool changed;                  /* no frame has said our state */
    bool numbered, done, sent;     /* out: a frame has left; all is written; all frames have left */
    bool presettled;               /* out: its frames say that it is settled */
    bool aborting;                 /* out: its last frame says that it is aborted */
    bool queued;                   /* out: it waits for the window */
    bool laden;                    /* it has something behind `tag` */
    uint8_t tag_size;
    uint8_t tag[32];               /* in: of a routed link's deliveries alone */
    held_octets held;              /* in: not taken; out: they wait for the window */
    uint32_t held_frames;          /* in: the TRANSFERs of those, which the session's window counts */
    uint8_t *state_made;           /* `state` as octets of a long_state; NULL: it is none */
    uint8_t *local;                /* our state as octets, `said` if it is short; NULL: one without fields */
    uint32_t local_size;
    uint8_t small[24];             /* octets of `state`, if it is short */
    uint8_t said[24];              /* octets of `local`, if it is short */
    uint8_t settle_mode;           /* enum lane_settle_mode, as its first TRANSFER says */
    bool resumed;                  /* in: its first TRANSFER says `resume` */
    bool long_tag;                 /* in: its tag has more octets than a tag may have */
} delivery;

_Static_assert(offsetof(delivery, tag) + 8 <= 128, "what most messages need, and a tag of ours, is in two cache lines");

typedef struct in_delivery {
    slot_head slot;
    delivery *delivery;
    worker_link *link;
    struct in_delivery *next, *previous;
    uint64_t core;                 /* the core's handle, 0 until told */
    arena_writer writer;
    union {
        uint64_t scan_at;          /* until it is posted: nothing is found in fewer bytes than these */
        uint64_t read_to;          /* then: the position of the slowest reader */
    };
    uint64_t wasted;               /* bytes since an outcome; beyond HOLD_LEAST the sender gets it at once */
    struct route_body *body;       /* the wrapping or unwrapping of its remaining payload; NULL: none */
    uint32_t outcome;              /* an outcome before the message's end; the sender gets it at the end */
    uint32_t to_offset, to_length; /* the place of its next address, if not 0 */
    bool whole;                    /* arrived in one piece: no writer */
    bool posted, settled, complete, discard, refund, grown;
    bool outcome_sent;             /* its sender has the outcome and is to settle */
    bool passed;                   /* it has passed route workers */
    bool wants_whole;              /* a route worker needs the whole message */
    bool stream : 1, gathered : 1; /* it is one of its connection's streams; and one of those that are gathered */
    uint8_t origin;                /* enum deliver_origin (record.h); 0: none */
} in_delivery;

_Static_assert(sizeof(in_delivery) == 128, "in two cache lines");

typedef struct out_delivery {
    slot_head slot;
    delivery *delivery;            /* NULL until the first byte is written */
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

/* Notes in a chain's head block of which link and what format its message is. */
static inline void note_delivery(pump *p, const delivery *d, uint32_t head)
{
    arena_block *b = arena_at(&p->arena.view, head);
    note_link(p, d->link, head);
    if (b) b->format = d->format;
}

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
