/* The deliveries of a receiver's link that goes, in portions.
 *
 *   there --DETACH, END or the end of the connection--> leaving --egress_ends: portions--> nothing is left: it is lost
 *
 * A leaving link writes no more TRANSFERs.  What the core still sends to it is released at once, or dropped if it came
 * settled.  The frames of its connection wait meanwhile.  Whoever loses a link without such portions ends all that is
 * left of it (egress_lost).
 */
#include "workers/amqp/amqp.h"

/* Reports the end of a delivery: as released if none of its frames was written, also if they wait for the session's
 * window, else as modified (delivery-failed). */
static void out_report_lost(pump *p, out_delivery *o)
{
    if (o->settled) {
        post_done(p, o->link, o->core, F_DROPPED);
        return;
    }
    routerd_record *r = post_update(p, o);
    bool begun = o->begun || (o->delivery && o->delivery->numbered);
    r->flags = (uint8_t) (F_SETTLED | (begun ? 0 : F_UNSENT));
    r->state = begun ? S_MODIFIED : S_RELEASED;
    r->extra = begun ? D_FAILED : 0;
}

/* Takes a link out of the lists of those that have something to send, or to tell the core. */
static void egress_stop(pump *p, worker_link *k)
{
    work_remove(p, k);
    waits_forget(p, k);
    drain_forget(p, k);
    k->starving = false;                                       /* the list names it until its next look, by its place */
}

/* Ends the deliveries of a lost link.  A receiver that is still there gets an abort; none is half written on a link
 * that was leaving. */
PRIVATE inline void egress_lost(pump *p, worker_link *k)
{
    out_delivery *o;
    bool there = k->engine && pn_link_state(k->engine) & PN_REMOTE_ACTIVE;
    egress_stop(p, k);
    while ((o = k->queue_first) || (o = k->unsettled_first)) {
        delivery *half = there && !o->sent ? o->delivery : NULL;
        out_report_lost(p, o);
        out_free(p, o);
        if (half) delivery_abort(half);
    }
}

/* Ends up to so many deliveries of a link whose receiver goes, and forgets them; returns how many: fewer if those were
 * all. */
PRIVATE uint32_t egress_ends(pump *p, worker_link *k, uint32_t most)
{
    uint32_t n = 0;
    if (!k->outgoing) return 0;
    if (!k->leaving) {
        k->leaving = true;
        egress_stop(p, k);
        if (k->session) frame_end(k);
    }
    for (out_delivery *o; n < most && ((o = k->queue_first) || (o = k->unsettled_first)); n++) {
        delivery *d = o->delivery;
        out_report_lost(p, o);
        out_free(p, o);
        if (d && k->session) delivery_drop(d);
    }
    /* of an earlier core, or settled, with octets that wait for the window */
    for (; n < most && k->session && k->deliveries; n++) delivery_drop(k->deliveries);
    return n;
}

/* Answers for a delivery that the core sends to a leaving link. */
PRIVATE void egress_decline(pump *p, const worker_link *k, const routerd_record *r)
{
    if (r->flags & F_SETTLED) {
        post_done(p, k, r->peer, F_DROPPED);
        return;
    }
    routerd_record *u = post_link(p, A_UPDATE, k);
    u->delivery = r->peer;
    u->flags = F_SETTLED | F_UNSENT;
    u->state = S_RELEASED;
}
