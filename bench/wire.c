/* A hand-made load client that writes AMQP itself and costs about 0.1 µs per message, so that it leaves two CPUs to
 * the measured router.
 *
 *   wire send|recv|pingpong|echo|idle PORT ADDRESS COUNT SIZE
 *        [presettled] [listen] [step] [credit=N] [links=N]
 *
 * Modes, output and `step` are those of bench.client; `idle` opens `links` connections with one receiver each
 * (ADDRESS.0, ADDRESS.1, ...), keeps them alive, and carries no message.  The client connects to 127.0.0.1 only.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/wire_connection.h"

enum goal { ATTACHED, COMMAND, DONE, CLOSED };
enum { POLL_MAX = 256, CONNECTING_MAX = 32, KEY_LISTENER = -1, KEY_COMMAND = -2, QUIET_S = 3, CLOSE_S = 2 };

static int poller, listener = -1;
static struct connection **conns;
static uint32_t n_conns;

static void watch(int fd, int key, uint32_t events, int op)
{
    struct epoll_event e = {.events = events, .data.fd = key};
    epoll_ctl(poller, op, fd, &e);
}

static int socket_new(bool passive)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
        .sin_port = htons(run.mode == PINGPONG && n_conns ? run.far : run.port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (passive ? bind(fd, (void *)&to, sizeof to) || listen(fd, 64) : connect(fd, (void *)&to, sizeof to))
        die(strerror(errno));
    return fd;
}

static void add(int fd, bool server)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    bool sender = run.mode == SEND || (run.mode == PINGPONG && n_conns == 0);
    conns[n_conns] = connection_new(fd, server, sender, n_conns);
    watch(fd, (int)n_conns, EPOLLIN, EPOLL_CTL_ADD);
    connection_flush(conns[n_conns++]);  /* the protocol header of a client */
}

/* Opens some connections at a time, so that the listener's backlog does not overflow. */
static void connect_some(void)
{
    while (!run.listen && n_conns < run.links && n_conns - run.attached < CONNECTING_MAX)
        add(socket_new(false), false);
}

/* ---- output ---- */

static void produce(struct connection *c)
{
    if (!run.running || !c->attached || !c->sender) return;
    if (run.mode == SEND) {
        while (c->sent < run.count && connection_send(c, c->sent % SAMPLE_EVERY == 0)) {}
    } else if (run.mode == PINGPONG) {
        if (c->msg_at || (c->sent == conns[1]->received && c->sent < run.count)) connection_send(c, true);
    } else if (run.mode == ECHO) {
        while (run.owed && connection_send(c, false)) run.owed--;
    }
}

static bool has_more(const struct connection *c)
{
    bool sending = c->attached && c->sender && run.running && run.mode == SEND;
    return sending && c->sent < run.count && c->credit && c->window;
}

static void output(struct connection *c, int key)
{
    if (c->gone) return;
    connection_settle(c);
    do produce(c);
    while (connection_flush(c) && has_more(c));
    bool blocked = c->out.start < c->out.end;
    if (blocked != c->blocked) watch(c->fd, key, EPOLLIN | (blocked ? EPOLLOUT : 0), EPOLL_CTL_MOD);
    c->blocked = blocked;
}

/* ---- the loop ---- */

static bool connection_reached(const struct connection *c, enum goal goal)
{
    if (goal == ATTACHED) return c->attached && (!c->sender || c->credit);
    if (goal == CLOSED) return c->gone || c->peer_closed;
    if (run.mode == PINGPONG && c->sender) return true;
    if (!c->sender) return c->received >= run.count;
    return c->sent == run.count && !c->blocked && (run.presettled || c->settled >= run.count);
}

static bool reached(enum goal goal)
{
    if (goal == COMMAND || (goal != CLOSED && n_conns < run.links)) return false;
    if (goal == ATTACHED && run.attached < run.links) return false;
    for (uint32_t i = 0; i < n_conns; i++)
        if (!connection_reached(conns[i], goal)) return false;
    return true;
}

/* A closed connection is an error only while something is missing: a peer that is done may close first. */
static void check_peer(const struct connection *c)
{
    if ((c->gone || c->peer_closed) && !run.listen && !run.closing) die("the peer closed a connection or link");
}

static void keep_alive(uint64_t now)
{
    static uint64_t last;
    if (now - last < 1000000000u) return;
    last = now;
    for (uint32_t i = 0; i < n_conns; i++) {
        connection_keep_alive(conns[i], now);
        connection_flush(conns[i]);
    }
}

static void until(enum goal goal, unsigned limit_s)
{
    struct epoll_event ready[POLL_MAX];
    uint64_t started = clock_ns(CLOCK_MONOTONIC), heard = started, so_far = run.received;
    bool command = false;
    int n = 0;
    connect_some();
    while (!reached(goal) && !(command && goal == COMMAND)) {
        for (int i = 0; i < n; i++)
            if (ready[i].data.fd >= 0) check_peer(conns[ready[i].data.fd]);
        n = epoll_wait(poller, ready, POLL_MAX, 1000);
        for (int i = 0; i < n; i++) {
            int key = ready[i].data.fd;
            if (key == KEY_COMMAND) command = true;
            if (key == KEY_LISTENER && n_conns < run.links) add(accept(listener, NULL, NULL), true);
            if (key < 0) continue;
            connection_read(conns[key]);
            if (conns[key]->gone) watch(conns[key]->fd, 0, 0, EPOLL_CTL_DEL);
            output(conns[key], key);
        }
        bool crossed = run.mode == PINGPONG || run.mode == ECHO;  /* one link sends what the other received */
        for (uint32_t i = 0; crossed && i < n_conns; i++) output(conns[i], (int)i);
        connect_some();
        uint64_t now = clock_ns(CLOCK_MONOTONIC);
        keep_alive(now);
        if (so_far != run.received || !so_far) heard = now;
        so_far = run.received;
        if (limit_s && now - started > limit_s * 1000000000ull) return;
        if (run.presettled && goal == DONE && now - heard > QUIET_S * 1000000000ull) return;
    }
}

static void hold(void)
{
    char line[64];
    watch(STDIN_FILENO, KEY_COMMAND, EPOLLIN, EPOLL_CTL_ADD);
    until(COMMAND, 0);
    watch(STDIN_FILENO, 0, 0, EPOLL_CTL_DEL);
    if (read(STDIN_FILENO, line, sizeof line) < 0) die("standard input failed");
}

static void transfer_all(void)
{
    run.running = true;
    for (uint32_t i = 0; i < n_conns; i++) output(conns[i], (int)i);
    until(DONE, 0);
    run.last_ns = clock_ns(CLOCK_MONOTONIC);
    run.cpu_last_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static void close_all(void)
{
    run.closing = true;
    for (uint32_t i = 0; i < n_conns; i++) {
        send_close(conns[i]);
        output(conns[i], (int)i);
    }
    until(CLOSED, CLOSE_S);
}

/* ---- the result ---- */

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double percentile(size_t per_mille)  /* nearest rank, in µs */
{
    size_t rank = (run.samples.n * per_mille + 999) / 1000;
    return (double)run.samples.ns[rank ? rank - 1 : 0] / 1e3;
}

static uint64_t print_result(void)
{
    uint64_t n = run.mode == SEND ? 0 : run.received;
    for (uint32_t i = 0; i < n_conns && run.mode == SEND; i++) n += conns[i]->sent;
    double seconds = run.first_ns ? (double)(run.last_ns - run.first_ns) / 1e9 : 0;
    double cpu_us = run.first_ns ? (double)(run.cpu_last_ns - run.cpu_first_ns) / 1e3 : 0;
    printf("{\"mode\":\"%s\",\"n\":%llu,\"bad\":%llu,\"seconds\":%.6f", MODES[run.mode], (unsigned long long)n,
           (unsigned long long)run.bad, seconds);
    printf(",\"cpu_us_per_message\":%.6f,\"rate\":%.1f", n ? cpu_us / (double)n : 0,
           seconds > 0 ? (double)n / seconds : 0);
    if (run.samples.n) {
        qsort(run.samples.ns, run.samples.n, sizeof *run.samples.ns, by_value);
        printf(",\"latency_us\":{\"p50\":%.3f,\"p99\":%.3f,\"p999\":%.3f}", percentile(500), percentile(990),
               percentile(999));
    }
    printf("}\n");
    fflush(stdout);
    return n;
}

/* ---- the command line ---- */

static const char USAGE[] =
    "usage: wire send|recv|pingpong|echo|idle PORT ADDRESS COUNT SIZE\n"
    "            [presettled] [listen] [step] [credit=N] [links=N] [far=PORT]";

static void parse(int argc, char **argv)
{
    if (argc < 6) die(USAGE);
    while (run.mode < N_MODES && strcmp(argv[1], MODES[run.mode])) run.mode++;
    if (run.mode == N_MODES) die("unknown mode");
    run.port = run.far = (uint16_t)atoi(argv[2]);
    run.address = argv[3];
    run.count = strtoull(argv[4], NULL, 10);
    run.links = 1;
    run.credit = 1000;
    for (int i = 6; i < argc; i++) {
        if (!strcmp(argv[i], "presettled")) run.presettled = true;
        else if (!strcmp(argv[i], "listen")) run.listen = true;
        else if (!strcmp(argv[i], "step")) run.step = true;
        else if (!strncmp(argv[i], "credit=", 7)) run.credit = (uint32_t)atoi(argv[i] + 7);
        else if (!strncmp(argv[i], "links=", 6)) run.links = (uint32_t)atoi(argv[i] + 6);
        else if (!strncmp(argv[i], "far=", 4)) run.far = (uint16_t)atoi(argv[i] + 4);
        else die("unknown option");
    }
    if (run.mode == PINGPONG || run.mode == ECHO) run.links = 2;
    if (strlen(run.address) > 200) die("the address is longer than 200 bytes");
    message_init(&run.message, run.address, strtoull(argv[5], NULL, 10));
    uint64_t total = run.count * run.links;
    samples_init(&run.samples, run.mode == PINGPONG ? total : total / SAMPLE_EVERY + run.links);
}

/* Makes room for one descriptor per connection, and the few others. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < run.links + 64) die("the hard limit of open files is too low for links=N (ulimit -Hn)");
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    raise_descriptor_limit();
    conns = calloc(run.links, sizeof *conns);
    poller = epoll_create1(0);
    if (run.listen) watch(listener = socket_new(true), KEY_LISTENER, EPOLLIN, EPOLL_CTL_ADD);
    else until(ATTACHED, 0);
    if (run.step) {
        printf("ready\n");
        fflush(stdout);
    }
    if (run.step && (run.mode == SEND || run.mode == PINGPONG)) hold();
    if (run.mode != IDLE) transfer_all();
    uint64_t n = print_result();
    if (run.step) hold();
    close_all();
    uint64_t expected = run.mode == IDLE || run.presettled ? 0 : run.count;
    bool one = run.mode == PINGPONG || run.mode == ECHO;  /* only one of the two links receives */
    return run.bad || n < expected * (one ? 1 : run.links);
}
