/* A connection's frames on their way out. */
#include <stdlib.h>
#include <string.h>

#include "workers/session/session.h"

enum {
    OUT_MOVED = 64 << 10,          /* octets written at the buffer's beginning before the others move there */
    LEND_LEAST = 2048              /* fewer octets are copied: that costs less than another piece */
};

/* Room for so many octets at the end of the output. */
PRIVATE inline uint8_t *out_grow(lane_connection *l, size_t size)
{
    if (l->out_at == l->out_end && !l->open && !l->lent_count) l->out_at = l->out_end = l->traced = 0;
    else if (l->out_at > OUT_MOVED) {
        memmove(l->out, l->out + l->out_at, l->out_end - l->out_at);
        lent_move(l, l->out_at);
        l->open_at -= l->out_at;
        l->open_flags -= l->out_at;
        l->traced -= l->out_at;
        l->out_end -= l->out_at;
        l->out_at = 0;
    }
    if (l->out_end + size > l->out_room) {
        l->out_room = (l->out_end + size) * 2;
        l->out = (uint8_t *) memory_for(l->out, l->out_room);
    }
    return l->out + l->out_end;
}

/* Room for another frame; an unfinished one ends before it. */
PRIVATE inline uint8_t *out_frame(lane_connection *l, size_t size)
{
    if (l->open) frame_close(l, true);
    return out_grow(l, size);
}

/* Whether a frame of the session may be written: behind its BEGIN, and before its END and the connection's CLOSE. */
static bool session_writable(const worker_session *s)
{
    return s->begun_here && !s->ended_here && !s->connection->closed_out;
}

/* Notes that a session has a DISPOSITION or FLOW to say at the next output. */
PRIVATE inline void session_due(worker_session *s)
{
    lane_connection *l = s->connection;
    if (s->due) return;
    s->due = true;
    s->due_previous = NULL;
    s->due_next = l->due_first;
    if (s->due_next) s->due_next->due_previous = s;
    l->due_first = s;
}

PRIVATE void session_undue(worker_session *s)
{
    *(s->due_previous ? &s->due_previous->due_next : &s->connection->due_first) = s->due_next;
    if (s->due_next) s->due_next->due_previous = s->due_previous;
    s->due = false;
}

/* Room for a frame of `room` octets and a state.  A state that leaves no space for `besides` octets in the peer's
 * largest frame is made shorter, or left out if it cannot be. */
static uint8_t *state_frame(lane_connection *l, amqp_value *state, uint32_t besides, size_t room)
{
    if (__builtin_expect(state->size + besides <= l->max_frame, 1)) return out_frame(l, room + state->size);
    uint8_t *at = out_frame(l, room + 2 * (size_t) l->max_frame), *shorter = at + room + l->max_frame;
    uint32_t size = lane_state_shorten(*state, shorter, l->max_frame - besides);
    *state = (amqp_value) { size ? shorter : NULL, size };
    return at;
}

static void put_disposition(worker_session *s, const lane_disposition *d)
{
    lane_disposition fitting = *d;
    if (!session_writable(s)) return;
    uint8_t *at = state_frame(s->connection, &fitting.state, LANE_DISPOSITION_MAX, LANE_DISPOSITION_MAX);
    s->connection->out_end += lane_put_disposition(at, s->local, &fitting);
}

static void range_flush(worker_session *s)
{
    lane_disposition d;
    if (lane_range_take(&s->lane.range, &d)) put_disposition(s, &d);
}

/* Says a state or settlement; those of neighbours with the same state make one DISPOSITION. */
PRIVATE inline void range_say(worker_session *s, bool receiver, bool settled, uint32_t id, amqp_value state)
{
    session_due(s);
    if (__builtin_expect(lane_range_add(&s->lane.range, receiver, settled, id, state), 1)) return;
    range_flush(s);
    if (lane_range_add(&s->lane.range, receiver, settled, id, state)) return;
    put_disposition(s, &(lane_disposition) { .receiver = receiver, .settled = settled, .first = id, .last = id,
                                             .state = state });
}

static void put_flow(worker_session *s, worker_link *k)
{
    lane_flow flow;
    uint8_t *at = out_frame(s->connection, LANE_FLOW_MAX);
    lane_say(&s->lane, k ? &k->lane : NULL, &flow);
    if (k && k->outgoing) {
        flow.has_available = true;
        flow.available = k->queued;
    }
    s->connection->out_end += lane_put_flow(at, s->local, &flow);
}

/* A FLOW of the link is due at the next output. */
PRIVATE inline void tell_later(worker_link *k)
{
    k->lane.tell = true;
    if (k->telling || !k->session) return;
    lane_connection *l = k->session->connection;
    k->telling = true;
    k->tell_previous = NULL;
    k->tell_next = l->tell_first;
    if (k->tell_next) k->tell_next->tell_previous = k;
    l->tell_first = k;
}

PRIVATE void tell_remove(worker_link *k)
{
    if (!k->telling) return;
    k->telling = false;
    if (k->tell_previous) k->tell_previous->tell_next = k->tell_next;
    else k->session->connection->tell_first = k->tell_next;
    if (k->tell_next) k->tell_next->tell_previous = k->tell_previous;
}

/* States of ours that settle nothing. */
static void changed_flush(lane_connection *l)
{
    for (delivery *d = l->changed_first, *next; d; d = next) {
        next = d->changed_next;
        if (d->outgoing && !d->numbered) continue;             /* its first TRANSFER has it */
        delivery_unchange(d);
        range_say(d->link->session, !d->outgoing, false, d->id, state_said(d));
    }
}

/* Octets that wait for the socket, or for the peer's window. */
PRIVATE inline size_t session_outgoing(const worker_session *s)
{
    return s->connection->out_end - s->connection->out_at + s->connection->lent_size + s->queued;
}

/* Ends the unfinished TRANSFER; `more` of its delivery follows in another. */
PRIVATE inline void frame_close(lane_connection *l, bool more)
{
    delivery *d = l->open;
    l->out[l->open_flags] = d->presettled ? AMQP_TRUE : AMQP_FALSE;
    l->out[l->open_flags + 1] = more ? AMQP_TRUE : AMQP_FALSE;
    be32_put(l->out + l->open_at, (uint32_t) (l->out_end - l->open_at + l->open_lent));
    d->link->lane.begun = more;
    l->open = NULL;
}

/* Ends the unfinished TRANSFER if it is this link's. */
PRIVATE void frame_end(const worker_link *k)
{
    lane_connection *l = k->session->connection;
    if (l->open && l->open->link == k) frame_close(l, true);
}

/* Gives a delivery its delivery-id, as its first TRANSFER is written. */
static void delivery_number(delivery *d, uint32_t id)
{
    worker_link *k = d->link;
    d->numbered = true;
    d->id = id;
    k->waiting--;
    if (d->presettled) return;
    d->mapped = true;
    if (!lane_map_put(&k->session->lane.out, id, value_of(d))) abort();
}

/* Begins a TRANSFER at the end of the output; an aborting one is complete.  False: the window is shut, or the receiver
 * has taken back the credit of a delivery that has not begun. */
static bool frame_open(lane_connection *l, delivery *d)
{
    worker_link *k = d->link;
    lane_session *s = &k->session->lane;
    if (!s->out_window || (!d->numbered && !k->lane.credit)) return false;
    lane_transfer t = { .has_settled = true, .settled = d->presettled, .more = !d->aborting, .aborted = d->aborting };
    if (!d->numbered) {
        t.tag = (amqp_octets) { d->tag, d->tag_size };
        t.has_format = true;
        t.format = d->format;
        if (d->laden) t.settle_mode = d->settle_mode;
        if (d->changed) t.state = state_said(d);
        delivery_unchange(d);
    }
    uint8_t *at = state_frame(l, &t.state, LANE_TRANSFER_MAX, l->max_frame + LANE_TRANSFER_MAX);
    lane_send(s, &k->lane, &t);
    if (!d->numbered) delivery_number(d, t.id);
    l->open_at = l->out_end;
    uint8_t *payload = lane_put_transfer(at, k->session->local, &t);
    size_t behind = t.settle_mode ? 2 + t.state.size : t.state.at ? 1 + t.state.size : 0;
    l->out_end = (size_t) (payload - l->out);
    l->open_flags = l->out_end - behind - 2;
    if (d->aborting) { lane_put_size(at, payload); return true; }
    l->open = d;
    l->open_lent = 0;
    return true;
}

/* Writes octets into frames as far as the window allows; returns how many.  Long runs of those of a block are lent. */
static size_t frames_write(lane_connection *l, delivery *d, const uint8_t *bytes, size_t size, bool lend)
{
    size_t done = 0;
    while (done < size) {
        if (l->open != d && !frame_open(l, d)) break;
        size_t room = l->max_frame - (l->out_end - l->open_at) - l->open_lent;
        size_t n = size - done < room ? size - done : room;
        if (!n) { frame_close(l, true); continue; }
        if (lend && n >= LEND_LEAST && l->lent_count < LENT_MOST) {
            lane_lend(l, bytes + done, n);
            l->open_lent += n;
        } else {
            memcpy(l->out + l->out_end, bytes + done, n);
            l->out_end += n;
        }
        done += n;
    }
    return done;
}

static void queue_add(worker_session *s, delivery *d)
{
    if (d->queued) return;
    d->queued = true;
    d->after = NULL;
    d->before = s->queue_last;
    if (d->before) d->before->after = d;
    else s->queue_first = d;
    s->queue_last = d;
}

PRIVATE void queue_remove(delivery *d)
{
    worker_session *s = d->link->session;
    if (d->before) d->before->after = d->after;
    else s->queue_first = d->after;
    if (d->after) d->after->before = d->before;
    else s->queue_last = d->before;
    d->after = d->before = NULL;
    d->queued = false;
    if (d->laden) s->queued -= d->held.size;
}

/* Whether a delivery's frames have to wait for others: for its own that wait, or those of earlier ones of its link.
 * Others that wait for credit hold up nobody. */
static bool queue_joins(const delivery *d)
{
    const worker_link *k = d->link;
    if (__builtin_expect(!k->session->queue_first, 1)) return false;
    return d->queued || (!d->numbered && (!k->session->lane.out_window || k->lane.begun || k->waiting > 1));
}

/* Writes octets of the current delivery; without a window, or behind others, they wait. */
static inline void octets_send(worker_link *k, const uint8_t *bytes, size_t size, bool lend)
{
    delivery *d = k->sending;
    worker_session *s = k->session;
    size_t done = queue_joins(d) ? 0 : frames_write(s->connection, d, bytes, size, lend);
    if (done == size) return;
    delivery_hold(d, bytes + done, size - done, 0, NULL);
    s->queued += size - done;
    queue_add(s, d);
}

/* Writes all of the current delivery, which is in one block, as one frame, and the delivery is sent.  Long ones are
 * lent.  False: nothing is written, because it does not fit, it has to wait, it has begun, or its TRANSFER says more
 * than those of most. */
PRIVATE inline bool link_send_whole(worker_link *k, const uint8_t *bytes, size_t size)
{
    delivery *d = k->sending;
    worker_session *s = k->session;
    lane_connection *l = s->connection;
    if (s->queue_first || !s->lane.out_window || d->numbered || d->changed || d->laden || d->format
        || d->tag_size != LANE_HEAD_TAG || size + LANE_TRANSFER_MAX > l->max_frame) return false;
    if (__builtin_expect(!k->head.size, 0)) lane_head_begin(&k->head, s->local, k->lane.handle);
    lane_transfer t = { .settled = d->presettled };
    uint8_t *frame = out_frame(l, size + LANE_TRANSFER_MAX);
    lane_send(&s->lane, &k->lane, &t);
    delivery_number(d, t.id);
    d->done = d->sent = true;
    uint8_t *payload = lane_put_head(frame, &k->head, d->id, d->tag, d->presettled);
    if (size >= LEND_LEAST && lane_lends(l) && l->lent_count < LENT_MOST) {
        l->out_end = (size_t) (payload - l->out);
        be32_put(frame, (uint32_t) ((size_t) (payload - frame) + size));
        lane_lend(l, bytes, size);
    } else {
        memcpy(payload, bytes, size);
        l->out_end += lane_put_size(frame, payload + size);
    }
    k->sending = NULL;
    return true;
}

PRIVATE inline void link_send(worker_link *k, const uint8_t *bytes, size_t size)
{
    octets_send(k, bytes, size, false);
}

/* The same for octets of a block, which stay there until the next conn_write of the link's connection. */
PRIVATE inline void link_lend(worker_link *k, const uint8_t *bytes, size_t size)
{
    octets_send(k, bytes, size, lane_lends(k->session->connection));
}

/* Writes the last frame of a delivery, all of whose octets are in frames.  False: the window is shut. */
static bool delivery_last(lane_connection *l, delivery *d)
{
    if (d->aborting && l->open == d) frame_close(l, true);
    if (l->open != d && !frame_open(l, d)) return false;
    if (l->open == d) frame_close(l, false);
    d->sent = true;
    if (d->presettled) delivery_drop(d);
    return true;
}

/* Ends a delivery at what has been sent of it. */
PRIVATE inline void delivery_finish(delivery *d)
{
    worker_session *s = d->link->session;
    if (d->link->sending == d) d->link->sending = NULL;
    d->done = true;
    if (queue_joins(d) || !delivery_last(s->connection, d)) queue_add(s, d);
}

/* Writes what waited for the window, in order.  A delivery whose credit the receiver has taken back waits on. */
PRIVATE void queue_flush(worker_session *s)
{
    lane_connection *l = s->connection;
    for (delivery *d = s->queue_first, *next; d && (s->lane.out_window || l->open); d = next) {
        worker_link *k = d->link;
        const uint8_t *from;
        size_t size, left = 0;
        next = d->after;
        if (!d->numbered && !k->lane.credit) continue;
        while (!left && (from = held_front(&d->held, &size))) {
            size_t done = frames_write(l, d, from, size, false);
            left = size - done;
            s->queued -= done;
            if (done) (void) held_take(&d->held, done);
        }
        if (left) return;
        if (d->done && !s->lane.out_window && (l->open != d || d->aborting)) return;
        queue_remove(d);
        if (d->done) delivery_last(l, d);
        if (!k->waiting && k->drain_ready) work_add(l->p, k);
    }
}

/* Writes FLOWs and DISPOSITIONs whose BEGIN and ATTACH have been written. */
PRIVATE void tell_flush(lane_connection *l)
{
    for (worker_link *k = l->tell_first, *next; k; k = next) {
        next = k->tell_next;
        if (!k->attached || !session_writable(k->session)) continue;
        tell_remove(k);
        if (k->lane.tell) put_flow(k->session, k);
    }
    for (worker_session *s = l->due_first, *next; s; s = next) {
        next = s->due_next;
        if (!session_writable(s) && !s->ended_here) continue;
        session_undue(s);
        range_flush(s);
        if (s->lane.tell && session_writable(s)) put_flow(s, NULL);
    }
}

/* Writes what is due before the engine's frames: what was said of a link stands before its DETACH. */
PRIVATE void out_due(lane_connection *l)
{
    changed_flush(l);
    tell_flush(l);
}
