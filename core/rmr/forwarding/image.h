/* What a recording says of route tables: entries of a checkpoint, and of calls that take a table into use
 * (shm/memory/flight.h, from ENTRY_ROUTES on).
 *
 * Names are hashes whose key dies with the core, and of managed entities there is nothing but how many owners they
 * have.  An address is named by its index plus 1, 0 for none.  No image has padding.
 */
#ifndef ROUTERD_CORE_ROUTE_IMAGE_H
#define ROUTERD_CORE_ROUTE_IMAGE_H

#include "core/forwarder/tables/planes.h"
#include "core/rmr/forwarding/active_tables.h"

#define ROUTE_IMAGE_BITS 22u           /* of a slot's number in the largest table that is recorded */

typedef struct {
    uint64_t counts[5];
    core_unroutable unroutable[ROUTES_REASONS];
    uint32_t address;
    uint8_t skip_dead, closed, table, owners;      /* the last two: whether it has them; their entries follow */
} image_routes;

typedef struct { uint32_t bits, entries, keys, specials, senders, words, endpoints, none; } image_table;

typedef struct {
    uint32_t at, target;
    int32_t type, subscription;
    uint64_t turns;
} image_slot;

typedef struct {
    uint64_t hash, sent, missed;
    uint32_t address, none;
} image_endpoint;

_Static_assert(sizeof(image_routes) == 40 + 8 * ROUTES_REASONS + 8, "an image has padding");
_Static_assert(sizeof(image_table) == 32 && sizeof(image_slot) == 24 && sizeof(image_endpoint) == 32
               && sizeof(route_special) == 24, "an image has padding");

typedef struct {               /* the parts of a recorded table, from a file: nothing of them has been checked */
    image_table about;
    const image_slot *slot;
    const route_special *special;
    const uint64_t *sender;
    const uint32_t *word;
    const image_endpoint *endpoint;
} image_parts;

/* ---- writing: recorded.c ---- */

GLUE bool route_table_fits(const route_table *t);
GLUE uint64_t route_table_lines(const route_table *t);
GLUE uint32_t route_table_part(const route_table *t, routes_cursor *k, uint8_t *octets, uint32_t *length);

/* ---- reading: restored.c ---- */

GLUE const char *route_restore(const image_parts *from, route_table **table);
GLUE core_address *address_numbered(const core_router *c, uint32_t number);
GLUE void routes_restore(core_routes *p, const image_routes *image);
GLUE void endpoints_restore(route_endpoints *to, const image_endpoint *from);

#endif
