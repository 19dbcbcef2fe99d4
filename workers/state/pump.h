/* The state of a worker's pump, and the records that it posts for the core.
 *
 *   object              header          engine's counterpart    owned by     named in records by
 *   worker_connection   connection.h    connection, transport   pool conns   CONN payloads (index, generation)
 *   worker_link         link.h          link                    pool links   link, link_gen
 *   in_delivery         delivery.h      incoming delivery       pool ins     handle
 *   out_delivery        delivery.h      outgoing delivery       pool outs    handle
 *
 * These headers know the planes (framed connections, route workers, WebSockets, ...) by pointers only.
 */
#ifndef ROUTERD_WORKERS_PUMP_H
#define ROUTERD_WORKERS_PUMP_H

#include <semaphore.h>
#include <time.h>

#include "shm/memory/chain_ahead.h"
#include "shm/memory/doorbell.h"
#include "shm/memory/heap.h"
#include "shm/memory/outbox.h"
#include "shm/statistics/stats.h"
#include "shm/unity.h"
#include "workers/state/listener.h"
#include "workers/state/pool.h"

#define MAX_CONNECTIONS (1u << 16)
#define MAX_LINKS (1u << 20)
#define MAX_DELIVERIES (1u << 22)
#define MAX_LISTENERS 512u         /* places: listening sockets and connectors */
#define READ_TURNS 4               /* reads from one socket before the others get their turn */
#define STREAM_SURE (32u << 10)    /* bytes of a stream that may always be ahead of its readers */
#define STREAM_BLOCKS 5u           /* large blocks for these, for its first bytes and for those being read */
#define HOLD_LEAST (256u << 10)    /* hold_high's bounds, in bytes, and its part of the arena */
#define HOLD_MOST (1024u << 10)
#define HOLD_PART 64u
#define GROWN_BATCH 256
#define STARVING_MOST 256
#ifndef WAITS_MOST
#define WAITS_MOST 2048u           /* deliveries that are marked in a turn as waiting (out_waits), but for one link's */
#define DRAINS_MOST 128u           /* links that ask the core in a turn whether they may end their drain (drains.c) */
#define SAID_AT_ONCE 64u           /* deliveries of a DISPOSITION between two looks at the share of the turn */
#define SETTLED_NS 200u            /* nanoseconds of a delivery that one of more than so many settles */
#define ENDS_AT_ONCE 64u           /* deliveries of a link that end between two looks at its connection's share */
#define ENDS_NS 200u               /* nanoseconds of each */
#define ENDED_DELIVERIES 2048u     /* deliveries that end in a turn with their connections */
#endif
#define COMPLAINTS 32u             /* kinds of malformed messages with log lines of their own */
#define TOLD_MOST 8u               /* control messages that the core has not read: about 1 ms of its time */
#define TOLD_SURE 2u               /* the same of one kind of work, however many the others have */
#define CONTROL_RESERVE 64u        /* the minimum of blocks reserved for outcomes and control payloads */

enum pump_event {                  /* the events that Python handles */
    EV_CONNECTION_OPEN, EV_CONNECTION_CLOSE, EV_CONNECTION_GONE, EV_ATTACH, EV_DETACH, EV_LINK_LOST, EV_CONTROL,
    EV_ACCEPT_FAILED, EV_ACCEPT_AGAIN,
    EV_CERTIFICATES, EV_SESSION_DENIED, EV_MESSAGE_DENIED, EV_MESSAGE_REFUSED, EV_TRACE, EV_ATTACHED, EV_MESSAGE,
    EV_FRAMED_OPEN,
    EV_ROUTE_SENDER, EV_RELAY
};

/* The kinds of work that make control messages; they have their turns in this order. */
enum teller {
    TELLER_FRAMES,                 /* frames of connections that are open, and whatever is neither of the others */
    TELLER_BEGINNING,              /* connections that are accepted, and their handshakes */
    TELLER_ENDING,                 /* connections that end, and their links */
    TELLERS
};

/* Where the last control messages to the core end in the ring, and how many there have been. */
typedef struct { uint64_t ends[TOLD_MOST]; uint32_t count; } told_record;

typedef struct pump pump;
typedef struct worker_connection worker_connection;
typedef struct worker_link worker_link;
typedef void (*pump_callback)(void *self, int event, worker_connection *conn, worker_link *link, void *object,
                              const routerd_record *record);

struct pump {
    uint32_t index;                /* of this worker; its arena's number */
    uint32_t workers;
    arena_owner arena;
    arena_view views[ROUTERD_MAX_WORKERS + 1];
    routerd_outbox actions;
    routerd_consumer work;
    routerd_doorbell *own_bell, *core_bell;
    sem_t *core_semaphore;
    int epoll_fd;
    stats_page *stats;
    stats_page *others[ROUTERD_MAX_WORKERS];
    pool conns, links, ins, outs;
    uint32_t *outs_of_core;        /* by the index in the core's handle: that in `outs`, plus 1; 0: none (egress.c) */
    uint32_t outs_room;
    pn_collector_t *collector;
    worker_listener listeners[MAX_LISTENERS];
    uint32_t listener_count;
    uint32_t dirty_first;
    struct lane_connection *behind_first, *behind_last;    /* whose frames wait for a turn, longest first (turns.c) */
    uint64_t turn, spent;          /* turns so far; what control frames have taken of this one, in nanoseconds */
    uint64_t begun;                /* the same of connections that begin (accept.c) */
    uint64_t share, looked;        /* of each socket in this turn; the last look at the clock, 0: long ago (reads.c) */
    uint32_t ending_first, ending_last;    /* connections that end, longest first (loop.c) */
    struct engine_rest *rest_first, *rest_last;    /* engine's connections that are being freed (ends.c) */
    told_record told, told_by[TELLERS];    /* all control messages to the core, and those of each kind of work */
    enum teller teller;            /* the kind of work that is being done */
    bool crowded;                  /* something waits until the core has read some of them */
    uint32_t stalled_first, stalled_last;  /* links that wait for blocks, longest first */
    uint32_t stalled_count, stalled_due;   /* all of them; those to look at in this turn and the next ones */
    uint32_t starving[STARVING_MOST];  /* receivers' links that had no credit at the last look (egress.c) */
    uint32_t starving_count;
    uint32_t waits;                /* deliveries that have been marked in this turn: the core hears of the droppable */
    struct worker_link *waits_first, *waits_last;      /* whose deliveries are marked in the next ones */
    struct worker_connection *drain_first, *drain_last;    /* with links that want to drain: they take turns */
    uint32_t streams;              /* messages of which more is to come */
    uint32_t gathered;             /* those with more than STREAM_SURE that the core has not heard of (streams.c) */
    struct worker_link *unposted_first, *unposted_last;    /* with such a message, of any size */
    bool stream_wanted;            /* a message has been turned away that would be one more of these */
    uint64_t grown[GROWN_BATCH];   /* streams that have grown since the last report to the core */
    uint32_t grown_count;
    uint32_t low_small, low_large; /* pause reading below, resume above twice that */
    uint32_t reserve;              /* blocks kept back for control payloads, and half of them for outcomes */
    bool paused, accepting, withhold, woken, accept_waiting, freed;
    bool exhausted;                /* accept() has found no descriptor or memory */
    bool tracing;                  /* the log shows frames of connections without a setting of their own (trace.c) */
    bool detached;                 /* detached: there is no core, nothing is posted and no ring is touched (resync.c) */
    bool resting;                  /* detached or resyncing: incoming messages wait in their links */
    int64_t hindered;              /* when the router last held up messages itself (session/slow.c) */
    uint64_t core_read;            /* what the core had read of the actions at the last sweep */
    routerd_record discarded;      /* what is posted while there is no core */
    struct read_buffer *buffer, *buffers;  /* for the next read of a socket (session.h), and for later ones */
    uint32_t buffer_count;         /* of the latter */
    struct lane_lent *lent;        /* what the connection that is being served sends from blocks (session.h) */
    const struct annotations_self *identity;   /* this router in messages (annotations.h) */
    struct route_engine *routes;   /* the route workers; NULL: there are none */
    struct framed_batch *batch;    /* what framed connections send by; NULL: there has been none */
    struct worker_connection *long_first, *long_last;  /* those that wait for the memory for a long frame (framed) */
    uint64_t long_lent;            /* octets of these frames */
    uint8_t extracts;              /* the parts of the flow extract: a mask of enum extract_parts (flow_extract.c) */
    /* logged kinds of malformed messages, and the time of their next line */
    struct { const char *why; int64_t again; } complaints[COMPLAINTS];
    uint64_t now_ns;               /* when the turn began, its last read ended, or its work began */
    int64_t now_ms, next_sweep, accept_retry;
    int64_t accept_failed;         /* when it last found none; 0: never, or that is over and has been told */
    uint32_t accept_first;         /* the listener that is looked at first after a while without */
    uint64_t busy_poll_ns;
    uint64_t moved;            /* records in and out at the last idle turn */
    bool heap_due;                 /* the heap has memory to give back (memory.c) */
    heap_crowd crowd, loads;       /* of connections and links; of what these keep */
    uint64_t kept_octets;          /* octets of peers that wait, and long states */
    uint64_t moved_before;         /* records in and out at the last look at memory */
    uint32_t unsettled;
    uint64_t attached;             /* the number of links so far */
    pump_callback on_event;
    void *self;
};

enum { CONNECTION_LINKS = 8 };         /* links whose memory one connection takes: with TLS it has 100 KB */

/* A connection or a link begins: they may have gone before memory is looked at again. */
static inline void pump_crowd(pump *p)
{
    heap_crowd_is(&p->crowd, CONNECTION_LINKS * p->conns.used + p->links.used);
}

/* Connections keep so many octets more, or fewer: when most of many have gone, the heap has memory to give back. */
static inline void pump_keeps(pump *p, int64_t more)
{
    p->kept_octets += (uint64_t) more;
    heap_crowd_is(&p->loads, (uint32_t) (p->kept_octets >> HEAP_PIECE));
}

static inline uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

/* Reads the clock after a read: what it brought may have been sent long after the turn began. With an earlier time a
 * message would come to a router before it left the one before it. */
static inline void pump_look(pump *p) { p->now_ns = clock_ns(); }

/* A posted action, which the caller fills in before the next one. */
__attribute__((always_inline)) static inline routerd_record *post_action(pump *p)
{
    if (__builtin_expect(!p->detached, 1)) return outbox_post(&p->actions);
    memset(&p->discarded, 0, sizeof p->discarded);
    return &p->discarded;
}

static inline bool work_pending(const pump *p) { return !p->detached && ring_pending(&p->work); }

GLUE bool control_complete(pump *p);

/* Publishes the posted actions, and wakes the core if it sleeps. */
static inline void publish_actions(pump *p)
{
    if (p->detached) return;
    bool fresh = outbox_publish(&p->actions);
    if (__builtin_expect(p->actions.waiting, 0)) fresh |= control_complete(p);
    if (fresh && doorbell_should_ring(p->core_bell)) sem_post(p->core_semaphore);
}

static inline void told_add(told_record *told, uint64_t end) { told->ends[told->count++ % TOLD_MOST] = end; }

/* Whether the core has so many of these control messages before it, or more. */
static inline bool told_unread(const told_record *told, uint32_t number, uint64_t tail)
{
    return (int64_t) (told->ends[(told->count - number) % TOLD_MOST] - tail) > 0;
}

/* Whether the core has as many control messages before it as it may: messages wait behind them.  Whoever would cause
 * another waits, and tries again in the next turn.  A kind of work of which the core has read nearly all goes on even
 * then: the others, which may have their turns before it, would take each place that becomes free. */
static inline bool core_crowded(pump *p)
{
    if (p->detached || !p->told.count) return false;
    uint64_t tail = atomic_load_explicit(&p->actions.ring.ring->tail, memory_order_relaxed);
    if (!told_unread(&p->told, TOLD_MOST, tail) || !told_unread(&p->told_by[p->teller], TOLD_SURE, tail)) return false;
    return p->crowded = true;
}

/* Unread bytes of a stream at which the worker stops receiving it. */
static inline uint64_t hold_high(const pump *p)
{
    uint64_t part = arena_data_bytes(&p->arena.view) / HOLD_PART;
    return part < HOLD_LEAST ? HOLD_LEAST : part > HOLD_MOST ? HOLD_MOST : part;
}

/* Whether there is a block besides those reserved for control payloads. */
static inline bool blocks_left(const pump *p) { return p->arena.free_count[0] + p->arena.free_count[1] > p->reserve; }

#endif
