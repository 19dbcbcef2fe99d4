/* A link of a connection: the blocks that its messages keep, its credit, and the lists of links with work.
 *
 * Links that have something to send stand on their connection's links_with_work lists, one for each priority.
 */
#ifndef ROUTERD_WORKERS_LINK_H
#define ROUTERD_WORKERS_LINK_H

#include "workers/lane/lane.h"
#include "workers/state/connection.h"

/* What the links of one client have of the connection of a broker or router (session/shares.c). */
typedef struct link_share {
    uint32_t client, links;
    size_t octets;                 /* of the ATTACHs that began them */
    bool trusted;                  /* a neighbour's */
    struct worker_session *sessions_first, *sessions_last; /* that were begun for it, in turn */
    uint32_t session_count;
    int64_t moved;                 /* when it last took or settled something (milliseconds) */
    size_t tally;                  /* what waits of its slow links, while that is counted */
    block_use use;
} link_share;

struct worker_link {
    slot_head slot;
    pn_link_t *engine;
    worker_connection *conn;
    uint32_t next, previous;       /* on the connection */
    uint32_t capacity;             /* credit its listener gives */
    bool grows;                    /* no linkCapacity is configured: the core gives a fast sender more */
    bool outgoing, open;
    bool known;                    /* the core has been told of it */
    uint8_t outlived;              /* cores that died before they had answered its ATTACH */
    bool stalled, held;            /* in: no block was left for it; in: a stream is too far ahead of its readers */
    bool starving;                 /* out: it is among the pump's `starving` */
    bool waits_due;                /* out: the core is to hear of deliveries that wait, in one of the next turns */
    bool drain_asked, drain_ready; /* out: the core hears of its drain; answer it once the list is empty */
    bool drain_due;                /* out: the core has not heard of it yet (drains.c) */
    bool draining;                 /* in: the core wants the credit back */
    bool leaving;                  /* out: its deliveries are being ended, before it is lost (egress_ends.c) */
    bool by_core;                  /* out: its deliveries are in the table of outs_of_core */
    bool routed;                   /* of a link-route pair: transfers and credit are the far peer's (link_routes.c) */
    bool framed;                   /* it belongs to a framed connection (framed.c), whose credit is counted here */
    int32_t credit;
    bool to_table;                 /* in: its address is a route table, so each message's key routes it (rmr_key.h) */
    int32_t promised;              /* out, routed: unused credit of the far sender; below 0: more is used than given */
    bool router_initiated;         /* router-initiated, by a link request of the core */
    uint32_t asked;                /* the number of that request until the peer has answered; 0: none */
    uint64_t order;                /* the order in which a new core learns of the links */
    int8_t on_list;                /* out: links_with_work priority, -1: on none */
    uint32_t work_next, work_previous;
    uint32_t owed;                 /* in: credit to give with the next flow */
    uint32_t kept[2];              /* in: blocks of each class that its messages occupy */
    uint32_t stalled_next, stalled_previous;
    struct in_delivery *current;   /* in: the message being received, if not in one piece */
    struct worker_link *unposted_next, *unposted_previous;
    int64_t unposted_since;        /* in: since when `current` is read, and the core has not heard of it; 0: not so */
    struct in_delivery *in_first;    /* in: unsettled */
    struct out_delivery *queue_first, *queue_last, *unsettled_first;
    uint32_t queued, queued_settled; /* out: undelivered, and how many of them came presettled */
    uint64_t seen_tag;             /* out: `tag` at the last poll */
    uint8_t queue_priority;        /* highest priority waiting */
    uint64_t tag;
    uint64_t dry_since;            /* out: the time of the first poll without credit; 0: it has some */
    struct section_walk *walk;     /* in: where in its sections `current` is, if they are judged; NULL: they are not */
    struct route_sender *sender;   /* in: the sender, for route workers; NULL: no message of it has been one's */
    uint64_t starved_since;        /* out: since when its deliveries wait for credit; 0: they do not */
    uint64_t starved;              /* out: how long they have waited in all, before that */
    struct worker_session *session;    /* NULL: a framed link */
    struct worker_link *session_next, *session_previous;
    lane_link lane;                /* its credit and delivery-count */
    lane_head head;                /* out: of its TRANSFERs */
    uint32_t remote_handle;        /* the peer's */
    uint32_t attach_octets;        /* of the peer's ATTACH */
    uint32_t share_octets;         /* what it counts for (session/shares.c) */
    link_share *share;             /* its client's; NULL: it is the router's own, or the peer's */
    block_use *payer;              /* who pays for what its messages have of the worker (link_routed) */
    uint32_t asked_session;        /* the number of the session that it was asked for in */
    struct worker_link *holding_next, *holding_previous;   /* of those with a client of which octets wait */
    size_t held_octets;            /* in: that came, and wait */
    uint32_t held_frames;          /* in: the TRANSFERs of these, which the session's window counts */
    bool slow;                     /* in: while that is looked at: it holds up others (session/slow.c) */
    int64_t moved;                 /* in: when its receiver last took or settled something of it (milliseconds) */
    uint32_t returned;             /* in: credit that the sender has given back and nobody has looked at */
    uint32_t unread;               /* in: deliveries that nobody has taken */
    uint32_t waiting;              /* out: deliveries that have begun and of which no frame has been written */
    bool attached, remote_attached;    /* our ATTACH has been written; the peer's has come */
    bool telling;                  /* it is on the list of links that have a FLOW to say */
    bool discarding;               /* in: the rest of a delivery that has been dropped is still coming */
    struct attach_due *attach_due; /* our ATTACH, which the engine has not written; NULL: it has */
    struct worker_link *tell_next, *tell_previous;
    struct worker_link *waits_next, *waits_previous;
    struct worker_link *drain_next, *drain_previous;
    struct delivery *deliveries;   /* all that are not forgotten */
    struct delivery *unread_first, *unread_last;
    struct delivery *arriving, *sending;   /* whose next TRANSFER is to come, or to be written; NULL: none */
};

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

#define FEW_KEPT 8u                    /* blocks that a payer may keep although few are left */
#define TRUSTED_PART 3u                /* a neighbour keeps so many times as much: it brings what others send */

/* A link becomes one of a link-route pair.  If its client is known, its messages are that client's alone, whom a broker
 * sends them: it pays, not the connection.  A link that an edge router has for an address is for all its clients,
 * whoever asked first. */
static inline void link_routed(worker_link *k)
{
    k->routed = true;
    if (k->share) k->payer = &k->share->use;
}

/* Whether a client pays for a link's messages. */
static inline bool client_pays(const worker_link *k) { return k->payer != &k->conn->use; }

static inline uint32_t part_of(const worker_link *k)
{
    return (client_pays(k) ? k->share->trusted : k->conn->trusted) ? TRUSTED_PART : 1;
}

/* A link may keep half as many blocks of each class as are free of it, and who pays for it as many as are free, or else
 * each link one message.  The more links and payers have slow readers, the less each may keep: something is always left
 * for the others.  Of the last blocks before the reserve only payers have some that keep few, and so it is with clients
 * of link routes and the last large ones: their many links could keep one message each. */
static inline bool over_share(const pump *p, const worker_link *k)
{
    const uint32_t *left = p->arena.free_count, *kept = k->payer->kept, part = part_of(k);
    if (k->kept[0] > left[0] / 2 || k->kept[1] > left[1] / 2) return true;
    if (kept[0] + kept[1] < FEW_KEPT) return false;
    if (left[0] + left[1] <= 2 * p->reserve) return true;
    if (client_pays(k) && left[1] <= 2 * p->low_large && kept[1] >= part * FEW_KEPT) return true;
    return (k->kept[0] || k->kept[1]) && (kept[0] > part * left[0] || kept[1] > part * left[1]);
}

/* Counts the blocks that a link has taken or returned since `before`, the free blocks then.  The counts never get
 * negative: a restarted worker may get back blocks of its predecessor. */
static inline void kept_change(const pump *p, worker_link *k, const uint32_t before[2])
{
    for (uint32_t c = 0; c < 2; c++) {
        if (before[c] == p->arena.free_count[c]) continue;
        int64_t more = (int64_t) before[c] - p->arena.free_count[c];
        if (more < -(int64_t) k->kept[c]) more = -(int64_t) k->kept[c];
        k->kept[c] += (uint32_t) more;
        k->payer->kept[c] += (uint32_t) more;
    }
}

/* Sets the configured credit of a link; 0: none is. */
static inline void link_limit(worker_link *k, uint32_t capacity)
{
    k->capacity = capacity ? capacity : ROUTERD_LINK_CREDIT;
    k->grows = !capacity;
}

/* The configured credit of a link; 0: none is. */
static inline uint32_t link_configured(const worker_link *k) { return k->grows ? 0 : k->capacity; }

/* A new link of a connection, with the listener's terms.  NULL: there is no room. */
static inline worker_link *link_begin(pump *p, worker_connection *c, bool outgoing)
{
    worker_link *k = (worker_link *) pool_take(&p->links, sizeof(worker_link));
    if (!k) return NULL;
    k->conn = c;
    k->payer = &c->use;
    k->outgoing = outgoing;
    link_limit(k, p->listeners[c->listener].link_capacity);
    k->on_list = -1;
    k->order = p->attached++;
    k->previous = ROUTERD_NIL;
    k->next = c->link_first;
    if (k->next != ROUTERD_NIL) ((worker_link *) pool_at(&p->links, k->next))->previous = pool_index(&p->links, k);
    c->link_first = pool_index(&p->links, k);
    if (outgoing) c->links_out++;
    else c->links_in++;
    stats_set(p->stats, N_LINKS, p->links.used);
    pump_crowd(p);
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

/* The nanoseconds that a link with waiting deliveries has had no credit, up to now. */
static inline uint64_t link_starved(const pump *p, const worker_link *k)
{
    return k->starved + (k->starved_since ? p->now_ns - k->starved_since : 0);
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
