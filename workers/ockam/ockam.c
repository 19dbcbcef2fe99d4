/* Connections of Ockam nodes: framed.c reads frames from their sockets, passes them through route workers, and posts
 * them to the core.
 *
 *   frame   arriving ──all of it is in the buffer──▶ whole ──refused──▶ counted, logged now and then, gone
 *                                                      └──workers passed──▶ begun in blocks, posted
 *                                                         ──its rest, from the buffer──▶ complete
 *
 * A whole frame is held, because its tracing context comes last but precedes the payload in a message. The transport
 * cannot report a refusal to the sender. A malformed frame ends its connection; a refused one does not.
 *
 * A connection has one incoming link, `other`, and one out of its own address, `back`. What comes in has that address
 * in front of its return route, so a reply comes back here. The first address of its onward route is a worker's that
 * lists this uplink, or one that the listener or connector lists; nothing else can be reached.
 */
#include <stdlib.h>
#include <string.h>

#include "workers/ockam/ockam.h"
#include "workers/amqp/amqp.h"
#include "workers/ockam/frame.h"
#include "workers/transport/transport.h"

#define OCKAM_FRONT_BLOCKS 5u          /* large blocks that what stands in front of the rest may need */
#define OCKAM_FIRST (2 * ARENA_LARGE_BYTES)    /* octets of the rest that are written with it */

typedef struct { route_stop stop; bool prefix; } ockam_reach;

PRIVATE inline const ockam_terms *ockam_terms_of(const pump *p, const worker_connection *c)
{
    return (const ockam_terms *) (const void *) p->listeners[c->listener].framed;
}

static bool ockam_reaches(const ockam_terms *t, const route_stop *s)
{
    const uint8_t *at = t->reach;
    for (uint32_t i = 0; i < t->reach_count; i++) {
        uint16_t length = (uint16_t) (at[2] | at[3] << 8);
        if (*at == s->type && (at[1] ? s->length >= length : s->length == length) && !memcmp(at + 4, s->at, length))
            return true;
        at += 4 + length;
    }
    return false;
}

/* ---- through the workers ---- */

/* Takes what ockam_read() has read through route workers, as route_take() does for AMQP messages. */
static enum route_result ockam_take(route_engine *e, const ockam_terms *t)
{
    route_run *r = &e->run;
    const route_stop *first = path_first(&e->level[0].onward);
    if (!route_find(r->table, first) && !ockam_reaches(t, first))
        return route_refuse(r, ROUTE_ACCESS, first,
                            "nothing is sent here from outside; list it in reach of the listener or "
                            "connector, or a worker that allows this uplink");
    enum route_result done = route_chain(r, e->scope);
    if (done != ROUTE_DONE) return done;
    if (!route_tails(r)) return route_refuse(r, ROUTE_LONG_MESSAGE, NULL, "the router is out of memory");
    e->anew = true;
    route_copies(e);
    return ROUTE_DONE;
}

/* Counts and logs a refused message. */
static enum framed_step ockam_refused(pump *p, worker_connection *c)
{
    route_engine *e = p->routes;
    stats_add(p->stats, N_OCKAM_REFUSED, 1);
    stats_add(p->stats, route_counter_of(e->run.reason), 1);
    if (intake_complains(p, route_why[e->run.reason]))
        p->on_event(p->self, EV_MESSAGE_REFUSED, c, NULL, e->run.detail, NULL);
    route_counted(p);
    route_engine_clean(e);
    return FRAMED_ON;
}

/* Writes the beginning of a frame's message, and `here` octets of its rest, into blocks.  False: it is refused. */
static bool ockam_begin(pump *p, worker_link *k, const uint8_t *at, uint64_t here, arena_writer *w, scan_found *found)
{
    route_engine *e = p->routes;
    const scan_found none = { .message_annotations = SCAN_ABSENT };
    if (e->run.copies || e->run.copies_lost) route_post_copies(p, k, at, &none);
    if (!route_compose(e, &e->run, at, &none) || e->out.used > OCKAM_FRONT_BLOCKS * (ARENA_LARGE_BYTES / 2)) {
        route_refuse(&e->run, ROUTE_LONG_MESSAGE, NULL, "what its routes and wrappers make is too long");
        return false;
    }
    enum arena_class class = arena_class_for(e->out.used + here);
    if (!chain_begin(&p->arena, w, class)) {
        route_refuse(&e->run, ROUTE_LONG_MESSAGE, NULL, "the router has no memory for it now");
        return false;
    }
    note_link(p, k, w->head);
    bool there = chain_write(&p->arena, w, class, out_start(&e->out), e->out.used)
                 && chain_write(&p->arena, w, class, e->run.rest, here);
    enum scan_result result = there ? route_rescan(p, w->head, w->written, here == e->run.rest_size, found) : SCAN_MORE;
    if (result == SCAN_DONE) return true;
    if (result == SCAN_BAD) route_wrong(&e->run, found->why ? found->why : "what was wrapped is no message");
    else
        route_refuse(&e->run, ROUTE_LONG_MESSAGE, NULL,
                     "the properties of what was wrapped are too long, or the router has no memory for it now");
    route_forget(p, arena_content_of(&p->arena.view, w->head));
    arena_free_chain(&p->arena, w->head);
    return false;
}

/* Keeps the rest of a frame's message at the front of the buffer, in place of the frame's `frame` octets. */
static void ockam_keep(framed_connection *x, uint32_t frame, const uint8_t *rest, uint64_t left)
{
    uint8_t *at = x->in + x->first;
    if (!left) { x->first += frame; return; }
    if (rest < at || rest + left > at + frame) {
        memmove(at, rest, left);                                /* a worker has put it together elsewhere */
        rest = at;
    }
    x->skip = (uint64_t) (at + frame - (rest + left));
    x->first = (uint32_t) (rest - x->in);
    x->left = left;
}

/* Posts a message that route workers have passed. */
static enum framed_step ockam_post(pump *p, worker_connection *c, const uint8_t *at, uint32_t frame)
{
    framed_connection *x = c->framed;
    worker_link *k = x->other;
    route_engine *e = p->routes;
    uint64_t here = e->run.rest_size < OCKAM_FIRST ? e->run.rest_size : OCKAM_FIRST, left = e->run.rest_size - here;
    const uint32_t before[2] = { p->arena.free_count[0], p->arena.free_count[1] };
    arena_writer w;
    scan_found found;
    in_delivery *s = left <= frame ? framed_in(p, k) : NULL;
    if (!s) route_refuse(&e->run, ROUTE_LONG_MESSAGE, NULL, "the router has no room for another delivery");
    if (!s || !ockam_begin(p, k, at, here, &w, &found)) {
        if (s) in_delivery_free(p, s);
        kept_change(p, k, before);
        x->first += frame;
        return ockam_refused(p, c);
    }
    kept_change(p, k, before);
    arena_content *content = arena_content_of(&p->arena.view, w.head);
    content_header_fill(content, &found);
    content_header_route(p, content, (uint32_t) e->first.offset, e->first.length);
    s->writer = w;
    s->posted = true;
    s->complete = s->whole = !left;
    chain_publish(&p->arena, &s->writer, left ? CONTENT_RECEIVING : CONTENT_COMPLETE);
    message_log(p, k, &p->arena.view, w.head, false);
    uint8_t flags = (uint8_t) ((left ? 0 : F_COMPLETE) | extract_chain(p, w.head, w.written, !left, &found));
    routerd_record *r = post_deliver(p, k, w.head, pool_handle(&p->ins, s), found.priority, w.written, flags);
    r->state = DELIVER_OF_WORKER;
    k->credit--;
    if (left) { x->into = k; k->current = s; }
    ockam_keep(x, frame, e->run.rest + here, left);
    route_counted(p);
    route_engine_clean(e);
    return FRAMED_ON;
}

/* ---- frames ---- */

/* A buffer for the frame at its front, as far as it has come: what it claims to be long is no reason to have memory for
 * it. */
static enum framed_step ockam_more(pump *p, worker_connection *c, uint64_t frame)
{
    framed_connection *x = c->framed;
    uint64_t there = x->end - x->first, room = frame + FRAMED_READ_MIN;
    if (there + FRAMED_READ_MIN <= x->room || x->room >= room) return FRAMED_MORE;
    if (!long_lend(p, c, FRAMED_IN, frame)) return FRAMED_WAIT;
    if (room > 2 * (uint64_t) x->room) room = 2 * (uint64_t) x->room;
    uint8_t *in = (uint8_t *) realloc(x->in, room);
    if (!in) { framed_close(p, c, "out of memory"); return FRAMED_WAIT; }
    x->in = in;
    x->room = (uint32_t) room;
    return FRAMED_MORE;
}

static enum framed_step ockam_frame(pump *p, worker_connection *c, const uint8_t *at, uint32_t width, uint32_t length)
{
    framed_connection *x = c->framed;
    route_engine *e = p->routes;
    const ockam_terms *t = ockam_terms_of(p, c);
    const route_stop own = { x->name, x->name_length, x->name_type };
    stats_add(p->stats, N_OCKAM_FRAMES_IN, 1);
    if (__builtin_expect(c->tracer != NULL, 0)) {
        trace_frame(c, &(frame_seen) { .length = width + length, .head_length = width, .payload_length = length,
                                       .head = at, .payload = at + width });
    }
    if (!e || !route_sender_known(p, x->other)) {
        x->first += width + length;
        stats_add(p->stats, N_OCKAM_REFUSED, 1);
        return FRAMED_ON;
    }
    enum route_result done = ockam_read(e, x->other->sender, t->framing, at + width, length, &own);
    if (done == ROUTE_PASS) {
        stats_add(p->stats, N_OCKAM_HEARTBEATS, 1);
    } else if (done == ROUTE_REFUSED && e->run.reason == ROUTE_BAD_ENCODING) {
        if (intake_complains(p, route_why[ROUTE_BAD_ENCODING]))
            p->on_event(p->self, EV_MESSAGE_REFUSED, c, NULL, e->run.detail, NULL);
        framed_malformed(p, c, N_OCKAM_BAD_FRAME, "a frame is malformed");
        route_engine_clean(e);
        return FRAMED_WAIT;
    } else if (done == ROUTE_DONE && (done = ockam_take(e, t)) == ROUTE_DONE) {
        return ockam_post(p, c, at + width, width + length);
    }
    x->first += width + length;
    if (done == ROUTE_REFUSED) return ockam_refused(p, c);
    route_engine_clean(e);
    return FRAMED_ON;
}

/* Takes the frame at the front of the buffer. */
PRIVATE inline enum framed_step ockam_next(pump *p, worker_connection *c)
{
    framed_connection *x = c->framed;
    const ockam_terms *t = ockam_terms_of(p, c);
    const uint8_t *at = x->in + x->first;
    uint32_t there = x->end - x->first, width = ockam_width(t->framing);
    if (t->framing == OCKAM_CBOR && !x->greeted) {
        if (!there) return FRAMED_MORE;
        if (*at != OCKAM_VERSION) {
            framed_malformed(p, c, N_OCKAM_BAD_FRAME,
                             "its first octet is not 01, the version of Ockam's transport since June 2024");
            return FRAMED_WAIT;
        }
        x->greeted = true;
        x->first++;
        return FRAMED_ON;
    }
    if (there < width) return FRAMED_MORE;
    uint32_t length = ockam_length(t->framing, at);
    if (length > t->framed.most) {
        framed_malformed(p, c, N_OCKAM_BAD_LENGTH, "a frame is longer than maxFrameSize allows");
        return FRAMED_WAIT;
    }
    if (there < width + length) return ockam_more(p, c, (uint64_t) width + length);
    return framed_may(p, x->other) ? ockam_frame(p, c, at, width, length) : FRAMED_WAIT;
}
