/* Sockets: listening, reading into the engine, writing out of it, and closing. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "workers/state/session.h"
#include "workers/transport/transport.h"

#define READ_MOST 65536u               /* octets at once of a connection whose reads fill its buffer */

/* epoll data: kind << 60 | (connection: its handle with 28 bits of generation; listener: its number) */
PRIVATE inline uint64_t epoll_name(uint64_t kind, uint64_t handle) { return kind << 60 | (handle & ~(0xfull << 60)); }

GLUE void listener_arm(pump *p, worker_listener *l, bool armed)
{
    if (l->armed == armed || l->fd < 0) return;
    struct epoll_event e = { .events = EPOLLIN, .data.u64 = epoll_name(EPOLL_LISTENER, (uint64_t) (l - p->listeners)) };
    if (epoll_ctl(p->epoll_fd, armed ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, l->fd, &e) == 0) l->armed = armed;
}

GLUE void listeners_arm(pump *p, bool armed)
{
    for (uint32_t i = 0; i < p->listener_count; i++)
        listener_arm(p, &p->listeners[(p->accept_first + i) % p->listener_count], armed && p->accepting);
}

/* A place for another listener: that of a removed one without connections, or a new one.  NULL: there is none. */
GLUE worker_listener *listener_new(pump *p)
{
    for (uint32_t i = 0; i < p->listener_count; i++) {
        worker_listener *l = &p->listeners[i];
        if (l->fd >= 0 || l->dials || l->used) continue;
        free(l->framed);
        l->framed = NULL;
        return l;
    }
    return p->listener_count < MAX_LISTENERS ? &p->listeners[p->listener_count++] : NULL;
}

/* Removes the socket from epoll first: other processes keep it open, so its events would continue. */
GLUE void listener_close(pump *p, worker_listener *l)
{
    listener_arm(p, l, false);
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
}

PRIVATE inline void conn_watch(pump *p, worker_connection *c)
{
    uint32_t end = c->lane && relay_ended(c) ? EPOLLRDHUP : 0u;
    struct epoll_event e = { .events = (c->reading ? EPOLLIN : 0u) | (c->want_write ? EPOLLOUT : 0u) | end,
                             .data.u64 = epoll_name(EPOLL_CONNECTION, pool_handle(&p->conns, c)) };
    epoll_ctl(p->epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
}

/* A broken socket is an event each time that events are asked for. */
PRIVATE void conn_unwatch(const pump *p, const worker_connection *c)
{
    epoll_ctl(p->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
}

/* What every connection begins with; its maker says which side of it we are, protects it and calls conn_begun. NULL: no
 * room. */
PRIVATE inline worker_connection *conn_begin(pump *p, int fd, uint16_t listener)
{
    worker_listener *l = &p->listeners[listener];
    worker_connection *c = (worker_connection *) pool_take(&p->conns, sizeof(worker_connection));
    if (!c) return NULL;
    l->used++;
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->fd = fd;
    c->listener = listener;
    c->link_first = ROUTERD_NIL;
    c->reading = true;
    for (uint32_t i = 0; i < ROUTERD_PRIORITIES; i++) c->work_first[i] = c->work_last[i] = ROUTERD_NIL;
    c->engine = pn_connection();
    c->transport = pn_transport();
    pn_transport_set_max_frame(c->transport, l->max_frame);
    pn_transport_set_channel_max(c->transport, l->channel_max);
    pn_transport_set_idle_timeout(c->transport, l->idle_timeout_ms);
    c->window = l->window;
    c->widest = l->widest;
    trace_apply(p, c);
    pn_connection_set_context(c->engine, c);
    pn_connection_collect(c->engine, p->collector);
    return c;
}

PRIVATE inline void conn_begun(pump *p, worker_connection *c, bool secured, bool writing)
{
    const worker_listener *l = &p->listeners[c->listener];
    pn_transport_bind(c->transport, c->engine);
    c->tick_at = p->now_ms;
    c->deadline = !secured ? p->now_ms : l->handshake_ms ? p->now_ms + l->handshake_ms : 0;
    c->want_write = writing;
    struct epoll_event e = { .events = EPOLLIN | (writing ? EPOLLOUT : 0u),
                             .data.u64 = epoll_name(EPOLL_CONNECTION, pool_handle(&p->conns, c)) };
    epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, c->fd, &e);
    stats_set(p->stats, N_CONNECTIONS, p->conns.used);
    pump_crowd(p);
}

/* Tells the engine that the socket is broken; its TRANSPORT_CLOSED event does the rest. */
GLUE void conn_broken(pump *p, worker_connection *c)
{
    if (!c->failed) {
        c->failed = true;
        conn_unwatch(p, c);
        if (c->transport) pn_transport_close_tail(c->transport);
        if (c->transport) pn_transport_close_head(c->transport);
    }
    mark_dirty(p, c);
}

/* A peer that writes nothing more may still read our CLOSE, which is not out yet. */
__attribute__((noinline, cold)) static void conn_last_word(pump *p, worker_connection *c)
{
    conn_pause(p, c);
    c->deadline = p->now_ms + LAST_WORD_MS;
}

/* Reads once; true if there may be more. */
PRIVATE inline bool conn_read(pump *p, worker_connection *c)
{
    ssize_t room = pn_transport_capacity(c->transport);
    size_t space;
    if (room <= 0) {                                            /* the engine wants no more input: it is closing */
        char nothing[256];
        ssize_t n = read(c->fd, nothing, sizeof nothing);
        if (n == 0 && c->reading) conn_last_word(p, c);
        else if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) conn_broken(p, c);
        return n > 0;
    }
    ssize_t n;
    if (__builtin_expect(c->websocket != NULL, 0)) {
        n = websocket_read(c->websocket, c->fd, c->transport);
        room = WEBSOCKET_READ;
    } else if (layers_passed(c->lane) && __builtin_expect(c->lane->coming.left != 0, 0)) {
        n = straight_socket(c->lane, c->fd, &space);
        room = (ssize_t) space;
    } else if (c->lane->bare) {
        uint8_t *to = lane_room(c->lane, &space);
        if (c->read_most && space > c->read_most) space = c->read_most;
        n = read(c->fd, to, space);
        room = (ssize_t) space;
        if (n > 0) lane_came(c->lane, (size_t) n);
    } else {
        bool most = c->read_most && room > (ssize_t) c->read_most;
        n = read(c->fd, pn_transport_tail(c->transport), most ? c->read_most : (size_t) room);
        if (n > 0) pn_transport_process(c->transport, (size_t) n);
    }
    if (n > 0) {
        stats_add(p->stats, N_BYTES_IN, (uint64_t) n);
        mark_dirty(p, c);
        if (n == room && !c->lane->bare) {
            lane_wake(c);
            if (room > (ssize_t) BUFFER_RESTING) layers_widen(c->transport, READ_MOST);
        }
        return n == room && !c->lane->behind;
    }
    if (n == 0) {
        pn_transport_close_tail(c->transport);
        c->reading = false;
        conn_watch(p, c);
        mark_dirty(p, c);
    } else if (errno != EAGAIN && errno != EINTR) {
        conn_broken(p, c);
    }
    return false;
}

static ssize_t conn_send(worker_connection *c, const char *bytes, size_t size)
{
    if (__builtin_expect(c->websocket != NULL, 0)) return websocket_send(c->websocket, c->fd, bytes, size);
    return send(c->fd, bytes, size, MSG_NOSIGNAL);
}

/* Sends a WebSocket's close frame, as far as the socket still takes it. */
static void conn_farewell(worker_connection *c)
{
    if (!c->websocket) return;
    if (!c->websocket->over) websocket_end(c->websocket, WEBSOCKET_NORMAL);
    (void) websocket_flush(c->websocket, c->fd);
}

/* Handles a write that failed. True: the connection is broken; false: the socket is full for now. */
static bool conn_full(pump *p, worker_connection *c)
{
    if (errno != EAGAIN) { conn_broken(p, c); return true; }
    if (!c->want_write) { c->want_write = true; conn_watch(p, c); }
    return false;
}

static void conn_written(pump *p, worker_connection *c)
{
    if (c->want_write) { c->want_write = false; conn_watch(p, c); }
}

static void conn_output_over(worker_connection *c)
{
    if (c->output_done) return;
    c->output_done = true;
    conn_farewell(c);
    shutdown(c->fd, SHUT_WR);
}

/* Writes pieces of the lane's output and of blocks; -1 with errno, like send(). */
static ssize_t pieces_send(worker_connection *c)
{
    struct iovec pieces[LANE_PIECES];
    int count = lane_pieces(c->lane, pieces);
    if (count == 0) return 0;
    if (count == 1) return send(c->fd, pieces->iov_base, pieces->iov_len, MSG_NOSIGNAL);
    return sendmsg(c->fd, &(struct msghdr) { .msg_iov = pieces, .msg_iovlen = (size_t) count }, MSG_NOSIGNAL);
}

/* Writes the lane's output past the transport; false if the socket is full. */
static bool conn_write_bare(pump *p, worker_connection *c)
{
    lane_connection *l = c->lane;
    bool made;
    if (c->failed) return true;
    if (c->want_write) return false;                           /* EPOLLOUT starts it again */
    do {
        ssize_t n;
        made = lane_make(l);
        while ((n = pieces_send(c)) > 0) {
            lane_sent(l, (size_t) n);
            stats_add(p->stats, N_BYTES_OUT, (uint64_t) n);
        }
        if (n < 0 && errno == EINTR) { made = false; continue; }
        if (n < 0) {
            bool broken = conn_full(p, c);
            lane_own(l);
            return broken;
        }
    } while (!made);
    conn_written(p, c);
    if (l->over && pn_transport_pending(c->transport) < 0) conn_output_over(c);
    return true;
}

/* Writes what is to be written; false if the socket is full. */
PRIVATE inline bool conn_write(pump *p, worker_connection *c)
{
    ssize_t size;
    if (c->bare) return conn_write_bare(p, c);
    /* The transport's buffer doubles with each look at it while it is full, if the peer names no max-frame-size. */
    if (c->want_write && !c->failed) return false;
    if (__builtin_expect(c->websocket != NULL, 0) && !websocket_flush(c->websocket, c->fd)) return conn_full(p, c);
    while ((size = pn_transport_pending(c->transport)) > 0) {
        if (size >= BUFFER_RESTING) lane_wake(c);
        ssize_t n = conn_send(c, pn_transport_head(c->transport), (size_t) size);
        if (n > 0) {
            pn_transport_pop(c->transport, (size_t) n);
            stats_add(p->stats, N_BYTES_OUT, (uint64_t) n);
            continue;
        }
        if (n < 0 && errno == EINTR) continue;
        return conn_full(p, c);
    }
    conn_written(p, c);
    if (__builtin_expect(c->lane->tail_due, 0) && c->lane->over && !size) {
        c->lane->tail_due = false;
        pn_transport_close_tail(c->transport);
        size = pn_transport_pending(c->transport);
        mark_dirty(p, c);
    }
    if (size < 0) conn_output_over(c);
    else c->bare = layers_bare(c->lane);
    return true;
}
