/* Credit of incoming links: capacity == granted + outstanding (link->count) + withheld.
 *
 *   destination appears   withheld -> granted, by W_FLOW
 *   delivery arrives      granted -> outstanding
 *   delivery is settled   outstanding -> granted (in the settling record), or -> withheld when there is no destination
 *   arrived settled, on an anonymous link or for multicast: the same as soon as it is forwarded
 *   W_DRAIN, A_DRAINED    granted -> withheld
 *   between routers outstanding deliveries hold no credit: it is due when they are forwarded, whatever becomes of them
 *
 * An anonymous link always has its credit: where its messages go is not known before they come.
 *
 * A link without a configured linkCapacity has little at first, which suits most senders.  One that is used up every
 * few milliseconds gets more, so that each process finds more to do when it wakes:
 *
 *   CREDIT_CYCLE deliveries in CREDIT_FAST or less    capacity becomes CREDIT_MOST; what is new is granted
 *   in more than CREDIT_SLOW                          capacity becomes CREDIT_FIRST by what comes back: outstanding,
 *                                                     owed or withheld -> gone
 *
 * A cycle is longer than the most credit, so in each of them a sender uses credit that came back.  Where few deliveries
 * come the first settlement in a second looks whether the present cycle has been too slow already.
 */
#include "core/forwarder/settlement/settlement.h"

enum {
    CREDIT_FIRST = ROUTERD_LINK_CREDIT, CREDIT_MOST = ROUTERD_LINK_CREDIT_MOST,
    CREDIT_FAST = 8000000 >> CREDIT_SHIFT,     /* 8 ms: 128,000 deliveries a second */
    CREDIT_SLOW = 25000000 >> CREDIT_SHIFT,    /* 25 ms: 41,000 */
};

_Static_assert(CREDIT_CYCLE > CREDIT_MOST, "credit comes back in each cycle");

/* Receivers of its own, here or at other routers. */
PRIVATE inline bool address_has_receiver(const core_address *a) { return a->out_count || a->reached; }
GLUE bool address_has_way(const core_address *a) { return address_has_receiver(a) || a->redirects; }

/* For the messages of a link: what comes from a fallback destination does not go to one. */
PRIVATE inline bool address_leads(const core_address *a, const core_link *l)
{
    return address_has_receiver(a) || (a->redirects && (!l->fallback || a->exchange));
}

static inline bool credit_wanted(const core_link *l)
{
    return !l->address || address_leads(l->address, l) || l->kind == LINK_EDGE;
}

/* ---- credit that grows ---- */

static inline uint32_t credit_time(const core_router *c) { return (uint32_t) (c->now >> CREDIT_SHIFT); }

static void credit_grow(core_router *c, core_link *l)
{
    if (l->growth == CREDIT_FIXED || l->draining || !credit_wanted(l)) return;
    l->growth = CREDIT_GROWS;
    const uint32_t more = CREDIT_MOST - l->capacity;
    if (!more) return;
    l->capacity += more;
    l->granted += more;
    core_post_link(c, l, W_FLOW)->credit = more;
}

/* Takes up to `most` of what has grown; once all of it is gone the link may grow again. */
static uint32_t credit_shrink(core_link *l, uint32_t most)
{
    const uint32_t grown = l->capacity - CREDIT_FIRST, taken = grown < most ? grown : most;
    l->capacity -= taken;
    l->growth = l->capacity == CREDIT_FIRST ? CREDIT_GROWS : CREDIT_EBBS;
    return taken;
}

static void credit_ebb(core_link *l)
{
    if (l->growth == CREDIT_FIXED) return;
    l->withheld -= credit_shrink(l, l->withheld);
    const uint32_t owed = credit_shrink(l, l->owed);
    l->owed -= owed;
    l->granted -= owed;
}

/* Another CREDIT_CYCLE deliveries have come. */
__attribute__((noinline, cold)) PRIVATE void credit_cycle(core_router *c, core_link *l)
{
    const uint32_t now = credit_time(c), took = now - l->counts.cycle;
    l->counts.cycle = now;
    if (took <= CREDIT_FAST) credit_grow(c, l);
    else if (took > CREDIT_SLOW) credit_ebb(l);
}

/* A delivery is over, the first one in a second (link_tick). */
PRIVATE void credit_poll(const core_router *c, core_link *l)
{
    if (credit_time(c) - l->counts.cycle > CREDIT_SLOW) credit_ebb(l);
}

/* The capacity of a new link whose sender has `granted` credit already, from an earlier core. */
PRIVATE void credit_begin(core_link *l, int64_t granted)
{
    if (l->growth != CREDIT_FIXED && granted > l->capacity)
        l->capacity = granted < CREDIT_MOST ? (uint32_t) granted : CREDIT_MOST;
    l->granted = granted < l->capacity ? granted : l->capacity;
    l->withheld = (uint32_t) (l->capacity - l->granted);
    credit_ebb(l);
}

/* ---- credit that comes and goes ---- */

/* Grants what was withheld; also ends a drain that has not been answered. */
PRIVATE void credit_grant(core_router *c, core_link *l)
{
    if (!credit_wanted(l) || (!l->withheld && !l->draining)) return;
    credit_ebb(l);
    core_post_link(c, l, W_FLOW)->credit = l->withheld;
    l->granted += l->withheld;
    l->withheld = 0;
    l->draining = false;
}

PRIVATE void credit_grant_all(core_router *c, core_address *a)
{
    for (core_link *l = a->in_links; l; l = l->next) credit_grant(c, l);
}

/* What to replenish for a delivery that has left the link's list: 1, or 0 while there is nowhere to send to. */
PRIVATE inline uint32_t credit_back(core_link *l)
{
    if (__builtin_expect(l->kind != LINK_ENDPOINT, 0)) return 0;
    if (__builtin_expect(l->growth == CREDIT_EBBS, 0)) {
        credit_shrink(l, 1);
        return 0;
    }
    if (credit_wanted(l)) {
        l->granted++;
        return 1;
    }
    l->withheld++;
    return 0;
}

/* Between routers, for each message as it comes: told in portions, while most of the credit is still there. */
PRIVATE inline void credit_due(core_router *c, core_link *l)
{
    if (__builtin_expect(l->growth == CREDIT_EBBS, 0)) {
        credit_shrink(l, 1);
        return;
    }
    l->granted++;
    if (++l->owed < l->capacity / 4) return;
    core_post_link(c, l, W_FLOW)->credit = l->owed;
    l->owed = 0;
}

/* A message came and there was nowhere to send it: no more of them, please. */
PRIVATE void credit_drain(core_router *c, core_link *l)
{
    if (l->draining || l->granted <= 0 || credit_wanted(l)) return;
    l->draining = true;
    core_post_link(c, l, W_DRAIN);
}

PRIVATE void credit_drained(core_router *c, core_link *l, uint32_t credit)
{
    if ((int64_t) credit > l->granted) credit = l->granted > 0 ? (uint32_t) l->granted : 0;   /* no more than it had */
    l->granted -= credit;
    l->withheld += credit;
    l->draining = false;
    credit_grant(c, l);
}
