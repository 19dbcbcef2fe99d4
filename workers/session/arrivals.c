/* TRANSFER, FLOW and DISPOSITION that come. */
#include <string.h>

#include "workers/session/session.h"

static void unread_add(worker_link *k, delivery *d)
{
    d->unread = true;
    d->before = k->unread_last;
    if (d->before) d->before->after = d;
    else k->unread_first = d;
    k->unread_last = d;
    k->unread++;
}

/* Keeps octets that nobody takes now.  With the last ones of a `frame` its session's window is smaller by one, until
 * they are taken.  Without octets there is nothing to keep, and nobody would ever take it. */
static void payload_keep(lane_connection *l, delivery *d, const uint8_t *octets, uint32_t size, bool frame)
{
    if (!size) return;
    delivery_hold(d, octets, size, frame, l->reading);
    l->held += size;
    d->direct_size = 0;
    d->link->session->lane.held += frame;
}

/* Octets of a delivery have come; `frame`: all of a TRANSFER has. */
PRIVATE inline void payload_arrives(lane_connection *l, delivery *d, const uint8_t *octets, uint32_t size, bool frame)
{
    worker_link *k = d->link;
    if (k->unread_first != d) {                                /* others come first */
        payload_keep(l, d, octets, size, frame);
        return;
    }
    d->direct = octets;
    d->direct_size = size;
    intake_event(l->p, k, d);
    if (__builtin_expect(k->unread_first != d || !d->direct_size, 1)) return;      /* taken, or gone */
    payload_keep(l, d, d->direct, d->direct_size, frame);
}

PRIVATE inline void transfer_arrives(lane_connection *l, worker_session *s, const lane_frame *f)
{
    lane_transfer t;
    lane_piece piece;
    enum lane_fault fault = lane_transfer_read(f, &t);
    if (fault) { fault_raise(l, NULL, NULL, fault); return; }
    uint64_t there = lane_map_get(&s->handles, t.handle);
    worker_link *k = there > HANDLE_IGNORED ? (worker_link *) (uintptr_t) there : NULL;
    if (!there) { fault_raise(l, s, NULL, LANE_UNATTACHED); return; }
    if ((fault = lane_receive(&s->lane, k ? &k->lane : NULL, &t, &piece))) { fault_raise(l, s, k, fault); return; }
    if (s->lane.tell) session_due(s);
    if (!k) return;
    if (piece.first) k->discarding = false;
    else if (k->discarding) { if (piece.last) k->discarding = false; return; }
    delivery *d = k->arriving;
    if (piece.first) {
        d = delivery_take(k);
        d->id = t.id;
        d->format = t.format;
        if (__builtin_expect(t.tag.size > LANE_TAG_MAX, 0)) {
            d->laden = d->long_tag = true;
        } else if (__builtin_expect(k->routed, 0) && t.tag.size) {
            d->tag_size = (uint8_t) t.tag.size;
            memcpy(d->tag, t.tag.at, t.tag.size);
        }
        if (__builtin_expect(t.resume || t.settle_mode, 0)) {
            d->laden = true;
            d->resumed = t.resume;
            d->settle_mode = t.settle_mode;
        }
        if (!t.settled && !t.aborted) {
            d->mapped = true;
            if (!lane_map_put(&s->lane.in, d->id, value_of(d))) abort();
        }
        unread_add(k, d);
    }
    if (t.state.at) state_note(d, t.state);
    k->arriving = piece.last ? NULL : d;
    d->partial = !piece.last;
    d->aborted = piece.aborted;
    if (piece.settled && d->mapped) { d->mapped = false; lane_map_take(&s->lane.in, d->id); }
    d->settled |= piece.settled;
    payload_arrives(l, d, f->payload, f->payload_size, true);
}

PRIVATE inline void flow_arrives(lane_connection *l, worker_session *s, const lane_frame *f)
{
    lane_flow flow;
    enum lane_fault fault = lane_flow_read(f, &flow);
    if (fault) { fault_raise(l, NULL, NULL, fault); return; }
    uint64_t there = flow.has_handle ? lane_map_get(&s->handles, flow.handle) : HANDLE_IGNORED;
    if (!there) { fault_raise(l, s, NULL, LANE_UNATTACHED); return; }
    worker_link *k = there > HANDLE_IGNORED ? (worker_link *) (uintptr_t) there : NULL;
    lane_heard heard = lane_hear(&s->lane, k ? &k->lane : NULL, &flow);
    if (s->lane.tell) session_due(s);
    mark_dirty(l->p, l->c);
    if (s->queue_first && (heard.window || heard.credit)) queue_flush(s);
    if (!k) return;
    if (k->lane.tell) tell_later(k);
    k->returned += heard.returned;
    if (!k->open) return;
    if (k->outgoing) egress_flow(l->p, k);
    else intake_flow(l->p, k);
}

PRIVATE inline void disposition_arrives(lane_connection *l, worker_session *s, const lane_frame *f)
{
    lane_disposition said;
    enum lane_fault fault = lane_disposition_read(f, &said);
    if (fault) { fault_raise(l, s, NULL, fault); return; }
    lane_map *m = said.receiver ? &s->lane.out : &s->lane.in;
    uint32_t id = said.first;
    for (uint64_t there; (there = lane_map_next(m, &id, said.last)); id++) {
        delivery *d = (delivery *) (uintptr_t) there;
        worker_link *k = d->link;
        state_note(d, said.state);
        d->settled |= said.settled;
        d->updated = true;
        if (k->outgoing) egress_updated(l->p, k, d);
        else intake_event(l->p, k, d);
        if (id == said.last) break;
    }
    mark_dirty(l->p, l->c);
}
