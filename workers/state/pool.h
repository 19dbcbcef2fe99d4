/* Pools of the worker's own objects: connections, links, deliveries.
 *
 * Objects never move (the engine keeps pointers to them as contexts) and are named by handles: index and generation.
 * The address range is reserved once and touched only as far as it is used; a freed object is the next one taken.
 * Every object starts with a slot_head.  Chunks of the range give their memory back once the pool has been nearly empty
 * for a while (loop/memory.c); they are all zero then, so no handle names one of their objects.
 *
 * These are not the core's pools (core/forwarder/tables/pool.h), on purpose. A worker knows its limits, so one range
 * holds all objects and finding one takes 13 instructions instead of 20; and an out_delivery, which each message needs,
 * fills two cache lines, where the core's longer pool_node would need a third.
 */
#ifndef ROUTERD_WORKERS_POOL_H
#define ROUTERD_WORKERS_POOL_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shm/memory/record.h"

#define SLOT_USED (ROUTERD_NIL - 1)

typedef struct {
    uint32_t next_free;        /* SLOT_USED while in use */
    uint32_t generation;       /* of the present, or else the next, user; never 0 */
} slot_head;

typedef struct {
    uint8_t *base;
    size_t item;
    uint64_t inverse;          /* of the odd part of `item`, modulo 2^64: a multiplication divides without remainder */
    uint32_t shift;            /* `item` is its odd part times 2^shift */
    uint32_t limit, high, free_first, used;
    uint32_t floor;            /* the generation of objects in new memory */
    uint32_t bare;             /* chunks below `high` without memory */
    int32_t slack;             /* polls in a row that found few objects used; below 0: before they count */
    uint32_t futile;           /* used entries when the last sweep began or ended */
    uint32_t *bare_at;         /* their numbers */
    struct pool_sweep *sweep;  /* NULL: none */
} pool;

#define POOL_CHUNK 512u        /* objects: with a size that 8 divides they fill whole pages */
#define POOL_BARE UINT32_MAX   /* the count, in a sweep, of a chunk without memory */

static inline bool pool_open(pool *p, size_t item, uint32_t limit)
{
    void *base =
        mmap(NULL, item * (size_t) limit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return false;
    *p = (pool) { .base = (uint8_t *) base, .item = item, .limit = limit, .free_first = ROUTERD_NIL,
                   .floor = 1 };
    p->shift = (uint32_t) __builtin_ctzll(item);
    uint64_t odd = item >> p->shift;
    p->inverse = odd;                                 /* right in the last three bits; each step doubles their number */
    for (int i = 0; i < 5; i++) p->inverse *= 2 - odd * p->inverse;
    return true;
}

static inline void pool_close(pool *p)
{
    if (p->base) munmap(p->base, p->item * (size_t) p->limit);
    free(p->bare_at);
    free(p->sweep);
    memset(p, 0, sizeof *p);
}

static inline void *pool_at(const pool *p, uint32_t index) { return p->base + p->item * index; }
static inline uint32_t pool_index(const pool *p, const void *object)
{
    return (uint32_t) (((uint64_t) ((const uint8_t *) object - p->base) >> p->shift) * p->inverse);
}

/* Puts objects from `first` to `end`, downwards, before the free ones. */
static inline void pool_begin(pool *p, uint32_t first, uint32_t end)
{
    while (end-- > first) {
        *(slot_head *) pool_at(p, end) = (slot_head) { .next_free = p->free_first, .generation = p->floor };
        p->free_first = end;
    }
}

/* Objects that have memory. */
static inline uint32_t pool_room(const pool *p) { return p->high - p->bare * POOL_CHUNK; }

#define SWEEP_POOL pool
#define SWEEP_ENTRY uint32_t
#define SWEEP_NONE ROUTERD_NIL
#define SWEEP_SORTED 16384u

static inline uint32_t *sweep_list(pool *p) { return &p->free_first; }
static inline uint32_t *sweep_link(const pool *p, uint32_t i) { return &((slot_head *) pool_at(p, i))->next_free; }
static inline uint32_t sweep_chunk(const pool *p, uint32_t i) { (void) p; return i / POOL_CHUNK; }

/* Gives the memory of a chunk without used objects back, but for the first one's.  Objects that it has later begin with
 * generations that no handle has seen. */
static inline bool sweep_give(pool *p, uint32_t chunk, uint32_t count)
{
    const uint32_t first = chunk * POOL_CHUNK, end = p->high < first + POOL_CHUNK ? p->high : first + POOL_CHUNK;
    if (count != POOL_BARE && (!chunk || count != end - first)) return false;
    for (uint32_t i = first; i < end && count != POOL_BARE; i++) {
        const slot_head *s = (const slot_head *) pool_at(p, i);
        if (s->generation > p->floor) p->floor = s->generation;
    }
    if (count != POOL_BARE) madvise(pool_at(p, first), p->item * (end - first), MADV_DONTNEED);
    if (end == p->high) p->high = first;
    else p->bare_at[p->bare++] = chunk;
    return true;
}

#include "shm/memory/pool_sweep.h"

/* Gives a pool without free objects some: of those that are being sorted, or in memory that it had given back, or in
 * new memory.  False: the pool is used up. */
__attribute__((noinline)) static bool pool_more(pool *p)
{
    if (sweep_lends(p)) return true;
    if (p->bare) {
        uint32_t first = p->bare_at[--p->bare] * POOL_CHUNK;
        pool_begin(p, first, first + POOL_CHUNK);
        return true;
    }
    if (p->high == p->limit) return false;
    pool_begin(p, p->high, p->high + 1);
    p->high++;
    return true;
}

/* A zeroed object, or NULL when the pool is used up.  `item` is its size, again, for the compiler to know. */
static inline void *pool_take(pool *p, size_t item)
{
    if (__builtin_expect(p->free_first == ROUTERD_NIL, 0) && !pool_more(p)) return NULL;
    slot_head *s = (slot_head *) pool_at(p, p->free_first);
    p->free_first = s->next_free;
    size_t half = sizeof *s + ((item - sizeof *s) / 2 & ~(size_t) 15);
    memset(s + 1, 0, half - sizeof *s);                    /* in two pieces: each is a few stores, not a loop */
    memset((uint8_t *) s + half, 0, item - half);
    s->next_free = SLOT_USED;
    p->used++;
    return s;
}

static inline void pool_give(pool *p, void *object)
{
    slot_head *s = (slot_head *) object;
    if (!++s->generation) s->generation = 1;
    s->next_free = p->free_first;
    p->free_first = pool_index(p, object);
    p->used--;
}

static inline void *pool_find2(const pool *p, uint32_t index, uint32_t generation)
{
    if (index >= p->high) return NULL;
    slot_head *s = (slot_head *) pool_at(p, index);
    return s->next_free == SLOT_USED && s->generation == generation ? s : NULL;
}

/* NULL when what the handle named is gone: every handle read from a ring comes through here. */
static inline void *pool_find(const pool *p, uint64_t handle)
{
    return pool_find2(p, routerd_handle_index(handle), routerd_handle_generation(handle));
}

static inline uint64_t pool_handle(const pool *p, const void *object)
{
    return routerd_handle(pool_index(p, object), ((const slot_head *) object)->generation);
}

#endif
