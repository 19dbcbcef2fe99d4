/* Dispositions and settlement: from a copy to the incoming delivery it was made of, and back.
 *
 * A copy is finished once, by whichever comes first: its receiver settles; its worker is done with a settled one; its
 * link goes.  The incoming delivery is settled when its last copy is finished.
 *
 *   one copy       every state the receiver tells is told to the sender, and the other way round
 *   multicast      terminal outcomes are merged (rejected > accepted > modified > released), told when all have one
 *
 * Prohibited: finishing a copy whose worker may still read the content and has not been told to stop; telling a sender
 * `accepted` unless a receiver said so (or asked for settled messages and was sent one).
 */
#include "core/forwarder/settlement/settlement.h"
#include "core/forwarder/tables/planes.h"

PRIVATE inline core_outcome outcome_plain(uint32_t state, uint8_t extra)
{
    return (core_outcome) {.state = state, .extra = extra, .detail = ROUTERD_NIL};
}

/* Lends the reader of a record the payload of its outcome. */
__attribute__((noinline)) static void outcome_lend(core_router *c, routerd_record *r, uint32_t reader, uint8_t arena,
                                                   uint32_t detail)
{
    r->extra |= D_PAYLOAD;
    r->arena = arena;
    r->block = detail;
    if (c->worker[reader].gone) core_release_payload(c, arena, detail);
    else payload_track(c, arena, detail, (uint8_t) reader);
}

static inline void outcome_write(core_router *c, routerd_record *r, uint32_t reader, const core_outcome *o)
{
    r->state = o->state;
    r->extra = o->extra;
    if (__builtin_expect(o->detail != ROUTERD_NIL, 0)) outcome_lend(c, r, reader, o->arena, o->detail);
}

/* A record about an incoming delivery to its sender's worker, which has told its handle. */
PRIVATE inline routerd_record *in_post(core_router *c, const core_in *in, uint8_t type)
{
    routerd_record *r = core_post_link(c, in->link, type);
    r->delivery = in->peer;
    r->peer = pool_handle(in);
    return r;
}

/* A record about a copy to its receiver's worker. */
static inline routerd_record *out_post(core_router *c, const core_out *out, uint8_t type, uint8_t flags)
{
    routerd_record *r = core_post_link(c, out->link, type);
    r->delivery = out->peer;
    r->peer = pool_handle(out);
    r->flags = flags;
    return r;
}

/* More has come of a copy's message, or it is aborted. */
PRIVATE inline void out_post_continue(core_router *c, const core_out *out, uint8_t flags)
{
    out_post(c, out, W_CONTINUE, flags)->length = out->in->length;
}

static INLINED void count_outcome(core_router *c, const core_in *in, uint32_t state, int64_t delay)
{
    if (!(in->flags & (IN_PRESETTLED | IN_LATE)))
        stats_add(c->stats, state - S_ACCEPTED < 4 ? N_ACCEPTED + (state - S_ACCEPTED) : N_NO_OUTCOME, 1);
    if (delay >= 0) stats_observe(c->stats, HIST_DELIVERY_LATENCY_NS, (uint64_t) delay);
    if (__builtin_expect(delay > DELAYED_1, 0))
        stats_add(c->stats, delay > DELAYED_10 ? N_DELAYED_10S : N_DELAYED_1S, 1);
    stats_observe(c->stats, HIST_MESSAGE_BYTES, in->length);
}

/* The incoming delivery is over: tell the sender if it still waits, give the content back, replenish. */
static INLINED void in_settle_now(core_router *c, core_in *in, const core_outcome *outcome, int64_t delay)
{
    core_link *l = in->link;
    /* its worker still has a handle: it waits for an outcome, or for the rest of a stream */
    bool tell = l && in->peer;
    if (l) link_count(c, l, in, outcome->state, delay);
    link_drop_in(in);
    uint32_t credit = l ? credit_back(l) : 0;
    count_outcome(c, in, tell ? outcome->state : 0, delay);
    if (!tell) {
        core_release_payload(c, outcome->arena, outcome->detail);
        core_release(c, in->arena, in->block, l, credit);
    } else {
        routerd_record *r = core_post_link(c, l, W_UPDATE);
        r->delivery = in->peer;
        r->credit = credit;
        outcome_write(c, r, l->worker, outcome);
        r->flags = F_IN | F_SETTLED;
        if (outcome->detail == ROUTERD_NIL) {
            r->flags |= F_RELEASE;
            r->arena = in->arena;
            r->block = in->block;
        } else {
            core_release(c, in->arena, in->block, NULL, 0);
        }
    }
    pool_give(&c->ins, in);
}

/* For one that had many copies, which may still be told of more, or none. */
PRIVATE void in_settle(core_router *c, core_in *in, const core_outcome *outcome)
{
    tell_end(c, in);
    in_settle_now(c, in, outcome, in_delay(c, in));
}

/* May its credit come back when it is forwarded?  A slow receiver must not hold up the sender's messages to others; one
 * that takes none at all does not hold up its sender either. */
PRIVATE inline bool in_eager(const core_in *in)
{
    return (in->flags & IN_PRESETTLED) && in->link && in->link->kind != LINK_ROUTED
           && (!in->link->address || (in->flags & (IN_MULTICAST | IN_HOLDS_NOBODY)));
}

/* Nobody waits for the outcome of a settled message that has been forwarded whole: it leaves its link. */
__attribute__((noinline)) static void in_leave(core_router *c, core_in *in)
{
    core_link *l = in->link;
    link_count(c, l, in, 0, in_delay(c, in));
    link_drop_in(in);
    if (credit_back(l)) core_release(c, l->worker, ROUTERD_NIL, l, 1);
}

PRIVATE inline void in_forwarded(core_router *c, core_in *in)
{
    if (in_eager(in) && in->flags & (IN_COMPLETE | IN_ABORTED) && !in->fans) in_leave(c, in);
}

/* An outcome without settlement, told to the sender. */
static void in_tell(core_router *c, core_in *in, core_outcome outcome)
{
    if (!in->link || !in->peer || (in->flags & IN_SETTLED)) {
        core_release_payload(c, outcome.arena, outcome.detail);
        return;
    }
    routerd_record *r = in_post(c, in, W_UPDATE);
    r->flags = F_IN;
    outcome_write(c, r, in->link->worker, &outcome);
}

PRIVATE inline void out_post_update(core_router *c, const core_out *out, const core_outcome *outcome, uint8_t flags)
{
    if (__builtin_expect(out->flags & OUT_STREAM, 0) && stream_said(c, out, outcome)) return;
    routerd_record *r = out_post(c, out, W_UPDATE, flags);
    outcome_write(c, r, out->link->worker, outcome);
}

/* ---- multicast: merging ---- */

static inline int outcome_rank(uint32_t state)
{
    switch (state) {
    case S_REJECTED: return 4;
    case S_ACCEPTED: return 3;
    case S_MODIFIED: return 2;
    case S_RELEASED: return 1;
    default: return 0;
    }
}

/* A transaction coordinator's `declared` makes no sense from several receivers: it counts as rejected. */
static void in_merge(core_router *c, core_in *in, core_outcome o)
{
    if (o.state == S_DECLARED) {
        core_release_payload(c, o.arena, o.detail);
        o = outcome_plain(S_REJECTED, 0);
    }
    if (outcome_rank(o.state) <= outcome_rank(in->state)) {
        core_release_payload(c, o.arena, o.detail);
        return;
    }
    core_release_payload(c, in->detail_arena, in->detail);
    in->state = o.state;
    in->extra = o.extra;
    in->detail = o.detail;
    in->detail_arena = o.arena;
}

static inline core_outcome in_take_merged(core_in *in)
{
    core_outcome o = {.state = in->state, .extra = in->extra, .detail = in->detail, .arena = in->detail_arena};
    in->detail = ROUTERD_NIL;
    in->extra = D_TOLD;
    return o;
}

/* ---- streaming ---- */

#define CONSUMED_FEW 16u               /* copies of which each step is told */
#define CONSUMED_STEP 32768u           /* with more, those who have read so little more count as one */

/* Whether there are no blocks for more of a message: then each octet counts that has been read. */
PRIVATE bool in_stalled(const core_router *c, const core_in *in)
{
    const uint32_t state = chain_state(arena_content_of(&c->arena[in->arena], in->block));
    if (__builtin_expect(c->flight != NULL, 0)) {
        flight_line line = flight_about(c, FLIGHT_STATE, in->arena);
        line.count = state;
        flight_read(c, line, in->block);
    }
    return state == CONTENT_STALLED;
}

/* The sender's worker may free what every reader has read.  The copies are searched for the slowest when all that were
 * so slow have moved on: with many copies, which are never at the same octet, once for each 32 KiB that all of them
 * have read.  Who gets a copy later has read nothing. */
PRIVATE void in_slowest(core_router *c, core_in *in)
{
    uint64_t least = in->fans ? 0 : UINT64_MAX;
    for (const core_out *out = in->copies; out; out = out->sibling)
        if (out->progress < least) least = out->progress;
    const bool steps = in->copy_count > CONSUMED_FEW && !in_stalled(c, in) && least < UINT64_MAX - CONSUMED_STEP;
    in->near = steps ? least + CONSUMED_STEP : least;
    in->ahead = 0;
    for (const core_out *out = in->copies; out; out = out->sibling) in->ahead += out->progress > in->near;
    if (!in->copies || least <= in->consumed || !in->link || !in->peer || (in->flags & IN_ABORTED)) return;
    in->consumed = least;
    in_post(c, in, W_CONSUMED)->length = least;
}

/* A copy has read `to` octets, `from` before. */
PRIVATE void in_consumed(core_router *c, core_in *in, uint64_t from, uint64_t to)
{
    if (from <= in->near && to > in->near && ++in->ahead == in->copy_count) in_slowest(c, in);
}

/* A copy that had read so much is gone. */
static void in_left(core_router *c, core_in *in, uint64_t progress)
{
    if (progress > in->near) in->ahead--;
    else if (in->ahead == in->copy_count) in_slowest(c, in);
}

/* ---- copies ---- */

#define OUT_RARE (OUT_STREAM | OUT_APART | OUT_UNSENT | OUT_IN_DOUBT)

/* A copy is over that went to another router or over a link for streams, or that was not sent. */
static void out_rare_over(core_router *c, const core_out *out)
{
    count_copy(c, out);
    core_address *a = out->hop ? (core_address *) pool_find(&c->addresses, out->address) : NULL;
    if (a && a->outstanding && !(out->in->flags & IN_PRESETTLED)) a->outstanding[out->hop]--;
    if (out->text) text_done(c, out->text);
    if (out->flags & OUT_STREAM) stream_forget(c, out->in);
    if (out->link->kind == LINK_STREAM && !out->link->leaving) stream_idle(c, out->link);
}

/* A copy of several is over, which was open, had read `progress` octets, and is gone. */
__attribute__((noinline)) static void in_copy_over(core_router *c, core_in *in, core_outcome outcome, bool open,
                                                   uint64_t progress)
{
    in_merge(c, in, outcome);
    if (open) in->open--;
    if (!in->copy_count) {
        core_outcome merged = in_take_merged(in);
        in_settle(c, in, &merged);
    } else {
        if (open && !in->open) in_tell(c, in, in_take_merged(in));
        in_left(c, in, progress);
    }
}

/* Who has not told an outcome hears that the rest does not come, and of nothing else. */
PRIVATE void out_abort(core_router *c, core_out *out)
{
    if (out->state) return;
    out->flags |= OUT_SETTLED;
    out_post_continue(c, out, F_ABORTED);
}

/* The rest of a message does not come.  in_sender_settled() follows. */
PRIVATE void in_abort(core_router *c, core_in *in)
{
    in->flags |= IN_ABORTED;
    if (tell_wanted(in)) {
        tell_over(c, in, 0, 0, true, true);
        return;
    }
    for (core_out *out = in->copies; out; out = out->sibling) out_abort(c, out);
    tell_end(c, in);
}

/* A fan, or telling all of the end, each of which counts as a copy that has read nothing, is over. */
PRIVATE void in_fanned(core_router *c, core_in *in)
{
    in->copy_count--;
    in_copy_over(c, in, OUTCOME_NONE, true, 0);
}

/* A copy is over with this outcome; with the last one the incoming delivery is. */
PRIVATE INLINED void out_finish(core_router *c, core_out *out, const core_outcome *outcome)
{
    core_in *in = out->in;
    bool open = !out->state;
    int64_t delay = in_delay(c, in);
    if (__builtin_expect(c->flow != NULL, 0)) flow_copy(c, out, outcome->state, outcome->arena, outcome->detail);
    link_count(c, out->link, in, outcome->state, delay);
    if (__builtin_expect(out->hop || out->text || out->flags & OUT_RARE, 0)) out_rare_over(c, out);
    else stats_add(c->stats, N_EGRESS, 1);
    link_drop_out(out);
    in_drop_copy(out);
    if (__builtin_expect(in->flags & IN_MULTICAST && in->tell, 0)) tell_leave(out);
    const uint64_t progress = out->progress;
    pool_give(&c->outs, out);
    if (__builtin_expect(!(in->flags & IN_MULTICAST), 1)) in_settle_now(c, in, outcome, delay);
    else in_copy_over(c, in, *outcome, open, progress);
}

/* The receiver told a state and waits for the sender (AMQP 2.6.12, receiver-settles-second), or it is only on its
 * way. */
PRIVATE void out_unsettled(core_router *c, core_out *out, core_outcome outcome)
{
    core_in *in = out->in;
    bool terminal = state_is_terminal(outcome.state), multicast = in->flags & IN_MULTICAST;
    if (terminal && ((out->flags & OUT_SETTLED) || !in->link)) {   /* nobody is left who could settle it */
        /* a worker that has sent a message whole did not heed that it was aborted, and waits as well */
        if (!(out->flags & OUT_SETTLED) || in->flags & IN_ABORTED) {
            core_outcome none = outcome_plain(0, 0);
            out_post_update(c, out, &none, F_SETTLED);
        }
        out_finish(c, out, &outcome);
        return;
    }
    bool open = !out->state;
    if (terminal && open) out->state = outcome.state;
    if (!multicast) {
        in_tell(c, in, outcome);
    } else if (terminal) {
        in_merge(c, in, outcome);
        if (open && !--in->open) in_tell(c, in, in_take_merged(in));
    } else {
        core_release_payload(c, outcome.arena, outcome.detail);
    }
}

/* The sender of a copy's message has settled, aborted or gone. */
PRIVATE void out_sender_settled(core_router *c, core_out *out, core_outcome *outcome, bool quiet)
{
    if (__builtin_expect(out->in->flags & IN_ABORTED, 0) && stream_waits(out)) {
        out->flags |= OUT_UNSENT;
        out_finish(c, out, &OUTCOME_NONE);
    } else if (out->state) {
        out_post_update(c, out, outcome, F_SETTLED);
        *outcome = outcome_plain(outcome->state, outcome->extra);   /* its payload has one reader */
        core_outcome own = outcome_plain(out->state, D_TOLD);
        out_finish(c, out, &own);
    } else if (!quiet && !(out->flags & OUT_SETTLED)) {
        out->flags |= OUT_SETTLED;
        out_post_update(c, out, outcome, F_SETTLED);
        *outcome = outcome_plain(outcome->state, outcome->extra);
    }
}

/* The sender has settled, aborted or gone.  Copies whose receiver waits for just that are finished.  The others, and
 * those made later, go on as presettled ones; `quiet`: as they are.  Of many copies none gets the outcome's payload. */
PRIVATE void in_sender_settled(core_router *c, core_in *in, core_outcome outcome, bool quiet)
{
    if (!quiet) in->flags |= IN_SETTLED;
    if (tell_wanted(in)) tell_over(c, in, outcome.state, outcome.extra, quiet, false);
    else for (core_out *out = in->copies, *next; out; out = next) {
        next = out->sibling;   /* finishing the last copy frees the incoming delivery: it is not looked at again */
        out_sender_settled(c, out, &outcome, quiet);
    }
    core_release_payload(c, outcome.arena, outcome.detail);
}
