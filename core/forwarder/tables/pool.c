/* Pools that grow (pool.h). */
#include "core/forwarder/tables/pool.h"

GLUE bool pool_grow(core_pool *p)
{
    if (p->chunks == p->room) {
        uint32_t room = p->room ? p->room * 2 : 16;
        uint8_t **grown = (uint8_t **) realloc(p->chunk, sizeof *grown * room);
        if (!grown) return false;
        p->chunk = grown;
        p->room = room;
    }
    void *fresh = NULL;
    if (posix_memalign(&fresh, 64, (size_t) p->entry_bytes * POOL_CHUNK)) return false;
    memset(fresh, 0, (size_t) p->entry_bytes * POOL_CHUNK);
    uint32_t first = pool_size(p);
    p->chunk[p->chunks++] = (uint8_t *) fresh;
    for (uint32_t i = first + POOL_CHUNK; i-- > first;) {   /* downwards: low indices are handed out first */
        pool_node *n = pool_at(p, i);
        n->index = i;
        n->generation = 1;
        n->next_free = p->free;
        p->free = n;
    }
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
