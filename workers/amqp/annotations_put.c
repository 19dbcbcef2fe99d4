/* Writing the beginning of a message: bytes, AMQP values, and parts of a message that stands in blocks. */
#include <string.h>

#include "workers/amqp/annotations.h"

PRIVATE inline void annotations_open(annotations_writer *w, const arena_view *view, uint32_t head, uint64_t length)
{
    w->view = view;
    w->head = head;
    w->content = *arena_content_of(view, head);
    w->length = length;
    w->broken = false;
    w->used = w->bytes[0] = 0;
}

PRIVATE inline void annotations_flush(annotations_writer *w)
{
    if (w->used) w->give(w->to, w->bytes, w->used);
    w->used = 0;
}

PRIVATE inline void put_bytes(annotations_writer *w, const void *bytes, uint32_t size)
{
    if (size > ANNOTATIONS_AT_ONCE - w->used) annotations_flush(w);
    if (size > ANNOTATIONS_AT_ONCE) { w->give(w->to, (const uint8_t *) bytes, size); return; }
    memcpy(w->bytes + w->used, bytes, size);
    w->used += size;
}

/* Returns where the codec (amqp.h) may write at most `size` octets; put_to takes the end of what it has written. */
PRIVATE inline uint8_t *put_room(annotations_writer *w, uint32_t size)
{
    if (size > ANNOTATIONS_AT_ONCE - w->used) annotations_flush(w);
    return w->bytes + w->used;
}

PRIVATE inline void put_to(annotations_writer *w, const uint8_t *end) { w->used = (uint32_t) (end - w->bytes); }

/* ---- parts of the message ---- */

/* Returns the next run of [from, end); NULL at its end, or at the end of the chain. */
static const uint8_t *message_run(const annotations_writer *w, arena_reader *reader, uint64_t from, uint64_t end,
                                  uint32_t *size)
{
    while (end <= w->length) {
        const uint8_t *bytes = chain_read(w->view, reader, end, size);
        if (!bytes) return NULL;
        uint64_t here = reader->position;
        chain_advance(reader, *size);
        if (reader->position <= from) continue;
        uint32_t skip = here < from ? (uint32_t) (from - here) : 0;
        *size -= skip;
        return bytes + skip;
    }
    return NULL;
}

/* Returns [from, from + size) in one piece; NULL if it reaches behind the first block. */
static const uint8_t *message_piece(const annotations_writer *w, uint32_t from, uint32_t size)
{
    uint64_t end = (uint64_t) from + size;
    if (end > w->length || end > arena_capacity(w->view, w->head, true)) return NULL;
    return (const uint8_t *) arena_content_of(w->view, w->head) + sizeof(arena_content) + from;
}

PRIVATE inline void put_range(annotations_writer *w, uint32_t from, uint32_t size)
{
    const uint8_t *bytes = message_piece(w, from, size);
    arena_reader reader;
    uint32_t n;
    if (bytes) { put_bytes(w, bytes, size); return; }
    chain_open(&reader, w->head);
    while ((bytes = message_run(w, &reader, from, (uint64_t) from + size, &n))) put_bytes(w, bytes, n);
    w->broken |= reader.position != (uint64_t) from + size;
}

PRIVATE inline void message_copy(annotations_writer *w, uint32_t from, uint32_t size, uint8_t *to)
{
    const uint8_t *bytes = message_piece(w, from, size);
    arena_reader reader;
    uint32_t n;
    if (bytes) { memcpy(to, bytes, size); return; }
    chain_open(&reader, w->head);
    for (; (bytes = message_run(w, &reader, from, (uint64_t) from + size, &n)); to += n) memcpy(to, bytes, n);
    w->broken |= reader.position != (uint64_t) from + size;
}

/* Writes the received override: from the message, or, if it lies across blocks, from key_block (content.h). */
PRIVATE inline void put_address(annotations_writer *w, uint32_t size)
{
    uint32_t key = w->content.key_block, at = w->content.to_offset;
    if (key == ROUTERD_NIL) { put_range(w, at, size); return; }
    const arena_block *b = arena_at(w->view, key);
    if (!b || (uint64_t) at + size > arena_capacity(w->view, key, false)) { w->broken = true; return; }
    put_bytes(w, b->data + at, size);
}

/* ---- AMQP values (amqp.h) ---- */

PRIVATE inline void put_value(annotations_writer *w, uint8_t code, uint64_t bits)
{
    put_to(w, amqp_put(put_room(w, AMQP_HEAD_MAX), code, bits));
}

PRIVATE inline void put_string_head(annotations_writer *w, uint32_t size)
{
    put_to(w, amqp_put_shortest_head(put_room(w, AMQP_HEAD_MAX), AMQP_STRING8, size));
}

PRIVATE inline void put_items_head(annotations_writer *w, uint8_t code, uint32_t size, uint32_t count)
{
    put_to(w, amqp_put_items_head(put_room(w, AMQP_HEAD_MAX), code, size, count));
}

PRIVATE inline void put_shortest_items_head(annotations_writer *w, uint8_t short_code, uint32_t size, uint32_t count)
{
    put_to(w, amqp_put_shortest_items_head(put_room(w, AMQP_HEAD_MAX), short_code, size, count));
}
