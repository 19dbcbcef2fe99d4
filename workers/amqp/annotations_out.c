/* The beginning of an outgoing message whose router annotations differ from those in its blocks.
 *
 *   in the blocks: [section] [header, delivery-annotations] [message-annotations: the user's | routers'] [the rest ...]
 *   written here:   [section] [header, delivery-annotations] [message-annotations: the user's | routers']
 *
 * Unchanged parts are copied octet for octet; the rest, which includes the body, is sent from the blocks as usual.
 * Another process has written the content header, so every place in it is checked against the published length.
 */
#include <string.h>

#include "workers/amqp/annotations.h"

typedef struct {                           /* the annotations that are written, and their lengths in bytes */
    bool to;                               /* there is an override */
    bool ingress, old_trace;               /* the received ingress, or trace, is kept */
    uint32_t to_length, ingress_length;
    uint32_t trace, trace_count;           /* bytes and number of the trace's entries, with our own */
    const uint8_t *narrow;                 /* the received entries in short strings only; NULL: they stay as they are */
    uint32_t narrow_length;
} annotations_plan;

/* Rewrites a trace's long strings as short ones, in place. */
static uint32_t trace_narrow(annotations_writer *w, uint8_t *trace)
{
    amqp_cursor entries = { trace, trace + w->content.trace_length };
    uint8_t *to = trace;
    for (uint32_t i = 0; i < w->content.trace_count; i++) {
        amqp_value entry = amqp_next(&entries);
        amqp_octets id = amqp_string(entry);
        if (!id.at || id.size > ANNOTATIONS_ID_MAX) { w->broken = true; return 0; }
        memmove(to + 2, id.at, id.size);                   /* `to` is never ahead of `entry` */
        to = amqp_put_head(to, AMQP_STRING8, id.size) + id.size;
    }
    return (uint32_t) (to - trace);
}

/* `scratch`: room for a trace. */
static annotations_plan annotations_plan_for(annotations_writer *w, const annotations_wanted *want, uint8_t *scratch)
{
    const arena_content *c = &w->content;
    bool came = c->annotations != ANNOTATIONS_NONE && !want->afresh;
    annotations_plan plan = { .to = want->to || (c->routed & ROUTED_OVERRIDE), .ingress = came && c->ingress_length,
                              .old_trace = came && c->trace_count };
    plan.to_length = !plan.to ? 0 : want->to ? want->to_length : c->to_length;
    plan.ingress_length = plan.ingress ? c->ingress_length : want->self->length;
    plan.trace = 2 + want->self->length;
    plan.trace_count = 1;
    if (!plan.old_trace) return plan;
    plan.trace_count += c->trace_count;
    plan.narrow_length = c->trace_length;
    if (want->form == ANNOTATIONS_SECTION && c->annotations != ANNOTATIONS_SECTION) {
        message_copy(w, c->trace, c->trace_length, scratch);
        if (!w->broken) plan.narrow_length = trace_narrow(w, scratch);
        plan.narrow = scratch;
    }
    plan.trace += plan.narrow_length;
    return plan;
}

static void put_ingress(annotations_writer *w, const annotations_wanted *want, const annotations_plan *plan)
{
    put_string_head(w, plan->ingress_length);
    if (plan->ingress) put_range(w, w->content.ingress, plan->ingress_length);
    else put_bytes(w, want->self->id, want->self->length);
}

/* Writes the entries of the trace: the received ones, then this router. */
static void put_trace(annotations_writer *w, const annotations_wanted *want, const annotations_plan *plan)
{
    if (plan->narrow) put_bytes(w, plan->narrow, plan->narrow_length);
    else if (plan->old_trace) put_range(w, w->content.trace, w->content.trace_length);
    put_string_head(w, want->self->length);
    put_bytes(w, want->self->id, want->self->length);
}

static void put_override(annotations_writer *w, const annotations_wanted *want, const annotations_plan *plan)
{
    if (want->to) put_bytes(w, want->to, want->to_length);
    else put_address(w, plan->to_length);
}

/* ---- sections ---- */

/* Writes routerd's own form: short strings except for the override, and the shortest lists. */
static void put_section(annotations_writer *w, const annotations_wanted *want, const annotations_plan *plan)
{
    const arena_content *c = &w->content;
    bool same = c->annotations == ANNOTATIONS_SECTION, signs = want->self->length;
    uint32_t to = plan->to ? 5 + plan->to_length : 1, ingress = signs ? 2 + plan->ingress_length : 2;
    uint32_t trace = signs ? amqp_items_size(plan->trace, plan->trace_count) : 1, tail = same ? c->tail_length : 0;
    bool phase = want->phase && want->phase <= 9;
    put_bytes(w, scan_section_ours, SCAN_ROUTERS_DESCRIPTOR);
    put_shortest_items_head(w, AMQP_LIST8, 2 + to + ingress + trace + (phase ? ANNOTATIONS_PHASE_BYTES : 0) + tail,
                            4 + phase + (same ? c->tail_count : 0));
    put_value(w, AMQP_UBYTE, (same ? c->section_flags : 0) | (want->stream ? ANNOTATIONS_STREAMING : 0));
    if (plan->to) {
        put_to(w, amqp_put_head(put_room(w, AMQP_HEAD_MAX), AMQP_STRING32, plan->to_length));
        put_override(w, want, plan);
    }
    else put_value(w, AMQP_NULL, 0);
    if (signs) {
        put_ingress(w, want, plan);
        put_shortest_items_head(w, AMQP_LIST8, plan->trace, plan->trace_count);
        put_trace(w, want, plan);
    } else {
        put_string_head(w, 0);                             /* both are mandatory: no name, no entry */
        put_value(w, AMQP_LIST0, 0);
    }
    if (phase) {
        put_bytes(w, annotations_section_phase, ANNOTATIONS_PHASE_BYTES - 1);
        put_bytes(w, &(uint8_t) { (uint8_t) ('0' + want->phase) }, 1);
    }
    if (tail) put_range(w, c->tail, tail);
}

/* Writes skupper-router's form: long lists, the shortest numbers and strings. */
static void put_skupper(annotations_writer *w, const annotations_wanted *want, const annotations_plan *plan)
{
    const arena_content *c = &w->content;
    bool same = c->annotations == ANNOTATIONS_SKUPPER, signs = want->self->length;
    uint32_t flags = (same ? c->section_flags : 0) | (want->stream ? ANNOTATIONS_STREAMING : 0),
        tail = same ? c->tail_length : 0;
    uint32_t size = flags > 255 ? 5 : flags ? 2 : 1;
    size += plan->to ? amqp_octets_size(plan->to_length) : 1;
    size += signs ? amqp_octets_size(plan->ingress_length) + 9 + plan->trace : 2;
    put_bytes(w, scan_section_skupper, SCAN_ROUTERS_DESCRIPTOR);
    put_items_head(w, AMQP_LIST32, size + tail, 4 + (same ? c->tail_count : 0));
    put_value(w, flags > 255 ? AMQP_UINT : flags ? AMQP_SMALLUINT : AMQP_UINT0, flags);
    if (plan->to) { put_string_head(w, plan->to_length); put_override(w, want, plan); }
    else put_value(w, AMQP_NULL, 0);
    if (signs) {
        put_ingress(w, want, plan);
        put_items_head(w, AMQP_LIST32, plan->trace, plan->trace_count);
        put_trace(w, want, plan);
    } else {
        put_value(w, AMQP_NULL, 0);
        put_value(w, AMQP_LIST0, 0);
    }
    if (tail) put_range(w, c->tail, tail);
}

/* ---- message-annotations ---- */

static void put_key(annotations_writer *w, const char *key, uint8_t length)
{
    put_to(w, amqp_put_octets(put_room(w, 2u + length), AMQP_SYMBOL8, key, length));
}

/* Returns the number of values in router entries, keys included (0: there are none), and their length. */
static uint32_t map_count(const annotations_wanted *want, const annotations_plan *plan, uint32_t *size)
{
    bool signs = want->self->length;
    *size = (want->phase ? 16 + 2u : 0) + (want->stream ? 17 + 2u : 0)
            + (plan->to ? 13 + amqp_octets_size(plan->to_length) : 0);
    if (signs)
        *size += 18 + amqp_octets_size(plan->ingress_length) + 16 + amqp_items_size(plan->trace, plan->trace_count);
    return 2u * ((want->phase > 0) + want->stream + plan->to + 2u * signs);
}

static void put_keys(annotations_writer *w, const annotations_wanted *want, const annotations_plan *plan)
{
    if (want->phase) { put_key(w, "x-opt-qd.phase", 14); put_value(w, AMQP_SMALLINT, want->phase); }
    if (want->stream) { put_key(w, "x-opt-qd.stream", 15); put_value(w, AMQP_SMALLINT, 1); }
    if (plan->to) { put_key(w, "x-opt-qd.to", 11); put_string_head(w, plan->to_length); put_override(w, want, plan); }
    if (!want->self->length) return;
    put_key(w, "x-opt-qd.ingress", 16);
    put_ingress(w, want, plan);
    put_key(w, "x-opt-qd.trace", 14);
    put_shortest_items_head(w, AMQP_LIST8, plan->trace, plan->trace_count);
    put_trace(w, want, plan);
}

/* Writes header and delivery-annotations as they are, then message-annotations: the user's first, unchanged. */
static void put_map(annotations_writer *w, const annotations_wanted *want, const annotations_plan *plan, uint32_t keys,
                    uint32_t size)
{
    const arena_content *c = &w->content;
    bool there = c->message_annotations != ARENA_NO_OFFSET;
    uint32_t before = there ? c->message_annotations : c->annotations_end,
        users = there ? c->user_to - c->user_from : 0;
    uint32_t count = (there ? c->user_count : 0) + keys;
    /* the message is nothing else, and an empty one is none */
    bool alone = before == c->section_end && c->annotations_end == w->length;
    put_range(w, c->section_end, before - c->section_end);
    if (!count && !alone) return;
    put_to(w, amqp_put_descriptor(put_room(w, AMQP_HEAD_MAX), SECTION_MESSAGE_ANNOTATIONS));
    put_shortest_items_head(w, AMQP_MAP8, users + size, count);
    if (users) put_range(w, c->user_from, users);
    if (keys) put_keys(w, want, plan);
}

/* ---- the message ---- */

static bool content_plausible(const arena_content *c, uint64_t length)
{
    bool there = c->message_annotations != ARENA_NO_OFFSET;
    if (c->annotations_end > length || c->annotations_end > ANNOTATIONS_END_MAX || c->section_end > c->annotations_end)
        return false;
    if (there && (c->message_annotations < c->section_end || c->user_from < c->message_annotations
                  || c->user_to < c->user_from
                  || c->user_to > c->annotations_end)) return false;
    if (c->routed & ROUTED_OVERRIDE && c->to_length > ANNOTATIONS_TO_MAX) return false;
    if (c->annotations == ANNOTATIONS_NONE) return true;
    return c->ingress_length <= ANNOTATIONS_ID_MAX && c->trace_length <= ANNOTATIONS_TRACE_BYTES
           && c->trace_count <= ANNOTATIONS_TRACE_MAX
        && c->tail_length <= c->section_end;
}

/* Writes the beginning; returns where the rest of the message starts. ANNOTATIONS_BROKEN: the content header is wrong,
 * and what was written is no part of a message. */
PRIVATE inline uint32_t annotations_write(annotations_writer *w, const annotations_wanted *want)
{
    const arena_content *c = &w->content;
    uint8_t scratch[ANNOTATIONS_TRACE_BYTES];
    if (!content_plausible(c, w->length)) return ANNOTATIONS_BROKEN;
    annotations_plan plan = { .to = false };
    uint32_t keys = 0, size = 0;
    /* router keys have come */
    bool rewrite = c->message_annotations != ARENA_NO_OFFSET && c->user_to != c->annotations_end;
    if (want->form != ANNOTATIONS_NONE) plan = annotations_plan_for(w, want, scratch);
    if (w->broken) return ANNOTATIONS_BROKEN;
    if (want->form == ANNOTATIONS_SECTION) put_section(w, want, &plan);
    else if (want->form == ANNOTATIONS_SKUPPER) put_skupper(w, want, &plan);
    else if (want->form == ANNOTATIONS_MAP) keys = map_count(want, &plan, &size);
    rewrite |= keys > 0;
    if (rewrite) put_map(w, want, &plan, keys, size);
    annotations_flush(w);
    if (w->broken) return ANNOTATIONS_BROKEN;
    return rewrite ? c->annotations_end : c->section_end;
}
