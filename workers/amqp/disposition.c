/* Delivery states between peers and records (AMQP 1.0 part 3.4).
 *
 * accepted, released and other states without fields need no more than the record.  Any other state travels as its own
 * octets, in a payload chain: nothing of it is lost, whether the router knows the state or not.  An outcome that is too
 * long for each frame, or for which no block is left, passes without its fields; another state does not pass then.
 *
 * Control messages to the core need blocks, too, so states leave some: see `reserve`.  A delivery has its outcome once,
 * but a peer may say other states again and again.  So each of these takes a block, and those on their way are counted
 * by their connection (session/turns.c).
 */
#include <string.h>

#include "workers/amqp/amqp.h"

/* Whether a state of so many octets leaves so many blocks for others. */
static bool state_fits(const pump *p, uint32_t size, uint32_t least)
{
    uint32_t blocks = 1 + size / (ARENA_SMALL_BYTES - (uint32_t) sizeof(arena_content));
    return p->arena.free_count[0] + p->arena.free_count[1] >= least + blocks;
}

/* Writes a state into an UPDATE record, with its block if it has one. */
PRIVATE void state_name(const pump *p, uint32_t state, uint32_t block, routerd_record *r)
{
    r->state = state;
    if (block == ROUTERD_NIL) return;
    r->block = block;
    r->arena = (uint8_t) p->index;
    r->extra = D_PAYLOAD;
}

/* Stores an outcome with fields.  It may take half of the reserve, since its settlement gives the message's blocks
 * back. */
PRIVATE void state_store(pump *p, const uint8_t *octets, uint32_t size, routerd_record *r)
{
    if (state_fits(p, size, p->reserve / 2)) state_name(p, r->state, octets_store(p, octets, size), r);
}

/* Writes the peer's state of a delivery into an UPDATE record. */
PRIVATE inline void disposition_read(pump *p, delivery *d, routerd_record *r)
{
    r->state = d->state_code;
    if (r->state == S_NONE || r->state == S_ACCEPTED || r->state == S_RELEASED) return;
    if (!d->state_size || state_bare(d->state, d->state_size) || d->state_size > STATE_LONGEST) return;
    state_store(p, d->state, d->state_size, r);
}

/* ---- states that neither settle nor are the first outcome: a peer may say them again and again ---- */

#define OF_CONNECTION 0x80000000u      /* in a block's note: it names a connection, not a link */

_Static_assert(MAX_CONNECTIONS < OF_CONNECTION && MAX_LINKS < OF_CONNECTION, "notes of either kind differ");

/* Stores the peer's state of a delivery, even if it has no fields: its block comes back from whoever reads it, so those
 * on their way are counted.  ROUTERD_NIL: it is too long, or two reserves of blocks would not be left. */
PRIVATE uint32_t state_lend(pump *p, delivery *d)
{
    worker_connection *c = d->link->conn;
    uint32_t block = ROUTERD_NIL;
    if (!d->state_size || d->state_size > STATE_LONGEST) return ROUTERD_NIL;
    if (state_fits(p, d->state_size, 2 * p->reserve)) block = octets_store(p, d->state, d->state_size);
    if (block == ROUTERD_NIL) return ROUTERD_NIL;
    arena_block *b = arena_at(&p->arena.view, block);
    b->note[0] = OF_CONNECTION | pool_index(&p->conns, c);
    b->note[1] = c->slot.generation;
    c->lane->said++;
    return block;
}

/* A block has come back that has this note.  If it is a state's, its connection may say another one. */
PRIVATE void state_returned(pump *p, uint32_t connection, uint32_t generation)
{
    if (connection == ROUTERD_NIL || !(connection & OF_CONNECTION)) return;
    worker_connection *c = (worker_connection *) pool_find2(&p->conns, connection & ~OF_CONNECTION, generation);
    if (c && c->lane && c->lane->said) turn_unfill(c->lane);
}

/* Our side of a delivery says the octets of an UPDATE's payload.  False: they make no state. */
static bool disposition_load(const pump *p, delivery *d, const routerd_record *r)
{
    uint64_t size = payload_size(p, r->arena, r->block);
    if (!size || size > STATE_LONGEST) return false;
    if (!delivery_may_say(d, (uint32_t) size)) {
        if (r->state >= S_ACCEPTED && r->state <= S_MODIFIED) return false;
        delivery_say_bare(d, LANE_OTHER);
        return true;
    }
    uint8_t *octets = delivery_say_room(d, r->state, (uint32_t) size);
    if (payload_load(p, r->arena, r->block, octets, size) != (ssize_t) size
        || !lane_state_sound((amqp_value) { octets, size })) return false;
    state_share(d);
    return true;
}

/* Sets on our side of a delivery what an UPDATE record says. */
PRIVATE inline void disposition_write(pump *p, delivery *d, const routerd_record *r)
{
    if (__builtin_expect(r->state == S_ACCEPTED || r->state == S_RELEASED, 1)) return;
    if (r->extra & D_PAYLOAD && disposition_load(p, d, r)) return;
    if (r->extra & D_FAILED) delivery_fail(d);
    else delivery_say_bare(d, r->state);
}
