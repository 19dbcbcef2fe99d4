/* The end of connections: their links go in portions, and each connection in its turn.
 *
 * Each link and each connection that ends is a message to the core and work for Python.  So those that end have a share
 * of each turn, and wait while the core has TOLD_MOST messages to read (pump.h).
 */
#include <stdlib.h>
#include <unistd.h>

#include "workers/loop/loop.h"
#include "workers/framed/framed.h"
#include "workers/transport/transport.h"

#define ENDED_MOST 500000u             /* that share, in nanoseconds */

static void conn_forget(pump *p, worker_connection *c)
{
    if (c->dirty) {                                             /* the list must not lead through a reused place */
        uint32_t *at = &p->dirty_first, index = pool_index(&p->conns, c);
        while (*at != index) at = &((worker_connection *) pool_at(&p->conns, *at))->dirty_next;
        *at = c->dirty_next;
    }
    pool_give(&p->conns, c);
    stats_set(p->stats, N_CONNECTIONS, p->conns.used);
}

/* One without an engine. */
static void conn_free_framed(pump *p, worker_connection *c)
{
    if (c->framed->why && !c->dialled) stats_add(p->stats, N_CONNECTIONS_FAILED, 1);
    p->on_event(p->self, EV_CONNECTION_GONE, c, NULL, NULL, NULL);
    close(c->fd);
    framed_free(c->framed);
    conn_forget(p, c);
}

/* Tells Python of the end of a connection whose links are gone, and frees it. */
static void conn_free(pump *p, worker_connection *c)
{
    if ((!c->opened && !c->dialled) || pn_condition_is_set(pn_transport_condition(c->transport)))
        stats_add(p->stats, N_CONNECTIONS_FAILED, 1);
    p->on_event(p->self, EV_CONNECTION_GONE, c, NULL, c->transport, NULL);
    relay_left(c);
    trace_end(c);
    lane_free(c);
    close(c->fd);
    free(c->user);
    free(c->websocket);
    pn_connection_set_context(c->engine, NULL);
    pn_transport_unbind(c->transport);
    events_drain(p);
    pn_transport_free(c->transport);
    pn_connection_free(c->engine);
    events_drain(p);
    conn_forget(p, c);
}

/* Lets a connection wait for its turn to end, in which it is not served.  One that is to be served comes again. */
PRIVATE void ending_add(pump *p, worker_connection *c)
{
    uint32_t index = pool_index(&p->conns, c);
    if (c->dirty) return;
    c->dirty = true;
    c->dirty_next = ROUTERD_NIL;
    if (p->ending_first == ROUTERD_NIL) p->ending_first = index;
    else ((worker_connection *) pool_at(&p->conns, p->ending_last))->dirty_next = index;
    p->ending_last = index;
}

/* Ends some links of a connection; then, if no others are left, the connection, unless its peer waits for our CLOSE. */
static void conn_end(pump *p, worker_connection *c)
{
    for (int i = 0; i < PORTION && c->link_first != ROUTERD_NIL; i++)
        link_lost(p, (worker_link *) pool_at(&p->links, c->link_first), EV_LINK_LOST);
    if (c->link_first != ROUTERD_NIL) ending_add(p, c);
    else if (c->framed) conn_free_framed(p, c);
    else if (pn_transport_closed(c->transport)) conn_free(p, c);
    else mark_dirty(p, c);
}

/* Ends connections in turn, as long as there is time for that. */
PRIVATE void ending_serve(pump *p)
{
    uint64_t began = clock_ns();
    while (p->ending_first != ROUTERD_NIL && !p->actions.waiting && !core_crowded(p)) {
        worker_connection *c = (worker_connection *) pool_at(&p->conns, p->ending_first);
        p->ending_first = c->dirty_next;
        c->dirty = false;
        conn_end(p, c);
        if (clock_ns() - began > ENDED_MOST) return;
    }
}
