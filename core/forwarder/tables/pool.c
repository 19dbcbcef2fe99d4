/* Pools that grow and shrink (pool.h).
 *
 * A pool of which at most a quarter was in use at POOL_SLACK looks in a row is swept:
 *
 *   free entries --sorted by their chunks, some in each step--> chunks --of which no entry is in use--> without memory
 *                                                                      --the others--> free entries
 *
 * Entries that are taken or given back meanwhile are on the pool's list as ever, so no message pays for the sweep.
 */
#include <sys/mman.h>

#include "core/forwarder/tables/pool.h"

enum {
    POOL_PAGE = 4096,
    POOL_LEAST = 16,                   /* chunks that a pool keeps */
    POOL_SLACK = 10, POOL_FUTILE = 600,    /* looks before a sweep; more of them after one that gave little back */
    POOL_SORTED = 4096, POOL_DECIDED = POOL_SORTED / 8    /* entries sorted in a step; what deciding on a chunk costs */
};

typedef struct pool_sweep {
    pool_node *rest;                   /* free entries that are still to be sorted */
    uint32_t next;                     /* chunks from here on are decided on, or newer than the sweep */
    uint32_t room;                     /* entries that had memory before */
    struct { pool_node *free; uint32_t count; } chunk[];
} pool_sweep;

/* Puts the entries of a chunk, downwards, before the free ones: low indices are handed out first. */
static void chunk_begin(core_pool *p, uint32_t chunk)
{
    const uint32_t first = chunk << POOL_CHUNK_SHIFT;
    for (uint32_t i = first + POOL_CHUNK; i-- > first;) {
        pool_node *n = pool_at(p, i);
        n->index = i;
        n->generation = p->floor;
        n->next_free = p->free;
        p->free = n;
    }
}

static size_t chunk_bytes(const core_pool *p) { return (size_t) p->entry_bytes * POOL_CHUNK; }

/* ---- shrinking ---- */

static bool sweep_begin(core_pool *p)
{
    uint32_t *at = (uint32_t *) realloc(p->bare_at, sizeof *at * p->chunks);
    if (!at) return false;
    p->bare_at = at;
    pool_sweep *s = (pool_sweep *) calloc(1, sizeof *s + sizeof s->chunk[0] * p->chunks);
    if (!s) return false;
    s->rest = p->free;
    s->next = p->chunks;
    s->room = pool_room(p);
    p->free = NULL;
    p->sweep = s;
    p->slack = 0;
    return true;
}

/* Sorts some of the free entries.  Returns how many. */
static uint32_t sweep_sort(core_pool *p)
{
    pool_sweep *s = p->sweep;
    uint32_t n = 0;
    for (; s->rest && n < POOL_SORTED; n++) {
        pool_node *one = s->rest;
        const uint32_t chunk = one->index >> POOL_CHUNK_SHIFT;
        s->rest = one->next_free;
        one->next_free = s->chunk[chunk].free;
        s->chunk[chunk].free = one;
        s->chunk[chunk].count++;
    }
    return n;
}

/* Gives the memory of a chunk without live entries back.  Entries that it has later begin with generations that no
 * handle has seen. */
static void chunk_give(core_pool *p, uint32_t chunk)
{
    for (uint32_t i = 0; i < POOL_CHUNK; i++) {
        const pool_node *n = pool_at(p, (chunk << POOL_CHUNK_SHIFT) + i);
        if (n->generation > p->floor) p->floor = n->generation;
    }
    madvise(p->chunk[chunk], chunk_bytes(p), MADV_DONTNEED);
    p->bare_at[p->bare++] = chunk;
}

/* Decides on the next chunk: its memory is given back, or its entries are free again. */
static void sweep_chunk(core_pool *p)
{
    pool_sweep *s = p->sweep;
    const uint32_t chunk = --s->next;
    if (s->chunk[chunk].count == POOL_CHUNK && p->chunks - p->bare > POOL_LEAST) {
        chunk_give(p, chunk);
        return;
    }
    for (pool_node *n = s->chunk[chunk].free, *next; n; n = next) {
        next = n->next_free;
        n->next_free = p->free;
        p->free = n;
    }
}

/* Gives a pool without free entries some of those that are being sorted. */
static bool sweep_lends(core_pool *p)
{
    pool_sweep *s = p->sweep;
    if (s && s->rest) {
        pool_node *last = p->free = s->rest;
        for (uint32_t i = 1; i < POOL_CHUNK && last->next_free; i++) last = last->next_free;
        s->rest = last->next_free;
        last->next_free = NULL;
    }
    while (s && !p->free && !p->bare && s->next) sweep_chunk(p);
    return p->free != NULL;
}

PRIVATE bool pool_thin(core_pool *p, bool look)
{
    if (!p->sweep) {
        if (!look) return false;
        const bool slack = p->chunks - p->bare > POOL_LEAST && p->live <= pool_room(p) / 4;
        p->slack = slack || p->slack < 0 ? p->slack + 1 : 0;
        if (p->slack < POOL_SLACK || !slack || !sweep_begin(p)) return false;
    }
    pool_sweep *s = p->sweep;
    uint32_t n = sweep_sort(p);
    for (; !s->rest && s->next && n < POOL_SORTED; n += POOL_DECIDED) sweep_chunk(p);
    if (s->rest || s->next) return false;
    const bool thinner = pool_room(p) <= s->room / 8 * 7;
    p->slack = thinner ? 0 : -POOL_FUTILE;
    p->sweep = NULL;
    free(s);
    return thinner;
}

/* ---- growing ---- */

GLUE bool pool_grow(core_pool *p)
{
    if (sweep_lends(p)) return true;
    if (p->bare) {
        chunk_begin(p, p->bare_at[--p->bare]);
        return true;
    }
    if (p->chunks == p->room) {
        uint32_t room = p->room ? p->room * 2 : 16;
        uint8_t **grown = (uint8_t **) realloc(p->chunk, sizeof *grown * room);
        if (!grown) return false;
        p->chunk = grown;
        p->room = room;
    }
    void *fresh = NULL;
    if (posix_memalign(&fresh, POOL_PAGE, chunk_bytes(p))) return false;   /* whole pages, for chunk_give */
    memset(fresh, 0, chunk_bytes(p));
    p->chunk[p->chunks++] = (uint8_t *) fresh;
    chunk_begin(p, p->chunks - 1);
    return true;
}

PRIVATE bool pool_beside(const core_pool *p, void **array, uint32_t *room, size_t bytes)
{
    uint32_t wanted = pool_size(p);
    if (wanted <= *room) return true;
    uint8_t *grown = (uint8_t *) aligned_alloc(64, wanted * bytes);    /* a chunk's entries fill whole cache lines */
    if (!grown) return false;
    if (*room) memcpy(grown, *array, *room * bytes);
    memset(grown + *room * bytes, 0, (wanted - *room) * bytes);
    free(*array);
    *array = grown;
    *room = wanted;
    return true;
}
