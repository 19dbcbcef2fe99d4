/* What a checkpoint says of the forwarder's tables (shm/memory/flight.h).
 *
 * An image has the numbers of an entry; what an entry points at is named by its index plus 1, 0 for nothing.  Lists are
 * lists of such numbers in their order, so restoring a checkpoint builds them as the forwarder does, and checks each
 * number once.  No image has padding: what nobody writes would be any octets, and two recordings of one life differ.
 */
#ifndef ROUTERD_CORE_IMAGE_H
#define ROUTERD_CORE_IMAGE_H

#include "core/forwarder/changes/changes.h"
#include "core/forwarder/delivery/delivery.h"
#include "core/forwarder/tables/planes.h"
#include "shm/memory/flight.h"

#define IMAGE_CHUNKS_MOST 1024u        /* of a pool: half a million entries */
#define IMAGE_POOLS 5u                 /* ins, outs, links, addresses, streams: the others are empty then */

typedef struct {
    uint64_t held;
    uint32_t active, turn, agent, exit, radius, border;
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
    IMAGE_CONTAINER = 16, IMAGE_FALLBACK = 32, IMAGE_BOUNDED = 64, IMAGE_FAR = 128, IMAGE_BY_PEER = 256,
    IMAGE_TO_TABLE = 512 };

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
    uint32_t in, link, state;          /* `link`: of a copy aside the number of its connection's links for streams */
    uint8_t flags, priority, routed, aside;
} image_out;

enum image_aside { IMAGE_WAITING = 1, IMAGE_GROWING = 2 };

typedef struct { uint64_t hash; uint32_t scope, address, agent, about; } image_alias;

/* ---- of a network: network.c ---- */

/* Whose a text is: a copy names it by this and the number of the owner, which of a hop is that among all exchanges'. */
enum image_owner { OWNER_HOP = 0, OWNER_ADDRESS = 1, OWNER_LINK = 2, OWNER_COPY = 3 };
#define IMAGE_OWNER_SHIFT 30

typedef struct { uint32_t there, length, block; } image_text;

typedef struct {
    uint32_t address, turn;
    core_mask remotes;
    image_text text;
    uint32_t none;
} image_far;

typedef struct {
    uint64_t streams;
    uint32_t link, edge;
    image_text text;
    uint8_t neighbour, wants_override, none[2];
} image_between;

typedef struct {
    uint32_t bit, cost;
    core_mask valid_origins;
    int16_t next_hop, neighbour;
    uint32_t none;
} image_router;

typedef struct {
    uint64_t streams;
    uint32_t place, control, data[ROUTERD_PRIORITIES], abroad, none;
} image_neighbour;

typedef struct {
    uint64_t address, ordinary;
    uint32_t out, named;               /* `named`: owner and number of its text; 0: it has none */
    image_text text;                   /* of which it is the first copy, if the owner is gone */
    uint8_t hop, none[3];
} image_transit;

typedef struct {
    uint64_t received, forwarded, diverted, dropped;
    uint32_t address, hops, alternate, none;   /* `alternate`: EXCHANGE_NONE: there is none */
} image_exchange;

typedef struct { uint32_t address; image_text text; } image_hop;

#define IMAGE_HOPS 1024u               /* in one entry */

#define IMAGE_DENSE(type, last) \
    _Static_assert(offsetof(type, last) + sizeof ((type *) 0)->last == sizeof(type), "an image has padding")
IMAGE_DENSE(image_core, gone);
IMAGE_DENSE(image_pool, slack);
IMAGE_DENSE(image_address, none);
IMAGE_DENSE(image_link, none);
IMAGE_DENSE(image_in, none);
IMAGE_DENSE(image_out, aside);
IMAGE_DENSE(image_alias, about);
IMAGE_DENSE(image_far, none);
IMAGE_DENSE(image_between, none);
IMAGE_DENSE(image_router, none);
IMAGE_DENSE(image_neighbour, none);
IMAGE_DENSE(image_transit, none);
IMAGE_DENSE(image_exchange, none);
IMAGE_DENSE(image_hop, text);

/* Entries that are lists begin with two numbers: what it is, and of which address or delivery.  ENTRY_FREE has a pool
 * and whether these are its bare chunks; ENTRY_PAYLOADS an arena; ENTRY_BLOCKS 0 or 1 for the free blocks of a class, 2
 * for the others and the one behind each.  A long list is several entries. */
enum image_list { LIST_RECEIVERS = 0, LIST_SENDERS = 1, LIST_RANKED = 2, LIST_COPIES = 3, LIST_IDLE = 4 };

static inline uint32_t image_number(const void *entry) { return entry ? ((const pool_node *) entry)->index + 1 : 0; }

static inline image_node image_node_of(const void *entry)
{
    const pool_node *n = (const pool_node *) entry;
    return (image_node) {n->index, n->generation};
}

static inline void image_put(core_router *c, enum flight_entry kind, const void *octets, size_t length)
{
    flight_octets(c->flight, FLIGHT_ENTRY, (uint16_t) kind, c->now, octets, (uint32_t) length);
}

PRIVATE uint64_t network_lines(const core_router *c);
PRIVATE uint64_t exchange_lines(const core_exchange *x);
PRIVATE void network_put(core_router *c);
PRIVATE void network_put_out(core_router *c, const core_out *out);

/* ---- while a checkpoint is restored: restore.c, restored.c, restored_network.c ---- */

PRIVATE const char *network_restore(core_router *c, uint32_t kind, const uint8_t *octets, uint32_t length);
PRIVATE const char *network_restored(core_router *c);
PRIVATE const char *exchanges_restored(core_router *c);
PRIVATE core_link *restored_waiting(const core_router *c, uint32_t number, uint8_t aside);
PRIVATE const char *restored_idle(core_streams *k, core_link *l);
PRIVATE void *restored_place(core_pool *p, image_node node);

#define REFUSE(condition, why) do { if (condition) return (why); } while (0)

#define TAKE(type, take) do { \
        type image; \
        REFUSE(length != sizeof image, "an entry is too short or too long"); \
        memcpy(&image, octets, sizeof image); \
        return take(c, &image); \
    } while (0)

static inline core_pool *restored_pool(core_router *c, uint32_t which)
{
    core_pool *const all[IMAGE_POOLS] = {&c->ins, &c->outs, &c->links, &c->addresses, &c->streams};
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
        sizeof(image_in), sizeof(image_out), sizeof(image_alias), sizeof(image_far), sizeof(image_between),
        sizeof(image_router), sizeof(image_neighbour), sizeof(image_transit), routes_mark(),
        sizeof(image_exchange), sizeof(image_hop),
        ROUTERD_MAX_WORKERS};
    uint64_t mark = FLIGHT_VERSION;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) mark = mark * 0x100000001b3ull + sizes[i];
    return mark;
}

#endif
