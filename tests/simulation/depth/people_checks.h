/* What is looked at of clients: whether they wait, and whether they know what the router knows. */
#ifndef ROUTERD_TESTS_SIMULATION_PEOPLE_CHECKS_H
#define ROUTERD_TESTS_SIMULATION_PEOPLE_CHECKS_H

bool people_wait(void)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        const client *k = &clients[i];
        if (!k->connected) continue;
        if (virtual_now < k->deaf_until) return true;
        if ((!k->begun && !k->broker) || !k->headed || k->closing || k->sent_count || k->got_count) return true;
        for (uint32_t j = 0; j < k->places; j++) {
            const peer_link *l = &k->links[j];
            if (l->state == ASKED || l->state == LEAVING || (l->state == ATTACHED && (l->number && !l->receives)))
                return true;
            if (l->state == ATTACHED && l->lane.begun) return true;
        }
    }
    return false;
}

/* What clients know, for who looks for a fault. */
void people_tell(void)
{
    for (uint32_t w = 0; w < shared.workers; w++) {
        const pump *p = &workers[w].p;
        if (!processes[w].alive) continue;
        fprintf(stderr, "worker %u: free %u of %u, %u of %u, reserve %u, stalled %u, paused %d, resting %d, "
              "detached %d, ins %u, outs %u, "
                "streams %u, actions wait %zu, core_gone %d back %d quiet %d coming %d asleep %d until %lu\n", w,
                      p->arena.free_count[0],
                p->views[w].small_count, p->arena.free_count[1], p->views[w].large_count, p->reserve, p->stalled_count,
                      p->paused,
                p->resting, p->detached, p->ins.used, p->outs.used, p->streams, p->actions.waiting,
                      workers[w].core_gone,
                workers[w].core_back, workers[w].quiet, workers[w].coming, processes[w].asleep, (unsigned long)
                      processes[w].wake_at);
        for (uint32_t i = 0; i < p->links.high; i++) {
            const worker_link *k = (const worker_link *) pool_at(&p->links, i);
            if (k->slot.next_free != SLOT_USED) continue;
            fprintf(stderr, "    link %u: out %d stalled %d held %d kept %u %u current %d unread %u queued %u owed "
                  "%u\n", i, k->outgoing, k->stalled, k->held,
                    k->kept[0], k->kept[1], k->current != NULL, k->unread, k->queued, k->owed);
        }
    }
    core_shown();
    tables_tell();
    for (uint32_t i = 0; i < CLIENTS; i++) {
        const client *k = &clients[i];
        if (!k->connected) continue;
        const wire *w = &wires[k->wire];
        fprintf(stderr, "client %u at worker %d, wire %d: begun %d, closing %d, sent %u, got %u, window out %u, in %u, "
                "octets out %u, in %u\n", i, w->worker, k->wire, k->begun, k->closing, k->sent_count, k->got_count,
                k->s.out_window, k->s.in_window, w->in.end - w->in.at, w->out.end - w->out.at);
        for (uint32_t j = 0; j < k->places; j++) {
            const peer_link *l = &k->links[j];
            uint32_t link = 0, generation = 0;
            if (l->state == DETACHED) continue;
            (void) link_of_worker((uint32_t) w->worker, k->wire, j, &link, &generation);
            core_view v = core_see((uint32_t) w->worker, link, generation);
            fprintf(stderr, "    link %u (%u), state %u, %s address %u: credit %u, drain %d, message %u at %u; "
                  "core: link %u.%u, "
                    "there %d, granted %ld, withheld %ld, count %u, capacity %u, draining %d\n", j, l->name, l->state,
                    l->receives ? "from" : "to", l->address, l->lane.credit, l->lane.drain, l->number, l->at, link,
                          generation,
                    v.there, (long) v.granted, (long) v.withheld, v.count, v.capacity, v.draining);
        }
        for (uint32_t j = 0; j < OUTSTANDING; j++) {
            if (k->sent[j].used) fprintf(stderr, "    sent %u: message %u, said %#x, over %d\n", k->sent[j].id,
                  k->sent[j].number,
                                         k->sent[j].said, k->sent[j].over);
            if (k->got[j].used) fprintf(stderr, "    got %u: message %u, answered %d\n", k->got[j].id,
                  k->got[j].number, k->got[j].over);
        }
    }
}

/* A sender of a link route has what the receiver at the other end has given, neither more nor less. */
static void pair_check(const peer_link *l)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        for (uint32_t j = 0; j < clients[i].places && clients[i].connected; j++) {
            const peer_link *other = &clients[i].links[j];
            if (other == l || other->state == DETACHED || other->name != l->name || other->address != ROUTED) continue;
            HOLDS(other->receives != l->receives && other->lane.credit == l->lane.credit,
                  "link %u of a link route has %u credit, its other end %u", l->name, l->lane.credit,
                  other->lane.credit);
            return;
        }
    }
    HOLDS(false, "link %u of a link route has no other end", l->name);
}

/* Nothing is on its way: links and credit are the same to all. */
void people_check(void)
{
    uint32_t links[MOST_WORKERS] = { 0 };
    ledger_rests();
    for (uint32_t i = 0; i < CLIENTS; i++) {
        client *k = &clients[i];
        for (uint32_t j = 0; j < k->places && k->connected; j++) {
            const peer_link *l = &k->links[j];
            uint32_t link, generation;
            if (l->state == DETACHED) continue;
            uint32_t w = (uint32_t) wires[k->wire].worker;
            links[w]++;
            HOLDS(link_of_worker(w, k->wire, j, &link, &generation), "worker %u does not know link %u of client %u", w,
                  j, i);
            core_view v = core_see(w, link, generation);
            HOLDS(v.there && v.outgoing == l->receives && v.address == l->address,
                  "the core knows link %u of worker %u as %d, %d, %u, not as %d, %u", link, w, v.there, v.outgoing,
                  v.address, l->receives, l->address);
            HOLDS(!l->lane.drain || !l->lane.credit, "link %u of client %u still drains", j, i);
            if (l->address == ROUTED) { pair_check(l); continue; }
            if (l->receives) continue;
            HOLDS(!v.count && (!v.draining || !v.granted) && v.granted + v.withheld == v.capacity,
                  "link %u of worker %u: granted %ld, withheld %ld, outstanding %u, capacity %u", link, w,
                  (long) v.granted, (long) v.withheld, v.count, v.capacity);
            const uint32_t owed = ((const worker_link *) pool_at(&workers[w].p.links, link))->owed;
            HOLDS(l->lane.credit + owed + v.owed == v.granted,
                  "a sender has %u credit, its worker owes %u, the core %u and gave %ld", l->lane.credit, owed, v.owed,
                  (long) v.granted);
        }
    }
    for (uint32_t w = 0; w < shared.workers; w++)
        HOLDS(worker_links(w) == links[w], "worker %u has %u links, clients have %u", w, worker_links(w), links[w]);
}

void people_end(void)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        if (!clients[i].connected) continue;
        lane_session_end(&clients[i].s);
        clients[i].connected = false;
    }
}

#endif
