/* Counts of deliveries.  Each is in exactly one counter of its beginning and, when it is over, of its end:
 *
 *   received   ingress, from routers, own
 *              == accepted, rejected, released, modified, no outcome, presettled, own presettled, or still on its way
 *   copies     forwarded
 *              == egress, transit, own, dropped (slow, gone), unsent, in doubt, or still on its way
 *
 * A presettled delivery of which no copy is made is dropped (presettled), or its receiver's copy is (behind).
 * Management is told of each link its outcomes, delays and rate of settlement, counted when a delivery is over.
 */
#include "core/forwarder/settlement/settlement.h"

GLUE void count_stale(core_router *c) { stats_add(c->stats, N_STALE_RECORDS, 1); }
GLUE void count_bad(core_router *c) { stats_add(c->stats, N_BAD_RECORDS, 1); }

/* What is from a router, this one or another; what routers say is no traffic. */
__attribute__((noinline, cold)) static void count_in_router(core_router *c, const core_link *l, bool settled)
{
    const bool own = l->worker == c->workers;
    stats_add(c->stats, own ? N_OWN_IN : l->kind == LINK_ROUTED ? N_INGRESS : N_FROM_ROUTERS, 1);
    if (settled) stats_add(c->stats, own || l->kind == LINK_CONTROL ? N_OWN_PRESETTLED : N_PRESETTLED, 1);
}

/* Counts a delivery that the core is given to route. */
PRIVATE INLINED void count_in(core_router *c, const core_link *l, const routerd_record *r)
{
    const bool settled = r->flags & F_SETTLED;
    if (__builtin_expect(l->kind != LINK_ENDPOINT || l->worker == c->workers, 0)) {
        count_in_router(c, l, settled);
        return;
    }
    stats_add(c->stats, N_INGRESS, 1);
    if (settled) stats_add(c->stats, N_PRESETTLED, 1);
}

/* Counts a delivery that ends before anything is done with it: its link is gone. */
__attribute__((noinline, cold)) PRIVATE void count_lost(core_router *c, const routerd_record *r)
{
    const bool settled = r->flags & F_SETTLED;
    stats_add(c->stats, N_INGRESS, 1);
    stats_add(c->stats, settled ? N_PRESETTLED : N_NO_OUTCOME, 1);
    if (settled) stats_add(c->stats, N_DROPPED_PRESETTLED, 1);
}

/* Counts a copy that is over, and was not simply sent to a client. */
__attribute__((noinline, cold)) PRIVATE void count_copy(core_router *c, const core_out *out)
{
    const core_in *in = out->in;
    const bool own = out->link->worker == c->workers || out->link->kind == LINK_CONTROL;
    const bool presettled = in->flags & (IN_PRESETTLED | IN_LATE) && !(in->flags & IN_ABORTED);
    uint32_t which = N_EGRESS;
    if (out->flags & OUT_IN_DOUBT) which = N_IN_DOUBT;
    else if (out->flags & OUT_UNSENT && !presettled) which = N_UNSENT;
    else if (out->flags & OUT_UNSENT) which = out->flags & OUT_SLOW ? N_DROPPED_SLOW : N_DROPPED_GONE;
    else if (own) which = N_OWN_OUT;
    else if (out->hop || out->flags & OUT_APART) which = N_TRANSIT;
    stats_add(c->stats, which, 1);
}

static uint64_t count_sum(const core_router *c, const uint32_t *which, size_t count)
{
    uint64_t sum = 0;
    while (count--) sum += stats_get(c->stats, which[count]);
    return sum;
}

#define COUNT_SUM(c, ...) \
    count_sum(c, (const uint32_t[]) {__VA_ARGS__}, sizeof (const uint32_t[]) {__VA_ARGS__} / sizeof(uint32_t))

static uint64_t count_received(const core_router *c) { return COUNT_SUM(c, N_INGRESS, N_FROM_ROUTERS, N_OWN_IN); }

/* Copies that are over. */
static uint64_t count_copies(const core_router *c)
{
    return COUNT_SUM(c, N_EGRESS, N_TRANSIT, N_OWN_OUT, N_DROPPED_SLOW, N_DROPPED_GONE, N_UNSENT, N_IN_DOUBT);
}

/* All copies that were made. */
GLUE uint64_t count_forwarded(const core_router *c) { return count_copies(c) + c->outs.live; }

PRIVATE void count_totals(const core_router *c)
{
    stats_set(c->stats, N_RECEIVED, count_received(c));
    stats_set(c->stats, N_FORWARDED, count_forwarded(c));
}

/* What was on its way when the former core died ended with it. */
PRIVATE void count_former(const core_router *c)
{
    const uint64_t ends = COUNT_SUM(c, N_ACCEPTED, N_REJECTED, N_RELEASED, N_MODIFIED, N_NO_OUTCOME, N_PRESETTLED,
                                    N_OWN_PRESETTLED);
    const uint64_t received = count_received(c), copies = count_copies(c), forwarded = stats_get(c->stats, N_FORWARDED);
    if (received > ends) stats_add(c->stats, N_NO_OUTCOME, received - ends);
    if (forwarded > copies) stats_add(c->stats, N_IN_DOUBT, forwarded - copies);
    count_totals(c);
}

/* Moves what was counted by one place for each tick since. */
__attribute__((noinline, cold)) static void link_tick(const core_router *c, core_link *l, uint32_t tick)
{
    core_link_counts *k = &l->counts;
    for (uint32_t passed = tick - k->tick < RATE_SLOTS ? tick - k->tick : RATE_SLOTS; passed; passed--) {
        memmove(k->before + 1, k->before, sizeof k->before - sizeof k->before[0]);
        k->before[0] = k->settled;
        k->settled = 0;
    }
    k->tick = tick;
    if (l->growth != CREDIT_FIXED) credit_poll(c, l);
}

/* Nanoseconds since a message came; -1: not known, and less than 0: it came later than this turn began. */
PRIVATE inline int64_t in_delay(const core_router *c, const core_in *in)
{
    return in->arrived ? (int64_t) (c->now - in->arrived) : -1;
}

PRIVATE INLINED void link_count(const core_router *c, core_link *l, const core_in *in, uint32_t state, int64_t delay)
{
    core_link_counts *k = &l->counts;
    uint32_t tick = (uint32_t) (c->now >> RATE_SHIFT);
    if (__builtin_expect(k->tick != tick, 0)) link_tick(c, l, tick);
    k->settled++;
    if (state - S_ACCEPTED < 4 && !(in->flags & (IN_PRESETTLED | IN_LATE))) {
        k->outcome[state - S_ACCEPTED]++;
        k->latency += (uint64_t) (delay > 0 ? delay : 0);
    }
    if (__builtin_expect(delay > DELAYED_1, 0)) {
        uint32_t *late = delay > DELAYED_10 ? &k->delayed_10 : &k->delayed_1;
        *late += *late < UINT32_MAX;
    }
}

/* Counts a delivery whose sender settles it before all of it is sent as one that arrived settled: engines that begin to
 * send before a message is complete cannot say so earlier. */
PRIVATE inline void count_late(core_router *c, core_in *in)
{
    if (in->flags & (IN_PRESETTLED | IN_LATE | IN_COMPLETE | IN_ABORTED)) return;
    in->flags |= IN_LATE;
    stats_add(c->stats, N_PRESETTLED, 1);
    if (in->link) in->link->counts.presettled++;
}

/* Settlements per second over the last complete ticks, as seen at `tick`. */
GLUE uint64_t link_rate(const core_link_counts *k, uint32_t tick)
{
    uint32_t passed = tick - k->tick;
    uint64_t sum = passed && passed <= RATE_SLOTS ? k->settled : 0;
    for (uint32_t i = 0; passed < RATE_SLOTS && i + passed < RATE_SLOTS; i++) sum += k->before[i];
    return (sum * 1000000000ull >> RATE_SHIFT) / RATE_SLOTS;
}
