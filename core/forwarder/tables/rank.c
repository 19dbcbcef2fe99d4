/* Ranks: an address's receivers by how busy they are, so that the least busy one of many is found at once.
 *
 * Links with as many deliveries share a rank, and have turns in it.  The ranks of links below their capacity stand in
 * one ring, the others' in a second one, both from the least busy on.  A delivery more or less moves a link to the rank
 * beside its own, or to the other ring: there, too, it has few ranks to pass, unless capacities differ.
 *
 * Only balanced addresses with more than RANK_FEW receivers have ranks; fewer are looked at one by one.  There are at
 * most as many ranks as receivers, so there is room for all when a receiver comes, and a message allocates nothing.
 */
#include "core/forwarder/tables/access.h"

#ifndef RANK_FEW
#define RANK_FEW 8u
#endif
#define RANK_FIRST 2u                  /* behind the ends of the rings: 0 of links below capacity, 1 of the others */

static inline bool link_full(const core_link *l) { return l->count && l->count >= l->capacity; }

/* A rank behind another; there always is room. */
static uint32_t rank_new(core_ranks *k, uint32_t behind, uint32_t count, bool full)
{
    const uint32_t r = k->free, next = k->at[behind].next;
    k->free = k->at[r].next;
    k->at[r] = (core_rank) {.prev = behind, .next = next, .count = count, .full = full};
    k->at[behind].next = k->at[next].prev = r;
    return r;
}

static inline void rank_join(core_ranks *k, uint32_t r, core_link *l)
{
    core_rank *to = &k->at[r];
    l->rank = r;
    l->next = NULL;
    l->prev = to->last;
    if (to->last) to->last->next = l; else to->first = l;
    to->last = l;
}

static inline void rank_part(core_ranks *k, core_link *l)
{
    core_rank *from = &k->at[l->rank];
    if (l->prev) l->prev->next = l->next; else from->first = l->next;
    if (l->next) l->next->prev = l->prev; else from->last = l->prev;
    if (from->first) return;
    k->at[from->prev].next = from->next;
    k->at[from->next].prev = from->prev;
    from->next = k->free;
    k->free = l->rank;
}

/* Gives a link the rank of its count. */
static void rank_enter(core_ranks *k, core_link *l)
{
    const bool full = link_full(l);
    const uint32_t end = full;
    uint32_t behind = full || !l->count ? end : k->at[end].prev;
    if (behind == end)         /* from the least busy on */
        while (k->at[behind].next != end && k->at[k->at[behind].next].count <= l->count) behind = k->at[behind].next;
    else
        while (behind != end && k->at[behind].count > l->count) behind = k->at[behind].prev;
    if (behind == end || k->at[behind].count != l->count) behind = rank_new(k, behind, l->count, full);
    rank_join(k, behind, l);
}

/* A ranked link has a delivery more, or one less. */
__attribute__((noinline)) PRIVATE void rank_changed(core_link *l)
{
    core_ranks *k = l->address->ranks;
    core_rank *from = &k->at[l->rank];
    if (link_full(l) != from->full) {
        rank_part(k, l);
        rank_enter(k, l);
        return;
    }
    const bool alone = from->first == from->last, up = l->count > from->count;
    uint32_t beside = up ? from->next : from->prev;
    const bool meets = beside >= RANK_FIRST && k->at[beside].count == l->count;
    if (alone && !meets) {
        from->count = l->count;
        return;
    }
    if (!meets) beside = rank_new(k, up ? l->rank : beside, l->count, from->full);
    rank_part(k, l);
    rank_join(k, beside, l);
}

/* The least busy link of an address with ranks, of those below their capacity if there are any; of several the one
 * that has been so for longest.  `shut`: no link of this edge connection; 0: none is shut. */
PRIVATE core_link *rank_least(const core_address *a, uint32_t shut)
{
    const core_rank *at = a->ranks->at;
    for (uint32_t end = 0; end < RANK_FIRST; end++)
        for (uint32_t r = at[end].next; r != end; r = at[r].next)
            for (core_link *l = at[r].first; l; l = l->next)
                if (!shut || l->edge != shut) return l;
    return NULL;
}

static void ranks_drop(core_address *a)
{
    for (uint32_t i = 0; i < a->out_count; i++) a->out[i]->rank = 0;
    free(a->ranks);
    a->ranks = NULL;
}

/* Ranks for all places among an address's links, and one in between.  False: memory is used up. */
static bool ranks_grow(core_address *a)
{
    const uint32_t old = a->ranks ? a->ranks->room : RANK_FIRST, room = a->out_room + RANK_FIRST + 1;
    if (a->ranks && old >= room) return true;
    core_ranks *k = (core_ranks *) realloc(a->ranks, sizeof *k + room * sizeof *k->at);
    if (!k) return false;
    if (!a->ranks) {
        k->free = 0;
        for (uint32_t end = 0; end < RANK_FIRST; end++) k->at[end] = (core_rank) {.prev = end, .next = end};
    }
    for (uint32_t r = old; r < room; r++) {
        k->at[r].next = k->free;
        k->free = r;
    }
    k->room = room;
    a->ranks = k;
    return true;
}

/* Gives an address ranks, or takes them, by its treatment and the number of its links.  Without memory they are looked
 * at one by one. */
GLUE void ranks_settle(core_address *a)
{
    const bool wanted = a->treatment == T_BALANCED && a->out_count > RANK_FEW;
    if (a->ranks && (!wanted || !ranks_grow(a))) ranks_drop(a);
    else if (wanted && !a->ranks && ranks_grow(a))
        for (uint32_t i = 0; i < a->out_count; i++) rank_enter(a->ranks, a->out[i]);
}

/* Gives a receiver its rank in an address whose ranks are restored, the least busy first.  False: it has one, or the
 * address has none to give. */
PRIVATE bool ranks_restore(core_address *a, core_link *l)
{
    const bool ranked = a->treatment == T_BALANCED && a->out_count > RANK_FEW;
    if (l->rank || !ranked || (!a->ranks && !ranks_grow(a))) return false;
    rank_enter(a->ranks, l);
    return true;
}

/* A link has come to an address, at the end. */
PRIVATE void ranks_add(core_address *a, core_link *l)
{
    const bool ranked = a->ranks != NULL;
    l->rank = 0;
    ranks_settle(a);
    if (ranked && a->ranks) rank_enter(a->ranks, l);
}

/* A link has left an address. */
PRIVATE void ranks_remove(core_address *a, core_link *l)
{
    if (l->rank) rank_part(a->ranks, l);
    l->rank = 0;
    ranks_settle(a);
}
