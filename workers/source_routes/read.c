/* The annotations of a source route (docs/source-routes.md), from their octets.
 *
 * Everything is checked before it is used, and nothing is stored for what a count only claims: a list has at most as many
 * entries as a limit allows, each of which is there.
 */
#ifndef ROUTERD_WORKERS_ROUTE_READ_H
#define ROUTERD_WORKERS_ROUTE_READ_H

#include "workers/source_routes/run.c"
#include "shm/utf8.h"

#define ROUTE_VALUE_DEPTH 4            /* of values of metadata inside each other */

enum route_annotation { ROUTE_KEY_OTHER, ROUTE_KEY_ONWARD, ROUTE_KEY_RETURN, ROUTE_KEY_HOPS, ROUTE_KEY_STATE, ROUTE_KEY_META, ROUTE_KEY_NESTING,
                        ROUTE_KEY_TO, ROUTE_KEY_TRACING, ROUTE_KEY_REPLY };

/* ---- values ---- */

typedef struct { const uint8_t *at; uint32_t size; } route_octets;

static inline route_octets route_text(const uint8_t *p, size_t size)
{
    if (*p == 0xa1 || *p == 0xa3) return (route_octets) { p + 2, (uint32_t) size - 2 };
    if (*p == 0xb1 || *p == 0xb3) return (route_octets) { p + 5, (uint32_t) size - 5 };
    return (route_octets) { NULL, 0 };
}

/* A whole number of any type.  False: it is none, or beyond 64 bits with a sign. */
static inline bool route_number(const uint8_t *p, size_t size, int64_t *n)
{
    uint64_t bits = 0;
    for (size_t i = 1; i < size && i < 9; i++) bits = bits << 8 | p[i];
    switch (*p) {
    case 0x43: case 0x44: *n = 0; return true;
    case 0x50: case 0x52: case 0x53: case 0x60: case 0x70: *n = (int64_t) bits; return true;
    case 0x80: *n = (int64_t) bits; return bits <= INT64_MAX;
    case 0x51: case 0x54: case 0x55: *n = (int8_t) bits; return true;
    case 0x61: *n = (int16_t) bits; return true;
    case 0x71: *n = (int32_t) bits; return true;
    case 0x81: *n = (int64_t) bits; return true;
    default: return false;
    }
}

static inline bool route_octet(const uint8_t *p, size_t size, uint8_t *n)
{
    int64_t number;
    if (!route_number(p, size, &number) || number < 0 || number > 255) return false;
    *n = (uint8_t) number;
    return true;
}

/* What a value of metadata counts; -1: metadata holds no such thing. */
static inline int64_t route_value_octets(const uint8_t *p, size_t size, int depth)
{
    int64_t number, all = 0;
    scan_cursor items;
    uint32_t count;
    size_t n;
    route_octets text = route_text(p, size);
    if (text.at) return text.size;
    if (*p == 0xa0) return (int64_t) size - 2;
    if (*p == 0xb0) return (int64_t) size - 5;
    if (*p == 0x41 || *p == 0x42 || (*p == 0x56 && p[1] < 2) || route_number(p, size, &number)) return 9;
    if (depth >= ROUTE_VALUE_DEPTH || !scan_list(p, size, &items, &count)) return -1;
    while (count--) {
        const uint8_t *item = scan_field(&items, &n);
        int64_t octets = item ? route_value_octets(item, n, depth + 1) : -1;
        if (octets < 0) return -1;
        all += octets;
    }
    return items.at == items.end ? all : -1;
}

/* ---- addresses ---- */

static inline bool route_address(const uint8_t *p, size_t size, route_stop *s)
{
    route_octets text = route_text(p, size);
    scan_cursor pair;
    uint32_t count;
    size_t n;
    if (text.at) {
        *s = (route_stop) { text.at, (uint16_t) text.size, 0 };
        return text.size && text.size <= UINT16_MAX;
    }
    if (!scan_list(p, size, &pair, &count) || count != 2) return false;
    const uint8_t *type = scan_field(&pair, &n);
    if (!type || !route_octet(type, n, &s->type)) return false;
    const uint8_t *name = scan_field(&pair, &n);
    if (!name || (*name != 0xa0 && *name != 0xb0) || pair.at != pair.end) return false;
    size_t head = *name == 0xa0 ? 2 : 5;
    s->at = name + head;
    s->length = (uint16_t) (n - head);
    return n > head && n - head <= UINT16_MAX;
}

/* A list, or an array of strings: what a cursor needs to walk it.  `code`: the array's; 0: each item has its own. */
static inline bool route_items(const uint8_t *p, size_t size, scan_cursor *items, uint32_t *count, uint8_t *code)
{
    *code = 0;
    if (scan_list(p, size, items, count)) return true;
    uint32_t head = *p == 0xe0 ? 3 : *p == 0xf0 ? 9 : 0;
    if (!head || size <= head) return false;
    *count = head == 3 ? p[2] : scan_u32(p + 5);
    *code = p[head];
    items->at = p + head + 1;
    items->end = p + size;
    return *code == 0xa1 || *code == 0xb1 || *code == 0xa3 || *code == 0xb3;
}

/* The next of an array's strings. */
static inline bool route_array_item(scan_cursor *items, uint8_t code, route_stop *s)
{
    uint32_t head = code < 0xb0 ? 1 : 4;
    if (items->end - items->at < (ptrdiff_t) head) return false;
    uint32_t size = head == 1 ? *items->at : scan_u32(items->at);
    if (!size || size > UINT16_MAX || items->end - items->at - (ptrdiff_t) head < (ptrdiff_t) size) return false;
    *s = (route_stop) { items->at + head, (uint16_t) size, 0 };
    items->at += head + size;
    return true;
}

static inline void way_reverse(route_way *w)
{
    for (uint32_t i = 0; i < w->count / 2; i++) {
        route_stop s = w->stop[i];
        w->stop[i] = w->stop[w->count - 1 - i];
        w->stop[w->count - 1 - i] = s;
    }
}

static inline enum route_result route_read_way(route_run *r, route_way *w, const uint8_t *p, size_t size, bool onward)
{
    const char *key = onward ? "annotation x-opt-route.onward" : "annotation x-opt-route.return";
    uint32_t count, most = onward ? r->table->limits.onward : r->table->limits.returning;
    uint8_t code;
    char text[128];
    scan_cursor items;
    w->count = w->octets = 0;
    if (!route_items(p, size, &items, &count, &code)) {
        snprintf(text, sizeof text, "%s is no list", key);
        return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, text);
    }
    if (count > most)
        return onward ? route_over(r, ROUTE_LONG_ONWARD, NULL, "x-opt-route.onward has %u addresses; %u are allowed", count, most)
                      : route_over(r, ROUTE_LONG_RETURN, NULL, "x-opt-route.return has %u addresses; %u are allowed", count, most);
    for (uint32_t i = 0; i < count; i++) {
        route_stop s;
        size_t n;
        const uint8_t *item = code ? NULL : scan_field(&items, &n);
        if (code ? !route_array_item(&items, code, &s) : !item || !route_address(item, n, &s)) {
            snprintf(text, sizeof text, "%s holds an address that is neither text nor [type from 0 to 255, octets]", key);
            return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, text);
        }
        way_push(w, &s);
    }
    if (items.at != items.end) return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "a route is longer than its count says");
    way_reverse(w);
    return ROUTE_DONE;
}

/* `route:D1=>B2`, or one name.  False: an address makes no sense. */
static inline bool route_text_stop(const uint8_t *at, const uint8_t *end, route_stop *s)
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

static inline bool route_is_scheme(const uint8_t *text, uint32_t size) { return size >= 6 && !memcmp(text, "route:", 6); }

static inline enum route_result route_read_text(route_run *r, route_way *w, const uint8_t *text, uint32_t size)
{
    const uint8_t *end = text + size;
    w->count = w->octets = 0;
    if (!route_is_scheme(text, size)) {
        if (!size) return ROUTE_DONE;
        if (size > UINT16_MAX) return route_refuse(r, ROUTE_LONG_ADDRESS, NULL, "an address has more than 65535 octets");
        way_push(w, &(route_stop) { text, (uint16_t) size, 0 });
        return ROUTE_DONE;
    }
    for (text += 6; text < end && *text == ' '; text++) continue;
    for (; text < end;) {
        const uint8_t *to = text;
        while (to < end && !(to + 1 < end && to[0] == '=' && to[1] == '>')) to++;
        route_stop s;
        if (!route_text_stop(text, to, &s)) return route_refuse(r, ROUTE_BAD_ADDRESS, NULL, "an address of a route: makes no sense");
        if (w->count > UINT8_MAX) return route_refuse(r, ROUTE_LONG_ONWARD, NULL, "a route: has more than 255 addresses");
        way_push(w, &s);
        if (to == end) break;
        text = to + 2;
        if (text == end) return route_refuse(r, ROUTE_BAD_ADDRESS, NULL, "a route: ends with an arrow");
    }
    way_reverse(w);
    return ROUTE_DONE;
}

/* ---- metadata ---- */

static inline void route_meta_list(route_meta *m)
{
    scan_cursor items;
    m->items = NULL;
    if (!scan_list(m->value, m->value_size, &items, &m->items_count)) return;
    m->items = items.at;
    m->items_size = (uint32_t) (items.end - items.at);
}

/* One more key: whether it collects addresses is seen here. */
static inline void level_add_meta(route_level *l, const route_meta *m)
{
    l->meta[l->meta_count++] = *m;
    l->meta_octets += m->octets;
    if (m->class == ROUTE_APPEND && m->items && m->name_size == 5 && !memcmp(m->name, "trace", 5)) l->trace = l->meta_count;
}

static inline route_meta *level_find_meta(route_level *l, const route_meta *like)
{
    for (uint32_t i = 0; i < l->meta_count; i++)
        if (l->meta[i].name_size == like->name_size && !memcmp(l->meta[i].name, like->name, like->name_size)) return &l->meta[i];
    return NULL;
}

static inline enum route_result route_read_meta(route_run *r, route_level *l, const uint8_t *p, size_t size)
{
    uint32_t head = *p == 0xc1 ? 3 : *p == 0xd1 ? 9 : 0;
    if (!head || size < head) return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "annotation x-opt-route.meta is no map");
    uint32_t count = head == 3 ? p[2] : scan_u32(p + 5);
    if (count % 2) return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "annotation x-opt-route.meta has an odd number of values");
    if (count / 2 > r->table->limits.meta_keys)
        return route_over(r, ROUTE_METADATA, NULL, "there are %u metadata keys; %u are allowed", count / 2, r->table->limits.meta_keys);
    scan_cursor items = { p + head, p + size };
    for (uint32_t i = 0; i < count; i += 2) {
        size_t key, n;
        route_meta m = { .key = scan_field(&items, &key) };
        route_octets name = m.key ? route_text(m.key, key) : (route_octets) { NULL, 0 };
        if (!name.at) return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "annotation x-opt-route.meta has a key that is no symbol");
        m.value = scan_field(&items, &n);
        int64_t octets = m.value ? route_value_octets(m.value, n, 0) : -1;
        if (octets < 0)
            return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL,
                                "annotation x-opt-route.meta holds a value that is neither text, number, truth value, octets nor a list of them");
        m.key_size = (uint32_t) key;
        m.value_size = (uint32_t) n;
        m.name = name.at;
        m.name_size = name.size;
        m.octets = name.size + (uint32_t) octets;
        m.class = route_class_of(r->table, m.name, m.name_size);
        if (level_find_meta(l, &m)) return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "annotation x-opt-route.meta has a key twice");
        route_meta_list(&m);
        level_add_meta(l, &m);
    }
    return items.at == items.end ? ROUTE_DONE : route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "annotation x-opt-route.meta is longer than its count says");
}

/* ---- the map ---- */

static inline enum route_annotation route_key_of(const uint8_t *p, size_t size)
{
    static const struct { uint8_t length; char text[8]; } known[] = { { 6, "onward" }, { 6, "return" }, { 4, "hops" }, { 5, "state" },
                                                                      { 4, "meta" }, { 7, "nesting" }, { 2, "to" }, { 7, "tracing" }, { 5, "reply" } };
    route_octets key = route_text(p, size);
    if (key.size < 14 || memcmp(key.at, "x-opt-route.", 12)) return ROUTE_KEY_OTHER;
    for (uint32_t i = 0; i < sizeof known / sizeof *known; i++)
        if (key.size - 12 == known[i].length && !memcmp(key.at + 12, known[i].text, known[i].length)) return (enum route_annotation) (i + 1);
    return ROUTE_KEY_OTHER;
}

/* What a symbol says of a return route; ROUTE_NONE + 1: nothing that makes sense. */
static inline uint8_t route_state_of(const uint8_t *p, size_t size)
{
    static const char *const names[] = { "complete", "partial", "none" };
    route_octets text = route_text(p, size);
    uint8_t i = 0;
    while (i < 3 && !(text.at && strlen(names[i]) == text.size && !memcmp(names[i], text.at, text.size))) i++;
    return i;
}

static inline enum route_result route_read_state(route_run *r, route_level *l, const uint8_t *p, size_t size)
{
    uint8_t state = route_state_of(p, size);
    if (state > ROUTE_NONE) return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "annotation x-opt-route.state is none of complete, partial, none");
    l->state = state;
    return ROUTE_DONE;
}

/* A reply says what the return route is that it goes by: as the message that it answers said. */
static inline enum route_result route_read_reply(route_run *r, const uint8_t *p, size_t size)
{
    switch (route_state_of(p, size)) {
    case ROUTE_COMPLETE: return ROUTE_DONE;
    case ROUTE_PARTIAL: return route_refuse(r, ROUTE_UNUSABLE_RETURN, NULL, "the return route is partial: a change of scope on the way was neither traced nor wrapped");
    case ROUTE_NONE: return route_refuse(r, ROUTE_UNUSABLE_RETURN, NULL, "the return route is none: the first sender gave none");
    default: return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "annotation x-opt-route.reply is none of complete, partial, none");
    }
}

static inline enum route_result route_read_tracing(route_run *r, route_level *l, const uint8_t *p, size_t size)
{
    route_octets text = route_text(p, size);
    if (!text.at) return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "annotation x-opt-route.tracing is no text");
    if (text.size > ROUTE_TRACING_MOST)
        return route_over(r, ROUTE_METADATA, NULL, "the tracing context has %u octets; %u are allowed", text.size, ROUTE_TRACING_MOST);
    l->tracing = text.at;
    l->tracing_size = text.size;
    return ROUTE_DONE;
}

typedef struct { bool onward, returning, state; uint32_t seen; } route_given;

static inline enum route_result route_read_key(route_run *r, route_level *l, enum route_annotation what, const uint8_t *p, size_t size, route_given *given)
{
    uint8_t n;
    if (given->seen & 1u << what) return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "an annotation of source routes is there twice");
    given->seen |= 1u << what;
    if (*p == 0x40) return ROUTE_DONE;                                      /* null: as if it were not there */
    switch (what) {
    case ROUTE_KEY_ONWARD: given->onward = true; return route_read_way(r, &l->onward, p, size, true);
    case ROUTE_KEY_RETURN: given->returning = true; return route_read_way(r, &l->returning, p, size, false);
    case ROUTE_KEY_STATE: given->state = true; return route_read_state(r, l, p, size);
    case ROUTE_KEY_META: return route_read_meta(r, l, p, size);
    case ROUTE_KEY_TRACING: return route_read_tracing(r, l, p, size);
    case ROUTE_KEY_REPLY: return route_read_reply(r, p, size);
    case ROUTE_KEY_TO: return ROUTE_DONE;                                   /* said for the router before: written anew */
    default:
        if (!route_octet(p, size, &n)) return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "annotation x-opt-route.hops or .nesting is no number from 0 to 255");
        if (what == ROUTE_KEY_HOPS) l->hops = n; else l->nesting = n;
        return ROUTE_DONE;
    }
}

/* The entries [at, at + size) of a map, `count` values. */
static inline enum route_result route_read_map(route_run *r, route_level *l, const uint8_t *at, uint32_t size, uint32_t count, route_given *given)
{
    scan_cursor items = { at, at + size };
    level_clear(l);
    l->user = at;
    l->user_size = size;
    for (uint32_t i = 0; i + 1 < count; i += 2) {
        size_t key_size, n;
        const uint8_t *key = scan_field(&items, &key_size), *value = key ? scan_field(&items, &n) : NULL;
        if (!value) return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "message-annotations are cut short");
        enum route_annotation what = route_key_of(key, key_size);
        if (what == ROUTE_KEY_OTHER) l->user_count += 2;
        else if (route_read_key(r, l, what, value, n, given) == ROUTE_REFUSED) return ROUTE_REFUSED;
    }
    if (count % 2 || items.at != items.end) return route_refuse(r, ROUTE_BAD_ANNOTATION, NULL, "message-annotations are longer than their count says");
    if (!given->state) l->state = l->returning.count ? ROUTE_COMPLETE : ROUTE_NONE;
    return ROUTE_DONE;
}

#endif
