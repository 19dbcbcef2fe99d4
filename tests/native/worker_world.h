/* A worker in a program that is its core, its clients and its Python: what all such programs begin with. */
#ifndef ROUTERD_TESTS_WORKER_WORLD_H
#define ROUTERD_TESTS_WORKER_WORLD_H

#include <sys/eventfd.h>

#include "workers/loop/unity.c"

#include "shm/memory/layout.h"
#include "tests/native/check.h"

/* What the worker shares with its core, and the core's ends of the rings. */
typedef struct {
    annotations_self identity;
    uint8_t *control, *rings;
    void *arenas[2];
    routerd_consumer actions;
    routerd_producer work;
    sem_t semaphore;
} worker_world;

static uint8_t *world_memory(size_t size)
{
    uint8_t *at = (uint8_t *) aligned_alloc(4096, layout_page_up(size));
    CHECK(at, "no memory");
    return (uint8_t *) memset(at, 0, layout_page_up(size));
}

/* Memory and rings that nothing has been written to. */
static void world_share(worker_world *w, pump *p, size_t arena)
{
    w->control = world_memory(layout_control_bytes(1));
    w->rings = world_memory(layout_rings_bytes(1));
    layout_format_control(w->control, 1, arena);
    layout_format_rings(w->rings, 1);
    for (uint32_t i = 0; i < 2; i++) {
        w->arenas[i] = world_memory(arena);
        layout_format_arena(w->arenas[i], arena);
        CHECK(arena_attach(&p->views[i], w->arenas[i], arena), "no arena");
    }
    sem_init(&w->semaphore, 0, 0);
    p->stats = p->others[0] = (stats_page *) (w->control + layout_stats(0));
    p->own_bell = (routerd_doorbell *) (w->control + layout_worker_doorbell(0));
    p->core_bell = (routerd_doorbell *) (w->control + LAYOUT_CORE_DOORBELL);
    p->core_semaphore = &w->semaphore;
    CHECK(outbox_attach(&p->actions, (routerd_ring *) (w->rings + layout_action_ring(0)))
          && ring_consume(&p->work, (routerd_ring *) (w->rings + layout_work_ring(0)))
          && ring_consume(&w->actions, (routerd_ring *) (w->rings + layout_action_ring(0)))
          && ring_produce(&w->work, (routerd_ring *) (w->rings + layout_work_ring(0))), "no rings");
}

/* A worker with arenas of so many octets and a listener of these terms. */
static void worker_open(worker_world *w, pump *p, size_t arena, pump_callback on_event, worker_listener terms)
{
    struct epoll_event e = { .events = EPOLLIN, .data.u64 = (uint64_t) EPOLL_WAKE << 60 };
    CHECK(layers_found(), "this engine is another one");
    world_share(w, p, arena);
    p->workers = 1;
    p->identity = &w->identity;
    CHECK(pool_open(&p->conns, sizeof(worker_connection), MAX_CONNECTIONS)
          && pool_open(&p->links, sizeof(worker_link), MAX_LINKS)
          && pool_open(&p->ins, sizeof(in_delivery), MAX_DELIVERIES)
          && pool_open(&p->outs, sizeof(out_delivery), MAX_DELIVERIES) && arena_own(&p->arena, &p->views[0]),
          "no tables");
    p->collector = pn_collector();
    p->dirty_first = p->ending_first = p->stalled_first = p->stalled_last = ROUTERD_NIL;
    p->low_small = p->views[0].small_count / 16;
    p->low_large = p->views[0].large_count / 16;
    p->reserve = CONTROL_RESERVE > p->low_small ? CONTROL_RESERVE : p->low_small;
    const int wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    CHECK(p->epoll_fd >= 0 && !epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, wake, &e), "no epoll");
    p->on_event = on_event;
    *listener_new(p) = terms;
}

/* Opens a connection that a client has opened, and closes one that it closes.  False: the event is another one. */
static bool world_answers(pump *p, int event, worker_connection *c)
{
    if (event == EV_CONNECTION_OPEN) {
        pn_connection_set_container(c->engine, "router");
        pn_connection_open(c->engine);
    } else if (event == EV_CONNECTION_CLOSE) {
        pn_connection_close(c->engine);
    } else {
        return false;
    }
    mark_dirty(p, c);
    return true;
}

/* Breaks the connections that are left, as if their clients had. */
static void world_breaks(pump *p)
{
    for (uint32_t i = 0; i < p->conns.high; i++) {
        worker_connection *c = (worker_connection *) pool_at(&p->conns, i);
        if (c->slot.next_free == SLOT_USED) conn_broken(p, c);
    }
}

#endif
