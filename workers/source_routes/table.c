/* The table of route workers (docs/source-routes.md), compiled by table.py into one run of bytes, which stays in memory
 * because the table points into it.
 *
 *   number    u8, u16, u64, little-endian
 *   stop      u8 type, u16 length, the octets of its name
 *   optional  u8 0, or 1 and the thing
 *   list      u16 count, the things
 *
 * The bytes come from the router's own Python but are checked: a malformed table is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "workers/source_routes/source_routes.h"

/* ---- addresses ---- */

PRIVATE inline bool route_same(const route_stop *a, const route_stop *b)
{
    return a->type == b->type && a->length == b->length && !memcmp(a->at, b->at, a->length);
}

static uint32_t route_hash(uint8_t type, const uint8_t *at, uint32_t length)
{
    uint32_t h = 2166136261u ^ type;
    for (uint32_t i = 0; i < length; i++) h = (h ^ at[i]) * 16777619u;
    return h ^ h >> 15;
}

/* The worker's address that is this one; NULL: none is. */
GLUE const route_entry *route_find(const route_table *t, const route_stop *s)
{
    for (uint32_t i = route_hash(s->type, s->at, s->length) & (t->slots - 1); t->slot[i];
         i = (i + 1) & (t->slots - 1)) {
        const route_entry *e = &t->entry[t->slot[i] - 1];
        if (route_same(&e->address, s)) return e;
    }
    return NULL;
}

PRIVATE inline bool route_listed(const route_list *list, const route_stop *s)
{
    for (uint32_t i = 0; i < list->count; i++) if (route_same(&list->stop[i], s)) return true;
    return false;
}

PRIVATE inline bool route_meet(const route_sources *a, const route_sources *b)
{
    uint64_t both = 0;
    for (uint32_t i = 0; i < ROUTE_SOURCE_WORDS; i++) both |= a->bits[i] & b->bits[i];
    return both != 0;
}

PRIVATE inline bool route_admits(const route_access *a, const route_source *who)
{
    if (!a->listed) return !who->foreign;
    return route_meet(&a->from, &who->names) || (a->local && !who->foreign);
}

PRIVATE inline uint8_t route_class_of(const route_table *t, const uint8_t *key, size_t size)
{
    for (uint32_t i = 0; i < t->key_count; i++)
        if (t->key[i].key.length == size && !memcmp(t->key[i].key.at, key, size)) return t->key[i].class;
    return ROUTE_CARRY;
}

/* ---- reading the compiled bytes ---- */

typedef struct { const uint8_t *at, *end; bool bad; route_table *table; } route_reader;

static uint64_t route_get(route_reader *r, uint32_t octets)
{
    uint64_t n = 0;
    if (r->bad || r->end - r->at < (ptrdiff_t) octets) { r->bad = true; return 0; }
    for (uint32_t i = 0; i < octets; i++) n |= (uint64_t) r->at[i] << 8 * i;
    r->at += octets;
    return n;
}

static uint8_t route_get_below(route_reader *r, uint8_t limit)
{
    uint8_t n = (uint8_t) route_get(r, 1);
    r->bad |= n >= limit;
    return n;
}

static route_stop route_get_stop(route_reader *r)
{
    route_stop s = { .type = (uint8_t) route_get(r, 1) };
    s.length = (uint16_t) route_get(r, 2);
    s.at = r->at;
    if (r->bad || r->end - r->at < s.length) { r->bad = true; s.length = 0; }
    r->at += s.length;
    return s;
}

/* Lists stand behind each other in the table's stops, of which there are as many as the bytes could hold. */
static route_list route_get_list(route_reader *r)
{
    uint32_t count = (uint32_t) route_get(r, 2);
    route_table *t = r->table;
    route_list list = { t->stop + t->stop_count, count };
    if (r->bad || (uint64_t) count * 3 > (uint64_t) (r->end - r->at)) { r->bad = true; list.count = 0; return list; }
    for (uint32_t i = 0; i < count; i++) t->stop[t->stop_count++] = route_get_stop(r);
    return list;
}

static route_sources route_get_sources(route_reader *r)
{
    route_sources s;
    for (uint32_t i = 0; i < ROUTE_SOURCE_WORDS; i++) s.bits[i] = route_get(r, 8);
    return s;
}

static void route_get_entry(route_reader *r, uint32_t worker, bool inner)
{
    route_table *t = r->table;
    route_entry *e = &t->entry[t->entry_count];
    e->address = route_get_stop(r);
    e->text = route_get_stop(r);
    e->worker = worker;
    e->inner = inner;
    e->access.listed = route_get_below(r, 2);
    e->access.local = route_get_below(r, 2);
    e->access.from = route_get_sources(r);
    if (r->bad || route_find(t, &e->address)) { r->bad = true; return; }
    uint32_t i = route_hash(e->address.type, e->address.at, e->address.length) & (t->slots - 1);
    while (t->slot[i]) i = (i + 1) & (t->slots - 1);
    t->slot[i] = ++t->entry_count;
}

static void route_get_worker(route_reader *r, uint32_t number)
{
    route_worker *w = &r->table->worker[number];
    w->kind = route_get_below(r, ROUTE_KINDS);
    w->form = route_get_below(r, ROUTE_FORMS);
    w->strip = route_get_below(r, ROUTE_STRIPS);
    w->strip_count = (uint8_t) route_get(r, 1);
    w->metadata = route_get_below(r, ROUTE_METAS);
    w->crosses = route_get_below(r, 2);
    w->marks = route_get_below(r, 2);
    w->tells_scopes = route_get_below(r, 2);
    w->number = number;
    w->source = (int16_t) route_get(r, 2);
    r->bad |= w->source >= (int) (64 * ROUTE_SOURCE_WORDS);
    uint32_t entry = r->table->entry_count;
    route_get_entry(r, number, false);
    if (route_get_below(r, 2)) route_get_entry(r, number, true);
    if (r->bad) return;
    w->address = r->table->entry[entry].address;
    if ((w->traces = route_get_below(r, 2))) w->traced = route_get_stop(r);
    w->route = route_get_list(r);
    w->returning = route_get_list(r);
    w->keys = route_get_list(r);
    w->scopes = route_get_list(r);
    w->uplinks = route_get_sources(r);
    if ((w->limited = route_get_below(r, 2))) w->send_to = route_get_list(r);
    r->bad |= (w->kind == ROUTE_COLLAPSE && !w->strip) || (w->kind == ROUTE_TEE && !w->route.count);
}

static void route_get_limits(route_reader *r, route_limits *l)
{
    l->hops = (uint8_t) route_get(r, 1);
    l->onward = (uint8_t) route_get(r, 1);
    l->returning = (uint8_t) route_get(r, 1);
    l->nesting = (uint8_t) route_get(r, 1);
    l->meta_keys = (uint8_t) route_get(r, 1);
    l->address_octets = (uint16_t) route_get(r, 2);
    l->route_octets = (uint16_t) route_get(r, 2);
    l->meta_octets = (uint16_t) route_get(r, 2);
    l->lenient_tail = route_get_below(r, 2);
}

PRIVATE inline void route_table_free(route_table *t)
{
    if (!t) return;
    free(t->worker);
    free(t->entry);
    free(t->key);
    free(t->stop);
    free(t->slot);
    free(t);
}

static bool route_table_rooms(route_table *t, size_t size)
{
    t->slots = 16;
    while (t->slots < 4 * (t->worker_count + 1)) t->slots *= 2;             /* two addresses each, at most half full */
    t->worker = (route_worker *) calloc(t->worker_count + 1, sizeof *t->worker);
    t->entry = (route_entry *) calloc(2 * (size_t) t->worker_count + 1, sizeof *t->entry);
    t->key = (route_key *) calloc(t->key_count + 1, sizeof *t->key);
    t->stop = (route_stop *) calloc(size / 3 + 1, sizeof *t->stop);
    t->slot = (uint32_t *) calloc(t->slots, sizeof *t->slot);
    return t->worker && t->entry && t->key && t->stop && t->slot;
}

/* NULL: no memory, or the bytes are malformed. */
GLUE route_table *route_table_load(const uint8_t *bytes, size_t size)
{
    route_table *t = (route_table *) calloc(1, sizeof *t + size);
    if (!t) return NULL;
    memcpy(t->bytes, bytes, size);
    route_reader r = { t->bytes, t->bytes + size, false, t };
    route_get_limits(&r, &t->limits);
    t->key_count = (uint32_t) route_get(&r, 2);
    t->worker_count = (uint32_t) route_get(&r, 2);
    if (r.bad || !route_table_rooms(t, size)) { route_table_free(t); return NULL; }
    for (uint32_t i = 0; i < t->key_count && !r.bad; i++) {
        t->key[i].class = route_get_below(&r, ROUTE_CLASSES);
        t->key[i].key = route_get_stop(&r);
    }
    for (uint32_t i = 0; i < t->worker_count && !r.bad; i++) route_get_worker(&r, i);
    if (!r.bad && r.at == r.end) return t;
    route_table_free(t);
    return NULL;
}
