/* Work records: the core's orders to this worker (record.h, enum routerd_work). */
#include "workers/loop/loop.h"
#include "workers/amqp/amqp.h"
#include "workers/framed/framed.h"
#include "workers/transport/transport.h"

#define WORK_BATCH 512             /* work records served before sockets get their turn */
#define UNSTALL_BATCH 64u          /* links that wait for blocks looked at in a turn */
#define WORK_CONTROL_NS 1000000    /* the same for control messages: the time after which no other is begun */

static void work_release(pump *p, uint32_t block)
{
    if (block == ROUTERD_NIL) return;
    const arena_block *b = arena_at(&p->arena.view, block);
    const uint32_t note[2] = { b ? b->note[0] : ROUTERD_NIL, b ? b->note[1] : 0 };
    worker_link *k = (worker_link *) pool_find2(&p->links, note[0], note[1]);
    const uint32_t before[2] = { p->arena.free_count[0], p->arena.free_count[1] };
    if (!arena_free_chain(&p->arena, block)) { stats_add(p->stats, N_BAD_RECORDS, 1); return; }
    p->freed = true;
    if (!k) { state_returned(p, note[0], note[1]); return; }
    kept_change(p, k, before);
    slow_moves(k);
    if (p->paused && !k->kept[0] && !k->kept[1]) conn_resume(p, k->conn);
}

/* Grants credit on an incoming link, if it is still there. */
static void work_credit(pump *p, const routerd_record *r)
{
    if (!r->credit) return;
    worker_link *k = (worker_link *) pool_find2(&p->links, r->link, r->link_gen);
    if (k && !k->outgoing) credit_owed(p, k, r->credit);
}

/* Applies an UPDATE to an incoming delivery.  A stale handle is no error: the sender may have settled meanwhile. */
static void work_update_in(pump *p, const routerd_record *r)
{
    in_delivery *s = (in_delivery *) pool_find(&p->ins, r->delivery);
    bool settled = r->flags & F_SETTLED;
    if (s && s->link->framed) {
        framed_outcome(p, s, r);
    } else if (s) {
        delivery *d = s->delivery;
        if (r->peer) s->core = r->peer;
        if (r->state && !s->settled && !(r->extra & D_TOLD)) {
            if (__builtin_expect(r->state != S_ACCEPTED, 0)) disposition_write(p, d, r);
            if (!settled) delivery_update(d, r->state);
            else if (s->complete) delivery_ends(d, r->state);
            else s->outcome = r->state;
            s->outcome_sent |= state_is_terminal(r->state);
        }
        mark_dirty(p, s->link->conn);
        if (settled && s->complete) {
            in_delivery_free(p, s);
            delivery_settle(d);
        } else if (settled) {
            worker_link *k = s->link;
            intake_discard(p, s, false);
            intake_resume(p, k);
        }
    }
    if (r->extra & D_PAYLOAD) payload_done(p, r->arena, r->block);
    else if (r->flags & F_RELEASE) work_release(p, r->block);
    work_credit(p, r);
}

static void work_drain(pump *p, worker_link *k)
{
    if (link_credit(k) - link_queued(k) > 0) {
        uint32_t owed = p->withhold || p->resting ? 0 : k->owed;   /* the sender hears of all its credit in one frame */
        k->owed -= owed;
        k->draining = true;
        link_drain(k, owed);
        mark_dirty(p, k->conn);
        return;
    }
    routerd_record *r = post_link(p, A_DRAINED, k);             /* all credit is in use: nothing to wait for */
    r->credit = k->owed;
    k->owed = 0;
}

/* Handles the sender's flow: credit that it returns unused, after our drain. */
PRIVATE inline void intake_flow(pump *p, worker_link *k)
{
    int returned = link_drained(k);
    bool done = k->draining && !link_draining(k);
    if (returned <= 0 && !done) return;
    if (done) {
        k->draining = false;
        link_set_drain(k, false);
    }
    routerd_record *r = post_link(p, A_DRAINED, k);
    r->credit = (returned > 0 ? (uint32_t) returned : 0) + (done ? k->owed : 0);
    if (done) k->owed = 0;
}

static void work_link(pump *p, const routerd_record *r)
{
    worker_link *k = (worker_link *) pool_find2(&p->links, r->link, r->link_gen);
    if (!k) return;
    if (k->framed) { framed_flow(p, k, r); return; }
    switch (r->type) {
    case W_FLOW:
        if (k->outgoing || !k->open) return;
        if (k->draining) { k->draining = false; link_set_drain(k, false); mark_dirty(p, k->conn); }
        if ((int32_t) r->credit < 0) { /* also while `withhold`: what is taken back was given before */
            link_withdraw(k, 0 - r->credit);
            mark_dirty(p, k->conn);
        } else if (r->credit && !p->withhold) {
            link_flow(k, (r->credit + k->owed));
            k->owed = 0;
            mark_dirty(p, k->conn);
        }
        return;
    case W_DRAIN:
        if (!k->outgoing && k->open && !k->draining) work_drain(p, k);
        return;
    case W_DRAINED:
        if (!k->outgoing || !k->open) return;
        k->drain_ready = true;
        if (k->routed) routed_returned(k, r->credit);
        if (!k->queue_first) egress_drained(p, k);
        else work_add(p, k);
    }
}

static void work_record(pump *p, const routerd_record *r)
{
    switch (r->type) {
    case W_SEND: egress_accept(p, r); return;
    case W_CONTINUE: egress_continue(p, r); return;
    case W_UPDATE:
        if (r->flags & F_IN) work_update_in(p, r);
        else egress_update(p, r);
        return;
    case W_RELEASE:
        work_release(p, r->block);
        work_credit(p, r);
        return;
    case W_CONSUMED: {
        in_delivery *s = (in_delivery *) pool_find(&p->ins, r->delivery);
        if (s) intake_consumed(p, s, r->length);
        return;
    }
    case W_ACCEPTED: {
        in_delivery *s = (in_delivery *) pool_find(&p->ins, r->delivery);
        if (s) s->core = r->peer;
        return;
    }
    case W_FLOW: case W_DRAIN: case W_DRAINED: work_link(p, r); return;
    case W_CONTROL:
        p->on_event(p->self, EV_CONTROL, NULL, NULL, NULL, r);
        payload_done(p, r->arena, r->block);
        return;
    default: stats_add(p->stats, N_BAD_RECORDS, 1);
    }
}

/* Whether a link that waits for blocks may have some now; `low`: few are left. */
static bool link_goes_on(pump *p, const worker_link *k, bool low)
{
    in_delivery *s = k->current;
    if (!s) return !over_share(p, k) && !(low && (k->kept[0] || k->kept[1]));
    return !s->stream || delivery_aborted(s->delivery) || stream_room(p, s);
}

/* Whether links that wait for blocks are to be looked at. */
PRIVATE inline bool work_unstalls(const pump *p)
{
    return p->stalled_first != ROUTERD_NIL && (p->freed || p->stalled_due) && !p->detached;
}

/* Resumes links that wait for blocks, except those that keep too many; while blocks are few, those that keep any.  It
 * looks at some in a turn, and at the others in the next ones. */
PRIVATE void work_unstall(pump *p)
{
    if (p->freed) p->stalled_due = p->stalled_count;
    p->freed = false;
    if (!blocks_left(p)) p->stalled_due = 0;
    bool low = p->arena.free_count[0] + p->arena.free_count[1] <= 2 * p->reserve;
    for (uint32_t n = 0; n < UNSTALL_BATCH && p->stalled_due && p->stalled_first != ROUTERD_NIL; n++) {
        worker_link *k = (worker_link *) pool_at(&p->links, p->stalled_first);
        p->stalled_due--;
        intake_unstall(p, k);
        if (!link_goes_on(p, k, low)) intake_stall(p, k);
        else if (k->engine || k->framed) intake_resume(p, k);
    }
}

/* Serves work records; true if more wait. */
PRIVATE inline bool work_turn(pump *p)
{
    const routerd_record *r;
    int n = 0;
    uint64_t until = 0;
    bool late = false;
    if (p->detached) return false;
    if (ring_pending(&p->work)) pump_look(p);                   /* what the core passes on may have come in this turn */
    while (n < WORK_BATCH && !late && (r = ring_peek(&p->work))) {
        routerd_record copy = *r;                               /* shared memory is read once */
        ring_advance(&p->work);
        work_record(p, &copy);
        n++;
        if (copy.type != W_CONTROL) continue;
        uint64_t now = clock_ns();
        if (!until) until = now + WORK_CONTROL_NS;
        late = now > until;
    }
    ring_return(&p->work);
    if (work_unstalls(p)) work_unstall(p);
    return late || n == WORK_BATCH;
}
