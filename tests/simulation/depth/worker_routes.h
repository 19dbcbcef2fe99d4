/* Link routes, as a worker's Python sees them (workers/control/link_requests.py, workers/amqp/termini.pxi). */
#ifndef ROUTERD_TESTS_SIMULATION_WORKER_ROUTES_H
#define ROUTERD_TESTS_SIMULATION_WORKER_ROUTES_H

static void link_terms(pn_link_t *engine, const told *t)
{
    pn_terminus_set_address(pn_link_source(engine), (const char *) address_text(ROUTED));
    pn_terminus_set_address(pn_link_target(engine), (const char *) address_text(ROUTED));
    pn_link_set_snd_settle_mode(engine, t->modes[0]);
    pn_link_set_rcv_settle_mode(engine, t->modes[1]);
}

/* The other end of a link-route pair (workers/amqp/termini.pxi).  It waits while another link has its name
 * (workers/control/link_requests.py). */
static void far_link_opens(pump *p, const told *t)
{
    worker_connection *c = (worker_connection *) pool_find2(&p->conns, t->connection, t->connection_generation);
    const uint32_t client = 1 + t->session, session = ROUTED_SESSIONS + client;
    if (c && dial_taken(c, t->name, t->outgoing)) {
        HOLDS(workers[p->index].opening_count < OPENINGS, "too many links wait for their names");
        workers[p->index].openings[workers[p->index].opening_count++] = *t;
        return;
    }
    worker_link *k = c ? dial_link(p, c, session, client, t->name, t->outgoing) : NULL;
    if (!k) {
        worker_says(p, C_LINK_REFUSED, &(told) { .request = t->request });
        return;
    }
    k->known = true;
    share_take(k, client, false, 0);
    link_routed(k);
    k->asked = t->request;
    link_terms(k->engine, t);
    dial_attach(p, k);
}

static void link_goes(pump *p, const told *t)
{
    worker_link *k = (worker_link *) pool_find2(&p->links, t->link, t->generation);
    if (!k) return;
    pn_link_t *engine = k->engine;
    mark_dirty(p, k->conn);
    link_lost(p, k, EV_LINK_LOST);
    pn_link_close(engine);
}

/* Closes the links that a dead core has requested and no peer has answered yet. */
static void unask(pump *p)
{
    for (uint32_t i = 0; i < p->links.high; i++) {
        worker_link *k = (worker_link *) pool_at(&p->links, i);
        if (k->slot.next_free == SLOT_USED && k->asked) dial_unask(p, k);
    }
}

static void openings_step(uint32_t w)
{
    const uint32_t n = workers[w].opening_count;
    told waiting[OPENINGS];
    memcpy(waiting, workers[w].openings, n * sizeof *waiting);
    workers[w].opening_count = 0;
    for (uint32_t i = 0; i < n; i++) far_link_opens(&workers[w].p, &waiting[i]);
}

/* The core hears of connections to brokers and to routers. */
static void tell_connection(pump *p, const worker_connection *c, uint32_t kind)
{
    const char *container = pn_connection_remote_container(c->engine);
    const uint8_t router = router_at(c);
    if (!container || (!router && strcmp(container, BROKER))) return;
    worker_says(p, kind, &(told) { .connection = pool_index(&p->conns, c), .router = router,
                                   .connection_generation = c->slot.generation });
}

#endif
