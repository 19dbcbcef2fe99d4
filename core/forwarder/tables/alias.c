/* Addresses as senders spell them, for anonymous links: scope and text -> address, or that the scope has no right to
 * it.
 *
 * A scope stands for the rights of some links (vhost policy); its number is never used again, so what was found out for
 * it cannot be taken for another's.  Python resolves a text once (normalisation, patterns) and inserts it here; later
 * messages find it without Python.  An address that has neither links nor aliases is unused and may be forgotten.
 *
 * Bounded by what they cost in memory: beyond it a sweep takes out some that were not looked up since the last one.
 * Another sweep, a portion at a time, takes out what nobody has looked up for some minutes.  A message only marks the
 * text that it finds.
 * The table grows by one bucket for each alias (linear hashing), and shrinks by two for each one less while a quarter
 * of them is in use, so that nobody waits while all are put elsewhere.
 */
#include "core/forwarder/tables/access.h"

#define ALIAS_FIRST 256u               /* buckets in the beginning */
#define ALIAS_COST 512u                /* bytes of an alias beside its text, with an address of its own here and in
                                        * Python */
#define ALIAS_TEXTS 2u                 /* and its text stands so often in memory */
#define ALIAS_LOOKS 8u                 /* aliases looked at to find one that is not used */
#define ALIAS_STEPS 64u                /* buckets */

#define ALIAS_EVICTION 1u              /* marks of `used`: each sweep takes away its own */
#define ALIAS_IDLENESS 2u
#define ALIAS_USED (ALIAS_EVICTION | ALIAS_IDLENESS)

#define ALIAS_SECOND 1000000000ull     /* nanoseconds */
#define ALIAS_PASS (60 * ALIAS_SECOND) /* of the sweep for idle ones, through the whole table */
#define ALIAS_IDLE 300u                /* seconds since `seen`: it goes.  That is 5 to 7 minutes after its last use */
#define ALIAS_PORTION 1024u            /* buckets looked at in one step, at most */
#define ALIAS_STEP_LEAST 1000000ull    /* nanoseconds between two steps */
#define ALIAS_STEP_MOST ALIAS_SECOND

static inline core_alias **alias_bucket(const core_alias_table *t, uint64_t hash)
{
    const uint32_t at = (uint32_t) hash & (2 * t->room - 1);
    return &t->bucket[at < t->room + t->split ? at : at & (t->room - 1)];
}

static inline core_alias *alias_search(const core_alias_table *t, uint64_t hash, uint32_t scope, const uint8_t *text,
                                       uint32_t length)
{
    core_alias *a = t->room ? *alias_bucket(t, hash) : NULL;
    while (a && (a->hash != hash || a->length != length || a->scope != scope || memcmp(a->text, text, length)))
        a = a->chain;
    return a;
}

/* A number made of a text in next to no time, which others may make of theirs, too. */
static INLINED uint64_t alias_sketch(uint32_t scope, const uint8_t *text, uint32_t length)
{
    uint64_t first, last;
    if (length < 8) {
        first = last = sip_rest(text, length);
    } else {
        memcpy(&first, text, 8);
        memcpy(&last, text + length - 8, 8);
    }
    return (first + scope) * 0xff51afd7ed558ccdull ^ (last + length) * 0xc4ceb9fe1a85ec53ull;
}

/* What was found lately is found by its sketch.  Who makes the sketches of many texts alike has the table searched for
 * each of them, no more. */
PRIVATE inline core_alias *alias_find(core_alias_table *t, uint32_t scope, const uint8_t *text, uint32_t length)
{
    const uint64_t sketch = alias_sketch(scope, text, length);
    const uint32_t at = (uint32_t) (sketch >> 56);
    core_alias *a = t->recent[at].alias;
    if (!a || t->recent[at].sketch != sketch || a->length != length || a->scope != scope
        || memcmp(a->text, text, length)) {
        a = alias_search(t, alias_hash_in(t->seed, scope, text, length), scope, text, length);
        if (!a) return NULL;
        t->recent[at].sketch = sketch;
        t->recent[at].alias = a;
    }
    a->used = ALIAS_USED;
    return a;
}

/* Room for twice as many buckets.  The kernel moves large arrays without copying them. */
static bool alias_room(core_alias_table *t)
{
    uint32_t room = t->room ? t->room * 2 : ALIAS_FIRST;
    core_alias **grown = (core_alias **) realloc(t->bucket, 2ull * room * sizeof *grown);
    if (!grown) return false;
    if (!t->room) memset(grown, 0, room * sizeof *grown);
    t->bucket = grown;
    t->room = room;
    t->split = 0;
    return true;
}

/* Divides one bucket. */
static bool alias_split(core_alias_table *t)
{
    if ((!t->room || t->split == t->room) && !alias_room(t)) return false;
    core_alias *a = t->bucket[t->split], **low = &t->bucket[t->split], **high = &t->bucket[t->room + t->split];
    t->split++;
    *low = *high = NULL;
    for (core_alias *chain; a; a = chain) {
        core_alias **to = alias_bucket(t, a->hash);
        chain = a->chain;
        a->chain = *to;
        *to = a;
    }
    return true;
}

/* Joins the two buckets that were divided last. */
static void alias_join(core_alias_table *t)
{
    if (!t->split) {
        if (t->room == ALIAS_FIRST) return;
        t->room /= 2;
        t->split = t->room;
        core_alias **less = (core_alias **) realloc(t->bucket, 2ull * t->room * sizeof *less);
        if (less) t->bucket = less;
    }
    t->split--;
    core_alias **at = &t->bucket[t->split];
    while (*at) at = &(*at)->chain;
    *at = t->bucket[t->room + t->split];
}

static uint64_t alias_cost(uint32_t length) { return ALIAS_COST + (uint64_t) length * ALIAS_TEXTS; }

static void alias_remove(core_alias_table *t, core_alias *a)
{
    core_alias **at = alias_bucket(t, a->hash);
    while (*at != a) at = &(*at)->chain;
    *at = a->chain;
    const uint32_t recent = (uint32_t) (alias_sketch(a->scope, a->text, a->length) >> 56);
    if (t->recent[recent].alias == a) t->recent[recent].alias = NULL;
    if (a->prev) a->prev->next = a->next;
    else if (a->address) a->address->aliases = a->next;
    if (a->next) a->next->prev = a->prev;
    t->count--;
    t->bytes -= alias_cost(a->length);
    free(a);
    for (int i = 0; i < 2 && t->count < (t->room + t->split) / 4; i++) alias_join(t);
}

/* Removes a spelling that a sweep or an eviction chose, and records that: a replay does not sweep. */
static void alias_forget(core_router *c, core_alias *a)
{
    if (c->flight) {
        flight_line line = flight_about(c, FLIGHT_FORGOTTEN, 0);
        line.hash = a->hash;
        line.count = text_about_addresses(a->text, a->length) ? FLIGHT_TEXT_ABOUT : 0;
        flight_read(c, line, a->scope);
    }
    alias_remove(&c->aliases, a);
}

/* Forgets every spelling of an address: it has lost its last link. */
PRIVATE void alias_drop_all(core_router *c, core_address *address)
{
    while (address->aliases) alias_remove(&c->aliases, address->aliases);
}

/* Whether an address has links here or at another router, or an exchange or a link that has left it holds it. */
GLUE bool address_used(const core_address *a)
{
    return a->out_count || a->in_count || a->holds || mask_any(&a->remotes);
}
GLUE bool address_idle(const core_address *a) { return !a->aliases && !address_used(a); }

/* The next alias that was not used since the sweep passed it, or after some the next one of all. */
static core_alias *alias_spare(core_alias_table *t)
{
    core_alias *found = NULL;
    for (uint32_t step = 0, looks = 0; !found || (step < ALIAS_STEPS && looks < ALIAS_LOOKS); step++) {
        if (t->sweep >= t->room + t->split) t->sweep = 0;
        for (core_alias *a = t->bucket[t->sweep++]; a; a = a->chain) {
            if (!(a->used & ALIAS_EVICTION)) return a;
            a->used &= (uint8_t) ~ALIAS_EVICTION;
            found = a;
            looks++;
        }
    }
    return found;
}

/* Takes an alias out if they cost too much; false: they do not.  `idle`: its address, if nothing uses that any more, or
 * NULL. */
GLUE bool alias_evict(core_router *c, core_address **idle)
{
    core_alias_table *t = &c->aliases;
    *idle = NULL;
    if (t->bytes <= ALIAS_BYTES) return false;
    core_alias *a = alias_spare(t);
    core_address *address = a->address;
    alias_forget(c, a);
    if (address && address_idle(address)) *idle = address;
    return true;
}

/* Whether nobody has looked an alias up for ALIAS_IDLE seconds and more. */
static bool alias_is_idle(core_alias *a, uint16_t second)
{
    if (a->used & ALIAS_IDLENESS) {
        a->used &= (uint8_t) ~ALIAS_IDLENESS;
        a->seen = second;
    }
    return (uint16_t) (second - a->seen) >= ALIAS_IDLE;
}

/* Takes idle aliases of a bucket out, until `room` addresses are found that nothing uses any more; puts these into
 * `idle` and returns their number. */
static uint32_t alias_thin_bucket(core_router *c, uint32_t bucket, core_address **idle, uint32_t room)
{
    const uint16_t second = (uint16_t) (c->now / ALIAS_SECOND);
    uint32_t found = 0;
    for (core_alias *a = c->aliases.bucket[bucket], *chain; a && found < room; a = chain) {
        core_address *address = a->address;
        chain = a->chain;
        if (!alias_is_idle(a, second)) continue;
        alias_forget(c, a);
        if (address && address_idle(address)) idle[found++] = address;
    }
    return found;
}

/* Takes idle aliases out of as many buckets as are due at c->now, at most ALIAS_PORTION.  Puts addresses that nothing
 * uses any more into `idle`, which has room for ALIAS_IDLE_ROOM, and returns their number; `pause`: nanoseconds until
 * the next step. */
GLUE uint32_t alias_thin(core_router *c, core_address **idle, uint64_t *pause)
{
    core_alias_table *t = &c->aliases;
    uint32_t found = 0;
    *pause = ALIAS_STEP_MOST;
    if (!t->count) return 0;
    const uint64_t each = ALIAS_PASS / (t->room + t->split);
    if (c->now - t->thinned > ALIAS_PORTION * each) t->thinned = c->now - ALIAS_PORTION * each;
    for (; c->now - t->thinned >= each; t->thinned += each, t->thinning++) {
        if (t->thinning >= t->room + t->split) t->thinning = 0;
        found += alias_thin_bucket(c, t->thinning, idle + found, ALIAS_IDLE_ROOM - found);
        if (found == ALIAS_IDLE_ROOM) {        /* there may be more in this one */
            *pause = ALIAS_STEP_LEAST;
            return found;
        }
    }
    if (each * ALIAS_PORTION / 2 < *pause) *pause = each * ALIAS_PORTION / 2;
    return found;
}

/* `address` NULL: the scope has no right to it.  False only when memory is used up. */
GLUE bool alias_insert(core_router *c, uint32_t scope, const uint8_t *text, uint32_t length, core_address *address,
                       bool agent)
{
    core_alias_table *t = &c->aliases;
    const uint64_t hash = alias_hash_in(t->seed, scope, text, length);
    if (alias_search(t, hash, scope, text, length)) return true;
    if (t->count >= t->room + t->split && !alias_split(t)) return false;
    core_alias *a = (core_alias *) malloc(sizeof *a + length);
    if (!a) return false;
    core_alias **bucket = alias_bucket(t, hash);
    *a = (core_alias) {
        .hash = hash, .address = address, .chain = *bucket, .scope = scope,
        .next = address ? address->aliases : NULL, .used = ALIAS_USED, .agent = agent, .length = length,
    };
    memcpy(a->text, text, length);
    if (a->next) a->next->prev = a;
    if (address) address->aliases = a;
    *bucket = a;
    t->count++;
    t->bytes += alias_cost(length);
    return true;
}

PRIVATE void alias_close(core_alias_table *t)
{
    for (uint32_t i = 0; i < t->room + t->split; i++)
        for (core_alias *a = t->bucket[i], *chain; a; a = chain) {
            chain = a->chain;
            free(a);
        }
    free(t->bucket);
}

/* Forgets a text in a replay, where its hash in hexadecimal digits stands for it. */
GLUE void alias_forgotten(core_router *c, uint32_t scope, const uint8_t *text, uint32_t length)
{
    core_alias_table *t = &c->aliases;
    core_alias *a = alias_search(t, alias_hash_in(t->seed, scope, text, length), scope, text, length);
    if (a) alias_remove(t, a);
}
