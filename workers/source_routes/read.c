/* The annotations of a source route (docs/source-routes.md), from their octets.
 *
 * Everything is checked before it is used, and nothing is stored for what a count only claims: a list has at most as
 * many entries as a limit allows, each of which is there.
 */
#include <stdio.h>
#include <string.h>

#include "workers/source_routes/source_routes.h"

#define ROUTE_VALUE_DEPTH 4            /* of values of metadata inside each other */

/* ---- values ---- */

static bool route_octet(amqp_value v, uint8_t *n)
{
    int64_t number = 0;
    if (!amqp_integer(v, &number) || number < 0 || number > 255) return false;
    *n = (uint8_t) number;
    return true;
}

/* What a value of metadata counts; -1: metadata holds no such thing. */
static int64_t route_value_octets(amqp_value v, int depth)
{
    int64_t number, all = 0;
    bool truth;
    amqp_cursor items;
    uint32_t count;
    amqp_octets text = amqp_any_octets(v);
    if (text.at) return text.size;
    if (amqp_boolean(v, &truth) || amqp_integer(v, &number)) return 9;
    if (depth >= ROUTE_VALUE_DEPTH || !amqp_list(v, &items, &count)) return -1;
    while (count--) {
        amqp_value item = amqp_next(&items);
        int64_t octets = item.at ? route_value_octets(item, depth + 1) : -1;
        if (octets < 0) return -1;
        all += octets;
    }
    return items.at == items.end ? all : -1;
}

/* ---- addresses ---- */

static bool route_address(amqp_value v, route_stop *s)
{
    amqp_octets text = amqp_text(v);
    amqp_cursor pair;
    uint32_t count;
    if (text.at) {
        *s = (route_stop) { text.at, (uint16_t) text.size, 0 };
        return text.size && text.size <= UINT16_MAX;
    }
    if (!amqp_list(v, &pair, &count) || count != 2) return false;
    amqp_value type = amqp_next(&pair), name = amqp_next(&pair);
    if (!name.at || !route_octet(type, &s->type) || pair.at != pair.end) return false;
    amqp_octets octets = amqp_binary(name);
    s->at = octets.at;
    s->length = (uint16_t) octets.size;
    return octets.size && octets.size <= UINT16_MAX;
}

/* A list, or an array of strings: what a cursor needs to walk it.  `code`: the array's; 0: each item has its own. */
static bool route_items(amqp_value v, amqp_cursor *items, uint32_t *count, uint8_t *code)
{
    *code = 0;
    return amqp_list(v, items, count) || (amqp_array(v, items, count, code) && amqp_is_text(*code));
}

/* The next of a list's addresses, or of an array's strings. */
static bool route_item(amqp_cursor *items, uint8_t code, route_stop *s)
{
    if (!code) {
        amqp_value item = amqp_next(items);
        return item.at && route_address(item, s);
    }
    amqp_octets text = amqp_element(items, code);
    *s = (route_stop) { text.at, (uint16_t) text.size, 0 };
    return text.size && text.size <= UINT16_MAX;
}

PRIVATE inline void path_reverse(route_path *w)
{
    for (uint32_t i = 0; i < w->count / 2; i++) {
        route_stop s = w->stop[i];
        w->stop[i] = w->stop[w->count - 1 - i];
        w->stop[w->count - 1 - i] = s;
    }
}

static enum route_result route_read_path(route_run *r, route_path *w, amqp_value v, bool onward)
{
    const char *key = onward ? "annotation x-opt-route.onward" : "annotation x-opt-route.return";
    uint32_t count, most = onward ? r->table->limits.onward : r->table->limits.returning;
    uint8_t code;
    char text[128];
    amqp_cursor items;
    w->count = w->octets = 0;
    if (!route_items(v, &items, &count, &code)) {
        snprintf(text, sizeof text, "%s is no list", key);
        return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, text);
    }
    if (count > most)
        return onward
               ? route_over(r, ROUTE_LONG_ONWARD, NULL, "x-opt-route.onward has %u addresses; %u are allowed", count,
                            most)
                      : route_over(r, ROUTE_LONG_RETURN, NULL, "x-opt-route.return has %u addresses; %u are allowed",
                                   count, most);
    for (uint32_t i = 0; i < count; i++) {
        route_stop s;
        if (!route_item(&items, code, &s)) {
            snprintf(text, sizeof text, "%s holds an address that is neither text nor [type from 0 to 255, octets]",
                     key);
            return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, text);
        }
        path_push(w, &s);
    }
    if (items.at != items.end)
        return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "a route is longer than its count says");
    path_reverse(w);
    return ROUTE_DONE;
}

/* `route:D1=>B2`, or one name.  False: an address is malformed. */
static bool route_text_stop(const uint8_t *at, const uint8_t *end, route_stop *s)
{
    while (at < end && *at == ' ') at++;
    while (end > at && end[-1] == ' ') end--;
    uint32_t type = 0;
    const uint8_t *mark = (const uint8_t *) memchr(at, '#', (size_t) (end - at));
    if (mark) {
        if (mark == at || mark - at > 3 || memchr(mark + 1, '#', (size_t) (end - mark - 1))) return false;
        for (; at < mark; at++) {
            if (*at < '0' || *at > '9') return false;
            type = type * 10 + (uint32_t) (*at - '0');
        }
        at = mark + 1;
    }
    *s = (route_stop) { at, (uint16_t) (end - at), (uint8_t) type };
    return at < end && type <= 255 && end - at <= UINT16_MAX;
}

PRIVATE inline bool route_is_scheme(const uint8_t *text, uint32_t size)
{
    return size >= 6 && !memcmp(text, "route:", 6);
}

PRIVATE inline enum route_result route_read_text(route_run *r, route_path *w, const uint8_t *text, uint32_t size)
{
    const uint8_t *end = text + size;
    w->count = w->octets = 0;
    if (!route_is_scheme(text, size)) {
        if (!size) return ROUTE_DONE;
        if (size > UINT16_MAX)
            return route_refuse(r, ROUTE_LONG_ADDRESS, NULL, "an address has more than 65535 octets");
        path_push(w, &(route_stop) { text, (uint16_t) size, 0 });
        return ROUTE_DONE;
    }
    for (text += 6; text < end && *text == ' '; text++) continue;
    for (; text < end;) {
        const uint8_t *to = text;
        while (to < end && !(to + 1 < end && to[0] == '=' && to[1] == '>')) to++;
        route_stop s;
        if (!route_text_stop(text, to, &s))
            return route_refuse(r, ROUTE_BAD_ADDRESS, NULL, "an address of a route is malformed");
        if (w->count > UINT8_MAX)
            return route_refuse(r, ROUTE_LONG_ONWARD, NULL, "a route: has more than 255 addresses");
        path_push(w, &s);
        if (to == end) break;
        text = to + 2;
        if (text == end) return route_refuse(r, ROUTE_BAD_ADDRESS, NULL, "a route: ends with an arrow");
    }
    path_reverse(w);
    return ROUTE_DONE;
}

/* ---- metadata ---- */

static void route_meta_list(route_meta *m)
{
    amqp_cursor items;
    m->items = NULL;
    if (!amqp_list((amqp_value) { m->value, m->value_size }, &items, &m->items_count)) return;
    m->items = items.at;
    m->items_size = (uint32_t) (items.end - items.at);
}

/* One more key: whether it collects addresses is seen here. */
PRIVATE inline void level_add_meta(route_level *l, const route_meta *m)
{
    l->meta[l->meta_count++] = *m;
    l->meta_octets += m->octets;
    if (m->class == ROUTE_APPEND && m->items && m->name_size == 5 && !memcmp(m->name, "trace", 5))
        l->trace = l->meta_count;
}

PRIVATE inline route_meta *level_find_meta(route_level *l, const route_meta *like)
{
    for (uint32_t i = 0; i < l->meta_count; i++)
        if (l->meta[i].name_size == like->name_size && !memcmp(l->meta[i].name, like->name, like->name_size))
            return &l->meta[i];
    return NULL;
}

static enum route_result route_read_meta(route_run *r, route_level *l, amqp_value map)
{
    amqp_cursor items;
    uint32_t count;
    if (!amqp_map(map, &items, &count))
        return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "annotation x-opt-route.meta is no map");
    if (count % 2)
        return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "annotation x-opt-route.meta has an odd number of values");
    if (count / 2 > r->table->limits.meta_keys)
        return route_over(r, ROUTE_METADATA, NULL, "there are %u metadata keys; %u are allowed", count / 2,
                          r->table->limits.meta_keys);
    for (uint32_t i = 0; i < count; i += 2) {
        amqp_value key = amqp_next(&items);
        amqp_octets name = amqp_text(key);
        if (!name.at)
            return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL,
                                "annotation x-opt-route.meta has a key that is no symbol");
        amqp_value value = amqp_next(&items);
        int64_t octets = value.at ? route_value_octets(value, 0) : -1;
        if (octets < 0)
            return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL,
                                "annotation x-opt-route.meta holds a value that is neither text, number, "
                                "truth value, octets nor a list of them");
        route_meta m = { .key = key.at, .key_size = (uint32_t) key.size, .value = value.at,
                         .value_size = (uint32_t) value.size };
        m.name = name.at;
        m.name_size = name.size;
        m.octets = name.size + (uint32_t) octets;
        m.class = route_class_of(r->table, m.name, m.name_size);
        if (level_find_meta(l, &m))
            return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "annotation x-opt-route.meta has a key twice");
        route_meta_list(&m);
        level_add_meta(l, &m);
    }
    return items.at == items.end ? ROUTE_DONE
           : route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "annotation x-opt-route.meta is longer than its count says");
}

/* ---- the map ---- */

PRIVATE inline enum route_annotation route_key_of(amqp_value v)
{
    static const struct { uint8_t length; char text[8]; } known[] = {
        { 6, "onward" }, { 6, "return" }, { 4, "hops" }, { 5, "state" }, { 4, "meta" }, { 7, "nesting" }, { 2, "to" },
        { 7, "tracing" }, { 5, "reply" }
    };
    amqp_octets key = amqp_text(v);
    if (key.size < 14 || memcmp(key.at, "x-opt-route.", 12)) return ROUTE_KEY_OTHER;
    for (uint32_t i = 0; i < sizeof known / sizeof *known; i++)
        if (key.size - 12 == known[i].length && !memcmp(key.at + 12, known[i].text, known[i].length))
            return (enum route_annotation) (i + 1);
    return ROUTE_KEY_OTHER;
}

/* What a symbol says of a return route; ROUTE_NONE + 1: nothing that makes sense. */
static uint8_t route_state_of(amqp_value v)
{
    static const char *const names[] = { "complete", "partial", "none" };
    amqp_octets text = amqp_text(v);
    uint8_t i = 0;
    while (i < 3 && !(text.at && strlen(names[i]) == text.size && !memcmp(names[i], text.at, text.size))) i++;
    return i;
}

static enum route_result route_read_state(route_run *r, route_level *l, amqp_value v)
{
    uint8_t state = route_state_of(v);
    if (state > ROUTE_NONE)
        return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL,
                            "annotation x-opt-route.state is none of complete, partial, none");
    l->state = state;
    return ROUTE_DONE;
}

/* A reply says what the return route is that it goes by: as the message that it answers said. */
static enum route_result route_read_reply(route_run *r, amqp_value v)
{
    switch (route_state_of(v)) {
    case ROUTE_COMPLETE: return ROUTE_DONE;
    case ROUTE_PARTIAL:
        return route_refuse(r, ROUTE_UNUSABLE_RETURN, NULL,
                            "the return route is partial: a change of scope on the way was neither traced nor wrapped");
    case ROUTE_NONE:
        return route_refuse(r, ROUTE_UNUSABLE_RETURN, NULL, "the return route is none: the first sender gave none");
    default:
        return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL,
                            "annotation x-opt-route.reply is none of complete, partial, none");
    }
}

static enum route_result route_read_tracing(route_run *r, route_level *l, amqp_value v)
{
    amqp_octets text = amqp_text(v);
    if (!text.at) return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "annotation x-opt-route.tracing is no text");
    if (text.size > ROUTE_TRACING_MOST)
        return route_over(r, ROUTE_METADATA, NULL, "the tracing context has %u octets; %u are allowed", text.size,
                          ROUTE_TRACING_MOST);
    l->tracing = text.at;
    l->tracing_size = text.size;
    return ROUTE_DONE;
}

static enum route_result route_read_key(route_run *r, route_level *l, enum route_annotation what, amqp_value v,
                                        route_given *given)
{
    uint8_t n;
    if (given->seen & 1u << what)
        return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "an annotation of source routes is there twice");
    given->seen |= 1u << what;
    if (*v.at == AMQP_NULL) return ROUTE_DONE;                              /* as if it were not there */
    switch (what) {
    case ROUTE_KEY_ONWARD: given->onward = true; return route_read_path(r, &l->onward, v, true);
    case ROUTE_KEY_RETURN: given->returning = true; return route_read_path(r, &l->returning, v, false);
    case ROUTE_KEY_STATE: given->state = true; return route_read_state(r, l, v);
    case ROUTE_KEY_META: return route_read_meta(r, l, v);
    case ROUTE_KEY_TRACING: return route_read_tracing(r, l, v);
    case ROUTE_KEY_REPLY: return route_read_reply(r, v);
    /* said for the router before: written anew */
    case ROUTE_KEY_TO: return ROUTE_DONE;
    default:
        if (!route_octet(v, &n))
            return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL,
                                "annotation x-opt-route.hops or .nesting is no number from 0 to 255");
        if (what == ROUTE_KEY_HOPS) l->hops = n; else l->nesting = n;
        return ROUTE_DONE;
    }
}

/* The entries [at, at + size) of a map, `count` values. */
PRIVATE inline enum route_result route_read_map(route_run *r, route_level *l, const uint8_t *at, uint32_t size,
                                                uint32_t count,
                                         route_given *given)
{
    amqp_cursor items = { at, at + size };
    level_clear(l);
    l->user = at;
    l->user_size = size;
    for (uint32_t i = 0; i + 1 < count; i += 2) {
        amqp_value key = amqp_next(&items), value = amqp_next(&items);
        if (!value.at) return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "message-annotations are cut short");
        enum route_annotation what = route_key_of(key);
        if (what == ROUTE_KEY_OTHER) l->user_count += 2;
        else if (route_read_key(r, l, what, value, given) == ROUTE_REFUSED) return ROUTE_REFUSED;
    }
    if (count % 2 || items.at != items.end)
        return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "message-annotations are longer than their count says");
    if (!given->state) l->state = l->returning.count ? ROUTE_COMPLETE : ROUTE_NONE;
    return ROUTE_DONE;
}
