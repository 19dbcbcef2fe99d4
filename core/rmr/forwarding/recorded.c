/* Route tables as the flight recorder has them (image.h).
 *
 *   ENTRY_ROUTES --a table--> ENTRY_TABLE, _SLOTS, _SPECIALS, _SENDERS, _WORDS, _ENDPOINTS --owners--> ENTRY_OWNERS
 *
 * A cursor goes through these stages; each part has as much as its octets have room for.
 */
#include "core/rmr/forwarding/image.h"

#define PARTED(type) (ROUTES_PART / (uint32_t) sizeof(type))
#define LINES(octets) (1 + (octets) / FLIGHT_MORE_OCTETS + 1 + (octets) / ROUTES_PART)

/* Whether a recording may have a table: a reader takes no larger one. */
GLUE bool route_table_fits(const route_table *t) { return t->mask < 1u << ROUTE_IMAGE_BITS; }

/* Lines that its entries take at most. */
GLUE uint64_t route_table_lines(const route_table *t)
{
    return 1 + LINES(t->keys * sizeof(image_slot)) + LINES(t->special_count * sizeof(route_special))
           + LINES(t->senders * sizeof(uint64_t)) + LINES(t->words * sizeof(uint32_t))
           + LINES(t->endpoints.count * sizeof(image_endpoint));
}

PRIVATE uint64_t routes_lines(const core_routes *p)
{
    return 3 + (p->table ? route_table_lines(p->table) : 0)
           + (p->owners ? LINES(p->owners->endpoints.count * sizeof(image_endpoint)) : 0);
}

/* Whether no counts are on their way from a former table. */
PRIVATE bool routes_rest(const core_routes *p) { return !p->former; }

PRIVATE bool routes_fit(const core_routes *p) { return !p->table || route_table_fits(p->table); }

GLUE uint64_t routes_mark(void)
{
    return sizeof(image_routes) | sizeof(image_table) << 8 | sizeof(image_slot) << 16 | sizeof(image_endpoint) << 24;
}

/* ---- parts ---- */

static uint32_t slots_part(const route_table *t, uint32_t *at, uint8_t *octets)
{
    uint32_t count = 0;
    for (; *at <= t->mask && count < PARTED(image_slot); ++*at) {
        const route_slot *s = &t->slot[*at];
        if (s->target == ROUTE_FREE) continue;
        const image_slot image = {.at = *at, .target = s->target, .type = s->type, .subscription = s->subscription,
            .turns = route_slot_turns(t, s)};
        memcpy(octets + count++ * sizeof image, &image, sizeof image);
    }
    return count * (uint32_t) sizeof(image_slot);
}

/* A part of an array of `count` items of so many octets. */
static uint32_t array_part(const void *items, uint32_t count, uint32_t bytes, uint32_t *at, uint8_t *octets)
{
    const uint32_t left = count - *at, part = left < ROUTES_PART / bytes ? left : ROUTES_PART / bytes;
    if (part) memcpy(octets, (const uint8_t *) items + (size_t) *at * bytes, (size_t) part * bytes);
    *at += part;
    return part * bytes;
}

static uint32_t endpoints_part(const route_endpoints *all, uint32_t *at, uint8_t *octets)
{
    uint32_t count = 0;
    for (; *at < all->count && count < PARTED(image_endpoint); ++*at) {
        const route_endpoint *e = &all->at[*at];
        const image_endpoint image = {.hash = e->hash, .sent = e->sent, .missed = e->missed,
            .address = e->address ? e->address->node.index + 1 : 0};
        memcpy(octets + count++ * sizeof image, &image, sizeof image);
    }
    return count * (uint32_t) sizeof(image_endpoint);
}

static uint32_t table_about(const route_table *t, uint8_t *octets)
{
    const image_table image = {.bits = 64 - t->shift, .entries = t->entries, .keys = t->keys,
        .specials = t->special_count, .senders = t->senders, .words = t->words, .endpoints = t->endpoints.count};
    memcpy(octets, &image, sizeof image);
    return sizeof image;
}

/* The next part of a table; `kind`: from ENTRY_TABLE to ENTRY_ENDPOINTS.  0: there is no more of this kind. */
static uint32_t table_part(const route_table *t, uint32_t kind, uint32_t *at, uint8_t *octets)
{
    switch (kind) {
    case ENTRY_TABLE: return (*at)++ ? 0 : table_about(t, octets);
    case ENTRY_SLOTS: return slots_part(t, at, octets);
    case ENTRY_SPECIALS: return array_part(t->special, t->special_count, sizeof *t->special, at, octets);
    case ENTRY_SENDERS: return array_part(t->sender, t->senders, sizeof *t->sender, at, octets);
    case ENTRY_WORDS: return array_part(t->word, t->words, sizeof *t->word, at, octets);
    default: return endpoints_part(&t->endpoints, at, octets);
    }
}

/* Writes the next part of a table, and returns its kind; 0: there is no more. */
GLUE uint32_t route_table_part(const route_table *t, routes_cursor *k, uint8_t *octets, uint32_t *length)
{
    if (k->kind < ENTRY_TABLE) *k = (routes_cursor) {.kind = ENTRY_TABLE};
    for (; k->kind <= ENTRY_ENDPOINTS; k->kind++, k->at = 0)
        if ((*length = table_part(t, k->kind, &k->at, octets))) return k->kind;
    return 0;
}

static uint32_t routes_about(const core_routes *p, uint8_t *octets)
{
    image_routes image = {.counts = {p->routed, p->no_entry, p->no_endpoint, p->no_owner, p->refused},
        .address = p->address->node.index + 1, .skip_dead = p->skip_dead, .closed = p->closed,
        .table = p->table != NULL, .owners = p->owners != NULL};
    memcpy(image.unroutable, p->unroutable, sizeof image.unroutable);
    memcpy(octets, &image, sizeof image);
    return sizeof image;
}

/* The same of a table in use, with what else it has. */
PRIVATE uint32_t routes_part(const core_routes *p, routes_cursor *k, uint8_t *octets, uint32_t *length)
{
    uint32_t kind;
    if (!k->kind) {
        *k = (routes_cursor) {.kind = ENTRY_ROUTES};
        *length = routes_about(p, octets);
        return ENTRY_ROUTES;
    }
    if (k->kind <= ENTRY_ENDPOINTS && p->table && (kind = route_table_part(p->table, k, octets, length))) return kind;
    if (k->kind < ENTRY_OWNERS) *k = (routes_cursor) {.kind = ENTRY_OWNERS};
    *length = p->owners ? endpoints_part(&p->owners->endpoints, &k->at, octets) : 0;
    return *length ? ENTRY_OWNERS : 0;
}
