/* Deliveries and links, for those who read and write messages. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "workers/session/session.h"
#include "workers/transport/transport.h"

/* ---- deliveries of either direction ---- */

PRIVATE inline delivery *delivery_take(worker_link *k)
{
    lane_connection *l = k->session->connection;
    delivery *d = l->spare;
    if (__builtin_expect(d != NULL, 1)) {
        l->spare = d->next;
        memset(d, 0, offsetof(delivery, tag));
    } else {
        if (!(d = (delivery *) aligned_alloc(_Alignof(delivery), sizeof *d))) abort();
        memset(d, 0, sizeof *d);
    }
    d->link = k;
    d->next = k->deliveries;
    if (d->next) d->next->previous = d;
    k->deliveries = d;
    return d;
}

static void unread_remove(worker_link *k, delivery *d)
{
    if (d->before) d->before->after = d->after;
    else k->unread_first = d->after;
    if (d->after) d->after->before = d->before;
    else k->unread_last = d->before;
    d->after = d->before = NULL;
    d->unread = false;
    k->unread--;
}

/* So many octets of a link, and TRANSFERs, came and wait. */
PRIVATE void held_came(worker_link *k, size_t size, uint32_t frames)
{
    worker_session *s = k->session;
    s->connection->held += size;
    pump_keeps(s->connection->p, (int64_t) size);
    s->lane.held += frames;
    k->held_octets += size;
    k->held_frames += frames;
    if (k->share || s->connection->holding_first) slow_waits(k);
}

/* So many octets of a link do not wait any more: a connection that was not read for that goes on. */
static void held_gone(worker_link *k, size_t size)
{
    lane_connection *l = k->session->connection;
    l->held -= size;
    pump_keeps(l->p, -(int64_t) size);
    k->held_octets -= size;
    slow_moves(k);
    if (!l->c->reading && l->held <= l->held_most / 2) conn_resume(l->p, l->c);
}

/* The session's window counts so many TRANSFERs of the delivery no more. */
static void held_release(delivery *d, uint32_t frames)
{
    worker_session *s = d->link->session;
    d->held_frames -= frames;
    d->link->held_frames -= frames;
    lane_release(&s->lane, frames);
    session_due(s);
    mark_dirty(s->connection->p, s->connection->c);
}

/* Brings what is behind `tag` back to what a new delivery has. */
__attribute__((noinline)) static void delivery_unload(delivery *d)
{
    if (d->held_frames) held_release(d, d->held_frames);
    if (d->held.first && !d->outgoing) held_gone(d->link, d->held.size);
    held_forget(&d->held);
    d->settle_mode = LANE_AS_LINK;
    d->resumed = d->long_tag = false;
    state_unmake(d);
    state_forget(d);
}

PRIVATE inline void delivery_drop(delivery *d)
{
    worker_link *k = d->link;
    worker_session *s = k->session;
    lane_connection *l = s->connection;
    delivery_unchange(d);
    if (k->arriving == d) {
        k->arriving = NULL;
        k->discarding = true;
        if (l->coming.delivery == d) l->coming.delivery = NULL;
    }
    if (k->sending == d) k->sending = NULL;
    if (d->outgoing && !d->numbered) k->waiting--;
    if (d->unread) unread_remove(k, d);
    if (__builtin_expect(d->queued, 0)) queue_remove(d);
    if (d->mapped) lane_map_take(d->outgoing ? &s->lane.out : &s->lane.in, d->id);
    if (__builtin_expect(d->laden, 0)) delivery_unload(d);
    if (d->previous) d->previous->next = d->next;
    else k->deliveries = d->next;
    if (d->next) d->next->previous = d->previous;
    d->next = l->spare;
    l->spare = d;
}

/* Keeps octets of a delivery: of a TRANSFER that came, or those that wait for the window. */
PRIVATE void delivery_hold(delivery *d, const uint8_t *octets, size_t size, uint32_t frames, read_buffer *buffer)
{
    d->laden = true;
    d->held_frames += frames;
    if (size) held_add(&d->held, octets, size, frames, buffer);
}

PRIVATE inline void delivery_unchange(delivery *d)
{
    if (!d->changed) return;
    lane_connection *l = d->link->session->connection;
    if (d->changed_previous) d->changed_previous->changed_next = d->changed_next;
    else l->changed_first = d->changed_next;
    if (d->changed_next) d->changed_next->changed_previous = d->changed_previous;
    d->changed = false;
}

/* Our state, which its settlement is going to say. */
PRIVATE inline void delivery_ends(delivery *d, uint64_t code)
{
    if (__builtin_expect(d->laden, 0) && d->local_code != code) state_forget(d);
    d->local_code = (uint32_t) code;
}

/* Our state.  The next frame says it: the first TRANSFER, or a DISPOSITION, with the settlement if that follows. */
PRIVATE inline void delivery_update(delivery *d, uint64_t code)
{
    lane_connection *l = d->link->session->connection;
    delivery_ends(d, code);
    if (d->changed) return;
    d->changed = true;
    d->changed_previous = NULL;
    d->changed_next = l->changed_first;
    if (l->changed_first) l->changed_first->changed_previous = d;
    l->changed_first = d;
}

/* Settles and forgets a delivery.  One whose octets have not all left says in its last frames that it is settled. */
PRIVATE inline void delivery_settle(delivery *d)
{
    worker_session *s = d->link->session;
    if (d->outgoing && !d->sent) {
        d->presettled = true;
        if (!d->done) delivery_finish(d);
        return;
    }
    amqp_value none = { NULL, 0 };
    if (!d->settled) range_say(s, !d->outgoing, true, d->id, !d->outgoing || d->changed ? state_said(d) : none);
    delivery_drop(d);
}

/* ---- outgoing ---- */

PRIVATE inline delivery *delivery_new(worker_link *k, const uint8_t *tag, size_t size, bool settled)
{
    delivery *d = delivery_take(k);
    d->outgoing = true;
    d->presettled = settled;
    k->waiting++;
    d->tag_size = (uint8_t) size;
    if (__builtin_expect(size == sizeof(uint64_t), 1)) memcpy(d->tag, tag, sizeof(uint64_t));
    else memcpy(d->tag, tag, size);
    k->sending = d;
    return d;
}

/* Takes back a delivery that is not complete.  Its receiver hears of it only if a frame has left. */
PRIVATE void delivery_abort(delivery *d)
{
    if (d->numbered && !d->sent) {
        d->presettled = d->aborting = true;
        if (d->queued) d->link->session->queued -= d->held.size;
        held_forget(&d->held);
        if (!d->done) delivery_finish(d);
    } else {
        delivery_drop(d);
    }
}

/* ---- links ---- */

/* In: the next delivery is current.  Out: the current one is complete. */
PRIVATE inline void link_advance(worker_link *k)
{
    if (k->outgoing) { delivery_finish(k->sending); return; }
    delivery *d = k->unread_first;
    unread_remove(k, d);
    if (k->arriving == d && !d->partial) k->arriving = NULL;
}

/* Out: the deliveries that may begin now, besides those that wait for the window.  In: those that the sender may begin,
 * and those that nobody has taken. */
__attribute__((always_inline)) PRIVATE inline int link_credit(worker_link *k)
{
    uint32_t n = k->lane.credit;
    if (!k->outgoing) n += k->unread;
    else n = n > k->waiting && k->attached && !k->session->ended_here ? n - k->waiting : 0;
    return n > INT32_MAX ? INT32_MAX : (int) n;
}

PRIVATE inline int link_queued(worker_link *k) { return k->outgoing ? 0 : (int) k->unread; }
PRIVATE inline delivery *link_current(worker_link *k) { return k->unread_first; }
PRIVATE inline void link_flow(worker_link *k, uint32_t credit) { lane_grant(&k->lane, credit); tell_later(k); }
PRIVATE inline void link_withdraw(worker_link *k, uint32_t credit) { lane_withdraw(&k->lane, credit); tell_later(k); }
PRIVATE inline void link_drain(worker_link *k, uint32_t credit) { k->lane.drain = true; link_flow(k, credit); }
PRIVATE inline void link_set_drain(worker_link *k, bool drain) { k->lane.drain = drain; tell_later(k); }
PRIVATE inline bool link_get_drain(worker_link *k) { return k->lane.drain; }
PRIVATE inline bool link_draining(worker_link *k) { return k->lane.drain && k->lane.credit > 0; }

/* In: the credit that the sender has given back since the last call.  Out: gives all credit back, if asked to drain. */
PRIVATE inline int link_drained(worker_link *k)
{
    uint32_t n = k->returned;
    if (!k->outgoing) { k->returned = 0; return (int) n; }
    n = k->lane.credit;
    if (!k->lane.drain || !n || k->waiting) return 0;
    lane_drained(&k->lane);
    tell_later(k);
    return n > INT32_MAX ? INT32_MAX : (int) n;
}

/* Copies octets that were held, whose frames then open the window again. */
static size_t held_recv(delivery *d, uint8_t *to, size_t size)
{
    size_t done = 0, n;
    const uint8_t *from;
    while (done < size && (from = held_front(&d->held, &n))) {
        if (n > size - done) n = size - done;
        memcpy(to + done, from, n);
        done += n;
        uint32_t frames = held_take(&d->held, n);
        if (frames) held_release(d, frames);
    }
    if (!d->held.size && d->held_frames) held_release(d, d->held_frames);
    held_gone(d->link, done);
    return done;
}

/* Copies octets of the current delivery, those that were held first. */
PRIVATE inline ssize_t link_recv(worker_link *k, uint8_t *to, size_t size)
{
    delivery *d = k->unread_first;
    size_t n, done = 0;
    if (__builtin_expect(d->laden && d->held.size, 0)) done = held_recv(d, to, size);
    n = size - done < d->direct_size ? size - done : d->direct_size;
    if (n) {
        memcpy(to + done, d->direct, n);
        d->direct += n;
        d->direct_size -= (uint32_t) n;
    }
    return (ssize_t) (done + n);
}
