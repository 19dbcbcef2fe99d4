/* Links of link-route pairs: transfers pass unchanged, and the far receiver grants the credit.
 *
 * A transfer's delivery tag and state (AMQP 1.0 part 4.4.1: a transaction) go before the message's bytes in the chain,
 * so that the other end's first transfer repeats them. The router only reads the beginning of the message's bytes for
 * the priority, and its properties where policy restricts the user-id, which requires a well-formed message.
 *
 *   u16 bytes in front, u16 bytes of the tag, u32 state, the tag, the state's fields as octets
 *
 * Credit of the receiver: what it has given, less what stands in its link's list, is what the far sender may have.
 */
#include <stdlib.h>
#include <string.h>

#include "workers/amqp/amqp.h"
#include "workers/transport/transport.h"

#define ROUTED_FRONT 8u                /* bytes in front of tag and detail */
#define ROUTED_TAG_MAX 32u             /* AMQP 1.0 part 2.8.7 */
#define ROUTED_DETAIL_MAX 256u
#define ROUTED_FRONT_MAX (ROUTED_FRONT + ROUTED_TAG_MAX + ROUTED_DETAIL_MAX)

_Static_assert(ROUTED_FRONT_MAX + sizeof(arena_content) + sizeof(arena_block) < ARENA_SMALL_BYTES,
               "it stands in the head block");

GLUE const char routed_unfit[] = "the delivery's tag or state is too long";

/* ---- in ---- */

/* Writes a transfer's tag and state in front of its bytes; returns the length, 0 if it is too long. */
static uint32_t routed_front(delivery *d, uint8_t *front)
{
    uint32_t tag_length = d->tag_size, detail = 0;
    uint32_t state = d->state_code;
    if (state) {
        amqp_value fields = state_fields((amqp_value) { d->state, d->state_size });
        if (fields.size > ROUTED_DETAIL_MAX) return 0;
        memcpy(front + ROUTED_FRONT + tag_length, fields.at, fields.size);
        detail = (uint32_t) fields.size;
    }
    uint16_t size = (uint16_t) (ROUTED_FRONT + tag_length + detail), tag_size = (uint16_t) tag_length;
    memcpy(front, &size, 2);
    memcpy(front + 2, &tag_size, 2);
    memcpy(front + 4, &state, 4);
    if (tag_length) memcpy(front + ROUTED_FRONT, d->tag, tag_length);
    return size;
}

/* Scans a message's first bytes for its priority, and for its user-id if the connection restricts that. */
static enum scan_result routed_scan_part(const worker_connection *c, const uint8_t *bytes, size_t size, bool complete,
                                         scan_found *found)
{
    enum scan_result result = scan_message(bytes, size, complete && (c->user || !size), found);
    if (result == SCAN_BAD && (c->user || !size)) return SCAN_BAD;
    if (__builtin_expect(c->user != NULL, 0) && (result = security_user_id(c, bytes, found, result)) != SCAN_DONE)
        return result;
    uint8_t priority = found->priority;
    scan_message(bytes, 0, false, found);                       /* offsets are nobody's business */
    found->priority = priority;
    return size ? SCAN_DONE : SCAN_MORE;
}

/* Scans what has arrived of a long message, in its first block, or gathered if its properties reach further. */
PRIVATE inline enum scan_result routed_scan(const pump *p, const in_delivery *s, bool complete, scan_found *found)
{
    const arena_view *v = &p->arena.view;
    const worker_connection *c = s->link->conn;
    const uint8_t *bytes = (const uint8_t *) arena_content_of(v, s->writer.head) + sizeof(arena_content);
    uint16_t front;
    memcpy(&front, bytes, 2);
    uint64_t size = s->writer.written;
    uint32_t first = arena_capacity(v, s->writer.head, true);
    enum scan_result result =
        routed_scan_part(c, bytes + front, (size < first ? size : first) - front, complete && size <= first, found);
    if (result != SCAN_MORE || size <= first) return result;
    if (size > SCAN_LIMIT) size = SCAN_LIMIT;
    uint8_t *gathered = chain_gather(v, s->writer.head, size);
    if (!gathered) return scan_bad(found, "the router is out of memory");
    result = routed_scan_part(c, gathered + front, size - front, complete && size == s->writer.written, found);
    free(gathered);
    return result == SCAN_MORE && size == SCAN_LIMIT
           ? scan_bad(found, "annotations and properties are longer than 1 MiB") : result;
}

/* Writes the front of a delivery's new chain.  False: tag or state is too long. */
PRIVATE inline bool routed_begin(pump *p, in_delivery *s)
{
    uint8_t front[ROUTED_FRONT_MAX];
    uint32_t size = routed_front(s->delivery, front);
    return size && chain_write(&p->arena, &s->writer, ARENA_LARGE, front, size);
}

/* As intake_whole(). */
PRIVATE inline bool routed_whole(pump *p, worker_link *k, delivery *d, size_t size)
{
    if (!blocks_left(p)) { intake_stall(p, k); return true; }
    uint8_t front[ROUTED_FRONT_MAX];
    uint32_t before = routed_front(d, front), head = arena_alloc_head(&p->arena, arena_class_for(before + size));
    if (!before || arena_capacity(&p->arena.view, head, true) < before + size) {
        arena_free_chain(&p->arena, head);
        return false;
    }
    note_link(p, k, head);
    arena_content *c = arena_content_of(&p->arena.view, head);
    uint8_t *bytes = (uint8_t *) c + sizeof *c;
    scan_found found;
    memcpy(bytes, front, before);
    if (size) link_recv(k, (uint8_t *) bytes + before, size);
    bool settled = delivery_settled(d);
    enum scan_result result = routed_scan_part(k->conn, bytes + before, size, true, &found);
    in_delivery *s;
    if (!intake_accept(p, k, d, head, result, &found, &s)) return true;
    intake_complete(k, c, before + size, &found, s);
    post_deliver(p, k, head, s ? pool_handle(&p->ins, s) : 0, found.priority, before + size,
                 (uint8_t) (F_COMPLETE | (settled ? F_SETTLED : 0)));
    if (settled) delivery_settle(d);
    return true;
}

/* ---- out ---- */

/* Begins a delivery with its sender's tag and state.  False: the front is malformed. */
PRIVATE inline bool routed_open(const pump *p, worker_link *k, out_delivery *o, uint64_t length)
{
    uint32_t room;
    uint16_t size, tag;
    uint32_t state;
    const uint8_t *bytes = chain_read(&p->views[o->arena], &o->reader, length, &room);
    if (!bytes || room < ROUTED_FRONT) return false;
    memcpy(&size, bytes, 2);
    memcpy(&tag, bytes + 2, 2);
    memcpy(&state, bytes + 4, 4);
    if (size > room || size > ROUTED_FRONT_MAX || tag > ROUTED_TAG_MAX || size < ROUTED_FRONT + tag) return false;
    o->delivery = delivery_new(k, bytes + ROUTED_FRONT, tag, o->settled);
    delivery_set_context(o->delivery, o);
    chain_advance(&o->reader, size);
    if (!state) return true;
    delivery_say_fields(o->delivery, state, bytes + ROUTED_FRONT + tag, size - ROUTED_FRONT - tag);
    delivery_update(o->delivery, state);
    return true;
}

/* Passes on credit of the receiver that the sender does not have yet, or has given back unused. */
PRIVATE inline bool routed_credit(pump *p, worker_link *k)
{
    int32_t free = link_credit(k) - (int32_t) k->queued;
    if (free <= k->promised) return false;
    post_link(p, A_CREDIT, k)->credit = (uint32_t) (free - k->promised);
    k->promised = free;
    return true;
}

/* Handles the receiver's flow: credit or drain for the far sender. */
PRIVATE inline void routed_flow(pump *p, worker_link *k)
{
    bool more = routed_credit(p, k), drain = link_get_drain(k);
    if (drain && (more || !k->drain_asked)) post_link(p, A_DRAIN, k);
    else if (!drain && k->drain_asked && !more) post_link(p, A_CREDIT, k);      /* of 0: it wants to wait after all */
    k->drain_asked = drain;
}

/* Answers the receiver's drain after the sender has given back its credit and its last messages are sent. */
PRIVATE inline void routed_drained(pump *p, worker_link *k)
{
    if (k->promised > 0) return;
    k->drain_ready = k->drain_asked = false;
    if (link_get_drain(k)) {
        link_drained(k);
        k->promised = 0;
        mark_dirty(p, k->conn);
    } else {
        routed_credit(p, k);
    }
}
