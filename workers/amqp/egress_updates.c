/* Outgoing deliveries: what the core and the receiver say of them, and how they are found. */
#include <string.h>

#include "workers/amqp/amqp.h"

enum { OUTS_LEAST = 256, OUTS_MOST = 1 << 26 };                /* places of the table outs_of_core */

/* ---- finding ---- */

/* Notes where a delivery is found by the core's handle.  A link's are noted from the first record on that names one so:
 * the core does not know ours yet.  Most links have none. */
__attribute__((noinline)) PRIVATE void out_note(pump *p, const out_delivery *o)
{
    uint32_t index = routerd_handle_index(o->core);
    if (index >= OUTS_MOST) return;                            /* no core has so many: its records make no sense */
    if (index >= p->outs_room) {
        uint32_t room = p->outs_room ? p->outs_room : OUTS_LEAST;
        while (room <= index) room *= 2;
        p->outs_of_core = (uint32_t *) memory_for(p->outs_of_core, sizeof *p->outs_of_core * room);
        memset(p->outs_of_core + p->outs_room, 0, sizeof *p->outs_of_core * (room - p->outs_room));
        p->outs_room = room;
    }
    p->outs_of_core[index] = pool_index(&p->outs, o) + 1;
}

/* The delivery a record of the core names: by our handle, or by the core's own before it knows ours. */
PRIVATE inline out_delivery *egress_find(pump *p, const routerd_record *r)
{
    out_delivery *o;
    if (r->delivery) {
        o = (out_delivery *) pool_find(&p->outs, r->delivery);
        return o && o->core == r->peer ? o : NULL;
    }
    worker_link *k = (worker_link *) pool_find2(&p->links, r->link, r->link_gen);
    uint32_t index = routerd_handle_index(r->peer);
    if (!k) return NULL;
    if (!k->by_core) {
        k->by_core = true;
        for (o = k->queue_first; o; o = o->next) out_note(p, o);
        for (o = k->unsettled_first; o; o = o->next) out_note(p, o);
    }
    if (index >= p->outs_room || !p->outs_of_core[index]) return NULL;
    o = (out_delivery *) pool_at(&p->outs, p->outs_of_core[index] - 1);
    return o->slot.next_free == SLOT_USED && o->core == r->peer && o->link == k ? o : NULL;
}

/* ---- states and settlement ---- */

/* Follows the receiver's word on a delivery of an earlier core; no core hears of it. */
static void egress_forgotten(pump *p, worker_link *k, delivery *d)
{
    bool over = delivery_settled(d) || delivery_remote_state(d) >= LANE_ACCEPTED;
    delivery_clear(d);
    if (!over) return;
    delivery_settle(d);
    mark_dirty(p, k->conn);
}

/* Reports a state that settles nothing to the core: an outcome once, others if there are blocks for them.  An outcome
 * of a delivery that is still being written waits (egress_finish): the core frees the blocks of one whose outcome it
 * knows once the sender settles. */
__attribute__((noinline)) PRIVATE void egress_said(pump *p, out_delivery *o, delivery *d)
{
    bool outcome = state_is_terminal(d->state_code) && !o->outcome_known;
    if (outcome && !o->sent) return;
    uint32_t block = outcome ? ROUTERD_NIL : state_lend(p, d);
    delivery_clear(d);
    if (!outcome && block == ROUTERD_NIL) return;
    routerd_record *r = post_update(p, o);
    if (outcome) disposition_read(p, d, r);
    else state_name(p, d->state_code, block, r);
    o->outcome_known |= outcome;
}

/* Reports the receiver's state or settlement of a delivery to the core. */
PRIVATE inline void egress_updated(pump *p, worker_link *k, delivery *d)
{
    out_delivery *o = (out_delivery *) delivery_get_context(d);
    if (!delivery_updated(d)) return;
    if (!o) { egress_forgotten(p, k, d); return; }
    if (__builtin_expect(!delivery_settled(d), 0)) { egress_said(p, o, d); return; }
    routerd_record *r = post_update(p, o);
    r->state = d->state_code;
    if (__builtin_expect(r->state != S_ACCEPTED, 0)) disposition_read(p, d, r);
    delivery_clear(d);
    r->flags = F_SETTLED;
    bool sent = o->sent;
    out_free(p, o);
    if (sent) delivery_settle(d);
    else {
        delivery_abort(d);                                   /* settled before it had all of it */
        if (k->routed) routed_credit(p, k);
        if (k->queue_first || k->drain_ready) work_add(p, k);
    }
    mark_dirty(p, k->conn);
}

/* Passes a sender's state or settlement (UPDATE of the core) to the receiver. DONE answers a settlement, unless the
 * receiver's outcome has ended the delivery already. */
PRIVATE inline void egress_update(pump *p, const routerd_record *r)
{
    out_delivery *o = egress_find(p, r);
    if (!o) {
        if (r->extra & D_PAYLOAD) payload_done(p, r->arena, r->block);
        return;
    }
    if (!o->delivery && r->state && !(r->flags & F_SETTLED)) { initial_state_keep(p, o, r); return; }
    if (o->delivery && r->state) {
        disposition_write(p, o->delivery, r);
        delivery_update(o->delivery, r->state);
    }
    if (r->extra & D_PAYLOAD) payload_done(p, r->arena, r->block);
    mark_dirty(p, o->link->conn);
    if (!(r->flags & F_SETTLED)) return;
    if (!o->sent) { o->settled = true; return; }                /* still to be written: it goes out settled */
    delivery *d = o->delivery;
    if (!o->outcome_known) out_times(o, post_done(p, o->link, o->core, 0));
    out_free(p, o);
    delivery_settle(d);
}
