/* What changes the tables between messages: links, places for workers, routers. */
#ifndef ROUTERD_CORE_CHANGES_H
#define ROUTERD_CORE_CHANGES_H

#include "core/forwarder/delivery/delivery.h"
#include "core/forwarder/inspection/inspection.h"

/* ---- the table of routers: topology.c ---- */

PRIVATE core_mask network_within(core_network *n);
PRIVATE void neighbour_drop_link(core_router *c, core_link *l);
GLUE void network_add(core_router *c, uint32_t bit, const uint8_t *text, uint32_t length);
GLUE void network_remove(core_router *c, uint32_t bit);
GLUE void network_path(core_router *c, uint32_t bit, int next_hop, uint32_t cost, core_mask valid_origins);
GLUE void network_neighbour(core_router *c, uint32_t bit, int neighbour);
GLUE bool address_add_remote(core_router *c, core_address *a, uint32_t bit);
GLUE void address_drop_remote(core_router *c, core_address *a, uint32_t bit);
GLUE void neighbour_add_link(core_router *c, core_link *l, uint32_t neighbour, uint32_t priority);
GLUE int neighbour_take(core_router *c, uint64_t streams, bool abroad);
GLUE void neighbour_give(core_router *c, uint32_t neighbour);

/* ---- links and places, as they come and go: recover.c ---- */

GLUE void address_free(core_router *c, core_address *a);
GLUE core_link *link_place(core_router *c, uint32_t w, uint32_t link, uint32_t generation, const core_link *terms);
GLUE void link_credit(core_router *c, core_link *l, int64_t granted);
GLUE core_link *link_add(core_router *c, uint32_t w, uint32_t link, uint32_t generation, const core_link *terms);
GLUE bool link_move(core_router *c, core_link *l, core_address *a);
GLUE bool link_thin(core_router *c, core_link *l);
GLUE void link_remove(core_router *c, core_link *l, bool failed);
GLUE core_link *link_add_routed(core_router *c, uint32_t w, uint32_t link, uint32_t generation, bool outgoing,
                                bool far);
GLUE void core_reclaim(core_router *c, uint32_t w);
GLUE void place_empty(core_router *c, uint32_t w);
GLUE void place_fill(core_router *c, uint32_t w);

#endif
