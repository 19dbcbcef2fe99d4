/* Accepting connections.
 *
 * All workers share each listening socket. A worker that is woken accepts only while it has about as few connections as
 * the least loaded one; otherwise it ignores the socket for a moment, and accepts one if none of the others has. While
 * another worker has a place for a connection, one that has none left accepts nobody.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "workers/transport/transport.h"
#include "workers/framed/framed.h"

#define ACCEPT_LOOK_AWAY_MS 2          /* time for a less loaded worker to take the connection */
#define ACCEPT_MEMORY (4u << 20)       /* far more than a connection needs, because others allocate, too */
#define ACCEPT_FAILED_MS 100           /* out of descriptors or memory: do not spin on it */
#define ACCEPT_CALM_MS 1000            /* without such a failure: it is over */
#define ACCEPT_PAUSE_MS 1              /* so many connections come that their share of a turn is used up */
#define BEGUN_MOST 500000u             /* that share, handshakes with it, in nanoseconds */

static bool worker_full(const pump *p) { return p->conns.used >= p->conns.limit; }

/* Whether this worker has about the fewest connections of those that accept. */
static bool my_turn(const pump *p)
{
    uint64_t mine = p->conns.used, least = mine;
    for (uint32_t i = 0; i < p->workers; i++) {
        if (i == p->index || !p->others[i] || !p->others[i]->pid || !stats_get(p->others[i], N_ACCEPTING)) continue;
        uint64_t n = stats_get(p->others[i], N_CONNECTIONS);
        if (n < least) least = n;
    }
    return worker_full(p) ? least >= p->conns.limit : mine <= least + least / 16;
}

/* A connection on an accepted socket; NULL: no room for it. */
static worker_connection *conn_new(pump *p, int fd, uint16_t listener)
{
    worker_connection *c = conn_begin(p, fd, listener);
    if (!c) return NULL;
    /* memory_left() */
    if (p->listeners[listener].hands_over && !(c->websocket = (websocket *) calloc(1, sizeof *c->websocket))) abort();
    pn_transport_set_server(c->transport);
    bool secured = security_begin(&p->listeners[listener], c);
    /* memory_left() */
    if ((p->listeners[listener].relays || *p->listeners[listener].offered)
        && !relay_accept(p, &p->listeners[listener], c))
        abort();
    lane_begin_connection(p, c);
    conn_begun(p, c, secured, false);
    stats_add(p->stats, N_CONNECTIONS_ACCEPTED, 1);
    return c;
}

/* Looks at no listening socket for so long, or for as long as has been said before. */
static void accept_rest(pump *p, int64_t ms)
{
    if (p->accept_retry < p->now_ms + ms) p->accept_retry = p->now_ms + ms;
    listeners_arm(p, false);
}

/* Whether there is memory for a new connection: the engine does not survive a lack of it. */
static bool memory_left(void)
{
    void *probe = malloc(ACCEPT_MEMORY);
    free(probe);
    return probe != NULL;
}

/* Notes whether there are descriptors and memory for another connection: a router is ready while a worker has some. */
static void accept_able(pump *p, bool able)
{
    if (p->exhausted == !able) return;
    p->exhausted = !able;
    stats_set(p->stats, N_ACCEPTING, able && p->accepting);
}

/* Whether a connection waits to be accepted. */
static bool connection_waits(const pump *p)
{
    struct pollfd sockets[MAX_LISTENERS];
    for (uint32_t i = 0; i < p->listener_count; i++)
        sockets[i] = (struct pollfd) { .fd = p->listeners[i].fd, .events = POLLIN };
    return poll(sockets, p->listener_count, 0) > 0;
}

/* Looks at the listening sockets again, after a while without.  One that nobody connects to tells nothing, so a worker
 * that was out of descriptors tries whether it still is. */
PRIVATE void sockets_retry(pump *p)
{
    p->accept_retry = 0;
    p->accept_waiting = p->accept_waiting && connection_waits(p);
    if (p->exhausted) {
        int fd = memory_left() ? fcntl(p->epoll_fd, F_DUPFD_CLOEXEC, 0) : -1;
        if (fd >= 0) close(fd);
        accept_able(p, fd >= 0);
        if (fd < 0) p->accept_retry = p->now_ms + ACCEPT_FAILED_MS;
    }
    listeners_arm(p, true);
}

/* Tells when connections have been accepted again for a while: with one descriptor left that comes and goes. */
PRIVATE void accept_calm(pump *p)
{
    if (!p->accept_failed || p->exhausted || p->now_ms < p->accept_failed + ACCEPT_CALM_MS) return;
    p->accept_failed = 0;
    p->on_event(p->self, EV_ACCEPT_AGAIN, NULL, NULL, NULL, NULL);
}

/* Whether a connection may begin, or go on with its handshake, in this turn. */
PRIVATE bool begin_allowed(pump *p) { return p->begun < BEGUN_MOST && !core_crowded(p); }

/* Looks at no listening socket for a moment.  Others than this one have their turn first then. */
static void accept_pause(pump *p, const worker_listener *l)
{
    p->accept_first = (uint32_t) (l - p->listeners) + 1;
    accept_rest(p, ACCEPT_PAUSE_MS);
}

PRIVATE inline void sockets_accept(pump *p, worker_listener *l)
{
    while (p->accepting && !p->actions.waiting) {              /* else the core is to catch up */
        if (!begin_allowed(p)) { accept_pause(p, l); return; }
        if (!my_turn(p)) {
            if (!p->accept_waiting || worker_full(p)) {
                p->accept_waiting = true;
                accept_rest(p, ACCEPT_LOOK_AWAY_MS);
                return;
            }
        }
        struct sockaddr_in6 peer = { .sin6_family = AF_UNSPEC };       /* an IPv4 one fits, too */
        socklen_t peer_size = sizeof peer;
        errno = ENOMEM;
        int fd = !memory_left() ? -1 : l->hands_over ? websocket_accept(l->fd, &peer)
                 : accept4(l->fd, (struct sockaddr *) &peer, &peer_size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
                accept_rest(p, ACCEPT_FAILED_MS);
                accept_able(p, false);
                p->accept_failed = p->now_ms;
                p->on_event(p->self, EV_ACCEPT_FAILED, NULL, NULL, l, NULL);
            }
            break;
        }
        uint64_t began = clock_ns();
        p->accept_waiting = false;
        security_refresh(p, l);
        worker_connection *c = l->framed ? framed_new(p, fd, (uint16_t) (l - p->listeners), false)
                   : conn_new(p, fd, (uint16_t) (l - p->listeners));
        if (c) c->peer = peer;
        else close(fd);
        if (c && c->framed) p->on_event(p->self, EV_FRAMED_OPEN, c, NULL, NULL, NULL);
        p->begun += clock_ns() - began;
        if (!my_turn(p)) break;
    }
    p->accept_waiting = false;
}
