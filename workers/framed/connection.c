/* The life of a framed connection (framed.c), and the core's work records for its links.
 *
 * There is no handshake: an accepted connection is open at once, an outgoing one as soon as its socket is connected.
 * Python then attaches its links, and the worker reads nothing before the core has accepted the incoming ones.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "workers/framed/framed.h"
#include "workers/amqp/amqp.h"
#include "workers/transport/transport.h"

#define FRAMED_CONNECT_MS 10000         /* until a connection that we make is there */

PRIVATE inline void framed_free(pump *p, worker_connection *c)
{
    framed_connection *x = c->framed;
    long_unqueue(p, c);
    long_give(p, c, FRAMED_IN, 0);
    long_give(p, c, FRAMED_OUT, 0);
    free(x->in);
    free(x->rest);
    free(x->gathered);
    free(x->sids);
    free(x->name);
    free(x);
}

/* Makes a connection on an accepted or connecting socket; NULL: no room. */
GLUE worker_connection *framed_new(pump *p, int fd, uint16_t listener, bool dialled)
{
    int one = 1;
    const framed_protocol *speaks = p->listeners[listener].framed->speaks;
    framed_connection *x = (framed_connection *) calloc(1, sizeof *x);
    uint8_t *in = (uint8_t *) malloc(FRAMED_BUFFER);
    worker_connection *c = x && in && framed_prepare(p, speaks)
        ? (worker_connection *) pool_take(&p->conns, sizeof(worker_connection)) : NULL;
    if (!c) {
        free(in);
        free(x);
        return NULL;
    }
    p->listeners[listener].used++;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    x->in = in;
    x->room = FRAMED_BUFFER;
    x->speaks = speaks;
    x->connecting = dialled;
    c->framed = x;
    c->fd = fd;
    c->listener = listener;
    c->link_first = ROUTERD_NIL;
    c->dialled = c->want_write = dialled;
    c->opened = !dialled;
    if (dialled) c->deadline = p->now_ms + FRAMED_CONNECT_MS;
    else stats_add(p->stats, N_CONNECTIONS_ACCEPTED, 1);
    for (uint32_t i = 0; i < ROUTERD_PRIORITIES; i++) c->work_first[i] = c->work_last[i] = ROUTERD_NIL;
    trace_apply(p, c);
    framed_watch(p, c);
    stats_set(p->stats, N_CONNECTIONS, p->conns.used);
    pump_crowd(p);
    return c;
}

/* Opens a connection whose socket is connected, or closes one whose attempt has failed. */
static void framed_connected(pump *p, worker_connection *c)
{
    int why = 0;
    socklen_t size = sizeof why;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &why, &size) != 0) why = errno;
    if (why) { framed_close(p, c, strerror(why)); return; }
    size = sizeof c->peer;
    getpeername(c->fd, (struct sockaddr *) &c->peer, &size);
    c->framed->connecting = false;
    c->opened = true;
    c->deadline = 0;
    p->on_event(p->self, EV_FRAMED_OPEN, c, NULL, NULL, NULL);
}

/* What has become of a socket.  True: there is something to be read. */
PRIVATE inline bool framed_event(pump *p, worker_connection *c, uint32_t events)
{
    if (c->failed) return false;
    mark_dirty(p, c);
    if (c->framed->connecting) {
        if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) {
            c->want_write = false;
            framed_connected(p, c);
            framed_watch(p, c);
        }
        return false;
    }
    if (events & EPOLLOUT) {
        c->want_write = false;
        framed_watch(p, c);
    }
    if (c->reading && events & (EPOLLIN | EPOLLHUP | EPOLLERR)) return true;
    if (events & EPOLLERR) framed_close(p, c, "the connection is broken");
    return false;
}

/* Serves a connection that has input, output or new credit. */
PRIVATE inline void framed_serve(pump *p, worker_connection *c)
{
    framed_connection *x = c->framed;
    if (c->failed || x->connecting) return;
    if (x->wants) framed_work(p, x);
    x->wants = false;
    if (!c->reading) framed_input(p, c);
    if (!c->failed) framed_output(p, c);
    if (!x->wants) long_unqueue(p, c);
}

PRIVATE inline void framed_sweep(pump *p, worker_connection *c)
{
    if (c->framed->lent[FRAMED_IN] || c->framed->lent[FRAMED_OUT]) long_sweep(p, c);
    if (!c->deadline || p->now_ms < c->deadline) return;
    c->deadline = 0;
    framed_close(p, c, "no answer in time");
}

/* ---- links ---- */

/* Makes a link of a connection; NULL: no room. */
GLUE worker_link *framed_link(pump *p, worker_connection *c, bool outgoing)
{
    worker_link *k = link_begin(p, c, outgoing);
    if (!k) return NULL;
    k->framed = true;
    k->known = true;
    return k;
}

/* ---- records of the core ---- */

/* Handles a frame's outcome: it is counted, because the protocol has no answer for the sender. */
PRIVATE inline void framed_outcome(pump *p, in_delivery *s, const routerd_record *r)
{
    if (r->peer) s->core = r->peer;
    if (r->state > S_ACCEPTED && r->state <= S_MODIFIED && !s->outcome_sent) {
        s->outcome_sent = true;
        stats_add(p->stats, s->link->conn->framed->speaks->undelivered, 1);
    }
    if (!(r->flags & F_SETTLED)) return;
    mark_dirty(p, s->link->conn);
    if (s->complete) in_delivery_free(p, s);
    else intake_discard(p, s, false);
}

PRIVATE inline void framed_flow(pump *p, worker_link *k, const routerd_record *r)
{
    if (k->outgoing) return;
    if (r->type == W_FLOW) {
        k->credit += (int32_t) r->credit;
        mark_dirty(p, k->conn);
    } else if (r->type == W_DRAIN) {
        post_link(p, A_DRAINED, k)->credit = k->credit > 0 ? (uint32_t) k->credit : 0;
        k->credit = 0;
    }
}

/* Forgets a frame of a dead core; one that is still arriving is read to its end. */
PRIVATE inline void framed_forgotten(pump *p, in_delivery *s)
{
    if (s->discard) return;
    stats_add(p->stats, s->link->conn->framed->speaks->undelivered, !s->outcome_sent);
    if (s->complete) in_delivery_free(p, s);
    else intake_discard(p, s, false);
}
