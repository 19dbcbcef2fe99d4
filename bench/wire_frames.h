/* Just enough of AMQP 1.0 on the wire (part 1, types; part 2, frames) for one link on one session.
 *
 * Writing: frames with a list32 of fields into a growing buffer.  Reading: a cursor over the fields of a
 * performative, which takes what every peer measured here sends: described lists with numeric descriptors.
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
enum { CODE_DESCRIBED = 0x00, CODE_NULL = 0x40, CODE_TRUE, CODE_FALSE, CODE_UINT0, CODE_LIST0 = 0x45,
       CODE_UBYTE = 0x50, CODE_SMALLUINT = 0x52, CODE_SMALLULONG, CODE_USHORT = 0x60, CODE_UINT = 0x70,
       CODE_ULONG = 0x80, CODE_BINARY8 = 0xa0, CODE_STRING8, CODE_SYMBOL8 = 0xa3, CODE_LIST8 = 0xc0,
       CODE_LIST32 = 0xd0 };

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

static inline void put_code(struct frame *f, uint8_t code, uint32_t value, size_t width)
{
    uint8_t bytes[5] = {code}, big[4];
    put_be32(big, value);
    memcpy(bytes + 1, big + 4 - width, width);
    put(f->out, bytes, 1 + width);
    f->fields++;
}
static inline void put_null(struct frame *f) { put_code(f, CODE_NULL, 0, 0); }
static inline void put_bool(struct frame *f, bool v) { put_code(f, v ? CODE_TRUE : CODE_FALSE, 0, 0); }
static inline void put_ubyte(struct frame *f, uint8_t v) { put_code(f, CODE_UBYTE, v, 1); }
static inline void put_ushort(struct frame *f, uint16_t v) { put_code(f, CODE_USHORT, v, 2); }
static inline void put_uint(struct frame *f, uint32_t v) { put_code(f, CODE_UINT, v, 4); }

/* `text` of at most 255 bytes; `code` is one of the variable-width codes with a one-byte length. */
static inline void put_text(struct frame *f, uint8_t code, const char *text)
{
    put_code(f, code, (uint32_t)strlen(text), 1);
    put(f->out, text, strlen(text));
}

/* A source or target with this address, or without any field. */
static inline void put_terminus(struct frame *f, uint8_t descriptor, const char *address)
{
    uint8_t head[] = {CODE_DESCRIBED, CODE_SMALLULONG, descriptor};
    put(f->out, head, sizeof head);
    f->fields++;
    if (!address) {
        put(f->out, (uint8_t[]){CODE_LIST0}, 1);
        return;
    }
    uint8_t n = (uint8_t)strlen(address);
    put(f->out, (uint8_t[]){CODE_LIST8, (uint8_t)(n + 3), 1, CODE_STRING8, n}, 5);
    put(f->out, address, n);
}

static inline struct frame frame_begin(struct buffer *out, uint8_t type, uint8_t performative)
{
    const uint8_t head[] = {0, 0, 0, 0, 2, type, 0, 0, CODE_DESCRIBED, CODE_SMALLULONG, performative,
                            CODE_LIST32, 0, 0, 0, 0, 0, 0, 0, 0};
    buffer_room(out, sizeof head);
    struct frame f = {.out = out, .start = out->end, .list = out->end + sizeof head - 8};
    put(out, head, sizeof head);
    return f;
}

static inline void frame_end(struct frame *f)
{
    uint8_t *bytes = f->out->bytes;
    put_be32(bytes + f->start, (uint32_t)(f->out->end - f->start));
    put_be32(bytes + f->list, (uint32_t)(f->out->end - f->list - 4));
    put_be32(bytes + f->list + 4, f->fields);
}

/* One transfer frame; `id` is delivery-id and delivery-tag. */
static inline void put_transfer(struct buffer *out, uint32_t id, bool settled, bool more, const char *payload,
                                size_t n)
{
    uint8_t *start = buffer_room(out, n + TRANSFER_MAX_HEADER), *p = start + 4;
    const uint8_t head[] = {2, FRAME_AMQP, 0, 0, CODE_DESCRIBED, CODE_SMALLULONG, TRANSFER, CODE_LIST8};
    memcpy(p, head, sizeof head);
    uint8_t *size = p += sizeof head;
    p++;
    *p++ = 6;           /* fields: handle, delivery-id, delivery-tag, message-format, settled, more */
    *p++ = CODE_UINT0;
    *p++ = CODE_UINT;
    p = put_be32(p, id);
    *p++ = CODE_BINARY8;
    *p++ = 4;
    p = put_be32(p, id);
    *p++ = CODE_UINT0;
    *p++ = settled ? CODE_TRUE : CODE_FALSE;
    *p++ = more ? CODE_TRUE : CODE_FALSE;
    *size = (uint8_t)(p - size - 1);
    memcpy(p, payload, n);
    p += n;
    put_be32(start, (uint32_t)(p - start));
    out->end += (size_t)(p - start);
}

/* ---- reading ---- */

static inline uint32_t get_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

struct fields {
    const uint8_t *at, *end;  /* end: behind the list, where a transfer's payload begins */
    uint32_t left;
};

static inline const uint8_t *value_end(const uint8_t *p)
{
    static const uint8_t fixed[] = {0, 1, 2, 4, 8, 16};  /* codes 0x4x to 0x9x */
    if (*p == CODE_DESCRIBED) return value_end(value_end(p + 1));
    unsigned kind = *p >> 4;
    if (kind < 4) die("malformed field");
    if (kind <= 9) return p + 1 + fixed[kind - 4];
    return kind % 2 ? p + 5 + get_be32(p + 1) : p + 2 + p[1];
}

static inline struct fields fields_of(const uint8_t *list)
{
    switch (*list) {
    case CODE_LIST0: return (struct fields){list + 1, list + 1, 0};
    case CODE_LIST8: return (struct fields){list + 3, list + 2 + list[1], list[2]};
    case CODE_LIST32: return (struct fields){list + 9, list + 5 + get_be32(list + 1), get_be32(list + 5)};
    default: die("expected a list"); return (struct fields){0};
    }
}

static inline void skip_fields(struct fields *f, unsigned n)
{
    for (; n && f->left; n--, f->left--) f->at = value_end(f->at);
}

/* The next field as a number, or `otherwise` when it is absent, null or no number. */
static inline uint32_t get_number(struct fields *f, uint32_t otherwise)
{
    if (!f->left) return otherwise;
    const uint8_t *p = f->at;
    skip_fields(f, 1);
    switch (*p) {
    case CODE_TRUE: return 1;
    case CODE_FALSE: case CODE_UINT0: return 0;
    case CODE_UBYTE: case CODE_SMALLUINT: case CODE_SMALLULONG: case 0x56: return p[1];
    case CODE_USHORT: return (uint32_t)p[1] << 8 | p[2];
    case CODE_UINT: return get_be32(p + 1);
    case CODE_ULONG: return get_be32(p + 5);
    default: return otherwise;
    }
}

#endif
