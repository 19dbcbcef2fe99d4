/* Links of link-route pairs: transfers pass unchanged, and the far receiver grants the credit.
 *
 * What a delivery's first transfer says goes before the message's bytes in the chain, so that the other end's first
 * transfer repeats it: the delivery tag, rcv-settle-mode, and the state (AMQP 1.0 part 4.4.1: a transaction) as its own
 * octets. The router only reads the beginning of the message's bytes for the priority, and its properties where policy
 * restricts the user-id, which requires a well-formed message.
 *
 *   u32 bytes in front, u8 bytes of the tag, u8 rcv-settle-mode, u16 0, the tag, the state
 *
 * All of it but the state is in the head block, which has room for that much.
 *
 * Credit of the receiver: what it has given, less the deliveries of its link's list that have not begun, is what the
 * far sender may have.  What the receiver takes back is taken from the far sender, and more if that had been used.
 */
#include <stdlib.h>
#include <string.h>

#include "workers/amqp/amqp.h"
#include "workers/transport/transport.h"

#define ROUTED_FRONT_MAX (sizeof(routed_front) + LANE_TAG_MAX)

typedef struct {                       /* its tag and its state follow */
    uint32_t size;                     /* of all in front of the message */
    uint8_t tag_size;
    uint8_t mode;                      /* enum lane_settle_mode */
    uint16_t reserved;
} routed_front;

_Static_assert(ROUTED_FRONT_MAX + sizeof(arena_content) + sizeof(arena_block) < ARENA_SMALL_BYTES,
               "a head block of each class has room for it");

GLUE const char routed_unfit[] = "the delivery's state is too long";

/* ---- in ---- */

static routed_front routed_front_of(const delivery *d)
{
    uint32_t size = (uint32_t) sizeof(routed_front) + d->tag_size + d->state_size;
    return (routed_front) { .size = size, .tag_size = (uint8_t) d->tag_size, .mode = d->settle_mode };
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

/* The octets of a chain that are not the message's. */
PRIVATE inline uint64_t routed_before(const pump *p, const in_delivery *s)
{
    uint32_t size = 0;
    if (s->link->routed && s->writer.head != ROUTERD_NIL)
        memcpy(&size, arena_content_of(&p->arena.view, s->writer.head) + 1, sizeof size);
    return size;
}

/* Scans what has arrived of a long message, in its first block, or gathered if its properties reach further. */
PRIVATE inline enum scan_result routed_scan(const pump *p, const in_delivery *s, bool complete, scan_found *found)
{
    const arena_view *v = &p->arena.view;
    const worker_connection *c = s->link->conn;
    const uint8_t *bytes = (const uint8_t *) (arena_content_of(v, s->writer.head) + 1);
    uint64_t front = routed_before(p, s), first = arena_capacity(v, s->writer.head, true), size = s->writer.written;
    enum scan_result result = front > first ? SCAN_MORE
        : routed_scan_part(c, bytes + front, (size < first ? size : first) - front, complete && size <= first, found);
    if (result != SCAN_MORE || size <= first) return result;
    if (size > SCAN_LIMIT) size = SCAN_LIMIT;
    uint8_t *gathered = chain_gather(v, s->writer.head, size);
    if (!gathered) return scan_bad(found, "the router is out of memory");
    result = routed_scan_part(c, gathered + front, size - front, complete && size == s->writer.written, found);
    free(gathered);
    if (found->need < SCAN_LIMIT) found->need += (uint32_t) front;     /* a section may claim as many as it likes */
    return result == SCAN_MORE && size == SCAN_LIMIT
           ? scan_bad(found, "annotations and properties are longer than 1 MiB") : result;
}

/* Begins a delivery's chain with what stands before the message.  False: no block is left, so it is not begun. */
PRIVATE inline bool routed_begin(pump *p, in_delivery *s)
{
    const delivery *d = s->delivery;
    routed_front front = routed_front_of(d);
    arena_writer *w = &s->writer;
    if (chain_write(&p->arena, w, ARENA_LARGE, &front, sizeof front)
        && chain_write(&p->arena, w, ARENA_LARGE, d->tag, d->tag_size)
        && chain_write(&p->arena, w, ARENA_LARGE, d->state, d->state_size)) return true;
    arena_free_chain(&p->arena, w->head);
    w->head = ROUTERD_NIL;
    return false;
}

/* As intake_whole(). */
PRIVATE inline bool routed_whole(pump *p, worker_link *k, delivery *d, size_t size)
{
    if (!blocks_left(p)) { intake_stall(p, k); return true; }
    routed_front front = routed_front_of(d);
    uint32_t before = front.size, head = arena_alloc_head(&p->arena, arena_class_for(before + size));
    if (arena_capacity(&p->arena.view, head, true) < before + size) {
        arena_free_chain(&p->arena, head);
        return false;
    }
    note_delivery(p, d, head);
    arena_content *c = arena_content_of(&p->arena.view, head);
    uint8_t *bytes = (uint8_t *) c + sizeof *c;
    scan_found found;
    memcpy(bytes, &front, sizeof front);
    memcpy(bytes + sizeof front, d->tag, d->tag_size);
    if (d->state_size) memcpy(bytes + sizeof front + d->tag_size, d->state, d->state_size);
    if (size) link_recv(k, (uint8_t *) bytes + before, size);
    bool settled = delivery_settled(d);
    enum scan_result result = routed_scan_part(k->conn, bytes + before, size, true, &found);
    result = security_sections(k->conn, bytes + before, size, &found, result);
    in_delivery *s;
    if (!intake_accept(p, k, d, head, result, &found, &s)) return true;
    intake_complete(k, c, before + size, &found, s);
    post_deliver(p, k, head, s ? pool_handle(&p->ins, s) : 0, found.priority, before + size,
                 (uint8_t) (F_COMPLETE | (settled ? F_SETTLED : 0)));
    if (settled) delivery_settle(d);
    return true;
}

/* ---- out ---- */

/* Reads a state from a chain.  False: it is malformed. */
__attribute__((noinline)) static bool routed_state(const pump *p, out_delivery *o, uint64_t length, uint32_t size)
{
    delivery *d = o->delivery;
    uint8_t *octets = delivery_say_room(d, 0, size);
    for (uint32_t there = 0, n; there < size; there += n) {
        const uint8_t *from = chain_read(&p->views[o->arena], &o->reader, length, &n);
        if (!from) return false;
        if (n > size - there) n = size - there;
        memcpy(octets + there, from, n);
        chain_advance(&o->reader, n);
    }
    amqp_value state = { octets, size };
    if (!lane_state_sound(state)) return false;
    d->local_code = lane_state_code(state);
    delivery_update(d, d->local_code);
    return true;
}

/* Whether a delivery's first transfer fits a frame.  It must say the whole state unless that is an outcome: without its
 * transaction it would be another transfer. */
PRIVATE inline bool routed_fits(const delivery *d)
{
    return state_said(d).size + LANE_TRANSFER_MAX <= d->link->session->connection->max_frame
           || d->local_code == LANE_REJECTED || d->local_code == LANE_MODIFIED;
}

/* Begins a delivery with what its sender's first transfer says.  False: the chain is malformed. */
__attribute__((noinline)) PRIVATE bool routed_open(const pump *p, worker_link *k, out_delivery *o, uint64_t length)
{
    uint32_t room;
    routed_front front;
    const uint8_t *bytes = chain_read(&p->views[o->arena], &o->reader, length, &room);
    if (!bytes || room < sizeof front) return false;
    memcpy(&front, bytes, sizeof front);
    uint32_t before = (uint32_t) sizeof front + front.tag_size;
    if (before > room || front.tag_size > LANE_TAG_MAX || front.size < before || front.size > length
        || front.size - before > STATE_LONGEST || front.mode > LANE_SECOND) return false;
    o->delivery = delivery_new(k, bytes + sizeof front, front.tag_size, o->settled);
    o->delivery->format = arena_at(&p->views[o->arena], o->reader.head)->format;
    if (front.mode) {
        o->delivery->laden = true;
        o->delivery->settle_mode = front.mode;
    }
    delivery_set_context(o->delivery, o);
    chain_advance(&o->reader, before);
    return front.size == before || routed_state(p, o, length, front.size - before);
}

/* Tells the far sender of all credit that it has not; true: there was some. */
static bool routed_grant(pump *p, worker_link *k)
{
    bool begun = k->queue_first && k->queue_first->delivery;   /* its credit is used already, or kept for it */
    int32_t free = link_credit(k) - (int32_t) (k->queued - begun);
    if (free == k->promised) return false;
    for (int64_t left = (int64_t) free - k->promised; left;) {
        int32_t change = left > INT32_MAX ? INT32_MAX : left < -INT32_MAX ? -INT32_MAX : (int32_t) left;
        post_link(p, A_CREDIT, k)->credit = (uint32_t) change;
        left -= change;
    }
    k->promised = free;
    return true;
}

/* A delivery took no credit of the receiver: the far sender has it again, and is asked to use it up as well if the
 * receiver wants that. */
PRIVATE inline void routed_credit(pump *p, worker_link *k)
{
    if (routed_grant(p, k) && k->drain_asked) post_link(p, A_DRAIN, k);
}

/* Credit has come back unused from the far sender. */
PRIVATE inline void routed_returned(worker_link *k, uint32_t credit)
{
    int64_t left = (int64_t) k->promised - credit;
    k->promised = left < -INT32_MAX / 2 ? -INT32_MAX / 2 : (int32_t) left;
}

/* Handles the receiver's flow: credit or drain for the far sender. */
PRIVATE inline void routed_flow(pump *p, worker_link *k)
{
    bool changed = routed_grant(p, k), drain = link_get_drain(k);
    if (drain && (changed || !k->drain_asked)) post_link(p, A_DRAIN, k);
    else if (!drain && k->drain_asked && !changed) post_link(p, A_CREDIT, k);   /* of 0: it wants to wait after all */
    k->drain_asked = drain;
}

/* Answers the receiver's drain once the sender has given back its credit, and its last messages are sent: these may
 * arrive after its answer. */
PRIVATE inline void routed_drained(pump *p, worker_link *k)
{
    if (k->promised > 0 && link_get_drain(k)) return;
    k->drain_ready = k->drain_asked = false;
    if (link_get_drain(k)) {
        link_drained(k);
        mark_dirty(p, k->conn);
    }
    routed_grant(p, k);
}
