/* Messages with a route key: their worker has told it with them, and a route table says who gets a copy.
 *
 *   no key, or a reserved message type      rejected, with the reason
 *   no entry; no owner; nobody is there     released, each counted for itself
 *   else                                    a copy to a member of each group, in turn; the outcomes of several are merged
 *
 * The sender's own endpoint gets none of its messages.  A group of which nobody is there gets no copy.
 */
#ifndef ROUTERD_CORE_KEYED_H
#define ROUTERD_CORE_KEYED_H

#include "deliver.h"
#include "route_plane.h"

#define KEYED_RESERVED 100u            /* message types below are RMR's own (spec, Reserved Message Types) */
#define KEYED_AHEAD 3u                 /* how many records ahead a slot is fetched */

typedef struct {
    uint64_t hash;             /* 0: it names no source */
    uint32_t length;
    uint8_t text[ROUTE_NAME];
} keyed_source;

/* The slot that a later message of this worker, as likely as not to the same table, will need. */
static inline void keyed_ahead(const core_router *c, const core_link *l, const route_table *t)
{
    const routerd_consumer *k = &c->worker[l->worker].actions;
    uint64_t at = k->next + KEYED_AHEAD;
    if (!k->ring || at >= k->head_seen) return;
    const routerd_record *r = &k->ring->slot[at & (k->capacity - 1)];
    if (r->type == A_DELIVER && r->state == KEY_FOUND) route_prefetch(t, (int32_t) r->delivery, (int32_t) (r->delivery >> 32));
}

/* The text that the record points at is not trusted. */
static void keyed_read_source(const core_router *c, const core_link *l, const routerd_record *r, keyed_source *source)
{
    uint8_t length;
    source->hash = 0;
    if (!r->credit || !content_copy(&c->arena[l->worker], r->block, r->credit - 1, &length, 1, CONTENT_HOPS)) return;
    if (!length || length > ROUTE_NAME || !content_copy(&c->arena[l->worker], r->block, r->credit, source->text, length, CONTENT_HOPS)) return;
    source->length = length;
    source->hash = alias_hash(c->aliases.seed, source->text, length);
}

static inline bool keyed_own(const route_endpoints *all, const route_endpoint *e, const keyed_source *source)
{
    return e->hash == source->hash && e->length == source->length && !memcmp(all->names + e->name, source->text, e->length);
}

/* Whose turn it is in a group; NULL: nobody's.  The dead are passed over, or (switched off) have their turn and miss it. */
static route_endpoint *keyed_member(const core_routes *p, const uint32_t *member, uint32_t count, uint64_t turn, const keyed_source *source)
{
    const route_endpoints *all = &p->table->endpoints;
    route_endpoint *left[ROUTE_MEMBERS], *found = NULL;
    uint32_t living = 0;
    for (uint32_t i = 0; i < count; i++) {
        route_endpoint *e = &all->at[member[i]];
        if (__builtin_expect(source->hash && keyed_own(all, e, source), 0)) continue;
        if (p->skip_dead && !route_alive(e)) {
            found = e;
            continue;
        }
        left[living++] = e;
    }
    if (living) found = living == 1 ? left[0] : left[turn % living];
    if (!found || route_alive(found)) return found;
    found->missed++;
    return NULL;
}

/* What the endpoint's receivers are sent is as any message to their address. */
static void keyed_send(core_router *c, core_in *in, route_endpoint *e, const routerd_record *r, uint32_t stream)
{
    core_address *a = e->address;
    core_past past = PAST_NONE;
    uint32_t before = in->copy_count;
    deliver_receivers(c, in, a, deliver_priority(a, r->priority), stream | a->phase, &past);
    if (in->copy_count != before) e->sent++;
    else e->missed++;
}

/* By the map of managed entities; NULL: nobody owns it. */
static route_endpoint *keyed_owner(const core_router *c, const core_routes *p, const core_link *l, const routerd_record *r)
{
    uint8_t meid[ROUTE_MEID];
    uint32_t length = (uint32_t) (r->extra >> 32);
    if (!p->owners || !length || length > ROUTE_MEID) return NULL;
    if (!content_copy(&c->arena[l->worker], r->block, (uint32_t) r->extra, meid, length, CONTENT_HOPS)) return NULL;
    return route_owner_of(p->owners, c->aliases.seed, meid, length);
}

static void keyed_copies(core_router *c, core_routes *p, core_in *in, const uint32_t *groups, uint64_t turn, const keyed_source *source, const routerd_record *r)
{
    uint32_t stream = in->flags & IN_COMPLETE ? 0 : SEND_STREAM, count = *groups++;
    if (count > 1) in->flags |= IN_MULTICAST;
    for (; count--; groups += *groups + 1) {
        route_endpoint *e = keyed_member(p, groups + 1, *groups, turn, source);
        if (e) keyed_send(c, in, e, r, stream);
    }
}

static void keyed_nowhere(core_router *c, core_link *l, const routerd_record *r, enum core_route why, uint64_t *count, uint32_t stat)
{
    ++*count;
    stats_add(c->stats, stat, 1);
    deliver_nowhere(c, l, r, why, l->address);
}

/* A message to a table: `l` is a keyed link. */
static void deliver_keyed(core_router *c, core_link *l, const routerd_record *r)
{
    core_routes *p = l->address->routes;
    uint64_t none = 0, turn = 0;       /* none: its table is gone */
    keyed_source source;
    stats_add(c->stats, STAT_RECEIVED, 1);
    if (r->flags & F_SETTLED) stats_add(c->stats, STAT_PRESETTLED, 1);
    if (r->state != KEY_FOUND || (uint32_t) r->delivery < KEYED_RESERVED) {
        keyed_nowhere(c, l, r, r->state == KEY_FOUND ? ROUTE_RESERVED : ROUTE_KEYLESS, p ? &p->refused : &none, STAT_KEYED_REFUSED);
        return;
    }
    route_table *t = p ? p->table : NULL;
    if (t) keyed_ahead(c, l, t);
    keyed_read_source(c, l, r, &source);
    uint32_t target = t ? route_find_target(t, (int32_t) r->delivery, (int32_t) (r->delivery >> 32), source.hash, &turn) : ROUTE_GONE;
    if (target == ROUTE_GONE) {
        keyed_nowhere(c, l, r, ROUTE_NOWHERE, p ? &p->no_entry : &none, STAT_KEYED_NO_ENTRY);
        return;
    }
    const uint32_t *groups = t->word + target;
    route_endpoint *owner = *groups ? NULL : keyed_owner(c, p, l, r);
    if (!*groups && !owner) {
        keyed_nowhere(c, l, r, ROUTE_NOWHERE, &p->no_owner, STAT_KEYED_NO_OWNER);
        return;
    }
    core_in *in = deliver_in(c, l, r);
    if (__builtin_expect(c->flow != NULL, 0)) flow_note(c, l, in, l->address, deliver_priority(l->address, r->priority), r);
    if (in->flags & IN_PRESETTLED) in->flags |= IN_MULTICAST;   /* one endpoint that is slow holds up no messages to others */
    l->address->ingress += !link_trunk(l);
    if (!owner) keyed_copies(c, p, in, groups, turn, &source, r);
    else if (route_alive(owner)) keyed_send(c, in, owner, r, in->flags & IN_COMPLETE ? 0 : SEND_STREAM);
    else owner->missed++;
    if (in->flags & IN_MULTICAST) in->open = in->copy_count;
    p->routed += in->copies != NULL;
    p->no_endpoint += in->copies == NULL;
    stats_add(c->stats, in->copies ? STAT_KEYED : STAT_KEYED_NO_ENDPOINT, 1);
    deliver_tail(c, l, in);
}

#endif
