/* How many octets a worker reads of a socket, by what they cost: with a clock and sockets of the test's own.
 *
 * The program ends with a line for the first mistake.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static unsigned long long now;

static int told_time(int clock, struct timespec *t)
{
    (void) clock;
    *t = (struct timespec) { .tv_sec = (time_t) (now / 1000000000u), .tv_nsec = (long) (now % 1000000000u) };
    return 0;
}
#define clock_gettime told_time

#include "workers/loop/reads.c"
#include "tests/native/check.h"

static uint32_t cost, reads, octets;           /* nanoseconds of an octet */

bool framed_read(pump *p, worker_connection *c)
{
    uint32_t n = c->read_most ? c->read_most : READ_AT_ONCE;
    stats_add(p->stats, N_BYTES_IN, n);
    now += (uint64_t) n * cost;
    octets += n;
    reads++;
    return true;
}

bool conn_read(pump *p, worker_connection *c) { return framed_read(p, c); }
void events_drain(pump *p) { (void) p; }

/* A turn with so many events, of which one is this connection's; how long it took. */
static uint64_t turn(pump *p, worker_connection *c, int events)
{
    uint64_t began = ++now;
    reads = octets = 0;
    reads_begin(p, events, now);
    reads_serve(p, c);
    return now - began;
}

int main(void)
{
    pump *p = (pump *) calloc(1, sizeof *p);
    worker_connection *c = (worker_connection *) calloc(1, sizeof *c);
    p->stats = (stats_page *) aligned_alloc(64, (sizeof *p->stats + 63) / 64 * 64);
    memset(p->stats, 0, sizeof *p->stats);

    cost = 1;                                                  /* long messages: as much as a turn ever read */
    turn(p, c, 1);
    CHECK(reads == READ_TURNS && octets == READ_TURNS * READ_AT_ONCE, "cheap octets are read in full");
    CHECK(c->read_most == 0, "and so are the next ones");

    cost = 100;                                                /* empty frames */
    turn(p, c, 1);
    CHECK(reads == 1, "a costly read is not followed by another one");
    uint64_t took = turn(p, c, 1);
    CHECK(took <= READS_OF_ALL * 11 / 10 && took >= READS_OF_ALL / 2, "the next turn costs what it may");
    turn(p, c, 20);
    took = turn(p, c, 20);
    CHECK(took <= READS_OF_ONE * 11 / 10 || octets == READ_LEAST, "among twenty it is a twentieth");
    cost = 10000;
    turn(p, c, 64);
    turn(p, c, 64);
    CHECK(reads == 1 && octets == READ_LEAST, "something is always read");

    cost = 1;
    turn(p, c, 1);
    turn(p, c, 1);
    CHECK(octets == READ_TURNS * READ_AT_ONCE, "who says more with its octets is read in full again");
    return 0;
}
