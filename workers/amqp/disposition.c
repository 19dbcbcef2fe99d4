/* Delivery states between the engine and records (AMQP 1.0 part 3.4).
 *
 * accepted, released and plain modified need no more than the record.  What has more to say - rejected with an error,
 * modified with annotations, a state the router does not know - travels as a payload chain:
 *
 *   rejected   u32 length, condition; u32 length, description; the info map as the engine encodes it (may be empty)
 *   others     the annotations map, or the state's fields, as the engine encodes them
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

static bool detail_data(uint8_t *buffer, size_t *size, pn_data_t *data)
{
    if (!data || !pn_data_size(data)) return true;
    if (!data_sound(data)) return false;
    ssize_t n = pn_data_encode(data, (char *) buffer + *size, DETAIL_LIMIT - *size);
    if (n < 0) return false;
    *size += (size_t) n;
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

/* Writes the peer's state of a delivery into an UPDATE record. */
PRIVATE inline void disposition_read(pump *p, pn_delivery_t *d, routerd_record *r)
{
    pn_disposition_t *remote = pn_delivery_remote(d);
    uint8_t buffer[DETAIL_LIMIT];
    size_t size = 0;
    bool fits = true;
    r->state = (uint32_t) pn_delivery_remote_state(d);
    switch (r->state) {
    case S_NONE: case S_ACCEPTED: case S_RELEASED:
        return;
    case S_RECEIVED:
        r->length = pn_disposition_get_section_offset(remote);
        r->extra = (uint64_t) pn_disposition_get_section_number(remote) << 8;
        return;
    case S_REJECTED: {
        pn_condition_t *error = pn_disposition_condition(remote);
        if (!pn_condition_is_set(error)) return;
        fits = detail_text(buffer, &size, pn_condition_get_name(error))
               && detail_text(buffer, &size, pn_condition_get_description(error));
        if (fits) detail_data(buffer, &size, pn_condition_info(error));
        break;
    }
    case S_MODIFIED:
        r->extra = (pn_disposition_is_failed(remote) ? D_FAILED : 0)
            | (pn_disposition_is_undeliverable(remote) ? D_UNDELIVERABLE : 0);
        fits = detail_data(buffer, &size, pn_disposition_annotations(remote));
        break;
    default:
        fits = detail_data(buffer, &size, pn_disposition_data(remote));
    }
    if (fits && size && payload_store(p, buffer, size, r)) r->extra |= D_PAYLOAD;
}

static void detail_error(pn_condition_t *error, const uint8_t *at, size_t size)
{
    char text[DETAIL_LIMIT + 1];
    for (int i = 0; i < 2; i++) {
        uint32_t n;
        if (size < 4) return;
        memcpy(&n, at, 4);
        if (n > size - 4) return;
        memcpy(text, at + 4, n);
        text[n] = 0;
        at += 4 + n;
        size -= 4 + n;
        if (i == 0) pn_condition_set_name(error, text);
        else if (n) pn_condition_set_description(error, text);
    }
    if (size) pn_data_decode(pn_condition_info(error), (const char *) at, size);
}

/* Replaces an earlier state's data: a delivery may get several states in turn. */
static void detail_restore(pn_data_t *data, const uint8_t *at, ssize_t size)
{
    pn_data_clear(data);
    if (size > 0) pn_data_decode(data, (const char *) at, (size_t) size);
}

/* Sets on our side of a delivery what an UPDATE record says besides the state itself. */
PRIVATE inline void disposition_write(pump *p, pn_delivery_t *d, const routerd_record *r)
{
    pn_disposition_t *local = pn_delivery_local(d);
    uint8_t buffer[DETAIL_LIMIT];
    ssize_t size = 0;
    if (r->extra & D_PAYLOAD) size = payload_load(p, r->arena, r->block, buffer, sizeof buffer);
    switch (r->state) {
    case S_RECEIVED:
        pn_disposition_set_section_offset(local, r->length);
        pn_disposition_set_section_number(local, (uint32_t) (r->extra >> 8));
        break;
    case S_REJECTED:
        if (size > 0) detail_error(pn_disposition_condition(local), buffer, (size_t) size);
        break;
    case S_MODIFIED:
        pn_disposition_set_failed(local, r->extra & D_FAILED);
        pn_disposition_set_undeliverable(local, r->extra & D_UNDELIVERABLE);
        detail_restore(pn_disposition_annotations(local), buffer, size);
        break;
    case S_ACCEPTED: case S_RELEASED:  /* they have no fields, so the engine sends none and has no room for any */
        break;
    default:
        detail_restore(pn_disposition_data(local), buffer, size);
    }
}
