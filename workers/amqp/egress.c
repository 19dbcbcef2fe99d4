/* Outgoing deliveries: from blocks into frames, in priority order.
 *
 *   undelivered ──written, unsettled──▶ unsettled ──receiver settles──▶ gone (UPDATE, SETTLED)
 *       │                                   └──sender settled first────▶ gone (DONE)
 *       ├──written, presettled────────────▶ gone (DONE)
 *       └──aborted, dropped, link lost────▶ gone (DONE or UPDATE)
 *
 * Every delivery the core sent is ended by exactly one record: an UPDATE with SETTLED, or a DONE.  Its blocks may be
 * reused from then on, so nothing is read from them afterwards.
 */
#include "workers/amqp/amqp.h"

#define PROGRESS_STEP (128u << 10) /* bytes of a stream after which a reader reports its progress to the core */
#define STARVED_BRIEFLY 100000000u /* nanoseconds without credit in which a receiver is not slow */
#define SESSION_HIGH (128u << 10)  /* bytes of frames at which the worker writes no more deliveries of a session */

static void out_queue(worker_link *k, out_delivery *o)
{
    o->next = NULL;
    o->previous = k->queue_last;
    if (k->queue_last) k->queue_last->next = o;
    else k->queue_first = o;
    k->queue_last = o;
    k->queued++;
    k->queued_settled += o->droppable;
    if (k->queued == 1 || o->priority > k->queue_priority) k->queue_priority = o->priority;
}

static void out_unlink(worker_link *k, out_delivery *o)
{
    if (o->next) o->next->previous = o->previous;
    else if (!o->sent) k->queue_last = o->previous;
    if (o->previous) o->previous->next = o->next;
    else if (o->sent) k->unsettled_first = o->next;
    else k->queue_first = o->next;
    if (o->sent) return;
    k->queued--;
    k->queued_settled -= o->droppable;
}

static void out_sent(worker_link *k, out_delivery *o)
{
    out_unlink(k, o);
    o->sent = true;
    o->previous = NULL;
    o->next = k->unsettled_first;
    if (o->next) o->next->previous = o;
    k->unsettled_first = o;
}

PRIVATE inline void out_free(pump *p, out_delivery *o)
{
    out_unlink(o->link, o);
    if (__builtin_expect(o->initial_state != NULL, 0)) initial_state_drop(p, o);
    if (o->delivery) delivery_set_context(o->delivery, NULL);
    pool_give(&p->outs, o);
    p->unsettled--;
}

/* The one record that ends a delivery without an outcome. */
PRIVATE inline routerd_record *post_done(pump *p, const worker_link *k, uint64_t core, uint8_t flags)
{
    routerd_record *r = post_link(p, A_DONE, k);
    r->delivery = core;
    r->flags = flags;
    return r;
}

PRIVATE inline routerd_record *post_update(pump *p, const out_delivery *o)
{
    routerd_record *r = post_link(p, A_UPDATE, o->link);
    r->delivery = o->core;
    r->peer = pool_handle(&p->outs, o);
    if (o->finished) out_times(o, r);
    return r;
}

/* Takes a delivery back whose end has been posted. */
__attribute__((noinline)) static void out_drop(pump *p, out_delivery *o)
{
    worker_link *k = o->link;
    if (o->delivery) {
        delivery *d = o->delivery;
        delivery_set_context(d, NULL);
        o->delivery = NULL;
        delivery_abort(d);
    }
    mark_dirty(p, k->conn);
    out_free(p, o);
    if (k->routed) routed_credit(p, k);
}

PRIVATE inline void out_abort(pump *p, out_delivery *o)
{
    post_done(p, o->link, o->core, F_DROPPED);
    out_drop(p, o);
}

/* Ends a delivery that cannot be sent.  Its sender hears that it has failed. */
__attribute__((noinline, cold)) static void out_fail(pump *p, out_delivery *o)
{
    if (o->settled) { out_abort(p, o); return; }
    routerd_record *r = post_update(p, o);
    r->flags = F_SETTLED;
    r->state = S_MODIFIED;
    r->extra = D_FAILED;
    out_drop(p, o);
}

/* Whether a receiver takes messages, but for a moment perhaps. */
static bool out_moves(const pump *p, const worker_link *k)
{
    if (k->starved_since) return p->now_ns - k->starved_since < STARVED_BRIEFLY;
    return k->seen_tag != k->tag || !k->queue_first || !k->queue_first->waits;
}

/* Drops all queued presettled messages of a slow receiver but the first, once they fill its list.  A fast sender on
 * another listener may have credit for more of them, which a receiver that takes them gets. */
static void drop_presettled(pump *p, worker_link *k)
{
    if (k->queued_settled <= ROUTERD_LINK_CREDIT_MOST && out_moves(p, k)) return;
    out_delivery *o = k->queue_first ? k->queue_first->next : NULL;
    while (o) {
        out_delivery *next = o->next;
        if (o->droppable && !o->delivery) {
            post_done(p, k, o->core, F_DROPPED | F_SLOW);
            out_free(p, o);
        }
        o = next;
    }
}

/* Marks deliveries to a receiver that takes none at present: presettled ones no longer hold up their senders, and are
 * dropped if the list fills up before they are sent.  Only deliveries queued since the last call are checked. */
static void waits_say(pump *p, worker_link *k)
{
    for (out_delivery *o = k->queue_last; o && !o->waits; o = o->previous) {
        o->waits = true;
        p->waits++;
        if (o->droppable) post_link(p, A_WAITS, k)->delivery = o->core;
    }
}

/* Does so, or lets the link wait for the next turn if the core has heard of many in this one. */
PRIVATE inline void out_waits(pump *p, worker_link *k)
{
    if (k->waits_due) return;
    if (p->waits < WAITS_MOST) { waits_say(p, k); return; }
    k->waits_due = true;
    k->waits_next = NULL;
    k->waits_previous = p->waits_last;
    *(p->waits_last ? &p->waits_last->waits_next : &p->waits_first) = k;
    p->waits_last = k;
}

PRIVATE void waits_forget(pump *p, worker_link *k)
{
    if (!k->waits_due) return;
    k->waits_due = false;
    *(k->waits_previous ? &k->waits_previous->waits_next : &p->waits_first) = k->waits_next;
    *(k->waits_next ? &k->waits_next->waits_previous : &p->waits_last) = k->waits_previous;
}

/* A turn's share of links whose deliveries the core has not heard of.  Those that take messages by now hold up nobody.
 */
PRIVATE void waits_serve(pump *p)
{
    p->waits = 0;
    for (worker_link *k; (k = p->waits_first) && p->waits < WAITS_MOST;) {
        waits_forget(p, k);
        if (!k->session || link_credit(k) <= 0 || !out_moves(p, k)) waits_say(p, k);
    }
}

/* Remembers that a receiver has no credit for messages of senders whom it holds up.  Where too many are remembered, the
 * poll finds it. */
static void out_starves(pump *p, worker_link *k)
{
    if (!k->starved_since) k->starved_since = p->now_ns;
    if (!k->queued_settled) return;
    if (!out_moves(p, k)) out_waits(p, k);
    else if (!k->starving && p->starving_count < STARVING_MOST) {
        k->starving = true;
        p->starving[p->starving_count++] = pool_index(&p->links, k);
    }
}

/* Looks at the receivers that had no credit: those that have had none since no longer hold up their senders. */
PRIVATE inline void starving_check(pump *p)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < p->starving_count; i++) {
        worker_link *k = (worker_link *) pool_at(&p->links, p->starving[i]);
        if (!k->starving) continue;                        /* another link has its place */
        k->starving = k->starved_since && k->queued_settled && out_moves(p, k);
        if (k->starving) p->starving[left++] = p->starving[i];
        else if (k->starved_since) out_waits(p, k);
    }
    p->starving_count = left;
}

/* Takes a delivery of the core (SEND).  A stale link is ignored: the core ends what crossed with the link's DETACH. */
PRIVATE inline void egress_accept(pump *p, const routerd_record *r)
{
    worker_link *k = (worker_link *) pool_find2(&p->links, r->link, r->link_gen);
    if (!k || !k->outgoing) return;
    if (__builtin_expect(k->leaving, 0)) { egress_decline(p, k, r); return; }
    out_delivery *o = r->arena <= p->workers && arena_at(&p->views[r->arena], r->block)
        ? (out_delivery *) pool_take(&p->outs, sizeof(out_delivery)) : NULL;
    if (!o) {
        stats_add(p->stats, N_BAD_RECORDS, 1);
        post_done(p, k, r->peer, F_DROPPED);
        return;
    }
    o->link = k;
    o->core = r->peer;
    o->starved = link_starved(p, k);
    o->arena = r->arena;
    o->routed = (uint8_t) r->state;
    o->override = (uint32_t) r->extra;
    o->priority = r->priority < ROUTERD_PRIORITIES ? r->priority : ROUTERD_PRIORITIES - 1;
    o->settled = r->flags & F_SETTLED;
    o->droppable = o->settled && !k->routed;
    if (__builtin_expect(k->routed, 0)) k->promised--;
    o->streaming = !(r->flags & F_COMPLETE);
    chain_open(&o->reader, r->block);
    arena_fetch(&p->views[r->arena], r->block);
    p->unsettled++;
    out_queue(k, o);
    if (__builtin_expect(k->by_core, 0)) out_note(p, o);
    if (k->queued_settled > k->capacity) drop_presettled(p, k);
    work_add(p, k);
}

/* Ends the writing of a delivery, all of whose message is in frames; `sent`: its last frame is complete. */
static void egress_finish(pump *p, worker_link *k, out_delivery *o, bool sent)
{
    delivery *d = o->delivery;
    stats_add(p->stats, N_DELIVERIES_OUT, 1);
    o->finished = p->now_ns;
    if (o->settled) {
        out_times(o, post_done(p, k, o->core, 0));
        out_free(p, o);
        if (sent) delivery_drop(d);
        else delivery_settle(d);
        return;
    }
    out_sent(k, o);
    if (sent) return;
    link_advance(k);
    if (__builtin_expect(delivery_updated(d), 0)) egress_said(p, o, d);
}

/* Begins a delivery, with what precedes the bytes of its blocks.  False: it cannot be sent. */
__attribute__((always_inline)) static inline bool egress_begin(pump *p, worker_link *k, out_delivery *o,
                                                               const arena_content *c, uint64_t length)
{
    out_begun(p, k, o);
    if (__builtin_expect(k->routed, 0)) {
        if (!routed_open(p, k, o, length)) { stats_add(p->stats, N_BAD_RECORDS, 1); return false; }
        if (o->initial_state) initial_state_send(p, o);
        return routed_fits(o->delivery);
    }
    uint64_t tag = ++k->tag;
    o->delivery = delivery_new(k, (const uint8_t *) &tag, sizeof tag, o->settled);
    o->delivery->format = arena_head_of(c)->format;
    delivery_set_context(o->delivery, o);
    if (__builtin_expect(o->initial_state != NULL, 0)) initial_state_send(p, o);
    message_log(p, k, &p->views[o->arena], o->reader.head, true);
    if (__builtin_expect(!rewrite_due(k, c), 1) || rewrite_begin(p, k, o, length)) return true;
    stats_add(p->stats, N_BAD_RECORDS, 1);
    return false;
}

/* Tells the core how far a delivery is read, whose blocks its sender may use again. */
PRIVATE void egress_progress(pump *p, out_delivery *o)
{
    routerd_record *r = post_link(p, A_PROGRESS, o->link);
    r->delivery = o->core;
    r->peer = pool_handle(&p->outs, o);
    r->length = o->reported = o->reader.position;
}

/* Writes one delivery as far as possible.  EMPTY: finished or gone; BLOCKED: more content must arrive first; BUSY: the
 * connection holds enough frames for now. */
static enum serve_result egress_write(pump *p, worker_link *k, out_delivery *o, worker_session *session)
{
    const arena_view *v = &p->views[o->arena];
    const arena_content *c = arena_content_of(v, o->reader.head);
    uint32_t state = chain_state(c);       /* before the length: complete means that the length is final */
    uint64_t length = chain_length(c);
    if (o->aborted) { out_abort(p, o); return SERVE_EMPTY; }
    /* the core does not know yet: our answer waits for its CONTINUE */
    if (state == CONTENT_ABORTED) return SERVE_BLOCKED;
    if (!o->delivery && !egress_begin(p, k, o, c, length)) { out_fail(p, o); return SERVE_EMPTY; }
    if (state == CONTENT_COMPLETE && !o->reader.position && length <= arena_capacity(v, o->reader.head, true)
        && link_send_whole(k, (const uint8_t *) (c + 1), length)) {
        egress_finish(p, k, o, true);
        return SERVE_EMPTY;
    }
    while (o->reader.position < length) {
        uint32_t n;
        const uint8_t *from = chain_read(v, &o->reader, length, &n);
        /* a broken chain: never send half a message as a whole one */
        if (!from) {
            stats_add(p->stats, N_BAD_RECORDS, 1);
            out_fail(p, o);
            return SERVE_EMPTY;
        }
        link_lend(k, from, n);
        chain_advance(&o->reader, n);
        if (o->streaming && o->reader.position - o->reported >= PROGRESS_STEP) egress_progress(p, o);
        if (o->reader.position < length && session_outgoing(session) >= SESSION_HIGH) return SERVE_BUSY;
    }
    if (state != CONTENT_COMPLETE) {
        if (state == CONTENT_STALLED && o->reader.position > o->reported) egress_progress(p, o);
        return SERVE_BLOCKED;
    }
    egress_finish(p, k, o, false);
    return SERVE_EMPTY;
}

PRIVATE inline void egress_drained(pump *p, worker_link *k)
{
    if (!k->drain_ready || k->queue_first || k->waiting) return;
    if (k->routed) { routed_drained(p, k); return; }
    k->drain_ready = k->drain_asked = false;
    link_drained(k);
    mark_dirty(p, k->conn);
}

static enum serve_result egress_serve(pump *p, worker_link *k)
{
    worker_session *session = k->session;
    enum serve_result result = SERVE_EMPTY;
    while (k->queue_first) {
        out_delivery *o = k->queue_first;
        if (!o->delivery && link_credit(k) <= 0) {
            out_starves(p, k);
            result = SERVE_BLOCKED;
            break;
        }
        if (session_outgoing(session) >= SESSION_HIGH) return SERVE_BUSY;
        result = egress_write(p, k, o, session);
        if (result != SERVE_EMPTY) break;
    }
    /* A delivery that waits for the window keeps its credit until then: aborted, it leaves that to be given back. */
    if (k->drain_ready && !k->routed && !link_draining(k)) k->drain_ready = k->drain_asked = false;
    egress_drained(p, k);
    return result;
}

/* Whether as much as may waits for the peer's window or credit: writing to the socket does not help. */
static bool session_shut(const worker_session *session) { return session->queued >= SESSION_HIGH; }

/* Serves a connection's links with work, most urgent first.  BUSY: frames hold up what is left; BLOCKED: what is
 * left waits for its session's window or credit, which only a frame of the peer gives. */
PRIVATE inline enum serve_result egress_turn(pump *p, worker_connection *c)
{
    enum serve_result result = SERVE_EMPTY;
    for (uint32_t mask = c->work_mask; mask;) {
        uint32_t q = 31u - (uint32_t) __builtin_clz(mask), index = c->work_first[q];
        mask &= ~(1u << q);
        while (index != ROUTERD_NIL) {
            worker_link *k = (worker_link *) pool_at(&p->links, index);
            index = k->work_next;
            if (!k->open || k->leaving || egress_serve(p, k) != SERVE_BUSY) { work_remove(p, k); continue; }
            if (session_shut(k->session)) { result = SERVE_BLOCKED; continue; }
            if (index != ROUTERD_NIL) {                         /* the others of this priority come first next time */
                work_remove(p, k);
                k->queue_priority = (uint8_t) q;
                work_add(p, k);
            }
            return SERVE_BUSY;
        }
    }
    return result;
}

PRIVATE inline void egress_continue(pump *p, const routerd_record *r)
{
    out_delivery *o = egress_find(p, r);
    if (!o) return;
    if (r->flags & F_ABORTED) o->aborted = true;
    if (o->aborted && !o->sent && o != o->link->queue_first) { out_abort(p, o); return; }
    if (!o->sent) work_add(p, o->link);
}

/* Handles the receiver's flow: credit for waiting deliveries, or a drain. */
GLUE void egress_flow(pump *p, worker_link *k)
{
    if (k->queue_first && (link_credit(k) > 0 || k->queue_first->delivery)) work_add(p, k);
    if (__builtin_expect(k->routed, 0)) {
        routed_flow(p, k);
    } else {
        drain_heard(p, k);
    }
}
