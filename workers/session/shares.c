/* What the links of one connection hold of what its peer may allow, and each client's part of that.
 *
 * A router ends a connection on which its peer has too many links, or too many octets of ATTACHs (control.c), and each
 * answer counts like a link of its sender's.  So of two routers neither asks for a link that could bring both there.
 * Links for clients leave a quarter to those that the routers need themselves, and to what is under way.  Among clients
 * each leaves to others as much as it has: whoever asks for many addresses is the one who gets no more.
 *
 * Of what came and waits for a client, nothing can be refused: AMQP knows a window of a session, and none of a link.
 * So where that shuts a session for other clients, or would stop the reading of the connection, the client of which the
 * most waits loses the links for which it does.
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
    const link_share *s = client ? (link_share *) (uintptr_t) lane_map_get(&l->shares, client) : NULL;
    const size_t has = client ? (s ? s->octets : 0) + share_counts(octets) : 0;
    if (with <= most && has <= (neighbour ? TRUSTED_PART : 1) * (most - with)) return false;
    snprintf(why, REFUSAL_ROOM, "%s gets no more than %u MiB of links' names and addresses, 1 KiB at least of each; "
             "this client has, or would have, as much of that as is left", peer_called(l), (unsigned) (most >> 20));
    return true;
}

/* A link begins, of the peer (client 0), or one that was not refused. */
GLUE void share_take(worker_link *k, uint32_t client, bool neighbour, size_t octets)
{
    lane_connection *l = k->conn->lane;
    k->share_octets = (uint32_t) share_counts(octets);
    l->share_octets += k->share_octets;
    if (!client) return;
    link_share *s = (link_share *) (uintptr_t) lane_map_get(&l->shares, client);
    if (!s) {
        s = (link_share *) memory_clear(sizeof *s);
        s->client = client;
        if (!lane_map_put(&l->shares, client, value_of(s))) abort();
    }
    s->links++;
    s->octets += k->share_octets;
    s->trusted = neighbour;
    k->share = s;
    worker_session *at = k->session;
    if (!at || at->number <= ROUTED_SESSIONS || at->number >= ENDED_SESSION) return;
    at->shared = at->client && (at->shared || at->client != client);
    if (at->client) return;
    at->client = client;
    s->session = (uint32_t) (at->number - 1);
    s->sessions++;
}

/* What a client has; NULL: nothing. */
PRIVATE link_share *share_find(const lane_connection *l, uint32_t client)
{
    return client ? (link_share *) (uintptr_t) lane_map_get((lane_map *) &l->shares, client) : NULL;
}

/* A session is no client's any more. */
PRIVATE void share_ends_session(worker_session *s)
{
    link_share *share = share_find(s->connection, s->client);
    if (share && share->sessions) share->sessions--;
    s->client = 0;
    s->shared = false;
}

/* A link goes. */
PRIVATE void share_give(worker_link *k)
{
    lane_connection *l = k->conn->lane;
    link_share *s = k->share;
    l->share_octets -= k->share_octets;
    if (s) s->octets -= k->share_octets;
    k->share = NULL;
    k->share_octets = 0;
    if (!s || --s->links) return;
    lane_map_take(&l->shares, s->client);
    free(s);
}

/* ---- what came and waits ---- */

/* Whether what waits has shut a session's window: no FLOW opens it before some is taken (lane/session.c). */
static bool session_stands(const worker_session *s)
{
    const uint32_t least = s->lane.in_most < 8 ? 1 : s->lane.in_most / 8;
    return s->lane.held + least > s->lane.in_most;
}

static void held_give_up(lane_connection *l, worker_link *k)
{
    pn_condition_t *error = pn_link_condition(k->engine);
    pn_condition_set_name(error, "amqp:resource-limit-exceeded");
    pn_condition_set_description(error, "The receiver is too slow for its credit: messages that wait for it hold up "
                                        "other clients of the same broker");
    link_give_up(l->p, k);
}

/* Of whom the most TRANSFERs wait in a session; NULL: nobody else has links there. */
static const link_share *session_holder(const worker_session *s)
{
    const link_share *most = NULL;
    bool others = false;
    for (worker_link *k = s->links; k; k = k->session_next) if (k->share) k->share->tally = 0;
    for (worker_link *k = s->links; k; k = k->session_next) {
        if (!k->share) continue;
        k->share->tally += k->held_frames;
        others |= most && most != k->share;
        if (!most || k->share->tally > most->tally) most = k->share;
    }
    return others && most->tally ? most : NULL;
}

static void session_relieve(worker_session *s)
{
    const link_share *most;
    while (session_stands(s) && (most = session_holder(s)))
        for (worker_link *k = s->links, *next; k && s->lane.held > s->lane.in_most / 2; k = next) {
            next = k->session_next;
            if (k->share == most && k->held_frames) held_give_up(s->connection, k);
        }
}

/* Of whom the most octets wait on a connection; NULL: nobody else has links there. */
static const link_share *connection_holder(const lane_connection *l)
{
    const link_share *most = NULL;
    for (uint32_t i = l->c->link_first; i != ROUTERD_NIL;) {
        const worker_link *k = (const worker_link *) pool_at(&l->p->links, i);
        i = k->next;
        if (k->share && (!most || k->share->held > most->held)) most = k->share;
    }
    return most && most->held && most->links < l->c->links_in + l->c->links_out ? most : NULL;
}

/* Lets others go on where what waits for one client holds them up. */
PRIVATE void shares_relieve(lane_connection *l)
{
    pump *p = l->p;
    const link_share *most;
    if (l->crowded)
        for (worker_session *s = l->sessions; s; s = s->next) if (s->shared) session_relieve(s);
    l->crowded = false;
    while (l->held > l->held_most && (most = connection_holder(l)))
        for (uint32_t i = l->c->link_first; i != ROUTERD_NIL && l->held > l->held_most / 2;) {
            worker_link *k = (worker_link *) pool_at(&p->links, i);
            i = k->next;
            if (k->share == most && k->held_frames) held_give_up(l, k);
        }
}

/* More waits in a session that several clients share. */
PRIVATE void shares_crowd(worker_session *s)
{
    lane_connection *l = s->connection;
    if (l->crowded || !session_stands(s)) return;
    l->crowded = true;
    mark_dirty(l->p, l->c);
}
