/* Memory that a worker no longer needs goes back to the system, in steps of less than a millisecond, once a second.
 *
 *   pools            chunks without used objects, if for POOL_SLACK polls in a row a quarter was used at most (pool.h)
 *   tables, queues   those of many records, while they have none
 *   the heap         after a pool has shrunk, or most of many links have gone: in a second with few records, because
 *                    that takes a millisecond for each 10 MB
 */
#include "workers/loop/loop.h"
#include "shm/memory/heap.h"

enum {
    POOL_LEAST = 16 * POOL_CHUNK,      /* objects for which a pool keeps memory */
    POOL_SLACK = 10, POOL_FUTILE = 600,    /* polls before a sweep; more of them after one that gave little back */
    POOL_SORTED = 16384,               /* objects sorted at a poll */
    POOL_DECIDED = POOL_SORTED / 32,   /* of these as many as deciding on a chunk costs */
    QUEUE_KEPT = 4096,                 /* records for which the queue behind the ring keeps memory */
    MANY = 1024,                       /* connections and links whose end is worth a look at the heap */
    CALM = 10000                       /* records in and out in a second, at most */
};

_Static_assert(sizeof(worker_connection) % 8 == 0 && sizeof(worker_link) % 8 == 0, "chunks fill whole pages");

/* Objects that have memory. */
static uint32_t pool_room(const pool *p) { return p->high - p->bare * POOL_CHUNK; }

static bool sweep_begin(pool *p)
{
    const uint32_t chunks = (p->high + POOL_CHUNK - 1) / POOL_CHUNK;
    pool_sweep *w = (pool_sweep *) malloc(sizeof *w + sizeof w->chunk[0] * chunks);
    uint32_t *bare_at = (uint32_t *) realloc(p->bare_at, sizeof *bare_at * chunks);
    if (bare_at) p->bare_at = bare_at;
    if (!w || !bare_at) { free(w); return false; }
    w->rest = p->free_first;
    w->next = chunks;
    w->room = pool_room(p);
    for (uint32_t i = 0; i < chunks; i++) {
        w->chunk[i].free = ROUTERD_NIL;
        w->chunk[i].count = 0;
    }
    for (; p->bare; p->bare--) w->chunk[bare_at[p->bare - 1]].count = POOL_BARE;
    p->free_first = ROUTERD_NIL;
    p->sweep = w;
    p->slack = 0;
    return true;
}

/* Sorts some of the free objects.  Returns how many. */
static uint32_t sweep_sort(pool *p)
{
    pool_sweep *w = p->sweep;
    uint32_t n = 0;
    for (; w->rest != ROUTERD_NIL && n < POOL_SORTED; n++) {
        const uint32_t index = w->rest, chunk = index / POOL_CHUNK;
        slot_head *s = (slot_head *) pool_at(p, index);
        w->rest = s->next_free;
        s->next_free = w->chunk[chunk].free;
        w->chunk[chunk].free = index;
        w->chunk[chunk].count++;
    }
    return n;
}

/* A step of a pool that shrinks; true: it was the last one, and memory has gone back. */
static bool pool_thin(pool *p)
{
    if (!p->sweep) {
        const bool slack = pool_room(p) > POOL_LEAST && p->used <= pool_room(p) / 4;
        p->slack = slack || p->slack < 0 ? p->slack + 1 : 0;
        if (p->slack < POOL_SLACK || !slack || !sweep_begin(p)) return false;
    }
    pool_sweep *w = p->sweep;
    uint32_t n = sweep_sort(p);
    for (; w->rest == ROUTERD_NIL && w->next && n < POOL_SORTED; n += POOL_DECIDED) pool_decide(p);
    if (w->rest != ROUTERD_NIL || w->next) return false;
    const bool thinner = pool_room(p) <= w->room / 8 * 7;
    p->slack = thinner ? 0 : -POOL_FUTILE;
    p->sweep = NULL;
    free(w);
    return thinner;
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

/* Whether three quarters of many connections and links have been gone for a while, with what the heap had of them. */
static bool crowd_gone(pump *p)
{
    const uint32_t there = p->conns.used + p->links.used;
    if (there > p->crowd) p->crowd = there;
    p->crowd_gone = p->crowd >= MANY && there <= p->crowd / 4 ? p->crowd_gone + 1 : 0;
    if (p->crowd_gone < POOL_SLACK) return false;
    p->crowd = there;
    return true;
}

/* To be called once a second. */
PRIVATE void memory_poll(pump *p)
{
    const uint64_t moved = p->work.next + p->actions.ring.next;
    pool *const all[] = { &p->conns, &p->links, &p->ins, &p->outs };
    p->heap_due |= crowd_gone(p);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) p->heap_due |= pool_thin(all[i]);
    tables_thin(p);
    /* not before the engine has freed what it had */
    if (p->heap_due && !p->rest_first && moved - p->moved_before <= CALM) {
        heap_thin();
        p->heap_due = false;
    }
    p->moved_before = moved;
}
