/* The sweep of a pool that gives memory back: a worker's (workers/state/pool.h), or the core's (core/forwarder/tables).
 *
 *   free entries --sorted by their chunks, some in each step--> chunks, from the last one on --sweep_give--> no memory
 *                                                                                           --else--> free entries
 *
 * Entries that are taken or given back meanwhile are on the pool's list as ever, so no message pays for the sweep.
 *
 * Who includes this has defined SWEEP_POOL, the pool's type; SWEEP_ENTRY, the type that names an entry, and SWEEP_NONE,
 * no entry; SWEEP_SORTED, entries sorted in a step; pool_room, the entries that have memory; and these:
 *
 *   SWEEP_ENTRY *sweep_list(SWEEP_POOL *p)                           the first free entry
 *   SWEEP_ENTRY *sweep_link(const SWEEP_POOL *p, SWEEP_ENTRY e)      the one behind a free entry
 *   uint32_t sweep_chunk(const SWEEP_POOL *p, SWEEP_ENTRY e)         its chunk
 *   bool sweep_give(SWEEP_POOL *p, uint32_t chunk, uint32_t count)   gives a chunk's memory back, if it can; `count` of
 *                                                                    its entries are free
 */
#if defined(SWEEP_POOL) && !defined(ROUTERD_POOL_SWEEP_H)
#define ROUTERD_POOL_SWEEP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum {
    SWEEP_SLACK = 10, SWEEP_FUTILE = 600,      /* looks before a sweep; more of them after one that gave little back */
    SWEEP_LEAST = 16 * POOL_CHUNK,     /* entries for which a pool keeps memory */
    SWEEP_DECIDED = 512                /* entries sorted in the time that deciding on a chunk takes */
};

typedef struct pool_sweep {
    SWEEP_ENTRY rest;                  /* entries that are still to be sorted: the first of their list */
    uint32_t next;                     /* chunks from here on are decided on, or newer than the sweep */
    uint32_t room;                     /* entries that had memory before */
    struct { SWEEP_ENTRY free; uint32_t count; } chunk[];
} pool_sweep;

/* Begins to sweep a pool of so many chunks.  False: there is no memory for that. */
static inline bool sweep_begin(SWEEP_POOL *p, uint32_t chunks)
{
    pool_sweep *s = (pool_sweep *) malloc(sizeof *s + sizeof s->chunk[0] * chunks);
    uint32_t *bare_at = (uint32_t *) realloc(p->bare_at, sizeof *bare_at * chunks);
    if (bare_at) p->bare_at = bare_at;
    if (!s || !bare_at) { free(s); return false; }
    s->rest = *sweep_list(p);
    s->next = chunks;
    s->room = pool_room(p);
    for (uint32_t i = 0; i < chunks; i++) {
        s->chunk[i].free = SWEEP_NONE;
        s->chunk[i].count = 0;
    }
    *sweep_list(p) = SWEEP_NONE;
    p->slack = 0;
    p->sweep = s;
    return true;
}

/* Sorts some of the free entries.  Returns how many. */
static inline uint32_t sweep_sort(SWEEP_POOL *p)
{
    pool_sweep *s = p->sweep;
    uint32_t n = 0;
    for (; s->rest != SWEEP_NONE && n < SWEEP_SORTED; n++) {
        const SWEEP_ENTRY one = s->rest;
        const uint32_t chunk = sweep_chunk(p, one);
        s->rest = *sweep_link(p, one);
        *sweep_link(p, one) = s->chunk[chunk].free;
        s->chunk[chunk].free = one;
        s->chunk[chunk].count++;
    }
    return n;
}

/* Decides on the next chunk: its memory is given back, or its entries are free again. */
static inline void sweep_decide(SWEEP_POOL *p)
{
    pool_sweep *s = p->sweep;
    const uint32_t chunk = --s->next;
    if (sweep_give(p, chunk, s->chunk[chunk].count)) return;
    for (SWEEP_ENTRY e = s->chunk[chunk].free, next; e != SWEEP_NONE; e = next) {
        next = *sweep_link(p, e);
        *sweep_link(p, e) = *sweep_list(p);
        *sweep_list(p) = e;
    }
}

/* Gives a pool without free entries one of those that are being sorted, or some of a chunk. */
static inline bool sweep_lends(SWEEP_POOL *p)
{
    pool_sweep *s = p->sweep;
    if (s && s->rest != SWEEP_NONE) {
        const SWEEP_ENTRY one = *sweep_list(p) = s->rest;
        s->rest = *sweep_link(p, one);
        *sweep_link(p, one) = SWEEP_NONE;
    }
    while (s && *sweep_list(p) == SWEEP_NONE && !p->bare && s->next) sweep_decide(p);
    return *sweep_list(p) != SWEEP_NONE;
}

/* Whether a pool in which so many entries are used is to shrink: for some looks in a row a quarter was at most. */
static inline bool sweep_due(SWEEP_POOL *p, uint32_t used)
{
    const bool slack = pool_room(p) > SWEEP_LEAST && used <= pool_room(p) / 4;
    if (p->slack < 0 && used < p->futile / 2) p->slack = 0;    /* more may go back than from the last sweep */
    p->slack = slack || p->slack < 0 ? p->slack + 1 : 0;
    if (!slack || p->slack < SWEEP_SLACK) return false;
    p->futile = used;
    return true;
}

/* A step of a sweep of a pool in which so many entries are used.  True: it was the last one, and memory has gone
 * back. */
static inline bool sweep_step(SWEEP_POOL *p, uint32_t used)
{
    pool_sweep *s = p->sweep;
    uint32_t n = sweep_sort(p);
    for (; s->rest == SWEEP_NONE && s->next && n < SWEEP_SORTED; n += SWEEP_DECIDED) sweep_decide(p);
    if (s->rest != SWEEP_NONE || s->next) return false;
    const bool thinner = pool_room(p) <= s->room / 8 * 7;
    p->slack = thinner ? 0 : -SWEEP_FUTILE;
    if (p->futile < used) p->futile = used;    /* they came meanwhile, and may be why */
    p->sweep = NULL;
    free(s);
    return thinner;
}

#endif
