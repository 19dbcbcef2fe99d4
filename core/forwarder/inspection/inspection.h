/* What is looked for between turns, so that no message pays for it: the busiest addresses, links that are stuck, and
 * memory that is no longer needed. */
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
    uint64_t dry_since;        /* incoming: when a poll first found it without credit, nanoseconds; 0: it has some */
} core_stalled;

typedef struct core_stall {    /* where the poll of all links has got to, and what the last one found */
    core_stalled *link;        /* by the index of the core_link */
    uint32_t room, next, stuck, blocked, stuck_so_far, blocked_so_far;
} core_stall;

/* ---- links that get nowhere: stall.c ---- */

GLUE bool stall_step(core_router *c);
GLUE core_stalled stall_of(const core_router *c, const core_link *l);
PRIVATE void stall_close(core_router *c);

/* ---- memory that is given back: memory.c ---- */

GLUE uint64_t memory_step(core_router *c);

#endif
