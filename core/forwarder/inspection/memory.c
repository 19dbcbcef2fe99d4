/* Memory that the core no longer needs goes back to the system, in steps of less than a millisecond between turns.
 *
 *   pools            chunks without live entries, if for some seconds a quarter was live at most (pool.c)
 *   tables, queues   those of many records, while they have none
 *   the heap         after a pool has shrunk, or most of many links and spellings, or long tables, have gone: in a
 *                    second with few records, because that takes a millisecond for each 10 MB
 */
#include "core/forwarder/inspection/inspection.h"
#include "core/forwarder/settlement/settlement.h"

#define MEMORY_LOOK_NS 1000000000ull   /* between two looks */
#define MEMORY_STEP_NS 10000000ull     /* between the steps of a sweep */
#define MEMORY_CALM 10000u             /* records of workers in a second, at most */
#define MEMORY_QUEUE 4096u             /* records for which a queue keeps memory */

/* Records of workers so far. */
static uint64_t records_read(const core_router *c)
{
    uint64_t sum = 0;
    for (uint32_t w = 0; w < c->workers; w++) sum += c->worker[w].actions.next;
    return sum;
}

static void tables_thin(core_router *c)
{
    for (uint32_t w = 0; w <= c->workers; w++) {
        core_queue *q = &c->worker[w].overflow;
        if (!q->count && q->room > MEMORY_QUEUE) queue_close(q);
        if (c->ins.live) continue;
        free(c->peers[w].in);
        c->peers[w] = (core_peers) {.in = NULL};
    }
}

/* The heap has memory to give back that others have freed. */
GLUE void memory_freed(core_router *c) { c->memory.heap_due = true; }

/* Does what is due at c->now.  Returns nanoseconds until the next step. */
GLUE uint64_t memory_step(core_router *c)
{
    core_pool *const all[] = {&c->ins, &c->outs, &c->links, &c->addresses, &c->streams, &c->fans, &c->tells};
    const bool look = c->now >= c->memory.look;
    bool sweeping = false;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        c->memory.heap_due |= pool_thin(all[i], look);
        sweeping |= all[i]->sweep != NULL;
    }
    if (look) {
        const uint64_t read = records_read(c);
        c->memory.heap_due |= heap_crowd_gone(&c->memory.crowd, c->links.live + c->aliases.count);
        tables_thin(c);
        if (c->memory.heap_due && read - c->memory.read <= MEMORY_CALM) {
            heap_thin();
            c->memory.heap_due = false;
        }
        c->memory.read = read;
        c->memory.look = c->now + MEMORY_LOOK_NS;
    }
    return sweeping ? MEMORY_STEP_NS : c->memory.look - c->now;
}
