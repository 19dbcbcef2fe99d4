/* Route tables in use: the state of an address whose messages a table routes.
 *
 *   built --routes_use_table--> in use --the next table--> former: its counts move --routes_settle--> freed
 *
 * The swap stores a pointer.  The former table's counts move in portions, so that a table of a million entries delays
 * no message; those of a small one move at once.  A table replaces another only after the former one is settled.
 */
#include "core/forwarder/settlement/settlement.h"
#include "core/forwarder/tables/planes.h"
#include "core/rmr/forwarding/active_tables.h"

#ifndef ROUTES_PORTION
#define ROUTES_PORTION 16384u          /* slots and endpoints of a former table whose counts move at a time */
#endif

/* Returns whether senders to the table get credit. */
PRIVATE bool routes_open(const core_routes *p) { return !p->closed; }

/* Returns whether an endpoint has a receiver. */
PRIVATE inline bool route_alive(const route_endpoint *e)
{
    return e->address && address_has_receiver(e->address) && e->address->treatment < T_UNAVAILABLE;
}

static void route_endpoint_move(route_endpoint *to, const route_endpoint *from)
{
    to->sent += from->sent;
    to->missed += from->missed;
}

/* Moves a portion of the former table's counts, and returns whether all have been moved. */
GLUE bool routes_settle(core_routes *p)
{
    const route_table *from = p->former;
    if (!from) return true;
    p->former_at = route_inherit(p->table, from, p->former_at, ROUTES_PORTION);
    uint32_t last = from->endpoints.count - p->former_endpoint < ROUTES_PORTION ? from->endpoints.count
        : p->former_endpoint + ROUTES_PORTION;
    for (; p->former_endpoint < last; p->former_endpoint++) {
        uint32_t now = p->moved[p->former_endpoint];
        if (now < p->table->endpoints.count)
            route_endpoint_move(&p->table->endpoints.at[now], &from->endpoints.at[p->former_endpoint]);
    }
    if (p->former_at <= from->mask || p->former_endpoint < from->endpoints.count) return false;
    p->former = NULL;
    return true;
}

/* Takes a table into use.  `moved` has the present number of each endpoint of the former table, and must stay until
 * that is settled. */
GLUE void routes_use_table(core_routes *p, route_table *t, const uint32_t *moved)
{
    p->former = p->table;
    p->former_at = p->former_endpoint = 0;
    p->moved = moved;
    p->table = t;
    routes_settle(p);
}

/* Takes a MEID map into use.  All counts move at once, because owners are few. */
GLUE void routes_use_owners(core_routes *p, route_owners *o, const uint32_t *moved)
{
    for (uint32_t i = 0; p->owners && i < p->owners->endpoints.count; i++)
        if (moved[i] < o->endpoints.count) route_endpoint_move(&o->endpoints.at[moved[i]], &p->owners->endpoints.at[i]);
    p->owners = o;
}
