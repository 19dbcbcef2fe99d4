/* The part of AMQP 1.0 on the wire (part 1, types; part 2, frames) that one link on one session needs.
 *
 * The writers put frames with a list32 of fields into a growing buffer.  The reader is a cursor over the fields of a
 * performative and takes what every measured peer sends: described lists with numeric descriptors.
 */
#ifndef BENCH_WIRE_FRAMES_H
#define BENCH_WIRE_FRAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/message.h"

enum {
    OPEN = 0x10, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE,
    ACCEPTED = 0x24, SOURCE = 0x28, TARGET = 0x29,
    SASL_MECHANISMS = 0x40, SASL_INIT, SASL_OUTCOME = 0x44,
};
enum { FRAME_AMQP = 0, FRAME_SASL = 1, FRAME_HEADER = 8, TRANSFER_MAX_HEADER = 40 };

static const char AMQP_HEADER[] = "AMQP\0\1\0", SASL_HEADER[] = "AMQP\3\1\0";

static inline void die(const char *what)
{
    fprintf(stderr, "wire: %s\n", what);
    exit(1);
}

/* ---- writing ---- */

struct buffer {
    uint8_t *bytes;
    size_t start, end, capacity;  /* bytes[start..end) wait to be written */
};

static inline uint8_t *buffer_room(struct buffer *b, size_t n)
{
    if (b->start == b->end) b->start = b->end = 0;
    if (b->end + n > b->capacity) {
        b->capacity = (b->end + n) * 2;
        b->bytes = realloc(b->bytes, b->capacity);
        if (!b->bytes) die("out of memory");
    }
    return b->bytes + b->end;
}

static inline void put(struct buffer *b, const void *bytes, size_t n)
{
    memcpy(buffer_room(b, n), bytes, n);
    b->end += n;
}

struct frame {
    struct buffer *out;
    size_t start, list;
    uint32_t fields;
};

static inline void put_value(struct frame *f, uint8_t code, uint32_t value)
{
    uint8_t bytes[AMQP_HEAD_MAX];
    put(f->out, bytes, (size_t)(amqp_put(bytes, code, value) - bytes));
    f->fields++;
}
static inline void put_null(struct frame *f) { put_value(f, AMQP_NULL, 0); }
static inline void put_bool(struct frame *f, bool v) { put_value(f, v ? AMQP_TRUE : AMQP_FALSE, 0); }
static inline void put_ubyte(struct frame *f, uint8_t v) { put_value(f, AMQP_UBYTE, v); }
static inline void put_ushort(struct frame *f, uint16_t v) { put_value(f, AMQP_USHORT, v); }
static inline void put_uint(struct frame *f, uint32_t v) { put_value(f, AMQP_UINT, v); }

/* Writes `text` of at most 255 bytes; `code` is a variable-width code with a one-byte length. */
static inline void put_text(struct frame *f, uint8_t code, const char *text)
{
    uint8_t head[AMQP_HEAD_MAX];
    size_t n = strlen(text);
    put(f->out, head, (size_t)(amqp_put_head(head, code, (uint32_t)n) - head));
    put(f->out, text, n);
    f->fields++;
}

/* Writes a source or target with this address, or without any field. */
static inline void put_terminus(struct frame *f, uint8_t descriptor, const char *address)
{
    uint8_t head[16], *p = amqp_put_descriptor(head, descriptor);
    uint32_t n = address ? (uint32_t)strlen(address) : 0;
    if (address) p = amqp_put_head(amqp_put_items_head(p, AMQP_LIST8, amqp_octets_size(n), 1), AMQP_STRING8, n);
    else p = amqp_put(p, AMQP_LIST0, 0);
    put(f->out, head, (size_t)(p - head));
    put(f->out, address ? address : "", n);
    f->fields++;
}

static inline struct frame frame_begin(struct buffer *out, uint8_t type, uint8_t performative)
{
    uint8_t head[FRAME_HEADER + 3 + AMQP_HEAD_MAX] = {0, 0, 0, 0, 2, type};
    amqp_put_descriptor(head + FRAME_HEADER, performative);
    buffer_room(out, sizeof head);
    struct frame f = {.out = out, .start = out->end, .list = out->end + FRAME_HEADER + 3};
    put(out, head, sizeof head);
    return f;
}

static inline void frame_end(struct frame *f)
{
    uint8_t *bytes = f->out->bytes;
    be32_put(bytes + f->start, (uint32_t)(f->out->end - f->start));
    amqp_put_items_head(bytes + f->list, AMQP_LIST32, (uint32_t)(f->out->end - f->list - AMQP_HEAD_MAX), f->fields);
}

/* Writes one transfer frame; `id` is delivery-id and delivery-tag. */
static inline void put_transfer(struct buffer *out, uint32_t id, bool settled, bool more, const char *payload,
                                size_t n)
{
    enum { FIELDS = 6, LIST_HEAD = 3 };  /* handle, delivery-id, delivery-tag, message-format, settled, more */
    uint8_t *start = buffer_room(out, n + TRANSFER_MAX_HEADER), *p = start + 4;
    const uint8_t head[] = {2, FRAME_AMQP, 0, 0};
    memcpy(p, head, sizeof head);
    uint8_t *list = amqp_put_descriptor(p + sizeof head, TRANSFER);
    p = amqp_put(list + LIST_HEAD, AMQP_UINT0, 0);
    p = amqp_put(p, AMQP_UINT, id);
    p = be32_put(amqp_put_head(p, AMQP_BINARY8, 4), id);
    p = amqp_put(p, AMQP_UINT0, 0);
    p = amqp_put(p, settled ? AMQP_TRUE : AMQP_FALSE, 0);
    p = amqp_put(p, more ? AMQP_TRUE : AMQP_FALSE, 0);
    amqp_put_items_head(list, AMQP_LIST8, (uint32_t)(p - list - LIST_HEAD), FIELDS);
    memcpy(p, payload, n);
    p += n;
    be32_put(start, (uint32_t)(p - start));
    out->end += (size_t)(p - start);
}

/* ---- reading ---- */

struct fields {
    amqp_cursor items;
    uint32_t left;
};

static inline struct fields fields_of(amqp_value list)
{
    struct fields f;
    if (!amqp_list(list, &f.items, &f.left)) die("expected a list");
    return f;
}

/* Returns the next field; none after the last. */
static inline amqp_value next_field(struct fields *f)
{
    if (!f->left) return (amqp_value){NULL, 0};
    f->left--;
    amqp_value v = amqp_next(&f->items);
    if (!v.at) die("malformed field");
    return v;
}

static inline void skip_fields(struct fields *f, unsigned n)
{
    while (n-- && f->left) next_field(f);
}

/* Returns the next field as a number, or `otherwise` if it is absent, null or not a number. */
static inline uint32_t get_number(struct fields *f, uint32_t otherwise)
{
    amqp_value v = next_field(f);
    bool truth;
    int64_t number;
    if (amqp_boolean(v, &truth)) return truth;
    return amqp_integer(v, &number) ? (uint32_t)number : otherwise;
}

#endif
