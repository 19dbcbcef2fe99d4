/* Builds route tables (table.h), and moves counts from one table to the next. */
#include "core/forwarder/tables/access.h"
#include "core/rmr/forwarding/table.h"

/* Counts on after 2^32 messages of an entry.  Without memory only the count is lost. */
GLUE void route_wrap(route_table *t, const route_slot *s)
{
    if (!t->wraps) t->wraps = (uint32_t *) calloc((size_t) t->mask + 1, sizeof *t->wraps);
    if (t->wraps) t->wraps[s - t->slot]++;
}

/* ---- building ---- */

GLUE void route_table_free(route_table *t)
{
    if (!t) return;
    free(t->slot);
    free(t->wraps);
    free(t->special);
    free(t->heir);
    free(t->endpoints.at);
    free(t);
}

/* Returns the number of a new special, or ROUTE_NONE without memory. */
static uint32_t route_add_special(route_table *t, uint32_t senders, uint32_t count, uint32_t target)
{
    if (t->special_count == t->special_room) {
        uint32_t room = t->special_room ? t->special_room * 2 : 64;
        route_special *grown = (route_special *) realloc(t->special, sizeof *grown * room);
        if (!grown) return ROUTE_NONE;
        t->special = grown;
        t->special_room = room;
    }
    t->special[t->special_count] = (route_special) {.senders = senders, .sender_count = count, .target = target,
        .next = ROUTE_NONE};
    return t->special_count++;
}

/* Adds a row.  The last row is added first, so the first of a key wins, and only an entry for certain senders has
 * successors.  Until the table is built the first special of a key has the number of its last one in `turn`. */
static bool route_add_row(route_table *t, const route_columns *from, uint32_t row, uint32_t senders, uint32_t count)
{
    uint32_t target = from->target[row] == ROUTE_NONE ? ROUTE_GONE : from->place[from->target[row]];
    uint32_t i = route_home(t, route_key(from->type[row], from->subscription[row]));
    while (t->slot[i].target != ROUTE_FREE && (t->slot[i].type != from->type[row]
                                               || t->slot[i].subscription != from->subscription[row]))
        i = (i + 1) & t->mask;
    route_slot *s = &t->slot[i];
    bool fresh = s->target == ROUTE_FREE;
    uint32_t last = ROUTE_NONE;
    if (!fresh) {
        if (!(s->target & ROUTE_SPECIAL)) return true;
        last = (uint32_t) t->special[s->target & ~ROUTE_SPECIAL].turn;
        if (!t->special[last].sender_count) return true;
    }
    t->entries += target != ROUTE_GONE;
    t->keys += fresh;
    if (fresh) *s = (route_slot) {.type = from->type[row], .subscription = from->subscription[row], .target = target};
    if (fresh && !count) return true;
    uint32_t number = route_add_special(t, senders, count, target);
    if (number == ROUTE_NONE) return false;
    if (fresh) s->target = ROUTE_SPECIAL | number;
    else t->special[last].next = number;
    t->special[s->target & ~ROUTE_SPECIAL].turn = number;
    return true;
}

static bool route_same_senders(const route_table *t, const route_special *a, const route_table *u,
                               const route_special *b)
{
    return a->sender_count == b->sender_count
           && !memcmp(t->sender + a->senders, u->sender + b->senders, a->sender_count * sizeof *t->sender);
}

/* Where the special of a slot is that has the senders of one of some table, or has its place. */
static route_heir *route_heir_of(const route_table *t, uint32_t slot, const route_table *from, const route_special *one)
{
    uint64_t hash = slot;
    for (uint32_t i = 0; i < one->sender_count; i++)
        hash = (hash ^ from->sender[one->senders + i]) * 0x9e3779b97f4a7c15ull;
    for (uint32_t i = (uint32_t) (hash ^ hash >> 32) & t->heir_mask;; i = (i + 1) & t->heir_mask) {
        route_heir *heir = &t->heir[i];
        if (heir->slot == ROUTE_NONE
            || (heir->slot == slot && route_same_senders(t, &t->special[heir->special], from, one))) return heir;
    }
}

/* Makes the specials be found by key and senders: of those with the same senders the first one, as the others never
 * win.  False: no memory, or two keys have the same one. */
PRIVATE bool route_index(route_table *t)
{
    uint64_t room = 16;
    uint32_t left = t->special_count;
    while (room < 2ull * left) room *= 2;
    if (!left) return true;
    if (!(t->heir = (route_heir *) malloc(room * sizeof *t->heir))) return false;
    memset(t->heir, 0xff, room * sizeof *t->heir);
    t->heir_mask = (uint32_t) (room - 1);
    for (uint32_t slot = 0; slot <= t->mask; slot++) {
        const uint32_t target = t->slot[slot].target;
        if (target == ROUTE_FREE || !(target & ROUTE_SPECIAL)) continue;
        for (uint32_t i = target & ~ROUTE_SPECIAL; i != ROUTE_NONE; i = t->special[i].next) {
            if (!left--) return false;
            route_heir *heir = route_heir_of(t, slot, t, &t->special[i]);
            if (heir->slot == ROUTE_NONE) *heir = (route_heir) {.slot = slot, .special = i};
        }
    }
    return true;
}

/* Returns a table, or NULL without memory.  The caller fills in the endpoints, and keeps `word` and `sender`. */
GLUE route_table *route_build(const route_columns *from, uint32_t endpoints)
{
    route_table *t = (route_table *) calloc(1, sizeof *t);
    uint32_t bits = 4;
    while ((1ull << bits) < (uint64_t) from->rows * 2) bits++;
    size_t slots = (size_t) 1 << bits;
    if (!t) return NULL;
    t->shift = 64 - bits;
    t->mask = (uint32_t) (slots - 1);
    t->word = from->word;
    t->sender = from->sender;
    t->words = from->words;
    t->senders = from->senders;
    t->endpoints.count = endpoints;
    t->endpoints.at = (route_endpoint *) calloc(endpoints ? endpoints : 1, sizeof *t->endpoints.at);
    t->slot = (route_slot *) aligned_alloc(64, slots * sizeof *t->slot);
    bool made = t->slot && t->endpoints.at;
    if (made) memset(t->slot, 0xff, slots * sizeof *t->slot);
    uint32_t special = from->sender_rows;
    for (uint32_t row = from->rows; made && row--;) {
        bool sent = special && from->sender_row[special - 1] == row;
        if (sent) special--;
        uint32_t start = sent ? from->sender_start[special] : 0;
        made = route_add_row(t, from, row, start, sent ? from->sender_start[special + 1] - start : 0);
    }
    for (uint32_t i = 0; i < t->special_count; i++) t->special[i].turn = 0;
    if (made && route_index(t)) return t;
    route_table_free(t);
    return NULL;
}

/* ---- counts of entries, from the former table to the next ---- */

static void route_inherit_specials(route_table *t, const route_slot *s, const route_table *from, const route_slot *old)
{
    for (uint32_t i = old->target & ~ROUTE_SPECIAL; i != ROUTE_NONE; i = from->special[i].next) {
        const route_heir *heir = route_heir_of(t, (uint32_t) (s - t->slot), from, &from->special[i]);
        if (heir->slot != ROUTE_NONE) t->special[heir->special].turn += from->special[i].turn;
    }
}

/* Adds the counts of `limit` slots of the former table from slot `at` on, and returns the next slot. */
PRIVATE uint32_t route_inherit(route_table *t, const route_table *from, uint32_t at, uint32_t limit)
{
    for (; limit-- && at <= from->mask; at++) {
        const route_slot *old = &from->slot[at];
        if (old->target == ROUTE_FREE || (!(old->target & ROUTE_SPECIAL) && !old->turn && !from->wraps)) continue;
        route_slot *s = route_slot_of(t, old->type, old->subscription);
        if (!s || (s->target & ROUTE_SPECIAL) != (old->target & ROUTE_SPECIAL)) continue;
        if (s->target & ROUTE_SPECIAL) {
            route_inherit_specials(t, s, from, old);
            continue;
        }
        uint64_t total = route_slot_turns(t, s) + route_slot_turns(from, old);
        s->turn = (uint32_t) total;
        if (total >> 32 && !t->wraps) route_wrap(t, s);
        if (t->wraps) t->wraps[s - t->slot] = (uint32_t) (total >> 32);
    }
    return at;
}
