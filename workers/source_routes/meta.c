/* The rules of metadata at wrappers, unwrappers and borders of scopes (tests/model/source_routes/metadata.py is the
 * same in Python). */
#include <string.h>

#include "workers/source_routes/source_routes.h"

static void level_drop_meta(route_level *l, uint32_t at)
{
    l->meta_octets -= l->meta[at].octets;
    memmove(&l->meta[at], &l->meta[at + 1], (l->meta_count - at - 1) * sizeof *l->meta);
    l->meta_count--;
    if (l->trace == at + 1) l->trace = l->added_count = 0;
    else if (l->trace > at + 1) l->trace--;
}

/* A worker's address for who collects them.  False: there is no room for more. */
PRIVATE inline void level_collect(route_level *l, const route_stop *text)
{
    if (!l->trace || l->added_count == sizeof l->added / sizeof *l->added) return;
    l->added[l->added_count++] = text;
    l->meta[l->trace - 1].octets += text->length;
    l->meta_octets += text->length;
}

/* Leaving the scope. */
PRIVATE inline void level_leave(route_level *l)
{
    for (uint32_t i = l->meta_count; i-- > 0;) if (l->meta[i].class == ROUTE_LOCAL) level_drop_meta(l, i);
}

/* What stands outside a wrapper of what the level has. */
PRIVATE inline void level_outside(route_level *l, const route_worker *w)
{
    for (uint32_t i = l->meta_count; i-- > 0;) {
        const route_meta *m = &l->meta[i];
        bool named = w->metadata == ROUTE_META_COPY
                     || (w->metadata == ROUTE_META_KEYS
                         && route_listed(&w->keys, &(route_stop) { m->name, (uint16_t) m->name_size, 0 }));
        if (m->class != ROUTE_APPEND && !(m->class == ROUTE_CARRY && named)) level_drop_meta(l, i);
    }
}

/* A list of two lists' values, or of one's and of what was collected behind them.  False: out of memory. */
static bool meta_join(route_run *r, route_meta *m, const amqp_octets *more, uint32_t count,
                      const route_stop *const *added, uint32_t added_count)
{
    size_t size = AMQP_HEAD_MAX + m->items_size + more->size;
    for (uint32_t i = 0; i < added_count; i++) size += amqp_octets_size(added[i]->length);
    uint8_t *value = route_room(r, size);
    if (!value) return false;
    uint8_t *to = value + AMQP_HEAD_MAX;
    memcpy(to, m->items, m->items_size);
    to += m->items_size;
    if (more->size) memcpy(to, more->at, more->size);
    to += more->size;
    for (uint32_t i = 0; i < added_count; i++) to = amqp_put_shortest(to, AMQP_STRING8, added[i]->at, added[i]->length);
    m->value = value;
    m->value_size = (uint32_t) size;
    m->items_size = (uint32_t) size - AMQP_HEAD_MAX;
    m->items_count += count + added_count;
    m->items = amqp_put_items_head(value, AMQP_LIST32, m->items_size, m->items_count);
    return true;
}

/* What was collected becomes part of the list. */
static bool level_settle(route_run *r, route_level *l)
{
    if (!l->trace || !l->added_count) return true;
    bool done = meta_join(r, &l->meta[l->trace - 1], &(amqp_octets) { NULL, 0 }, 0, l->added, l->added_count);
    l->added_count = 0;
    return done;
}

/* A list that both have: the one outside if that is the one inside with more behind it, else one behind the other. */
static bool meta_merge(route_run *r, route_level *in, route_meta *mine, const route_meta *theirs)
{
    if (!mine->items || !theirs->items) return true;
    uint32_t before = mine->octets;
    if (theirs->items_size >= mine->items_size && theirs->items_count >= mine->items_count
        && !memcmp(theirs->items, mine->items, mine->items_size)) {
        route_meta found = *theirs;
        found.key = mine->key;
        found.key_size = mine->key_size;
        *mine = found;
    } else {
        if (!meta_join(r, mine, &(amqp_octets) { theirs->items, theirs->items_size }, theirs->items_count, NULL, 0))
            return false;
        mine->octets += theirs->octets - theirs->name_size;
    }
    in->meta_octets += mine->octets - before;
    return true;
}

/* Of the message around it: what was appended there, and with `merge` what else stands there. */
PRIVATE inline enum route_result level_merge(route_run *r, route_level *in, route_level *out, bool merge)
{
    bool done = level_settle(r, in) && level_settle(r, out);
    for (uint32_t i = 0; done && i < out->meta_count; i++) {
        const route_meta *theirs = &out->meta[i];
        route_meta *mine = level_find_meta(in, theirs);
        if (theirs->class == ROUTE_LOCAL) continue;
        if (mine && theirs->class == ROUTE_APPEND) done = meta_merge(r, in, mine, theirs);
        else if (!mine && (theirs->class == ROUTE_APPEND || merge)) {
            if (in->meta_count == UINT8_MAX)
                return route_refuse(r, ROUTE_METADATA, NULL, "there are more than 255 metadata keys");
            level_add_meta(in, theirs);
        }
    }
    return done ? ROUTE_DONE : route_refuse(r, ROUTE_METADATA, NULL, "the router is out of memory");
}
