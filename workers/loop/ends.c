/* The end of connections: their links go in portions, and each connection in its turn.
 *
 * Each link and each connection that ends is a message to the core and work for Python, and each of their deliveries a
 * record.  So those that end have a share of each turn, and wait while the core has TOLD_MOST messages to read (see
 * pump.h).
 *
 * The engine frees a link or a session by a search in a list, and by moving all that stand behind it there: up to
 * 0.4 ms with 65,536 links.  So what it had of a connection with many of them goes out of the same share, link by link,
 * after the connection itself.
 */
#include <stdlib.h>
#include <unistd.h>

#include "workers/loop/loop.h"
#include "workers/amqp/amqp.h"
#include "workers/framed/framed.h"
#include "workers/transport/transport.h"

#define ENDED_MOST 500000u             /* that share, in nanoseconds */
#define FEW 256u                       /* links, and sessions, that the engine frees at once */

static void conn_forget(pump *p, worker_connection *c)
{
    if (c->list == LIST_ENDING) abort();                        /* it is taken off that list before it ends */
    if (c->list == LIST_DIRTY) {                                /* the list must not lead through a reused place */
        uint32_t *at = &p->dirty_first, index = pool_index(&p->conns, c);
        while (*at != index) at = &((worker_connection *) pool_at(&p->conns, *at))->dirty_next;
        *at = c->dirty_next;
    }
    p->listeners[c->listener].used--;
    pool_give(&p->conns, c);
    stats_set(p->stats, N_CONNECTIONS, p->conns.used);
}

/* One without an engine. */
static void conn_free_framed(pump *p, worker_connection *c)
{
    if (c->framed->why && !c->dialled) stats_add(p->stats, N_CONNECTIONS_FAILED, 1);
    p->on_event(p->self, EV_CONNECTION_GONE, c, NULL, NULL, NULL);
    close(c->fd);
    framed_free(p, c);
    conn_forget(p, c);
}

/* What the engine still has of a connection that is gone. */
typedef struct engine_rest { struct engine_rest *next; pn_connection_t *engine; } engine_rest;

/* Frees links, then sessions, then the connection.  False: there was no time for all of them. */
static bool engine_free(pump *p, pn_connection_t *engine, uint64_t until)
{
    pn_session_t *session;
    for (pn_link_t *link = pn_link_head(engine, 0), *next; link; link = next) {
        next = pn_link_next(link, 0);
        pn_link_free(link);
        events_drain(p);
        if (clock_ns() > until) return false;
    }
    while ((session = pn_session_head(engine, 0))) {
        pn_session_free(session);
        events_drain(p);
        if (clock_ns() > until) return false;
    }
    pn_connection_free(engine);
    events_drain(p);
    return true;
}

/* Lets the engine's connection wait to be freed. */
static void rest_later(pump *p, pn_connection_t *engine)
{
    engine_rest *rest = (engine_rest *) memory_for(NULL, sizeof *rest);
    *rest = (engine_rest) { .engine = engine };
    *(p->rest_first ? &p->rest_last->next : &p->rest_first) = rest;
    p->rest_last = rest;
}

static void rests_serve(pump *p, uint64_t until)
{
    while (p->rest_first && clock_ns() <= until && engine_free(p, p->rest_first->engine, until)) {
        engine_rest *rest = p->rest_first;
        p->rest_first = rest->next;
        free(rest);
    }
}

/* Tells Python of the end of a connection whose links are gone, and frees it. */
static void conn_free(pump *p, worker_connection *c)
{
    if (!c->dialled && (!c->opened || pn_condition_is_set(pn_transport_condition(c->transport))))
        stats_add(p->stats, N_CONNECTIONS_FAILED, 1);
    p->on_event(p->self, EV_CONNECTION_GONE, c, NULL, c->transport, NULL);
    bool few = c->lane->handle_count <= FEW && c->lane->session_count <= FEW;
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
    if (few) pn_connection_free(c->engine);
    else rest_later(p, c->engine);
    events_drain(p);
    conn_forget(p, c);
}

/* Lets a connection wait for its turn to end, in which it is not served.  One that is to be served comes again. */
PRIVATE void ending_add(pump *p, worker_connection *c)
{
    uint32_t index = pool_index(&p->conns, c);
    if (c->list) return;
    c->list = LIST_ENDING;
    c->dirty_next = ROUTERD_NIL;
    if (p->ending_first == ROUTERD_NIL) p->ending_first = index;
    else ((worker_connection *) pool_at(&p->conns, p->ending_last))->dirty_next = index;
    p->ending_last = index;
}

/* Ends some links of a connection, and so many deliveries of them at most; then, if no others are left, the connection,
 * unless its peer waits for our CLOSE. */
static void conn_end(pump *p, worker_connection *c, uint32_t *left)
{
    for (uint32_t i = 0; i < PORTION && c->link_first != ROUTERD_NIL; i++) {
        worker_link *k = (worker_link *) pool_at(&p->links, c->link_first);
        if (!(*left -= egress_ends(p, k, *left))) break;
        link_lost(p, k, EV_LINK_LOST);
    }
    if (c->link_first != ROUTERD_NIL) ending_add(p, c);
    else if (c->framed) conn_free_framed(p, c);
    else if (pn_transport_closed(c->transport)) conn_free(p, c);
    else mark_dirty(p, c);
}

/* Frees what is left of connections, and ends others in turn, as long as there is time for that. */
PRIVATE void ending_serve(pump *p)
{
    uint64_t began = clock_ns();
    uint32_t left = ENDED_DELIVERIES;
    p->teller = TELLER_ENDING;
    rests_serve(p, began + ENDED_MOST / 2);
    while (p->ending_first != ROUTERD_NIL && left && !p->actions.waiting && !core_crowded(p)) {
        worker_connection *c = (worker_connection *) pool_at(&p->conns, p->ending_first);
        p->ending_first = c->dirty_next;
        c->list = LIST_NONE;
        conn_end(p, c, &left);
        if (clock_ns() - began > ENDED_MOST) break;
    }
    p->teller = TELLER_FRAMES;
}
