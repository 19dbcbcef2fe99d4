/* Incoming deliveries: from frames into blocks, scanned, and posted to the core.
 *
 *   state of a delivery   what has been said to the core      what ends it
 *   arriving              nothing                             posted, or refused (malformed): the core never hears it
 *   streaming             DELIVER, then CONTINUE              complete or aborted
 *   waiting (unsettled)   DELIVER with COMPLETE               UPDATE from the core that settles, or the link is lost
 *
 * A message that fits one block and is there whole goes the short way (intake_whole): one copy, one scan, one record.
 * Prohibited: writing into a chain after COMPLETE or ABORTED was posted; freeing an incomplete posted chain (the core's
 * record that names the delivery does that).
 */
#include "workers/amqp/amqp.h"
#include "workers/transport/transport.h"

static const char tag_too_long[] = "a delivery-tag has more than 32 octets";
static const char not_resumed[] = "the router keeps no deliveries of links that were detached, so it resumes none";

/* The short way.  False: it needs the long one (no single block is large enough). */
static bool intake_whole(pump *p, worker_link *k, delivery *d, size_t size)
{
    if (!blocks_left(p)) { intake_stall(p, k); return true; }
    uint32_t head = arena_alloc_head(&p->arena, arena_class_for(size));
    if (arena_capacity(&p->arena.view, head, true) < size) {
        arena_free_chain(&p->arena, head);
        return false;
    }
    note_delivery(p, d, head);
    arena_content *c = arena_content_of(&p->arena.view, head);
    uint8_t *bytes = (uint8_t *) c + sizeof *c;
    scan_found found;
    rmr_key key;
    if (size) link_recv(k, (uint8_t *) bytes, size);
    bool settled = delivery_settled(d), moved = false;
    uint8_t origin = 0;
    enum scan_result result = scan_message(bytes, size, true, &found);
    result = security_sections(k->conn, bytes, size, &found, result);
    result = content_check(k->conn, c, bytes, &found, result, &moved);
    if (__builtin_expect(k->to_table, 0)) result = content_key(bytes, size, true, result, &found, &key);
    else if (__builtin_expect(p->routes != NULL, 0) && result == SCAN_DONE) {
        result = route_whole(p, k, &head, &size, &found, &origin);
        c = arena_content_of(&p->arena.view, head);
    }
    in_delivery *s;
    if (!intake_accept(p, k, d, head, result, &found, &s)) return true;
    intake_complete(k, c, size, &found, s);
    if (__builtin_expect(origin, 0))
        content_header_route(p, c, (uint32_t) p->routes->first.offset, p->routes->first.length);
    message_log(p, k, &p->arena.view, head, false);
    content_extract extract;
    uint8_t flags = (uint8_t) (F_COMPLETE | (settled ? F_SETTLED : 0)
                               | (__builtin_expect(origin, 0) ? extract_chain(p, head, size, true, &found)
                                   : extract_whole(p, k, c, size, &found, &extract)));
    routerd_record *r = post_deliver(p, k, head, s ? pool_handle(&p->ins, s) : 0, found.priority, size, flags);
    if (flags & F_BRIEF) extract_post(&extract, r);
    if (__builtin_expect(k->to_table, 0)) rmr_key_post(&key, r);
    if (__builtin_expect(origin, 0)) r->state = origin;
    if (settled) delivery_settle(d);
    else if (__builtin_expect(delivery_remote_state(d) != 0, 0)) post_said(p, k, s, d);
    return true;
}

/* Discards the rest of a message, which is still read so that the session window stays correct.
 * `refund`: the core does not know the delivery, so its credit is returned here. */
PRIVATE inline void intake_discard(pump *p, in_delivery *s, bool refund)
{
    stream_over(p, s);
    s->discard = true;
    s->refund = refund;
    s->writer.head = ROUTERD_NIL;
    s->link->held = false;
}

/* More has come of a message that nobody needs. */
static void intake_wasted(in_delivery *s, delivery *d, uint64_t size)
{
    s->wasted += size;
    if (!s->outcome || s->wasted < HOLD_LEAST) return;
    delivery_update(d, s->outcome);
    s->outcome = 0;
}

/* The last byte (or an abort) has come, and the link moves on to its next delivery. */
PRIVATE void intake_finish(pump *p, worker_link *k, in_delivery *s)
{
    delivery *d = s->delivery;
    bool settled = s->settled || s->discard;
    s->complete = true;
    k->current = NULL;
    k->held = false;
    stream_over(p, s);
    if (s->refund) credit_owed(p, k, 1);
    if (settled) {
        if (s->outcome && !delivery_aborted(d)) delivery_update(d, s->outcome);
        in_delivery_free(p, s);
        delivery_settle(d);         /* moves the link on */
    } else {
        link_advance(k);
    }
}

/* Rejects a message larger than the policy allows and closes its link; Python closes the connection. */
static void intake_too_large(pump *p, worker_link *k, in_delivery *s, delivery *d)
{
    if (!s || !s->discard || s->outcome) {                     /* what was told before stands */
        delivery_reject(d, "amqp:link:message-size-exceeded", "the message is larger than the policy allows");
    }
    if (s) {
        if (s->posted && !s->discard) {
            chain_publish(&p->arena, &s->writer, CONTENT_ABORTED);
            post_continue(p, s, F_ABORTED);
        } else if (s->writer.head != ROUTERD_NIL) {
            arena_free_chain(&p->arena, s->writer.head);
        }
        in_delivery_free(p, s);
    }
    delivery_settle(d);
    pn_link_close(k->engine);          /* without an error: the message has it, and the connection's CLOSE follows */
    k->conn->denied = true;
    stats_add(p->stats, N_REFUSED_SIZE, 1);
    mark_dirty(p, k->conn);
    p->on_event(p->self, EV_MESSAGE_DENIED, k->conn, k, k->engine, NULL);
}

static void intake_aborted(pump *p, worker_link *k, in_delivery *s)
{
    stats_add(p->stats, N_ABORTED_IN, 1);
    if (s->posted && !s->discard) {
        chain_publish(&p->arena, &s->writer, CONTENT_ABORTED);
        post_continue(p, s, F_ABORTED);
        s->settled = true;             /* AMQP 2.7.5: aborted deliveries are settled; the core gives the credit back */
    } else if (!s->discard) {
        if (s->writer.head != ROUTERD_NIL) arena_free_chain(&p->arena, s->writer.head);
        intake_discard(p, s, true);
    }
    intake_finish(p, k, s);
}

/* Finds what the core needs to know of a message before it can be posted. */
static enum scan_result intake_known(pump *p, worker_link *k, in_delivery *s, bool all, scan_found *found, rmr_key *key)
{
    if (k->routed) return routed_scan(p, s, all, found);
    if (__builtin_expect(s->wants_whole, 0) && !all && s->writer.written < ROUTE_WHOLE) return SCAN_MORE;
    if (__builtin_expect(s->passed && s->origin, 0))
        return route_rescan(p, s->writer.head, s->writer.written, all, found);
    enum scan_result result = intake_scan(p, s, all, found, key);
    if (result != SCAN_DONE || k->to_table || __builtin_expect(!p->routes, 1)) return result;
    return route_streamed(p, k, s, all, found);
}

/* The same, unless the last scan has said that it takes more bytes: otherwise a long section that comes in small pieces
 * would be gathered and scanned with each of them. */
static enum scan_result intake_due(pump *p, worker_link *k, in_delivery *s, bool all, scan_found *found, rmr_key *key)
{
    if (!all && s->writer.written < s->scan_at) return SCAN_MORE;
    found->need = 0;
    enum scan_result result = intake_known(p, k, s, all, found, key);
    s->scan_at = result != SCAN_MORE ? 0 : found->need < SCAN_LIMIT ? found->need : SCAN_LIMIT;
    return result;
}

/* After new bytes: publish, post.  False: the message was refused. */
PRIVATE void intake_post(pump *p, worker_link *k, in_delivery *s, bool complete)
{
    uint8_t flags = (uint8_t) (complete ? F_COMPLETE : 0);
    chain_publish(&p->arena, &s->writer, complete ? CONTENT_COMPLETE : CONTENT_RECEIVING);
    if (s->posted) {
        if (complete) post_continue(p, s, F_COMPLETE);
        else intake_grown(p, s);
        return;
    }
    scan_found found;
    rmr_key key;
    routerd_record *r;
    switch (intake_due(p, k, s, complete, &found, &key)) {
    case SCAN_MORE:
        return;
    case SCAN_BAD:
        arena_free_chain(&p->arena, s->writer.head);
        intake_refuse(p, k, s->delivery, found.why, found.condition);
        intake_discard(p, s, true);
        return;
    case SCAN_DONE:
        content_header_fill(arena_content_of(&p->arena.view, s->writer.head), &found);
        if (__builtin_expect(s->origin, 0))
            content_header_route(p, arena_content_of(&p->arena.view, s->writer.head), s->to_offset, s->to_length);
        s->posted = true;
        stream_gathered(p, s);
        s->settled = delivery_settled(s->delivery);
        if (s->settled) flags |= F_SETTLED;
        if (!k->routed) {
            message_log(p, k, &p->arena.view, s->writer.head, false);
            flags |= extract_chain(p, s->writer.head, s->writer.written, complete, &found);
        }
        r = post_deliver(p, k, s->writer.head, s->settled && complete ? 0 : pool_handle(&p->ins, s), found.priority,
                         s->writer.written, flags);
        if (k->to_table) rmr_key_post(&key, r);
        if (s->origin) r->state = s->origin;
        if (k->routed) delivery_clear(s->delivery);             /* the chain has its state */
        else if (!s->settled && delivery_remote_state(s->delivery)) post_said(p, k, s, s->delivery);
    }
}

/* A transfer says more than goes through a routed link: it is refused before anything of it was posted. */
static void intake_unfit(pump *p, worker_link *k, in_delivery *s)
{
    arena_free_chain(&p->arena, s->writer.head);
    intake_refuse(p, k, s->delivery, routed_unfit, NULL);
    intake_discard(p, s, true);
}

/* Ends a delivery whose payload, which a route worker opens or a policy judges, is malformed. */
static void intake_broken(pump *p, worker_link *k, in_delivery *s, delivery *d, const char *why)
{
    bool posted = s->posted;
    if (posted) {
        chain_publish(&p->arena, &s->writer, CONTENT_ABORTED);
        post_continue(p, s, F_ABORTED);
        s->settled = true;
    } else {
        arena_free_chain(&p->arena, s->writer.head);
    }
    if (why == route_broken) stats_add(p->stats, N_ROUTE_REFUSED_DECODE, 1);
    intake_refuse(p, k, d, why, "amqp:decode-error");
    intake_discard(p, s, !posted);
}

/* The long way: receives all bytes that have arrived, unless blocks run out or the readers are too far behind. */
static void intake_stream(pump *p, worker_link *k, in_delivery *s, delivery *d)
{
    char scratch[4096];
    bool grew = false;
    size_t pending;
    if (delivery_aborted(d)) { intake_aborted(p, k, s); return; }
    while ((pending = delivery_pending(d)) > 0) {
        if (security_too_large(k->conn, s->writer.written - routed_before(p, s) + s->wasted + pending)) {
            intake_too_large(p, k, s, d);
            return;
        }
        if (s->discard) {
            ssize_t n = link_recv(k, (uint8_t *) scratch, pending < sizeof scratch ? pending : sizeof scratch);
            if (n <= 0) break;
            intake_wasted(s, d, (uint64_t) n);
            mark_dirty(p, k->conn);
            continue;
        }
        if (s->posted && s->writer.written - s->read_to >= hold_high(p)) { k->held = true; break; }
        const uint64_t most = blocks_left(p) ? stream_room(p, s) : 0;
        if (!most) { intake_stall(p, k); break; }
        if (__builtin_expect(s->body != NULL, 0)) {
            int got = route_receive(p, k, s, pending);
            if (got < 0) intake_broken(p, k, s, d, route_broken);
            if (!got) break;
            grew |= got > 0;
            continue;
        }
        if (s->writer.head == ROUTERD_NIL) {
            chain_begin(&p->arena, &s->writer, ARENA_LARGE);
            note_delivery(p, d, s->writer.head);
            if (k->routed && d->state_size > STATE_LONGEST) { intake_unfit(p, k, s); continue; }
            if (k->routed && !routed_begin(p, s)) { intake_stall(p, k); break; }
        }
        uint32_t room;
        uint8_t *to = chain_room(&p->arena, &s->writer, ARENA_LARGE, &room);
        if (!to) { intake_stall(p, k); break; }
        if (room > most) room = (uint32_t) most;
        ssize_t n = link_recv(k, (uint8_t *) to, pending < room ? pending : room);
        if (n <= 0) break;
        if (__builtin_expect(k->walk != NULL, 0) && !section_walk_on(k->walk, to, (size_t) n)) {
            intake_broken(p, k, s, d, security_order);
            continue;
        }
        chain_wrote(&s->writer, (uint32_t) n);
        grew = true;
    }
    bool complete = !delivery_partial(d) && !delivery_pending(d);
    if (grew) mark_dirty(p, k->conn);                          /* the session window may have opened */
    if (__builtin_expect(s->body != NULL, 0) && complete && !s->discard && !route_body_over(s->body))
        intake_broken(p, k, s, d, route_broken);
    if (!s->discard && (grew || (complete && s->writer.head != ROUTERD_NIL))) intake_post(p, k, s, complete);
    if (k->stalled && s->posted && !complete && !s->discard) stream_stalled(p, s);
    if (complete) intake_finish(p, k, s);
}

static void intake_read(pump *p, worker_link *k, delivery *d)
{
    in_delivery *s = k->current;
    const uint32_t before[2] = { p->arena.free_count[0], p->arena.free_count[1] };
    if ((k->held || k->stalled) && !(s && delivery_aborted(d))) return;
    if (p->resting && !(s && s->discard)) { intake_stall(p, k); return; }
    if (!s) {
        if (delivery_unfit(d))
            intake_refuse(p, k, d, d->resumed ? not_resumed : tag_too_long,
                          d->resumed ? "amqp:not-implemented" : "amqp:decode-error");
        if (delivery_aborted(d) || delivery_unfit(d)) {
            stats_add(p->stats, N_ABORTED_IN, delivery_aborted(d));
            delivery_settle(d);
            credit_owed(p, k, 1);
            return;
        }
        size_t pending = delivery_pending(d);
        bool partial = delivery_partial(d);
        if (security_too_large(k->conn, pending)) { intake_too_large(p, k, NULL, d); return; }
        if (partial && !pending) return;
        if (over_share(p, k)) { intake_stall(p, k); return; }
        if (!partial && pending <= ARENA_LARGE_BYTES
            && (k->routed ? routed_whole(p, k, d, pending) : intake_whole(p, k, d, pending))) {
            kept_change(p, k, before);
            return;
        }
        if (!stream_fits(p, k) || !(s = in_delivery_new(p, k, d))) { intake_stall(p, k); return; }
        k->current = s;
        stream_begin(p, s);
        if (!security_follow(k)) {
            intake_refuse(p, k, d, "the router is out of memory", "amqp:internal-error");
            intake_discard(p, s, true);
        }
    }
    intake_stream(p, k, s, d);
    kept_change(p, k, before);
    if (p->paused && k->current && !k->held && !k->stalled) conn_resume(p, k->conn);     /* it waits for its rest */
}

/* The sender changed or settled a delivery that it had sent unsettled. */
static void intake_updated(pump *p, worker_link *k, delivery *d)
{
    in_delivery *s = (in_delivery *) delivery_get_context(d);
    bool settled = delivery_settled(d);
    if (!s || !s->posted || s->discard || s->settled || (!settled && !delivery_remote_state(d))) {
        delivery_clear(d);
        return;
    }
    if (!settled) { intake_said(p, k, s, d); return; }
    post_said(p, k, s, d)->flags |= F_SETTLED;
    if (s->complete) {
        in_delivery_free(p, s);
        delivery_settle(d);
        mark_dirty(p, k->conn);
    } else {
        s->settled = true;
    }
}

PRIVATE inline void intake_event(pump *p, worker_link *k, delivery *d)
{
    if (k->conn->denied) return;
    if (delivery_readable(d)) {
        in_delivery *s = k->current;
        if (s && s->posted && !s->settled && !delivery_aborted(d) && (delivery_settled(d) || delivery_updated(d)))
            intake_updated(p, k, d);
        intake_read(p, k, d);
    } else if (delivery_updated(d)) {
        intake_updated(p, k, d);
    }
}

/* A link that had to wait goes on. */
PRIVATE inline void intake_resume(pump *p, worker_link *k)
{
    delivery *d;
    if (k->framed) { mark_dirty(p, k->conn); return; }
    while (!k->held && !k->stalled && !k->conn->denied && (d = link_current(k)) && delivery_readable(d)) {
        if (delivery_partial(d) && !delivery_pending(d)) break;
        intake_read(p, k, d);
        if (k->current && link_current(k) == d) break;
    }
    mark_dirty(p, k->conn);
}

/* Every reader has got to `length`: what lies before it can be used again, and a sender held back goes on. */
PRIVATE inline void intake_consumed(pump *p, in_delivery *s, uint64_t length)
{
    if (s->discard || s->whole || s->writer.head == ROUTERD_NIL || length > s->writer.written || length <= s->read_to)
        return;
    const uint32_t before[2] = { p->arena.free_count[0], p->arena.free_count[1] };
    s->read_to = length;
    if (chain_trim(&p->arena, &s->writer, length) || s->link->stalled) p->freed = true;
    kept_change(p, s->link, before);
    slow_moves(s->link);
    if (s->link->held && s->link->current == s && s->writer.written - s->read_to < hold_high(p) / 2) {
        s->link->held = false;
        intake_resume(p, s->link);
    }
}

/* The link is going: what is half received is aborted, the rest is the core's to forget. */
PRIVATE inline void intake_lost(pump *p, worker_link *k)
{
    while (k->in_first) {
        in_delivery *s = k->in_first;
        if (!s->complete && s->posted && !s->discard) {
            chain_publish(&p->arena, &s->writer, CONTENT_ABORTED);
            post_continue(p, s, F_ABORTED);
        } else if (!s->posted && !s->discard && s->writer.head != ROUTERD_NIL) {
            arena_free_chain(&p->arena, s->writer.head);
            p->freed = true;
        }
        in_delivery_free(p, s);
    }
}
