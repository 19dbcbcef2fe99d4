/* Texts that override a message's `to` on its way to another router, in blocks of our own arena.
 *
 * A sender with a target need not write `to` into its messages, so the next router is told where they go.  The text of
 * an address (or of a link, where one address stands for many texts) is written into a block when the first message
 * needs it.
 *
 *   nobody reads it --text_use--> read by `uses` copies --text_done, the last one--> nobody reads it
 *
 * The block is kept for the next message while the arena has plenty.  An owner that goes leaves the text to its
 * readers.
 */
#include "core/forwarder/tables/access.h"

GLUE core_text *text_new(const uint8_t *bytes, uint32_t length)
{
    core_text *t = (core_text *) malloc(sizeof *t + length);
    if (!t) return NULL;
    *t = (core_text) {.block = ROUTERD_NIL, .length = length, .owned = true};
    memcpy(t->bytes, bytes, length);
    return t;
}

static inline void text_unwrite(core_router *c, core_text *t)
{
    if (t->block != ROUTERD_NIL) arena_free_chain(&c->own, t->block);
    t->block = ROUTERD_NIL;
}

/* Short texts may have all small blocks.  Each is kept until a receiver at another router settles, so where they had
 * the large ones, too, receivers that do not settle would stop control payloads. */
__attribute__((noinline)) static bool text_write(core_router *c, core_text *t)
{
    const bool small = t->length <= PAYLOAD_SMALL && c->own.free_count[ARENA_SMALL];
    if (small || own_room(c, t->length)) t->block = payload_write(c, t->bytes, t->length);
    if (t->block == ROUTERD_NIL) stats_add(c->stats, N_UNADDRESSED, 1);
    return t->block != ROUTERD_NIL;
}

/* False: the arena has no room for it now. */
PRIVATE inline bool text_use(core_router *c, core_text *t)
{
    if (__builtin_expect(t->block == ROUTERD_NIL, 0) && !text_write(c, t)) return false;
    t->uses++;
    return true;
}

PRIVATE inline void text_done(core_router *c, core_text *t)
{
    if (--t->uses) return;
    if (!t->owned || c->own.free_count[ARENA_SMALL] < c->own.view.small_count / 2) text_unwrite(c, t);
    if (!t->owned) free(t);
}

GLUE void text_disown(core_router *c, core_text *t)
{
    if (!t) return;
    t->owned = false;
    if (t->uses) return;
    text_unwrite(c, t);
    free(t);
}
