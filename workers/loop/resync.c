/* A worker without a core: its connections and links stay, its deliveries end.
 *
 *   attached --pump_leave()--> detached --pump_return()--> resyncing --pump_present()--> attached
 *
 *   detached    nothing is posted; no ring and no block is touched; incoming messages wait in their links, attaches are
 *               not answered, no credit is granted; detaches and closes happen at once
 *   resyncing   the worker presents its connections and links to a new core one by one; incoming messages wait until
 *               all workers have done so, because their receivers may belong to another worker
 *
 * Prohibited: reading a block while detached (its owner takes back all of its blocks when every worker is detached),
 * and passing on a message while resyncing (the core might not know its link or its receivers).
 */
#include <string.h>

#include "workers/loop/loop.h"
#include "workers/amqp/amqp.h"
#include "workers/framed/framed.h"

/* Whether the sender has the credit of a delivery back that is still arriving: between routers it has, once the message
 * has gone on, and then there is more of it than the link ever has otherwise. */
static bool credit_is_back(worker_link *k)
{
    return (int64_t) link_credit(k) + k->owed > (k->grows ? ROUTERD_LINK_CREDIT_MOST : k->capacity);
}

/* Settles an incoming delivery as modified (delivery-failed), unless its sender has an outcome.  The rest of a message
 * that is still arriving is read and dropped, and this worker gives its credit back unless the dead core has. */
static void detach_incoming(pump *p, in_delivery *s)
{
    delivery *d = s->delivery;
    if (s->link->framed) { framed_forgotten(p, s); return; }
    bool settled = s->posted ? s->settled : delivery_settled(d);
    if (s->discard || (!s->posted && s->writer.head == ROUTERD_NIL)) return;   /* over already, or not begun */
    if (!settled && !s->outcome_sent) {
        delivery_fail(d);
        delivery_update(d, S_MODIFIED);
    }
    if (s->complete) {
        in_delivery_free(p, s);
        delivery_settle(d);
    } else {
        s->grown = false;
        intake_discard(p, s, !credit_is_back(s->link));
    }
}

/* Drops all deliveries of a link; a half-written one is aborted.  One whose receiver has said its outcome, and waits
 * for that to be settled, is settled: no core will say so.  Others are as soon as their receivers say theirs
 * (egress_updated). */
static void detach_outgoing(pump *p, worker_link *k)
{
    out_delivery *o;
    work_remove(p, k);
    while ((o = k->queue_first) || (o = k->unsettled_first)) {
        delivery *d = o->delivery;
        const bool sent = o->sent, over = o->outcome_known;
        out_free(p, o);
        if (d && !sent) delivery_abort(d);
        else if (d && over) delivery_settle(d);
    }
    drain_forget(p, k);
    k->drain_asked = k->drain_ready = false;
}

static void detach_link(pump *p, worker_link *k, bool died)
{
    if (died && k->known && !k->open && !k->router_initiated && k->outlived < UINT8_MAX) k->outlived++;
    k->known = false;
    mark_dirty(p, k->conn);
    if (k->outgoing) {
        detach_outgoing(p, k);
        return;
    }
    for (in_delivery *s = k->in_first, *next; s; s = next) {
        next = s->next;
        detach_incoming(p, s);
    }
    if (k->current && k->current->discard) intake_resume(p, k);
    if (k->framed) k->credit = 0;
    if (k->draining) {
        k->draining = false;
        link_set_drain(k, false);
        link_flow(k, 0);
    }
}

/* Leaves a core that is gone: takes its last records, then drops all that went through it.  `died`: it was not told to
 * go. */
GLUE void pump_leave(pump *p, bool died)
{
    if (p->detached) return;
    while (work_turn(p)) continue;
    p->detached = p->resting = true;
    p->grown_count = 0;
    control_forget(p);
    outbox_detach(&p->actions);
    for (uint32_t i = 0; i < p->conns.high; i++) {
        worker_connection *c = (worker_connection *) pool_at(&p->conns, i);
        if (c->slot.next_free == SLOT_USED) c->known = false;
    }
    for (uint32_t i = 0; i < p->links.high; i++) {
        worker_link *k = (worker_link *) pool_at(&p->links, i);
        if (k->slot.next_free == SLOT_USED) detach_link(p, k, died);
    }
}

/* Attaches to a new core; the rings are empty and every block is ours again. False: no memory, or broken rings. */
GLUE bool pump_return(pump *p, routerd_ring *actions, routerd_ring *work)
{
    arena_disown(&p->arena);
    for (uint32_t i = 0; i < p->links.high; i++) {
        worker_link *k = (worker_link *) pool_at(&p->links, i);
        if (k->slot.next_free != SLOT_USED) continue;
        memset(k->kept, 0, sizeof k->kept);
        memset(k->payer->kept, 0, sizeof k->kept);
    }
    for (uint32_t i = 0; i < p->conns.high; i++) {
        worker_connection *c = (worker_connection *) pool_at(&p->conns, i);
        if (c->slot.next_free != SLOT_USED) continue;
        memset(c->use.kept, 0, sizeof c->use.kept);
        if (c->lane && c->lane->said) { c->lane->said = 1; turn_unfill(c->lane); }
    }
    if (!arena_own(&p->arena, &p->views[p->index]) || !outbox_attach(&p->actions, actions)
        || !ring_consume(&p->work, work))
        return false;
    memset(&p->told, 0, sizeof p->told);
    memset(p->told_by, 0, sizeof p->told_by);
    p->detached = false;
    return true;
}

/* Returns the credit of an incoming link's sender as the core counts it. Messages that wait in the link will use it;
 * one that is being discarded will not, and its credit may be back already. */
GLUE int32_t resync_credit(worker_link *k)
{
    link_drained(k);        /* what came back unused is not in the credit any more */
    const in_delivery *s = k->current;
    int64_t credit = (int64_t) link_credit(k) + k->owed - (s && s->discard && !s->refund);
    return credit > INT32_MAX ? INT32_MAX : (int32_t) credit;
}

/* Repeats the receiver's drain to a new core that knows the link.  One that it has taken back since was asked of
 * nobody, and the next one is to be. */
GLUE void resync_link(pump *p, worker_link *k)
{
    if (!k->outgoing || !k->open) return;
    k->drain_asked = link_get_drain(k);
    if (!k->drain_asked) drain_forget(p, k);
    else if (k->routed) post_link(p, A_DRAIN, k);
    else drain_ask(p, k);
}

/* Lets messages flow after the core has learned all links, and grants the credit that was withheld meanwhile. */
GLUE void pump_present(pump *p)
{
    if (p->detached || !p->resting) return;                        /* it has died meanwhile */
    p->resting = false;
    for (uint32_t i = 0; i < p->links.high; i++) {
        worker_link *k = (worker_link *) pool_at(&p->links, i);
        if (k->slot.next_free == SLOT_USED && !k->outgoing && k->owed) credit_owed(p, k, 0);
    }
    p->freed = true;
    work_unstall(p);
}
