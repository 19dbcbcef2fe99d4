/* Two workers that share a listening socket: who gets the connections while others come and are refused.
 *
 * The program that includes the workers is their clients and their Python.  It ends with a line for each mistake.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>

#include "tests/native/worker_world.h"

enum { HONEST = 240, REFUSED = 4, TURNS = 6, PLACES = 64 };

static pump a, b;
static worker_world worlds[2];
static struct sockaddr_in address = { .sin_family = AF_INET };

static void on_event(void *self, int event, worker_connection *c, worker_link *k, void *object,
                     const routerd_record *record)
{
    (void) self, (void) event, (void) c, (void) k, (void) object, (void) record;
}

static int listening(void)
{
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(fd >= 0 && !bind(fd, (struct sockaddr *) &address, sizeof address) && !listen(fd, 512)
          && !getsockname(fd, (struct sockaddr *) &address, &size), "no listening socket");
    return fd;
}

static int client(const char *says, size_t size)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && !connect(fd, (struct sockaddr *) &address, sizeof address), "no connection");
    CHECK(send(fd, says, size, MSG_NOSIGNAL) == (ssize_t) size, "nothing is sent");
    return fd;
}

static int honest(void) { return client("AMQP\0\1\0\0", 8); }
static int refused(void) { return client("GET / HTTP/1.1\r\n\r\n", 18); }

/* A turn after any pause at the listening socket. */
static void turn(pump *p)
{
    p->next_sweep = INT64_MAX;
    if (p->accept_retry) p->accept_retry = 1;
    pump_run(p, 0);
}

/* Turns of both until nobody waits to be accepted, and some more. */
static void turns(int more)
{
    struct pollfd waiting = { .fd = a.listeners[0].fd, .events = POLLIN };
    for (; poll(&waiting, 1, 0) > 0 || more > 0; more--) { turn(&a); turn(&b); }
}

static void settle(void) { turns(20); }

static void worker(pump *p, uint32_t index, int fd)
{
    worker_open(&worlds[index], p, 4 << 20, on_event,
                (worker_listener) { .fd = dup(fd), .max_frame = 16384, .channel_max = 0xffff, .idle_timeout_ms = 600000,
                                    .handshake_ms = 600000, .link_capacity = 250, .window = 100, .widest = 100,
                                    .mechanisms = "ANONYMOUS" });
    p->workers = 2;
    p->index = index;
    p->accepting = true;
    p->stats->pid = 1;
    stats_set(p->stats, N_ACCEPTING, 1);
}

/* Each honest client comes with some that are refused; in the end only honest ones are left. */
static void flood(void)
{
    int bad[REFUSED * TURNS] = { 0 }, good[HONEST];
    for (uint32_t i = 0; i < HONEST; i++) {
        for (uint32_t j = 0; j < REFUSED; j++) {
            int *at = &bad[(i * REFUSED + j) % (REFUSED * TURNS)];
            if (*at) close(*at);
            *at = refused();
        }
        good[i] = honest();
        if (i % 3 == 0) turn(&a);
        if (i % 5 == 0) turn(&b);
        turns(1);
    }
    for (uint32_t i = 0; i < REFUSED * TURNS; i++) if (bad[i]) close(bad[i]);
    settle();
    const uint32_t all = a.conns.used + b.conns.used;
    printf("flood: %u and %u\n", a.conns.used, b.conns.used);
    CHECK(all == HONEST, "%u connections are left", all);
    CHECK(a.conns.used >= HONEST * 2 / 5 && b.conns.used >= HONEST * 2 / 5, "%u and %u", a.conns.used, b.conns.used);
    for (uint32_t i = 0; i < HONEST; i++) close(good[i]);
    settle();
    CHECK(!a.conns.used && !b.conns.used, "something is left");
}

/* A flood that stands at one worker goes: who comes next goes there, until both have as many. */
static void departure(void)
{
    int bad[PLACES], good[2 * PLACES];
    stats_set(b.stats, N_ACCEPTING, b.accepting = false);
    listeners_arm(&b, false);
    for (uint32_t i = 0; i < PLACES; i++) bad[i] = honest();
    settle();
    CHECK(a.conns.used == PLACES, "%u", a.conns.used);
    stats_set(b.stats, N_ACCEPTING, b.accepting = true);
    listeners_arm(&b, true);
    for (uint32_t i = 0; i < PLACES; i++) { good[i] = honest(); turns(4); }
    settle();
    CHECK(b.conns.used >= PLACES * 9 / 10, "%u", b.conns.used);
    for (uint32_t i = 0; i < PLACES; i++) close(bad[i]);
    settle();
    for (uint32_t i = PLACES; i < 2 * PLACES; i++) { good[i] = honest(); settle(); }
    printf("departure: %u and %u\n", a.conns.used, b.conns.used);
    CHECK(a.conns.used >= PLACES * 9 / 10 && b.conns.used >= PLACES * 9 / 10, "%u and %u", a.conns.used, b.conns.used);
    for (uint32_t i = 0; i < 2 * PLACES; i++) close(good[i]);
    settle();
}

/* A worker without a place for another connection takes none from one that has some, and refuses when nobody has. */
static void full(void)
{
    int clients[PLACES + 1];
    uint8_t octet;
    pool_close(&a.conns);
    CHECK(pool_open(&a.conns, sizeof(worker_connection), PLACES), "no table");
    stats_set(b.stats, N_ACCEPTING, 0);
    for (uint32_t i = 0; i < PLACES; i++) clients[i] = honest();
    for (int i = 0; i < 50; i++) turn(&a);
    CHECK(a.conns.used == PLACES, "%u", a.conns.used);
    stats_set(b.stats, N_ACCEPTING, 1);
    stats_set(b.stats, N_CONNECTIONS, PLACES - 1);             /* as if it had them: about as many */
    clients[PLACES] = honest();
    for (int i = 0; i < 50; i++) turn(&a);
    CHECK(recv(clients[PLACES], &octet, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN, "the full worker has taken it");
    stats_set(b.stats, N_CONNECTIONS, 0);
    settle();
    CHECK(b.conns.used == 1, "%u at the other one", b.conns.used);
    stats_set(b.stats, N_ACCEPTING, 0);
    listeners_arm(&b, false);
    int last = honest();
    for (int i = 0; i < 50; i++) turn(&a);
    while (recv(last, &octet, 1, MSG_DONTWAIT) > 0) {}
    CHECK(recv(last, &octet, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET, "nobody refuses it");
    for (uint32_t i = 0; i <= PLACES; i++) close(clients[i]);
}

int main(void)
{
    const int fd = listening();
    worker(&a, 0, fd);
    worker(&b, 1, fd);
    a.others[1] = b.stats;
    b.others[0] = a.stats;
    b.others[1] = b.stats;
    listeners_arm(&a, true);
    listeners_arm(&b, true);
    flood();
    departure();

    full();
    return 0;
}
