/* Incoming deliveries whose octets a socket is read into blocks for: intake's part of session/straight.c. */
#include "workers/amqp/amqp.h"
#include "workers/transport/transport.h"

/* How many of the next octets of a delivery, at most `most`, may be read straight into its blocks.  0: none. */
PRIVATE size_t intake_straight(pump *p, const worker_link *k, const delivery *d, size_t most)
{
    in_delivery *s = k->current;
    if (!s || s->delivery != d || k->unread_first != d || !s->posted || s->discard || d->held.size) return 0;
    if (s->body || k->walk) return 0;
    if (k->held || k->stalled || k->conn->denied || p->resting || !blocks_left(p)) return 0;
    if (p->arena.free_count[ARENA_LARGE] < p->low_large + CHAIN_AHEAD) return 0;
    uint64_t ahead = s->writer.written - s->read_to, high = hold_high(p);
    if (ahead >= high) return 0;
    if (most > high - ahead) most = high - ahead;
    const uint64_t room = stream_room(p, s);
    if (most > room) most = room;
    if (!most) return 0;
    return security_too_large(k->conn, s->writer.written - routed_before(p, s) + s->wasted + most) ? 0 : most;
}

/* Room behind the blocks of such a delivery. */
PRIVATE void intake_ahead(pump *p, const delivery *d, chain_ahead *a)
{
    chain_ahead_begin(&p->arena, &d->link->current->writer, a);
}

/* So many octets have come there; `before`: the free blocks before intake_ahead. */
PRIVATE void intake_landed(pump *p, delivery *d, chain_ahead *a, size_t size, const uint32_t before[2])
{
    worker_link *k = d->link;
    in_delivery *s = k->current;
    bool complete = !delivery_partial(d);
    chain_ahead_end(&p->arena, &s->writer, a, size);
    kept_change(p, k, before);
    if (!size) return;
    mark_dirty(p, k->conn);
    intake_post(p, k, s, complete);
    if (complete) intake_finish(p, k, s);
}
