/* Links that are routed through: two links that are a pair, without an address.
 *
 *   a delivery on the incoming one    goes to the outgoing one, as it is
 *   credit of the outgoing one        goes to the incoming one's sender, neither more nor less; so does a drain
 *   what a drain gave back            goes to the outgoing one's receiver
 *   a state or settlement             as of every delivery with one copy (settle.c)
 *
 * An end whose other one is gone releases what comes, until its peer has learnt that.
 */
#include "core/forwarder/delivery/delivery.h"
#include "core/forwarder/tables/planes.h"

PRIVATE inline void deliver_to_pair(core_router *c, core_link *l, const routerd_record *r)
{
    core_in *in = deliver_in(c, l, r);
    if (__builtin_expect(c->flow != NULL, 0)) flow_note(c, l, in, NULL, deliver_priority(NULL, r->priority), r);
    count_in(c, l, r);
    if (!l->pair) {
        if (__builtin_expect(c->flow != NULL, 0)) flow_drop(c, in, NULL, FLOW_UNDELIVERABLE, ROUTERD_NIL);
        if (in->flags & IN_PRESETTLED) stats_add(c->stats, N_DROPPED_PRESETTLED, 1);
        in_settle(c, in, &OUTCOME_RELEASED);
        return;
    }
    core_out *out = deliver_copy(c, in, l->pair, deliver_priority(NULL, r->priority), 0, NULL);
    if (l->pair->far) out->flags |= OUT_APART;
    if (!(in->flags & IN_COMPLETE) && in->peer) in_post(c, in, W_ACCEPTED);
}

/* The receiver of an outgoing end gives credit, or takes it back (below 0), or wants it used up; 0: it takes back that
 * it wanted that. */
PRIVATE inline void pair_credit(core_router *c, const core_link *out, int32_t credit)
{
    core_link *in = out->pair;
    if (!in) return;
    in->granted += credit;
    core_post_link(c, in, W_FLOW)->credit = (uint32_t) credit;
}

PRIVATE void pair_drain(core_router *c, const core_link *out)
{
    if (out->pair) core_post_link(c, out->pair, W_DRAIN);
}

PRIVATE void pair_drained(core_router *c, core_link *in, uint32_t credit)
{
    in->granted -= credit;
    if (in->pair) core_post_link(c, in->pair, W_DRAINED)->credit = credit;
}

/* The other end goes on alone. */
PRIVATE void pair_part(core_link *l)
{
    if (l->kind != LINK_ROUTED || !l->pair) return;
    l->pair->pair = NULL;
    l->pair = NULL;
}
