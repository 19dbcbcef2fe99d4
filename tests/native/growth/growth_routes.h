/* How a table of route workers grows: what it costs to load one of n, and to look up an address; and what one of n
 * Ockam nodes costs that are connected. */
#ifndef ROUTERD_TESTS_GROWTH_ROUTES_H
#define ROUTERD_TESTS_GROWTH_ROUTES_H

#include "tests/native/growth/growth_world.h"

static uint8_t *put_route_stop(uint8_t *at, uint32_t number)
{
    char name[16];
    const uint8_t size = (uint8_t) snprintf(name, sizeof name, "stop-%u", number * 7919u);
    *at++ = 64;
    *at++ = size;
    *at++ = 0;
    memcpy(at, name, size);
    return at + size;
}

/* A table of n route workers that forward is loaded, and addresses are looked up in it: theirs, and others. */
static void route_workers(uint32_t n)
{
    enum { LIMITS = 12, WORKER = 8, SOURCES = 8 * ROUTE_SOURCE_WORDS };
    uint8_t *bytes = (uint8_t *) calloc(n + 1, 256), *at = bytes + LIMITS + 2;
    *at++ = (uint8_t) n;
    *at++ = (uint8_t) (n >> 8);
    for (uint32_t i = 0; i < n; i++) {
        at += WORKER;
        *at++ = 0xff;                                          /* no rule names it as a source */
        *at++ = 0xff;
        at = put_route_stop(put_route_stop(at, i), i);
        at += 2 + SOURCES + 2 + 4 * 2 + SOURCES + 1;           /* no access, inner address, trace, lists, uplinks */
    }
    counting = true;
    route_table *t = route_table_load(bytes, (size_t) (at - bytes));
    report("route_worker_is_loaded", n);
    CHECK(t && t->worker_count == n, "no table");
    for (uint32_t other = 0; other < 2; other++) {
        counting = true;
        for (uint32_t i = 0; i < n; i++) {
            uint8_t name[64];
            put_route_stop(name, other ? n + i : i);
            const route_stop s = { name + 3, name[1], name[0] };
            CHECK((route_find(t, &s) == NULL) == (other == 1), "stop %u", i);
        }
        report(other ? "no_route_worker_is_found" : "route_worker_is_found", n);
    }
    route_table_free(t);
    free(bytes);
}

/* n nodes connect, each gets a link in and one out, and has a frame that no route worker takes; then each goes. */
static void ockam_nodes(uint32_t n)
{
    static const uint8_t frame[] = { OCKAM_VERSION, 0, 0, 0, 1, 0 };
    worker_listener *place = listener_new(&world.p);
    ockam_terms *terms = (ockam_terms *) calloc(1, sizeof *terms);
    int *fd = (int *) calloc(n, sizeof *fd);
    CHECK(place && terms && fd, "no place");
    *terms = (ockam_terms) { .framed = { &ockam_protocol, 1000 }, .framing = OCKAM_CBOR };
    *place = (worker_listener) { .fd = -1, .dials = true, .framed = &terms->framed, .link_capacity = 250 };
    for (uint32_t i = 0; i < n; i++) {
        int pair[2];
        CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), "no sockets");
        fd[i] = pair[1];
        counting = true;
        worker_connection *c = framed_new(&world.p, pair[0], (uint16_t) (place - world.p.listeners), false);
        CHECK(c && (c->framed->other = framed_link(&world.p, c, false))
              && (c->framed->back = framed_link(&world.p, c, true)), "no room");
        ockam_greet(&world.p, c);
        turns(true);
        counting = false;
        c->known = c->framed->other->open = c->framed->back->open = true;
        world.links[i] = (name) { pool_index(&world.p.links, c->framed->other), c->framed->other->slot.generation };
    }
    report("ockam_node_connects", n);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t j = shuffled(i, n);
        to_worker(W_FLOW, world.links[j])->credit = 2;
        CHECK(send(fd[j], frame, sizeof frame, MSG_NOSIGNAL) == sizeof frame, "it cannot write");
        turns(true);
    }
    report("frame_of_an_ockam_node", n);
    CHECK(stats_get(world.p.stats, N_OCKAM_FRAMES_IN) == n, "%lu frames", stats_get(world.p.stats, N_OCKAM_FRAMES_IN));
    for (uint32_t i = 0; i < n; i++) { close(fd[shuffled(i, n)]); turns(true); }
    report("ockam_node_goes", n);
    CHECK(!world.p.conns.used && !world.p.links.used && !place->used, "something is left");
    place->dials = false;
    free(fd);
}

/* While n connections are open, a listener takes the place of one that is gone. */
static void listener_comes(void)
{
    worker_listener *gone = listener_new(&world.p);
    CHECK(gone, "no place");
    gone->fd = -1;
    counting = true;
    const worker_listener *next = listener_new(&world.p);
    report("listener_comes", 1);
    CHECK(next == gone, "another place");
}

#endif
