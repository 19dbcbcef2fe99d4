/* The 64-byte records of the rings between a worker and the core (docs/memory-layout.md, Rings).
 *
 * A worker posts ACTIONS (worker -> core); the core posts WORK (core -> worker).  A record holds no pointer.  It names
 * table entries by index and generation, so a reader recognises and drops records about entries of a dead process:
 *
 *   link, link_gen   a link in the WORKER's link table, in both directions
 *   delivery         a handle of the process that READS the record (0 where it has none yet)
 *   peer             a handle of the process that WROTE it, which answers return
 *   arena, block     a chain of blocks: message content, or a payload (see arena.h)
 *
 * A handle is index | generation << 32, generation never 0; 0 is "no handle".
 */
#ifndef ROUTERD_SHM_RECORD_H
#define ROUTERD_SHM_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#define ROUTERD_RECORD_SIZE 64u
#define ROUTERD_NIL UINT32_MAX     /* no block, no link */
#define ROUTERD_MAX_WORKERS 64u    /* arenas: 0..workers-1 belong to the workers, number `workers` to the core */
#define ROUTERD_PRIORITIES 10u
#define ROUTERD_LINK_CREDIT 250u       /* of a sending link without a configured linkCapacity */
#define ROUTERD_LINK_CREDIT_MOST 1000u /* and what the core lets it grow to */

typedef struct {
    uint8_t type;          /* enum routerd_action or routerd_work */
    uint8_t flags;         /* enum routerd_record_flag */
    uint8_t priority;      /* 0..9 */
    uint8_t arena;         /* whose arena `block` is in */
    uint32_t link;         /* ROUTERD_NIL: the record is about a connection */
    uint32_t link_gen;
    uint32_t block;        /* ROUTERD_NIL: none */
    uint64_t delivery;
    uint64_t peer;
    uint32_t state;        /* AMQP delivery state code (0x23..0x27, 0x33..); 0: none.  CONTROL: enum
                              routerd_control_kind */
    uint32_t credit;       /* credit to grant, or returned; CONN records: the worker's connection index */
    uint64_t length;       /* bytes: published (DELIVER, CONTINUE, SEND), consumed (PROGRESS, CONSUMED) */
    uint64_t time;         /* nanoseconds of CLOCK_MONOTONIC: arrival (DELIVER), 0 elsewhere; CONN records:
                              generation */
    uint64_t extra;        /* UPDATE: enum routerd_update_detail. SEND to a router: block of the
                              to-override's text in the core's arena (a payload, alive until the delivery is over) plus
                              1, 0: none; `state` then holds enum routerd_send_routed and the phase */
} routerd_record;

_Static_assert(sizeof(routerd_record) == ROUTERD_RECORD_SIZE, "a record is one cache line");

enum routerd_action {          /* worker -> core */
    A_NONE = 0,
    A_DELIVER = 1,             /* link, block, peer = incoming delivery, flags, priority, length, time. Presettled: peer
                                  0 unless incomplete. On a link to a route table also `state`, `delivery`, `extra` and
                                  `credit`: the key, see enum deliver_key */
    A_CONTINUE = 2,            /* delivery = core's incoming handle: content grew, or flags COMPLETE / ABORTED */
    A_UPDATE = 3,              /* delivery = core's handle (incoming: see IN flag): state, extra, block = detail
                                  payload, flags SETTLED. Outgoing, sent: `time` of its last byte, microseconds of
                                  writing in `credit`; nanoseconds without credit in `length` */
    A_DONE = 4,                /* delivery = core's outgoing handle: sent presettled (or dropped: DROPPED); no other
                                  action about it follows; times as UPDATE */
    A_PROGRESS = 5,            /* delivery = core's outgoing handle: `length` bytes have been read */
    A_DRAIN = 6,               /* link (outgoing): the receiver asks to drain */
    A_DRAINED = 7,             /* link (incoming): `credit` came back unused */
    A_FREE = 8,                /* block of the core's arena that the worker has read */
    A_CREDIT = 9,              /* link (outgoing, of a link-route pair): its receiver grants `credit` more, or as an
                                  int32 below 0 takes it back; 0: it ends its drain */
    A_WAITS = 13,              /* delivery = core's outgoing handle: it is presettled and waits, because its receiver
                                  takes none at present */
    A_CONTROL = 16             /* state = control kind, block = MessagePack payload; handled in Python */
};

enum routerd_work {            /* core -> worker */
    W_NONE = 0,
    W_SEND = 1,                /* link (outgoing), arena+block = content, peer = core's outgoing handle, flags SETTLED,
                                  priority, length */
    W_CONTINUE = 2,            /* delivery = worker's outgoing handle or 0, peer = core's outgoing handle, link: content
                                  grew / COMPLETE / ABORTED */
    W_UPDATE = 3,              /* delivery = worker's handle (incoming if IN), state, extra, arena+block = detail, flags
                                  SETTLED RELEASE; credit */
    W_RELEASE = 4,             /* block = head of a chain of the worker's own arena without readers; link+credit may
                                  replenish */
    W_CONSUMED = 5,            /* delivery = worker's incoming handle: the slowest reader has read `length` bytes, which
                                  may be freed */
    W_FLOW = 6,                /* link (incoming): grant `credit` more, or, as an int32 below 0, take it back
                                  (link-route pairs) */
    W_DRAIN = 7,               /* link (incoming): take back the sender's credit (answer: A_DRAINED) */
    W_DRAINED = 8,             /* link (outgoing): no more deliveries follow; answer the receiver's drain. In a
                                  link-route pair: `credit` came back */
    W_ACCEPTED = 9,            /* delivery = worker's incoming handle: the core knows it as `peer` (for later
                                  A_CONTINUE, A_UPDATE) */
    W_CONTROL = 16             /* state = control kind, arena+block = MessagePack payload; handled in Python */
};

enum routerd_record_flag {
    F_SETTLED = 1,             /* DELIVER/SEND: presettled. UPDATE: the writer has settled */
    F_COMPLETE = 2,            /* the whole message has been published */
    F_ABORTED = 4,             /* the message will never be complete */
    F_IN = 8,                  /* UPDATE: the handle is an incoming delivery's */
    F_RELEASE = 16,            /* UPDATE to a worker: `block` is the content chain to free (not a detail payload) */
    F_DROPPED = 32,            /* DONE: the presettled delivery was dropped, not sent */
    F_STALLED = 32,            /* CONTINUE: the writer finds no blocks for more of it */
    F_UNSENT = 64,             /* UPDATE from a lost outgoing link: not a byte had been sent */
    F_SLOW = 64,               /* DONE, dropped: because its receiver is slow */
    F_BRIEF = 64,              /* DELIVER: the record itself is the flow extract: `delivery` is the hash of the
                                  message-id or 0, `credit` the offset of the body or 0, `extra` the delivery-count.
                                  Never on a link to a route table */
    F_EXTRACT = 128             /* DELIVER: the content header has the flow extract */
};

enum routerd_update_detail {   /* low bits of `extra` in UPDATE */
    D_FAILED = 1,              /* modified, without a payload: delivery-failed */
    D_TOLD = 2,                /* work: the worker has this state already, with all that it says */
    D_PAYLOAD = 4              /* `block` holds the state as octets: see workers/amqp/disposition.c */
};

/* `state` of the DELIVER of a link to a route table: the route key that the worker has found in the message.
 *
 *   delivery   message type | subscription id << 32, each as 32 bits; no subscription: -1
 *   extra      offset of the MEID's text in the message | its length << 32; 0: there is none
 *   credit     offset of the source's text (name:port), whose length is the octet before it; 0: there is none */
enum deliver_key {
    KEY_NONE = 0,              /* the message has no key */
    KEY_FOUND = 1
};

enum deliver_origin {          /* `state` of DELIVER: a source-routed message. Its `to` wins over its link's target */
    DELIVER_OF_LINK = 16,      /* it has passed no route worker: the link's rights count */
    DELIVER_OF_WORKER = 32,    /* a route worker sends it */
    DELIVER_COPY = 64          /* a copy made by a route worker (tee): it does not count against the sender's credit */
};

enum routerd_send_routed {     /* `state` of SEND */
    SEND_PHASE = 15,           /* mask of the phase */
    SEND_STREAM = 16,          /* mark it as streaming */
    SEND_AFRESH = 32           /* ingress and trace start here */
};

enum routerd_control_kind {    /* A_CONTROL and W_CONTROL: payloads are the structs of shm/contract/payloads.py */
    C_CONNECTION_OPENED = 1,   /* worker -> core */
    C_CONNECTION_CLOSED = 2,   /* worker -> core */
    C_ATTACH = 3,              /* worker -> core (first attach) */
    C_ATTACHED = 4,            /* core -> worker (second attach) */
    C_DETACH = 5,              /* both directions: the link is closed, with or without error */
    C_CLOSE = 6,               /* core -> worker: close a connection */
    C_OPEN_LINK = 7,           /* core -> worker: attach a link to a peer */
    C_LINK_REFUSED = 8,        /* worker -> core: the link cannot be opened */
    C_POLL = 9,                /* core -> worker: a poll of links */
    C_SEEN = 10,               /* worker -> core: the answer to C_POLL */
    C_DENIED = 11,             /* worker -> core: a vhost's policy denied something */
    C_TRACE = 12,              /* core -> worker: log the frames of a connection or do not */
    C_CONNECTOR = 13,          /* worker -> core: the state of a connector */
    C_SERVED = 15,             /* worker -> core: the listeners that it serves, and those that it cannot */
    C_COST = 14,               /* worker -> core: the new cost of a connection to another router */
    C_ENDPOINT = 16,           /* core -> worker: keep a connection to an endpoint of a route table, or end it */
    C_ROUTE_REACH = 24,        /* core -> worker: the route workers that a link may send to */
    C_ROUTE_COUNTS = 25,       /* worker -> core: the increments of route workers' counts */
    C_PRESENTED = 29           /* worker -> core: all its links are presented; core -> worker: those of all workers are,
                                  so messages flow */
};

/* Numbers of sessions that the router begins (OpenLink.session). */
#define STREAM_SESSIONS 11u            /* from here on: one for each stream to a router; below: the other links */
#define ROUTED_SESSIONS (1u << 30)     /* from here on: those of link-route pairs */

/* The delivery states that the router reads (AMQP 1.0 part 3.4, part 4.5). */
enum { S_NONE = 0, S_RECEIVED = 0x23, S_ACCEPTED = 0x24, S_REJECTED = 0x25, S_RELEASED = 0x26, S_MODIFIED = 0x27,
       S_DECLARED = 0x33, S_TRANSACTIONAL = 0x34 };

/* Whether a state is an outcome, which ends a delivery (AMQP 1.0 part 3.4; in a transaction: part 4.5.5, 4.5.8). */
static inline bool state_is_terminal(uint32_t state)
{
    return (state >= S_ACCEPTED && state <= S_MODIFIED) || state == S_DECLARED || state == S_TRANSACTIONAL;
}

static inline uint64_t routerd_handle(uint32_t index, uint32_t generation)
{
    return (uint64_t) generation << 32 | index;
}
static inline uint32_t routerd_handle_index(uint64_t handle) { return (uint32_t) handle; }
static inline uint32_t routerd_handle_generation(uint64_t handle) { return (uint32_t) (handle >> 32); }

#endif
