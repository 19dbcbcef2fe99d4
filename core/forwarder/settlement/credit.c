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
 */
#include "core/forwarder/settlement/settlement.h"

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

/* Grants what was withheld; also ends a drain that has not been answered. */
PRIVATE void credit_grant(core_router *c, core_link *l)
{
    if (!credit_wanted(l) || (!l->withheld && !l->draining)) return;
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
