/* A hand-made load client for RMR's own transport.
 *
 *   rmr send|recv PORT COUNT SIZE [connected]
 *
 * `recv` listens on PORT, takes every connection and counts COUNT frames of SIZE octets of payload; what is out of
 * order, or not a frame, is bad; with `connected` it is ready after somebody has connected.  `send` connects to PORT
 * and writes as many, in batches.  Output and steps are those of bench.client.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 334, BATCH = 64, BUFFER = 1 << 20, CONNECTIONS = 16, TYPE = 1000, SETTLE_US = 500000 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static double cpu(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double) (used.ru_utime.tv_sec + used.ru_stime.tv_sec)
           + (double) (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void step(void)
{
    char line[16];
    if (read(0, line, sizeof line) <= 0) exit(0);
}

static void told(const char *mode, uint64_t n, uint64_t bad, double took, double spent)
{
    printf("{\"mode\":\"%s\",\"n\":%llu,\"bad\":%llu,\"seconds\":%.6f,\"cpu_us_per_message\":%.6f,\"rate\":%.1f}\n",
           mode, (unsigned long long) n,
           (unsigned long long) bad, took, n ? spent * 1e6 / (double) n : 0, took > 0 ? (double) n / took : 0);
    fflush(stdout);
    step();
}

static int socket_at(int port, bool passive)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t) port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (passive ? bind(fd, (void *) &at, sizeof at) || listen(fd, CONNECTIONS) : connect(fd, (void *) &at, sizeof at))
        fail(passive ? "listen" : "connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void put32(uint8_t *at, uint32_t value) { value = htonl(value); memcpy(at, &value, 4); }

static void send_all(int port, uint64_t count, uint32_t size)
{
    uint32_t length = HEAD + size;
    uint8_t *batch = calloc(BATCH, length);
    int fd = socket_at(port, false);
    for (int i = 0; i < BATCH; i++) {
        uint8_t *frame = batch + (size_t) i * length;
        memcpy(frame, &length, 4);                              /* all hosts of this program are little-endian */
        put32(frame + 4, length);
        frame[8] = '$';
        put32(frame + 50, TYPE); put32(frame + 54, size); put32(frame + 58, 3);
        strcpy((char *) frame + 126, "127.0.0.1:9");
        put32(frame + 246, 280); put32(frame + 254, 4); put32(frame + 262, UINT32_MAX);
    }
    printf("ready\n");
    fflush(stdout);
    step();
    double began = seconds(), before = cpu();
    for (uint64_t n = 0; n < count;) {
        uint32_t now = count - n < BATCH ? (uint32_t) (count - n) : BATCH;
        size_t left = (size_t) now * length;
        for (uint32_t i = 0; i < now; i++) {
            uint64_t number = n + i;
            if (size >= 8) memcpy(batch + (size_t) i * length + HEAD, &number, 8);
        }
        for (const uint8_t *at = batch; left;) {
            ssize_t done = write(fd, at, left);
            if (done < 0) fail("write");
            at += done;
            left -= (size_t) done;
        }
        n += now;
    }
    told("send", count, 0, seconds() - began, cpu() - before);
}

/* Reads the whole frames of a buffer; returns how many octets of an incomplete one are left. */
static size_t take(uint8_t *buffer, size_t have, uint32_t size, uint64_t *n, uint64_t *bad)
{
    size_t at = 0;
    uint32_t length;
    for (; have - at >= 4; at += length) {
        memcpy(&length, buffer + at, 4);
        if (length != HEAD + size) { fprintf(stderr, "a frame of %u octets\n", length); exit(1); }
        if (have - at < length) break;
        if (size >= 8 && memcmp(buffer + at + HEAD, n, 8)) ++*bad;
        ++*n;
    }
    memmove(buffer, buffer + at, have - at);
    return have - at;
}

static void receive_all(int port, uint64_t count, uint32_t size, bool connected)
{
    static struct pollfd at[CONNECTIONS + 2];
    static uint8_t *buffer[CONNECTIONS + 2];
    static size_t have[CONNECTIONS + 2];
    uint64_t n = 0, bad = 0;
    nfds_t used = 2;
    double began = 0, before = cpu();
    at[0] = (struct pollfd) { socket_at(port, true), POLLIN, 0 };
    at[1] = (struct pollfd) { -1, POLLIN, 0 };
    if (!connected) { printf("ready\n"); fflush(stdout); }
    while (n < count) {
        if (poll(at, used, -1) < 0) fail("poll");
        if (at[0].revents && used < CONNECTIONS + 2) {
            at[used] = (struct pollfd) { accept(at[0].fd, NULL, NULL), POLLIN, 0 };
            buffer[used++] = malloc(BUFFER);
            if (connected && used == 3) {
                usleep(SETTLE_US);                              /* until the router's core knows of it, too */
                printf("ready\n");
                fflush(stdout);
            }
        }
        for (nfds_t i = 2; i < used; i++) {
            if (!at[i].revents) continue;
            ssize_t got = read(at[i].fd, buffer[i] + have[i], BUFFER - have[i]);
            if (got <= 0) { at[i].fd = -1; continue; }
            if (!began) { began = seconds(); before = cpu(); }
            have[i] = take(buffer[i], have[i] + (size_t) got, size, &n, &bad);
        }
    }
    told("recv", n, bad, seconds() - began, cpu() - before);
}

int main(int argc, char **argv)
{
    if (argc != 5 && argc != 6) { fprintf(stderr, "usage: rmr send|recv PORT COUNT SIZE [connected]\n"); return 2; }
    int port = atoi(argv[2]);
    uint64_t count = strtoull(argv[3], NULL, 10);
    uint32_t size = (uint32_t) strtoul(argv[4], NULL, 10);
    if (!strcmp(argv[1], "send")) send_all(port, count, size);
    else receive_all(port, count, size, argc == 6);
    return 0;
}
