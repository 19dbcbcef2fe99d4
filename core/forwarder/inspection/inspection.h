/* What is looked for and counted between turns, so that no message pays for it: the busiest addresses, links that are
 * stuck, what becomes of the copies for an address, and memory that is no longer needed. */
#ifndef ROUTERD_CORE_INSPECTION_H
#define ROUTERD_CORE_INSPECTION_H

#include "core/forwarder/tables/access.h"

#define BUSIEST_ROWS 50u

typedef struct {
    uint64_t handle, score, delta;
} core_busiest_row;

typedef struct {
    core_busiest_row row[BUSIEST_ROWS];
    uint32_t count, least;             /* rows taken; the one to be replaced first */
    uint32_t at;                       /* the next address to look at */
    bool passing;
    uint64_t shown[BUSIEST_ROWS];      /* handles of the rows of the last pass */
    uint32_t shown_count;
    uint64_t in_rows;                  /* deliveries to addresses while they had a row */
    uint64_t rest;
    uint64_t begin;                    /* of the counter of all deliveries when this core started */
} core_busiest;

/* ---- the busiest addresses: busiest.c ---- */

GLUE void busiest_open(const core_router *c, core_busiest *b);
GLUE void busiest_begin(core_busiest *b);
GLUE bool busiest_step(const core_router *c, core_busiest *b);

typedef struct {               /* of a link, at the last poll */
    uint32_t generation;       /* of the link's node: another one's numbers are a former link's */
    uint32_t stuck;            /* deliveries on it for long */
    uint32_t holder, holder_generation;    /* incoming: the link of the first copy of the first of these; 0: none */
    uint32_t tick;             /* of c->now >> RATE_SHIFT, when `seen` was taken */
    uint64_t dry_since;        /* incoming: when a poll first found it without credit, nanoseconds; 0: it has some */
    core_outcomes seen;        /* outgoing: what its address knows of its counts */
} core_stalled;

typedef struct core_stall {    /* where the poll of all links has got to, and what the last one found */
    core_stalled *link;        /* by the index of the core_link */
    uint64_t polls;            /* the number of the one that is under way, from 1 */
    uint32_t room, next, stuck, blocked, stuck_so_far, blocked_so_far;
    uint32_t waiting, waiting_so_far;      /* deliveries on links for long, each counted once */
} core_stall;

/* ---- links that get nowhere: stall.c ---- */

GLUE bool stall_step(core_router *c);
GLUE core_stalled stall_of(const core_router *c, const core_link *l);
GLUE core_link *stall_holder(const core_router *c, const core_link *l);
PRIVATE core_stalled *stall_beside(const core_router *c, const core_link *l);
PRIVATE void stall_close(core_router *c);

/* ---- memory that is given back: memory.c ---- */

GLUE uint64_t memory_step(core_router *c);
GLUE void memory_freed(core_router *c);

/* ---- outcomes and load by address: outcomes.c ---- */

PRIVATE void outcomes_poll(core_router *c, const core_link *l, core_stalled *k);
PRIVATE void outcomes_leave(core_router *c, const core_link *l);
GLUE core_load address_load(const core_router *c, const core_address *a);

#endif
