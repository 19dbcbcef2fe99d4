/* Incoming deliveries by their workers' handles, for records that do not name them by ours.
 *
 * A worker learns our handle only when it needs it, so a sender that settles first, or a stream's first CONTINUE, names
 * a delivery by the worker's.  A link's deliveries are noted from the first such record on; most links have none.
 *
 * A worker may give a handle's place to its next delivery while records about the one before still stand aside
 * (park.c).  The place is then the newer delivery's, and the older one's link is searched for those that have none.
 */
#include "core/forwarder/tables/access.h"

#define HANDLES_MOST (1u << 22)        /* deliveries of a worker */
#define HANDLES_LEAST 256u

enum { PEERS_NOTED = 1, PEERS_MISSED = 2 };

static bool peers_grow(core_peers *t, uint32_t index)
{
    uint32_t room = t->room ? t->room : HANDLES_LEAST;
    while (room <= index) room *= 2;
    uint32_t *grown = (uint32_t *) realloc(t->in, sizeof *grown * room);
    if (!grown) return false;
    memset(grown + t->room, 0, sizeof *grown * (room - t->room));
    t->in = grown;
    t->room = room;
    return true;
}

/* The delivery that is noted at a place; NULL: there is none any more. */
static core_in *peer_at(const core_router *c, const core_peers *t, uint32_t index)
{
    if (index >= t->room || !t->in[index]) return NULL;
    core_in *in = (core_in *) pool_at_of(&c->ins, t->in[index] - 1, sizeof(core_in));
    return pool_live(&in->node) && in->link && routerd_handle_index(in->peer) == index ? in : NULL;
}

/* Whether a worker gave one handle later than another one of the same place. */
static bool peer_newer(uint64_t one, uint64_t other)
{
    return (int32_t) (routerd_handle_generation(one) - routerd_handle_generation(other)) > 0;
}

/* Notes a delivery whose link has such a table.  Without memory it is not found. */
PRIVATE void by_peer_note(core_router *c, const core_in *in)
{
    core_peers *t = &c->peers[in->link->worker];
    uint32_t index = routerd_handle_index(in->peer);
    if (!in->peer || index >= HANDLES_MOST || (index >= t->room && !peers_grow(t, index))) return;
    const core_in *there = peer_at(c, t, index);
    if (there && there != in) {
        const bool stays = peer_newer(there->peer, in->peer);
        (stays ? in : there)->link->by_peer |= PEERS_MISSED;
        if (stays) return;
    }
    t->in[index] = in->node.index + 1;
}

/* The delivery of an incoming link that has this handle; NULL: there is none. */
PRIVATE core_in *by_peer_find(core_router *c, core_link *l, uint64_t peer)
{
    const core_peers *t = &c->peers[l->worker];
    uint32_t index = routerd_handle_index(peer);
    if (!l->by_peer) {
        l->by_peer = PEERS_NOTED;
        for (const core_in *in = l->ins; in; in = in->next) by_peer_note(c, in);
    }
    core_in *in = peer_at(c, t, index);
    if (in && in->link == l && in->peer == peer) return in;
    if (!(l->by_peer & PEERS_MISSED)) return NULL;
    for (in = l->ins; in && in->peer != peer; in = in->next) continue;
    return in;
}
