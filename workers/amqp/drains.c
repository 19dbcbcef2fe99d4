/* Receivers that want to drain: the core is asked whether more deliveries follow (A_DRAIN), and answers (W_DRAINED).
 *
 *   FLOW with drain --> behind the other links of its connection --drains_serve: a portion--> asked --answer--> over
 *                         --FLOW without drain--> over
 *
 * The core's answers stand in the work ring among everybody's deliveries, of which a turn serves some hundred.  So few
 * links ask in a turn, however many a peer has and however often each of them changes its mind.  Connections take
 * turns, link by link.
 */
#include "workers/amqp/amqp.h"

static void conn_wants(pump *p, worker_connection *c)
{
    c->drain_next = NULL;
    c->drain_previous = p->drain_last;
    *(p->drain_last ? &p->drain_last->drain_next : &p->drain_first) = c;
    p->drain_last = c;
}

static void conn_wants_none(pump *p, worker_connection *c)
{
    *(c->drain_previous ? &c->drain_previous->drain_next : &p->drain_first) = c->drain_next;
    *(c->drain_next ? &c->drain_next->drain_previous : &p->drain_last) = c->drain_previous;
}

/* The core is to be asked for a link. */
PRIVATE void drain_ask(pump *p, worker_link *k)
{
    worker_connection *c = k->conn;
    k->drain_asked = true;
    if (k->drain_due) return;
    k->drain_due = true;
    if (!c->drain_links) conn_wants(p, c);
    k->drain_next = NULL;
    k->drain_previous = c->drain_links_last;
    *(c->drain_links_last ? &c->drain_links_last->drain_next : &c->drain_links) = k;
    c->drain_links_last = k;
}

/* The core has been asked, or need not be. */
PRIVATE void drain_forget(pump *p, worker_link *k)
{
    worker_connection *c = k->conn;
    if (!k->drain_due) return;
    k->drain_due = false;
    *(k->drain_previous ? &k->drain_previous->drain_next : &c->drain_links) = k->drain_next;
    *(k->drain_next ? &k->drain_next->drain_previous : &c->drain_links_last) = k->drain_previous;
    if (!c->drain_links) conn_wants_none(p, c);
}

/* A receiver has said whether it drains. */
PRIVATE void drain_heard(pump *p, worker_link *k)
{
    const bool drain = link_get_drain(k);
    if (drain && !k->drain_asked) drain_ask(p, k);
    if (drain || !k->drain_due) return;
    drain_forget(p, k);
    k->drain_asked = false;
}

/* Asks for the links of a turn. */
PRIVATE void drains_serve(pump *p)
{
    worker_connection *c;
    for (uint32_t n = 0; n < DRAINS_MOST && (c = p->drain_first); n++) {
        worker_link *k = c->drain_links;
        drain_forget(p, k);
        post_link(p, A_DRAIN, k);
        if (!c->drain_links) continue;
        conn_wants_none(p, c);
        conn_wants(p, c);
    }
}
