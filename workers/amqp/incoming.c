/* Incoming deliveries as the worker keeps them, and what is said of each: to the core when it comes, to its sender when
 * it is refused. */
#include <stdatomic.h>
#include <stdlib.h>

#include "workers/amqp/amqp.h"
#include "workers/transport/transport.h"

#define COMPLAINT_MS 60000         /* interval of the lines of one kind */

PRIVATE inline void in_delivery_link(worker_link *k, in_delivery *s)
{
    s->link = k;
    s->next = k->in_first;
    s->previous = NULL;
    if (k->in_first) k->in_first->previous = s;
    k->in_first = s;
}

PRIVATE inline void in_delivery_free(pump *p, in_delivery *s)
{
    worker_link *k = s->link;
    if (s->previous) s->previous->next = s->next;
    else k->in_first = s->next;
    if (s->next) s->next->previous = s->previous;
    if (k->current == s) { k->current = NULL; k->held = false; }
    stream_over(p, s);
    if (s->delivery) delivery_set_context(s->delivery, NULL);
    if (__builtin_expect(s->body != NULL, 0)) free(s->body);
    pool_give(&p->ins, s);
    p->unsettled--;
}

PRIVATE inline in_delivery *in_delivery_new(pump *p, worker_link *k, delivery *d)
{
    in_delivery *s = (in_delivery *) pool_take(&p->ins, sizeof(in_delivery));
    if (!s) return NULL;
    s->delivery = d;
    s->writer.head = ROUTERD_NIL;
    delivery_set_context(d, s);
    in_delivery_link(k, s);
    p->unsettled++;
    return s;
}

/* Lets a link wait for blocks or for a core; the session's window bounds what arrives meanwhile. */
PRIVATE void intake_stall(pump *p, worker_link *k)
{
    if (k->stalled) return;
    uint32_t index = pool_index(&p->links, k);
    k->stalled = true;
    k->stalled_next = ROUTERD_NIL;
    k->stalled_previous = p->stalled_last;
    if (p->stalled_last == ROUTERD_NIL) p->stalled_first = index;
    else ((worker_link *) pool_at(&p->links, p->stalled_last))->stalled_next = index;
    p->stalled_last = index;
    p->stalled_count++;
}

/* It waits no more. */
PRIVATE void intake_unstall(pump *p, worker_link *k)
{
    if (!k->stalled) return;
    if (k->stalled_previous == ROUTERD_NIL) p->stalled_first = k->stalled_next;
    else ((worker_link *) pool_at(&p->links, k->stalled_previous))->stalled_next = k->stalled_next;
    if (k->stalled_next == ROUTERD_NIL) p->stalled_last = k->stalled_previous;
    else ((worker_link *) pool_at(&p->links, k->stalled_next))->stalled_previous = k->stalled_previous;
    k->stalled = false;
    p->stalled_count--;
}

/* Whether a line about messages that are malformed in this way is due. */
PRIVATE inline bool intake_complains(pump *p, const char *why)
{
    for (uint32_t i = 0; i < COMPLAINTS; i++) {
        if (p->complaints[i].why && p->complaints[i].why != why) continue;
        if (p->complaints[i].why && p->now_ms < p->complaints[i].again) return false;
        p->complaints[i].why = why;
        p->complaints[i].again = p->now_ms + COMPLAINT_MS;
        return true;
    }
    return false;
}

PRIVATE inline void intake_refuse(pump *p, worker_link *k, delivery *d, const char *why, const char *condition)
{
    delivery_reject(d, why == security_proxy ? "amqp:unauthorized-access" : condition ? condition : "amqp:decode-error",
                    why);
    if (!p->routes || why != p->routes->run.detail)
        stats_add(p->stats, why == security_proxy ? N_REFUSED_USER_ID : N_DECODE_ERRORS, 1);
    mark_dirty(p, k->conn);
    if (intake_complains(p, why)) p->on_event(p->self, EV_MESSAGE_REFUSED, k->conn, k, (void *) (uintptr_t) why, NULL);
}

/* Whether a whole message in one block goes on, as its scan ended.  `s`: of one that is not settled, else NULL.  False:
 * it is refused and settled, and its block is free. */
PRIVATE inline bool intake_accept(pump *p, worker_link *k, delivery *d, uint32_t head, enum scan_result result,
                                  const scan_found *found, in_delivery **s)
{
    *s = NULL;
    if (result == SCAN_DONE && (delivery_settled(d) || (*s = in_delivery_new(p, k, d)))) return true;
    arena_free_chain(&p->arena, head);
    intake_refuse(p, k, d, result != SCAN_DONE ? found->why : "the router has no room for another unsettled delivery",
                  found->condition);
    delivery_settle(d);
    credit_owed(p, k, 1);
    return false;
}

/* A whole message is in its block: readers see it with the record that names it. */
PRIVATE inline void intake_complete(worker_link *k, arena_content *c, uint64_t size, const scan_found *found,
                                    in_delivery *s)
{
    content_header_fill(c, found);
    atomic_store_explicit(&c->length, size, memory_order_relaxed);
    atomic_store_explicit(&c->state, CONTENT_COMPLETE, memory_order_relaxed);
    link_advance(k);
    if (s) s->posted = s->complete = s->whole = true;
}

PRIVATE inline routerd_record *post_deliver(pump *p, worker_link *k, uint32_t block, uint64_t peer, uint8_t priority,
                                            uint64_t length, uint8_t flags)
{
    routerd_record *r = post_link(p, A_DELIVER, k);
    r->flags = flags;
    r->priority = priority;
    r->block = block;
    r->peer = peer;
    r->length = length;
    r->time = p->now_ns;
    stats_add(p->stats, N_DELIVERIES_IN, 1);
    return r;
}

static routerd_record *post_in_update(pump *p, worker_link *k, const in_delivery *s)
{
    routerd_record *r = post_link(p, A_UPDATE, k);
    r->delivery = s->core;
    r->peer = pool_handle(&p->ins, s);
    r->flags = F_IN;
    return r;
}

/* Posts the sender's state of an unsettled delivery, which a transfer may also carry (AMQP 1.0 part 2.7.5). */
PRIVATE inline routerd_record *post_said(pump *p, worker_link *k, const in_delivery *s, delivery *d)
{
    routerd_record *r = post_in_update(p, k, s);
    disposition_read(p, d, r);
    delivery_clear(d);
    return r;
}

/* Reports a state of the sender's that settles nothing, if it has not said too many, and if there is a block for it. */
__attribute__((noinline)) PRIVATE void intake_said(pump *p, worker_link *k, const in_delivery *s, delivery *d)
{
    uint32_t block = said_full(k->session->connection) ? ROUTERD_NIL : state_lend(p, d);
    delivery_clear(d);
    if (block != ROUTERD_NIL) state_name(p, d->state_code, block, post_in_update(p, k, s));
}

/* Writes the flow extract of a chain that is about to be posted; returns the flag for its record. */
PRIVATE inline uint8_t extract_chain(const pump *p, uint32_t head, uint64_t size, bool complete,
                                     const scan_found *found)
{
    if (__builtin_expect(!p->extracts, 1)) return 0;
    arena_content *c = arena_content_of(&p->arena.view, head);
    uint32_t first = arena_capacity(&p->arena.view, head, true);
    extract_read(&c->extract, (const uint8_t *) (c + 1), size < first ? size : first, complete && size <= first, found,
                 p->extracts);
    return F_EXTRACT;
}

/* Extracts from a message that is whole in its block. For most messages the extract fits into the record
 * (extract_post), because fetching a cache line of the message would cost the core more than all else that it does for
 * the flow log. */
PRIVATE inline uint8_t extract_whole(const pump *p, const worker_link *k, arena_content *c, uint64_t size,
                                     const scan_found *found, content_extract *d)
{
    if (__builtin_expect(!p->extracts, 1)) return 0;
    extract_read(d, (const uint8_t *) (c + 1), size, true, found, p->extracts);
    if (__builtin_expect(!(k->to_table || d->trace | d->transaction | d->onward | d->back), 1)) return F_BRIEF;
    c->extract = *d;
    return F_EXTRACT;
}

PRIVATE inline void extract_post(const content_extract *d, routerd_record *r)
{
    r->delivery = d->message;
    r->credit = d->body;
    r->extra = d->delivery_count;
}
