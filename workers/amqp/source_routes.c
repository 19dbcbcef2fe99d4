/* Source routes between the pump and the core: an arriving message is taken through the workers before it is posted. */
#include <stdlib.h>
#include <string.h>

#include "workers/amqp/amqp.h"
#include "workers/amqp/annotations.h"

GLUE const char route_broken[] = "the encoding is wrong: the rest of a wrapped message is no data";

PRIVATE inline uint32_t route_counter_of(uint8_t reason)
{
    switch (reason) {
    case ROUTE_BAD_ANNOTATION: case ROUTE_BAD_ENCODING: return N_ROUTE_REFUSED_DECODE;
    case ROUTE_TOO_MANY_HOPS: return N_ROUTE_REFUSED_HOPS;
    case ROUTE_LONG_ONWARD: case ROUTE_LONG_RETURN: case ROUTE_LONG_ADDRESS: case ROUTE_LONG_ROUTE:
        return N_ROUTE_REFUSED_LENGTH;
    case ROUTE_NESTING: return N_ROUTE_REFUSED_NESTING;
    case ROUTE_METADATA: return N_ROUTE_REFUSED_METADATA;
    case ROUTE_LONG_MESSAGE: return N_ROUTE_REFUSED_SIZE;
    case ROUTE_ACCESS: return N_ROUTE_REFUSED_ACCESS;
    case ROUTE_NOT_IMPLEMENTED: return N_ROUTE_REFUSED_FORM;
    case ROUTE_TRANSFORM_FAILED: return N_ROUTE_REFUSED_TRANSFORM;
    case ROUTE_UNUSABLE_RETURN: return N_ROUTE_REFUSED_REPLY;
    default: return N_ROUTE_REFUSED_ROUTE;
    }
}

PRIVATE inline void route_counted(pump *p)
{
    route_engine *e = p->routes;
    route_count(e);
    if (!e->visit_count) return;
    stats_add(p->stats, N_ROUTE_MESSAGES, 1);
    stats_add(p->stats, N_ROUTE_STEPS, e->visit_count);
}

/* Whether route workers may serve messages of this link; asks Python once for each table who its sender is. */
PRIVATE inline bool route_sender_known(pump *p, worker_link *k)
{
    route_sender *s = k->sender;
    if (__builtin_expect(!s, 0) && !(s = k->sender = (route_sender *) calloc(1, sizeof *s))) return false;
    if (__builtin_expect(s->epoch != p->routes->epoch, 0)) {
        s->off = true;
        s->epoch = p->routes->epoch;
        p->on_event(p->self, EV_ROUTE_SENDER, k->conn, k, NULL, NULL);
    }
    return !s->off;
}

/* Refuses a message of a route worker with the condition and description of the run. */
static enum scan_result route_rejected(pump *p, scan_found *found)
{
    const route_run *r = &p->routes->run;
    stats_add(p->stats, route_counter_of(r->reason), 1);
    found->condition = route_condition[r->reason];
    route_counted(p);
    route_engine_clean(p->routes);
    return scan_bad(found, r->detail);
}

static enum scan_result route_no_room(pump *p, scan_found *found)
{
    p->routes->visit_count = 0;
    route_refuse(&p->routes->run, ROUTE_LONG_MESSAGE, NULL, "the router has no memory for it now");
    return route_rejected(p, found);
}

/* Writes the composed beginning and the rest into a new chain.  False: there is no room. */
static bool route_chain_new(pump *p, const worker_link *k, const route_run *r, arena_writer *w)
{
    const route_out *o = &p->routes->out;
    enum arena_class class = arena_class_for(o->used + r->rest_size);
    if (!blocks_left(p) || !chain_begin(&p->arena, w, class)) return false;
    if (chain_write(&p->arena, w, class, out_start(o), o->used)
        && chain_write(&p->arena, w, class, r->rest, r->rest_size)) {
        note_link(p, k, w->head);
        return true;
    }
    arena_free_chain(&p->arena, w->head);
    return false;
}

/* Frees a chain in whose place another has come, with what its message has become. */
static void route_replace(pump *p, uint32_t head, uint32_t by)
{
    arena_at(&p->arena.view, by)->format = arena_at(&p->arena.view, head)->format;
    arena_free_chain(&p->arena, head);
}

/* Clears what the scan of a chain's message has found, before the message is scanned again. */
PRIVATE inline void route_forget(pump *p, arena_content *c)
{
    if (c->key_block != ROUTERD_NIL) arena_free_one(&p->arena, c->key_block);
    content_reset(c);
}

/* Scans the new beginning of a chain as far as it has arrived.  MORE: what the core looks at has not. */
PRIVATE inline enum scan_result route_rescan(pump *p, uint32_t head, uint64_t size, bool complete, scan_found *found)
{
    const arena_view *v = &p->arena.view;
    arena_content *c = arena_content_of(v, head);
    uint8_t *bytes = (uint8_t *) c + sizeof *c, *gathered = NULL;
    uint32_t first = arena_capacity(v, head, true);
    bool moved = false;
    route_forget(p, c);
    uint64_t there = size < first ? size : first;
    enum scan_result result = scan_message(bytes, there, complete && size <= first, found);
    if (!complete) result = content_there(bytes, there, result, found);
    if (result == SCAN_MORE && size > first) {
        if (size > SCAN_LIMIT) size = SCAN_LIMIT;
        if (!(gathered = chain_gather(v, head, size))) return scan_bad(found, "the router is out of memory");
        result = scan_message(gathered, size, complete, found);
        if (!complete) result = content_there(gathered, size, result, found);
        if (result == SCAN_MORE && size == SCAN_LIMIT)
            result = scan_bad(found, "annotations and properties are longer than 1 MiB");
    }
    result = annotations_check(c, gathered ? gathered : bytes, found, 0, result, &moved);
    free(gathered);
    return result;
}

/* Sets the message's next address for the core, which prefers it to `to` and to the link's target. */
PRIVATE inline void content_header_route(pump *p, arena_content *c, uint32_t offset, uint32_t length)
{
    if (c->key_block != ROUTERD_NIL) arena_free_one(&p->arena, c->key_block);
    c->key_block = ROUTERD_NIL;
    c->to_offset = offset;
    c->to_length = length;
    c->routed |= ROUTED_OVERRIDE;
}

/* Posts the copies of a tee: each is a settled message of its own that uses no credit. */
PRIVATE inline void route_post_copies(pump *p, worker_link *k, const uint8_t *start, const scan_found *was)
{
    route_engine *e = p->routes;
    stats_add(p->stats, N_ROUTE_COPIES_LOST, e->run.copies_lost);
    for (const route_run *copy = e->run.copies; copy; copy = copy->copies) {
        arena_writer w;
        scan_found found;
        if (!route_compose(e, copy, start, was) || !route_chain_new(p, k, copy, &w)) {
            stats_add(p->stats, N_ROUTE_COPIES_LOST, 1);
            continue;
        }
        arena_content *c = arena_content_of(&p->arena.view, w.head);
        if (route_rescan(p, w.head, w.written, true, &found) != SCAN_DONE) {
            arena_free_chain(&p->arena, w.head);
            stats_add(p->stats, N_ROUTE_COPIES_LOST, 1);
            continue;
        }
        content_header_fill(c, &found);
        content_header_route(p, c, (uint32_t) e->first.offset, e->first.length);
        chain_publish(&p->arena, &w, CONTENT_COMPLETE);
        uint8_t extract = extract_chain(p, w.head, w.written, true, &found);
        routerd_record *r =
            post_deliver(p, k, w.head, 0, found.priority, w.written, (uint8_t) (F_COMPLETE | F_SETTLED | extract));
        r->state = DELIVER_OF_WORKER | DELIVER_COPY;
        stats_add(p->stats, N_ROUTE_COPIES, 1);
    }
}

/* Refuses a message whose unwrapped payload is malformed. */
static enum scan_result route_nonsense(pump *p, scan_found *found)
{
    route_wrong(&p->routes->run, found->why ? found->why : "what was wrapped is no message");
    return route_rejected(p, found);
}

/* Replaces a message's chain by what route workers have made of it. */
static enum scan_result route_rewritten(pump *p, worker_link *k, in_delivery *s, bool complete, const uint8_t *bytes,
                                        const scan_found *was, scan_found *found)
{
    route_engine *e = p->routes;
    const route_run *r = &e->run;
    enum scan_result result = SCAN_DONE;
    s->origin = e->visit_count ? DELIVER_OF_WORKER : DELIVER_OF_LINK;
    if (e->anew) {
        arena_writer w;
        if (r->copies || r->copies_lost) route_post_copies(p, k, bytes, was);
        if (!route_compose(e, r, bytes, was) || !route_chain_new(p, k, r, &w)) return route_no_room(p, found);
        route_replace(p, s->writer.head, w.head);
        s->writer = w;
        chain_publish(&p->arena, &s->writer, complete ? CONTENT_COMPLETE : CONTENT_RECEIVING);
        if (!complete && (r->opened || r->layers)) {
            if (!(s->body = (route_body *) malloc(sizeof *s->body))) return route_no_room(p, found);
            *s->body = (route_body) { .opened = r->opened, .layers = r->layers };
            memcpy(s->body->sections, r->sections, sizeof r->sections);
        }
        result = route_rescan(p, w.head, w.written, complete, found);
        if (result == SCAN_BAD) return route_nonsense(p, found);
    }
    s->to_offset = (uint32_t) e->first.offset;
    s->to_length = e->first.length;
    s->passed = true;
    route_counted(p);
    return result;
}

/* ---- a message in one block ---- */

/* As content_check(), for a whole message in one block; `head` and `size` are those of what it has become. */
PRIVATE inline enum scan_result route_whole(pump *p, worker_link *k, uint32_t *head, size_t *size, scan_found *found,
                                            uint8_t *origin)
{
    route_engine *e = p->routes;
    const arena_view *v = &p->arena.view;
    if (!route_sender_known(p, k)) return SCAN_DONE;
    arena_content *c = arena_content_of(v, *head);
    uint8_t *bytes = (uint8_t *) c + sizeof *c;
    switch (route_take(e, k->sender, c, bytes, *size, true, found)) {
    case ROUTE_PASS: route_engine_clean(e); return SCAN_DONE;
    case ROUTE_DONE: break;
    default: return route_rejected(p, found);
    }
    *origin = e->visit_count ? DELIVER_OF_WORKER : DELIVER_OF_LINK;
    if (!e->anew) return SCAN_DONE;
    bool copies = e->run.copies || e->run.copies_lost;
    if (__builtin_expect(copies, 0)) route_post_copies(p, k, bytes, found);
    if (!route_compose(e, &e->run, bytes, found)) return route_no_room(p, found);
    size_t all = e->out.used + e->run.rest_size;
    if (all <= arena_capacity(v, *head, true)) {
        memmove(bytes + e->out.used, e->run.rest, e->run.rest_size);
        memcpy(bytes, out_start(&e->out), e->out.used);
    } else {
        arena_writer w;
        if (!route_chain_new(p, k, &e->run, &w)) return route_no_room(p, found);
        route_replace(p, *head, w.head);
        *head = w.head;
    }
    *size = all;
    enum scan_result result = route_rescan(p, *head, all, true, found);
    if (result != SCAN_DONE) return route_nonsense(p, found);
    route_counted(p);
    route_engine_clean(e);
    return SCAN_DONE;
}

/* ---- a message that is still arriving, or longer than a block ---- */

/* Takes a scanned message through the workers.  MORE: one of them has to see more of it; DONE: `found` says what it has
 * become, or the same as before. */
PRIVATE inline enum scan_result route_streamed(pump *p, worker_link *k, in_delivery *s, bool complete,
                                               scan_found *found)
{
    route_engine *e = p->routes;
    const arena_view *v = &p->arena.view;
    arena_content *c = arena_content_of(v, s->writer.head);
    uint64_t size = s->writer.written;
    uint8_t *bytes = (uint8_t *) c + sizeof *c, *gathered = NULL;
    enum scan_result result = SCAN_DONE;
    scan_found there = *found;
    if (s->passed || !route_sender_known(p, k)) return SCAN_DONE;
    if (size > arena_capacity(v, s->writer.head, true)) {
        if (!(bytes = gathered = chain_gather(v, s->writer.head, size))) return route_no_room(p, found);
        arena_content now = { .key_block = ROUTERD_NIL };                   /* places in what was gathered */
        bool moved = false;
        annotations_check(&now, bytes, &there, k->conn->trusted, scan_message(bytes, size, complete, &there), &moved);
    }
    switch (route_take(e, k->sender, c, bytes, size, complete, &there)) {
    case ROUTE_PASS: s->passed = true; break;
    case ROUTE_MORE:
        result = SCAN_MORE;
        s->wants_whole = e->run.wants_whole;
        found->need = e->run.need < SCAN_LIMIT ? (uint32_t) e->run.need : SCAN_LIMIT;
        route_forget(p, c);
        break;
    case ROUTE_REFUSED: result = route_rejected(p, found); break;
    case ROUTE_DONE: result = route_rewritten(p, k, s, complete, bytes, &there, found);
    }
    route_engine_clean(e);
    free(gathered);
    return result;
}

/* The next piece of a payload that was opened or wrapped on its way. 1: it is in the chain; 0: nothing came; -1: it
 * is malformed, or there is no room for it. */
PRIVATE inline int route_receive(pump *p, worker_link *k, in_delivery *s, size_t pending)
{
    uint8_t piece[16384], heads[ROUTE_DEPTH * ROUTE_DATA_HEAD];
    ssize_t n = link_recv(k, (uint8_t *) piece, pending < sizeof piece ? pending : sizeof piece);
    if (n <= 0) return 0;
    int64_t left = route_body_take(s->body, piece, (size_t) n);
    if (left < 0) return -1;
    if (!left) return 1;
    uint32_t front = route_body_heads(s->body, (size_t) left, heads);
    return chain_write(&p->arena, &s->writer, ARENA_LARGE, heads, front)
           && chain_write(&p->arena, &s->writer, ARENA_LARGE, piece, (size_t) left) ? 1 : -1;
}
