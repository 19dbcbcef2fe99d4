/* What the links of one connection hold of what its peer may allow, and each client's part of that.
 *
 * A router ends a connection on which its peer has too many links, or too many octets of ATTACHs (control.c), and each
 * answer counts like a link of its sender's.  So of two routers neither asks for a link that could bring both there.
 * Links for clients leave a quarter to those that the routers need themselves, and to what is under way.  Among clients
 * each leaves to others as much as it has: whoever asks for many addresses is the one who gets no more.
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
