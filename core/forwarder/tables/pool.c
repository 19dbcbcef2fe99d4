/* Pools that grow and shrink (pool.h). */
#include <sys/mman.h>

#include "core/forwarder/tables/pool.h"

#define POOL_PAGE 4096u

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

typedef pool_node *free_entry;

#define SWEEP_POOL core_pool
#define SWEEP_ENTRY free_entry
#define SWEEP_NONE NULL
#define SWEEP_SORTED 4096u

static pool_node **sweep_list(core_pool *p) { return &p->free; }
static pool_node **sweep_link(const core_pool *p, pool_node *n) { (void) p; return &n->next_free; }
static uint32_t sweep_chunk(const core_pool *p, const pool_node *n) { (void) p; return n->index >> POOL_CHUNK_SHIFT; }

static bool sweep_give(core_pool *p, uint32_t chunk, uint32_t count);

#include "shm/memory/pool_sweep.h"

/* Gives the memory of a chunk without live entries back.  Entries that it has later begin with generations that no
 * handle has seen. */
static bool sweep_give(core_pool *p, uint32_t chunk, uint32_t count)
{
    if (count != POOL_CHUNK || pool_room(p) <= SWEEP_LEAST) return false;
    for (uint32_t i = 0; i < POOL_CHUNK; i++) {
        const pool_node *n = pool_at(p, (chunk << POOL_CHUNK_SHIFT) + i);
        if (n->generation > p->floor) p->floor = n->generation;
    }
    madvise(p->chunk[chunk], chunk_bytes(p), MADV_DONTNEED);
    p->bare_at[p->bare++] = chunk;
    return true;
}

PRIVATE bool pool_thin(core_pool *p, bool look)
{
    if (!p->sweep && (!look || !sweep_due(p, p->live) || !sweep_begin(p, p->chunks))) return false;
    return sweep_step(p, p->live);
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
    if (posix_memalign(&fresh, POOL_PAGE, chunk_bytes(p))) return false;   /* whole pages, for sweep_give */
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
