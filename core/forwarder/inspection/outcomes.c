/* What becomes of the copies for an address, and what waits on its links.
 *
 * A link counts what its copies end with (counts.c).  Each poll of the links (stall.c) adds what has come since the one
 * before to the counts of the link's address, and to those of the rest while that is not among the busiest; so does the
 * end of a link.  No number ever shrinks.  A link that has counted nothing since costs the look at one number.
 *
 * The load of an address is summed up anew by each poll: while one is under way, the sums of the one before are told.
 */
#include "core/forwarder/inspection/inspection.h"
#include "core/forwarder/settlement/settlement.h"

static void outcomes_add(core_outcomes *sum, const core_link_counts *k, const core_outcomes *seen)
{
    for (int i = 0; i < 4; i++) sum->outcome[i] += k->outcome[i] - seen->outcome[i];
    sum->latency += k->latency - seen->latency;
    sum->delayed_1 += k->delayed_1 - seen->delayed_1;
    sum->delayed_10 += k->delayed_10 - seen->delayed_10;
}

static void outcomes_take(core_router *c, const core_link *l, core_outcomes *seen)
{
    outcomes_add(&l->address->ended, &l->counts, seen);
    if (!l->address->listed) outcomes_add(&c->rest, &l->counts, seen);
    const core_outcomes before = *seen;
    outcomes_add(seen, &l->counts, &before);
}

static void load_add(const core_stall *s, const core_link *l)
{
    core_address *a = l->address;
    if (a->poll != s->polls) {
        a->before = a->poll + 1 == s->polls ? a->load : (core_load) {.backlog = 0};
        a->load = (core_load) {.backlog = 0};
        a->poll = s->polls;
    }
    if (l->outgoing) a->load.backlog += l->count;
    else if (l->granted > 0) a->load.credit += (uint64_t) l->granted;
    else a->load.dry++;
}

/* Looks at a link, with what is kept beside it. */
PRIVATE void outcomes_poll(core_router *c, const core_link *l, core_stalled *k)
{
    if (!l->address) return;
    load_add(c->stall, l);
    if (!l->outgoing || l->counts.tick < k->tick) return;
    outcomes_take(c, l, &k->seen);
    k->tick = (uint32_t) (c->now >> RATE_SHIFT);
}

/* A link goes, and its copies are over. */
PRIVATE void outcomes_leave(core_router *c, const core_link *l)
{
    core_stalled *k = stall_beside(c, l);
    if (l->outgoing && l->address) outcomes_take(c, l, k ? &k->seen : &(core_outcomes) {.latency = 0});
}

/* What the last whole poll has found. */
GLUE core_load address_load(const core_router *c, const core_address *a)
{
    const uint64_t polls = c->stall ? c->stall->polls : 1;
    if (a->poll == polls) return a->before;
    return a->poll + 1 == polls ? a->load : (core_load) {.backlog = 0};
}
