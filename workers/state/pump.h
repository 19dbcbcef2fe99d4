/* The worker's objects and the state of its pump.
 *
 *   object              engine's counterpart    owned by     named in records by
 *   worker_connection   connection, transport   pool conns   CONN payloads (index, generation)
 *   worker_link         link                    pool links   link, link_gen
 *   in_delivery         incoming delivery       pool ins     handle
 *   out_delivery        outgoing delivery       pool outs    handle
 *
 * An outgoing delivery is on one of its link's two lists: undelivered (queued, or being written) or unsettled (written,
 * waiting for the receiver).  A presettled one is gone as soon as it is written.
 * Links that have something to send stand on their connection's links_with_work lists, one for each priority.
 */
#ifndef ROUTERD_WORKERS_PUMP_H
#define ROUTERD_WORKERS_PUMP_H

#include <netinet/in.h>
#include <semaphore.h>
#include <time.h>

#include "workers/amqp/annotations.h"
#include "shm/arena.h"
#include "shm/doorbell.h"
#include "workers/state/engine.h"
#include "shm/outbox.h"
#include "workers/state/pool.h"
#include "shm/record.h"
#include "shm/ring.h"
#include "shm/stats.h"
#include "shm/unity.h"

#define MAX_CONNECTIONS (1u << 16)
#define MAX_LINKS (1u << 20)
#define MAX_DELIVERIES (1u << 22)
#define MAX_LISTENERS 512u         /* places: listening sockets and connectors */
#define READ_TURNS 4               /* reads from one socket before the others get their turn */
#define WORK_BATCH 512             /* work records served before sockets get their turn */
#define HOLD_HIGH (256u << 10)     /* unread bytes of a stream at which the worker stops receiving it */
#define HOLD_LOW (128u << 10)
#define PROGRESS_STEP (64u << 10)  /* bytes of a stream after which a reader reports its progress to the core */
#define SESSION_HIGH (128u << 10)  /* bytes in the engine for a session at which the worker writes no more deliveries */
#define SCAN_LIMIT (1u << 20)      /* annotations and properties longer than this are refused */
#define GROWN_BATCH 256
#define COMPLAINTS 32u              /* kinds of malformed messages with log lines of their own */
#define COMPLAINT_MS 60000         /* interval of the lines of one kind */
#define CONTROL_RESERVE 64u        /* the minimum of blocks reserved for dispositions and control payloads */

enum pump_event {                  /* the events that Python handles */
    EV_CONNECTION_OPEN, EV_CONNECTION_CLOSE, EV_CONNECTION_GONE, EV_ATTACH, EV_DETACH, EV_LINK_LOST, EV_CONTROL,
    EV_ACCEPT_FAILED,
    EV_CERTIFICATES, EV_SESSION_DENIED, EV_MESSAGE_DENIED, EV_MESSAGE_REFUSED, EV_TRACE, EV_ATTACHED, EV_MESSAGE,
    EV_FRAMED_OPEN,
    EV_ROUTE_SENDER, EV_RELAY
};

typedef struct {
    slot_head slot;
    pn_connection_t *engine;
    pn_transport_t *transport;
    int fd;
    uint16_t listener;
    uint16_t work_mask;            /* priorities whose list is not empty */
    bool opened;                   /* the peer's OPEN has been seen */
    bool reading, want_write, dirty, failed, output_done;
    bool known;                    /* the core has been told of it */
    uint32_t dirty_next;
    uint32_t link_first;           /* all its links */
    uint32_t links_in, links_out;
    uint32_t work_first[ROUTERD_PRIORITIES], work_last[ROUTERD_PRIORITIES];
    int64_t tick_at, deadline;     /* milliseconds of CLOCK_MONOTONIC; 0: none */
    char *user;                    /* the only user-id that messages may have (security.c); NULL: any */
    uint64_t max_message;          /* bytes; 0: no limit */
    uint32_t window;               /* frames of each session */
    uint32_t sessions, max_sessions;   /* max 0: no limit but the channels */
    struct sockaddr_in6 peer;      /* the peer's address, IPv6 or IPv4 */
    bool secured;                  /* it was accepted with TLS */
    uint8_t trace;                 /* enum trace_setting (trace.c) */
    struct pump *tracer;           /* the pump to which the engine reports each frame; NULL: none */
    bool denied;                   /* it is being closed for a message that was too large, and nothing more is
                                      received */
    uint8_t trusted;               /* the trusted forms of received router annotations: a mask (annotations.h) */
    uint8_t annotations;           /* the form of sent router annotations: enum content_annotations */
    bool dialled;                  /* the router has initiated it */
    struct framed_connection *framed; /* its framed protocol (framed.c); NULL: AMQP */
    bool messages_logged;          /* Python logs each of its messages (message_log.c) */
    struct websocket *websocket;   /* its WebSocket framing (websocket.c); NULL: none */
    struct relay *relay;           /* its relayed SASL exchange (relay.c); NULL: the engine's */
} worker_connection;

typedef struct {
    slot_head slot;
    pn_link_t *engine;
    worker_connection *conn;
    uint32_t next, previous;       /* on the connection */
    uint32_t capacity;             /* credit its listener gives */
    bool outgoing, open;
    bool known;                    /* the core has been told of it */
    bool stalled, held;            /* in: no block was left for it; in: a stream is too far ahead of its readers */
    bool drain_asked, drain_ready; /* out: drain sent to the core; answer it once the list is empty */
    bool draining;                 /* in: the core wants the credit back */
    bool routed;                   /* it belongs to a link-route pair: transfers and credit are the far peer's
                                      (link_routes.c) */
    bool framed;                   /* it belongs to a framed connection (framed.c), whose credit is counted here */
    int32_t credit;
    bool to_table;                 /* in: its address is a route table, which routes by each message's key
                                      (rmr_key.h) */
    bool anonymous;                /* in: it is anonymous, so a message may go to a route table */
    int32_t promised;              /* out, routed: unused credit of the far sender */
    bool router_initiated;         /* router-initiated, by a link request of the core */
    uint32_t asked;                /* the number of that request until the peer has answered; 0: none */
    uint64_t order;                /* the order in which a new core learns of the links */
    int8_t on_list;                /* out: links_with_work priority, -1: on none */
    uint32_t work_next, work_previous;
    uint32_t owed;                 /* in: credit to give with the next flow */
    uint32_t kept[2];              /* in: blocks of each class that its messages occupy */
    uint32_t stalled_next;
    struct in_delivery *current;   /* in: the message being received, if not in one piece */
    struct in_delivery *in_first;    /* in: unsettled */
    struct out_delivery *queue_first, *queue_last, *unsettled_first;
    uint32_t queued, queued_settled; /* out: undelivered, and how many of them came presettled */
    uint64_t seen_tag;             /* out: `tag` at the last poll */
    uint8_t queue_priority;        /* highest priority waiting */
    uint64_t tag;
    uint64_t dry_since;            /* out: the time of the first poll without credit; 0: it has some */
    struct route_sender *sender;   /* in: the sender, for route workers; NULL: no message of it has been one's */
    uint64_t starved_since, starved;   /* out: when what waits on it found no credit, 0: it has some; and how long in
                                          all, before that */
} worker_link;

typedef struct in_delivery {
    slot_head slot;
    pn_delivery_t *engine;
    worker_link *link;
    struct in_delivery *next, *previous;
    uint64_t core;                 /* the core's handle, 0 until told */
    arena_writer writer;
    uint64_t read_to;              /* the position of the slowest reader */
    uint32_t outcome;              /* an outcome before the message's end; the sender gets it, with settlement, at the
                                      end */
    uint64_t wasted;               /* bytes received since; beyond HOLD_HIGH the sender gets it at once, so that it may
                                      stop */
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
    uint64_t starved;              /* the time of its link without credit: before its arrival, and since then once it
                                      has begun */
    routerd_record *initial_state; /* its sender's state from before its begin (initial_state.c); NULL: none */
    uint32_t override;             /* the block of its to-override in the core's arena, plus 1; 0: none */
    uint8_t routed;                /* enum send_routed */
    uint8_t arena, priority;
    bool settled, droppable, streaming, outcome_known, sent, aborted;
    bool begun;                    /* of a frame (framed/out.c): the kernel has a part of it, or will get it in any
                                      case */
    bool waits;                    /* its receiver took no message at the last poll (out_waits) */
} out_delivery;

typedef struct {
    int fd;                        /* -1: removed, or a connector's; it may still have connections */
    bool dials;                    /* a connector's: it accepts nobody */
    bool relays;                   /* an authentication service authenticates its clients (relay.c) */
    char offered[256];             /* the SASL mechanisms that Cyrus SASL serves (relay.c); empty: the engine serves
                                      all */
    bool hands_over;               /* its socket brings connections that the exporter has accepted (websocket.c) */
    uint32_t config;               /* the number of its ListenerSetup or ConnectorSetup */
    bool armed;
    uint32_t max_frame, idle_timeout_ms, handshake_ms, link_capacity, window;
    uint16_t channel_max;
    bool authenticate, encrypt;    /* required of every connection */
    char mechanisms[256];          /* empty: all of the engine */
    pn_ssl_domain_t *tls;          /* NULL: none */
    int64_t tls_checked;           /* the time of the last check of its files */
    struct framed_terms *framed;   /* the terms of its framed connections (framed.c); NULL: AMQP */
} worker_listener;

typedef struct pump pump;
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
    int doorbell_fd, epoll_fd, wake_fd;
    stats_page *stats;
    stats_page *others[ROUTERD_MAX_WORKERS];
    pool conns, links, ins, outs;
    pn_collector_t *collector;
    worker_listener listeners[MAX_LISTENERS];
    uint32_t listener_count;
    uint32_t dirty_first;
    uint32_t stalled_first;
    uint64_t grown[GROWN_BATCH];   /* streams that have grown since the last report to the core */
    uint32_t grown_count;
    uint32_t low_small, low_large; /* pause reading below, resume above twice that */
    uint32_t reserve;              /* blocks kept back for dispositions and control payloads */
    bool paused, accepting, withhold, woken, accept_waiting, freed;
    bool tracing;                  /* the log shows frames of connections without a setting of their own (trace.c) */
    bool detached;                 /* detached: there is no core, nothing is posted and no ring is touched (resync.c) */
    bool resting;                  /* detached or resyncing: incoming messages wait in the engine */
    routerd_record discarded;      /* what is posted while there is no core */
    annotations_self identity;
    struct route_engine *routes;   /* the route workers; NULL: there are none */
    struct framed_batch *batch;    /* what framed connections send by; NULL: there has been none */
    uint8_t extracts;              /* the parts of the flow extract: a mask of enum extract_parts (flow_extract.c) */
    /* logged kinds of malformed messages, and the time of their next line */
    struct { const char *why; int64_t again; } complaints[COMPLAINTS];
    uint64_t now_ns;
    int64_t now_ms, next_sweep, accept_retry;
    uint64_t busy_poll_ns;
    uint64_t moved;            /* records in and out at the last idle turn */
    uint32_t unsettled;
    uint64_t attached;             /* the number of links so far */
    pump_callback on_event;
    void *self;
};

static inline uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

static inline void mark_dirty(pump *p, worker_connection *c)
{
    if (c->dirty) return;
    c->dirty = true;
    c->dirty_next = p->dirty_first;
    p->dirty_first = pool_index(&p->conns, c);
}

/* A posted action, which the caller fills in before the next one. */
static inline routerd_record *post_action(pump *p)
{
    if (__builtin_expect(!p->detached, 1)) return outbox_post(&p->actions);
    memset(&p->discarded, 0, sizeof p->discarded);
    return &p->discarded;
}

static inline bool work_pending(const pump *p) { return !p->detached && ring_pending(&p->work); }

static inline routerd_record *post_link(pump *p, uint8_t type, const worker_link *k)
{
    routerd_record *r = post_action(p);
    r->type = type;
    r->arena = (uint8_t) p->index;
    r->block = ROUTERD_NIL;
    r->link = pool_index(&p->links, k);
    r->link_gen = k->slot.generation;
    return r;
}

/* Publishes the posted actions, and wakes the core if it sleeps. */
static inline void publish_actions(pump *p)
{
    if (!p->detached && outbox_publish(&p->actions) && doorbell_should_ring(p->core_bell)) sem_post(p->core_semaphore);
}

/* Whether there is a block besides those reserved for control payloads. */
static inline bool blocks_left(const pump *p) { return p->arena.free_count[0] + p->arena.free_count[1] > p->reserve; }

/* A link may keep half as many blocks of each class as are free of it, or else one message.  The more links have slow
 * readers, the less each may keep: something is always left for the others. */
static inline bool over_share(const pump *p, const worker_link *k)
{
    return k->kept[0] > p->arena.free_count[0] / 2 || k->kept[1] > p->arena.free_count[1] / 2;
}

/* Counts the blocks that a link has taken or returned since `before`, the free blocks then.  The count never gets
 * negative: a restarted worker may get back blocks of its predecessor. */
static inline void kept_change(const pump *p, worker_link *k, const uint32_t before[2])
{
    for (uint32_t c = 0; c < 2; c++) {
        int64_t kept = (int64_t) k->kept[c] + before[c] - p->arena.free_count[c];
        k->kept[c] = kept > 0 ? (uint32_t) kept : 0;
    }
}

/* A new link of a connection, with the listener's terms.  NULL: there is no room. */
static inline worker_link *link_begin(pump *p, worker_connection *c, bool outgoing)
{
    worker_link *k = (worker_link *) pool_take(&p->links);
    if (!k) return NULL;
    k->conn = c;
    k->outgoing = outgoing;
    k->capacity = p->listeners[c->listener].link_capacity;
    k->on_list = -1;
    k->order = p->attached++;
    k->previous = ROUTERD_NIL;
    k->next = c->link_first;
    if (k->next != ROUTERD_NIL) ((worker_link *) pool_at(&p->links, k->next))->previous = pool_index(&p->links, k);
    c->link_first = pool_index(&p->links, k);
    if (outgoing) c->links_out++;
    else c->links_in++;
    stats_set(p->stats, N_LINKS, p->links.used);
    return k;
}

/* Notes in a chain's head block the link whose message it is. */
static inline void note_link(pump *p, const worker_link *k, uint32_t head)
{
    arena_block *b = arena_at(&p->arena.view, head);
    if (!b) return;
    b->note[0] = pool_index(&p->links, k);
    b->note[1] = k->slot.generation;
}

static inline void credit_owed(pump *p, worker_link *k, uint32_t credit)
{
    if (__builtin_expect(k->framed, 0)) {
        k->credit += (int32_t) credit;
        mark_dirty(p, k->conn);
        return;
    }
    k->owed += credit;
    /* little credit is returned one by one */
    uint32_t threshold = k->routed || k->capacity < 32 ? 1 : k->capacity < 256 ? k->capacity / 8 : 32;
    if (k->owed && k->owed >= threshold && k->open && !p->withhold && !p->resting) {
        pn_link_flow(k->engine, (int) k->owed);
        k->owed = 0;
        mark_dirty(p, k->conn);
    }
}

/* ---- links_with_work ---- */

static inline void work_remove(pump *p, worker_link *k)
{
    if (k->on_list < 0) return;
    worker_connection *c = k->conn;
    uint32_t q = (uint32_t) k->on_list;
    if (k->work_previous == ROUTERD_NIL) c->work_first[q] = k->work_next;
    else ((worker_link *) pool_at(&p->links, k->work_previous))->work_next = k->work_next;
    if (k->work_next == ROUTERD_NIL) c->work_last[q] = k->work_previous;
    else ((worker_link *) pool_at(&p->links, k->work_next))->work_previous = k->work_previous;
    if (c->work_first[q] == ROUTERD_NIL) c->work_mask &= (uint16_t) ~(1u << q);
    k->on_list = -1;
}

/* Appends the link to its priority's list; it moves to a more urgent list if needed. */
static inline void work_add(pump *p, worker_link *k)
{
    uint32_t q = k->queue_priority;
    if (k->on_list >= (int) q) { mark_dirty(p, k->conn); return; }
    work_remove(p, k);
    worker_connection *c = k->conn;
    uint32_t index = pool_index(&p->links, k);
    k->work_next = ROUTERD_NIL;
    k->work_previous = c->work_mask & (1u << q) ? c->work_last[q] : ROUTERD_NIL;
    if (k->work_previous == ROUTERD_NIL) c->work_first[q] = index;
    else ((worker_link *) pool_at(&p->links, k->work_previous))->work_next = index;
    c->work_last[q] = index;
    c->work_mask |= (uint16_t) (1u << q);
    k->on_list = (int8_t) q;
    mark_dirty(p, c);
}

#endif
