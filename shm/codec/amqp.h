/* The codec of AMQP 1.0 values (AMQP 1.0 part 1.6): the only code with constructors, sizes and byte order.
 *
 *   amqp_size     measures the value at a place
 *   amqp_take     delimits a complete value; amqp_next: the next item of a list or map
 *   the readers   interpret an amqp_value and never read outside it
 *   the writers   put a value where the caller has room for it, and return the end; the caller knows the needed room
 *                 from AMQP_HEAD_MAX and amqp_*_size
 *
 * The functions allocate nothing and keep no state.  RMR's transport, WebSocket and CBOR have the same byte order.
 */
#ifndef ROUTERD_SHM_AMQP_H
#define ROUTERD_SHM_AMQP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Constructors.  The upper four bits give the content's length, so an unknown constructor can be skipped. */
enum amqp_code {
    AMQP_DESCRIBED = 0x00,             /* a descriptor and a value follow */
    AMQP_NULL = 0x40, AMQP_TRUE = 0x41, AMQP_FALSE = 0x42, AMQP_UINT0 = 0x43, AMQP_ULONG0 = 0x44, AMQP_LIST0 = 0x45,
    AMQP_UBYTE = 0x50, AMQP_BYTE = 0x51, AMQP_SMALLUINT = 0x52, AMQP_SMALLULONG = 0x53,
    AMQP_SMALLINT = 0x54, AMQP_SMALLLONG = 0x55, AMQP_BOOLEAN = 0x56,
    AMQP_USHORT = 0x60, AMQP_SHORT = 0x61,
    AMQP_UINT = 0x70, AMQP_INT = 0x71, AMQP_FLOAT = 0x72, AMQP_CHAR = 0x73, AMQP_DECIMAL32 = 0x74,
    AMQP_ULONG = 0x80, AMQP_LONG = 0x81, AMQP_DOUBLE = 0x82, AMQP_TIMESTAMP = 0x83, AMQP_DECIMAL64 = 0x84,
    AMQP_DECIMAL128 = 0x94, AMQP_UUID = 0x98,
    AMQP_BINARY8 = 0xa0, AMQP_STRING8 = 0xa1, AMQP_SYMBOL8 = 0xa3,
    AMQP_BINARY32 = 0xb0, AMQP_STRING32 = 0xb1, AMQP_SYMBOL32 = 0xb3,
    AMQP_LIST8 = 0xc0, AMQP_MAP8 = 0xc1, AMQP_LIST32 = 0xd0, AMQP_MAP32 = 0xd1,
    AMQP_ARRAY8 = 0xe0, AMQP_ARRAY32 = 0xf0,
    AMQP_WIDE = 0x10                   /* the bit by which a constructor's long form differs from its short one */
};

#define AMQP_WRONG SIZE_MAX            /* no value begins here */
#define AMQP_DEPTH 2                   /* descriptors of descriptors, in a list or map */
#define AMQP_HEAD_MAX 9u               /* octets before a content, or of a value of a fixed width up to 8 */
#define AMQP_SHORT_MAX 255u            /* octets of content, or items, that a short form holds */

typedef struct { const uint8_t *at, *end; } amqp_cursor;               /* the items still to be read */
typedef struct { const uint8_t *at; size_t size; } amqp_value;         /* with its constructor; `at` NULL: none */
typedef struct { const uint8_t *at; uint32_t size; } amqp_octets;      /* a value's content; `at` NULL: wrong type */

/* ---- numbers, highest octet first ---- */

static inline uint16_t be16(const uint8_t *p) { return (uint16_t) (p[0] << 8 | p[1]); }

static inline uint32_t be32(const uint8_t *p)
{
    return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3];
}

static inline uint64_t be64(const uint8_t *p) { return (uint64_t) be32(p) << 32 | be32(p + 4); }

static inline uint8_t *be16_put(uint8_t *to, uint16_t n)
{
    to[0] = (uint8_t) (n >> 8);
    to[1] = (uint8_t) n;
    return to + 2;
}

__attribute__((always_inline)) static inline uint8_t *be32_put(uint8_t *to, uint32_t n)
{
    const uint8_t octets[4] = { (uint8_t) (n >> 24), (uint8_t) (n >> 16), (uint8_t) (n >> 8), (uint8_t) n };
    memcpy(to, octets, 4);
    return to + 4;
}

static inline uint8_t *be64_put(uint8_t *to, uint64_t n)
{
    return be32_put(be32_put(to, (uint32_t) (n >> 32)), (uint32_t) n);
}

/* Numbers of 1, 2, 4 or 8 octets; be_put writes nothing for width 0. */
static inline uint64_t be_of(const uint8_t *p, uint32_t width)
{
    return width == 1 ? *p : width == 2 ? be16(p) : width == 4 ? be32(p) : be64(p);
}

static inline uint8_t *be_put(uint8_t *to, uint64_t n, uint32_t width)
{
    switch (width) {
    case 0: return to;
    case 1: *to = (uint8_t) n; return to + 1;
    case 2: return be16_put(to, (uint16_t) n);
    case 4: return be32_put(to, (uint32_t) n);
    default: return be64_put(to, n);
    }
}

/* ---- constructors ---- */

/* Octets after a constructor of a fixed width. */
static const uint8_t amqp_width[16] = { [5] = 1, [6] = 2, [7] = 4, [8] = 8, [9] = 16 };

static inline bool amqp_is_fixed(uint8_t code) { return code >= AMQP_NULL && code < AMQP_BINARY8; }
static inline uint8_t amqp_short_code(uint8_t code) { return code & (uint8_t) ~AMQP_WIDE; }
static inline bool amqp_is_boolean(uint8_t code)
{
    return code == AMQP_TRUE || code == AMQP_FALSE || code == AMQP_BOOLEAN;
}

static inline bool amqp_is_binary(uint8_t code) { return amqp_short_code(code) == AMQP_BINARY8; }
static inline bool amqp_is_string(uint8_t code) { return amqp_short_code(code) == AMQP_STRING8; }
static inline bool amqp_is_symbol(uint8_t code) { return amqp_short_code(code) == AMQP_SYMBOL8; }
static inline bool amqp_is_text(uint8_t code) { return amqp_is_string(code) || amqp_is_symbol(code); }
static inline bool amqp_is_octets(uint8_t code) { return amqp_is_binary(code) || amqp_is_text(code); }
static inline bool amqp_is_list(uint8_t code) { return code == AMQP_LIST0 || amqp_short_code(code) == AMQP_LIST8; }
static inline bool amqp_is_map(uint8_t code) { return amqp_short_code(code) == AMQP_MAP8; }

/* Octets before the content of a string, symbol or binary. */
static inline uint32_t amqp_head(uint8_t code) { return code & AMQP_WIDE ? 5 : 2; }

/* ---- values as a whole ---- */

static size_t amqp_described_size(const uint8_t *p, const uint8_t *end, int depth);

/* The size of the value at p with its constructor, which may exceed `end`.  0: more octets are needed to know;
 * AMQP_WRONG: there is no value.  `depth` bounds nested descriptors. */
__attribute__((always_inline)) static inline size_t amqp_size(const uint8_t *p, const uint8_t *end, int depth)
{
    if (p >= end) return 0;
    uint8_t code = *p;
    if (amqp_is_fixed(code)) return 1u + amqp_width[code >> 4];
    if (code < AMQP_BINARY8) return code == AMQP_DESCRIBED ? amqp_described_size(p, end, depth) : AMQP_WRONG;
    if (code & AMQP_WIDE) return end - p < 5 ? 0 : (size_t) 5 + be32(p + 1);
    return end - p < 2 ? 0 : (size_t) 2 + p[1];
}

/* The size of a descriptor and its value, as in amqp_size. */
__attribute__((noinline, cold)) static size_t amqp_described_size(const uint8_t *p, const uint8_t *end, int depth)
{
    if (!depth) return AMQP_WRONG;
    size_t d = amqp_size(p + 1, end, depth - 1);
    if (d == 0 || d == AMQP_WRONG) return d;
    if ((size_t) (end - p) < 1 + d) return 0;
    size_t v = amqp_size(p + 1 + d, end, depth - 1);
    return v == 0 || v == AMQP_WRONG ? v : 1 + d + v;
}

/* The value at p, if it is complete. */
static inline amqp_value amqp_take(const uint8_t *p, const uint8_t *end, int depth)
{
    size_t n = amqp_size(p, end, depth);
    if (n == 0 || n == AMQP_WRONG || n > (size_t) (end - p)) return (amqp_value) { NULL, 0 };
    return (amqp_value) { p, n };
}

/* The next item; the cursor stays where there is none, so all further calls return none. */
static inline amqp_value amqp_next(amqp_cursor *items)
{
    amqp_value v = amqp_take(items->at, items->end, AMQP_DEPTH);
    items->at += v.size;
    return v;
}

/* ---- fields: the next item of a list whose type its place demands ---- */

enum amqp_field { AMQP_FIELD_NULL, AMQP_FIELD_THERE, AMQP_FIELD_WRONG };     /* wrong: of another type, or truncated */

/* A uint in any of its forms; *n changes only if it is there. */
__attribute__((always_inline)) static inline enum amqp_field amqp_next_uint(amqp_cursor *items, uint32_t *n)
{
    const uint8_t *p = items->at;
    size_t left = (size_t) (items->end - p);
    if (!left) return AMQP_FIELD_WRONG;
    if (*p == AMQP_NULL) { items->at = p + 1; return AMQP_FIELD_NULL; }
    if (*p == AMQP_SMALLUINT && left > 1) { *n = p[1]; items->at = p + 2; return AMQP_FIELD_THERE; }
    if (*p == AMQP_UINT0) { *n = 0; items->at = p + 1; return AMQP_FIELD_THERE; }
    if (*p != AMQP_UINT || left < 5) return AMQP_FIELD_WRONG;
    *n = be32(p + 1);
    items->at = p + 5;
    return AMQP_FIELD_THERE;
}

/* A boolean in any of its forms; the same. */
__attribute__((always_inline)) static inline enum amqp_field amqp_next_boolean(amqp_cursor *items, bool *truth)
{
    const uint8_t *p = items->at;
    size_t left = (size_t) (items->end - p);
    if (!left) return AMQP_FIELD_WRONG;
    uint8_t code = *p;
    bool wide = code == AMQP_BOOLEAN;
    if (code == AMQP_NULL) { items->at = p + 1; return AMQP_FIELD_NULL; }
    if (wide ? left < 2 || p[1] > 1 : code != AMQP_TRUE && code != AMQP_FALSE) return AMQP_FIELD_WRONG;
    *truth = wide ? p[1] : code == AMQP_TRUE;
    items->at = p + 1 + wide;
    return AMQP_FIELD_THERE;
}

/* A binary in either form; the same. */
__attribute__((always_inline)) static inline enum amqp_field amqp_next_binary(amqp_cursor *items, amqp_octets *octets)
{
    const uint8_t *p = items->at;
    size_t left = (size_t) (items->end - p), head, size;
    if (!left) return AMQP_FIELD_WRONG;
    if (*p == AMQP_NULL) { items->at = p + 1; return AMQP_FIELD_NULL; }
    if (!amqp_is_binary(*p) || left < (head = amqp_head(*p))) return AMQP_FIELD_WRONG;
    size = __builtin_expect(head == 2, 1) ? p[1] : be32(p + 1);
    if (size > left - head) return AMQP_FIELD_WRONG;
    *octets = (amqp_octets) { p + head, (uint32_t) size };
    items->at = p + head + size;
    return AMQP_FIELD_THERE;
}

/* A list behind its descriptor, both in their short forms, as most frames begin: the descriptor's number.  0: there may
 * be a list all the same, which amqp_take and amqp_list read. */
__attribute__((always_inline)) static inline uint8_t amqp_short_list(const uint8_t *p, const uint8_t *end,
                                                                     amqp_cursor *items, uint32_t *count)
{
    if (end - p < 6 || p[0] != AMQP_DESCRIBED || p[1] != AMQP_SMALLULONG || p[3] != AMQP_LIST8) return 0;
    if (!p[4] || p[4] > end - p - 5) return 0;
    *count = p[5];
    *items = (amqp_cursor) { p + 6, p + 5 + p[4] };
    return p[2];
}

/* ---- readers, which accept none ---- */

/* A value's constructor; for none that of a described value, which matches no type below. */
static inline uint8_t amqp_code_of(amqp_value v) { return v.at ? *v.at : AMQP_DESCRIBED; }

/* The content of a string, symbol or binary. */
static inline amqp_octets amqp_content(amqp_value v)
{
    uint32_t head = amqp_head(*v.at);
    return (amqp_octets) { v.at + head, (uint32_t) v.size - head };
}

static inline amqp_octets amqp_content_if(amqp_value v, bool right)
{
    return right ? amqp_content(v) : (amqp_octets) { NULL, 0 };
}

static inline amqp_octets amqp_string(amqp_value v) { return amqp_content_if(v, amqp_is_string(amqp_code_of(v))); }
static inline amqp_octets amqp_symbol(amqp_value v) { return amqp_content_if(v, amqp_is_symbol(amqp_code_of(v))); }
static inline amqp_octets amqp_text(amqp_value v) { return amqp_content_if(v, amqp_is_text(amqp_code_of(v))); }
static inline amqp_octets amqp_binary(amqp_value v) { return amqp_content_if(v, amqp_is_binary(amqp_code_of(v))); }
static inline amqp_octets amqp_any_octets(amqp_value v) { return amqp_content_if(v, amqp_is_octets(amqp_code_of(v))); }

/* An integer of any type.  False, and *n is 0: it is no integer, or exceeds INT64_MAX. */
static inline bool amqp_integer(amqp_value v, int64_t *n)
{
    uint8_t code = amqp_code_of(v);
    *n = 0;
    if (!amqp_is_fixed(code)) return false;
    const uint8_t *p = v.at + 1;
    switch (code) {
    case AMQP_UINT0: case AMQP_ULONG0: return true;
    case AMQP_UBYTE: case AMQP_SMALLUINT: case AMQP_SMALLULONG: *n = *p; return true;
    case AMQP_BYTE: case AMQP_SMALLINT: case AMQP_SMALLLONG: *n = (int8_t) *p; return true;
    case AMQP_USHORT: *n = be16(p); return true;
    case AMQP_SHORT: *n = (int16_t) be16(p); return true;
    case AMQP_UINT: *n = be32(p); return true;
    case AMQP_INT: *n = (int32_t) be32(p); return true;
    case AMQP_LONG: *n = (int64_t) be64(p); return true;
    case AMQP_ULONG:
        if (*p >> 7) return false;
        *n = (int64_t) be64(p);
        return true;
    default: return false;
    }
}

/* A uint in any of its forms. */
static inline bool amqp_uint(amqp_value v, uint32_t *n)
{
    switch (amqp_code_of(v)) {
    case AMQP_UINT0: *n = 0; return true;
    case AMQP_SMALLUINT: *n = v.at[1]; return true;
    case AMQP_UINT: *n = be32(v.at + 1); return true;
    default: return false;
    }
}

static inline bool amqp_boolean(amqp_value v, bool *truth)
{
    uint8_t code = amqp_code_of(v);
    *truth = code == AMQP_TRUE || (code == AMQP_BOOLEAN && v.at[1] == 1);
    return code == AMQP_BOOLEAN ? v.at[1] <= 1 : amqp_is_boolean(code);
}

/* ---- lists, maps, arrays ---- */

/* The items of a compound of that kind and its stated `count`.  False: it is of another kind. */
static inline bool amqp_items(amqp_value v, uint8_t short_code, amqp_cursor *items, uint32_t *count)
{
    if (amqp_short_code(amqp_code_of(v)) != short_code) return false;
    bool wide = *v.at & AMQP_WIDE;
    size_t head = wide ? 9 : 3;
    if (v.size < head) return false;
    *count = wide ? be32(v.at + 5) : v.at[2];
    *items = (amqp_cursor) { v.at + head, v.at + v.size };
    return true;
}

static inline bool amqp_list(amqp_value v, amqp_cursor *items, uint32_t *count)
{
    if (amqp_code_of(v) != AMQP_LIST0) return amqp_items(v, AMQP_LIST8, items, count);
    *items = (amqp_cursor) { v.at + 1, v.at + 1 };
    *count = 0;
    return true;
}

/* `count`: keys and values. */
static inline bool amqp_map(amqp_value v, amqp_cursor *items, uint32_t *count)
{
    return amqp_items(v, AMQP_MAP8, items, count);
}

/* `code`: the constructor that all elements share. */
static inline bool amqp_array(amqp_value v, amqp_cursor *elements, uint32_t *count, uint8_t *code)
{
    if (!amqp_items(v, AMQP_ARRAY8, elements, count) || elements->at == elements->end) return false;
    *code = *elements->at++;
    return true;
}

/* The content of an array's next element; `at` NULL: it is truncated, or of a compound type. */
static inline amqp_octets amqp_element(amqp_cursor *elements, uint8_t code)
{
    size_t left = (size_t) (elements->end - elements->at), head = amqp_is_fixed(code) ? 0 : amqp_head(code) - 1, size;
    if (code < AMQP_NULL || left < head) return (amqp_octets) { NULL, 0 };
    size = head == 0 ? amqp_width[code >> 4] : head == 1 ? *elements->at : be32(elements->at);
    if (size > left - head) return (amqp_octets) { NULL, 0 };
    const uint8_t *at = elements->at + head;
    elements->at = at + size;
    return (amqp_octets) { at, (uint32_t) size };
}

/* ---- writing ---- */

/* A value of a fixed width up to 8 octets from the low bits of `bits`. */
static inline uint8_t *amqp_put(uint8_t *to, uint8_t code, uint64_t bits)
{
    *to = code;
    return be_put(to + 1, bits, amqp_width[code >> 4]);
}

/* The descriptor of an AMQP type, whose number takes one octet. */
static inline uint8_t *amqp_put_descriptor(uint8_t *to, uint8_t number)
{
    const uint8_t octets[3] = { AMQP_DESCRIBED, AMQP_SMALLULONG, number };
    memcpy(to, octets, 3);
    return to + 3;
}

/* The size of a string, symbol or binary of `size` octets in its shortest form. */
static inline uint32_t amqp_octets_size(uint32_t size) { return size + (size > AMQP_SHORT_MAX ? 5 : 2); }

/* The constructor and size before `size` octets: in the form of `code`, or in the shortest one. */
static inline uint8_t *amqp_put_head(uint8_t *to, uint8_t code, uint32_t size)
{
    *to = code;
    if (code & AMQP_WIDE) return be32_put(to + 1, size);
    to[1] = (uint8_t) size;
    return to + 2;
}

static inline uint8_t *amqp_put_shortest_head(uint8_t *to, uint8_t short_code, uint32_t size)
{
    if (size > AMQP_SHORT_MAX) return amqp_put_head(to, short_code | AMQP_WIDE, size);
    return amqp_put_head(to, short_code, size);
}

static inline uint8_t *amqp_put_octets(uint8_t *to, uint8_t code, const void *bytes, uint32_t size)
{
    to = amqp_put_head(to, code, size);
    if (size) memcpy(to, bytes, size);
    return to + size;
}

static inline uint8_t *amqp_put_shortest(uint8_t *to, uint8_t short_code, const void *bytes, uint32_t size)
{
    to = amqp_put_shortest_head(to, short_code, size);
    if (size) memcpy(to, bytes, size);
    return to + size;
}

/* Lists, maps and arrays around `size` octets of items. */
static inline bool amqp_items_short(uint32_t size, uint32_t count)
{
    return size < AMQP_SHORT_MAX && count <= AMQP_SHORT_MAX;
}

static inline uint32_t amqp_items_size(uint32_t size, uint32_t count)
{
    return size + (amqp_items_short(size, count) ? 3 : 9);
}

static inline uint8_t *amqp_put_items_head(uint8_t *to, uint8_t code, uint32_t size, uint32_t count)
{
    if (code & AMQP_WIDE) return be32_put(amqp_put_head(to, code, size + 4), count);
    to = amqp_put_head(to, code, size + 1);
    *to = (uint8_t) count;
    return to + 1;
}

static inline uint8_t *amqp_put_shortest_items_head(uint8_t *to, uint8_t short_code, uint32_t size, uint32_t count)
{
    return amqp_put_items_head(to, amqp_items_short(size, count) ? short_code : short_code | AMQP_WIDE, size, count);
}

#endif
