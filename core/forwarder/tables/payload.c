/* Payloads under way: blocks that carry the detail of a disposition, or a control message, to one reader.
 *
 * The reader answers A_FREE(arena, block).  Until then the pair stands in this table, so that a payload is given back
 * once and only once, and so that it is known what a dead reader still held.
 */
#include "core/forwarder/tables/access.h"

static inline uint32_t payload_home(const core_payload_table *t, uint8_t arena, uint32_t block)
{
    uint64_t h = ((uint64_t) arena << 32 | block) * 0x9e3779b97f4a7c15ull;
    return (uint32_t) (h >> 32) & (t->room - 1);
}

PRIVATE core_payload *payload_find(const core_payload_table *t, uint8_t arena, uint32_t block)
{
    if (!t->room) return NULL;
    for (uint32_t i = payload_home(t, arena, block);; i = (i + 1) & (t->room - 1)) {
        core_payload *p = &t->slot[i];
        if (!p->taken) return NULL;
        if (p->arena == arena && p->block == block) return p;
    }
}

static void payload_insert(core_payload_table *t, core_payload what)
{
    uint32_t i = payload_home(t, what.arena, what.block);
    while (t->slot[i].taken) i = (i + 1) & (t->room - 1);
    t->slot[i] = what;
    t->count++;
}

static void payload_grow(core_payload_table *t)
{
    core_payload_table larger = {.room = t->room ? t->room * 2 : 256};
    larger.slot = (core_payload *) calloc(larger.room, sizeof *larger.slot);
    if (!larger.slot) abort();   /* forgetting a payload would leak its owner's blocks: start over instead */
    for (uint32_t i = 0; i < t->room; i++)
        if (t->slot[i].taken) payload_insert(&larger, t->slot[i]);
    free(t->slot);
    *t = larger;
}

/* The one who will answer A_FREE is `reader`.  A pair already there was given away twice by its owner: the newer reader
 * counts. */
PRIVATE void payload_track(core_router *c, uint8_t arena, uint32_t block, uint8_t reader)
{
    core_payload_table *t = &c->payloads;
    if (arena == c->workers && core_constant(c, block)) return;   /* constant: never freed */
    core_payload *known = payload_find(t, arena, block);
    if (known) {
        known->reader = reader;
        return;
    }
    if (t->count * 2 >= t->room) payload_grow(t);
    payload_insert(t, (core_payload) {.block = block, .arena = arena, .reader = reader, .taken = true});
}

/* Closes the gap that a removed entry would leave in the probe sequences of those behind it. */
PRIVATE void payload_forget(core_payload_table *t, core_payload *p)
{
    uint32_t mask = t->room - 1, gap = (uint32_t) (p - t->slot);
    t->slot[gap].taken = false;
    t->count--;
    for (uint32_t i = (gap + 1) & mask; t->slot[i].taken; i = (i + 1) & mask) {
        uint32_t home = payload_home(t, t->slot[i].arena, t->slot[i].block);
        if (((i - home) & mask) < ((i - gap) & mask)) continue;   /* its home lies behind the gap: it stays */
        t->slot[gap] = t->slot[i];
        t->slot[i].taken = false;
        gap = i;
    }
}

/* Writes bytes into a chain of our own arena; ROUTERD_NIL when it has no room. */
PRIVATE uint32_t payload_write(core_router *c, const uint8_t *bytes, uint32_t size)
{
    arena_writer writer;
    enum arena_class want = size > 256 ? ARENA_LARGE : ARENA_SMALL;
    if (!chain_begin(&c->own, &writer, want)) return ROUTERD_NIL;
    if (!chain_write(&c->own, &writer, want, bytes, size)) {
        arena_free_chain(&c->own, writer.head);
        return ROUTERD_NIL;
    }
    chain_publish(&c->own, &writer, CONTENT_COMPLETE);
    return writer.head;
}
