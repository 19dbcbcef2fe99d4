/* Messages to route tables: the worker reports a message's key, and the table says who gets a copy.
 *
 *   no key, or a reserved message type      rejected, with the reason
 *   no entry, owner or receiver             released, with a count for each of the three
 *   else                                    a copy to a member of each group in turn; several outcomes are merged
 *
 * The sender's own endpoint gets no copy, nor does a group without a receiver.
 *
 * On a link that also leads to other addresses the worker reports no key, and the core decodes it (keyed_read): an
 * anonymous sender's link, one from another router, or one whose messages pass an exchange or a route worker.
 */
#include "core/forwarder/delivery/delivery.h"
#include "core/forwarder/tables/planes.h"
#include "core/rmr/forwarding/active_tables.h"
#include "shm/rmr_key.h"

#define KEYED_RESERVED 100u            /* lower types are RMR's own (Route Table Guide, Reserved Message Types) */
#define KEYED_AHEAD 3u                 /* how many records ahead a slot is fetched */
#define KEYED_LOOK 512u                /* bytes of a message in which its key is looked for at first */

typedef struct {
    uint64_t hash;             /* 0: it names no source */
    uint32_t length;
    uint8_t text[ROUTE_NAME];
} keyed_source;

/* The slot that a later message of this worker, as likely as not to the same table, will need, and what is read of the
 * message. */
static inline void keyed_ahead(const core_router *c, const core_link *l, const route_table *t)
{
    const routerd_consumer *k = &c->worker[l->worker].actions;
    uint64_t at = k->next + KEYED_AHEAD;
    if (!k->ring || at >= k->head_seen) return;
    const routerd_record *r = &k->ring->slot[at & (k->capacity - 1)];
    if (r->type != A_DELIVER || r->state != KEY_FOUND) return;
    route_prefetch(t, (int32_t) r->delivery, (int32_t) (r->delivery >> 32));
    const arena_block *b = arena_at(&c->arena[l->worker], r->block);
    if (!b || r->credit >= ARENA_LARGE_BYTES / 2) return;
    __builtin_prefetch(b->data);  /* how long the message is, and whom it names as its source */
    __builtin_prefetch(b->data + sizeof(arena_content) + r->credit);
}

typedef struct {               /* a message as a route table sees it; its texts are in its content, and not trusted */
    const arena_view *arena;
    uint32_t block;
    uint32_t found;            /* enum deliver_key */
    int32_t type, subscription;
    uint64_t meid;             /* offset | length << 32 */
    uint32_t source;           /* offset; the octet before is the length.  0: it names none */
    uint8_t priority;
    bool complete;
} keyed_message;

typedef struct {               /* where one goes */
    const uint32_t *groups;
    route_endpoint *owner;     /* NULL: to the groups */
    uint64_t turn;
    keyed_source source;
} keyed_way;

static inline keyed_message keyed_told(const core_router *c, const core_link *l, const routerd_record *r)
{
    return (keyed_message) {&c->arena[l->worker], r->block, r->state, (int32_t) r->delivery,
        (int32_t) (r->delivery >> 32), r->extra, r->credit, r->priority, r->flags & F_COMPLETE};
}

/* Looks for the key in `size` bytes from `from` on, which begin with message annotations, or with the application
 * properties. */
static enum scan_result keyed_scan(core_router *c, const arena_content *content, uint32_t from, uint32_t size, bool all,
                                   rmr_key *key)
{
    scan_found found;
    uint32_t length;
    scan_message(c->buffer, 0, false, &found);
    found.body = content->body - from;
    if (content->message_annotations == from) {
        if (!size || scan_descriptor(c->buffer, c->buffer + size, &length) != SECTION_MESSAGE_ANNOTATIONS)
            return SCAN_BAD;
        size_t n = amqp_size(c->buffer + length, c->buffer + size, 0);
        if (!n || n > size - length) return all ? SCAN_BAD : SCAN_MORE;
        found.message_annotations = 0;
    }
    enum scan_result result = rmr_key_there(c->buffer, size, all, &found);
    return result == SCAN_DONE ? rmr_key_scan(c->buffer, size, &found, key) : result;
}

/* The key of a message that its worker has told none of.  Its bytes are copied before they are looked at: a worker may
 * be writing them. */
static void keyed_read(core_router *c, keyed_message *m)
{
    const arena_content *content = arena_content_of(m->arena, m->block);
    uint32_t annotations = content->message_annotations, from = annotations < content->body ? annotations
        : content->body;
    uint64_t length = chain_length(content);
    enum scan_result result = SCAN_MORE;
    rmr_key key;
    m->found = KEY_NONE;
    rmr_key_none(&key);
    if (from >= length) return;
    for (uint32_t most = KEYED_LOOK; result == SCAN_MORE && most <= PROVENANCE_BYTES;
         most *= PROVENANCE_BYTES / KEYED_LOOK) {
        uint32_t size = length - from < most ? (uint32_t) (length - from) : most;
        if (!content_copy(m->arena, m->block, from, c->buffer, size, CONTENT_HOPS)) return;
        result = keyed_scan(c, content, from, size, size < most && m->complete, &key);
    }
    if (result == SCAN_MORE || !(key.found & RMR_KEY_MT)) return;
    m->found = KEY_FOUND;
    m->type = key.mt;
    m->subscription = key.sid;
    m->meid = key.found & RMR_KEY_MEID ? (uint64_t) key.meid_length << 32 | (from + key.meid) : 0;
    m->source = key.found & RMR_KEY_SOURCE ? from + key.source : 0;
}

static void keyed_read_source(const core_router *c, const keyed_message *m, keyed_source *source)
{
    uint8_t length;
    source->hash = 0;
    if (!m->source || !content_copy(m->arena, m->block, m->source - 1, &length, 1, CONTENT_HOPS)) return;
    if (!length || length > ROUTE_NAME || !content_copy(m->arena, m->block, m->source, source->text, length,
                                                        CONTENT_HOPS)) return;
    source->length = length;
    source->hash = alias_hash(c->aliases.seed, source->text, length);
}

static inline bool keyed_own(const route_endpoints *all, const route_endpoint *e, const keyed_source *source)
{
    return e->hash == source->hash && e->length == source->length
           && !memcmp(all->names + e->name, source->text, e->length);
}

/* Whose turn it is in a group; NULL: nobody's.  The dead are passed over, or (switched off) have their turn and miss
 * it. */
static route_endpoint *keyed_member(const core_routes *p, const uint32_t *member, uint32_t count, uint64_t turn,
                                    const keyed_source *source)
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

/* What the endpoint's receivers are sent is as any message to their address that comes in here. */
static void keyed_send(core_router *c, core_in *in, route_endpoint *e, const keyed_message *m)
{
    core_address *a = e->address;
    core_provenance provenance = PROVENANCE_NONE;
    uint32_t before = in->copy_count;
    provenance.text = a->text;
    deliver_receivers(c, in, a, deliver_priority(a, m->priority),
                      (m->complete ? 0 : SEND_STREAM) | a->phase | SEND_AFRESH, &provenance);
    if (in->copy_count != before) e->sent++;
    else e->missed++;
}

/* By the map of managed entities; NULL: nobody owns it. */
static route_endpoint *keyed_owner(const core_router *c, const core_routes *p, const keyed_message *m)
{
    uint8_t meid[ROUTE_MEID];
    uint32_t length = (uint32_t) (m->meid >> 32);
    if (!p->owners || !length || length > ROUTE_MEID) return NULL;
    if (!content_copy(m->arena, m->block, (uint32_t) m->meid, meid, length, CONTENT_HOPS)) return NULL;
    return route_owner_of(p->owners, c->aliases.seed, meid, length);
}

static inline enum core_route keyed_counted(core_router *c, uint64_t *count, uint32_t stat, enum core_route why)
{
    ++*count;
    stats_add(c->stats, stat, 1);
    return why;
}

/* Somebody will ask why: the log has it. */
static inline void keyed_remember(core_routes *p, uint32_t reason, const keyed_message *m)
{
    p->unroutable[reason].type = m->type;
    p->unroutable[reason].subscription = m->subscription;
}

static inline enum core_route keyed_nowhere(core_router *c, core_routes *p, uint32_t reason, const keyed_message *m)
{
    keyed_remember(p, reason, m);
    bool owner = reason == ROUTES_NO_OWNER;
    return keyed_counted(c, owner ? &p->no_owner : &p->no_entry, owner ? N_KEYED_NO_OWNER : N_KEYED_NO_ENTRY,
                         ROUTE_UNROUTABLE);
}

/* Where a message goes by a table; why it goes nowhere is counted. */
static inline enum core_route keyed_find(core_router *c, core_routes *p, const keyed_message *m, keyed_way *way)
{
    if (m->found != KEY_FOUND) return keyed_counted(c, &p->refused, N_KEYED_REFUSED, ROUTE_KEYLESS);
    if ((uint32_t) m->type < KEYED_RESERVED) return keyed_counted(c, &p->refused, N_KEYED_REFUSED, ROUTE_RESERVED);
    keyed_read_source(c, m, &way->source);
    uint32_t target = p->table ? route_find_target(p->table, m->type, m->subscription, way->source.hash, &way->turn)
        : ROUTE_GONE;
    if (target == ROUTE_GONE) return keyed_nowhere(c, p, ROUTES_NO_ENTRY, m);
    way->groups = p->table->word + target;
    way->owner = *way->groups ? NULL : keyed_owner(c, p, m);
    if (!*way->groups && !way->owner) return keyed_nowhere(c, p, ROUTES_NO_OWNER, m);
    return ROUTE_FOUND;
}

static inline void keyed_copies(core_router *c, core_routes *p, core_in *in, const keyed_way *way,
                                const keyed_message *m)
{
    const uint32_t *groups = way->groups;
    uint32_t count = *groups++, before = in->copy_count;
    if (__builtin_expect(c->flow != NULL, 0))
        flow_by_table(c, in, m->type, m->subscription, m->meid, way->owner != NULL);
    /* one endpoint that is slow holds up no messages to others */
    if (in->flags & IN_PRESETTLED) in->flags |= IN_MULTICAST;
    if (way->owner) {
        if (route_alive(way->owner)) keyed_send(c, in, way->owner, m);
        else way->owner->missed++;
    }
    if (count > 1) in->flags |= IN_MULTICAST;
    for (; count--; groups += *groups + 1) {
        route_endpoint *e = keyed_member(p, groups + 1, *groups, way->turn, &way->source);
        if (e) keyed_send(c, in, e, m);
    }
    if (in->flags & IN_MULTICAST) in->open = in->copy_count;
    bool sent = in->copy_count != before;
    p->routed += sent;
    p->no_endpoint += !sent;
    if (__builtin_expect(!sent, 0)) keyed_remember(p, ROUTES_NO_ENDPOINT, m);
    stats_add(c->stats, sent ? N_KEYED : N_KEYED_NO_ENDPOINT, 1);
}

/* A message that has come in, to the table of an address. */
static inline void keyed_deliver(core_router *c, core_link *l, const routerd_record *r, core_address *a, core_routes *p,
                                 const keyed_message *m)
{
    keyed_way way;
    enum core_route route = keyed_find(c, p, m, &way);
    if (route != ROUTE_FOUND) {
        deliver_unroutable(c, l, r, route, a);
        return;
    }
    core_in *in = deliver_in(c, l, r);
    if (__builtin_expect(c->flow != NULL, 0)) flow_note(c, l, in, a, deliver_priority(a, r->priority), r);
    a->ingress += !link_inter_router(l);
    keyed_copies(c, p, in, &way, m);
    deliver_tail(c, l, in);
}

/* To a table, on a link that leads to other addresses, too. */
PRIVATE void deliver_to_table(core_router *c, core_link *l, const routerd_record *r, core_address *a)
{
    keyed_message m = {.arena = &c->arena[l->worker], .block = r->block, .priority = r->priority,
        .complete = r->flags & F_COMPLETE};
    keyed_read(c, &m);
    keyed_deliver(c, l, r, a, a->routes, &m);
}

/* The same of one that goes to other addresses, too, or has been to some. */
PRIVATE void deliver_by_table(core_router *c, core_in *in, core_address *a, uint8_t priority)
{
    keyed_message m = {.arena = &c->arena[in->arena], .block = in->block, .priority = priority,
        .complete = in->flags & IN_COMPLETE};
    keyed_way way;
    keyed_read(c, &m);
    if (keyed_find(c, a->routes, &m, &way) == ROUTE_FOUND) keyed_copies(c, a->routes, in, &way, &m);
}

/* A message to a table: `l` is a keyed link. */
PRIVATE void deliver_keyed(core_router *c, core_link *l, const routerd_record *r)
{
    core_routes gone = {0}, *p = l->address->routes ? l->address->routes : &gone;  /* gone: it has no table any more */
    stats_add(c->stats, N_RECEIVED, 1);
    if (r->flags & F_SETTLED) stats_add(c->stats, N_PRESETTLED, 1);
    if (p->table) keyed_ahead(c, l, p->table);
    keyed_message m = keyed_told(c, l, r);
    keyed_deliver(c, l, r, l->address, p, &m);
}
