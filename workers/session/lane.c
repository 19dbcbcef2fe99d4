/* A connection's frames, in and out: TRANSFER, FLOW and DISPOSITION are the lane's, all others the engine's. */
#include <stdlib.h>
#include <string.h>

#include "workers/session/session.h"
#include "workers/transport/transport.h"

enum { TAKEN_AT_ONCE = 8192, LARGEST_FRAME = 65536, SMALLEST_FRAME = 512 };   /* octets */

/* ---- in ---- */

static void transport_frame(lane_connection *l, const lane_frame *f)
{
    worker_session *s = session_of(lane_map_get(&l->by_remote, f->channel));
    if (!s) { fault_raise(l, NULL, NULL, LANE_CHANNEL); return; }
    if (s->ended_here || (s->engine && pn_session_state(s->engine) & PN_LOCAL_CLOSED)) return;
    if (f->performative == LANE_TRANSFER) transfer_arrives(l, s, f);
    else if (f->performative == LANE_FLOW) flow_arrives(l, s, f);
    else disposition_arrives(l, s, f);
}

/* A frame for the engine.  Its event is handled at once, so that a link is known to be this ATTACH's.  Those of OPEN
 * and BEGIN wait: a limit of sessions counts from our OPEN on, and the peer may have begun some before it knew. */
static void control_frame(lane_connection *l, const lane_frame *f, const uint8_t *octets, size_t size)
{
    if (f->performative && !control_in(l, f)) return;
    if (layers_give(l, octets, size) < 0) l->closed_in = true;
    if (f->performative == LANE_OPEN) {
        uint32_t most = pn_transport_get_remote_max_frame(l->transport);
        l->max_frame = !most || most > LARGEST_FRAME ? LARGEST_FRAME : most;
    } else if (f->performative != LANE_BEGIN) {
        events_drain(l->p);
    }
    l->attaching.session = NULL;
    mark_dirty(l->p, l->c);
}

static void frame_arrives(lane_connection *l, const uint8_t *octets, size_t size)
{
    lane_frame f;
    enum lane_fault fault = lane_frame_read(octets, size, &f);
    if (fault) fault_raise(l, NULL, NULL, fault);
    else if (f.type) control_frame(l, &(lane_frame) { .performative = 0 }, octets, size);
    else if (f.performative >= LANE_FLOW && f.performative <= LANE_DISPOSITION) transport_frame(l, &f);
    else if (f.performative && (f.performative < LANE_OPEN || f.performative > LANE_CLOSE))
        fault_raise(l, NULL, NULL, LANE_DECODE);
    else control_frame(l, &f, octets, size);
}

/* Reads whole frames.  Returns the octets read; those of an unfinished frame come again with more. */
PRIVATE ssize_t lane_read(lane_connection *l, const uint8_t *octets, size_t there)
{
    const uint8_t *at = octets, *end = octets + there;
    uint32_t most = pn_transport_get_max_frame(l->transport);
    while (!l->closed_in) {
        size_t size = lane_frame_size(at, (size_t) (end - at), most ? most : UINT32_MAX);
        if (size == AMQP_WRONG) { fault_raise(l, NULL, NULL, LANE_FRAMING); break; }
        if (!size || size > (size_t) (end - at)) break;
        frame_arrives(l, at, size);
        at += size;
    }
    return l->closed_in ? PN_EOS : (ssize_t) (at - octets);
}

/* ---- out ---- */

/* Appends what the engine writes to the output, and learns from it. */
static void engine_take(lane_connection *l)
{
    uint8_t some[TAKEN_AT_ONCE];
    ssize_t n;
    if (!l->headed) return;
    while ((n = layers_take(l, some, sizeof some)) > 0) {
        if (l->control_size + (size_t) n > l->control_room) {
            l->control_room = (l->control_size + (size_t) n) * 2;
            l->control = (uint8_t *) memory_for(l->control, l->control_room);
        }
        memcpy(l->control + l->control_size, some, (size_t) n);
        l->control_size += (size_t) n;
        size_t at = 0, size;
        while ((size = lane_frame_size(l->control + at, l->control_size - at, UINT32_MAX)) && size != AMQP_WRONG
               && size <= l->control_size - at) {
            lane_frame f;
            memcpy(out_frame(l, size), l->control + at, size);
            l->out_end += size;
            if (!lane_frame_read(l->control + at, size, &f) && !f.type && f.performative) control_out(l, &f);
            at += size;
        }
        memmove(l->control, l->control + at, l->control_size - at);
        l->control_size -= at;
    }
    if (n < 0) l->over = true;
}

/* Makes the frames that are due. */
static void frames_due(lane_connection *l)
{
    if (l->open) frame_close(l, true);
    out_due(l);
    engine_take(l);
    tell_flush(l);
}

/* Copies frames out; before that it makes those that are due, if there are fewer octets than asked for. */
PRIVATE ssize_t lane_write(lane_connection *l, uint8_t *to, size_t room)
{
    if ((l->open ? l->open_at : l->out_end) - l->out_at < room) frames_due(l);
    size_t n = (l->open ? l->open_at : l->out_end) - l->out_at;
    if (n > room) n = room;
    memcpy(to, l->out + l->out_at, n);
    l->out_at += n;
    return n || !l->over ? (ssize_t) n : PN_EOS;
}

/* For who sends frames without the transport: the octets of all that are due, and where they stand.  PN_EOS: there are
 * none, and there will be none. */
PRIVATE ssize_t lane_ready(lane_connection *l, const char **at)
{
    frames_due(l);
    *at = (const char *) l->out + l->out_at;
    size_t size = l->out_end - l->out_at;
    return size || !l->over ? (ssize_t) size : PN_EOS;
}

PRIVATE void lane_sent(lane_connection *l, size_t size) { l->out_at += size; }

/* ---- the connection ---- */

PRIVATE void lane_begin_connection(pump *p, worker_connection *c)
{
    lane_connection *l = (lane_connection *) memory_clear(sizeof *l);
    *l = (lane_connection) { .p = p, .c = c, .transport = c->transport, .max_frame = SMALLEST_FRAME };
    c->lane = l;
    layers_install(l);
}

PRIVATE void lane_free(worker_connection *c)
{
    lane_connection *l = c->lane;
    if (!l) return;
    while (l->sessions) session_free(l->sessions);
    lane_map_end(&l->by_remote);
    lane_map_end(&l->by_local);
    for (delivery *d = l->spare, *next; d; d = next) { next = d->next; free(d->held); free(d); }
    free(l->out);
    free(l->control);
    c->lane = NULL;
    free(l);
}
