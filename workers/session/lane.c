/* A connection's frames, in and out: TRANSFER, FLOW and DISPOSITION are the lane's, all others the engine's. */
#include <stdlib.h>
#include <string.h>

#include "workers/session/session.h"
#include "workers/transport/transport.h"

enum {                                 /* octets */
    TAKEN_AT_ONCE = 8192, LARGEST_FRAME = 65536, SMALLEST_FRAME = 512, OUT_RESTING = 256,
    OUT_KEPT = 65536,              /* of an empty output's buffer */
    MADE_BELOW = 32768             /* with more output than that, what is due waits */
};
enum { BUFFERS_KEPT = 16 };            /* buffers for reads to come */

/* ---- out ---- */

/* Our header.  Behind it are OPEN and CLOSE if an error is there already. */
static void head_take(lane_connection *l)
{
    uint8_t head[LAYERS_HEAD_MAX];
    size_t n = layers_head(l, head);
    memcpy(out_frame(l, n), head, n);
    l->traced = l->out_end += n;
    l->over |= n && !l->headed;
}

/* Appends what the engine writes to the output: whole frames, once it has no more. */
static void engine_write(lane_connection *l)
{
    uint8_t some[TAKEN_AT_ONCE];
    ssize_t n;
    while ((n = layers_take(l, some, sizeof some)) > 0) {
        memcpy(out_frame(l, (size_t) n), some, (size_t) n);
        l->out_end += (size_t) n;
    }
    if (n < 0) l->over = true;
}

/* Appends the engine's frames, and learns from them. */
static void engine_take(lane_connection *l)
{
    if (!l->headed) head_take(l);
    if (!l->headed) return;
    size_t done = l->out_end - l->out_at, size;
    engine_write(l);
    for (size_t left; (left = l->out_end - l->out_at - done); done += size) {
        lane_frame f;
        const uint8_t *at = l->out + l->out_at + done;
        size = lane_frame_size(at, left, UINT32_MAX);
        if (!size || size > left) return;
        if (size == LANE_FRAME_HEAD && heartbeat_spared(l)) {
            memmove(l->out + l->out_at + done, at + size, left - size);
            l->out_end -= size;
            size = 0;
            continue;
        }
        if (lane_frame_read(at, size, &f) || f.type || !f.performative) continue;
        size = frame_fit(l, l->out + l->out_at + done, size, &f);
        control_out(l, &f);
    }
}

/* Appends the frames that are due.  What was said of a link stands before its DETACH, which the engine writes. */
static void frames_due(lane_connection *l)
{
    if (l->open) frame_close(l, true);
    out_due(l);
    engine_take(l);
    tell_flush(l);
}

static void frames_trace(lane_connection *l, size_t end)
{
    for (size_t size; l->traced < end; l->traced += size) {
        size = be32(l->out + l->traced);
        if (size < LANE_FRAME_HEAD || size > end - l->traced) return;
        trace_octets(l->c, true, l->out + l->traced, size);
    }
}

/* The end of the frames that may go now. */
static size_t frames_ready(lane_connection *l)
{
    size_t end = l->open ? l->open_at : l->out_end;
    if (__builtin_expect(l->c->tracer != NULL, 0)) frames_trace(l, end);
    l->traced = end;
    return end;
}

/* Copies frames out; before that it makes those that are due, if there are fewer octets than asked for. */
PRIVATE ssize_t lane_write(lane_connection *l, uint8_t *to, size_t room)
{
    if (l->c->bare) return l->over && l->out_at == l->out_end ? PN_EOS : 0;
    if ((l->open ? l->open_at : l->out_end) - l->out_at < room) frames_due(l);
    size_t n = frames_ready(l) - l->out_at;
    if (n > room) n = room;
    memcpy(to, l->out + l->out_at, n);
    lane_sent(l, n);
    return n || !l->over ? (ssize_t) n : PN_EOS;
}

/* For who sends frames without the transport: makes those that are due, unless many octets wait for the socket.  False:
 * there may be more. */
PRIVATE inline bool lane_make(lane_connection *l)
{
    bool few = l->out_end - l->out_at + l->lent_size < MADE_BELOW;
    if (few) frames_due(l);
    else if (l->open) frame_close(l, true);
    (void) frames_ready(l);
    return few;
}

/* ---- in ---- */

static void transport_frame(lane_connection *l, const lane_frame *f)
{
    worker_session *s = session_of(lane_map_get(&l->by_remote, f->channel));
    if (!s) { fault_raise(l, NULL, NULL, LANE_CHANNEL); return; }
    if (s->closed_here || (l->closed_out && f->performative == LANE_FLOW)) { l->halfway = false; return; }
    if (f->performative == LANE_TRANSFER) transfer_arrives(l, s, f);
    else if (f->performative == LANE_FLOW) flow_arrives(l, s, f);
    else disposition_arrives(l, s, f);
}

/* A frame for the engine.  Its event is handled at once, so that a link is known to be this ATTACH's.  Those of OPEN
 * and BEGIN wait: a limit of sessions counts from our OPEN on, and the peer may have begun some before it knew. */
static void control_frame(lane_connection *l, const lane_frame *f, const uint8_t *octets, size_t size)
{
    lane_no_text no;
    uint64_t began = turn_begin(l);
    if (f->performative > LANE_BEGIN) events_drain(l->p);
    if (f->performative >= LANE_DETACH && !frame_ends(l, f)) {
        turn_count(l, began);
        l->behind = true;
        return;
    }
    if (f->performative == LANE_END) frames_due(l);           /* our BEGIN names the channel that this frees */
    if (f->performative && !control_in(l, f, size, &no)) { turn_count(l, began); return; }
    if (layers_give(l, octets, size) < 0) {
        if (!l->closed_in && !pn_condition_is_set(pn_transport_condition(l->transport)))
            fault_raise(l, NULL, NULL, LANE_DECODE);
        l->closed_in = true;
    }
    if (f->performative == LANE_OPEN) {
        uint32_t most = pn_transport_get_remote_max_frame(l->transport);
        l->max_frame = !most || most > LARGEST_FRAME ? LARGEST_FRAME : most;
    } else if (f->performative > LANE_BEGIN || l->open_out) {
        events_drain(l->p);
    }
    /* The engine must have freed our channel or handle before it needs one for the next BEGIN or ATTACH: without one it
     * falls silent. */
    if (f->performative == LANE_DETACH || f->performative == LANE_END || (f->performative == LANE_BEGIN && l->open_out))
        frames_due(l);
    l->attaching.session = l->ending = NULL;
    l->attaching.no_text = NULL;
    mark_dirty(l->p, l->c);
    turn_count(l, began);
}

/* Reads a frame, unless that leaves its connection behind. */
static void frame_arrives(lane_connection *l, const uint8_t *octets, size_t size)
{
    lane_frame f;
    enum lane_fault fault = lane_frame_read(octets, size, &f);
    bool ours = f.performative >= LANE_FLOW && f.performative <= LANE_DISPOSITION;
    if (!fault && !ours && f.performative && !turn_allows(l)) return;
    if (__builtin_expect(l->c->tracer != NULL, 0) && !l->shown) trace_octets(l->c, false, octets, size);
    if (fault) fault_raise(l, NULL, NULL, fault);
    else if (ours) transport_frame(l, &f);
    else if (f.type) fault_raise(l, NULL, NULL, LANE_TYPE);
    else if (f.performative && (f.performative < LANE_OPEN || f.performative > LANE_CLOSE))
        fault_raise(l, NULL, NULL, LANE_DECODE);
    else control_frame(l, &f, octets, size);
    l->shown = l->behind;
}

/* Reads whole frames, unless they leave the connection behind.  Returns the octets read; others come again, those of an
 * unfinished frame with more. */
static ssize_t lane_read(lane_connection *l, const uint8_t *octets, size_t there)
{
    const uint8_t *at = octets, *end = octets + there;
    uint32_t most = pn_transport_get_max_frame(l->transport);
    l->active = true;
    pump_look(l->p);
    while (!l->closed_in) {
        size_t size = lane_frame_size(at, (size_t) (end - at), most ? most : UINT32_MAX);
        if (size == AMQP_WRONG) { fault_raise(l, NULL, NULL, LANE_FRAMING); break; }
        if (!size || size > (size_t) (end - at)) break;
        frame_arrives(l, at, size);
        if (__builtin_expect(l->behind, 0)) return at - octets;
        at += size;
    }
    if (l->closed_in) return PN_EOS;
    if (at == octets && layers_ended(l)) return layers_give(l, NULL, 0);       /* the rest of this frame never comes */
    return at - octets;
}

/* ---- in, without the transport ---- */

/* A piece of a buffer has been taken. */
PRIVATE void read_buffer_left(read_buffer *buffer)
{
    pump *p = buffer->p;
    if (--buffer->pieces) return;
    if (p->buffer_count >= BUFFERS_KEPT) { free(buffer); return; }
    buffer->next = p->buffers;
    p->buffers = buffer;
    p->buffer_count++;
}

static read_buffer *read_buffer_take(pump *p)
{
    read_buffer *buffer = p->buffers;
    if (buffer) {
        p->buffers = buffer->next;
        p->buffer_count--;
    } else {
        buffer = (read_buffer *) memory_for(NULL, sizeof *buffer);
        buffer->p = p;
    }
    buffer->pieces = 1;                                        /* ours */
    return buffer;
}

/* Keeps the beginning of a frame until its rest has come. */
static void rest_keep(lane_connection *l, const uint8_t *octets, size_t size)
{
    if (size > l->rest_room) {
        l->rest = (uint8_t *) memory_for(l->rest, size);
        l->rest_room = size;
    }
    memmove(l->rest, octets, size);
    l->rest_size = size;
}

/* Keeps octets behind those that wait. */
PRIVATE void rest_add(lane_connection *l, const uint8_t *octets, size_t size)
{
    if (l->rest_size + size > l->rest_room) {
        l->rest_room = l->rest_size + size;
        l->rest = (uint8_t *) memory_for(l->rest, l->rest_room);
    }
    memcpy(l->rest + l->rest_size, octets, size);
    l->rest_size += size;
}

static void rest_forget(lane_connection *l)
{
    free(l->rest);
    l->rest = NULL;
    l->rest_size = l->rest_room = 0;
}

/* After a read of octets: what is left of them stays.  Negative: the connection reads no more.  TLS, which would hear
 * that with its next octets alone and writes nothing behind the end of its input, hears of it later (conn_write). */
static void rest_left(lane_connection *l, const uint8_t *octets, size_t there, ssize_t done)
{
    if (done < 0) {
        rest_forget(l);
        if (l->bare || !l->c->secured) pn_transport_close_tail(l->transport);
        else l->tail_due = true;
    } else if ((size_t) done < there) {
        if (done || octets != l->rest) rest_keep(l, octets + done, there - (size_t) done);
    } else if (l->rest) {
        rest_forget(l);
    }
    if (l->behind) turn_await(l);
}

/* The size of the frame that has begun to come, if it needs more room than a read has; else 0. */
static size_t rest_large(const lane_connection *l)
{
    size_t size = lane_frame_size(l->rest, l->rest_size, UINT32_MAX);
    return size == AMQP_WRONG || size <= READ_AT_ONCE / 2 ? 0 : size;
}

/* Where the next octets of the socket go.  Large frames grow where they are kept, as they come; others, and many small
 * ones at once, are read behind what is there of the first. */
PRIVATE inline uint8_t *lane_room(lane_connection *l, size_t *room)
{
    size_t large = l->rest_size ? rest_large(l) : 0;
    if (__builtin_expect(large != 0, 0)) {
        if (l->rest_room == l->rest_size) {
            l->rest_room = l->rest_size + READ_AT_ONCE < large ? l->rest_size + READ_AT_ONCE : large;
            l->rest = (uint8_t *) memory_for(l->rest, l->rest_room);
        }
        *room = (l->rest_room < large ? l->rest_room : large) - l->rest_size;
        return l->rest + l->rest_size;
    }
    if (__builtin_expect(!l->p->buffer, 0)) l->p->buffer = read_buffer_take(l->p);
    read_buffer *buffer = l->p->buffer;
    if (l->rest_size) memcpy(buffer->octets, l->rest, l->rest_size);
    *room = READ_AT_ONCE - l->rest_size;
    return buffer->octets + l->rest_size;
}

/* Reads the frames that are whole with so many octets in that room. */
PRIVATE inline void lane_came(lane_connection *l, size_t size)
{
    size_t large = l->rest_size ? rest_large(l) : 0, there = l->rest_size + size;
    read_buffer *buffer = l->p->buffer;
    const uint8_t *from = large ? l->rest : buffer->octets;
    l->heard = true;
    if (large && there < large) { l->rest_size = there; return; }
    if (!large) l->reading = buffer;
    size_t taken = __builtin_expect(l->coming.left != 0, 0) ? straight_take(l, from, there) : 0;
    from += taken;
    there -= taken;
    ssize_t done = there ? lane_read(l, from, there) : 0;
    bool begun = done >= 0 && (size_t) done < there && !l->behind
        && straight_begin(l, from + done, there - (size_t) done);
    l->reading = NULL;
    if (large) l->rest_size = there;
    rest_left(l, from, there, begun ? (ssize_t) there : done);
    if (large || buffer->pieces == 1) return;
    buffer->pieces--;                                          /* it is its pieces' from now on */
    l->p->buffer = NULL;
}

/* Takes octets of the transport.  Those that the connection is behind with do not stay there: layers below would wait
 * for the socket.  Neither do those that it still had when the lane began to read the socket. */
PRIVATE ssize_t lane_given(lane_connection *l, const uint8_t *octets, size_t size)
{
    if (l->ticking) return (ssize_t) size;
    if (l->bare || l->behind || l->rest_size) rest_add(l, octets, size);
    if (l->bare || l->behind) return (ssize_t) size;
    const uint8_t *from = l->rest_size ? l->rest : octets;
    size_t there = l->rest_size ? l->rest_size : size;
    ssize_t done = lane_read(l, from, there);
    if (done < 0 || (!l->behind && from == octets)) return done;
    rest_left(l, from, there, done);
    return (ssize_t) size;
}

/* Reads what a connection was behind with. */
PRIVATE void lane_go_on(lane_connection *l)
{
    l->behind = false;
    if (!fault_go_on(l)) { turn_await(l); return; }
    l->heard |= l->bare;
    ssize_t done = layers_below(l) ? login_go_on(l) : lane_read(l, l->rest, l->rest_size);
    rest_left(l, l->rest, l->rest_size, done);
    if (!l->behind && !l->bare) pn_transport_process(l->transport, 0);         /* the end of its input has come */
}

/* ---- the connection ---- */

PRIVATE void lane_begin_connection(pump *p, worker_connection *c)
{
    lane_connection *l = (lane_connection *) memory_clear(sizeof *l);
    *l = (lane_connection) { .p = p, .c = c, .transport = c->transport, .max_frame = SMALLEST_FRAME,
                             .held_most = SIZE_MAX };
    l->by_remote.unordered = l->by_local.unordered = l->by_number.unordered = l->shares.unordered = true;
    c->lane = l;
    layers_install(l);
    layers_rest(l);
}

static void spares_free(lane_connection *l)
{
    for (delivery *d = l->spare, *next; d; d = next) {
        next = d->next;
        free(d);
    }
    l->spare = NULL;
    long_states_end(l);
}

static void out_shrink(lane_connection *l, size_t room)
{
    l->out_at = l->out_end = l->traced = 0;
    l->out_room = room;
    l->out = (uint8_t *) memory_for(l->out, room);
}

/* To be called from time to time: a connection without frames since the last call gives its buffers back. */
PRIVATE void lane_rest(worker_connection *c)
{
    lane_connection *l = c->lane;
    bool done = l->rested && !l->active;
    if (!l->open && l->out_at == l->out_end && l->out_room > OUT_KEPT) out_shrink(l, OUT_KEPT);
    l->rested = !l->active;
    l->active = false;
    if (done || !l->rested) return;
    l->woken = false;
    layers_rest(l);
    spares_free(l);
    for (worker_session *s = l->sessions; s; s = s->next) {
        lane_map_rest(&s->lane.in);
        lane_map_rest(&s->lane.out);
    }
    if (l->open || l->out_at < l->out_end || l->out_room <= OUT_RESTING) return;
    out_shrink(l, OUT_RESTING);
}

/* A buffer of the engine has been full. */
PRIVATE inline void lane_wake(worker_connection *c)
{
    if (__builtin_expect(c->lane->woken, 1)) return;
    c->lane->woken = true;
    layers_wake(c->lane);
}

PRIVATE void lane_free(worker_connection *c)
{
    lane_connection *l = c->lane;
    if (!l) return;
    turn_forget(l);
    while (l->sessions) session_free(l->sessions);
    lane_map_end(&l->by_remote);
    lane_map_end(&l->by_local);
    lane_map_end(&l->by_number);
    lane_map_end(&l->shares);
    spares_free(l);
    free(l->out);
    free(l->slow);
    free(l->rest);
    c->lane = NULL;
    free(l);
}
