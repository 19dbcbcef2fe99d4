/* One AMQP connection of a load client: a socket, the engine's objects for it, and one link.
 *
 * The socket is non-blocking.  endpoint_read() and endpoint_write() move bytes between it and the engine;
 * the owner drains the collector between the two.
 */
#ifndef BENCH_ENDPOINT_H
#define BENCH_ENDPOINT_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/engine.h"

struct endpoint {
    int fd;
    pn_collector_t *collector;
    pn_connection_t *connection;
    pn_session_t *session;
    pn_transport_t *transport;
    pn_link_t *link;    /* NULL until attached, on a connection that was accepted */
    bool attached;      /* the peer has answered with a terminus */
    bool closing;       /* close was sent, so the loss of the peer is no error */
    bool unwatched;     /* closed both ways, and no longer polled */
    bool blocked;       /* bytes wait for the socket to become writable */
    uint64_t sent;      /* messages */
    uint64_t settled;   /* of those, settled by the peer */
    uint64_t received;  /* whole messages */
    size_t filled;      /* bytes of the arriving message already in the inbox */
    char *inbox;
    size_t inbox_size;
};

static inline int socket_prepare(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* Returns a connected (or, with `passive`, listening) socket, or -1 with errno set. */
static inline int socket_open(const char *host, const char *port, bool passive)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = passive ? AI_PASSIVE : 0}, *found = NULL;
    if (getaddrinfo(host, port, &hints, &found)) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    bool up = fd >= 0;
    if (up && passive) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        up = !bind(fd, found->ai_addr, found->ai_addrlen) && !listen(fd, 64);
    } else if (up) {
        up = !connect(fd, found->ai_addr, found->ai_addrlen);
    }
    int error = errno;
    freeaddrinfo(found);
    if (up && socket_prepare(fd) == 0) return fd;
    if (fd >= 0) close(fd);
    errno = error;
    return -1;
}

/* Takes over `fd`.  A server waits for the peer's open; a client opens connection and session at once.  With `tls` all
 * octets pass through TLS. */
static inline void endpoint_init(struct endpoint *e, int fd, bool server, size_t inbox_size, pn_ssl_domain_t *tls)
{
    char container[64];
    snprintf(container, sizeof container, "bench-%d-%d", (int)getpid(), fd);
    *e = (struct endpoint){.fd = fd, .inbox = malloc(inbox_size), .inbox_size = inbox_size};
    e->collector = pn_collector();
    e->connection = pn_connection();
    e->transport = pn_transport();
    pn_connection_collect(e->connection, e->collector);
    pn_connection_set_container(e->connection, container);
    if (server) pn_transport_set_server(e->transport);
    pn_sasl_allowed_mechs(pn_sasl(e->transport), "ANONYMOUS");
    pn_transport_bind(e->transport, e->connection);
    if (tls) pn_ssl_init(pn_ssl(e->transport), tls, NULL);
    if (server) return;
    pn_connection_set_hostname(e->connection, "localhost");
    pn_connection_open(e->connection);
    e->session = pn_session(e->connection);
    pn_session_open(e->session);
}

static inline void endpoint_free(struct endpoint *e)
{
    pn_transport_unbind(e->transport);
    pn_transport_free(e->transport);
    pn_connection_free(e->connection);
    pn_collector_free(e->collector);
    close(e->fd);
    free(e->inbox);
}

/* Gives the engine what the socket holds, as far as it takes that at once. */
static inline void endpoint_read(struct endpoint *e)
{
    ssize_t room = pn_transport_capacity(e->transport);
    if (room <= 0) return;
    ssize_t n = read(e->fd, pn_transport_tail(e->transport), (size_t)room);
    if (n > 0)
        pn_transport_process(e->transport, (size_t)n);
    else if (n == 0 || errno != EAGAIN)
        pn_transport_close_tail(e->transport);
}

/* Writes what the engine has for the peer; returns false if the socket does not take all of it. */
static inline bool endpoint_write(struct endpoint *e)
{
    ssize_t pending;
    while ((pending = pn_transport_pending(e->transport)) > 0) {
        ssize_t n = send(e->fd, pn_transport_head(e->transport), (size_t)pending, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) return false;
        if (n < 0) {
            pn_transport_close_head(e->transport);
            return true;
        }
        pn_transport_pop(e->transport, (size_t)n);
    }
    return true;
}

#endif
