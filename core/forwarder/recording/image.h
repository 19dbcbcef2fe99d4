/* What a checkpoint says of the forwarder's tables (shm/memory/flight.h).
 *
 * An image has the numbers of an entry; what an entry points at is named by its index plus 1, 0 for nothing.  Lists are
 * lists of such numbers in their order, so restoring a checkpoint builds them as the forwarder does, and checks each
 * number once.  No image has padding: what nobody writes would be any octets, and two recordings of one life differ.
 */
#ifndef ROUTERD_CORE_IMAGE_H
#define ROUTERD_CORE_IMAGE_H

#include "core/forwarder/changes/changes.h"
#include "shm/memory/flight.h"

#define IMAGE_CHUNKS_MOST 1024u        /* of a pool: half a million entries */
#define IMAGE_POOLS 4u                 /* ins, outs, links, addresses: the others are empty at a checkpoint */

typedef struct {
    uint64_t held;
    uint32_t active, turn, agent, exit;
    uint8_t gone[(ROUTERD_MAX_WORKERS + 2 + 7) / 8 * 8];
} image_core;

typedef struct { uint32_t pool, chunks, floor, bare, futile; int32_t slack; } image_pool;

typedef struct { uint32_t index, generation; } image_node;

typedef struct {
    image_node node;
    uint64_t deliveries;
    uint32_t rotate, fallback, holds, out_room;
    int8_t priority;
    uint8_t treatment, phase, unlisted, redirects, none[3];
} image_address;

enum image_link_flag { IMAGE_OUTGOING = 1, IMAGE_SETTLES = 2, IMAGE_DRAINING = 4, IMAGE_ANNOTATED = 8,
    IMAGE_CONTAINER = 16, IMAGE_FALLBACK = 32, IMAGE_BOUNDED = 64, IMAGE_FAR = 128, IMAGE_BY_PEER = 256 };

typedef struct {
    image_node node;
    int64_t granted;
    uint64_t deliveries;
    uint32_t link, link_gen, address, capacity;
    uint32_t withheld, owed, scope, connection, pair;
    uint32_t tick, cycle;
    uint16_t flags;
    uint8_t worker, kind, growth, none[7];
} image_link;

typedef struct {
    image_node node;
    uint64_t peer, length, consumed, near, arrived;
    uint32_t link, block, ahead, open, state, detail;
    uint16_t flags;
    uint8_t arena, detail_arena, extra, none[3];
} image_in;

typedef struct {
    image_node node;
    uint64_t peer, progress;
    uint32_t in, link, state;
    uint8_t flags, priority, routed, none[1];
} image_out;

typedef struct { uint64_t hash; uint32_t scope, address, agent, none; } image_alias;

#define IMAGE_DENSE(type, last) \
    _Static_assert(offsetof(type, last) + sizeof ((type *) 0)->last == sizeof(type), "an image has padding")
IMAGE_DENSE(image_core, gone);
IMAGE_DENSE(image_pool, slack);
IMAGE_DENSE(image_address, none);
IMAGE_DENSE(image_link, none);
IMAGE_DENSE(image_in, none);
IMAGE_DENSE(image_out, none);
IMAGE_DENSE(image_alias, none);

/* Entries that are lists begin with two numbers: what it is, and of which address or delivery.  ENTRY_FREE has a pool
 * and whether these are its bare chunks; ENTRY_PAYLOADS an arena; ENTRY_BLOCKS 0 or 1 for the free blocks of a class, 2
 * for the others and the one behind each.  A long list is several entries. */
enum image_list { LIST_RECEIVERS = 0, LIST_SENDERS = 1, LIST_RANKED = 2, LIST_COPIES = 3 };

/* ---- while a checkpoint is restored: restore.c, restored.c ---- */

#define REFUSE(condition, why) do { if (condition) return (why); } while (0)

static inline core_pool *restored_pool(core_router *c, uint32_t which)
{
    core_pool *const all[IMAGE_POOLS] = {&c->ins, &c->outs, &c->links, &c->addresses};
    return which < IMAGE_POOLS ? all[which] : NULL;
}

/* The live entry of a number; NULL: there is none. */
static inline void *restored_entry(const core_pool *p, uint32_t number)
{
    if (!number || number > pool_size(p)) return NULL;
    pool_node *n = pool_at(p, number - 1);
    return n->generation && pool_live(n) ? n : NULL;
}

/* What the sizes of images are: recordings of another build are no use. */
static inline uint64_t image_mark(void)
{
    const uint64_t sizes[] = {sizeof(image_core), sizeof(image_pool), sizeof(image_address), sizeof(image_link),
        sizeof(image_in), sizeof(image_out), sizeof(image_alias), ROUTERD_MAX_WORKERS};
    uint64_t mark = FLIGHT_VERSION;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) mark = mark * 0x100000001b3ull + sizes[i];
    return mark;
}

#endif
