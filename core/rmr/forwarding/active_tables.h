/* Route tables in use, their owners of managed entities, and their busiest entries (active_tables.c, owners.c,
 * busiest.c). */
#ifndef ROUTERD_CORE_ACTIVE_TABLES_H
#define ROUTERD_CORE_ACTIVE_TABLES_H

#include "core/rmr/forwarding/table.h"

#define ROUTE_MEID 255u                /* octets of a MEID that are looked up */

typedef struct {
    uint64_t hash;
    uint32_t owner;            /* ROUTE_NONE: the slot is empty */
    uint32_t text, length;
} route_owner;

typedef struct {
    route_owner *slot;
    uint32_t mask, count;
    const uint8_t *text;
    route_endpoints endpoints;
} route_owners;

GLUE void route_owners_free(route_owners *o);
GLUE route_owners *route_owners_build(uint64_t seed, const uint8_t *text, const uint32_t *start, const uint32_t *owner,
                                      uint32_t count, uint32_t endpoints);
PRIVATE route_endpoint *route_owner_of(const route_owners *o, uint64_t seed, const uint8_t *meid, uint32_t length);

enum { ROUTES_NO_ENTRY, ROUTES_NO_ENDPOINT, ROUTES_NO_OWNER, ROUTES_REASONS };   /* why no endpoint gets a message */

typedef struct { int32_t type, subscription; } core_unroutable;

typedef struct core_routes {
    core_address *address;
    route_table *table;        /* NULL: none yet */
    route_owners *owners;      /* NULL: no managed entity has an owner */
    bool skip_dead;
    bool closed;               /* senders get no credit yet; messages that come anyway are routed */
    uint64_t routed, no_entry, no_endpoint, no_owner, refused;
    core_unroutable unroutable[ROUTES_REASONS];  /* the last message of each reason */
    const route_table *former; /* NULL: its counts have been moved */
    uint32_t former_at, former_endpoint;
    const uint32_t *moved;     /* by endpoint of the former table: its present number; ROUTE_NONE: it is gone */
} core_routes;

PRIVATE bool route_alive(const route_endpoint *e);
GLUE bool routes_settle(core_routes *p);
GLUE void routes_use_table(core_routes *p, route_table *t, const uint32_t *moved);
GLUE void routes_use_owners(core_routes *p, route_owners *o, const uint32_t *moved);

#define ROUTE_BUSIEST_ROWS 50u

typedef struct {
    int32_t type, subscription;
    uint64_t turns;            /* messages that took an entry of this key, for all senders together */
} route_busiest_row;

typedef struct {
    route_busiest_row row[ROUTE_BUSIEST_ROWS];
    uint32_t count, least;     /* rows in use, and the one with the fewest turns */
    uint32_t at;               /* the next slot */
} route_busiest;

GLUE bool route_busiest_step(const route_table *t, route_busiest *b);

#endif
