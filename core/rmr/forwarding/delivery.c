/* Messages to route tables: the worker reports a message's key, and the table says who gets a copy.
 *
 *   no key, or a reserved message type      rejected, with the reason
 *   no entry, owner or receiver             released, with a count for each of the three
 *   else                                    a copy to a member of each group in turn; several outcomes are merged
 *
 * The sender's own endpoint gets no copy, nor does a group without a receiver.
 *
 * On a link that also leads to other addresses the worker reports no key, and the core decodes it (table_read_key): an
 * anonymous sender's link, one from another router, or one whose messages pass an exchange or a route worker.
 */
#include "core/forwarder/delivery/delivery.h"
#include "core/forwarder/tables/planes.h"
#include "core/rmr/forwarding/active_tables.h"
#include "shm/codec/rmr_key.h"

#define TABLE_RESERVED 100u    /* lower types are RMR's own (Route Table Guide, Reserved Message Types) */
#define TABLE_AHEAD 3u         /* records between the current one and the one whose slot is fetched */
#define TABLE_KEY_BYTES 512u   /* bytes of a message in which its key is searched for at first */

_Static_assert(RMR_KEY_WITHIN <= sizeof ((core_router *) NULL)->buffer, "what has a key is copied there");

typedef struct {
    uint64_t hash;             /* 0: the message names no source */
    uint32_t length;
    uint8_t text[ROUTE_NAME];
} table_source;

/* Fetches the slot for a later message of this worker, which probably goes to the same table, and the parts of the
 * message that are read. */
static inline void table_prefetch(const core_router *c, const core_link *l, const route_table *t)
{
    const routerd_consumer *k = &c->worker[l->worker].actions;
    uint64_t at = k->next + TABLE_AHEAD;
    if (!k->ring || at >= k->head_seen) return;
    const routerd_record *r = &k->ring->slot[at & (k->capacity - 1)];
    if (r->type != A_DELIVER || r->state != KEY_FOUND) return;
    route_prefetch(t, (int32_t) r->delivery, (int32_t) (r->delivery >> 32));
    const arena_content *content = arena_content_of(&c->arena[l->worker], r->block);
    if (!content || r->credit >= ARENA_LARGE_BYTES / 2) return;
    __builtin_prefetch((const void *) &content->length);
    __builtin_prefetch((const uint8_t *) (content + 1) + r->credit);  /* the source that it names */
}

typedef struct {               /* a message as a route table sees it; its texts stay in its content and are untrusted */
    const arena_view *arena;
    uint32_t block;
    uint32_t found;            /* enum deliver_key */
    int32_t type, subscription;
    uint64_t meid;             /* offset | length << 32 */
    uint32_t source;           /* offset; the octet before it is the length.  0: the message names none */
    uint8_t priority;
    bool complete;
} table_message;

typedef struct {               /* the destinations of a message */
    const uint32_t *groups;
    route_endpoint *owner;     /* NULL: the groups get the message */
    uint64_t turn;
    table_source source;
} table_path;

static inline table_message table_reported(const core_router *c, const core_link *l, const routerd_record *r)
{
    return (table_message) {&c->arena[l->worker], r->block, r->state, (int32_t) r->delivery,
        (int32_t) (r->delivery >> 32), r->extra, r->credit, r->priority, r->flags & F_COMPLETE};
}

/* Searches for the key in the `size` bytes after offset `from`, which begin with message annotations or with the
 * application properties. */
static enum scan_result table_scan_key(core_router *c, const arena_content *content, uint32_t from, uint32_t size,
                                       bool all, rmr_key *key)
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

/* Shows the flight recorder what is read of a message for a route table; `what`: enum flight_key.  The core's own
 * messages have no keys, as far as a replay knows. */
__attribute__((noinline, cold)) static void table_record(const core_router *c, const table_message *m, uint32_t what,
                                                         uint64_t source, uint32_t owner)
{
    const uint32_t w = (uint32_t) (m->arena - c->arena);
    if (w == c->workers) {
        if (what & ~(uint32_t) FLIGHT_KEY_READ) atomic_store(&c->flight->header->blind, 1);
        return;
    }
    flight_line line = flight_about(c, FLIGHT_KEY, w);
    line.count = what;
    line.length = owner;
    line.hash = source;
    memcpy(line.detail, &m->type, sizeof m->type);
    memcpy(line.detail + 4, &m->subscription, sizeof m->subscription);
    flight_read(c, line, m->block);
}

/* Reads the key of a message whose worker has reported none.  The bytes are copied first, because a worker may be
 * writing them. */
static void table_scan(core_router *c, table_message *m)
{
    const arena_content *content = arena_content_of(m->arena, m->block);
    const uint32_t from = rmr_key_from(content->message_annotations, content->body);
    uint64_t length = chain_length(content);
    enum scan_result result = SCAN_MORE;
    rmr_key key;
    m->found = KEY_NONE;
    rmr_key_none(&key);
    if (from >= length) return;
    for (uint32_t most = TABLE_KEY_BYTES; result == SCAN_MORE && most <= RMR_KEY_WITHIN;
         most *= RMR_KEY_WITHIN / TABLE_KEY_BYTES) {
        uint32_t size = length - from < most ? (uint32_t) (length - from) : most;
        if (!content_copy(m->arena, m->block, from, c->buffer, size, CONTENT_HOPS)) return;
        result = table_scan_key(c, content, from, size, size < most && m->complete, &key);
    }
    if (result == SCAN_MORE || !(key.found & RMR_KEY_MT)) return;
    m->found = KEY_FOUND;
    m->type = key.mt;
    m->subscription = key.sid;
    m->meid = key.found & RMR_KEY_MEID ? (uint64_t) key.meid_length << 32 | (from + key.meid) : 0;
    m->source = key.found & RMR_KEY_SOURCE ? from + key.source : 0;
}

static void table_read_key(core_router *c, table_message *m)
{
    table_scan(c, m);
    if (__builtin_expect(c->flight != NULL, 0))
        table_record(c, m, m->found == KEY_FOUND ? FLIGHT_KEY_READ | FLIGHT_KEY_FOUND : FLIGHT_KEY_READ, 0, 0);
}

/* The flight recorder is shown a source if there are entries for certain ones, or where it changes something
 * (table_member): most tell the table nothing. */
static void table_read_source(const core_router *c, const core_routes *p, const table_message *m, table_source *source)
{
    uint8_t length;
    source->hash = 0;
    if (!m->source || !content_copy(m->arena, m->block, m->source - 1, &length, 1, CONTENT_HOPS)) return;
    if (!length || length > ROUTE_NAME || !content_copy(m->arena, m->block, m->source, source->text, length,
                                                        CONTENT_HOPS)) return;
    source->length = length;
    source->hash = alias_hash(c->aliases.seed, source->text, length);
    if (__builtin_expect(c->flight != NULL, 0) && p->table && p->table->special_count)
        table_record(c, m, FLIGHT_KEY_SOURCE, source->hash, 0);
}

static inline bool table_is_source(const route_endpoints *all, const route_endpoint *e, const table_source *source)
{
    return e->hash == source->hash && e->length == source->length
           && !memcmp(all->names + e->name, source->text, e->length);
}

/* Returns the member of a group whose turn it is, or NULL.  Endpoints without a receiver are skipped; without skip_dead
 * they have their turn and miss the message. */
static route_endpoint *table_member(const core_router *c, const core_routes *p, const uint32_t *member, uint32_t count,
                                    const table_path *path, const table_message *m)
{
    const route_endpoints *all = &p->table->endpoints;
    const table_source *source = &path->source;
    route_endpoint *left[ROUTE_MEMBERS], *found = NULL;
    uint32_t living = 0;
    for (uint32_t i = 0; i < count; i++) {
        route_endpoint *e = &all->at[member[i]];
        if (__builtin_expect(source->hash && table_is_source(all, e, source), 0)) {
            if (c->flight) table_record(c, m, FLIGHT_KEY_SOURCE, source->hash, 0);
            continue;
        }
        if (p->skip_dead && !route_alive(e)) {
            found = e;
            continue;
        }
        left[living++] = e;
    }
    if (living) found = living == 1 ? left[0] : left[path->turn % living];
    if (!found || route_alive(found)) return found;
    found->missed++;
    return NULL;
}

/* Sends to an endpoint as if the message had been sent to the endpoint's address at this router. */
static void table_send(core_router *c, core_in *in, route_endpoint *e, const table_message *m)
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

/* Returns the owner of the message's managed entity, or NULL. */
static route_endpoint *table_owner(const core_router *c, const core_routes *p, const table_message *m)
{
    uint8_t meid[ROUTE_MEID];
    uint32_t length = (uint32_t) (m->meid >> 32);
    if (!p->owners || !length || length > ROUTE_MEID) return NULL;
    if (!content_copy(m->arena, m->block, (uint32_t) m->meid, meid, length, CONTENT_HOPS)) return NULL;
    route_endpoint *owner = route_owner_of(p->owners, c->aliases.seed, meid, length);
    if (__builtin_expect(c->flight != NULL, 0) && owner)
        table_record(c, m, FLIGHT_KEY_OWNER, 0, (uint32_t) (owner - p->owners->endpoints.at));
    return owner;
}

static inline enum core_route table_counted(core_router *c, uint64_t *count, uint32_t stat, enum core_route why)
{
    ++*count;
    stats_add(c->stats, stat, 1);
    return why;
}

/* Remembers the key for the log, because AMQP's outcome released carries no reason. */
static inline void table_remember(core_routes *p, uint32_t reason, const table_message *m)
{
    p->unroutable[reason].type = m->type;
    p->unroutable[reason].subscription = m->subscription;
}

static inline enum core_route table_unroutable(core_router *c, core_routes *p, uint32_t reason, const table_message *m)
{
    table_remember(p, reason, m);
    bool owner = reason == ROUTES_NO_OWNER;
    return table_counted(c, owner ? &p->no_owner : &p->no_entry, owner ? N_KEYED_NO_OWNER : N_KEYED_NO_ENTRY,
                         ROUTE_UNROUTABLE);
}

/* Finds the destinations of a message; a message without any is counted by its reason. */
static inline enum core_route table_find(core_router *c, core_routes *p, const table_message *m, table_path *path)
{
    if (m->found != KEY_FOUND) return table_counted(c, &p->refused, N_KEYED_REFUSED, ROUTE_KEYLESS);
    if ((uint32_t) m->type < TABLE_RESERVED) return table_counted(c, &p->refused, N_KEYED_REFUSED, ROUTE_RESERVED);
    table_read_source(c, p, m, &path->source);
    uint32_t target = p->table ? route_find_target(p->table, m->type, m->subscription, path->source.hash, &path->turn)
        : ROUTE_GONE;
    if (target == ROUTE_GONE) return table_unroutable(c, p, ROUTES_NO_ENTRY, m);
    path->groups = p->table->word + target;
    path->owner = *path->groups ? NULL : table_owner(c, p, m);
    if (!*path->groups && !path->owner) return table_unroutable(c, p, ROUTES_NO_OWNER, m);
    return ROUTE_FOUND;
}

static inline void table_copies(core_router *c, core_routes *p, core_in *in, const table_path *path,
                                const table_message *m)
{
    const uint32_t *groups = path->groups;
    uint32_t count = *groups++, before = in->copy_count;
    if (__builtin_expect(c->flow != NULL, 0))
        flow_by_table(c, in, m->type, m->subscription, m->meid, path->owner != NULL);
    /* a slow endpoint must not delay messages to others */
    if (in->flags & IN_PRESETTLED) in->flags |= IN_MULTICAST;
    if (path->owner) {
        if (route_alive(path->owner)) table_send(c, in, path->owner, m);
        else path->owner->missed++;
    }
    if (count > 1) in->flags |= IN_MULTICAST;
    for (; count--; groups += *groups + 1) {
        route_endpoint *e = table_member(c, p, groups + 1, *groups, path, m);
        if (e) table_send(c, in, e, m);
    }
    if (in->flags & IN_MULTICAST) in->open = in->copy_count;
    bool sent = in->copy_count != before;
    p->routed += sent;
    p->no_endpoint += !sent;
    if (__builtin_expect(!sent, 0)) table_remember(p, ROUTES_NO_ENDPOINT, m);
    stats_add(c->stats, sent ? N_KEYED : N_KEYED_NO_ENDPOINT, 1);
}

/* A message that the table leads nowhere.  The flow log takes its key from the record, whose worker may have reported
 * none. */
__attribute__((noinline)) static void table_unsent(core_router *c, core_link *l, const routerd_record *r,
                                                   enum core_route why, const core_address *a, const table_message *m)
{
    routerd_record keyed = *r;
    if (m->found == KEY_FOUND) {
        keyed.state = KEY_FOUND;
        keyed.delivery = (uint32_t) m->type | (uint64_t) (uint32_t) m->subscription << 32;
        keyed.extra = m->meid;
    }
    deliver_unroutable(c, l, &keyed, why, a);
}

/* Forwards an incoming message by the table of an address. */
static INLINED void table_deliver(core_router *c, core_link *l, const routerd_record *r, core_address *a,
                                  core_routes *p, const table_message *m)
{
    table_path path;
    enum core_route route = table_find(c, p, m, &path);
    if (route != ROUTE_FOUND) {
        table_unsent(c, l, r, route, a, m);
        return;
    }
    core_in *in = deliver_in(c, l, r);
    if (__builtin_expect(c->flow != NULL, 0)) flow_note(c, l, in, a, deliver_priority(a, r->priority), r);
    a->ingress += !link_inter_router(l);
    table_copies(c, p, in, &path, m);
    deliver_tail(c, l, in);
}

/* Forwards a message to a table from a link that also leads to other addresses. */
PRIVATE void deliver_to_table(core_router *c, core_link *l, const routerd_record *r, core_address *a)
{
    table_message m = {.arena = &c->arena[l->worker], .block = r->block, .priority = r->priority,
        .complete = r->flags & F_COMPLETE};
    table_read_key(c, &m);
    table_deliver(c, l, r, a, a->routes, &m);
}

/* Adds copies by a table to a delivery that also goes, or has gone, to other addresses. */
PRIVATE void deliver_by_table(core_router *c, core_in *in, core_address *a, uint8_t priority)
{
    table_message m = {.arena = &c->arena[in->arena], .block = in->block, .priority = priority,
        .complete = in->flags & IN_COMPLETE};
    table_path path;
    table_read_key(c, &m);
    if (table_find(c, a->routes, &m, &path) == ROUTE_FOUND) table_copies(c, a->routes, in, &path, &m);
}

/* The table was removed: no message has an entry. */
__attribute__((noinline, cold)) static void table_gone(core_router *c, core_link *l, const routerd_record *r,
                                                       const table_message *m)
{
    core_routes gone = {0};
    table_deliver(c, l, r, l->address, &gone, m);
}

/* Forwards a message from a link to a route table, whose worker reports the key. */
PRIVATE void deliver_on_table_link(core_router *c, core_link *l, const routerd_record *r)
{
    core_routes *p = l->address->routes;
    count_in(c, l, r);
    table_message m = table_reported(c, l, r);
    if (__builtin_expect(!p, 0)) {
        table_gone(c, l, r, &m);
        return;
    }
    if (p->table) table_prefetch(c, l, p->table);
    table_deliver(c, l, r, l->address, p, &m);
}
