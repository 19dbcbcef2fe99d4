/* The busiest addresses: what a pass has found so far (busiest.c). */
#ifndef ROUTERD_CORE_BUSIEST_H
#define ROUTERD_CORE_BUSIEST_H

#include "core/forwarder/tables.h"
#include "shm/unity.h"

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

GLUE void busiest_open(const core_router *c, core_busiest *b);
GLUE void busiest_begin(core_busiest *b);
GLUE bool busiest_step(const core_router *c, core_busiest *b);

#endif
