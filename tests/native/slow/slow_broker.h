/* A broker whose connection has links for clients, with a clock of the test's own (slow.c). */
#ifndef ROUTERD_TESTS_SLOW_BROKER_H
#define ROUTERD_TESTS_SLOW_BROKER_H

#include <time.h>

static unsigned long long now = 1000000000u, each;     /* nanoseconds; so many pass between two looks */

static int told_time(int clock, struct timespec *t)
{
    (void) clock;
    now += each;
    *t = (struct timespec) { .tv_sec = (time_t) (now / 1000000000u), .tv_nsec = (long) (now % 1000000000u) };
    return 0;
}
#define clock_gettime told_time

#include "tests/native/growth/growth_portions.h"

enum { N = 20000, WINDOW = 64, SLACK = 500, FRAME = 16000, SESSIONS = 16, MINUTE = 60000 };    /* milliseconds */
enum { HOG = 1, OTHER = 2, THIRD = 3 };                        /* clients */

static struct {
    client k;
    worker_connection *c;
    uint32_t handles, ids[SESSIONS];
} broker;

static void pass(int64_t ms)
{
    for (int64_t i = 0; i < ms; i += SWEEP_MS) {
        now += SWEEP_MS * 1000000ull;
        world.p.next_sweep = (int64_t) (now / 1000000u);
        pump_run(&world.p, 0);
        core_hears();
        turns(false);
        forget_answers(&broker.k);
    }
}

/* `few`: a client may keep no more blocks than it has. */
static void few_blocks(bool few)
{
    world.p.reserve = few ? (world.p.arena.free_count[0] + world.p.arena.free_count[1]) / 4 * 3 : 64;
}

static void broker_comes(void)
{
    world.p.listeners[0].window = world.p.listeners[0].widest = WINDOW;
    world.delivered_count = 0;
    few_blocks(false);
    memset(&broker, 0, sizeof broker);
    broker.k = client_new();
    utter(&broker.k, false);
    broker.c = (worker_connection *) pool_at(&world.p.conns, 0);
}

static void broker_goes(void)
{
    client_goes(&broker.k, false);
    for (uint32_t i = 0; i < world.delivered_count; i++) {     /* the core gives all blocks back */
        core_settles(i);
        if (i % 256 == 255) turns(false);
    }
    turns(false);
    CHECK(!world.p.conns.used && !world.p.links.used && !world.p.ins.used, "something is left");
}

static void say_begun(uint16_t channel)
{
    uint8_t frame[128];
    list_writer w = list_begin(frame, channel, LANE_BEGIN, true);
    list_put(&w, amqp_put(w.at, AMQP_USHORT, channel));
    list_uint(&w, 0);
    list_uint(&w, WIDE);
    list_uint(&w, WIDE);
    say_list(&broker.k, frame, &w);
}

/* A link of a client in a session of that number, for which the broker is asked. */
static worker_link *link_asked(uint32_t client, bool neighbour, uint32_t session, uint32_t handle)
{
    char text[16];
    snprintf(text, sizeof text, "l%u", handle);
    worker_link *k = dial_link(&world.p, broker.c, ROUTED_SESSIONS + session, client, text, false);
    CHECK(k, "no link");
    k->known = true;
    k->asked = 1;
    share_take(k, client, neighbour, 100);
    if (client) link_routed(k);
    pn_terminus_set_address(pn_link_source(k->engine), "q");
    dial_attach(&world.p, k);
    turns(false);
    return k;
}

/* The same, and the broker answers. */
static name link_of(uint32_t client, bool neighbour, uint32_t session)
{
    const uint32_t handle = broker.handles++;
    worker_link *k = link_asked(client, neighbour, session, handle);
    if (!k->session->begun_there) say_begun(k->session->local);
    say_attach(&broker.k, k->session->local, handle, false);
    utter(&broker.k, false);
    CHECK(k->open, "link %u is not answered", handle);
    k->asked = 0;
    const name there = { pool_index(&world.p.links, k), k->slot.generation };
    to_worker(W_FLOW, there)->credit = N;
    turns(false);
    return there;
}

static worker_link *far(name n) { return (worker_link *) pool_find2(&world.p.links, n.index, n.generation); }

static void there(name n, const char *what) { CHECK(far(n), "%s: the link has gone", what); }
static void gone(name n, const char *what) { CHECK(!far(n), "%s: the link is there", what); }

/* Frames of a message of one octet each, or, with `long_ones`, of one that goes on. */
static void sends(name n, uint32_t count, bool long_ones)
{
    static uint8_t frame[LANE_TRANSFER_MAX + FRAME] = { 0 };
    const uint16_t channel = far(n)->session->local;
    for (uint32_t i = 0; i < count; i++) {
        const worker_link *k = far(n);
        const bool first = !k->lane.begun;
        if (long_ones) {
            lane_transfer t = { .handle = k->remote_handle, .has_id = first, .id = broker.ids[channel],
                                .has_format = first, .has_settled = true, .more = true };
            if (first) t.tag = (amqp_octets) { (const uint8_t *) "t", 1 };
            uint8_t *at = lane_put_transfer(frame, channel, &t), *from = at;
            if (first) at = amqp_put_items_head(amqp_put_descriptor(at, SECTION_DATA), AMQP_BINARY32, 1 << 30, 0);
            memset(at, 'x', (size_t) (from + FRAME - at));
            say(&broker.k, frame, lane_put_size(frame, from + FRAME));
            broker.ids[channel] += first;
        } else {
            say_transfer(&broker.k, channel, k->remote_handle, broker.ids[channel]++);
        }
        utter(&broker.k, false);
    }
}

/* Messages of which the client keeps as many as it may; the others fill its session's window. */
static void fills(name n)
{
    few_blocks(true);
    for (int i = 0; i < 2 * WINDOW && !session_stands(far(n)->session); i++) sends(n, 1, false);
    CHECK(far(n)->stalled && session_stands(far(n)->session), "the window is open");
}

/* The last message that a link's receiver has, settled. */
static void settles(name n)
{
    for (uint32_t i = 0; i < world.delivered_count; i++) {
        if (world.delivered[i].link != n.index || world.delivered[i].type != A_DELIVER) continue;
        core_settles(i);
        world.delivered[i] = world.delivered[--world.delivered_count];
        turns(false);
        return;
    }
    CHECK(false, "nothing is to be settled");
}

static void slow_ends(name n, const char *what)
{
    pass(SLOW_MS - SLACK);
    there(n, what);
    pass(2 * SLACK + SLOW_LOOK_MS);
    gone(n, what);
}

static void goes_on(name n, const char *what)
{
    const uint32_t before = world.delivered_count;
    const worker_session *s = far(n)->session;
    CHECK(s->lane.held < s->lane.in_most / 2 && s->lane.in_window, "%s: the window is shut", what);
    sends(n, 1, false);
    CHECK(world.delivered_count == before + 1, "%s: no message comes", what);
}

#endif
