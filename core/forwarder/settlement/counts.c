/* What management is told of a link: outcomes, delays and the rate of settlement, counted when a delivery is over. */
#include "core/forwarder/settlement/settlement.h"

GLUE void count_stale(core_router *c) { stats_add(c->stats, N_STALE_RECORDS, 1); }
GLUE void count_bad(core_router *c) { stats_add(c->stats, N_BAD_RECORDS, 1); }

/* Moves what was counted by one place for each tick since. */
__attribute__((noinline, cold)) static void link_tick(core_link_counts *k, uint32_t tick)
{
    for (uint32_t passed = tick - k->tick < RATE_SLOTS ? tick - k->tick : RATE_SLOTS; passed; passed--) {
        memmove(k->before + 1, k->before, sizeof k->before - sizeof k->before[0]);
        k->before[0] = k->settled;
        k->settled = 0;
    }
    k->tick = tick;
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
    if (__builtin_expect(k->tick != tick, 0)) link_tick(k, tick);
    k->settled++;
    if (state - S_ACCEPTED < 4 && !(in->flags & (IN_PRESETTLED | IN_LATE))) k->outcome[state - S_ACCEPTED]++;
    if (__builtin_expect(delay > DELAYED_1, 0)) {
        if (delay > DELAYED_10) k->delayed_10++;
        else k->delayed_1++;
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
