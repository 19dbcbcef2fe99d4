/* Which sockets are read: none of those that can only send and keep blocks while these run low, or whose peers are to
 * wait for something else.
 */
#include "workers/transport/transport.h"
#include "workers/state/session.h"

#define RESUME_TICK_MS 1000

/* Stops or resumes reading a connection. Nobody can tell whether a peer that is not read is silent, so its idle timeout
 * rests meanwhile, and after it until the octets waiting in the socket have been read. */
static void conn_listen(pump *p, worker_connection *c, bool listen)
{
    c->reading = listen;
    conn_watch(p, c);
    pn_transport_set_idle_timeout(c->transport, listen ? p->listeners[c->listener].idle_timeout_ms : 0);
    if (listen) c->tick_at = p->now_ms + RESUME_TICK_MS;
}

PRIVATE void conn_pause(pump *p, worker_connection *c)
{
    if (c->reading) conn_listen(p, c, false);
}

PRIVATE inline void conn_resume(pump *p, worker_connection *c)
{
    if (c->framed) mark_dirty(p, c);
    else if (!c->reading && !c->lane->choked && !c->lane->full && !c->lane->asking && !c->failed
             && pn_transport_capacity(c->transport) > 0)
        conn_listen(p, c, true);
}

GLUE void pressure_check(pump *p)
{
    uint32_t small = p->arena.free_count[0], large = p->arena.free_count[1];
    stats_set(p->stats, N_SMALL_FREE, small);
    stats_set(p->stats, N_LARGE_FREE, large);
    if (!p->paused && (small < p->low_small || large < p->low_large)) {
        p->paused = true;
        stats_add(p->stats, N_PAUSES, 1);
        stats_set(p->stats, N_PAUSED, 1);
    } else if (p->paused && small >= 2 * p->low_small && large >= 2 * p->low_large) {
        p->paused = false;
        stats_set(p->stats, N_PAUSED, 0);
        for (uint32_t i = 0; i < p->conns.high; i++) {
            worker_connection *c = (worker_connection *) pool_at(&p->conns, i);
            if (c->slot.next_free == SLOT_USED) conn_resume(p, c);
        }
    }
}

/* Tells whether reading a connection must wait: because too much of it waits already, or for blocks. Those do not stop
 * connections with receivers, since their dispositions free blocks, nor those in the middle of a message, whose blocks
 * are freed only after its end. */
PRIVATE inline bool conn_waits(pump *p, worker_connection *c)
{
    if (__builtin_expect(c->lane->held > c->lane->held_most, 0)) {
        conn_listen(p, c, false);
        return true;
    }
    if (!p->paused || c->links_out || (!c->use.kept[0] && !c->use.kept[1])) return false;
    for (uint32_t index = c->link_first; index != ROUTERD_NIL;) {
        const worker_link *k = (const worker_link *) pool_at(&p->links, index);
        index = k->next;
        if (client_pays(k) || (!k->kept[0] && !k->kept[1]) || (k->current && !k->held)) continue;
        conn_listen(p, c, false);
        return true;
    }
    return false;
}
