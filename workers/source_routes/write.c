/* The new beginning of a message that has passed route workers. It is written from its end to its start, because each
 * enclosing value states the length of its content.
 *
 *   [header, delivery-annotations] [message-annotations] { [properties] [data: message-annotations ... } rest
 *
 * `rest` is not read and stays in place.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workers/source_routes/source_routes.h"
#include "shm/codec/utf8.h"
#include "workers/amqp/annotations.h"

/* ---- room ---- */

static uint8_t *out_front(route_out *o, size_t size)
{
    if (o->failed) return NULL;
    if (size > o->room - o->used) {
        size_t room = 2 * (o->room + size);
        uint8_t *bytes = (uint8_t *) malloc(room);
        if (!bytes) { o->failed = true; return NULL; }
        if (o->used) memcpy(bytes + room - o->used, o->bytes + o->room - o->used, o->used);
        free(o->bytes);
        o->bytes = bytes;
        o->room = room;
    }
    o->used += size;
    return o->bytes + o->room - o->used;
}

PRIVATE inline void front_bytes(route_out *o, const void *bytes, size_t size)
{
    uint8_t *to = size ? out_front(o, size) : NULL;
    if (to) memcpy(to, bytes, size);
}

PRIVATE inline const uint8_t *out_start(const route_out *o) { return o->bytes + o->room - o->used; }

static uint8_t *text_room(route_text_out *t, size_t size)
{
    if (t->failed) return NULL;
    if (size > t->room - t->used) {
        size_t room = 2 * (t->room + size);
        uint8_t *bytes = (uint8_t *) realloc(t->bytes, room);
        if (!bytes) { t->failed = true; return NULL; }
        t->bytes = bytes;
        t->room = room;
    }
    t->used += size;
    return t->bytes + t->used - size;
}

static void text_bytes(route_text_out *t, const void *bytes, size_t size)
{
    uint8_t *to = text_room(t, size);
    if (to && size) memcpy(to, bytes, size);
}

/* ---- values ---- */

static void text_symbol(route_text_out *t, const char *name)
{
    uint32_t size = (uint32_t) strlen(name);
    uint8_t *to = text_room(t, amqp_octets_size(size));
    if (to) amqp_put_shortest(to, AMQP_SYMBOL8, name, size);
}

/* A compound with a long head whose size and count are filled in at its end. */
static size_t text_open(route_text_out *t)
{
    text_room(t, AMQP_HEAD_MAX);
    return t->used;
}

static void text_close(route_text_out *t, size_t from, uint8_t code, uint32_t count)
{
    if (!t->failed) amqp_put_items_head(t->bytes + from - AMQP_HEAD_MAX, code, (uint32_t) (t->used - from), count);
}

/* Whether an address can be a string. */
PRIVATE inline bool route_plain(const route_stop *s) { return !s->type && utf8_valid(s->at, s->length); }

static void text_string(route_text_out *t, const uint8_t *at, uint32_t size)
{
    uint8_t *to = text_room(t, amqp_octets_size(size));
    if (to) amqp_put_shortest(to, AMQP_STRING8, at, size);
}

static void text_ubyte(route_text_out *t, uint8_t n)
{
    uint8_t *to = text_room(t, 2);
    if (to) amqp_put(to, AMQP_UBYTE, n);
}

static void text_binary_head(route_text_out *t, uint32_t size)
{
    uint8_t *to = text_room(t, amqp_head(AMQP_BINARY32));
    if (to) amqp_put_head(to, AMQP_BINARY32, size);
}

static void text_stop(route_text_out *t, const route_stop *s)
{
    if (route_plain(s)) { text_string(t, s->at, s->length); return; }
    size_t list = text_open(t);
    text_ubyte(t, s->type);
    text_binary_head(t, s->length);
    text_bytes(t, s->at, s->length);
    text_close(t, list, AMQP_LIST32, 2);
}

static void text_path(route_text_out *t, const char *key, const route_path *w)
{
    text_symbol(t, key);
    size_t list = text_open(t);
    for (uint32_t i = w->count; i-- > 0;) text_stop(t, &w->stop[i]);
    text_close(t, list, AMQP_LIST32, w->count);
}

static void text_octet(route_text_out *t, const char *key, uint16_t n)
{
    text_symbol(t, key);
    text_ubyte(t, (uint8_t) n);
}

static void text_meta(route_text_out *t, const route_level *l)
{
    text_symbol(t, "x-opt-route.meta");
    size_t map = text_open(t);
    for (uint32_t i = 0; i < l->meta_count; i++) {
        const route_meta *m = &l->meta[i];
        text_bytes(t, m->key, m->key_size);
        if (l->trace != i + 1 || !l->added_count) { text_bytes(t, m->value, m->value_size); continue; }
        size_t list = text_open(t);
        text_bytes(t, m->items, m->items_size);
        for (uint32_t j = 0; j < l->added_count; j++) text_string(t, l->added[j]->at, l->added[j]->length);
        text_close(t, list, AMQP_LIST32, m->items_count + l->added_count);
    }
    text_close(t, map, AMQP_MAP32, 2 * l->meta_count);
}

/* What of the annotations is neither ours nor other routers'.  How many values it is. */
static uint32_t text_users(route_text_out *t, const route_level *l)
{
    amqp_cursor items = { l->user, l->user + l->user_size };
    uint32_t kept = 0;
    while (l->user && items.at < items.end) {
        amqp_value key = amqp_next(&items), value = amqp_next(&items);
        if (!value.at) break;
        if (route_key_of(key) != ROUTE_KEY_OTHER || annotations_key_of(key) != KEY_USER) continue;
        text_bytes(t, key.at, key.size + value.size);
        kept += 2;
    }
    return kept;
}

/* An address that is no string, as text, for the core. */
static void text_to(route_text_out *t, const route_stop *s, route_first *first)
{
    char type[8] = "";
    if (s->type) snprintf(type, sizeof type, "%u#", s->type);
    text_symbol(t, "x-opt-route.to");
    first->length = (uint32_t) (strlen(type) + s->length);
    text_binary_head(t, first->length);
    first->offset = t->used;
    text_bytes(t, type, strlen(type));
    text_bytes(t, s->at, s->length);
}

/* The message-annotations of a level. */
static void text_level(route_text_out *t, const route_level *l, bool outermost, route_first *first)
{
    static const char *const states[] = { "complete", "partial", "none" };
    const route_stop *s = path_first(&l->onward);
    t->used = 0;
    uint8_t *section = text_room(t, 3);
    if (section) amqp_put_descriptor(section, SECTION_MESSAGE_ANNOTATIONS);
    size_t map = text_open(t);
    uint32_t count = 8 + (l->user_count ? text_users(t, l) : 0);
    *first = (route_first) { t->used + amqp_octets_size(18) + AMQP_HEAD_MAX + (amqp_octets_size(s->length) - s->length),
                             s->length };
    text_path(t, "x-opt-route.onward", &l->onward);
    text_path(t, "x-opt-route.return", &l->returning);
    text_octet(t, "x-opt-route.hops", l->hops);
    text_symbol(t, "x-opt-route.state");
    text_symbol(t, states[l->state]);
    if (l->nesting) { text_octet(t, "x-opt-route.nesting", l->nesting); count += 2; }
    if (l->meta_count) { text_meta(t, l); count += 2; }
    if (l->tracing) { text_symbol(t, "x-opt-route.tracing"); text_string(t, l->tracing, l->tracing_size); count += 2; }
    if (outermost && !route_plain(s)) { text_to(t, s, first); count += 2; }
    text_close(t, map, AMQP_MAP32, count);
}

/* ---- payloads ---- */

static void front_data(route_out *o, uint64_t size)
{
    uint8_t head[ROUTE_DATA_HEAD];
    if (size > UINT32_MAX) { o->failed = true; return; }
    route_data_head(head, (uint32_t) size);
    front_bytes(o, head, sizeof head);
}

/* Properties with nothing but a content-type. */
static void front_content_type(route_out *o, const char *type)
{
    enum { BEFORE = 6 };               /* fields in front of it */
    uint8_t head[32];
    uint32_t size = (uint32_t) strlen(type);
    uint8_t *to =
        amqp_put_items_head(amqp_put_descriptor(head, SECTION_PROPERTIES), AMQP_LIST8, BEFORE + amqp_octets_size(size),
                            BEFORE + 1);
    for (int i = 0; i < BEFORE; i++) to = amqp_put(to, AMQP_NULL, 0);
    to = amqp_put_head(to, AMQP_SYMBOL8, size);
    front_bytes(o, type, size);
    front_bytes(o, head, (size_t) (to - head));
}

PRIVATE inline uint32_t route_uint(uint8_t *to, uint64_t n)
{
    uint32_t size = 0;
    for (; n > 127; n >>= 7) to[size++] = (uint8_t) (n & 127) | 128;
    to[size++] = (uint8_t) n;
    return size;
}

static void front_uint(route_out *o, uint64_t n)
{
    uint8_t bytes[10];
    front_bytes(o, bytes, route_uint(bytes, n));
}

static void front_bare_path(route_out *o, const route_path *w)
{
    for (uint32_t i = 0; i < w->count; i++) {                              /* the last stop is first here, too */
        front_bytes(o, w->stop[i].at, w->stop[i].length);
        front_uint(o, w->stop[i].length);
        front_uint(o, w->stop[i].type);
    }
    front_uint(o, w->count);
}

static const char *const route_type_of[ROUTE_FORMS] = { "application/x-amqp-message",
    "application/x-routed-message; version=1", "application/x-bare" };

/* A payload in the making is content, which a section goes around unless BARE takes it as it is. */
static void front_section(route_out *o, int form, uint64_t rest)
{
    if (form < 0) return;
    front_data(o, o->used + rest);
    if (form < (int) ROUTE_FORMS) front_content_type(o, route_type_of[form]);
}

/* BARE has the tracing context behind the payload: those of all messages wrapped here, behind `rest`. False: out of
 * memory. */
PRIVATE inline bool route_tails(route_run *r)
{
    uint8_t head[16];
    size_t all = 0;
    for (uint32_t i = 0; i < r->layers; i++) {
        const route_level *l = &r->level[r->layer[i].level];
        bool traced = r->layer[i].form == ROUTE_BARE && l->tracing;
        all += r->layer[i].tail = traced ? 1 + route_uint(head, l->tracing_size) + l->tracing_size : 0;
    }
    if (!all) return true;
    uint8_t *to = route_room(r, r->rest_size + all);
    if (!to) return false;
    memcpy(to, r->rest, r->rest_size);
    r->rest = to;
    to += r->rest_size;
    r->rest_size += all;
    for (uint32_t i = 0; i < r->layers; i++) {
        const route_level *l = &r->level[r->layer[i].level];
        if (!r->layer[i].tail) continue;
        *to++ = 1;
        to += route_uint(to, l->tracing_size);
        memcpy(to, l->tracing, l->tracing_size);
        to += l->tracing_size;
    }
    return true;
}

/* The beginning in front of `rest`, from message-annotations on. */
PRIVATE inline void route_write(const route_run *r, route_out *o, route_text_out *t, route_first *first)
{
    int pending = r->bare_data ? (int) ROUTE_FORMS : -1;
    uint64_t rest = r->rest_size;                                           /* and what stands behind it */
    for (uint32_t i = 0; i < r->layers; i++) rest -= r->layer[i].tail;
    for (uint32_t i = 0; i < r->layers; i++) {
        const route_level *l = &r->level[r->layer[i].level];
        uint8_t form = r->layer[i].form;
        if (form != ROUTE_BARE) front_section(o, pending, rest);
        if (form != ROUTE_AMQP) front_uint(o, o->used + rest);
        if (form == ROUTE_PAYLOAD) {
            front_bytes(o, "\0", 1);
        } else if (form == ROUTE_BARE) {
            front_bare_path(o, &l->returning);
            front_bare_path(o, &l->onward);
            front_bytes(o, l->tracing ? "\2" : "\1", 1);
        } else {
            text_level(t, l, false, first);
            front_bytes(o, t->bytes, t->used);
            o->failed |= t->failed;
        }
        rest += r->layer[i].tail;
        pending = form;
    }
    front_section(o, pending, rest);
    text_level(t, &r->level[r->depth], true, first);
    front_bytes(o, t->bytes, t->used);
    o->failed |= t->failed;
}
