/* Pools of fixed-size entries that grow by chunks: entries never move, so they may point at each other.
 *
 * An entry begins with a pool_node.  A handle is index | generation << 32; the generation changes when the entry is
 * given back, so a handle that outlived its entry is recognised.  Most recently used entries are handed out first.  An
 * entry that is free points at the next free one, a live one at itself.
 * Nothing is allocated per entry: a chunk at a time.  A chunk keeps its place, but gives its memory back once the pool
 * has been nearly empty for a while (pool_thin); it is all zero then, so no handle names one of its entries.
 *
 * A worker's pools (workers/state/pool.h) reserve one range for their limit.  The core has no limit to reserve: the
 * copies of a message are as many as its receivers.  In return a node knows its handle, which costs 2 instructions
 * instead of 9, and the core writes several handles for each message.
 */
#ifndef ROUTERD_CORE_POOL_H
#define ROUTERD_CORE_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shm/memory/record.h"
#include "shm/unity.h"

/* Under AddressSanitizer nobody touches an entry that is free, but for its node. */
#if defined(__SANITIZE_ADDRESS__)
#define POOL_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_WATCHED 1
#endif
#endif
#ifdef POOL_WATCHED
#include <sanitizer/asan_interface.h>
#define POOL_SHUT(p, n) __asan_poison_memory_region((n) + 1, (p)->entry_bytes - sizeof *(n))
#define POOL_LET(p, n) __asan_unpoison_memory_region((n) + 1, (p)->entry_bytes - sizeof *(n))
#else
#define POOL_WATCHED 0
#define POOL_SHUT(p, n) ((void) 0)
#define POOL_LET(p, n) ((void) 0)
#endif

#define POOL_CHUNK_SHIFT 9u
#define POOL_CHUNK (1u << POOL_CHUNK_SHIFT)

typedef struct pool_node {
    uint32_t index, generation;
    struct pool_node *next_free;   /* NULL: none; itself: the entry is live */
} pool_node;

typedef struct {
    uint8_t **chunk;
    uint32_t chunks, room;     /* chunks in use, places in the array of chunks */
    uint32_t entry_bytes;
    uint32_t live;
    pool_node *free;           /* NULL: none */
    uint32_t floor;            /* the generation of entries in a new chunk */
    uint32_t bare;             /* chunks without memory */
    int32_t slack;             /* looks in a row that found few entries live; below 0: before they count */
    uint32_t futile;           /* used entries when the last sweep began or ended */
    uint32_t *bare_at;         /* the places of those chunks */
    struct pool_sweep *sweep;  /* NULL: none */
} core_pool;

static inline uint32_t pool_stride(uint32_t bytes) { return (bytes + 63u) & ~63u; }     /* whole cache lines */

static inline void pool_open(core_pool *p, uint32_t entry_bytes)
{
    memset(p, 0, sizeof *p);
    p->entry_bytes = pool_stride(entry_bytes);
    p->floor = 1;
}

static inline void pool_close(core_pool *p)
{
    for (uint32_t i = 0; i < p->chunks; i++) free(p->chunk[i]);
    free(p->chunk);
    free(p->bare_at);
    free(p->sweep);
    memset(p, 0, sizeof *p);
}

/* `bytes`: of an entry; where the compiler knows them it needs no multiplication. */
static INLINED pool_node *pool_at_of(const core_pool *p, uint32_t index, uint32_t bytes)
{
    return (pool_node *) (p->chunk[index >> POOL_CHUNK_SHIFT]
                          + (size_t) (index & (POOL_CHUNK - 1)) * pool_stride(bytes));
}

static inline pool_node *pool_at(const core_pool *p, uint32_t index) { return pool_at_of(p, index, p->entry_bytes); }

static inline bool pool_live(const pool_node *n) { return n->next_free == n; }

static inline uint32_t pool_size(const core_pool *p) { return p->chunks << POOL_CHUNK_SHIFT; }

/* Entries that have memory. */
static inline uint32_t pool_room(const core_pool *p) { return (p->chunks - p->bare) << POOL_CHUNK_SHIFT; }

/* False: memory is used up. */
GLUE bool pool_grow(core_pool *p);

/* A step of a pool that shrinks; `look`: it may begin to.  True: it was the last one, and memory has gone back. */
PRIVATE bool pool_thin(core_pool *p, bool look);

/* Makes an array beside a pool hold an entry for each of the pool's, new ones zero.  False: memory is used up. */
PRIVATE bool pool_beside(const core_pool *p, void **array, uint32_t *room, size_t bytes);

/* In pieces that the compiler, where it knows their size, writes as a few stores: for larger ones it has a slower
 * way. */
static INLINED void pool_clear(uint8_t *at, uint32_t bytes)
{
    uint32_t first = bytes < 64 ? bytes : 64;
    memset(at, 0, first);
    memset(at + first, 0, bytes - first);
}

/* An entry whose bytes behind the node are zero, or NULL when memory is used up.  `bytes`: of an entry. */
static INLINED void *pool_take_of(core_pool *p, uint32_t bytes)
{
    if (__builtin_expect(!p->free, 0) && !pool_grow(p)) return NULL;
    pool_node *n = p->free;
    p->free = n->next_free;
    n->next_free = n;
    p->live++;
    POOL_LET(p, n);
    pool_clear((uint8_t *) (n + 1), bytes - (uint32_t) sizeof *n);
    return n;
}

static inline void *pool_take(core_pool *p) { return pool_take_of(p, p->entry_bytes); }

static INLINED void pool_give(core_pool *p, void *entry)
{
    pool_node *n = (pool_node *) entry;
    const uint32_t generation = n->generation + 1;
    n->generation = generation ? generation : 1;
    n->next_free = p->free;
    p->free = n;
    p->live--;
    POOL_SHUT(p, n);
}

static inline uint64_t pool_handle(const void *entry)
{
    const pool_node *n = (const pool_node *) entry;
    return routerd_handle(n->index, n->generation);
}

/* The entry a handle names, or NULL if it names nothing (any more).  `bytes`: of an entry. */
static INLINED void *pool_find_of(const core_pool *p, uint64_t handle, uint32_t bytes)
{
    uint32_t index = routerd_handle_index(handle);
    if (index >= pool_size(p)) return NULL;
    pool_node *n = pool_at_of(p, index, bytes);
    return pool_live(n) && n->generation == routerd_handle_generation(handle) ? n : NULL;
}

static inline void *pool_find(const core_pool *p, uint64_t handle) { return pool_find_of(p, handle, p->entry_bytes); }

/* The first live entry at or behind *index, which moves behind it; NULL at the end. */
static inline void *pool_next(const core_pool *p, uint32_t *index)
{
    while (*index < pool_size(p)) {
        pool_node *n = pool_at(p, (*index)++);
        if (pool_live(n)) return n;
    }
    return NULL;
}

#endif
