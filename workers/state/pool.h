/* Pools of the worker's own objects: connections, links, deliveries.
 *
 * Objects never move (the engine keeps pointers to them as contexts) and are named by handles: index and generation.
 * The address range is reserved once and touched only as far as it is used; a freed object is the next one taken.
 * Every object starts with a slot_head.
 *
 * These are not the core's pools (core/forwarder/tables/pool.h), on purpose. A worker knows its limits, so one range
 * holds all objects and finding one takes 13 instructions instead of 20; and an out_delivery, which each message needs,
 * fills two cache lines, where the core's longer pool_node would need a third.
 */
#ifndef ROUTERD_WORKERS_POOL_H
#define ROUTERD_WORKERS_POOL_H

#include <stdbool.h>
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
} pool;

static inline bool pool_open(pool *p, size_t item, uint32_t limit)
{
    void *base =
        mmap(NULL, item * (size_t) limit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return false;
    *p = (pool) { .base = (uint8_t *) base, .item = item, .limit = limit, .free_first = ROUTERD_NIL };
    p->shift = (uint32_t) __builtin_ctzll(item);
    uint64_t odd = item >> p->shift;
    p->inverse = odd;                                 /* right in the last three bits; each step doubles their number */
    for (int i = 0; i < 5; i++) p->inverse *= 2 - odd * p->inverse;
    return true;
}

static inline void pool_close(pool *p)
{
    if (p->base) munmap(p->base, p->item * (size_t) p->limit);
    memset(p, 0, sizeof *p);
}

static inline void *pool_at(const pool *p, uint32_t index) { return p->base + p->item * index; }
static inline uint32_t pool_index(const pool *p, const void *object)
{
    return (uint32_t) (((uint64_t) ((const uint8_t *) object - p->base) >> p->shift) * p->inverse);
}

/* A zeroed object, or NULL when the pool is used up.  `item` is its size, again, for the compiler to know. */
static inline void *pool_take(pool *p, size_t item)
{
    uint32_t index = p->free_first;
    slot_head *s;
    if (index != ROUTERD_NIL) {
        s = (slot_head *) pool_at(p, index);
        p->free_first = s->next_free;
    } else {
        if (p->high == p->limit) return NULL;
        s = (slot_head *) pool_at(p, p->high++);
        s->generation = 1;
    }
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
