/* The names of links that this side began, for those who dial: whether another link still has one.
 *
 *   attached  --it is closed here-->  waiting  --the peer's DETACH, or its session's end-->  forgotten
 *
 * A name counts by itself in each session, whose end takes its links along, and in all sessions together: between two
 * containers it names one link of a direction, whatever sessions they have (AMQP 1.0 part 2.6.1).  Peers choose the
 * names of link-route pairs: the hash has a key.
 */
#include <string.h>
#include <unistd.h>

#include "shm/codec/siphash.h"
#include "workers/session/session.h"

#define NAMES_FEW 16u                  /* buckets */
#define NAMES_WAITING 1024u            /* links whose DETACH the peer has not answered, before others are attached */

struct link_name {
    struct link_name *next;            /* of the same bucket */
    struct link_name *session_next, *session_previous;
    worker_session *session;           /* NULL: all of them */
    uint64_t hash;
    uint32_t attached, waiting;        /* links */
    uint32_t size;
    bool outgoing;
    char octets[];
};

typedef struct {
    const worker_session *session;     /* NULL: all of them */
    const char *octets;
    size_t size;
    uint64_t hash;
    bool outgoing;
} name_key;

static name_key name_key_of(const link_names *names, const worker_session *s, const char *octets, bool outgoing)
{
    const size_t size = strlen(octets);
    const uint64_t hash = sip_hash(names->key[0], names->key[1], (const uint8_t *) octets, size, 1, 3);
    return (name_key) { s, octets, size, hash ^ (uintptr_t) s >> 4 ^ outgoing, outgoing };
}

/* The place of a name in its bucket; there it is NULL if nobody has it. */
static link_name **name_place(link_names *names, const name_key *key)
{
    link_name **at = &names->bucket[key->hash & names->mask];
    while (*at && ((*at)->hash != key->hash || (*at)->session != key->session || (*at)->outgoing != key->outgoing
                   || (*at)->size != key->size || memcmp((*at)->octets, key->octets, key->size)))
        at = &(*at)->next;
    return at;
}

static link_name *name_find(lane_connection *l, const worker_session *s, const char *octets, bool outgoing)
{
    if (!l->names.bucket) return NULL;
    const name_key key = name_key_of(&l->names, s, octets, outgoing);
    return *name_place(&l->names, &key);
}

static void names_grow(link_names *names)
{
    const uint32_t buckets = names->bucket ? (names->mask + 1) * 2 : NAMES_FEW;
    link_name **bucket = (link_name **) memory_clear(buckets * sizeof *bucket);
    if (!names->bucket && getentropy(names->key, sizeof names->key)) abort();
    for (uint32_t i = 0; names->bucket && i <= names->mask; i++)
        for (link_name *n = names->bucket[i], *next; n; n = next) {
            next = n->next;
            n->next = bucket[n->hash & (buckets - 1)];
            bucket[n->hash & (buckets - 1)] = n;
        }
    free(names->bucket);
    names->bucket = bucket;
    names->mask = buckets - 1;
}

/* The name, which is made if nobody has it. */
static link_name *name_make(lane_connection *l, worker_session *s, const char *octets, bool outgoing)
{
    link_names *names = &l->names;
    if (!names->bucket || names->count > names->mask) names_grow(names);
    const name_key key = name_key_of(names, s, octets, outgoing);
    link_name **at = name_place(names, &key);
    if (*at) return *at;
    link_name *n = (link_name *) memory_clear(sizeof *n + key.size);
    *n = (link_name) { .session = s, .hash = key.hash, .size = (uint32_t) key.size, .outgoing = outgoing };
    memcpy(n->octets, octets, key.size);
    if (s) {
        n->session_next = s->names;
        if (s->names) s->names->session_previous = n;
        s->names = n;
    }
    names->count++;
    return *at = n;
}

/* Forgets a name that nobody has any more. */
static void name_forget(lane_connection *l, link_name *n)
{
    if (n->attached || n->waiting) return;
    link_name **at = &l->names.bucket[n->hash & l->names.mask];
    while (*at != n) at = &(*at)->next;
    *at = n->next;
    if (n->session_next) n->session_next->session_previous = n->session_previous;
    if (n->session_previous) n->session_previous->session_next = n->session_next;
    else if (n->session) n->session->names = n->session_next;
    free(n);
    if (--l->names.count) return;
    free(l->names.bucket);
    l->names.bucket = NULL;
}

/* So many links of a session's name are gone: some that were attached, some that waited. */
static void name_leave(lane_connection *l, link_name *n, uint32_t attached, uint32_t waiting)
{
    link_name *of_all = name_find(l, NULL, n->octets, n->outgoing);
    n->attached -= attached;
    n->waiting -= waiting;
    of_all->attached -= attached;
    of_all->waiting -= waiting;
    l->names.waiting -= waiting;
    name_forget(l, of_all);
    name_forget(l, n);
}

/* A link that this side began has its name. */
PRIVATE void name_begin(const worker_link *k)
{
    worker_session *s = session_here(pn_link_session(k->engine));
    const char *octets = pn_link_name(k->engine);
    if (!s) return;
    name_make(s->connection, s, octets, k->outgoing)->attached++;
    name_make(s->connection, NULL, octets, k->outgoing)->attached++;
}

/* Such a link is closed here, and its peer has not answered yet. */
PRIVATE void name_wait(const worker_link *k)
{
    worker_session *s = session_here(pn_link_session(k->engine));
    const char *octets = pn_link_name(k->engine);
    link_name *n = s ? name_find(s->connection, s, octets, k->outgoing) : NULL;
    if (!n || !n->attached) return;
    link_name *of_all = name_find(s->connection, NULL, octets, k->outgoing);
    n->attached--;
    n->waiting++;
    of_all->attached--;
    of_all->waiting++;
    s->connection->names.waiting++;
}

/* The engine's link goes. */
PRIVATE void name_end(pn_link_t *engine)
{
    worker_session *s = session_here(pn_link_session(engine));
    link_name *n = s && s->names ? name_find(s->connection, s, pn_link_name(engine), pn_link_is_sender(engine)) : NULL;
    if (n && n->waiting) name_leave(s->connection, n, 0, 1);
}

/* The engine's links of a session go. */
PRIVATE void names_end(worker_session *s)
{
    for (link_name *n; (n = s->names);) name_leave(s->connection, n, n->attached, n->waiting);
}

/* Whether a link may have this name now.  While many wait for the peer, it takes no further ones: the engine keeps each
 * of them, and whoever attaches and detaches again and again would add as many as he likes. */
PRIVATE enum name_state name_taken(lane_connection *l, const char *octets, bool outgoing)
{
    if (l->names.waiting >= NAMES_WAITING) return NAME_ENDS;
    const link_name *n = name_find(l, NULL, octets, outgoing);
    return !n ? NAME_FREE : n->waiting ? NAME_ENDS : NAME_LIVE;
}
