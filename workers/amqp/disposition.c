/* Delivery states between peers and records (AMQP 1.0 part 3.4).
 *
 * accepted, released and other states without fields need no more than the record.  Any other state travels as its own
 * octets, in a payload chain: nothing of it is lost, whether the router knows the state or not.  One that is too long
 * for each frame, or for which no block is left, passes without its fields.
 */
#include <string.h>

#include "workers/amqp/amqp.h"

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

/* The size of a payload, 0 if there is none. */
static uint64_t payload_size(const pump *p, uint8_t arena, uint32_t block)
{
    const arena_content *c = arena <= p->workers ? arena_content_of(&p->views[arena], block) : NULL;
    return c ? chain_length(c) : 0;
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
PRIVATE inline void disposition_read(pump *p, delivery *d, routerd_record *r)
{
    r->state = d->state_code;
    if (r->state == S_NONE || r->state == S_ACCEPTED || r->state == S_RELEASED) return;
    if (state_bare(d->state, d->state_size) || d->state_size > STATE_LONGEST) return;
    if (payload_store(p, d->state, d->state_size, r)) r->extra = D_PAYLOAD;
}

/* Our side of a delivery says the octets of an UPDATE's payload.  False: they make no state. */
static bool disposition_load(const pump *p, delivery *d, const routerd_record *r)
{
    uint64_t size = payload_size(p, r->arena, r->block);
    if (!size || size > STATE_LONGEST) return false;
    uint8_t *octets = delivery_say_room(d, r->state, (uint32_t) size);
    return payload_load(p, r->arena, r->block, octets, size) == (ssize_t) size
           && lane_state_sound((amqp_value) { octets, size });
}

/* Sets on our side of a delivery what an UPDATE record says. */
PRIVATE inline void disposition_write(pump *p, delivery *d, const routerd_record *r)
{
    if (__builtin_expect(r->state == S_ACCEPTED || r->state == S_RELEASED, 1)) return;
    if (r->extra & D_PAYLOAD && disposition_load(p, d, r)) return;
    if (r->extra & D_FAILED) delivery_fail(d);
    else delivery_say_bare(d, r->state);
}
