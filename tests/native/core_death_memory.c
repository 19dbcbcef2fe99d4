/* A worker that has given the memory of most of its connections and links back loses its core and finds another.
 * Output: the resident memory in KB before and after. */
#define _GNU_SOURCE
#include "tests/native/worker_world.h"

#include <unistd.h>

enum { CONNECTIONS = 20000, LINKS = 100000, POLLS = 60 };

static pump the_pump;
static worker_world world;
static worker_connection *connections[CONNECTIONS];
static worker_link *links[LINKS];

static void on_event(void *self, int event, worker_connection *c, worker_link *k, void *object,
                     const routerd_record *record)
{
    (void) self, (void) event, (void) c, (void) k, (void) object, (void) record;
}

static long resident(void)
{
    long whole, pages;
    FILE *f = fopen("/proc/self/statm", "r");
    CHECK(f && fscanf(f, "%ld %ld", &whole, &pages) == 2, "no statm");
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* The heap waits until the engine has freed what it had of connections that are gone. */
static void heap_waits(pump *p)
{
    engine_rest rest = { .engine = NULL };
    p->heap_due = true;
    p->rest_first = &rest;
    memory_poll(p);
    CHECK(p->heap_due, "the heap has given back what was there before");
    p->rest_first = NULL;
    memory_poll(p);
    CHECK(!p->heap_due, "the heap still waits");
}

int main(void)
{
    pump *p = &the_pump;
    worker_open(&world, p, 8 << 20, on_event, (worker_listener) { .fd = -1 });
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        connections[i] = (worker_connection *) pool_take(&p->conns, sizeof(worker_connection));
        CHECK(connections[i], "no connection");
    }
    for (uint32_t i = 0; i < LINKS; i++) {
        links[i] = (worker_link *) pool_take(&p->links, sizeof(worker_link));
        CHECK(links[i], "no link");
    }
    worker_connection *c = connections[CONNECTIONS - 1];           /* the last ones stay: chunks before them are bare */
    worker_link *k = links[LINKS - 1];
    k->conn = c;
    k->payer = &c->use;
    k->outgoing = c->known = k->known = true;
    k->kept[0] = c->use.kept[0] = 1;
    for (uint32_t i = 0; i < CONNECTIONS - 1; i++) pool_give(&p->conns, connections[i]);
    for (uint32_t i = 0; i < LINKS - 1; i++) pool_give(&p->links, links[i]);
    for (uint32_t i = 0; i < POLLS; i++) memory_poll(p);
    CHECK(p->conns.bare && p->links.bare, "no memory has gone back");
    heap_waits(p);
    long before = resident();
    pump_leave(p, true);
    CHECK(!c->known && !k->known, "the core is still known");
    layout_format_rings(world.rings, 1);
    CHECK(pump_return(p, (routerd_ring *) (world.rings + layout_action_ring(0)),
                      (routerd_ring *) (world.rings + layout_work_ring(0))), "no new core");
    CHECK(!c->use.kept[0] && !k->kept[0], "blocks are still counted");
    printf("%ld %ld\n", before, resident());
    return 0;
}
