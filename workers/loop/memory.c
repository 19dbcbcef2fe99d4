/* Memory that a worker no longer needs goes back to the system, in steps of less than a millisecond, once a second.
 *
 *   pools            chunks without used objects, if for SWEEP_SLACK polls in a row a quarter was used at most (pool.h)
 *   tables, queues   those of many records, while they have none
 *   the heap         after a pool has shrunk, or most of many connections, links or octets have gone: in a second with
 *                    few records, because that takes a millisecond for each 10 MB
 */
#include "workers/loop/loop.h"

enum {
    QUEUE_KEPT = 4096,                 /* records for which the queue behind the ring keeps memory */
    CALM = 10000                       /* records in and out in a second, at most */
};

_Static_assert(sizeof(worker_connection) % 8 == 0 && sizeof(worker_link) % 8 == 0, "chunks fill whole pages");

/* A step of a pool that shrinks; true: it was the last one, and memory has gone back. */
static bool pool_thin(pool *p)
{
    if (!p->sweep) {
        if (!sweep_due(p, p->used) || !sweep_begin(p, (p->high + POOL_CHUNK - 1) / POOL_CHUNK)) return false;
        for (; p->bare; p->bare--) p->sweep->chunk[p->bare_at[p->bare - 1]].count = POOL_BARE;
    }
    return sweep_step(p, p->used);
}

/* Tables and queues without entries. */
static void tables_thin(pump *p)
{
    if (!p->outs.used && p->outs_room) {
        free(p->outs_of_core);
        p->outs_of_core = NULL;
        p->outs_room = 0;
    }
    routerd_outbox *o = &p->actions;
    if (o->waiting || o->size <= QUEUE_KEPT) return;
    free(o->queue);
    o->queue = NULL;
    o->first = o->size = 0;
}

/* To be called once a second. */
PRIVATE void memory_poll(pump *p)
{
    const uint64_t moved = p->work.next + p->actions.ring.next;
    pool *const all[] = { &p->conns, &p->links, &p->ins, &p->outs };
    p->heap_due |= heap_crowd_gone(&p->crowd, CONNECTION_LINKS * p->conns.used + p->links.used);
    p->heap_due |= heap_crowd_gone(&p->loads, (uint32_t) (p->kept_octets >> HEAP_PIECE));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) p->heap_due |= pool_thin(all[i]);
    tables_thin(p);
    /* not before the engine has freed what it had */
    if (p->heap_due && !p->rest_first && moved - p->moved_before <= CALM) {
        heap_thin();
        p->heap_due = false;
    }
    p->moved_before = moved;
}
