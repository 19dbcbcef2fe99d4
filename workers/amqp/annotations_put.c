/* Writing the beginning of a message: bytes, AMQP values, and parts of a message that stands in blocks. */
#ifndef ROUTERD_WORKERS_ANNOTATIONS_PUT_H
#define ROUTERD_WORKERS_ANNOTATIONS_PUT_H

#include "shm/arena.h"
#include "shm/scan.h"

#define ANNOTATIONS_AT_ONCE 512u           /* bytes given on together: what most messages need, in one piece */

typedef struct {                           /* where a message is read from, and where its new beginning goes */
    const arena_view *view;
    uint32_t head;
    arena_content content;                 /* a copy, which nobody changes */
    uint64_t length;                       /* published */
    void (*give)(void *to, const uint8_t *bytes, size_t size);
    void *to;
    bool broken;                           /* the content header names a place that is not there */
    uint32_t used;
    uint8_t bytes[ANNOTATIONS_AT_ONCE];
} annotations_writer;

static inline void annotations_open(annotations_writer *w, const arena_view *view, uint32_t head, uint64_t length)
{
    w->view = view;
    w->head = head;
    w->content = *arena_content_of(view, head);
    w->length = length;
    w->broken = false;
    w->used = w->bytes[0] = 0;
}

static inline void annotations_flush(annotations_writer *w)
{
    if (w->used) w->give(w->to, w->bytes, w->used);
    w->used = 0;
}

static inline void put_bytes(annotations_writer *w, const void *bytes, uint32_t size)
{
    if (size > ANNOTATIONS_AT_ONCE - w->used) annotations_flush(w);
    if (size > ANNOTATIONS_AT_ONCE) { w->give(w->to, (const uint8_t *) bytes, size); return; }
    memcpy(w->bytes + w->used, bytes, size);
    w->used += size;
}

static inline void put_byte(annotations_writer *w, uint8_t byte) { put_bytes(w, &byte, 1); }

static inline void put_u32(annotations_writer *w, uint32_t n)
{
    const uint8_t bytes[4] = { (uint8_t) (n >> 24), (uint8_t) (n >> 16), (uint8_t) (n >> 8), (uint8_t) n };
    put_bytes(w, bytes, 4);
}

/* ---- parts of the message ---- */

/* The next run of [from, end): NULL when all of it was given, or the chain ends before. */
static inline const uint8_t *message_run(const annotations_writer *w, arena_reader *reader, uint64_t from, uint64_t end, uint32_t *size)
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

/* [from, from + size) in one piece, or NULL: it lies behind the first block. */
static inline const uint8_t *message_piece(const annotations_writer *w, uint32_t from, uint32_t size)
{
    uint64_t end = (uint64_t) from + size;
    if (end > w->length || end > arena_capacity(w->view, w->head, true)) return NULL;
    return (const uint8_t *) arena_content_of(w->view, w->head) + sizeof(arena_content) + from;
}

static inline void put_range(annotations_writer *w, uint32_t from, uint32_t size)
{
    const uint8_t *bytes = message_piece(w, from, size);
    arena_reader reader;
    uint32_t n;
    if (bytes) { put_bytes(w, bytes, size); return; }
    chain_open(&reader, w->head);
    while ((bytes = message_run(w, &reader, from, (uint64_t) from + size, &n))) put_bytes(w, bytes, n);
    w->broken |= reader.position != (uint64_t) from + size;
}

static inline void message_copy(annotations_writer *w, uint32_t from, uint32_t size, uint8_t *to)
{
    const uint8_t *bytes = message_piece(w, from, size);
    arena_reader reader;
    uint32_t n;
    if (bytes) { memcpy(to, bytes, size); return; }
    chain_open(&reader, w->head);
    for (; (bytes = message_run(w, &reader, from, (uint64_t) from + size, &n)); to += n) memcpy(to, bytes, n);
    w->broken |= reader.position != (uint64_t) from + size;
}

/* The override that came: in the message, or beside it where it would lie across blocks (content.h, key_block). */
static inline void put_address(annotations_writer *w, uint32_t size)
{
    uint32_t key = w->content.key_block, at = w->content.to_offset;
    if (key == ROUTERD_NIL) { put_range(w, at, size); return; }
    const arena_block *b = arena_at(w->view, key);
    if (!b || (uint64_t) at + size > arena_capacity(w->view, key, false)) { w->broken = true; return; }
    put_bytes(w, b->data + at, size);
}

/* ---- AMQP values (part 1, 1.6) ---- */

static inline void put_string_head(annotations_writer *w, uint32_t size)
{
    const uint8_t head[2] = { 0xa1, (uint8_t) size };
    if (size <= 255) { put_bytes(w, head, 2); return; }
    put_byte(w, 0xb1);
    put_u32(w, size);
}

static inline uint32_t string_size(uint32_t size) { return size + (size > 255 ? 5 : 2); }

/* Lists (code 0xc0) and maps (0xc1) around `size` bytes: short where that fits, or else long. */
static inline bool compound_short(uint32_t size, uint32_t count) { return size + 1 <= 255 && count <= 255; }
static inline uint32_t compound_size(uint32_t size, uint32_t count) { return size + (compound_short(size, count) ? 3 : 9); }

static inline void put_compound_long(annotations_writer *w, uint8_t code, uint32_t size, uint32_t count)
{
    put_byte(w, (uint8_t) (code | 0x10));
    put_u32(w, size + 4);
    put_u32(w, count);
}

static inline void put_compound(annotations_writer *w, uint8_t code, uint32_t size, uint32_t count)
{
    const uint8_t head[3] = { code, (uint8_t) (size + 1), (uint8_t) count };
    if (compound_short(size, count)) put_bytes(w, head, 3);
    else put_compound_long(w, code, size, count);
}

#endif
