/* The data lane as functions that a test can call: what a frame says, in words; sessions, step by step. */
#define ROUTERD_UNITY

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "workers/lane/frame.c"
#include "workers/lane/map.c"
#include "workers/lane/session.c"
#include "workers/lane/state.c"
#include "workers/lane/text.c"
#include "workers/lane/write.c"

enum { LINKS = 3 };                    /* two in, one out */

typedef struct { lane_session s; lane_link links[LINKS]; } world;
typedef struct { char *at, *end; } out;

enum act { RECEIVE, HEAR, SEND, GRANT, DRAIN, DRAINED, HOLD, RELEASE, SAY, WITHDRAW };

void tell(const uint8_t *octets, size_t size, char *to, size_t room);
int typed(const uint8_t *octets, size_t size);
size_t rewritten(const uint8_t *octets, size_t size, uint8_t *to);
size_t shortened(const uint8_t *octets, size_t size, uint8_t *to, uint32_t room);
size_t headed(uint16_t channel, uint32_t handle, uint32_t id, const uint8_t *tag, int settled, uint8_t *to);
/* A TRANSFER without a payload, by its link's head; its size. */
size_t headed(uint16_t channel, uint32_t handle, uint32_t id, const uint8_t *tag, int settled, uint8_t *to)
{
    lane_head h = { 0 };
    lane_head_begin(&h, channel, handle);
    return lane_put_size(to, lane_put_head(to, &h, id, tag, settled));
}

size_t untext(const uint8_t *octets, size_t size, char *to, size_t room);
int sound(const uint8_t *octets, size_t size);
world *opened(uint32_t window, uint32_t next_in, uint32_t out_window, uint32_t next_out, uint32_t count);
void act(world *w, int what, const uint32_t *with, char *to, size_t room);
void closed(world *w);

static void say(out *o, const char *form, ...)
{
    va_list given;
    va_start(given, form);
    int n = vsnprintf(o->at, (size_t) (o->end - o->at), form, given);
    va_end(given);
    o->at = n < o->end - o->at ? o->at + n : o->end - 1;
}

static void say_octets(out *o, const char *name, const uint8_t *at, size_t size)
{
    if (!at) return;
    say(o, " %s=", name);
    for (size_t i = 0; i < size; i++) say(o, "%02x", at[i]);
}

static void say_number(out *o, const char *name, bool there, uint32_t n) { if (there) say(o, " %s=%u", name, n); }

static void say_true(out *o, const char *name, bool truth) { if (truth) say(o, " %s", name); }

static void say_transfer(out *o, const lane_frame *f, const lane_transfer *t)
{
    say(o, "transfer handle=%u", t->handle);
    say_number(o, "id", t->has_id, t->id);
    say_octets(o, "tag", t->tag.at, t->tag.size);
    say_number(o, "format", t->has_format, t->format);
    say_number(o, "settled", t->has_settled, t->settled);
    say_true(o, "more", t->more);
    say_number(o, "settle_mode", t->settle_mode, t->settle_mode - 1u);
    say_octets(o, "state", t->state.at, t->state.size);
    say_true(o, "resume", t->resume);
    say_true(o, "aborted", t->aborted);
    say_octets(o, "payload", f->payload, f->payload_size);
}

static void say_flow(out *o, const lane_flow *w)
{
    say(o, "flow");
    say_number(o, "next_in", w->has_next_in, w->next_in);
    say(o, " in_window=%u next_out=%u out_window=%u", w->in_window, w->next_out, w->out_window);
    say_number(o, "handle", w->has_handle, w->handle);
    say_number(o, "count", w->has_count, w->count);
    say_number(o, "credit", w->has_credit, w->credit);
    say_number(o, "available", w->has_available, w->available);
    say_true(o, "drain", w->drain);
    say_true(o, "echo", w->echo);
}

static void say_disposition(out *o, const lane_disposition *d)
{
    say(o, "disposition receiver=%d first=%u last=%u", d->receiver, d->first, d->last);
    say_true(o, "settled", d->settled);
    say_octets(o, "state", d->state.at, d->state.size);
}

static enum lane_fault say_control(out *o, const lane_frame *f)
{
    lane_begin b;
    lane_attach a;
    uint32_t handle = 0;
    enum lane_fault fault = LANE_DECODE;
    if (f->performative == LANE_BEGIN && !(fault = lane_begin_read(f, &b))) {
        say(o, "begin");
        say_number(o, "remote_channel", b.answers, b.remote_channel);
        say(o, " next_out=%u in_window=%u", b.next_out, b.in_window);
    } else if (f->performative == LANE_ATTACH && !(fault = lane_attach_read(f, &a))) {
        say(o, "attach");
        say_octets(o, "name", a.name.at, a.name.size);
        say(o, " handle=%u receiver=%d count=%u", a.handle, a.receiver, a.count);
    } else if (f->performative == LANE_DETACH && !(fault = lane_detach_read(f, &handle))) {
        say(o, "detach handle=%u", handle);
    }
    return fault;
}

/* What a frame says; a fault by its condition. */
void tell(const uint8_t *octets, size_t size, char *to, size_t room)
{
    out o = { to, to + room };
    lane_frame f;
    lane_transfer t;
    lane_flow w;
    lane_disposition d;
    *to = 0;
    enum lane_fault fault = lane_frame_read(octets, size, &f);
    if (!fault && f.performative == LANE_TRANSFER && !(fault = lane_transfer_read(&f, &t))) say_transfer(&o, &f, &t);
    else if (!fault && f.performative == LANE_FLOW && !(fault = lane_flow_read(&f, &w))) say_flow(&o, &w);
    else if (!fault && f.performative == LANE_DISPOSITION && !(fault = lane_disposition_read(&f, &d)))
        say_disposition(&o, &d);
    else if (!fault) fault = say_control(&o, &f);
    if (fault) say(&o, "%s", lane_faults[fault].condition);
}

/* The same frame as the lane writes it; its size. */
size_t rewritten(const uint8_t *octets, size_t size, uint8_t *to)
{
    lane_frame f;
    lane_transfer t;
    lane_flow w;
    lane_disposition d;
    if (lane_frame_read(octets, size, &f)) return 0;
    if (f.performative == LANE_TRANSFER && !lane_transfer_read(&f, &t)) {
        uint8_t *at = lane_put_transfer(to, f.channel, &t);
        memcpy(at, f.payload, f.payload_size);
        return lane_put_size(to, at + f.payload_size);
    }
    if (f.performative == LANE_FLOW && !lane_flow_read(&f, &w)) return lane_put_flow(to, f.channel, &w);
    return lane_disposition_read(&f, &d) ? 0 : lane_put_disposition(to, f.channel, &d);
}

/* What of an OPEN or ATTACH is no text; its size. */
size_t untext(const uint8_t *octets, size_t size, char *to, size_t room)
{
    lane_frame f;
    lane_no_text no;
    if (lane_frame_read(octets, size, &f) || lane_texts(&f, &no)) return 0;
    return (size_t) snprintf(to, room, "%s", no.description);
}

int sound(const uint8_t *octets, size_t size) { return lane_state_sound((amqp_value) { octets, size }); }

int typed(const uint8_t *octets, size_t size) { return lane_state_typed((amqp_value) { octets, size }); }

size_t shortened(const uint8_t *octets, size_t size, uint8_t *to, uint32_t room)
{
    return lane_state_shorten((amqp_value) { octets, size }, to, room);
}

/* ---- dispositions ---- */

static void say_range(out *o, lane_range *r)
{
    lane_disposition d;
    if (!lane_range_take(r, &d)) return;
    say_disposition(o, &d);
    say(o, "\n");
}

/* The DISPOSITIONs, a line each, that say settled outcomes of these deliveries; `state`: the number of each outcome. */
void outcomes(const uint32_t *id, const uint8_t *state, size_t count, char *to, size_t room)
{
    out o = { to, to + room };
    lane_range r = { 0 };
    for (size_t i = 0; i < count; i++) {
        const uint8_t outcome[] = { 0, AMQP_SMALLULONG, (uint8_t) (LANE_ACCEPTED + state[i]), AMQP_LIST0 };
        const amqp_value value = { outcome, sizeof outcome };
        if (lane_range_add(&r, true, true, id[i], value)) continue;
        say_range(&o, &r);
        lane_range_add(&r, true, true, id[i], value);
    }
    say_range(&o, &r);
}

/* ---- sessions ---- */

world *opened(uint32_t window, uint32_t next_in, uint32_t out_window, uint32_t next_out, uint32_t count)
{
    world *w = calloc(1, sizeof *w);
    lane_session_open(&w->s, window);
    lane_session_begun(&w->s, &(lane_begin) { .next_out = next_in, .in_window = out_window });
    w->s.next_out = w->s.id_out = next_out;
    for (uint32_t i = 0; i < LINKS; i++)
        w->links[i] = (lane_link) { .handle = i, .count = count, .outgoing = i == LINKS - 1 };
    return w;
}

static void say_world(out *o, const world *w)
{
    const lane_session *s = &w->s;
    say(o, " | %u %u %u %u %u %u %d", s->next_in, s->in_window, s->held, s->next_out, s->out_window, s->id_out,
        s->tell);
    for (uint32_t i = 0; i < LINKS; i++) {
        const lane_link *k = &w->links[i];
        say(o, " | %u %u %u %u %d %d %d", k->count, k->credit, k->withdrawn, k->overrun, k->begun, k->drain, k->tell);
    }
}

/* One step with up to nine numbers, of which the first is a link (LINKS: none), and what has become of it in words. */
void act(world *w, int what, const uint32_t *with, char *to, size_t room)
{
    out o = { to, to + room };
    lane_link *k = with[0] < LINKS ? &w->links[with[0]] : NULL;
    lane_flow flow;
    if (what == RECEIVE) {
        lane_transfer t = { .has_id = with[1], .id = with[2], .has_settled = with[3], .settled = with[4],
                            .more = with[5], .aborted = with[6] };
        lane_piece piece;
        enum lane_fault fault = lane_receive(&w->s, k, &t, &piece);
        if (fault) say(&o, "%s", lane_faults[fault].condition);
        else say(&o, "%d%d%d%d", piece.first, piece.last, piece.aborted, piece.settled);
    } else if (what == HEAR) {
        flow = (lane_flow) { .has_next_in = with[1], .next_in = with[2], .in_window = with[3], .has_count = with[4],
                             .count = with[5], .credit = with[6], .drain = with[7], .echo = with[8] };
        lane_heard heard = lane_hear(&w->s, k, &flow);
        say(&o, "%d%d %u", heard.window, heard.credit, heard.returned);
    } else if (what == SEND) {
        lane_transfer t = { .more = with[1], .aborted = with[2] };
        if (!w->s.out_window || (!k->begun && !k->credit)) say(&o, "must wait");
        else lane_send(&w->s, k, &t);
        if (t.has_id) say(&o, "id=%u", t.id);
    } else if (what == GRANT) {
        lane_grant(k, with[1]);
    } else if (what == WITHDRAW) {
        lane_withdraw(k, with[1]);
    } else if (what == DRAIN) {
        k->drain = k->tell = true;
    } else if (what == DRAINED) {
        lane_drained(k);
    } else if (what == HOLD) {
        w->s.held += with[1];
    } else if (what == RELEASE) {
        lane_release(&w->s, with[1] < w->s.held ? with[1] : w->s.held);
    } else {
        lane_say(&w->s, k, &flow);
        say_flow(&o, &flow);
    }
    say_world(&o, w);
}

void closed(world *w)
{
    lane_session_end(&w->s);
    free(w);
}
