/* A route table for lookups by the forwarder: message type and subscription -> groups of endpoints.
 *
 * It is built from the columns of a core.rmr.tables.table.Table without the interpreter lock, and one store takes it
 * into use (active_tables.c).  From then on only `turn`, the counts and the addresses of endpoints change, in the
 * core's thread.
 *
 *   slot[]      open addressing, at most half full; `target` leads to words[], or to a chain of specials
 *   word[] for each target: number of groups (0: by MEID), then for each group its number of members, and the members
 *   special[]   the entries of a key of which some are for certain senders; those that win come first
 */
#ifndef ROUTERD_CORE_ROUTE_TABLE_H
#define ROUTERD_CORE_ROUTE_TABLE_H

#include "core/forwarder/tables/tables.h"
#include "shm/unity.h"

#define ROUTE_FREE UINT32_MAX          /* `target`: the slot has no entry */
#define ROUTE_SPECIAL 0x80000000u      /* `target`: the other bits are the number of a special */
#define ROUTE_GONE 0x7fffffffu         /* `target`: the entry was deleted */
#define ROUTE_NONE UINT32_MAX
#define ROUTE_MEMBERS 32u              /* most members of a group, as in the RMR library */
#define ROUTE_NAME 63u                 /* octets of a name that fit into the source field of an RMR header */
#define ROUTE_ANY (-1)                 /* the subscription of an entry for all that have none of their own */

typedef struct {
    int32_t type, subscription;
    uint32_t target, turn;     /* turn: messages that took this entry; its groups share it */
} route_slot;

typedef struct {
    uint32_t senders, sender_count;    /* in sender[]; count 0: all senders */
    uint32_t target, next;
    uint64_t turn;
} route_special;

typedef struct { uint32_t slot, special; } route_heir;     /* slot ROUTE_NONE: none */

typedef struct {
    uint64_t hash;             /* of its name */
    core_address *address;     /* NULL: the endpoint never had a receiver */
    uint64_t sent, missed;     /* messages; missed: it had no receiver at its turn */
    uint32_t name, length;
} route_endpoint;

typedef struct {
    route_endpoint *at;
    uint32_t count;
    const uint8_t *names;
} route_endpoints;

typedef struct route_table {
    route_slot *slot;
    uint32_t shift;            /* the number of bits of the hash behind the index */
    uint32_t mask;
    uint32_t entries;          /* in force */
    uint32_t *wraps;           /* by slot: how often its turn has wrapped; NULL: none has */
    const uint32_t *word;
    route_special *special;
    uint32_t special_count, special_room;
    route_heir *heir;          /* specials that can win, by a hash of key and senders; NULL: there are none */
    uint32_t heir_mask;
    const uint64_t *sender;    /* hashes of senders' names */
    route_endpoints endpoints;
    uint32_t keys, words, senders;     /* slots in use, and how many of each there are */
} route_table;

typedef struct {               /* the source of a table: columns of `rows` entries, of which the last of a key wins */
    const int32_t *type, *subscription;
    const uint32_t *target;    /* index into place[]; ROUTE_NONE: deleted */
    uint32_t rows;
    const uint32_t *place, *word;      /* place: where in word[] a target begins */
    /* rows for certain senders, ascending; sender_start has one item more, the end */
    const uint32_t *sender_row, *sender_start;
    uint32_t sender_rows;
    const uint64_t *sender;
    uint32_t words, senders;   /* how many of each there are */
} route_columns;

/* ---- looking up ---- */

static inline uint64_t route_key(int32_t type, int32_t subscription)
{
    return (uint64_t) (uint32_t) type | (uint64_t) (uint32_t) subscription << 32;
}

static inline uint32_t route_home(const route_table *t, uint64_t key)
{
    uint64_t h = (key ^ key >> 29) * 0x9e3779b97f4a7c15ull;
    return (uint32_t) (h >> t->shift);
}

static inline void route_prefetch(const route_table *t, int32_t type, int32_t subscription)
{
    __builtin_prefetch(&t->slot[route_home(t, route_key(type, subscription))]);
}

static inline route_slot *route_slot_of(const route_table *t, int32_t type, int32_t subscription)
{
    for (uint32_t i = route_home(t, route_key(type, subscription));; i = (i + 1) & t->mask) {
        route_slot *s = &t->slot[i];
        if (s->target == ROUTE_FREE) return NULL;
        if (s->type == type && s->subscription == subscription) return s;
    }
}

static inline bool route_is_sender(const route_table *t, const route_special *s, uint64_t source)
{
    for (uint32_t i = 0; i < s->sender_count; i++)
        if (t->sender[s->senders + i] == source) return true;
    return !s->sender_count;
}

GLUE void route_wrap(route_table *t, const route_slot *s);

static inline uint64_t route_slot_turns(const route_table *t, const route_slot *s)
{
    return (t->wraps ? (uint64_t) t->wraps[s - t->slot] << 32 : 0) | s->turn;
}

/* Returns the target of one key, or ROUTE_GONE, and sets its turn.  `source` is the hash of the sender's name, or 0. */
static inline uint32_t route_take(route_table *t, int32_t type, int32_t subscription, uint64_t source, uint64_t *turn)
{
    route_slot *s = route_slot_of(t, type, subscription);
    if (!s || s->target == ROUTE_GONE) return ROUTE_GONE;
    if (__builtin_expect(!(s->target & ROUTE_SPECIAL), 1)) {
        *turn = s->turn++;
        if (__builtin_expect(!s->turn, 0)) route_wrap(t, s);
        return s->target;
    }
    for (uint32_t i = s->target & ~ROUTE_SPECIAL; i != ROUTE_NONE; i = t->special[i].next) {
        route_special *one = &t->special[i];
        if (!route_is_sender(t, one, source)) continue;
        if (one->target != ROUTE_GONE) *turn = one->turn++;
        return one->target;
    }
    return ROUTE_GONE;
}

/* Looks up type and subscription, and without an entry for these the type alone. */
static inline uint32_t route_find_target(route_table *t, int32_t type, int32_t subscription, uint64_t source,
                                         uint64_t *turn)
{
    uint32_t target = route_take(t, type, subscription, source, turn);
    if (target == ROUTE_GONE && subscription != ROUTE_ANY) target = route_take(t, type, ROUTE_ANY, source, turn);
    return target;
}

GLUE void route_table_free(route_table *t);
GLUE route_table *route_build(const route_columns *from, uint32_t endpoints);
PRIVATE bool route_index(route_table *t);
PRIVATE uint32_t route_inherit(route_table *t, const route_table *from, uint32_t at, uint32_t limit);

#endif
