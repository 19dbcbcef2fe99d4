/* Messages to Ockam nodes as frames: the protocol's part of framed/out.c.
 *
 * The first address of the onward route is the connection's own, and is removed; the other side prepends its own to the
 * return route. The payload is the data of the body. Properties, metadata and the count of route workers are dropped:
 * Ockam's messages have no place for them.
 */
#include <stdlib.h>
#include <string.h>

#include "workers/ockam/ockam.h"
#include "workers/ockam/frame.h"

typedef struct {                       /* what ockam_make leaves for ockam_put_frame */
    route_run run;
    route_level level;
    uint8_t head[FRAMED_HEAD_MAX / 2], tail[FRAMED_HEAD_MAX / 2];
} ockam_made;

/* Reads the routes in the annotations into `made`; returns why that fails, or NULL. */
static const char *ockam_routes(ockam_made *made, const framed_connection *x, const uint8_t *start,
                                const scan_found *found)
{
    route_given given = { .seen = 0 };
    route_level *l = &made->level;
    const route_stop own = { x->name, x->name_length, x->name_type };
    amqp_cursor items;
    uint32_t count;
    if (found->message_annotations == SCAN_ABSENT) return "it has no onward route";
    amqp_value map = scan_whole_value(start, found->message_annotations, found->annotations_end);
    if (!amqp_map(map, &items, &count) || route_read_map(&made->run, l, items.at,
                                                         (uint32_t) (items.end - items.at), count, &given)
                                                         == ROUTE_REFUSED)
        return "its annotations are malformed";
    if (!given.onward || !l->onward.count) return "it has no onward route";
    if (!route_same(path_first(&l->onward), &own))
        return "its onward route does not begin with the address of this connection";
    path_pop(&l->onward);
    return l->onward.count ? NULL : "its onward route ends at this connection";
}

static const char *ockam_body(ockam_made *made, const framed_message *m, uint32_t from, framed_frame *f, bool *pieces)
{
    route_run *r = &made->run;
    const uint8_t *start = m->start, *at = start + from, *end = start + m->size;
    r->complete = m->size == m->length;
    switch (body_begin(r, &at, end, false)) {
    case ROUTE_MORE: *pieces = true; return NULL;
    case ROUTE_DONE: break;
    default: return "its body is no data";
    }
    const uint8_t *value = at + 3;
    uint32_t descriptor = 0;
    if (scan_descriptor(at, end, &descriptor)) value = at + descriptor;
    size_t data = value < end && amqp_is_binary(*value) ? amqp_size(value, end, 0) : 0;
    if (data && (uint64_t) (value - start) + data == m->length) {
        f->payload = (uint32_t) (value - start) + amqp_head(*value);
        f->payload_length = (uint32_t) data - amqp_head(*value);
        return NULL;
    }
    if (!m->whole) { *pieces = true; return NULL; }
    route_sections s;
    memset(&s, 0, sizeof s);
    int64_t joined = sections_take(&s, at, (size_t) (end - at), m->whole + (at - start));
    if (joined < 0 || !sections_over(&s)) return "its body is no data";
    f->payload = (uint32_t) (at - start);
    f->payload_length = (uint32_t) joined;
    return NULL;
}

static enum framed_made ockam_make(pump *p, worker_connection *c, out_delivery *o, const framed_message *m,
                                   framed_frame *f)
{
    const ockam_terms *t = ockam_terms_of(p, c);
    ockam_made *made = (ockam_made *) framed_made_last(p);
    scan_found found;
    bool pieces = false;
    (void) o;
    f->why = "source routes are not configured any more";
    if (!p->routes) return FRAMED_UNFIT;
    made->run.table = p->routes->table;
    enum scan_result result = scan_message(m->start, m->size, m->size == m->length, &found);
    if (result == SCAN_MORE && !m->whole) return FRAMED_PIECES;
    f->why = result != SCAN_DONE ? "it is no message" : ockam_routes(made, c->framed, m->start, &found);
    if (!f->why) f->why = ockam_body(made, m, found.annotations_end, f, &pieces);
    if (pieces) return FRAMED_PIECES;
    if (f->why) return FRAMED_UNFIT;
    f->tail = ockam_tail(&made->level, t->framing, made->tail, sizeof made->tail);
    f->head = ockam_head(&made->level, t->framing, f->payload_length, f->tail, made->head,
                         sizeof made->head);
    if (!f->head) f->why = "its routes are too long for a frame";
    else if ((uint64_t) f->head + f->payload_length + f->tail > (uint64_t) t->framed.most + ockam_width(t->framing))
        f->why = framed_long;
    return f->why ? FRAMED_UNFIT : FRAMED_MADE;
}

static void ockam_put_frame(pump *p, worker_connection *c, out_delivery *o, const framed_frame *f, uint8_t *to)
{
    const ockam_made *made = (const ockam_made *) framed_made_last(p);
    (void) c, (void) o;
    memcpy(to, made->head, f->head);
    memcpy(to + f->head, made->tail, f->tail);
}

/* Sends the version that each side of a connection sends first. */
GLUE void ockam_greet(pump *p, worker_connection *c)
{
    framed_connection *x = c->framed;
    if (ockam_terms_of(p, c)->framing != OCKAM_CBOR || !(x->rest = (uint8_t *) malloc(1))) return;
    *x->rest = OCKAM_VERSION;
    x->rest_first = 0;
    x->rest_size = 1;
    x->rest_of = 0;
    mark_dirty(p, c);
}

GLUE const framed_protocol ockam_protocol = {
    .number = 1, .frames_in = N_OCKAM_FRAMES_IN, .frames_out = N_OCKAM_FRAMES_OUT, .undelivered = N_OCKAM_UNDELIVERED,
    .unfit = N_OCKAM_UNFIT, .unfit_name = "amqp:not-implemented", .next = ockam_next, .make = ockam_make,
    .put = ockam_put_frame, .made_size = sizeof(ockam_made),
};
