/* Payloads: octets in our arena, or in another's, that a record names. */
#include <stdlib.h>
#include <string.h>

#include "workers/amqp/amqp.h"

#define CONTROL_PART 4u                /* of the arena: a longer control message is refused */

/* Stores octets in our arena; returns their head block, or ROUTERD_NIL. */
PRIVATE uint32_t octets_store(pump *p, const void *bytes, size_t size)
{
    arena_writer w;
    if (!chain_begin(&p->arena, &w, ARENA_SMALL)) return ROUTERD_NIL;
    if (!chain_write(&p->arena, &w, ARENA_SMALL, bytes, size)) {
        arena_free_chain(&p->arena, w.head);
        return ROUTERD_NIL;
    }
    chain_publish(&p->arena, &w, CONTENT_COMPLETE);
    return w.head;
}

/* The size of a payload, 0 if there is none. */
GLUE uint64_t payload_size(const pump *p, uint8_t arena, uint32_t block)
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

/* ---- control messages to the core ---- */

typedef struct { size_t size; uint8_t octets[]; } control_payload;

static bool control_store(pump *p, routerd_record *r, const void *bytes, size_t size)
{
    r->block = octets_store(p, bytes, size);
    r->arena = (uint8_t) p->index;
    if (r->block == ROUTERD_NIL) return false;
    r->type = A_CONTROL;
    return true;
}

/* Posts a control action: what `said` says, and a payload.  Without a block for it, it waits until the core gives some
 * back, and whatever is posted later waits behind it.  False: no arena of this size has room for it. */
GLUE bool control_post(pump *p, const routerd_record *said, const void *bytes, size_t size)
{
    routerd_record r = *said;
    r.type = A_NONE;
    bool stored = control_store(p, &r, bytes, size);
    if (!stored && size > arena_data_bytes(&p->arena.view) / CONTROL_PART) return false;
    if (!stored) {
        control_payload *kept = (control_payload *) memory_for(NULL, sizeof *kept + size);
        kept->size = size;
        memcpy(kept->octets, bytes, size);
        r.length = (uintptr_t) kept;
    }
    *(stored ? outbox_post(&p->actions) : outbox_queue(&p->actions)) = r;
    told_add(&p->told, p->actions.ring.next + p->actions.waiting);
    told_add(&p->told_by[p->teller], p->actions.ring.next + p->actions.waiting);
    return true;
}

/* Completes the control actions that have waited longest, while there are blocks, and publishes them and those behind.
 * True if anything new became visible to the core. */
GLUE bool control_complete(pump *p)
{
    bool fresh = false;
    for (routerd_record *r; (r = outbox_first(&p->actions)) && r->type == A_NONE;) {
        control_payload *kept = (control_payload *) (uintptr_t) r->length;
        if (!control_store(p, r, kept->octets, kept->size)) break;
        r->length = 0;
        free(kept);
        fresh |= outbox_publish(&p->actions);
    }
    return fresh;
}

/* Forgets the control actions that wait: the core has died. */
PRIVATE void control_forget(pump *p)
{
    for (size_t i = 0; i < p->actions.waiting; i++) {
        const routerd_record *r = &p->actions.queue[p->actions.first + i];
        if (r->type == A_NONE) free((void *) (uintptr_t) r->length);
    }
}
