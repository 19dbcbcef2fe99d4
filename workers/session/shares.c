/* What the links of one connection hold of what its peer may allow, and each client's part of that: its ledger.
 *
 * A router ends a connection on which its peer has too many links, or too many octets of ATTACHs (control.c), and each
 * answer counts like a link of its sender's.  So of two routers neither asks for a link that could bring both there.
 * Links for clients leave a quarter to those that the routers need themselves, and to what is under way.  Among clients
 * each leaves to others as much as it has: whoever asks for many addresses is the one who gets no more.  With the
 * channels for sessions of link routes it is the same (loop/dial.c): a session counts for the client for which it was
 * begun, as long as both have links.
 *
 * Prohibited: a share whose client has no link, and a session of such a client.
 */
#include <stdio.h>
#include <stdlib.h>

#include "workers/session/session.h"

#define OCTETS_LEAST (ATTACH_OCTETS / MOST_HANDLES)            /* that a link counts for: so few links are as many */
#define OCTETS_CLIENTS (ATTACH_OCTETS / 4 * 3)                 /* with more than these, no link is for a client */
#define OCTETS_ROUTER (ATTACH_OCTETS / 16 * 15)                /* nor for the router itself */

static size_t share_counts(size_t octets) { return octets > OCTETS_LEAST ? octets : OCTETS_LEAST; }

/* Whether a link with an ATTACH of so many octets is too much for the connection, or for its client: 0 is the router
 * itself.  A neighbour brings what others ask for.  The text says so. */
GLUE bool share_refused(const worker_connection *c, uint32_t client, bool neighbour, size_t octets,
                        char why[REFUSAL_ROOM])
{
    lane_connection *l = c->lane;
    const size_t most = client ? OCTETS_CLIENTS : OCTETS_ROUTER, with = l->share_octets + share_counts(octets);
    const link_share *s = share_find(l, client);
    const size_t has = client ? (s ? s->octets : 0) + share_counts(octets) : 0;
    if (with <= most && has <= (neighbour ? TRUSTED_PART : 1) * (most - with)) return false;
    snprintf(why, REFUSAL_ROOM, "%s gets no more than %u MiB of links' names and addresses, 1 KiB at least of each; "
             "this client has, or would have, as much of that as is left", peer_called(l), (unsigned) (most >> 20));
    return true;
}

/* What a client has; NULL: nothing. */
PRIVATE link_share *share_find(const lane_connection *l, uint32_t client)
{
    return client ? (link_share *) (uintptr_t) lane_map_get((lane_map *) &l->shares, client) : NULL;
}

static link_share *share_new(lane_connection *l, uint32_t client)
{
    link_share *share = (link_share *) memory_clear(sizeof *share);
    share->client = client;
    if (!lane_map_put(&l->shares, client, value_of(share))) abort();
    return share;
}

/* ---- sessions ---- */

static void session_own(worker_session *s, link_share *share)
{
    s->owner = share;
    s->owned_next = NULL;
    s->owned_previous = share->sessions_last;
    *(s->owned_previous ? &s->owned_previous->owned_next : &share->sessions_first) = s;
    share->sessions_last = s;
    share->session_count++;
}

/* A session is its client's no more. */
PRIVATE void session_disown(worker_session *s)
{
    link_share *share = s->owner;
    if (!share) return;
    *(s->owned_previous ? &s->owned_previous->owned_next : &share->sessions_first) = s->owned_next;
    *(s->owned_next ? &s->owned_next->owned_previous : &share->sessions_last) = s->owned_previous;
    share->session_count--;
    s->owner = NULL;
}

/* Lets a session be the last that its client's further links share. */
PRIVATE void session_owned_turn(worker_session *s)
{
    link_share *share = s->owner;
    session_disown(s);
    if (share) session_own(s, share);
}

/* Whether two links are one client's, or none's.  A neighbour has links for many: those of one of its sessions are one
 * client's. */
static bool links_alike(const worker_link *a, const worker_link *b)
{
    return a->share == b->share && (!a->share || !a->share->trusted || a->asked_session == b->asked_session);
}

/* The seams at both ends of a link on its session's list. */
static uint32_t link_seams(const worker_link *k)
{
    return (k->session_previous && !links_alike(k->session_previous, k))
           + (uint32_t) (k->session_next && !links_alike(k, k->session_next));
}

/* A link is on its session's list. */
PRIVATE void seams_add(worker_session *s, const worker_link *k)
{
    s->seams += link_seams(k);
    slow_due(s);
}

/* A link goes from there. */
PRIVATE void seams_remove(worker_session *s, const worker_link *k)
{
    s->seams -= link_seams(k);
    s->seams += k->session_previous && k->session_next && !links_alike(k->session_previous, k->session_next);
}

/* ---- links ---- */

static void share_enter(worker_link *k, link_share *share)
{
    worker_session *s = k->session;
    if (s) s->seams -= link_seams(k);
    share->links++;
    share->octets += k->share_octets;
    k->share = share;
    if (!s) return;
    seams_add(s, k);
    if (!s->owner && session_routed(s)) session_own(s, share);
}

/* A link begins, of the peer (client 0), or one that was not refused. */
GLUE void share_take(worker_link *k, uint32_t client, bool neighbour, size_t octets)
{
    lane_connection *l = k->conn->lane;
    k->share_octets = (uint32_t) share_counts(octets);
    l->share_octets += k->share_octets;
    if (!client) return;
    link_share *share = share_find(l, client);
    if (!share) share = share_new(l, client);
    share->trusted = neighbour;
    share_enter(k, share);
}

/* A link goes, of which nothing waits any more. */
PRIVATE void share_give(worker_link *k)
{
    lane_connection *l = k->conn->lane;
    link_share *share = k->share;
    l->share_octets -= k->share_octets;
    if (share) share->octets -= k->share_octets;
    k->share = NULL;
    k->payer = &k->conn->use;
    k->share_octets = 0;
    if (!share || --share->links) return;
    while (share->sessions_first) session_disown(share->sessions_first);
    lane_map_take(&l->shares, share->client);
    free(share);
}
