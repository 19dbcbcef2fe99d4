/* The data lane's frames, states and maps: octets that make no sense.
 *
 *   - whatever the octets, nothing outside of a frame is read, and what is read lies inside of it
 *   - a frame that is cut at any octet is not taken for a whole one, and a performative that is cut is malformed
 *   - what is written is read as what it was, in octets that stay below the stated maximum
 *   - a DETACH, END or CLOSE stays one when it is shortened
 *   - a sound state stays sound, and the same outcome, when it is shortened
 *   - what is no text in an OPEN or ATTACH is described in text
 *   - a map has what was put into it, in the order of serial numbers
 * Each frame stands in an allocation of its own size, for AddressSanitizer.
 */
#include "tests/fuzz/parts/lane.h"

#define STATE_ROOM 700u

/* ---- values ---- */

static uint8_t *some_value(uint8_t *to, int depth);

/* Values between a compound's head in its long form, whose place is `to`. */
static uint8_t *some_items(uint8_t *to, uint8_t code, uint32_t count, int depth)
{
    uint8_t *at = to + 9;
    for (uint32_t i = 0; i < count; i++) at = some_value(at, depth - 1);
    amqp_put_items_head(to, code, (uint32_t) (at - to - 9), count);
    return at;
}

static uint8_t *some_value(uint8_t *to, int depth)
{
    static const uint8_t fixed[] = { AMQP_NULL, AMQP_TRUE, AMQP_UINT0, AMQP_LIST0, AMQP_UBYTE, AMQP_USHORT, AMQP_UINT,
                                     AMQP_ULONG, AMQP_TIMESTAMP };
    static const uint8_t octets[] = { AMQP_BINARY8, AMQP_STRING8, AMQP_SYMBOL8, AMQP_BINARY32, AMQP_STRING32 };
    static const char text[] = "abcdefghijklmnopqrstuvwxyz";
    switch (below(depth > 0 ? 6 : 3)) {
    case 3: return some_items(to, AMQP_LIST32, below(3), depth);
    case 4: return some_items(to, AMQP_MAP32, 2 * below(2), depth);
    case 5:
        if (one_in(2)) return some_value(amqp_put_descriptor(to, (uint8_t) below(256)), depth - 1);
        to = amqp_put_items_head(to, AMQP_ARRAY8, 1 + 3 * 2, 3);
        *to++ = AMQP_USHORT;
        memset(to, (int) below(256), 6);
        return to + 6;
    case 0: return amqp_put_octets(to, octets[below(5)], text, below(sizeof text - 1));
    default: return amqp_put(to, fixed[below(sizeof fixed)], any());
    }
}

/* A state, of which others may have any. */
static amqp_value some_state(uint8_t *to)
{
    uint8_t *at, *list;
    switch (below(6)) {
    case 0: return (amqp_value) { NULL, 0 };
    case 1: at = some_items(amqp_put_descriptor(to, (uint8_t) (0x20 + below(32))), AMQP_LIST32, below(4), 3); break;
    case 2:                                                                            /* rejected, with an error */
        list = amqp_put_descriptor(amqp_put_descriptor(to, LANE_REJECTED) + 9, LANE_ERROR);
        at = amqp_put_octets(list + 9, AMQP_SYMBOL8, "amqp:not-allowed", 16);
        at = amqp_put_octets(at, AMQP_STRING32, memset(at + 5, 'x', 300), below(300));
        at = some_items(at, AMQP_MAP32, 2 * below(3), 2);
        amqp_put_items_head(list, AMQP_LIST32, (uint32_t) (at - list - 9), 3);
        amqp_put_items_head(to + 3, AMQP_LIST32, (uint32_t) (at - to - 12), 1);
        break;
    case 3:                                                                            /* modified, with annotations */
        list = amqp_put_descriptor(to, LANE_MODIFIED);
        at = some_items(amqp_put(amqp_put(list + 9, AMQP_TRUE, 0), AMQP_NULL, 0), AMQP_MAP32, 2 * below(4), 2);
        amqp_put_items_head(list, AMQP_LIST32, (uint32_t) (at - list - 9), 3);
        break;
    default:
        at = amqp_put_descriptor(to, LANE_ACCEPTED);
        *at++ = AMQP_LIST0;
    }
    CHECK(at - to <= STATE_ROOM, "a state of %td octets", at - to);
    return (amqp_value) { to, (size_t) (at - to) };
}

static void shorten(amqp_value v)
{
    if (!v.at) return;
    CHECK(lane_state_sound(v), "a state in order is unsound");
    uint32_t room = below(STATE_ROOM);
    uint8_t *to = malloc(room ? room : 1);
    uint32_t size = lane_state_shorten(v, to, room);
    CHECK(size <= room, "%u octets in %u", size, room);
    CHECK(!size || (lane_state_sound((amqp_value) { to, size }) && lane_state_code((amqp_value) { to, size })
                    == lane_state_code(v)), "the shortened state is another one");
    free(to);
}

/* ---- frames ---- */

static bool inside(const void *at, size_t size, const uint8_t *frame, size_t frame_size)
{
    return !at || ((const uint8_t *) at >= frame && (const uint8_t *) at + size <= frame + frame_size);
}

/* Everything that can be read of any frame. */
static void look_for_text(lane_frame f, uint8_t performative)
{
    lane_no_text no;
    f.performative = performative;
    if (lane_texts(&f, &no)) return;
    size_t size = strnlen(no.description, sizeof no.description);
    CHECK(no.condition && size && size < sizeof no.description, "a description of %zu octets", size);
    for (size_t i = 0; i < size; i++) CHECK(no.description[i] >= ' ' && no.description[i] < 0x7f, "no text in it");
}

/* What ends something stays what it was in as few octets as a peer may want. */
static void look_for_ending(lane_frame f, uint8_t performative, const uint8_t *frame, size_t size)
{
    lane_ending e, shorter;
    lane_frame g;
    f.performative = performative;
    if (lane_ending_read(&f, &e)) return;
    CHECK(inside(e.condition.at, e.condition.size, frame, size)
          && inside(e.description.at, e.description.size, frame, size), "an error outside");
    uint32_t room = 512 + f.channel % 256;
    uint8_t *to = malloc(room);
    uint32_t there = lane_put_ending(to, room, &f, &e);
    CHECK(there <= room && lane_frame_read(to, there, &g) == LANE_FINE && g.performative == performative
          && g.channel == f.channel && lane_ending_read(&g, &shorter) == LANE_FINE, "%u octets in %u", there, room);
    CHECK(shorter.handle == e.handle && shorter.closed == e.closed && shorter.failed == e.failed
          && (!e.failed || shorter.condition.at) && shorter.description.size <= e.description.size
          && (!shorter.description.size
              || !memcmp(shorter.description.at, e.description.at, shorter.description.size)), "another ending");
    free(to);
}

static enum lane_fault look(const uint8_t *octets, size_t size)
{
    lane_frame f;
    lane_transfer t;
    lane_flow flow;
    lane_disposition d;
    lane_begin b;
    lane_attach a;
    uint32_t handle;
    uint8_t *frame = copy_of(octets, size);
    enum lane_fault fault = lane_frame_read(frame, size, &f);
    if (!fault && !f.type && f.performative) {
        CHECK(inside(f.payload, f.payload_size, frame, size), "a payload outside");
        fault = lane_transfer_read(&f, &t);
        CHECK(fault || (inside(t.tag.at, t.tag.size, frame, size) && inside(t.state.at, t.state.size, frame, size)),
              "a field outside");
        if (!fault && t.state.at && lane_state_sound(t.state)) lane_state_code(t.state);
        lane_flow_read(&f, &flow);
        lane_disposition_read(&f, &d);
        lane_begin_read(&f, &b);
        if (!lane_attach_read(&f, &a)) CHECK(inside(a.name.at, a.name.size, frame, size), "a name outside");
        lane_detach_read(&f, &handle);
        look_for_text(f, LANE_OPEN);
        look_for_text(f, LANE_ATTACH);
        for (uint8_t ends = LANE_DETACH; ends <= LANE_CLOSE; ends++) look_for_ending(f, ends, frame, size);
        if (f.performative == LANE_FLOW) fault = lane_flow_read(&f, &flow);
        if (f.performative == LANE_DISPOSITION) fault = lane_disposition_read(&f, &d);
    }
    free(frame);
    return fault;
}

/* Cut off, damaged, and with lengths that lie. */
static void spoil(const uint8_t *frame, uint32_t size, uint32_t performative_end)
{
    uint8_t damaged[FRAME_ROOM];
    for (uint32_t there = 0; there < size; there++) {
        size_t n = lane_frame_size(frame, there, FRAME_ROOM);
        CHECK(n == 0 ? there < 4 : n == size, "%u octets are a frame of %zu", there, n);
    }
    for (uint32_t cut = LANE_FRAME_HEAD + 1; cut < performative_end; cut++)
        CHECK(look(frame, cut) != LANE_FINE, "a performative of %u octets is read from %u", performative_end, cut);
    for (uint32_t i = 0; i < 40 && choices_left(); i++) {
        memcpy(damaged, frame, size);
        for (uint32_t n = 1 + below(3); n; n--) damaged[4 + below(size - 4)] = (uint8_t) below(256);
        look(damaged, size);
    }
}

static bool same(amqp_value a, amqp_value b)
{
    return !a.at == !b.at && a.size == b.size && (!a.size || !memcmp(a.at, b.at, a.size));
}

static void transfer(void)
{
    uint8_t frame[FRAME_ROOM], octets[STATE_ROOM], tag[LANE_TAG_MAX];
    memset(tag, (int) below(256), sizeof tag);
    lane_transfer t = { .handle = some_number(), .id = some_number(), .format = some_number(), .has_id = one_in(2),
                        .has_format = one_in(2), .settled = one_in(2), .more = one_in(2), .resume = one_in(4),
                        .aborted = one_in(4), .settle_mode = (uint8_t) below(3),
                        .state = some_state(octets) };
    lane_transfer u;
    lane_frame f;
    uint16_t channel = (uint16_t) some_number();
    uint32_t payload = below(300);
    t.has_settled = t.settled || one_in(2);
    if (one_in(2)) t.tag = (amqp_octets) { tag, below(LANE_TAG_MAX + 1) };
    uint8_t *at = lane_put_transfer(frame, channel, &t);
    uint32_t head = (uint32_t) (at - frame);
    CHECK(head <= LANE_TRANSFER_MAX + t.state.size, "%u octets of a TRANSFER", head);
    memset(at, 'p', payload);
    uint32_t size = lane_put_size(frame, at + payload);
    CHECK(lane_frame_read(frame, size, &f) == LANE_FINE && f.performative == LANE_TRANSFER && f.channel == channel
          && f.payload == at && f.payload_size == payload, "another frame");
    CHECK(lane_transfer_read(&f, &u) == LANE_FINE, "a TRANSFER is malformed");
    CHECK(u.handle == t.handle && u.has_id == t.has_id && (!t.has_id || u.id == t.id) && u.has_format == t.has_format
          && (!t.has_format || u.format == t.format) && u.has_settled == t.has_settled && u.settled == t.settled
          && u.more == t.more && u.resume == t.resume && u.aborted == t.aborted
          && u.settle_mode == t.settle_mode && same(t.state, u.state)
          && same((amqp_value) { t.tag.at, t.tag.size }, (amqp_value) { u.tag.at, u.tag.size }), "another TRANSFER");
    spoil(frame, size, head);
    shorten(t.state);
}

static void flow(void)
{
    uint8_t frame[LANE_FLOW_MAX];
    lane_flow w = { some_number(), some_number(), some_number(), some_number(), some_number(), some_number(),
                    some_number(), some_number(), one_in(2), one_in(2), one_in(2), one_in(2), one_in(2), one_in(2),
                    one_in(2) }, u;
    lane_frame f;
    if (!w.has_next_in) w.next_in = 0;
    if (!w.has_handle) w.handle = 0;
    if (!w.has_count) w.count = 0;
    if (!w.has_credit) w.credit = 0;
    if (!w.has_available) w.available = 0;
    uint32_t size = lane_put_flow(frame, 7, &w);
    CHECK(size <= LANE_FLOW_MAX && lane_frame_read(frame, size, &f) == LANE_FINE && f.performative == LANE_FLOW
          && lane_flow_read(&f, &u) == LANE_FINE && !f.payload_size, "a FLOW is malformed");
    CHECK(u.next_in == w.next_in && u.in_window == w.in_window && u.next_out == w.next_out
          && u.out_window == w.out_window && u.handle == w.handle && u.count == w.count && u.credit == w.credit
          && u.available == w.available && u.has_next_in == w.has_next_in && u.has_handle == w.has_handle
          && u.has_count == w.has_count && u.has_credit == w.has_credit && u.has_available == w.has_available
          && u.drain == w.drain && u.echo == w.echo, "another FLOW");
    spoil(frame, size, size);
}

static void disposition(void)
{
    uint8_t frame[FRAME_ROOM], octets[STATE_ROOM];
    lane_disposition d = { .first = some_number(), .receiver = one_in(2), .settled = one_in(2),
                           .state = some_state(octets) }, u;
    lane_frame f;
    d.last = d.first + (one_in(2) ? 0 : some_number() >> 1);
    uint32_t size = lane_put_disposition(frame, 65535, &d);
    CHECK(size <= LANE_DISPOSITION_MAX + d.state.size && lane_frame_read(frame, size, &f) == LANE_FINE
          && f.performative == LANE_DISPOSITION && lane_disposition_read(&f, &u) == LANE_FINE,
          "a DISPOSITION is malformed");
    CHECK(u.first == d.first && u.last == d.last && u.receiver == d.receiver && u.settled == d.settled
          && same(u.state, d.state), "another DISPOSITION");
    spoil(frame, size, size);
}

/* ---- maps ---- */

enum { MODEL = 4096 };                 /* numbers of the model, from `base` */

static void maps(void)
{
    static uint64_t model[MODEL];
    lane_map m = { 0 };
    uint32_t base = some_number();
    memset(model, 0, sizeof model);
    for (uint32_t i = 0, next = 0; i < 3000 && choices_left(); i++) {
        uint32_t n = one_in(3) ? next++ % MODEL : below(one_in(2) ? MODEL : next % MODEL + 1);
        uint64_t value = any() | 1;
        if (one_in(2)) {
            CHECK(lane_map_put(&m, base + n, value), "no memory");
            model[n] = value;
        } else {
            CHECK(lane_map_take(&m, base + n) == model[n], "another value");
            model[n] = 0;
        }
        uint32_t first = below(MODEL), last = one_in(9) ? 0x70000000 : first + below(200), key = base + first;
        CHECK(lane_map_get(&m, key) == (first < MODEL ? model[first] : 0), "another value");
        uint64_t found = lane_map_next(&m, &key, base + last);
        while (first < MODEL && first <= last && !model[first]) first++;
        bool none = first >= MODEL || first > last;
        CHECK(none ? !found : found == model[first] && key == base + first, "another next value");
    }
    lane_map_end(&m);
}

/* ---- any octets ---- */

static void frame_of_anything(void)
{
    uint8_t frame[FRAME_ROOM] = { 0, 0, 0, 0, 2, 0 };
    size_t size = choices_left();
    if (size > sizeof frame - 4) size = sizeof frame - 4;
    if (size < 4) return;                                      /* of a frame that is read, the head is there */
    memcpy(frame + 4, input.at, size);
    be32_put(frame, (uint32_t) size + 4);
    look(frame, size + 4);
}

static void state_of_anything(void)
{
    uint8_t room[STATE_ROOM];
    size_t size = choices_left();
    uint8_t *octets = copy_of(input.at, size);
    amqp_value v = amqp_take(octets, octets + size, AMQP_DEPTH);
    if (v.at && lane_state_sound(v)) {
        uint32_t shorter = lane_state_shorten(v, room, sizeof room);
        CHECK(!shorter || (lane_state_sound((amqp_value) { room, shorter })
                           && lane_state_code((amqp_value) { room, shorter }) == lane_state_code(v)),
              "the shortened state is another one");
    }
    free(octets);
}

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t size)
{
    input_open(octets, size);
    switch (below(6)) {
    case 0: transfer(); break;
    case 1: flow(); break;
    case 2: disposition(); break;
    case 3: maps(); break;
    case 4: frame_of_anything(); break;
    default: state_of_anything();
    }
    return 0;
}
