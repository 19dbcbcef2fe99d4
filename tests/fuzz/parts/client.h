/* An AMQP client of the target `worker`: the input chooses what it says, which is mostly right, and in which pieces. */
#ifndef ROUTERD_TESTS_FUZZ_CLIENT_H
#define ROUTERD_TESTS_FUZZ_CLIENT_H

#include <sys/socket.h>
#include <unistd.h>

#include "shm/codec/sections.h"
#include "tests/fuzz/parts/input.h"
#include "workers/lane/lane.h"

enum { CHANNELS = 3, HANDLES = 4 };

typedef struct {
    int fd;                            /* -1: none */
    uint8_t unsent[32768];
    uint32_t size, sent;
    bool begun[CHANNELS], attached[CHANNELS][HANDLES], receives[CHANNELS][HANDLES], middle[CHANNELS][HANDLES];
    uint32_t ids[CHANNELS];
} client;

static uint32_t some_number(uint32_t right)
{
    static const uint32_t odd[] = { 0, 1, 255, 0x7fffffff, 0x80000000, 0xffffffff };
    uint32_t how = below(32);
    return how < 26 ? right : odd[how - 26];
}

static uint8_t *room(client *k, uint32_t size)
{
    if (k->size + size <= sizeof k->unsent) return k->unsent + k->size;
    return NULL;
}

static void say(client *k, const void *octets, uint32_t size)
{
    uint8_t *to = room(k, size);
    if (!to) return;
    memcpy(to, octets, size);
    k->size += size;
}

static void say_list(client *k, uint8_t *frame, const list_writer *w)
{
    say(k, frame, lane_put_size(frame, list_end(frame, w, true)));
}

static void say_open(client *k)
{
    static const uint8_t header[] = { 'A', 'M', 'Q', 'P', 0, 1, 0, 0 };
    static const uint32_t limits[] = { 16384, 512, 1000, 65536 };
    uint8_t frame[128];
    list_writer w = list_begin(frame, 0, LANE_OPEN, true);
    list_put(&w, amqp_put_octets(w.at, AMQP_STRING8, "client", 6));
    list_null(&w);
    list_uint(&w, limits[below(4)]);
    list_put(&w, amqp_put(w.at, AMQP_USHORT, 100));
    say(k, header, sizeof header);
    say_list(k, frame, &w);
}

static void say_begin(client *k, uint16_t channel)
{
    uint8_t frame[128];
    list_writer w = list_begin(frame, channel, LANE_BEGIN, true);
    list_null(&w);
    k->ids[channel % CHANNELS] = below(2) ? 0xfffffffd : 0;
    list_uint(&w, some_number(k->ids[channel % CHANNELS]));
    list_uint(&w, some_number(1 + below(100)));
    list_uint(&w, some_number(0x7fffffff));
    k->begun[channel % CHANNELS] = true;
    say_list(k, frame, &w);
}

static void put_terminus(list_writer *w, uint8_t descriptor)
{
    uint8_t *at = amqp_put_descriptor(w->at, descriptor), *items = at + 9;
    uint8_t *end = below(8) == 7 ? amqp_put(items, AMQP_NULL, 0) : amqp_put_octets(items, AMQP_STRING8, "q", 1);
    amqp_put_items_head(at, AMQP_LIST32, (uint32_t) (end - items), 1);
    list_put(w, end);
}

static void say_attach(client *k, uint16_t channel, uint32_t handle)
{
    uint8_t frame[256], name[] = { 'l', (uint8_t) ('a' + some_number(handle) % 26) };
    list_writer w = list_begin(frame, channel, LANE_ATTACH, true);
    bool receives = below(2);
    list_put(&w, amqp_put_octets(w.at, AMQP_STRING8, name, sizeof name));
    list_uint(&w, some_number(handle));
    list_boolean(&w, receives);
    if (below(4) == 3) list_put(&w, amqp_put(w.at, AMQP_UBYTE, below(4)));
    else list_null(&w);
    if (below(4) == 3) list_put(&w, amqp_put(w.at, AMQP_UBYTE, below(3)));
    else list_null(&w);
    put_terminus(&w, 0x28);
    put_terminus(&w, 0x29);
    list_null(&w);
    list_null(&w);
    if (!receives) list_uint(&w, some_number(0));
    k->attached[channel % CHANNELS][handle % HANDLES] = true;
    k->receives[channel % CHANNELS][handle % HANDLES] = receives;
    k->middle[channel % CHANNELS][handle % HANDLES] = false;
    say_list(k, frame, &w);
}

static amqp_value some_state(uint8_t *to)
{
    static const uint8_t codes[] = { LANE_ACCEPTED, LANE_ACCEPTED, LANE_RECEIVED, LANE_REJECTED, LANE_RELEASED,
                                     LANE_MODIFIED, LANE_TRANSACTIONAL, 77 };
    uint8_t *at = amqp_put_descriptor(to, codes[below(8)]);
    uint32_t how = below(8);
    if (how == 7) return (amqp_value) { NULL, 0 };
    if (how < 6) { *at++ = AMQP_LIST0; return (amqp_value) { to, (size_t) (at - to) }; }
    uint8_t *items = at + 9;
    uint8_t *end = amqp_put(amqp_put(items, AMQP_TRUE, 0), AMQP_FALSE, 0);
    if (below(2)) { memset(end + 5, 'x', 300); end = amqp_put_octets(end, AMQP_BINARY32, end + 5, below(300)); }
    amqp_put_items_head(at, AMQP_LIST32, (uint32_t) (end - items), end > items + 2 ? 3 : 2);
    return (amqp_value) { to, (size_t) (end - to) };
}

static void say_transfer(client *k, uint16_t channel, uint32_t handle)
{
    static const uint32_t sizes[] = { 0, 1, 40, 400, 3000, 15000 };
    static const uint8_t section[] = { 0, AMQP_SMALLULONG, SECTION_DATA, AMQP_BINARY32 };
    static uint8_t frame[20000];
    uint8_t octets[700];
    uint32_t size = sizes[below(6)], how = below(32);
    bool *middle = &k->middle[channel % CHANNELS][handle % HANDLES];
    lane_transfer t = { .handle = some_number(handle), .has_settled = true, .settled = below(3) == 2 };
    if (!*middle || how == 31) {
        t.has_id = t.has_format = true;
        t.id = some_number(k->ids[channel % CHANNELS]++);
        t.tag = (amqp_octets) { octets, 1 + below(4) };
        memset(octets, 't', 4);
    }
    t.more = below(4) == 3;
    t.aborted = how == 30;
    t.resume = how == 29;
    if (how == 28) t.state = some_state(octets + 8);
    uint8_t *at = lane_put_transfer(frame, channel, &t), *begin = at;
    if (!*middle) { memcpy(at, section, sizeof section); at = be32_put(at + sizeof section, size); }
    memset(at, 'p', size);
    at += size;
    if (how == 27 && choices_left() > 40) { memcpy(begin, input.at, 40); at = begin + 40; }   /* any message */
    *middle = t.more && !t.aborted;
    say(k, frame, lane_put_size(frame, at));
}

static void say_flow(client *k, uint16_t channel, uint32_t handle)
{
    uint8_t frame[LANE_FLOW_MAX];
    lane_flow w = { .has_next_in = below(8) != 7, .next_in = some_number(0), .in_window = some_number(1000),
                    .next_out = some_number(k->ids[channel % CHANNELS]), .out_window = some_number(0x7fffffff) };
    if (below(8) != 7) {
        w.has_handle = w.has_credit = true;
        w.handle = some_number(handle);
        w.has_count = below(4) != 3;
        w.count = some_number(0);
        w.credit = some_number(below(100));
    }
    w.drain = below(8) == 7;
    w.echo = below(8) == 7;
    say(k, frame, lane_put_flow(frame, channel, &w));
}

static void say_disposition(client *k, uint16_t channel)
{
    uint8_t frame[LANE_DISPOSITION_MAX + 700], octets[700];
    lane_disposition d = { .first = some_number(below(16)), .receiver = below(4) != 3, .settled = below(4) != 3,
                           .state = some_state(octets) };
    d.last = some_number(d.first + below(4));
    say(k, frame, lane_put_disposition(frame, channel, &d));
}

static void say_end(client *k, uint16_t channel, uint32_t handle, uint8_t performative)
{
    uint8_t frame[64];
    list_writer w = list_begin(frame, channel, performative, true);
    if (performative == LANE_DETACH) {
        list_uint(&w, some_number(handle));
        list_boolean(&w, below(2));
        k->attached[channel % CHANNELS][handle % HANDLES] = false;
    } else if (performative == LANE_END) {
        memset(k->attached[channel % CHANNELS], 0, sizeof k->attached[0]);
        k->begun[channel % CHANNELS] = false;
    }
    say_list(k, frame, &w);
}

/* A frame whose body is the input's. */
static void say_anything(client *k, uint16_t channel)
{
    uint8_t frame[LANE_FRAME_HEAD + 64] = { 0, 0, 0, 0, 2, (uint8_t) (below(16) == 15), 0, (uint8_t) channel };
    uint32_t size = below(64);
    if (size > choices_left()) size = (uint32_t) choices_left();
    memcpy(frame + LANE_FRAME_HEAD, input.at, size);
    input.at += size;
    say(k, frame, lane_put_size(frame, frame + LANE_FRAME_HEAD + size));
}

static void client_ends(client *k)
{
    close(k->fd);
    k->fd = -1;
}

static void client_reads(client *k)
{
    uint8_t octets[65536];
    if (recv(k->fd, octets, sizeof octets, MSG_DONTWAIT) == 0) client_ends(k);
}

static void client_writes(client *k)
{
    static const uint32_t sizes[] = { 65536, 1, 7, 100 };
    uint32_t size = sizes[below(4)], left = k->size - k->sent;
    ssize_t n = send(k->fd, k->unsent + k->sent, size < left ? size : left, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) k->sent += (uint32_t) n;
    if (k->sent == k->size) k->size = k->sent = 0;
}

static void client_speaks(client *k)
{
    uint16_t channel = (uint16_t) below(CHANNELS);
    uint32_t handle = below(HANDLES), how = below(32);
    if (!k->begun[channel] && how < 30) { say_begin(k, channel); return; }
    if (how < 4 || (how < 20 && !k->attached[channel][handle])) { say_attach(k, channel, handle); return; }
    if (how < 20) {
        if (!k->receives[channel][handle] && how < 18) say_transfer(k, channel, handle);
        else say_flow(k, channel, handle);
    } else if (how < 25) say_disposition(k, channel);
    else if (how < 27) say_flow(k, channel, handle);
    else if (how == 27) say_end(k, channel, handle, LANE_DETACH);
    else if (how == 28) say_end(k, channel, handle, below(8) == 7 ? LANE_CLOSE : LANE_END);
    else say_anything(k, channel);
}

#endif
