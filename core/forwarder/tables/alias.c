/* Addresses as senders spell them, for anonymous links: scope and text -> address, or that the scope has no right to
 * it.
 *
 * A scope stands for the rights of some links (vhost policy); its number is never used again, so what was found out for
 * it cannot be taken for another's.  Python resolves a text once (normalisation, patterns) and inserts it here; later
 * messages find it without Python.  Bounded: when the table is full, a sweep takes out what was not looked up since the
 * last one.  An address that has neither links nor aliases is unused and may be forgotten.
 */
#include "core/forwarder/tables/access.h"

PRIVATE inline core_alias *alias_find(core_alias_table *t, uint32_t scope, const uint8_t *text, uint32_t length)
{
    if (!t->room) return NULL;
    uint64_t hash = alias_hash(t->seed + scope, text, length);
    for (uint32_t i = (uint32_t) hash & (t->room - 1);; i = (i + 1) & (t->room - 1)) {
        core_alias *a = t->slot[i];
        if (!a) return NULL;
        if (a->hash == hash && a->length == length && a->scope == scope && !memcmp(a->text, text, length)) {
            a->used = true;
            return a;
        }
    }
}

static void alias_place(core_alias_table *t, core_alias *a)
{
    uint32_t i = (uint32_t) a->hash & (t->room - 1);
    while (t->slot[i]) i = (i + 1) & (t->room - 1);
    t->slot[i] = a;
    t->count++;
}

static bool alias_grow(core_alias_table *t)
{
    core_alias_table larger = {.room = t->room ? t->room * 2 : 256, .seed = t->seed, .sweep = t->sweep};
    larger.slot = (core_alias **) calloc(larger.room, sizeof *larger.slot);
    if (!larger.slot) return false;
    for (uint32_t i = 0; i < t->room; i++)
        if (t->slot[i]) alias_place(&larger, t->slot[i]);
    free(t->slot);
    *t = larger;
    return true;
}

static void alias_remove_at(core_alias_table *t, uint32_t at)
{
    core_alias *a = t->slot[at];
    if (a->prev) a->prev->next = a->next;
    else if (a->address) a->address->aliases = a->next;
    if (a->next) a->next->prev = a->prev;
    free(a);
    t->slot[at] = NULL;
    t->count--;
    uint32_t mask = t->room - 1;
    for (uint32_t i = (at + 1) & mask; t->slot[i]; i = (i + 1) & mask) {
        uint32_t home = (uint32_t) t->slot[i]->hash & mask;
        if (((i - home) & mask) < ((i - at) & mask)) continue;
        t->slot[at] = t->slot[i];
        t->slot[i] = NULL;
        at = i;
    }
}

/* Forgets every spelling of an address: it has lost its last link. */
PRIVATE void alias_drop_all(core_router *c, core_address *address)
{
    core_alias_table *t = &c->aliases;
    while (address->aliases) {
        uint32_t i = (uint32_t) address->aliases->hash & (t->room - 1);
        while (t->slot[i] != address->aliases) i = (i + 1) & (t->room - 1);
        alias_remove_at(t, i);
    }
}

/* Whether an address has links here or at another router, or something of the router's own holds it. */
GLUE bool address_used(const core_address *a)
{
    return a->out_count || a->in_count || a->holds || mask_any(&a->remotes);
}
GLUE bool address_idle(const core_address *a) { return !a->aliases && !address_used(a); }

/* Takes one alias out: the first one behind the last sweep's end that was not used since the sweep passed it.  Returns
 * its address if nothing uses that any more. */
static core_address *alias_evict(core_alias_table *t)
{
    for (uint32_t step = 0; step < 2 * t->room; step++) {
        uint32_t at = t->sweep++ & (t->room - 1);
        core_alias *a = t->slot[at];
        if (!a) continue;
        if (!a->used) {
            core_address *address = a->address;
            alias_remove_at(t, at);
            return address && address_idle(address) ? address : NULL;
        }
        a->used = false;
    }
    return NULL;
}

/* `address` NULL: the scope has no right to it.  False only when memory is used up.  `evicted`: an address that has
 * become idle to make room, or NULL. */
GLUE bool alias_insert(core_router *c, uint32_t scope, const uint8_t *text, uint32_t length, core_address *address,
                       bool agent, core_address **evicted)
{
    core_alias_table *t = &c->aliases;
    if (alias_find(t, scope, text, length)) return true;
    if (t->count >= ALIAS_LIMIT) *evicted = alias_evict(t);
    if (*evicted == address) *evicted = NULL;   /* about to be used again */
    if (t->count * 2 >= t->room && !alias_grow(t)) return false;
    core_alias *a = (core_alias *) malloc(sizeof *a + length);
    if (!a) return false;
    *a = (core_alias) {
        .hash = alias_hash(t->seed + scope, text, length), .address = address, .scope = scope,
        .next = address ? address->aliases : NULL, .used = true, .agent = agent, .length = length,
    };
    memcpy(a->text, text, length);
    if (a->next) a->next->prev = a;
    if (address) address->aliases = a;
    alias_place(t, a);
    return true;
}
