/* A message through one route worker at a time, for the module that tells each step (steps.pyx).
 *
 * Between two steps a message is the octets that would leave a router.
 */
#ifndef ROUTERD_WORKERS_SOURCE_ROUTES_SINGLE_H
#define ROUTERD_WORKERS_SOURCE_ROUTES_SINGLE_H

#include "workers/source_routes/source_routes.h"

/* Begins a message without data; its routes are pushed onto the level, the last stop first. */
GLUE route_level *single_new(route_engine *e, scan_found *found);
GLUE void single_push(route_path *w, const route_stop *s);
/* Checks what all messages keep, when the routes are there. */
GLUE enum route_result single_sent(route_engine *e);
/* Takes a message through the worker at hand. `from`: the worker that it comes from, else ROUTE_NOBODY and `s`. PASS:
 * there is no worker with this address, and the message may go there; copies that a tee has made have not gone on. */
GLUE enum route_result single_step(route_engine *e, const route_sender *s, uint32_t from, const uint8_t *bytes,
    size_t size, scan_found *found);
/* The beginning of a message or of a copy as it leaves, in front of the run's `rest`. NULL: out of memory. */
GLUE const uint8_t *single_write(route_engine *e, const route_run *r, const uint8_t *start, const scan_found *found);
/* The message inside, which a worker has just wrapped; NULL: none has. */
GLUE const route_level *single_inside(const route_run *r);
/* A transform for which nobody else's code is run: data stay as they are. */
GLUE uint8_t *single_unchanged(void *self, uint32_t worker, const uint8_t *data, size_t size, size_t *changed);
GLUE void single_clean(route_engine *e);

#endif
