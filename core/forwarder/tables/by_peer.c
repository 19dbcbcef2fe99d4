/* Incoming deliveries by their workers' handles, for records that do not name them by ours.
 *
 * A worker learns our handle only when it needs it, so a sender that settles first, or a stream's first CONTINUE, names
 * a delivery by the worker's.  A link's deliveries are noted from the first such record on; most links have none.
 */
#include "core/forwarder/tables/access.h"

#define HANDLES_MOST (1u << 22)        /* deliveries of a worker */
#define HANDLES_LEAST 256u

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

/* Notes a delivery whose link has such a table.  Without memory it is not found. */
PRIVATE void by_peer_note(core_router *c, const core_in *in)
{
    core_peers *t = &c->peers[in->link->worker];
    uint32_t index = routerd_handle_index(in->peer);
    if (!in->peer || index >= HANDLES_MOST || (index >= t->room && !peers_grow(t, index))) return;
    t->in[index] = in->node.index + 1;
}

/* The delivery of an incoming link that has this handle; NULL: there is none. */
PRIVATE core_in *by_peer_find(core_router *c, core_link *l, uint64_t peer)
{
    const core_peers *t = &c->peers[l->worker];
    uint32_t index = routerd_handle_index(peer);
    if (!l->by_peer) {
        l->by_peer = true;
        for (const core_in *in = l->ins; in; in = in->next) by_peer_note(c, in);
    }
    if (index >= t->room || !t->in[index]) return NULL;
    core_in *in = (core_in *) pool_at_of(&c->ins, t->in[index] - 1, sizeof(core_in));
    return pool_live(&in->node) && in->link == l && in->peer == peer ? in : NULL;
}
