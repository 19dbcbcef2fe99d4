/* Treatments: which of an address's outgoing links a message goes to.  Multicast takes all of them and needs no
 * choice. */
#include "core/forwarder/delivery/delivery.h"

/* Closest: the local links in turn, whatever their backlog. */
static inline core_link *choose_closest(core_address *a)
{
    uint32_t at = a->rotate < a->out_count ? a->rotate : 0;
    a->rotate = at + 1;
    return a->out[at];
}

/* Balanced: the link with the fewest deliveries not yet settled, among those below their capacity if there are any.
 * Many have ranks; of few the first found wins a tie.  An idle link wins outright, and the next choice starts behind
 * it; with `any`, every link does.  `shut`: no link of this edge connection; 0: none is shut. */
static inline core_link *choose_balanced(core_address *a, bool any, uint32_t shut)
{
    if (a->ranks && !any) return rank_least(a, shut);
    core_link *best = NULL;
    bool best_eligible = false;
    uint32_t at = a->rotate < a->out_count ? a->rotate : 0;
    for (uint32_t i = 0; i < a->out_count; i++) {
        core_link *l = a->out[at];
        if (++at == a->out_count) at = 0;
        if (shut && l->edge == shut) continue;
        if (any || !l->count) {
            a->rotate = at;
            return l;
        }
        bool eligible = l->count < l->capacity;
        if (best && (eligible == best_eligible ? l->count >= best->count : best_eligible)) continue;
        best = l;
        best_eligible = eligible;
    }
    return best;
}

/* Chooses for a message from an edge router, which never goes back on its connection; NULL: it could only go back. */
PRIVATE core_link *choose_without(core_address *a, uint32_t edge)
{
    return choose_balanced(a, a->treatment == T_CLOSEST, edge);
}

/* For an address with at least one outgoing link; many have one. */
PRIVATE INLINED core_link *choose_one(core_address *a)
{
    if (a->out_count == 1 && a->treatment != T_CLOSEST) {
        if (!a->out[0]->count) a->rotate = 0;
        return a->out[0];
    }
    return a->treatment == T_CLOSEST ? choose_closest(a) : choose_balanced(a, false, 0);
}
