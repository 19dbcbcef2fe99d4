/* What ends a connection whose peer takes no octets any more, and when, with a clock and sockets of the test's own.
 *
 * The program ends with a line for the first mistake.
 */
#define _GNU_SOURCE
#include <time.h>

static unsigned long long now = 1000000000u;

static int told_time(int clock, struct timespec *t)
{
    (void) clock;
    *t = (struct timespec) { .tv_sec = (time_t) (now / 1000000000u), .tv_nsec = (long) (now % 1000000000u) };
    return 0;
}
#define clock_gettime told_time

#include "tests/native/growth/growth_portions.h"

enum { N = 2000, IDLE = 60000, SLACK = 2000 };                 /* milliseconds; the engine looks once a second */

static void pass(int64_t ms)
{
    for (int64_t i = 0; i < ms; i += SWEEP_MS) {
        now += SWEEP_MS * 1000000ull;
        world.p.next_sweep = 0;
        pump_run(&world.p, 0);
        core_hears();
        turns(false);
    }
}

static worker_connection *connection(void)
{
    for (uint32_t i = 0; i < world.p.conns.high; i++) {
        worker_connection *c = (worker_connection *) pool_at(&world.p.conns, i);
        if (c->slot.next_free == SLOT_USED && c->links_out + c->lane->session_count) return c;
    }
    CHECK(false, "there is no connection");
    return NULL;
}

static void small_buffer(worker_connection *c)
{
    int octets = 4096;
    setsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, &octets, sizeof octets);
}

/* A receiver for whom more is sent than its socket takes, and who does not read it. */
static client full_client(void)
{
    client from, k;
    const routerd_record m = message(&from);
    client_goes(&from, false);
    k = client_with(1, true);
    small_buffer(connection());
    say_flow(&k, 0, 0, N, WIDE);
    utter(&k, false);
    for (uint32_t i = 0; i < N / 2; i++) { core_sends(&m, 0, i + 1); turns(false); }
    CHECK(connection()->want_write, "the socket takes all");
    CHECK(world.p.outs.used == N / 2, "%u deliveries", world.p.outs.used);
    return k;
}

/* One who begins and ends sessions, and does not read the answers, until the worker does not read on. */
static client choked_client(void)
{
    client k = client_with(1, true);
    worker_connection *c = connection();
    small_buffer(c);
    for (int i = 0; i < 10000 && !c->lane->choked; i++) {
        say_begin(&k, 1, WIDE);
        say_end(&k, 1, 0, LANE_END);
        if (i % 100 == 99) { write_said(&k); turns(false); }
    }
    CHECK(c->lane->choked && !c->reading, "the worker reads on");
    return k;
}

static void say_heartbeat(client *k)
{
    static const uint8_t empty[] = { 0, 0, 0, 8, 2, 0, 0, 0 };
    k->size = 0;
    say(k, empty, sizeof empty);
    CHECK(write_said(k), "the socket takes less");
}

static void take_some(client *k)
{
    uint8_t octets[1 << 14];
    CHECK(recv(k->fd, octets, sizeof octets, MSG_DONTWAIT) > 0, "nothing to take");
}

static void there(const char *who)
{
    CHECK(world.p.conns.used == 1, "%s: it has gone already", who);
}

/* All of a connection has gone before its client closes the socket. */
static void gone(client *k, const char *who)
{
    CHECK(!world.p.conns.used && !world.p.links.used && !world.p.outs.used, "%s: %u connections are left", who,
          world.p.conns.used);
    client_goes(k, false);
}

static void passes(int64_t ms, client *k, const char *who)
{
    pass(ms - SLACK);
    there(who);
    pass(2 * SLACK);
    gone(k, who);
}

int main(void)
{
    world_open(N);
    world.p.listeners[0].idle_timeout_ms = IDLE;

    client k = full_client();
    passes(IDLE + LAST_WORD_MS, &k, "silent with a full socket");

    k = full_client();
    for (int i = 0; i < 6; i++) { say_heartbeat(&k); pass(IDLE / 2); there("full, with signs of life"); }
    client_goes(&k, false);

    k = full_client();
    say(&k, "\0\0\0\7\2\0\0\0", 8);
    CHECK(write_said(&k), "the socket takes less");
    passes(LAST_WORD_MS, &k, "a violation with a full socket");

    k = choked_client();
    passes(IDLE + LAST_WORD_MS, &k, "choked");

    k = choked_client();
    for (int i = 0; i < 6; i++) { take_some(&k); pass(IDLE / 2); there("choked, and takes something"); }
    CHECK(connection()->lane->choked, "it is not choked any more");
    client_goes(&k, false);

    world.p.listeners[0].idle_timeout_ms = 0;
    k = choked_client();
    pass(6 * IDLE);
    there("choked, without an idle timeout");
    client_goes(&k, false);
    CHECK(!world.p.conns.used, "%u connections are left", world.p.conns.used);
    return 0;
}
