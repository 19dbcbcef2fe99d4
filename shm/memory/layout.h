/* The layout of one router's segments (docs/memory-layout.md).
 *
 *   control   | header, doorbells: 8192 bytes | statistics pages: workers, core, supervisor, recorder | board |
 *             journals: the same, exporter |
 *   rings     | worker 0: actions, work | worker 1: actions, work | ...
 *   flow      | see telemetry.h |
 *   arena-<i> | see arena.h; i in 0..places-1: the workers', i == places: the core's |
 *
 * The segments have `places` places, one for each worker that the router may ever have.  The first `workers` of them
 * are filled.  The others are untouched memory, so they cost only addresses, and no process has to map anything when a
 * worker is added.
 *
 * The supervisor formats the segments before any child exists.  Every offset follows from the number of places, which a
 * child also knows from its Setup packet and compares with the header.
 */
#ifndef ROUTERD_SHM_LAYOUT_H
#define ROUTERD_SHM_LAYOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/memory/arena.h"
#include "shm/statistics/board.h"
#include "shm/memory/doorbell.h"
#include "shm/memory/record.h"
#include "shm/memory/ring.h"
#include "shm/statistics/stats.h"
#include "shm/memory/telemetry.h"

#define LAYOUT_MAGIC 0x31647265747565ull
#define LAYOUT_VERSION 10u             /* grows with every change of the layout, of a record's meaning, or of a packet
                                          that an older process misreads (docs/versions.md) */
#define LAYOUT_PAGE 4096u
#define LAYOUT_CONTROL_HEADER_BYTES 8192u
#define LAYOUT_CORE_DOORBELL 1024u
#define LAYOUT_WORKER_DOORBELL 1088u
#define LAYOUT_RING_CAPACITY 8192u     /* records: all deliveries of 32 links with the default credit of 250 */
#define LAYOUT_CORE_ARENA_BYTES (4u * 1024u * 1024u)   /* control payloads, and what the core itself sends */
/* that have a statistics page beside the workers; the exporter has a journal only */
#define LAYOUT_OTHERS 3u
#define LAYOUT_JOURNAL_BYTES (256u * 1024u)   /* of one process: some hundred log lines (journal.py) */

typedef struct {               /* the first bytes of the control segment; all but the atomic ones are written once,
                                  before any child exists */
    uint64_t magic;
    uint32_t places;
    uint32_t version;
    uint32_t ring_capacity;
    uint64_t arena_bytes;      /* size of each worker's arena segment */
    _Atomic uint32_t workers;  /* the number of filled places, from the first; only the supervisor changes it */
    _Atomic uint32_t connections;  /* the number of the router's last connection */
    _Atomic uint32_t most;     /* the maximum of `workers`: later places have never counted anything */
} layout_control;

_Static_assert(sizeof(layout_control) <= LAYOUT_CORE_DOORBELL, "the header ends before the doorbells");
_Static_assert(sizeof(routerd_doorbell) == 64, "a doorbell has its own cache line");
_Static_assert(LAYOUT_WORKER_DOORBELL + ROUTERD_MAX_WORKERS * 64u <= LAYOUT_CONTROL_HEADER_BYTES,
               "every worker's doorbell is in the header region");

static inline size_t layout_page_up(size_t bytes) { return (bytes + LAYOUT_PAGE - 1) & ~(size_t) (LAYOUT_PAGE - 1); }

/* ---- control ---- */

static inline size_t layout_core_doorbell(void) { return LAYOUT_CORE_DOORBELL; }
static inline size_t layout_worker_doorbell(uint32_t worker) { return LAYOUT_WORKER_DOORBELL + (size_t) worker * 64u; }

/* Statistics pages by slot: workers' places from 0, then the core, the supervisor, the recorder. */
static inline size_t layout_stats(uint32_t slot)
{
    return LAYOUT_CONTROL_HEADER_BYTES + (size_t) slot * STATS_PAGE_BYTES;
}
static inline size_t layout_board(uint32_t places) { return layout_stats(places + LAYOUT_OTHERS); }
static inline size_t layout_journal(uint32_t places, uint32_t slot)
{
    return layout_page_up(layout_board(places) + BOARD_BYTES) + (size_t) slot * LAYOUT_JOURNAL_BYTES;
}
static inline size_t layout_control_bytes(uint32_t places)
{
    return layout_journal(places, places + LAYOUT_OTHERS + 1);
}

/* A number for a connection, unique in the router, from 1. */
static inline uint32_t layout_next_connection(layout_control *c)
{
    return (atomic_fetch_add_explicit(&c->connections, 1, memory_order_relaxed) + 1) & 0x7fffffffu;
}

/* Any process may read these two at any time: no other memory depends on them. */
static inline uint32_t layout_workers(const layout_control *c)
{
    return atomic_load_explicit(&c->workers, memory_order_relaxed);
}
static inline uint32_t layout_most(const layout_control *c)
{
    return atomic_load_explicit(&c->most, memory_order_relaxed);
}

static inline void layout_set_workers(layout_control *c, uint32_t workers, uint32_t most)
{
    atomic_store_explicit(&c->most, most, memory_order_relaxed);
    atomic_store_explicit(&c->workers, workers, memory_order_relaxed);
}

/* ---- rings ---- */

static inline size_t layout_ring_stride(void) { return layout_page_up(ring_bytes(LAYOUT_RING_CAPACITY)); }
static inline size_t layout_action_ring(uint32_t worker) { return (size_t) worker * 2 * layout_ring_stride(); }
static inline size_t layout_work_ring(uint32_t worker) { return layout_action_ring(worker) + layout_ring_stride(); }
static inline size_t layout_rings_bytes(uint32_t places) { return layout_action_ring(places); }

/* Whether a ring has the layout's capacity, so that ring_produce and ring_consume stay in the segment. */
static inline bool layout_ring_valid(const routerd_ring *ring) { return ring->capacity == LAYOUT_RING_CAPACITY; }

/* ---- arenas ---- */

/* Divides a segment of `bytes`: small blocks get a third of the blocks' bytes, large ones the rest. */
static inline void layout_arena_split(size_t bytes, uint32_t *small_count, uint32_t *large_count)
{
    size_t map = arena_map_bytes(bytes / ARENA_SMALL_BYTES);      /* an upper bound: as if all blocks were small */
    size_t first = ARENA_HEADER_BYTES + map + ARENA_FRONT, left = bytes > first ? bytes - first : 0;
    *large_count = (uint32_t) (left / 3 * 2 / ARENA_LARGE_BYTES);
    *small_count = (uint32_t) ((left - (size_t) *large_count * ARENA_LARGE_BYTES) / ARENA_SMALL_BYTES);
}

/* ---- the supervisor formats, the children check ---- */

static inline void layout_format_control(void *base, uint32_t places, uint64_t arena_bytes_each)
{
    layout_control *c = (layout_control *) base;
    c->places = places;
    c->version = LAYOUT_VERSION;
    c->ring_capacity = LAYOUT_RING_CAPACITY;
    c->arena_bytes = arena_bytes_each;
    layout_set_workers(c, places, places);
    for (uint32_t slot = 0; slot < places + LAYOUT_OTHERS; slot++)
        ((stats_page *) ((uint8_t *) base + layout_stats(slot)))->magic = STATS_MAGIC;
    c->magic = LAYOUT_MAGIC;
}

static inline void layout_format_rings(void *base, uint32_t places)
{
    for (uint32_t i = 0; i < places; i++) {
        ring_format((routerd_ring *) ((uint8_t *) base + layout_action_ring(i)), LAYOUT_RING_CAPACITY);
        ring_format((routerd_ring *) ((uint8_t *) base + layout_work_ring(i)), LAYOUT_RING_CAPACITY);
    }
}

/* Writes capacities again that a process has damaged: those that use a ring have a copy, and a later one could not
 * attach.  An index that its dead producer has damaged is the core's to mend. */
static inline void layout_mend_rings(void *base, uint32_t places)
{
    for (uint32_t i = 0; i < 2 * places; i++) {
        routerd_ring *ring = (routerd_ring *) ((uint8_t *) base + i * layout_ring_stride());
        if (!layout_ring_valid(ring)) ring->capacity = LAYOUT_RING_CAPACITY;
    }
}

static inline void layout_format_arena(void *base, size_t bytes)
{
    uint32_t small_count, large_count;
    layout_arena_split(bytes, &small_count, &large_count);
    arena_format(base, small_count, large_count);
}

/* What is wrong with a control segment, or NULL. */
static inline const char *layout_check_control(const void *base, size_t bytes)
{
    const layout_control *c = (const layout_control *) base;
    if (bytes < LAYOUT_CONTROL_HEADER_BYTES) return "it is too short for a control header";
    if (c->magic != LAYOUT_MAGIC) return "it is no control segment";
    if (c->version != LAYOUT_VERSION) return "it was made by another version of routerd";
    if (c->places < 1 || c->places > ROUTERD_MAX_WORKERS) return "its number of places makes no sense";
    uint32_t workers = layout_workers(c), most = layout_most(c);
    if (workers < 1 || workers > most || most > c->places) return "its number of workers makes no sense";
    if (c->ring_capacity != LAYOUT_RING_CAPACITY) return "its rings have another capacity";
    if (bytes != layout_control_bytes(c->places)) return "its size does not fit its number of places";
    for (uint32_t slot = 0; slot < c->places + LAYOUT_OTHERS; slot++)
        if (((const stats_page *) ((const uint8_t *) base + layout_stats(slot)))->magic != STATS_MAGIC)
            return "a statistics page in it is not formatted";
    return NULL;
}

static inline const char *layout_check_rings(const void *base, size_t bytes, uint32_t places)
{
    if (bytes != layout_rings_bytes(places)) return "its size does not fit the number of places";
    for (uint32_t i = 0; i < places; i++)
        if (!layout_ring_valid((const routerd_ring *) ((const uint8_t *) base + layout_action_ring(i)))
            || !layout_ring_valid((const routerd_ring *) ((const uint8_t *) base + layout_work_ring(i))))
            return "a ring in it is not formatted";
    return NULL;
}

static inline const char *layout_check_arena(void *base, size_t bytes)
{
    arena_view v;
    return arena_attach(&v, base, bytes) ? NULL : "it is no arena of its size";
}

#endif
