/* The core as one end of a message: what it receives itself, and what it says.
 *
 * In the tables the core has a worker's place, number `workers` (as its arena has): its links stand there, and nothing
 * that forwards a message has to know.  Work for it waits in that place's queue; a turn that finds some stops with
 * STOP_LOCAL, and Python takes it.  What the core says as a receiver are actions like a worker's, handled at once.
 * Messages it sends are presettled and complete; their content stands in its own arena until the last copy is done.
 */
#ifndef ROUTERD_CORE_LOCAL_H
#define ROUTERD_CORE_LOCAL_H

#include "forward.h"

/* The next work for the core itself; content of its own that everybody is done with is freed here.  False: none. */
static bool local_take(core_router *c, routerd_record *r)
{
    core_queue *q = &c->worker[c->workers].overflow;
    if (!q->count) return false;
    *r = q->slot[q->head & (q->room - 1)];
    q->head++;
    q->count--;
    if ((r->type == W_RELEASE || r->flags & F_RELEASE) && r->block != ROUTERD_NIL && !arena_free_chain(&c->own, r->block)) count_bad(c);
    return true;
}

/* The link on which a message for the core came; NULL: it is gone, or has had its credit back at once. */
static inline const core_link *local_source(const core_router *c, uint64_t delivery)
{
    const core_out *out = out_find(c, c->workers, delivery);
    return out ? out->in->link : NULL;
}

/* Sends to an address that has receivers, from the link that the core has for it.  The block of the content, which comes
 * back in a W_RELEASE; ROUTERD_NIL: the arena has no room for it. */
static uint32_t local_send(core_router *c, core_link *from, core_address *to, const uint8_t *bytes, uint32_t size)
{
    uint32_t block = payload_write(c, bytes, size);
    if (block == ROUTERD_NIL) return block;
    routerd_record r = {.type = A_DELIVER, .flags = F_SETTLED | F_COMPLETE, .priority = 4, .arena = (uint8_t) c->workers, .block = block,
                        .length = size, .time = c->now};
    to->from_core++;
    c->from_core++;
    deliver_routed(c, from, &r, ROUTE_FOUND, to);
    return block;
}

#endif
