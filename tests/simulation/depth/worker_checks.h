/* What is looked at of workers. */
#ifndef ROUTERD_TESTS_SIMULATION_WORKER_CHECKS_H
#define ROUTERD_TESTS_SIMULATION_WORKER_CHECKS_H

uint32_t worker_links(uint32_t w) { return workers[w].p.links.used; }

bool link_of_worker(uint32_t w, int number, uint32_t handle, uint32_t *link, uint32_t *generation)
{
    const pump *p = &workers[w].p;
    for (uint32_t i = 0; i < p->links.high; i++) {
        const worker_link *k = (const worker_link *) pool_at(&p->links, i);
        if (k->slot.next_free != SLOT_USED || k->conn->fd != number || !k->remote_attached
              || k->remote_handle != handle)
            continue;
        *link = i;
        *generation = k->slot.generation;
        return true;
    }
    return false;
}

void worker_rests(uint32_t w, bool empty)
{
    const pump *p = &workers[w].p;
    HOLDS(!p->ins.used && !p->outs.used && !p->unsettled, "worker %u has %u and %u deliveries, counts %u", w,
          p->ins.used, p->outs.used, p->unsettled);
    HOLDS(p->arena.free_count[0] == p->views[w].small_count && p->arena.free_count[1] == p->views[w].large_count,
          "worker %u has %u of %u small and %u of %u large blocks free", w, p->arena.free_count[0],
          p->views[w].small_count, p->arena.free_count[1], p->views[w].large_count);
    HOLDS(!p->actions.waiting && !p->streams && p->stalled_first == ROUTERD_NIL && p->ending_first == ROUTERD_NIL,
          "worker %u has something to do", w);
    HOLDS(!stats_get(p->stats, N_BAD_RECORDS), "%lu records made no sense to worker %u",
          (unsigned long) stats_get(p->stats, N_BAD_RECORDS), w);
    for (uint32_t i = 0; i < p->conns.high; i++) {
        const worker_connection *c = (const worker_connection *) pool_at(&p->conns, i);
        if (c->slot.next_free != SLOT_USED) continue;
        const block_use *use = &c->use;
        HOLDS(!use->kept[0] && !use->kept[1] && !use->streams, "connection %u of worker %u keeps %u and %u blocks",
              i, w, use->kept[0], use->kept[1]);
        HOLDS(!c->lane->held && !c->lane->holding_first && !c->lane->behind,
              "frames of connection %u of worker %u wait", i, w);
    }
    if (!empty) return;
    HOLDS(!p->conns.used && !p->links.used, "worker %u has %u connections and %u links", w, p->conns.used,
          p->links.used);
}

#endif
