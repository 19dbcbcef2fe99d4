/* Payloads under way: blocks that carry the detail of a disposition, or a control message, to one reader.
 *
 * The reader answers A_FREE(arena, block).  Until then the core knows who has to: a payload is given back once and only
 * once, and what a dead reader still held is given back for it.
 */
#include "core/forwarder/tables/access.h"

/* Whether a block, which a worker may have made up, is a payload that this reader has not given back. */
PRIVATE bool payload_lent(const core_router *c, uint8_t arena, uint32_t block, uint32_t reader)
{
    return arena <= c->workers && block < arena_blocks(&c->arena[arena]) && c->payloads.reader[arena]
           && c->payloads.reader[arena][block] == reader + 1;
}

/* The one who will answer A_FREE is `reader`.  An owner that gives a payload away twice hears of the later reader. */
PRIVATE void payload_track(core_router *c, uint8_t arena, uint32_t block, uint8_t reader)
{
    uint8_t **readers = &c->payloads.reader[arena];
    if (arena == c->workers && core_constant(c, block)) return;   /* never freed */
    if (!*readers && !(*readers = (uint8_t *) calloc(arena_blocks(&c->arena[arena]), 1)))
        abort();               /* forgetting a payload would leak its owner's blocks: start over instead */
    c->payloads.count += !(*readers)[block];
    (*readers)[block] = (uint8_t) (reader + 1);
}

PRIVATE void payload_forget(core_router *c, uint8_t arena, uint32_t block)
{
    c->payloads.reader[arena][block] = 0;
    c->payloads.count--;
}

/* Whether our own arena has room for a message of ours or an override text.  Half of the large blocks are left for
 * control payloads: a worker's work waits behind one that finds no block. */
GLUE bool own_room(const core_router *c, uint64_t size)
{
    const uint64_t blocks = size / (ARENA_LARGE_BYTES - 128) + 1;
    return size <= CONTENT_CONTROL_MAX && blocks + c->own.view.large_count / 2 <= c->own.free_count[ARENA_LARGE];
}

/* Writes bytes into a chain of our own arena; ROUTERD_NIL when it has no room. */
PRIVATE uint32_t payload_write(core_router *c, const uint8_t *bytes, uint32_t size)
{
    arena_writer writer;
    enum arena_class want = size > PAYLOAD_SMALL ? ARENA_LARGE : ARENA_SMALL;
    if (!chain_begin(&c->own, &writer, want)) return ROUTERD_NIL;
    if (!chain_write(&c->own, &writer, want, bytes, size)) {
        arena_free_chain(&c->own, writer.head);
        return ROUTERD_NIL;
    }
    chain_publish(&c->own, &writer, CONTENT_COMPLETE);
    return writer.head;
}
