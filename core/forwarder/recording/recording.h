/* The flight recorder's checkpoints, and the core that a checkpoint describes. */
#ifndef ROUTERD_CORE_RECORDING_H
#define ROUTERD_CORE_RECORDING_H

#include "core/forwarder/changes/changes.h"
#include "shm/memory/flight.h"

#define LINES_MOST (1u << 17)          /* of a checkpoint: 8 MiB */

/* Lines that a checkpoint may take. */
static inline uint64_t checkpoint_room(const core_flight *f)
{
    const uint64_t eighth = (f->mask + 1) / 8;
    return eighth < LINES_MOST ? eighth : LINES_MOST;
}

/* ---- writing: checkpoint.c ---- */

PRIVATE void checkpoint_write(core_router *c);

/* A checkpoint is due so many lines after the last one, if the tables are in a state that it can describe. */
static inline bool checkpoint_due(const core_router *c) { return c->flight && c->flight->next >= c->flight->due; }

/* ---- reading: restore.c, restored.c ---- */

GLUE const char *checkpoint_restore(core_router *c, uint32_t kind, const uint8_t *octets, uint32_t length);
GLUE const char *checkpoint_restored(core_router *c);

#endif
