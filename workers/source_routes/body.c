/* Payloads that are messages: the joined data sections, and their content.
 *
 *   amqp      message-annotations and the bare message; may be wrapped and opened while it still arrives, piece by
 *             piece
 *   bare      a BARE message, whose payload is the data of the body; its length comes first, so all of it must be there
 *   payload   a BARE map and a BARE data, which is the bare message
 */
#include <stdio.h>
#include <string.h>

#include "workers/source_routes/source_routes.h"
#include "shm/codec/utf8.h"

#define ROUTE_ANNOTATIONS_MOST 65536u  /* octets of a wrapped message's annotations: three times what limits allow */
#define ROUTE_MAP_MOST 255u            /* entries of a payload's map */

static const char route_not_data[] = "the encoding is wrong: its body is no data";

PRIVATE inline enum route_result route_wrong(route_run *r, const char *why)
{
    char text[160];
    snprintf(text, sizeof text, "the encoding is wrong: %s", why);
    return route_refuse(r, ROUTE_BAD_ENCODING, NULL, text);
}

/* At least `missing` more octets of the message must be there, which is not gathered with each few of them. */
static enum route_result body_more(route_run *r, uint64_t missing)
{
    if (r->whole >= ROUTE_WHOLE)
        return route_over(r, ROUTE_LONG_MESSAGE, NULL, "no payload begins in its first %u octets; %u are allowed",
                          ROUTE_WHOLE, ROUTE_WHOLE);
    r->need = r->whole + (missing > r->whole / 8 ? missing : r->whole / 8);
    return ROUTE_MORE;
}

/* ---- data sections, over any pieces ---- */

/* Whether a section's beginning is whole; its octets then count in `left`.  -1: it is no data section. */
static int sections_begun(route_sections *s)
{
    uint32_t descriptor = 0;
    uint8_t code = scan_descriptor(s->head, s->head + s->have, &descriptor);
    if (code && code != SECTION_DATA) return -1;
    if (!code || s->have == descriptor) return 0;
    const uint8_t *data = s->head + descriptor;
    if (!amqp_is_binary(*data)) return -1;
    if (s->have < descriptor + amqp_head(*data)) return 0;
    s->left = amqp_size(data, s->head + s->have, 0) - amqp_head(*data);
    s->have = 0;
    return 1;
}

/* Takes a piece; what is data goes to `to`, which may be the piece itself. How much that is; -1: it is no data
 * section. */
PRIVATE inline int64_t sections_take(route_sections *s, const uint8_t *from, size_t size, uint8_t *to)
{
    int64_t done = 0;
    while (size) {
        if (s->left) {
            size_t n = size < s->left ? size : (size_t) s->left;
            memmove(to + done, from, n);
            done += (int64_t) n;
            s->left -= n;
            from += n;
            size -= n;
            continue;
        }
        s->head[s->have++] = *from++;
        size--;
        if (sections_begun(s) < 0) return -1;
    }
    return done;
}

PRIVATE inline bool sections_over(const route_sections *s) { return !s->left && !s->have; }

PRIVATE inline void route_data_head(uint8_t *to, uint32_t size)
{
    amqp_put_head(amqp_put_descriptor(to, SECTION_DATA), AMQP_BINARY32, size);
}

/* ---- the body of the message at hand ---- */

/* Where properties end and the body begins.  `plain`: properties may say no more than BARE can leave out. */
PRIVATE inline enum route_result body_begin(route_run *r, const uint8_t **at, const uint8_t *end, bool plain)
{
    for (;;) {
        uint32_t descriptor = 0;
        if (*at == end) return r->complete ? route_wrong(r, "its body is missing") : body_more(r, 1);
        uint8_t code = scan_descriptor(*at, end, &descriptor);
        if (code == 0) return r->complete ? route_wrong(r, "it is cut short") : body_more(r, 1);
        if (code == SECTION_DATA) return ROUTE_DONE;
        if (code != SECTION_PROPERTIES && code != SECTION_APPLICATION_PROPERTIES) {
            if (plain) return route_refuse(r, ROUTE_NOT_IMPLEMENTED, NULL, "BARE holds data only; use format: amqp");
            return route_refuse(r, ROUTE_BAD_ENCODING, NULL, route_not_data);
        }
        const uint8_t *value = *at + descriptor;
        size_t n = amqp_size(value, end, 0);
        if (n == AMQP_WRONG) return route_wrong(r, "a section holds no AMQP");
        const size_t there = (size_t) (end - value);
        if (n == 0 || n > there)
            return r->complete ? route_wrong(r, "it is cut short") : body_more(r, n ? n - there : 1);
        amqp_cursor fields;
        uint32_t count;
        if (plain && (code != SECTION_PROPERTIES || !amqp_list((amqp_value) { value, n }, &fields, &count)))
            return route_refuse(r, ROUTE_NOT_IMPLEMENTED, NULL,
                                "BARE holds no application properties; use format: amqp");
        for (uint32_t i = 0; plain && i < count; i++) {
            amqp_value field = amqp_next(&fields);
            if (!field.at) return route_wrong(r, "its properties are cut short");
            if (*field.at != AMQP_NULL && i != 0 && i != 5 && i != 6)
                return route_refuse(r, ROUTE_NOT_IMPLEMENTED, NULL,
                                    "BARE holds no properties but message-id, correlation-id, content-type, "
                                    "which it leaves out; use format: amqp");
        }
        *at = value + n;
    }
}

/* The data of the body, put together: `rest` is that from now on. `s`: what is to be known of the pieces that
 * follow. */
PRIVATE inline enum route_result body_gather(route_run *r, bool plain, route_sections *s)
{
    memset(s, 0, sizeof *s);
    if (r->bare_data) { r->bare_data = false; return ROUTE_DONE; }
    const uint8_t *at = r->rest, *end = at + r->rest_size;
    enum route_result begun = body_begin(r, &at, end, plain);
    if (begun != ROUTE_DONE) return begun;
    uint8_t *to = route_room(r, (size_t) (end - at));
    if (!to) return route_refuse(r, ROUTE_LONG_MESSAGE, NULL, "the router is out of memory");
    int64_t size = sections_take(s, at, (size_t) (end - at), to);
    if (size < 0) return route_refuse(r, plain ? ROUTE_NOT_IMPLEMENTED : ROUTE_BAD_ENCODING, NULL, route_not_data);
    if (r->complete && !sections_over(s)) return route_wrong(r, "it is cut short");
    r->rest = to;
    r->rest_size = (uint64_t) size;
    return ROUTE_DONE;
}

/* All of the message must be there. */
PRIVATE inline enum route_result body_whole(route_run *r)
{
    if (r->complete) return ROUTE_DONE;
    if (r->whole < ROUTE_WHOLE) { r->wants_whole = true; return ROUTE_MORE; }
    return route_over(r, ROUTE_LONG_MESSAGE, NULL,
                      "it has more than %u octets, and must be held whole here; %u are allowed", ROUTE_WHOLE,
                      ROUTE_WHOLE);
}

/* ---- BARE ---- */

static uint64_t bare_uint(route_bare *b)
{
    uint64_t n = 0;
    for (uint32_t shift = 0; shift < 70; shift += 7) {
        if (b->at == b->end) { b->why = "it is cut short"; return 0; }
        uint8_t octet = *b->at++;
        if (shift == 63 && octet > 1) break;
        n |= (uint64_t) (octet & 127) << shift;
        if (octet >= 128) continue;
        if (!octet && shift) {
            b->why = "a number is not written in as few octets as it needs (non-minimal)";
            return 0;
        }
        return n;
    }
    b->why = "a number has more than 64 bits";
    return 0;
}

static amqp_octets bare_data(route_bare *b)
{
    uint64_t n = bare_uint(b);
    if (!b->why && n > (uint64_t) (b->end - b->at)) b->why = "it is cut short";
    if (b->why || n > UINT32_MAX) return (amqp_octets) { b->at, 0 };
    b->at += n;
    return (amqp_octets) { b->at - n, (uint32_t) n };
}

/* Begins a route of `count` addresses, unless they are more than the limit. */
PRIVATE inline enum route_result route_path_begin(route_run *r, const route_bare *b, route_path *w, uint64_t count,
                                                  bool onward)
{
    uint32_t most = onward ? r->table->limits.onward : r->table->limits.returning;
    w->count = w->octets = 0;
    if (b->why || count <= most) return ROUTE_DONE;
    return route_over(r, onward ? ROUTE_LONG_ONWARD : ROUTE_LONG_RETURN, NULL,
                      "a route is too long: %u addresses; %u are allowed",
                      count > UINT32_MAX ? UINT32_MAX : (uint32_t) count, most);
}

/* Appends an address to a route that is read; a malformed one sets `b->why`. */
PRIVATE inline enum route_result route_path_add(route_run *r, route_bare *b, route_path *w, uint64_t type,
                                                amqp_octets name)
{
    if (b->why) return ROUTE_DONE;
    if (!name.size) b->why = "an address is empty";
    if (name.size > r->table->limits.address_octets)
        return route_over(r, ROUTE_LONG_ADDRESS, NULL, "an address has %u octets; %u are allowed", name.size,
                          r->table->limits.address_octets);
    path_push(w, &(route_stop) { name.at, (uint16_t) name.size, (uint8_t) type });
    return ROUTE_DONE;
}

static enum route_result bare_path(route_run *r, route_bare *b, route_path *w, bool onward)
{
    uint64_t count = bare_uint(b);
    if (route_path_begin(r, b, w, count, onward) == ROUTE_REFUSED) return ROUTE_REFUSED;
    for (uint64_t i = 0; i < count && !b->why; i++) {
        uint64_t type = bare_uint(b);
        if (!b->why && type > 255) b->why = "an address type is above 255";
        if (route_path_add(r, b, w, type, bare_data(b)) == ROUTE_REFUSED) return ROUTE_REFUSED;
    }
    path_reverse(w);
    return ROUTE_DONE;
}

PRIVATE inline enum route_result route_tracing(route_run *r, route_level *l, amqp_octets text, const char **why)
{
    if (text.size > ROUTE_TRACING_MOST)
        return route_over(r, ROUTE_METADATA, NULL, "the tracing context has %u octets; %u are allowed", text.size,
                          ROUTE_TRACING_MOST);
    if (!utf8_valid(text.at, text.size)) *why = "a text is not UTF-8";
    l->tracing = text.at;
    l->tracing_size = text.size;
    return ROUTE_DONE;
}

/* All of a message has been read: its payload is `rest` from then on. */
PRIVATE inline enum route_result route_read_to_end(route_run *r, route_level *l, const route_bare *b,
                                                   amqp_octets payload)
{
    const char *why = !b->why && b->at != b->end ? "octets follow its end (trailing bytes)" : b->why;
    if (why) return route_wrong(r, why);
    l->state = l->returning.count ? ROUTE_COMPLETE : ROUTE_NONE;
    r->rest = payload.at;
    r->rest_size = payload.size;
    r->bare_data = true;
    return ROUTE_DONE;
}

/* The message in `rest`, whose payload is `rest` from then on. */
PRIVATE inline enum route_result bare_message(route_run *r, route_level *l)
{
    route_bare b = { r->rest, r->rest + r->rest_size, NULL };
    level_clear(l);
    uint64_t version = bare_uint(&b);
    if (!b.why && version != 1 && version != 2) b.why = "there are versions 1 and 2 only";
    if (!b.why && bare_path(r, &b, &l->onward, true) == ROUTE_REFUSED) return ROUTE_REFUSED;
    if (!b.why && bare_path(r, &b, &l->returning, false) == ROUTE_REFUSED) return ROUTE_REFUSED;
    amqp_octets payload = b.why ? (amqp_octets) { r->rest, 0 } : bare_data(&b);
    if (!b.why && version == 2) {
        uint64_t flag = bare_uint(&b);
        if (!b.why && flag > 1) b.why = "an optional value begins with neither 0 nor 1";
        if (!b.why && flag) {
            amqp_octets tracing = bare_data(&b);
            if (!b.why && route_tracing(r, l, tracing, &b.why) == ROUTE_REFUSED) return ROUTE_REFUSED;
        }
    }
    if (version == 1 && r->table->limits.lenient_tail && b.end - b.at == 1 && !*b.at) b.at++;
    return route_read_to_end(r, l, &b, payload);
}

/* ---- opening ---- */

/* Message-annotations in front of `rest`. */
static enum route_result amqp_message(route_run *r, route_level *l)
{
    static const uint8_t annotations[3] = { AMQP_DESCRIBED, AMQP_SMALLULONG, SECTION_MESSAGE_ANNOTATIONS };
    const uint8_t *p = r->rest;
    route_given given = { .seen = 0 };
    uint64_t have = r->rest_size;
    if (have < 12 && !r->complete) return body_more(r, 12 - have);
    bool wide = have > 3 && p[3] == AMQP_MAP32;
    if (have < (wide ? 12 : 6) || memcmp(p, annotations, 3) || !amqp_is_map(p[3]))
        return route_wrong(r, "it does not begin with message-annotations");
    uint64_t size = amqp_size(p + 3, p + have, 0), content = size - amqp_head(p[3]);
    if (content > ROUTE_ANNOTATIONS_MOST)
        return route_over(r, ROUTE_LONG_MESSAGE, NULL, "%u octets of annotations; %u are allowed", (uint32_t) content,
                          ROUTE_ANNOTATIONS_MOST);
    if (3 + size > have)
        return r->complete ? route_wrong(r, "its annotations are cut short") : body_more(r, 3 + size - have);
    amqp_cursor items;
    uint32_t count;
    if (!amqp_map((amqp_value) { p + 3, size }, &items, &count)) return route_wrong(r, "its annotations are cut short");
    if (route_read_map(r, l, items.at, (uint32_t) (items.end - items.at), count, &given) == ROUTE_REFUSED)
        return ROUTE_REFUSED;
    r->rest = items.end;
    r->rest_size = have - 3 - size;
    return ROUTE_DONE;
}

/* The message inside into `l`. */
PRIVATE inline enum route_result body_open(route_run *r, uint8_t form, route_level *l)
{
    route_sections s;
    enum route_result done = form == ROUTE_AMQP ? ROUTE_DONE : body_whole(r);
    if (done != ROUTE_DONE) return done;
    if (r->opened == ROUTE_DEPTH)
        return route_over(r, ROUTE_NESTING, NULL, "more than %u wrappers are taken off here; %u are allowed",
                          ROUTE_DEPTH, ROUTE_DEPTH);
    if ((done = body_gather(r, false, &s)) != ROUTE_DONE) return done;
    if ((done = form == ROUTE_AMQP ? amqp_message(r, l) : bare_message(r, l)) != ROUTE_DONE) return done;
    r->sections[r->opened++] = s;
    if (!l->onward.count)
        return route_refuse(r, ROUTE_EMPTY, NULL, "the onward route inside is empty; give at least one address");
    return level_check(r, l, NULL);
}

/* {map, data}: the bare message that is the data. */
PRIVATE inline enum route_result body_open_payload(route_run *r)
{
    route_sections s;
    amqp_octets key[ROUTE_MAP_MOST];
    enum route_result done = body_whole(r);
    if (done != ROUTE_DONE || (done = body_gather(r, false, &s)) != ROUTE_DONE) return done;
    route_bare b = { r->rest, r->rest + r->rest_size, NULL };
    uint64_t count = bare_uint(&b);
    if (!b.why && count > ROUTE_MAP_MOST) b.why = "a map has more than 255 entries";
    for (uint64_t i = 0; i < count && !b.why; i++) {
        key[i] = bare_data(&b);
        for (uint64_t j = 0; j < i && !b.why; j++)
            if (key[j].size == key[i].size && !memcmp(key[j].at, key[i].at, key[i].size))
                b.why = "a map has a key twice";
        if (!b.why) bare_data(&b);
    }
    amqp_octets payload = b.why ? (amqp_octets) { r->rest, 0 } : bare_data(&b);
    if (!b.why && b.at != b.end) b.why = "octets follow its end (trailing bytes)";
    if (b.why) return route_wrong(r, b.why);
    r->rest = payload.at;
    r->rest_size = payload.size;
    return ROUTE_DONE;
}
