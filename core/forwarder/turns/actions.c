/* The forwarder: what each action of a worker does to the tables, and the work it makes.
 *
 * Every field of an action is checked before it is used: a worker may be dying, mad or malicious.  What names something
 * gone is counted as stale, what makes no sense as bad; both are dropped, and blocks that came with them are given
 * back.
 */
#include "core/forwarder/turns/turns.h"
#include "core/forwarder/tables/planes.h"

/* ---- what an action names; NULL: it is gone, and counted as stale ---- */

static INLINED core_out *out_find(core_router *c, uint32_t w, const routerd_record *r)
{
    core_out *out = (core_out *) pool_find_of(&c->outs, r->delivery, sizeof(core_out));
    if (__builtin_expect(out && out->link->worker == w, 1)) return out;
    count_stale(c);
    return NULL;
}

/* By the core's handle, or by the worker's. */
static inline core_in *in_find(core_router *c, uint32_t w, const routerd_record *r)
{
    core_in *in = r->delivery ? (core_in *) pool_find_of(&c->ins, r->delivery, sizeof(core_in)) : NULL;
    if (in && in->link && in->link->worker == w) return in;
    core_link *l = !r->delivery && r->peer ? link_find(c, w, r->link, r->link_gen) : NULL;
    in = l && !l->outgoing ? by_peer_find(c, l, r->peer) : NULL;
    if (!in) count_stale(c);
    return in;
}

/* ---- deliver ---- */

/* False: Python has to resolve the address first, and nothing was done. */
static INLINED bool action_deliver(core_router *c, uint32_t w, const routerd_record *r)
{
    core_link *l = link_find(c, w, r->link, r->link_gen);
    if (r->arena != w || r->block >= arena_blocks(&c->arena[w]) || (l && l->outgoing)) {
        count_bad(c);
        return true;
    }
    if (!l) {
        count_stale(c);
        count_lost(c, r);
        core_release(c, (uint8_t) w, r->block, NULL, 0);
        return true;
    }
    if (__builtin_expect(l->kind == LINK_ROUTED, 0)) {
        deliver_to_pair(c, l, r);
        return true;
    }
    if (__builtin_expect(l->to_table, 0)) {
        deliver_on_table_link(c, l, r);
        return true;
    }
    if (__builtin_expect(r->state & (DELIVER_OF_LINK | DELIVER_OF_WORKER), 0)) {
        if (!(r->state & DELIVER_COPY) || r->flags & F_COMPLETE) return deliver_sourced(c, l, r);
        count_bad(c);          /* a copy leaves its link: nobody would end it */
        core_release(c, (uint8_t) w, r->block, NULL, 0);
        return true;
    }
    core_address *a = NULL;
    core_provenance provenance = PROVENANCE_NONE;
    enum core_route route = __builtin_expect(l->annotated, 0) ? route_annotated(c, l, r, &provenance, &a)
        : route_find(c, l, r->block, l->scope, &provenance, &a);
    if (route == ROUTE_UNKNOWN) return false;
    deliver_routed(c, l, r, route, a, &provenance);
    return true;
}

/* ---- content on its way ---- */

static void action_continue(core_router *c, uint32_t w, const routerd_record *r)
{
    core_in *in = in_find(c, w, r);
    if (!in) return;
    if (in->flags & (IN_COMPLETE | IN_ABORTED)) {
        count_stale(c);
        return;
    }
    bool aborted = r->flags & F_ABORTED;
    if (__builtin_expect(c->flow != NULL, 0) && r->length > in->length) flow_piece(c->flow, in);
    if (r->length > in->length) in->length = r->length;
    if (!aborted && r->flags & F_COMPLETE) in->flags |= IN_COMPLETE;
    if (aborted) in_abort(c, in);
    else if (in->copy_count > MANY_COPIES) tell_more(c, in, r->flags & F_STALLED);
    else for (core_out *out = in->copies; out; out = out->sibling) tell_copy(c, out, r->flags & F_STALLED);
    if (!aborted && r->flags & F_STALLED) in_slowest(c, in);
    /* its worker has forgotten it */
    if (aborted || ((in->flags & IN_COMPLETE) && (in->flags & (IN_PRESETTLED | IN_SETTLED)))) in->peer = 0;
    in_forwarded(c, in);
    if (aborted) in_sender_settled(c, in, outcome_plain(0, 0), true);
}

static void action_progress(core_router *c, uint32_t w, const routerd_record *r)
{
    core_out *out = out_find(c, w, r);
    if (!out) return;
    if (r->peer) out->peer = r->peer;
    /* A reader sees what its sender's worker has published before the CONTINUE that says so gets here: `length` may be
     * ahead of ours.  The owner of the blocks checks it against what it has written. */
    const uint64_t before = out->progress;
    if (r->length <= before) return;
    out->progress = r->length;
    in_consumed(c, out->in, before, r->length);
}

/* ---- dispositions ---- */

/* The block of the payload that comes with an outcome; ROUTERD_NIL: it has none. */
static inline uint32_t action_detail(core_router *c, uint32_t w, const routerd_record *r)
{
    if (__builtin_expect(!(r->extra & D_PAYLOAD), 1)) return ROUTERD_NIL;
    if (r->arena == w && r->block < arena_blocks(&c->arena[w])) return r->block;
    count_bad(c);
    return ROUTERD_NIL;
}

static inline core_outcome action_outcome(core_router *c, uint32_t w, const routerd_record *r)
{
    return (core_outcome) {
        .state = r->state, .extra = r->extra & D_FAILED, .detail = action_detail(c, w, r), .arena = (uint8_t) w,
    };
}

static void action_update_in(core_router *c, uint32_t w, const routerd_record *r)
{
    core_in *in = in_find(c, w, r);
    core_outcome o = action_outcome(c, w, r);
    if (!in) {
        core_release_payload(c, o.arena, o.detail);
    } else if (r->flags & F_SETTLED) {
        if (in->flags & IN_COMPLETE) in->peer = 0;
        count_late(c, in);
        in_sender_settled(c, in, o, false);
    } else if (in->fans || tell_wanted(in)) {
        tell_state(c, in, o.state, o.extra);
        core_release_payload(c, o.arena, o.detail);
    } else if (in->copies) {
        core_outcome plain = outcome_plain(o.state, o.extra);
        out_post_update(c, in->copies, &o, 0);
        /* a payload has one reader */
        if (in->flags & IN_MULTICAST)
            for (core_out *out = in->copies->sibling; out; out = out->sibling) out_post_update(c, out, &plain, 0);
    } else {
        core_release_payload(c, o.arena, o.detail);
    }
}

static INLINED void action_update_out(core_router *c, uint32_t w, const routerd_record *r)
{
    core_out *out = out_find(c, w, r);
    core_outcome o = action_outcome(c, w, r);
    if (__builtin_expect(!out, 0)) {
        core_release_payload(c, o.arena, o.detail);
        return;
    }
    if (r->peer) out->peer = r->peer;
    if (__builtin_expect(c->flow != NULL, 0)) flow_heard(c->flow, r);
    if (!(r->flags & F_SETTLED)) {
        out_unsettled(c, out, o);
        return;
    }
    if (out->state) {          /* settled, or lost, behind an outcome that the sender knows already */
        core_release_payload(c, o.arena, o.detail);
        o = outcome_plain(out->state, D_TOLD);
    } else if (r->flags & F_UNSENT) {
        out->flags |= OUT_UNSENT;
    }
    out_finish(c, out, &o);
}

/* A worker has handed a settled delivery to the engine, dropped it or aborted it. */
static INLINED void action_done(core_router *c, uint32_t w, const routerd_record *r)
{
    core_out *out = out_find(c, w, r);
    if (!out) return;
    core_outcome o = outcome_plain(S_MODIFIED, D_FAILED);
    if (__builtin_expect(c->flow != NULL, 0)) flow_heard(c->flow, r);
    core_link *to = out->link;
    to->counts.presettled += (out->in->flags & (IN_PRESETTLED | IN_LATE)) || to->settles;
    if (r->flags & F_DROPPED) {
        to->counts.dropped++;
        to->deliveries--;
        out->flags |= r->flags & F_SLOW ? OUT_UNSENT | OUT_SLOW : OUT_UNSENT;
    }
    if (to->settles && !(out->in->flags & IN_ABORTED))
        o = outcome_plain(r->flags & F_DROPPED ? S_RELEASED : S_ACCEPTED, 0);
    else if (!(out->flags & OUT_SETTLED)) count_bad(c);   /* done with a delivery that its receiver has not settled */
    out_finish(c, out, &o);
}

/* The receiver of a settled message takes none at present: its worker keeps some for it, and the sender goes on. */
static void action_waits(core_router *c, uint32_t w, const routerd_record *r)
{
    core_out *out = out_find(c, w, r);
    if (!out) return;
    out->in->flags |= IN_HOLDS_NOBODY;
    in_forwarded(c, out->in);
}

/* ---- links ---- */

static void action_link(core_router *c, uint32_t w, const routerd_record *r)
{
    core_link *l = link_find(c, w, r->link, r->link_gen);
    if (!l) count_stale(c);
    else if (l->outgoing != (r->type != A_DRAINED) || (r->type == A_CREDIT && l->kind != LINK_ROUTED)) count_bad(c);
    else if (r->type == A_CREDIT) pair_credit(c, l, (int32_t) r->credit);
    else if (l->kind == LINK_ROUTED && l->outgoing) pair_drain(c, l);
    else if (l->kind == LINK_ROUTED) pair_drained(c, l, r->credit);
    else if (r->type == A_DRAIN) core_post_link(c, l, W_DRAINED);
    else credit_drained(c, l, r->credit);
}

static void action_free(core_router *c, uint32_t w, const routerd_record *r)
{
    if (payload_lent(c, r->arena, r->block, w)) {
        payload_forget(c, r->arena, r->block);
        core_release_payload(c, r->arena, r->block);
    } else if (r->arena != c->workers || !core_constant(c, r->block)) {
        count_bad(c);
    }
}

/* What most records are not. */
__attribute__((noinline)) static enum core_stop action_other(core_router *c, uint32_t w, const routerd_record *r)
{
    switch (r->type) {
    case A_UPDATE: action_update_in(c, w, r); break;
    case A_CONTINUE: action_continue(c, w, r); break;
    case A_PROGRESS: action_progress(c, w, r); break;
    case A_WAITS: action_waits(c, w, r); break;
    case A_CREDIT:
    case A_DRAIN:
    case A_DRAINED: action_link(c, w, r); break;
    case A_FREE: action_free(c, w, r); break;
    case A_CONTROL: c->control = *r; return STOP_CONTROL;
    default: count_bad(c);
    }
    return STOP_NOTHING;
}

/* STOP_UNKNOWN: the record was not handled and is to be given again; STOP_CONTROL: it is in c->control, for Python. */
PRIVATE INLINED enum core_stop action_take(core_router *c, uint32_t w, const routerd_record *r)
{
    if (r->type == A_DELIVER) return action_deliver(c, w, r) ? STOP_NOTHING : STOP_UNKNOWN;
    if (r->type == A_UPDATE && !(r->flags & F_IN)) action_update_out(c, w, r);
    else if (r->type == A_DONE) action_done(c, w, r);
    else return action_other(c, w, r);
    return STOP_NOTHING;
}

GLUE enum core_stop core_action(core_router *c, uint32_t w, const routerd_record *r) { return action_take(c, w, r); }
