/* Delivery states between the engine and records (AMQP 1.0 part 3.4).
 *
 * accepted, released and plain modified need no more than the record.  What has more to say - rejected with an error,
 * modified with annotations, a state the router does not know - travels as a payload chain:
 *
 *   rejected   u32 length, condition; u32 length, description; the info map as octets (may be empty)
 *   others     the annotations map, or the state's fields, as octets
 */
#include <string.h>

#include "workers/amqp/amqp.h"

#define DETAIL_LIMIT 8192u             /* a longer detail is left out: the outcome itself always passes */

PRIVATE inline bool detail_text(uint8_t *buffer, size_t *size, const char *text)
{
    uint32_t n = text ? (uint32_t) strlen(text) : 0;
    if (*size + 4 + n > DETAIL_LIMIT) return false;
    memcpy(buffer + *size, &n, 4);
    if (n) memcpy(buffer + *size + 4, text, n);
    *size += 4 + n;
    return true;
}

static bool detail_octets(uint8_t *buffer, size_t *size, amqp_octets octets)
{
    uint32_t n = octets.size;
    if (*size + 4 + n > DETAIL_LIMIT) return false;
    memcpy(buffer + *size, &n, 4);
    if (n) memcpy(buffer + *size + 4, octets.at, n);
    *size += 4 + n;
    return true;
}

static bool detail_value(uint8_t *buffer, size_t *size, amqp_value v)
{
    if (!v.at || *v.at == AMQP_NULL) return true;
    if (*size + v.size > DETAIL_LIMIT) return false;
    memcpy(buffer + *size, v.at, v.size);
    *size += v.size;
    return true;
}

/* Stores a payload in our arena and names it in the record. */
GLUE bool payload_store(pump *p, const void *bytes, size_t size, routerd_record *r)
{
    arena_writer w;
    if (!chain_begin(&p->arena, &w, ARENA_SMALL)) return false;
    if (!chain_write(&p->arena, &w, ARENA_SMALL, bytes, size)) {
        arena_free_chain(&p->arena, w.head);
        return false;
    }
    chain_publish(&p->arena, &w, CONTENT_COMPLETE);
    r->block = w.head;
    r->arena = (uint8_t) p->index;
    return true;
}

/* Copies a payload; returns its size, or -1 if it is broken or larger than the buffer. */
GLUE ssize_t payload_load(const pump *p, uint8_t arena, uint32_t block, uint8_t *buffer, size_t limit)
{
    if (arena > p->workers) return -1;
    const arena_view *v = &p->views[arena];
    const arena_content *c = arena_content_of(v, block);
    if (!c) return -1;
    uint64_t length = chain_length(c);
    if (length > limit) return -1;
    arena_reader reader;
    chain_open(&reader, block);
    while (reader.position < length) {
        uint32_t n;
        const uint8_t *from = chain_read(v, &reader, length, &n);
        if (!from) return -1;
        memcpy(buffer + reader.position, from, n);
        chain_advance(&reader, n);
    }
    return (ssize_t) length;
}

/* Gives back a payload that has been read. */
PRIVATE inline void payload_done(pump *p, uint8_t arena, uint32_t block)
{
    routerd_record *r = post_action(p);
    r->type = A_FREE;
    r->arena = arena;
    r->block = block;
    r->link = ROUTERD_NIL;
}

static amqp_value item_of(amqp_cursor *items, uint32_t *count)
{
    if (!*count) return (amqp_value) { NULL, 0 };
    --*count;
    return amqp_next(items);
}

static bool detail_error_of(uint8_t *buffer, size_t *size, amqp_value error)
{
    amqp_cursor items;
    uint32_t count;
    if (!error.at || !amqp_list(state_fields(error), &items, &count)) return true;
    amqp_value name = item_of(&items, &count), text = item_of(&items, &count);
    return detail_octets(buffer, size, amqp_any_octets(name)) && detail_octets(buffer, size, amqp_any_octets(text))
           && detail_value(buffer, size, item_of(&items, &count));
}

/* Writes the peer's state of a delivery into an UPDATE record. */
PRIVATE inline void disposition_read(pump *p, delivery *d, routerd_record *r)
{
    uint8_t buffer[DETAIL_LIMIT];
    size_t size = 0;
    bool fits = true, failed = false, undeliverable = false;
    r->state = d->state_code;
    if (r->state == S_NONE || r->state == S_ACCEPTED || r->state == S_RELEASED) return;
    amqp_value fields = state_fields((amqp_value) { d->state, d->state_size });
    amqp_cursor items;
    uint32_t count, section;
    int64_t offset;
    if (!amqp_list(fields, &items, &count)) return;
    switch (r->state) {
    case S_RECEIVED:
        if (amqp_uint(item_of(&items, &count), &section)) r->extra = (uint64_t) section << 8;
        if (amqp_integer(item_of(&items, &count), &offset)) r->length = (uint64_t) offset;
        return;
    case S_REJECTED:
        if (!count) return;
        fits = detail_error_of(buffer, &size, item_of(&items, &count));
        break;
    case S_MODIFIED:
        amqp_boolean(item_of(&items, &count), &failed);
        amqp_boolean(item_of(&items, &count), &undeliverable);
        r->extra = (failed ? D_FAILED : 0) | (undeliverable ? D_UNDELIVERABLE : 0);
        fits = detail_value(buffer, &size, item_of(&items, &count));
        break;
    default:
        fits = detail_value(buffer, &size, fields);
    }
    if (fits && size && payload_store(p, buffer, size, r)) r->extra |= D_PAYLOAD;
}

/* Sets on our side of a delivery what an UPDATE record says besides the state itself. */
PRIVATE inline void disposition_write(pump *p, delivery *d, const routerd_record *r)
{
    uint8_t buffer[DETAIL_LIMIT], made[DETAIL_LIMIT + 64], *at;
    ssize_t size = 0;
    if (__builtin_expect(r->state == S_ACCEPTED || r->state == S_RELEASED, 1)) return;
    if (r->extra & D_PAYLOAD) size = payload_load(p, r->arena, r->block, buffer, sizeof buffer);
    if (size < 0) size = 0;
    at = made;
    switch (r->state) {
    case S_RECEIVED:
        at = amqp_put(at, AMQP_UINT, (uint32_t) (r->extra >> 8));
        at = amqp_put(at, AMQP_ULONG, r->length);
        delivery_say_list(d, r->state, made, (uint32_t) (at - made), 2);
        return;
    case S_REJECTED: {
        uint32_t name = 0, text = 0;
        if (size < 8) { delivery_say_list(d, r->state, NULL, 0, 0); return; }
        memcpy(&name, buffer, 4);
        if (name > (size_t) size - 8) return;
        memcpy(&text, buffer + 4 + name, 4);
        if (text > (size_t) size - 8 - name) return;
        uint32_t rest = (uint32_t) size - 8 - name - text;
        at = amqp_put_shortest(at, AMQP_SYMBOL8, buffer + 4, name);
        if (text) at = amqp_put_shortest(at, AMQP_STRING8, buffer + 8 + name, text);
        else *at++ = AMQP_NULL;
        memcpy(at, buffer + 8 + name + text, rest);
        uint32_t inner = (uint32_t) (at + rest - made), head = 3 + (amqp_items_short(inner, rest ? 3 : 2) ? 3 : 9);
        memmove(made + head, made, inner);
        amqp_put_shortest_items_head(amqp_put_descriptor(made, 0x1d), AMQP_LIST8, inner, rest ? 3 : 2);
        delivery_say_list(d, r->state, made, head + inner, 1);
        return;
    }
    case S_MODIFIED:
        at = amqp_put(at, r->extra & D_FAILED ? AMQP_TRUE : AMQP_FALSE, 0);
        at = amqp_put(at, r->extra & D_UNDELIVERABLE ? AMQP_TRUE : AMQP_FALSE, 0);
        memcpy(at, buffer, (size_t) size);
        delivery_say_list(d, r->state, made, 2 + (uint32_t) size, size ? 3 : 2);
        return;
    default:
        delivery_say_fields(d, r->state, buffer, (uint32_t) size);
    }
}
