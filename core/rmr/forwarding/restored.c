/* Route tables that a recording describes (image.h).  It is a file from anywhere: a lookup in a table that passed here
 * ends, and stays inside the table. */
#include "core/rmr/forwarding/image.h"

#define REFUSE(condition, why) do { if (condition) return (why); } while (0)

/* ---- groups ---- */

typedef struct {
    const uint32_t *word;
    uint32_t words, endpoints, left;   /* `left`: words that targets may still have, as none share any */
    uint8_t *seen;             /* by word: a target begins there, and has been checked */
} group_check;

/* Whether groups begin at a word, with members that are endpoints. */
static bool target_valid(group_check *g, uint32_t target)
{
    if (target >= g->words) return false;
    if (g->seen[target]) return true;
    g->seen[target] = 1;
    uint64_t at = target + 1ull;
    for (uint32_t groups = g->word[target]; groups; groups--) {
        if (at >= g->words || !g->word[at] || g->word[at] > ROUTE_MEMBERS) return false;
        const uint64_t end = at + 1 + g->word[at];
        if (end > g->words || end - target > g->left) return false;
        while (++at < end)
            if (g->word[at] >= g->endpoints) return false;
    }
    if (at - target > g->left) return false;
    g->left -= (uint32_t) (at - target);
    return true;
}

/* ---- entries ---- */

static const char *specials_restore(route_table *t, const image_parts *from, group_check *g)
{
    uint64_t senders = 0;
    t->special = (route_special *) malloc((from->about.specials + 1u) * sizeof *t->special);
    REFUSE(!t->special, "there is no memory for its tables");
    for (uint32_t i = 0; i < from->about.specials; i++) {
        const route_special *s = &from->special[i];
        senders += s->sender_count;
        REFUSE((s->next != ROUTE_NONE && (s->next <= i || s->next >= from->about.specials))
               || s->senders > from->about.senders || s->sender_count > from->about.senders - s->senders
               || senders > from->about.senders || (s->target != ROUTE_GONE && !target_valid(g, s->target)),
               "an entry for certain senders makes no sense");
        t->special[i] = *s;
    }
    t->special_count = t->special_room = from->about.specials;
    return NULL;
}

static const char *slots_restore(route_table *t, const image_parts *from, group_check *g)
{
    uint64_t next = 0;
    for (uint32_t i = 0; i < from->about.keys; i++) {
        const image_slot *s = &from->slot[i];
        const bool special = s->target & ROUTE_SPECIAL;
        REFUSE(s->at < next || s->at > t->mask
               || (special ? (s->target & ~ROUTE_SPECIAL) >= from->about.specials
                   : s->target != ROUTE_GONE && !target_valid(g, s->target)),
               "an entry of a route table makes no sense");
        next = s->at + 1ull;
        t->slot[s->at] = (route_slot) {.type = s->type, .subscription = s->subscription, .target = s->target,
            .turn = (uint32_t) s->turns};
        if (!(s->turns >> 32)) continue;
        if (!t->wraps) t->wraps = (uint32_t *) calloc((size_t) t->mask + 1, sizeof *t->wraps);
        REFUSE(!t->wraps, "there is no memory for its tables");
        t->wraps[s->at] = (uint32_t) (s->turns >> 32);
    }
    return NULL;
}

static const char *table_filled(route_table *t, const image_parts *from)
{
    group_check g = {.word = from->word, .words = from->about.words, .endpoints = from->about.endpoints,
        .left = from->about.words};
    g.seen = (uint8_t *) calloc(g.words + 1u, 1);
    const char *wrong = g.seen ? specials_restore(t, from, &g) : "there is no memory for its tables";
    if (!wrong) wrong = slots_restore(t, from, &g);
    free(g.seen);
    if (!wrong && !route_index(t)) wrong = "an entry for certain senders makes no sense";
    return wrong;
}

/* Makes the table that the parts describe; the caller keeps words and senders, and fills in the endpoints' names and
 * addresses.  NULL, or what is wrong. */
GLUE const char *route_restore(const image_parts *from, route_table **table)
{
    const image_table *about = &from->about;
    REFUSE(about->bits < 4 || about->bits > ROUTE_IMAGE_BITS || about->keys > (1u << about->bits) / 2
           || about->specials >= ROUTE_SPECIAL, "a route table has no such size");
    const size_t slots = (size_t) 1 << about->bits;
    route_table *t = *table = (route_table *) calloc(1, sizeof *t);
    REFUSE(!t, "there is no memory for its tables");
    t->shift = 64 - about->bits;
    t->mask = (uint32_t) (slots - 1);
    t->entries = about->entries;
    t->keys = about->keys;
    t->words = about->words;
    t->senders = about->senders;
    t->word = from->word;
    t->sender = from->sender;
    t->endpoints.count = about->endpoints;
    t->endpoints.at = (route_endpoint *) calloc(about->endpoints + 1u, sizeof *t->endpoints.at);
    t->slot = (route_slot *) aligned_alloc(64, slots * sizeof *t->slot);
    const char *wrong = "there is no memory for its tables";
    if (t->slot && t->endpoints.at) {
        memset(t->slot, 0xff, slots * sizeof *t->slot);
        wrong = table_filled(t, from);
    }
    if (!wrong) return NULL;
    route_table_free(t);
    *table = NULL;
    return wrong;
}

/* ---- what has been counted ---- */

/* The address of a number; NULL: there is none. */
GLUE core_address *address_numbered(const core_router *c, uint32_t number)
{
    if (!number || number > pool_size(&c->addresses)) return NULL;
    pool_node *n = pool_at(&c->addresses, number - 1);
    return n->generation && pool_live(n) ? (core_address *) n : NULL;
}

GLUE void endpoints_restore(route_endpoints *to, const image_endpoint *from)
{
    for (uint32_t i = 0; i < to->count; i++) to->at[i].sent = from[i].sent, to->at[i].missed = from[i].missed;
}

/* Restores what a table in use has counted, and whether it is open: its senders' credit says so already. */
GLUE void routes_restore(core_routes *p, const image_routes *image)
{
    uint64_t *const counts[] = {&p->routed, &p->no_entry, &p->no_endpoint, &p->no_owner, &p->refused};
    for (uint32_t i = 0; i < 5; i++) *counts[i] = image->counts[i];
    memcpy(p->unroutable, image->unroutable, sizeof p->unroutable);
    p->skip_dead = image->skip_dead;
    p->closed = image->closed;
}
