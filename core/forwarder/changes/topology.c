/* The table of routers as it changes: paths, links of neighbours, addresses with receivers elsewhere.
 *
 * Slow things: called when the network changes, never for a message.
 */
#include "core/forwarder/changes/changes.h"

static bool neighbour_has_link(const core_neighbour *k)
{
    for (uint32_t p = 0; p < ROUTERD_PRIORITIES; p++)
        if (k->data[p]) return true;
    return k->control != NULL;
}

/* Works out whether a router with receivers is within reach; if one is now, the senders get their credit. */
static void address_reach(core_router *c, core_address *a)
{
    core_mask within = mask_both(a->remotes, c->network.reachable);
    bool was = a->reached;
    a->reached = mask_any(&within);
    if (was == a->reached) return;
    if (a->reached) credit_grant_all(c, a);
    address_way_changed(c, a);
}

/* The routers with a way to them, and a link at its beginning. */
PRIVATE core_mask network_within(core_network *n)
{
    core_mask reachable = {{0, 0}};
    for (uint32_t bit = 1; bit < NODES; bit++) {
        const core_node *node = &n->node[bit];
        const core_neighbour *k = node->known && node->next_hop > 0 ? network_hop(n, (uint32_t) node->next_hop) : NULL;
        if (k && neighbour_has_link(k)) mask_set(&reachable, bit);
    }
    return reachable;
}

/* Works out what follows from a changed table. */
static void network_changed(core_router *c)
{
    core_network *n = &c->network;
    const core_mask reachable = network_within(n);
    n->epoch++;
    if (!memcmp(&reachable, &n->reachable, sizeof reachable)) return;
    n->reachable = reachable;
    uint32_t at = 0;
    for (core_address *a; (a = (core_address *) pool_next(&c->addresses, &at));)
        if (mask_any(&a->remotes)) address_reach(c, a);
}

/* ---- routers ---- */

GLUE void network_add(core_router *c, uint32_t bit, const uint8_t *text, uint32_t length)
{
    core_node *node = &c->network.node[bit];
    *node = (core_node) {.known = true, .next_hop = -1, .neighbour = -1, .length = length};
    memcpy(node->text, text, length);
    network_changed(c);
}

GLUE void network_remove(core_router *c, uint32_t bit)
{
    c->network.node[bit] = (core_node) {.next_hop = -1, .neighbour = -1};
    uint32_t at = 0;
    for (core_address *a; (a = (core_address *) pool_next(&c->addresses, &at));) {
        if (!mask_has(&a->remotes, bit)) continue;
        mask_clear(&a->remotes, bit);
        address_reach(c, a);
    }
    network_changed(c);
}

GLUE void network_path(core_router *c, uint32_t bit, int next_hop, uint32_t cost, core_mask valid_origins)
{
    core_node *node = &c->network.node[bit];
    node->next_hop = (int16_t) next_hop;
    node->cost = cost;
    node->valid_origins = valid_origins;
    network_changed(c);
}

GLUE void network_neighbour(core_router *c, uint32_t bit, int neighbour)
{
    c->network.node[bit].neighbour = (int16_t) neighbour;
    network_changed(c);
}

/* ---- addresses ---- */

/* False: memory is used up. */
GLUE bool address_add_remote(core_router *c, core_address *a, uint32_t bit)
{
    if (!a->outstanding && !(a->outstanding = (uint32_t *) calloc(NODES, sizeof *a->outstanding))) return false;
    mask_set(&a->remotes, bit);
    a->epoch = c->network.epoch - 1;
    address_reach(c, a);
    return true;
}

GLUE void address_drop_remote(core_router *c, core_address *a, uint32_t bit)
{
    mask_clear(&a->remotes, bit);
    a->epoch = c->network.epoch - 1;
    address_reach(c, a);
    if (!a->out_count && !a->in_count && !mask_any(&a->remotes)) alias_drop_all(c, a);
}

/* ---- links ---- */

GLUE void neighbour_add_link(core_router *c, core_link *l, uint32_t neighbour, uint32_t priority)
{
    core_neighbour *k = &c->network.neighbour[neighbour];
    l->neighbour = (uint8_t) neighbour;
    if (!l->outgoing) return;
    if (l->kind == LINK_CONTROL) k->control = l;
    else if (l->kind == LINK_DATA) k->data[priority] = l;
    else stream_add_link(c, l, k->streams);
    if (l->kind != LINK_STREAM) network_changed(c);
}

PRIVATE void neighbour_drop_link(core_router *c, core_link *l)
{
    core_neighbour *k = &c->network.neighbour[l->neighbour];
    if (!l->outgoing) return;
    if (l->kind == LINK_STREAM) {
        stream_drop_link(c, l);
        return;
    }
    if (k->control == l) k->control = NULL;
    for (uint32_t p = 0; p < ROUTERD_PRIORITIES; p++)
        if (k->data[p] == l) k->data[p] = NULL;
    network_changed(c);
}

/* A place for a connection to a router; -1: all are taken. */
GLUE int neighbour_take(core_router *c, uint64_t streams, bool abroad)
{
    for (int i = 0; i < (int) NEIGHBOURS; i++) {
        core_neighbour *k = &c->network.neighbour[i];
        if (k->taken) continue;
        *k = (core_neighbour) {.taken = true, .streams = streams, .abroad = abroad};
        c->network.abroad += abroad;
        return i;
    }
    return -1;
}

/* The connection is gone, and its links before it. */
GLUE void neighbour_give(core_router *c, uint32_t neighbour)
{
    c->network.abroad -= c->network.neighbour[neighbour].abroad;
    c->network.neighbour[neighbour] = (core_neighbour) {.taken = false};
    for (uint32_t bit = 0; bit < NODES; bit++)
        if (c->network.node[bit].neighbour == (int16_t) neighbour) c->network.node[bit].neighbour = -1;
    network_changed(c);
}
