/* TRANSFER, FLOW and DISPOSITION that come. */
#include <poll.h>
#include <string.h>

#include "workers/session/session.h"

enum {
    REPEATS_MOST = 1 << 18,            /* deliveries with a state that get another, between two looks at the socket */
    PASSED_MOST = 1024, PASSED_NS = 20     /* pages of a map that are passed between two counts; nanoseconds of each */
};

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
    d->direct_size = 0;
    held_came(d->link, size, frame);
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
    worker_link *k = HANDLE_LINK(there);
    if (!there) { fault_raise(l, s, NULL, LANE_UNATTACHED); return; }
    fault = lane_receive(&s->lane, k ? &k->lane : NULL, &t, &piece);
    if (s->lane.tell) session_due(s);                          /* also behind a fault that ends the link alone */
    if (!fault && !state_fit(&t.state)) fault = LANE_STATE;
    if (fault) { fault_raise(l, s, k, fault); return; }
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
    uint64_t there = flow.has_handle ? lane_map_get(&s->handles, flow.handle) : HANDLE_IGNORED(0);
    if (!there) { fault_raise(l, s, NULL, LANE_UNATTACHED); return; }
    worker_link *k = HANDLE_LINK(there);
    uint64_t began = 0;
    if (__builtin_expect(s->queue_first != NULL, 0)) {         /* all that wait are looked at */
        if (!turn_work(l, 0)) return;
        began = turn_begin(l);
    }
    lane_heard heard = lane_hear(&s->lane, k ? &k->lane : NULL, &flow);
    if (s->lane.tell) session_due(s);
    mark_dirty(l->p, l->c);
    if (s->queue_first && (heard.window || heard.credit)) queue_flush(s);
    if (__builtin_expect(began != 0, 0)) turn_count(l, began);
    if (!k) return;
    if (k->lane.tell) tell_later(k);
    k->returned += heard.returned;
    if (!k->open) return;
    if (k->outgoing) egress_flow(l->p, k);
    else intake_flow(l->p, k);
}

/* Whether it is known that a receiver's DISPOSITION repeats what it has said of each delivery. */
static bool disposition_repeats(const worker_session *s, const lane_disposition *said)
{
    if (!said->receiver) return false;
    return !said->state.at || (s->lane.heard_at == s->lane.id_out && lane_range_heard(&s->lane.heard, said));
}

/* Notes whether a receiver's DISPOSITION, whose state has been new to a delivery or not, will repeat itself. */
static void disposition_over(worker_session *s, const lane_disposition *said, bool news)
{
    if (news) { s->lane.heard.open = false; return; }
    lane_range_hear(&s->lane.heard, said);
    s->lane.heard_at = s->lane.id_out;
}

/* The last delivery that a DISPOSITION concerns: none that begins later. */
static uint32_t disposition_last(const worker_session *s, const lane_disposition *said)
{
    uint32_t newest = (said->receiver ? s->lane.id_out : s->lane.id_in) - 1;
    return (int32_t) (said->last - newest) > 0 ? newest : said->last;
}

/* A DISPOSITION goes on at this delivery-id, in another turn. */
static void disposition_stop(lane_connection *l, uint32_t id, uint32_t last, bool news)
{
    l->behind = l->halfway = true;
    l->halfway_first = id;
    l->halfway_last = last;
    l->halfway_news = news;
}

/* Whether nobody waits for what a connection's states would change: its peer has closed its socket, and what is left of
 * its input visits the same deliveries again and again.  A first state is heard in any case until then. */
static bool repeats_of_one_gone(lane_connection *l)
{
    if (l->repeats < REPEATS_MOST) return l->gone;
    struct pollfd end = { .fd = l->c->fd, .events = POLLRDHUP };
    l->repeats = 0;
    return l->gone = poll(&end, 1, 0) > 0 && end.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

/* A DISPOSITION that settles nothing may come again and again, so it takes of its connection's share of the turn.  If
 * it says nothing new, it is over at once. */
__attribute__((noinline)) static void disposition_says(lane_connection *l, worker_session *s, lane_map *m,
                                                       lane_disposition *said)
{
    said->last = disposition_last(s, said);
    if ((int32_t) (said->last - said->first) < 0) return;
    if (!l->halfway && disposition_repeats(s, said)) return;
    if (repeats_of_one_gone(l)) { l->halfway = false; return; }
    if (!turn_work(l, 0)) return;
    uint64_t began = turn_begin(l);
    uint32_t id = said->first, last = said->last, n = 0;
    bool news = false, stopped = false;
    if (l->halfway) {
        l->halfway = false;
        id = l->halfway_first;
        last = said->last = l->halfway_last;
        news = l->halfway_news;
    }
    for (uint64_t there; (there = lane_map_next(m, &id, last)); id++) {
        delivery *d = (delivery *) (uintptr_t) there;
        bool full = said->receiver && said_full(l);
        if (full) turn_fill(l);
        stopped = full || (++n % SAID_AT_ONCE == 0 && !turn_lasts(l, began));
        if (stopped) { disposition_stop(l, id, last, news); break; }
        l->repeats += d->state != NULL;
        if (!said->receiver || !state_same(d, said->state)) {
            news = true;
            state_note(d, said->state);
            d->updated = true;
            if (d->link->outgoing) egress_updated(l->p, d->link, d);
            else intake_event(l->p, d->link, d);
        }
        if (id == last) break;
    }
    if (said->receiver && (news || !stopped)) disposition_over(s, said, news);
    turn_count(l, began);
    mark_dirty(l->p, l->c);
}

PRIVATE inline void disposition_arrives(lane_connection *l, worker_session *s, const lane_frame *f)
{
    lane_disposition said;
    enum lane_fault fault = lane_disposition_read(f, &said);
    if (!fault && !state_fit(&said.state)) fault = LANE_STATE;
    if (fault) { fault_raise(l, s, NULL, fault); return; }
    lane_map *m = said.receiver ? &s->lane.out : &s->lane.in;
    if (__builtin_expect(!said.settled, 0)) { disposition_says(l, s, m, &said); return; }
    if (__builtin_expect(m->passed > PASSED_MOST, 0)) {
        uint64_t took = (uint64_t) m->passed * PASSED_NS;
        m->passed = 0;
        if (!turn_work(l, took)) return;
    }
    uint32_t id = said.first, n = 0;
    if (__builtin_expect(l->halfway, 0)) {
        l->halfway = false;
        id = l->halfway_first;
        said.last = l->halfway_last;
    }
    for (uint64_t there; (there = lane_map_next(m, &id, said.last)); id++) {
        delivery *d = (delivery *) (uintptr_t) there;
        worker_link *k = d->link;
        state_note(d, said.state);
        d->settled = d->updated = true;
        if (k->outgoing) egress_updated(l->p, k, d);
        else intake_event(l->p, k, d);
        if (id == said.last) break;
        if (__builtin_expect(++n % SAID_AT_ONCE, 1) || turn_work(l, SAID_AT_ONCE * SETTLED_NS)) continue;
        disposition_stop(l, id + 1, disposition_last(s, &said), false);
        break;
    }
    mark_dirty(l->p, l->c);
}
