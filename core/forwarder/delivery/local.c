/* The core as one end of a message: what it receives itself, and what it says.
 *
 * In the tables the core has a worker's place, number `workers` (as its arena has): its links stand there, and nothing
 * that forwards a message has to know.  Work for it waits in that place's queue; a turn that finds some stops with
 * STOP_LOCAL, and Python takes it.  What the core says as a receiver are actions like a worker's, handled at once.
 * Messages it sends are presettled and complete; their content stands in its own arena until the last copy is done.
 */
#include "core/forwarder/delivery/delivery.h"
#include "shm/codec/scan.h"

/* The next work for the core itself; content of its own that everybody is done with is freed here.  False: none. */
GLUE bool local_take(core_router *c, routerd_record *r)
{
    core_queue *q = &c->worker[c->workers].overflow;
    if (!q->count) return false;
    *r = q->slot[q->head & (q->room - 1)];
    q->head++;
    q->count--;
    if ((r->type == W_RELEASE || r->flags & F_RELEASE) && r->block != ROUTERD_NIL
        && !arena_free_chain(&c->own, r->block)) count_bad(c);
    return true;
}

/* Where a message's header ends: annotations for the next router go in there. */
static uint32_t local_header_end(const uint8_t *bytes, uint32_t size)
{
    static const uint8_t header[3] = {AMQP_DESCRIBED, AMQP_SMALLULONG, SECTION_HEADER};
    if (size < sizeof header || memcmp(bytes, header, sizeof header)) return 0;
    amqp_value list = amqp_take(bytes + sizeof header, bytes + size, 0);
    return list.at && amqp_is_list(*list.at) ? (uint32_t) (sizeof header + list.size) : 0;
}

/* Writes a message of our own into a block and a record that delivers it.  False: the arena has no room for it. */
static bool local_write(core_router *c, const uint8_t *bytes, uint32_t size, uint8_t priority, routerd_record *r)
{
    uint32_t block = payload_write(c, bytes, size);
    if (block == ROUTERD_NIL) return false;
    arena_content_of(&c->own.view, block)->annotations_end = local_header_end(bytes, size);
    *r = (routerd_record) {
        .type = A_DELIVER, .flags = F_SETTLED | F_COMPLETE, .priority = priority, .arena = (uint8_t) c->workers,
        .block = block, .length = size, .time = c->now,
    };
    return true;
}

/* Sends a message to an address that has receivers, from a link of the core.  `control`: only to other routers, over
 * their control links.  Returns the block of the content, which comes back in a W_RELEASE; ROUTERD_NIL: there is no
 * room. */
GLUE uint32_t local_send(core_router *c, core_link *from, core_address *to, const uint8_t *bytes, uint32_t size,
                         bool control)
{
    routerd_record r;
    if (!local_write(c, bytes, size, 4, &r)) return ROUTERD_NIL;
    to->from_core++;
    core_provenance provenance = PROVENANCE_NONE;
    provenance.control = control;
    provenance.own = control;
    deliver_routed(c, from, &r, ROUTE_FOUND, to, &provenance);
    return r.block;
}

/* Sends a message over a neighbour's control link.  Returns the same as local_send(). */
GLUE uint32_t local_tell(core_router *c, core_link *from, uint32_t neighbour, const uint8_t *bytes, uint32_t size)
{
    core_link *to = c->network.neighbour[neighbour].control;
    routerd_record r;
    if (!to || !local_write(c, bytes, size, ROUTERD_PRIORITIES - 1, &r)) return ROUTERD_NIL;
    count_in(c, from, &r);
    core_in *in = deliver_in(c, from, &r);
    core_out *out = deliver_copy(c, in, to, r.priority, 0, NULL);
    if (!out) {
        in_settle(c, in, &OUTCOME_RELEASED);
    } else {
        out->flags |= OUT_APART;
        in_forwarded(c, in);
    }
    return r.block;
}
