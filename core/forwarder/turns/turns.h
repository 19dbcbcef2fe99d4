/* The core's turns, and the tables set up and taken down. */
#ifndef ROUTERD_CORE_TURNS_H
#define ROUTERD_CORE_TURNS_H

#include "core/forwarder/changes/changes.h"
#include "core/forwarder/inspection/inspection.h"
#include "core/forwarder/recording/recording.h"

/* ---- setting up: setup.c ---- */

GLUE const char *setup_worker(core_router *c, uint32_t w, uint8_t *control, uint8_t *rings, int eventfd);
GLUE const char *core_open(core_router *c, uint32_t workers, uint8_t *control, uint64_t seed);
GLUE void core_close(core_router *c);

/* ---- turns: loop.c ---- */

GLUE enum core_stop core_batch(core_router *c, uint32_t w, uint32_t limit, uint32_t *handled);
GLUE enum core_stop core_step(core_router *c, uint64_t now);
GLUE uint64_t clock_now(void);
GLUE enum core_stop park_finish(core_router *c, core_link *l);
GLUE void core_portion(core_router *c, bool parked, uint32_t count);
GLUE enum core_stop core_run(core_router *c, uint64_t deadline, uint64_t busy);
GLUE bool core_in_python(const core_router *c);
GLUE void core_give_way(const core_router *c);

/* ---- a recording, once more: replay.c ---- */

typedef struct {               /* what a recording says of a message that a route table has: FLIGHT_KEY */
    uint32_t worker, block, what, owner;
    uint64_t source;
    int32_t type, subscription;
    uint32_t meid_at, source_at;       /* offsets in the message: where it has been written */
} replay_key;

GLUE enum core_stop replay_action(core_router *c, uint32_t w, const routerd_record *r, uint64_t now,
                                  const replay_key *k);
GLUE bool replay_keyed(core_router *c, replay_key *k, const replay_key *more);
GLUE bool replay_work(core_router *c, uint32_t w, routerd_record *r);
GLUE bool replay_text(core_router *c, uint32_t w, uint32_t block, uint32_t length, uint32_t what, uint64_t hash);
GLUE bool replay_routed(core_router *c, uint32_t w, uint32_t block, const uint8_t *detail);
GLUE bool replay_state(core_router *c, uint32_t w, uint32_t block, uint32_t state);

/* ---- actions: actions.c ---- */

PRIVATE enum core_stop action_take(core_router *c, uint32_t w, const routerd_record *r);
GLUE enum core_stop core_action(core_router *c, uint32_t w, const routerd_record *r);

#endif
