/* To other routers: which of them a message goes to, and over which link.
 *
 *   closest    of the routers with the lowest cost one after the other, if there is no receiver here
 *   balanced   deliveries of this address not settled over the next hop, plus the cost: compared with the receivers
 *              here
 *   multicast  one copy for each next hop on the way to a router that is to get it from us
 *
 * A router is to get a message from us if its origin's way to it leads through us (valid origins); so each gets it
 * once.  A multicast message never goes to a neighbour that it has passed.
 *
 * Neighbours abroad speak the other dialect (docs/network.md): what is said of addresses on one side of that border
 * means nothing on the other, or harm.  All else crosses it.
 */
#include "core/forwarder/delivery/delivery.h"

/* The link on the way to a next hop; NULL: there is none. */
PRIVATE inline core_link *transit_link(core_router *c, uint32_t hop, bool control, uint8_t priority)
{
    core_neighbour *k = network_hop(&c->network, hop);
    if (!k) return NULL;
    if (control) return k->control;
    for (int p = priority; p >= 0; p--)
        if (k->data[p]) return k->data[p];
    for (int p = priority + 1; p < (int) ROUTERD_PRIORITIES; p++)
        if (k->data[p]) return k->data[p];
    return NULL;
}

static inline bool transit_valid(const core_network *n, uint32_t bit, int origin)
{
    return origin == 0 || (origin > 0 && mask_has(&n->node[bit].valid_origins, (uint32_t) origin));
}

/* The routers of the lowest cost among those within reach. */
static void transit_nearest(const core_network *n, core_address *a)
{
    core_mask within = mask_both(a->remotes, n->reachable);
    uint32_t least = UINT32_MAX;
    a->nearest = (core_mask) {{0, 0}};
    a->epoch = n->epoch;
    for (uint32_t bit = mask_next(&within, 0); bit < NODES; bit = mask_next(&within, bit + 1)) {
        if (n->node[bit].cost > least) continue;
        if (n->node[bit].cost < least) a->nearest = (core_mask) {{0, 0}};
        least = n->node[bit].cost;
        mask_set(&a->nearest, bit);
    }
}

/* Closest: the next hop; 0: none. */
PRIVATE uint32_t transit_closest(const core_network *n, core_address *a)
{
    if (a->epoch != n->epoch) transit_nearest(n, a);
    uint32_t bit = mask_next(&a->nearest, a->turn);
    if (bit == NODES) bit = mask_next(&a->nearest, 0);
    if (bit == NODES) return 0;
    a->turn = bit + 1;
    return (uint32_t) n->node[bit].next_hop;
}

/* Balanced: the next hop if one is better than `here`, the best receiver of ours (NULL: none); 0: none is. */
PRIVATE uint32_t transit_balanced(core_router *c, core_address *a, const core_link *here, int origin, uint8_t priority)
{
    const core_network *n = &c->network;
    if (here && !here->count) return 0;
    bool eligible = here && here->count < here->capacity;
    uint64_t best = here ? here->count : UINT64_MAX;
    uint32_t found = 0;
    core_mask within = mask_both(a->remotes, n->reachable);
    for (uint32_t bit = mask_next(&within, 0); bit < NODES; bit = mask_next(&within, bit + 1)) {
        uint32_t hop = (uint32_t) n->node[bit].next_hop;
        core_link *l;
        if (!transit_valid(n, bit, origin) || !(l = transit_link(c, hop, false, priority))) continue;
        bool may = a->outstanding[hop] < l->capacity;
        uint64_t value = (uint64_t) a->outstanding[hop] + n->node[bit].cost;
        if (may == eligible ? value >= best : eligible) continue;
        best = value;
        eligible = may;
        found = hop;
    }
    return found;
}

static inline bool transit_crosses(const core_network *n, const core_link *from, uint32_t hop)
{
    int16_t at = n->node[hop].neighbour;
    return at >= 0 && n->neighbour[at].abroad != n->neighbour[from->neighbour].abroad;
}

/* Multicast: the next hops. */
PRIVATE core_mask transit_multicast(const core_network *n, const core_link *from, const core_address *a,
                                    const core_provenance *provenance)
{
    bool stays = n->abroad && a->treatment == T_CONTROL && from->kind == LINK_CONTROL;
    core_mask within = mask_both(a->remotes, n->reachable), hops = {{0, 0}};
    for (uint32_t bit = mask_next(&within, 0); bit < NODES; bit = mask_next(&within, bit + 1))
        if (a->treatment == T_FLOOD || transit_valid(n, bit, provenance->origin))
            mask_set(&hops, (uint32_t) n->node[bit].next_hop);
    for (uint32_t hop = stays ? mask_next(&hops, 0) : NODES; hop < NODES; hop = mask_next(&hops, hop + 1))
        if (transit_crosses(n, from, hop)) mask_clear(&hops, hop);
    return mask_without(hops, provenance->trace);
}

/* What a router says of addresses to one beyond the border is for the protocol here, which answers on its behalf. */
PRIVATE core_address *transit_border(core_router *c, const core_link *from, uint32_t block, core_address *a)
{
    const core_network *n = &c->network;
    uint32_t bit = mask_next(&a->remotes, 0);
    if (!n->border || a->treatment != T_CLOSEST || a->out_count || bit == NODES) return a;
    if (n->node[bit].next_hop <= 0 || !transit_crosses(n, from, (uint32_t) n->node[bit].next_hop)) return a;
    uint32_t length = content_to(&c->arena[from->worker], block, c->text);
    return length <= CORE_MAX_TEXT && text_about_addresses(c->text, length) ? n->border : a;
}

/* What a message's next router is told of its address: a sender with a target need not write it into its messages, and
 * what a tenant writes is not the whole of it.  False: it must be told and there is no room for it. */
PRIVATE inline bool transit_text(core_router *c, const core_link *from, core_address *a,
                                 const core_provenance *provenance, core_text **text)
{
    *text = provenance->text ? provenance->text : provenance->overridden || (!from->address && !from->scope) ? NULL
        : from->text ? from->text : a->text;
    return !*text || text_use(c, *text);
}
