/* The worker's objects and the state of its pump.
 *
 *   object      engine's counterpart   owned by      named in records by
 *   wconn       connection, transport  pool conns    CONN payloads (index, generation)
 *   wlink       link                   pool links    link, link_gen
 *   win         incoming delivery      pool ins      handle
 *   wout        outgoing delivery      pool outs     handle
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
#include "workers/source_routes/source_routes.h"
#include "shm/stats.h"
#include "shm/unity.h"

#define MAX_CONNECTIONS (1u << 16)
#define MAX_LINKS (1u << 20)
#define MAX_DELIVERIES (1u << 22)
#define MAX_LISTENERS 512u         /* terms of connections: a listening socket's, or a connector's */
#define READ_TURNS 4               /* reads from one socket before the others get their turn */
#define WORK_BATCH 512             /* work records served before sockets get their turn */
#define HOLD_HIGH (256u << 10)     /* streamed bytes nobody has read: stop receiving that message (facts 9, Q2) */
#define HOLD_LOW (128u << 10)
#define PROGRESS_STEP (64u << 10)  /* tell the core how far a streamed message has been read */
#define SESSION_HIGH (128u << 10)  /* bytes the engine holds for a session: write no more deliveries (facts 9, Q3) */
#define SCAN_LIMIT (1u << 20)      /* annotations and properties longer than this are refused */
#define GROWN_BATCH 256
#define COMPLAINTS 32u              /* kinds of malformed messages that are told of one by one */
#define COMPLAINT_MS 60000         /* each of them at most this often */
#define CONTROL_RESERVE 64u        /* at least so many blocks are kept back for dispositions and control payloads */

enum pump_event {                  /* what Python is called for */
    EV_CONNECTION_OPEN, EV_CONNECTION_CLOSE, EV_CONNECTION_GONE, EV_ATTACH, EV_DETACH, EV_LINK_LOST, EV_CONTROL,
    EV_ACCEPT_FAILED,
    EV_CERTIFICATES, EV_SESSION_DENIED, EV_MESSAGE_DENIED, EV_MESSAGE_REFUSED, EV_TRACE, EV_ATTACHED, EV_MESSAGE,
    EV_PLAIN_OPEN,
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
    char *user;                    /* whom user-id must name (security.h); NULL: not checked */
    uint64_t max_message;          /* bytes; 0: no limit */
    uint32_t window;               /* frames of each session */
    uint32_t sessions, max_sessions;   /* max 0: no limit but the channels */
    struct sockaddr_in6 peer;      /* or an IPv4 one: who connected */
    bool secured;                  /* it was accepted with TLS to speak */
    uint8_t trace;                 /* enum trace_wish (trace.h) */
    struct pump *tracer;           /* whom the engine tells of each frame; NULL: nobody */
    bool denied;                   /* being closed for a message that was too large: nothing more is taken */
    uint8_t heeded;                /* forms of router annotations that count when they come in here: a mask
                                      (annotations.h) */
    uint8_t annotations;           /* the form that they go out in: enum content_annotations */
    bool dialled;                  /* this side has made it */
    struct plain_conn *plain;      /* it has no engine: frames of another protocol (plain.h); NULL: AMQP */
    bool messages_logged;          /* each of its messages is told of (message_log.h) */
    struct websocket *websocket;   /* how its bytes travel, if not as they are (websocket.h) */
    struct relay *relay;           /* its SASL exchange is another's (relay.h); NULL: it is not */
} wconn;

typedef struct {
    slot_head slot;
    pn_link_t *engine;
    wconn *conn;
    uint32_t next, previous;       /* on the connection */
    uint32_t capacity;             /* credit its listener gives */
    bool outgoing, open;
    bool known;                    /* the core has been told of it */
    bool stalled, held;            /* in: no block was left for it; in: a streamed message has run ahead of its
                                      readers */
    bool drain_asked, drain_ready; /* out: drain sent to the core; answer it once the list is empty */
    bool draining;                 /* in: the core wants the credit back */
    bool routed;                   /* what passes is the far peer's, and so is the credit (routed.h) */
    bool plain;                    /* it is one of a connection without engine (plain.h): credit is counted here */
    int32_t credit;
    bool keyed;                    /* in: its address is a route table, which goes by each message's key (rmr_key.h) */
    bool loose;                    /* in: it has no address, so its messages may be to a route table, too */
    int32_t promised;              /* out, routed: credit that the far sender has been given and has not used */
    bool ours;                     /* this side has attached first, because the core wanted that */
    uint32_t asked;                /* what the core calls that wish, until the peer has answered; 0: nothing is asked */
    uint64_t order;                /* links of a connection are told to a new core in the order they came */
    int8_t on_list;                /* out: links_with_work priority, -1: on none */
    uint32_t work_next, work_previous;
    uint32_t owed;                 /* in: credit to give with the next flow */
    uint32_t kept[2];              /* in: blocks of each class that its messages occupy */
    uint32_t stalled_next;
    struct win *current;           /* in: the message being received, if not in one piece */
    struct win *in_first;          /* in: unsettled */
    struct wout *queue_first, *queue_last, *unsettled_first;
    uint32_t queued, queued_settled; /* out: undelivered, and how many of them came presettled */
    uint64_t seen_tag;             /* out: `tag` at the last look */
    uint8_t queue_priority;        /* highest priority waiting */
    uint64_t tag;
    uint64_t dry_since;            /* out: when a look first found it without credit; 0: it has some */
    route_sender sender;           /* in: who sends, for workers of source routes */
    uint64_t starved_since, starved;   /* out: when what waits on it found no credit, 0: it has some; and how long in
                                          all, before that */
} wlink;

typedef struct win {
    slot_head slot;
    pn_delivery_t *engine;
    wlink *link;
    struct win *next, *previous;
    uint64_t core;                 /* the core's handle, 0 until told */
    arena_writer writer;
    uint64_t read_to;              /* every reader has got this far */
    uint32_t outcome;              /* it has one before all of it has come: told, and settled, then; a client takes each
                                      telling for one */
    uint64_t wasted;               /* what has come since: beyond HOLD_HIGH it is told at once, so that the sender may
                                      stop */
    bool whole;                    /* arrived in one piece: no writer */
    bool posted, settled, complete, discard, refund, grown;
    bool told;                     /* its sender knows an outcome and is to settle */
    bool passed;                   /* workers of source routes have had it */
    bool wants_whole;              /* one of them has to see all of it */
    uint8_t origin;                /* enum deliver_origin (record.h); 0: none */
    route_first to;                /* where its next address stands, if that is not 0 */
    route_body *body;              /* how the rest of its payload is opened or wrapped; NULL: it goes as it comes */
} win;

typedef struct wout {
    slot_head slot;
    pn_delivery_t *engine;         /* NULL until the first byte is written */
    wlink *link;
    struct wout *next, *previous;
    uint64_t core;
    arena_reader reader;
    uint64_t reported;             /* position last told to the core */
    uint64_t began, finished;      /* when its first byte was written, and when its last one was; 0: not yet */
    uint64_t starved;              /* how long its link had no credit: before it came, and once it is begun, since
                                      then */
    routerd_record *early;         /* what its sender has said of it before it was begun (early.h); NULL: nothing */
    uint32_t override;             /* block in the core's arena of the to-override it wants, plus 1; 0: none */
    uint8_t routed;                /* enum send_routed */
    uint8_t arena, priority;
    bool settled, droppable, streaming, told, sent, aborted;
    bool begun;                    /* of a frame (plain_out.h): the kernel has some of it, or will get it all the
                                      same */
    bool waits;                    /* its receiver took none when it was looked at (out_waits) */
} wout;

typedef struct {
    int fd;                        /* -1: removed, or a connector's; its connections may still be there */
    bool dials;                    /* a connector's: nobody is accepted by it */
    bool relays;                   /* an authentication service judges its clients (relay.h) */
    char offered[256];             /* SASL mechanisms that a thread answers for (relay.h); empty: the engine does */
    bool hands_over;               /* its socket brings connections that the exporter has taken (websocket.h) */
    uint32_t config;               /* number of its listenerSetup */
    bool armed;
    uint32_t max_frame, idle_timeout_ms, handshake_ms, link_capacity, window;
    uint16_t channel_max;
    bool authenticate, encrypt;    /* what every connection must be */
    char mechanisms[256];          /* empty: all the engine has */
    pn_ssl_domain_t *tls;          /* NULL: none */
    int64_t tls_checked;           /* when its files were last looked at */
    struct plain_terms *plain;     /* its connections have no engine (plain.h); NULL: AMQP */
} wlistener;

typedef struct pump pump;
typedef void (*pump_callback)(void *self, int event, wconn *conn, wlink *link, void *object,
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
    wlistener listeners[MAX_LISTENERS];
    uint32_t listener_count;
    uint32_t dirty_first;
    uint32_t stalled_first;
    uint64_t grown[GROWN_BATCH];   /* streamed messages with news that the core has not been told */
    uint32_t grown_count;
    uint32_t low_small, low_large; /* pause reading below, resume above twice that */
    uint32_t reserve;              /* blocks kept back for dispositions and control payloads */
    bool paused, accepting, withhold, woken, accept_waiting, freed;
    bool tracing;                  /* frames of connections that were not told otherwise are logged (trace.h) */
    bool away;                     /* there is no core: what is posted goes nowhere, the rings are not touched
                                      (away.h) */
    bool resting;                  /* away, or the core does not know all links yet: incoming messages wait in the
                                      engine */
    routerd_record nowhere;
    annotations_self identity;
    route_engine *routes;          /* workers of source routes; NULL: there are none */
    uint8_t digests;               /* what the flow log wants of each message: a mask of enum digest_wish (digest.h) */
    /* what was told of malformed messages, and when it may be again */
    struct { const char *why; int64_t again; } complaints[COMPLAINTS];
    uint64_t now_ns;
    int64_t now_ms, next_sweep, accept_retry;
    uint64_t busy_poll_ns;
    uint64_t moved;            /* records in and out when it last had nothing to do */
    uint32_t unsettled;
    uint64_t attached;             /* links there have been */
    pump_callback on_event;
    void *self;
};

static inline uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

static inline void mark_dirty(pump *p, wconn *c)
{
    if (c->dirty) return;
    c->dirty = true;
    c->dirty_next = p->dirty_first;
    p->dirty_first = pool_index(&p->conns, c);
}

/* An action to fill in before the next one. */
static inline routerd_record *post_action(pump *p)
{
    if (__builtin_expect(!p->away, 1)) return outbox_post(&p->actions);
    memset(&p->nowhere, 0, sizeof p->nowhere);
    return &p->nowhere;
}

static inline bool work_pending(const pump *p) { return !p->away && ring_pending(&p->work); }

static inline routerd_record *post_link(pump *p, uint8_t type, const wlink *k)
{
    routerd_record *r = post_action(p);
    r->type = type;
    r->arena = (uint8_t) p->index;
    r->block = ROUTERD_NIL;
    r->link = pool_index(&p->links, k);
    r->link_gen = k->slot.generation;
    return r;
}

/* Make what was posted seen, and wake the core if it sleeps. */
static inline void publish_actions(pump *p)
{
    if (!p->away && outbox_publish(&p->actions) && doorbell_should_ring(p->core_bell)) sem_post(p->core_semaphore);
}

/* Is there a block beyond those kept back for control payloads? */
static inline bool blocks_left(const pump *p) { return p->arena.free_count[0] + p->arena.free_count[1] > p->reserve; }

/* A link may keep half as many blocks of each class as are free of it, or else one message.  The more links have slow
 * readers, the less each may keep: something is always left for the others. */
static inline bool over_share(const pump *p, const wlink *k)
{
    return k->kept[0] > p->arena.free_count[0] / 2 || k->kept[1] > p->arena.free_count[1] / 2;
}

/* Some of a link's blocks were taken or came back since `before`, the free blocks then.  Never below none: a restarted
 * worker may be given blocks back that it never gave away. */
static inline void kept_change(const pump *p, wlink *k, const uint32_t before[2])
{
    for (uint32_t c = 0; c < 2; c++) {
        int64_t kept = (int64_t) k->kept[c] + before[c] - p->arena.free_count[c];
        k->kept[c] = kept > 0 ? (uint32_t) kept : 0;
    }
}

/* A link of a connection, with the listener's terms.  NULL: no room. */
static inline wlink *link_begin(pump *p, wconn *c, bool outgoing)
{
    wlink *k = (wlink *) pool_take(&p->links);
    if (!k) return NULL;
    k->conn = c;
    k->outgoing = outgoing;
    k->capacity = p->listeners[c->listener].link_capacity;
    k->on_list = -1;
    k->order = p->attached++;
    k->previous = ROUTERD_NIL;
    k->next = c->link_first;
    if (k->next != ROUTERD_NIL) ((wlink *) pool_at(&p->links, k->next))->previous = pool_index(&p->links, k);
    c->link_first = pool_index(&p->links, k);
    if (outgoing) c->links_out++;
    else c->links_in++;
    stats_set(p->stats, N_LINKS, p->links.used);
    return k;
}

/* Whose message a chain is stands in its head block. */
static inline void note_link(pump *p, const wlink *k, uint32_t head)
{
    arena_block *b = arena_at(&p->arena.view, head);
    if (!b) return;
    b->note[0] = pool_index(&p->links, k);
    b->note[1] = k->slot.generation;
}

static inline void credit_owed(pump *p, wlink *k, uint32_t credit)
{
    if (__builtin_expect(k->plain, 0)) {
        k->credit += (int32_t) credit;
        mark_dirty(p, k->conn);
        return;
    }
    k->owed += credit;
    /* where there is little, one counts */
    uint32_t threshold = k->routed || k->capacity < 32 ? 1 : k->capacity < 256 ? k->capacity / 8 : 32;
    if (k->owed && k->owed >= threshold && k->open && !p->withhold && !p->resting) {
        pn_link_flow(k->engine, (int) k->owed);
        k->owed = 0;
        mark_dirty(p, k->conn);
    }
}

/* ---- links_with_work ---- */

static inline void work_remove(pump *p, wlink *k)
{
    if (k->on_list < 0) return;
    wconn *c = k->conn;
    uint32_t q = (uint32_t) k->on_list;
    if (k->work_previous == ROUTERD_NIL) c->work_first[q] = k->work_next;
    else ((wlink *) pool_at(&p->links, k->work_previous))->work_next = k->work_next;
    if (k->work_next == ROUTERD_NIL) c->work_last[q] = k->work_previous;
    else ((wlink *) pool_at(&p->links, k->work_next))->work_previous = k->work_previous;
    if (c->work_first[q] == ROUTERD_NIL) c->work_mask &= (uint16_t) ~(1u << q);
    k->on_list = -1;
}

/* Put the link at the end of its priority's list; it moves up if something more urgent was queued. */
static inline void work_add(pump *p, wlink *k)
{
    uint32_t q = k->queue_priority;
    if (k->on_list >= (int) q) { mark_dirty(p, k->conn); return; }
    work_remove(p, k);
    wconn *c = k->conn;
    uint32_t index = pool_index(&p->links, k);
    k->work_next = ROUTERD_NIL;
    k->work_previous = c->work_mask & (1u << q) ? c->work_last[q] : ROUTERD_NIL;
    if (k->work_previous == ROUTERD_NIL) c->work_first[q] = index;
    else ((wlink *) pool_at(&p->links, k->work_previous))->work_next = index;
    c->work_last[q] = index;
    c->work_mask |= (uint16_t) (1u << q);
    k->on_list = (int8_t) q;
    mark_dirty(p, c);
}

#endif
