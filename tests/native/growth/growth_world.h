/* A worker whose core, whose clients and whose Python are the program that includes this.  A client collects what it is
 * to say, and utters it; `counted` work adds to the steps of growth.h.
 */
#ifndef ROUTERD_TESTS_GROWTH_WORLD_H
#define ROUTERD_TESTS_GROWTH_WORLD_H

#include "tests/native/growth/growth.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/native/worker_world.h"

enum { ARENA = 64 << 20, STRIDE = 7919, CLIENT_ROOM = 1 << 20, WIDE = 0x7fffffff };

void pn_terminus_set_type(pn_terminus_t *terminus, int type);

typedef struct { uint32_t index, generation; } name;           /* of a link */

/* A worker whose core, whose clients and whose Python are here. */
static struct {
    pump p;
    worker_world core;
    name *links;                                               /* in the order of their ATTACHes */
    uint32_t link_count;
    routerd_record *delivered;                                 /* of A_DELIVER, in their order */
    uint32_t delivered_count;
    name *drained;                                             /* links of A_DRAIN since the last turn */
    uint32_t drained_count;
    uint32_t ended;                                            /* outgoing deliveries */
    routerd_record newest;                                     /* what ended the one with the largest handle of these */
    uint32_t accepted;                                         /* of receivers, who settle */
    uint32_t heard;                                            /* actions in all */
} world;

typedef struct {
    int fd;
    uint8_t *said;
    uint32_t size;
} client;

/* ---- what Python does ---- */

static routerd_record *to_worker(uint8_t type, name link)
{
    routerd_record *r = ring_slot(&world.core.work);
    CHECK(r, "the work ring is full");
    *r = (routerd_record) { .type = type, .link = link.index, .link_gen = link.generation, .block = ROUTERD_NIL };
    ring_push(&world.core.work);
    return r;
}

static void attach(worker_connection *c, pn_link_t *engine)
{
    worker_link *k = link_new(&world.p, c, engine);
    CHECK(k, "no link");
    pn_terminus_copy(pn_link_source(engine), pn_link_remote_source(engine));
    pn_terminus_copy(pn_link_target(engine), pn_link_remote_target(engine));
    pn_link_open(engine);
    k->open = k->known = true;
    mark_dirty(&world.p, c);
    world.links[world.link_count++] = (name) { pool_index(&world.p.links, k), k->slot.generation };
}

static void on_event(void *self, int event, worker_connection *c, worker_link *k, void *object,
                     const routerd_record *record)
{
    (void) self, (void) k, (void) record;
    if (event == EV_CONNECTION_OPEN) c->known = true;
    if (!world_answers(&world.p, event, c) && event == EV_ATTACH) attach(c, (pn_link_t *) object);
}

/* ---- turns ---- */

static void core_hears(void)
{
    for (const routerd_record *r; (r = ring_peek(&world.core.actions)); ring_advance(&world.core.actions)) {
        if (r->type == A_DELIVER) world.delivered[world.delivered_count++] = *r;
        if (r->type == A_DRAIN) world.drained[world.drained_count++] = (name) { r->link, r->link_gen };
        const bool ends = r->type == A_DONE || (r->type == A_UPDATE && !(r->flags & F_IN) && r->flags & F_SETTLED);
        world.ended += ends;
        if (ends && r->delivery > world.newest.delivery) world.newest = *r;
        world.accepted += r->type == A_UPDATE && !(r->flags & F_IN) && r->flags & F_SETTLED && r->state == S_ACCEPTED;
        if (r->type == A_UPDATE && r->extra & D_PAYLOAD)
            to_worker(W_RELEASE, (name) { ROUTERD_NIL, 0 })->block = r->block;
        world.heard++;
    }
    ring_return(&world.core.actions);
    ring_publish(&world.core.work);
}

static void turn(bool counted)
{
    ring_publish(&world.core.work);
    world.p.next_sweep = INT64_MAX;                            /* what it does once a second is no operation's */
    counting = counted;
    pump_run(&world.p, 0);
    counting = false;
    core_hears();
}

/* The worker's turns until nothing is left to do. */
static void turns(bool counted)
{
    pump *p = &world.p;
    struct pollfd sockets = { .fd = p->epoll_fd, .events = POLLIN };
    do turn(counted);
    while (!turn_timeout(p, INT64_MAX) || work_pending(p) || p->actions.waiting || poll(&sockets, 1, 0) > 0);
}

/* ---- clients ---- */

static void say(client *k, const void *octets, uint32_t size)
{
    CHECK(k->size + size <= CLIENT_ROOM, "too much to say");
    memcpy(k->said + k->size, octets, size);
    k->size += size;
}

static void say_list(client *k, uint8_t *frame, const list_writer *w)
{
    say(k, frame, lane_put_size(frame, list_end(frame, w, true)));
}

static void forget_answers(client *k)
{
    static uint8_t octets[1 << 16];
    while (recv(k->fd, octets, sizeof octets, MSG_DONTWAIT) > 0) {}
}

/* Writes what has been said, as much as the socket takes; true: all of it. */
static bool write_said(client *k)
{
    ssize_t n = send(k->fd, k->said, k->size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) memmove(k->said, k->said + n, k->size -= (uint32_t) n);
    return !k->size;
}

/* Writes what has been said, and lets the worker handle it. */
static void utter(client *k, bool counted)
{
    for (bool all = false; !all;) {
        all = write_said(k);
        turns(counted);
        forget_answers(k);
    }
}

static void say_open(client *k)
{
    static const uint8_t header[] = { 'A', 'M', 'Q', 'P', 0, 1, 0, 0 };
    uint8_t frame[128];
    list_writer w = list_begin(frame, 0, LANE_OPEN, true);
    list_put(&w, amqp_put_octets(w.at, AMQP_STRING8, "client", 6));
    list_null(&w);
    list_uint(&w, 16384);
    list_put(&w, amqp_put(w.at, AMQP_USHORT, 0xffff));
    say(k, header, sizeof header);
    say_list(k, frame, &w);
}

static void say_begin(client *k, uint16_t channel, uint32_t window)
{
    uint8_t frame[128];
    list_writer w = list_begin(frame, channel, LANE_BEGIN, true);
    list_null(&w);
    list_uint(&w, 0);
    list_uint(&w, window);
    list_uint(&w, WIDE);
    say_list(k, frame, &w);
}

static void put_terminus(list_writer *w, uint8_t descriptor)
{
    uint8_t *at = amqp_put_descriptor(w->at, descriptor), *items = at + 9;
    uint8_t *end = amqp_put_octets(items, AMQP_STRING8, "q", 1);
    amqp_put_items_head(at, AMQP_LIST32, (uint32_t) (end - items), 1);
    list_put(w, end);
}

static void say_attach(client *k, uint16_t channel, uint32_t handle, bool receives)
{
    uint8_t frame[256], text[16];
    list_writer w = list_begin(frame, channel, LANE_ATTACH, true);
    size_t size = (size_t) sprintf((char *) text, "l%u", handle);
    list_put(&w, amqp_put_octets(w.at, AMQP_STRING8, text, size));
    list_uint(&w, handle);
    list_boolean(&w, receives);
    list_null(&w);
    list_null(&w);
    put_terminus(&w, 0x28);
    put_terminus(&w, 0x29);
    list_null(&w);
    list_null(&w);
    if (!receives) list_uint(&w, 0);
    say_list(k, frame, &w);
}

static void say_end(client *k, uint16_t channel, uint32_t handle, uint8_t performative)
{
    uint8_t frame[64];
    list_writer w = list_begin(frame, channel, performative, true);
    if (performative == LANE_DETACH) { list_uint(&w, handle); list_boolean(&w, true); }
    say_list(k, frame, &w);
}

static void say_transfer(client *k, uint16_t channel, uint32_t handle, uint32_t id)
{
    static const uint8_t body[] = { 0, AMQP_SMALLULONG, SECTION_DATA, AMQP_BINARY8, 1, 'x' };
    uint8_t frame[LANE_TRANSFER_MAX + sizeof body];
    lane_transfer t = { .handle = handle, .has_id = true, .id = id, .has_format = true, .has_settled = true,
                        .tag = { (const uint8_t *) &id, sizeof id } };
    uint8_t *at = lane_put_transfer(frame, channel, &t);
    memcpy(at, body, sizeof body);
    say(k, frame, lane_put_size(frame, at + sizeof body));
}

static void say_flow(client *k, uint16_t channel, uint32_t handle, uint32_t credit, uint32_t window)
{
    uint8_t frame[LANE_FLOW_MAX];
    lane_flow w = { .has_next_in = true, .in_window = window, .out_window = WIDE, .has_handle = true,
                    .handle = handle, .has_count = true, .has_credit = true, .credit = credit };
    say(k, frame, lane_put_flow(frame, channel, &w));
}

static void say_window(client *k, uint32_t window)
{
    uint8_t frame[LANE_FLOW_MAX];
    lane_flow w = { .has_next_in = true, .in_window = window, .out_window = WIDE };
    say(k, frame, lane_put_flow(frame, 0, &w));
}

static void say_disposition(client *k, uint32_t first, uint32_t last, bool receiver)
{
    static const uint8_t accepted[] = { AMQP_DESCRIBED, AMQP_SMALLULONG, LANE_ACCEPTED, AMQP_LIST0 };
    uint8_t frame[LANE_DISPOSITION_MAX + sizeof accepted];
    lane_disposition d = { .first = first, .last = last, .receiver = receiver, .settled = true,
                           .state = { accepted, sizeof accepted } };
    say(k, frame, lane_put_disposition(frame, 0, &d));
}

/* A state that settles nothing. */
static void say_state(client *k, uint32_t first, uint32_t last, uint8_t code)
{
    const uint8_t state[] = { AMQP_DESCRIBED, AMQP_SMALLULONG, code, AMQP_LIST0 };
    uint8_t frame[LANE_DISPOSITION_MAX + sizeof state];
    lane_disposition d = { .first = first, .last = last, .receiver = true, .state = { state, sizeof state } };
    say(k, frame, lane_put_disposition(frame, 0, &d));
}

static client client_new(void)
{
    int pair[2];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), "no sockets");
    CHECK(conn_new(&world.p, pair[0], 0), "no connection");
    client k = { .fd = pair[1], .said = (uint8_t *) malloc(CLIENT_ROOM) };
    CHECK(k.said, "no memory");
    say_open(&k);
    return k;
}

static void client_goes(client *k, bool counted)
{
    close(k->fd);
    free(k->said);
    turns(counted);
}

/* A client with one session, and in it so many links. */
static client client_with(uint32_t links, bool receives)
{
    client k = client_new();
    world.link_count = world.delivered_count = 0;
    say_begin(&k, 0, WIDE);
    for (uint32_t i = 0; i < links; i++) {
        say_attach(&k, 0, i, receives);
        if (i % 256 == 255) utter(&k, false);
    }
    utter(&k, false);
    CHECK(world.link_count == links, "%u links", world.link_count);
    return k;
}

static uint32_t shuffled(uint32_t i, uint32_t n) { return (uint32_t) ((uint64_t) i * STRIDE % n); }

/* ---- the whole ---- */

static void world_open(uint32_t n)
{
    worker_open(&world.core, &world.p, ARENA, on_event,
                (worker_listener) { .fd = -1, .max_frame = 16384, .channel_max = 0xffff, .idle_timeout_ms = 600000,
                                    .handshake_ms = 600000, .link_capacity = 250, .window = 8 * n, .widest = 8 * n,
                                    .mechanisms = "ANONYMOUS" });
    world.links = (name *) calloc(2 * n, sizeof *world.links);
    world.delivered = (routerd_record *) calloc(2 * n, sizeof *world.delivered);
    world.drained = (name *) calloc(2 * n, sizeof *world.drained);
    CHECK(world.links && world.delivered && world.drained, "no memory");
}

#endif
