/* Link routes, as the core's Python keeps them (core/link_routes/ends.py): brokers, and attaches that wait for them. */
#ifndef ROUTERD_TESTS_SIMULATION_CORE_ROUTES_H
#define ROUTERD_TESTS_SIMULATION_CORE_ROUTES_H

static void broker_opened(uint32_t w, const told *t)
{
    HOLDS(it.broker_count < WIRES, "too many brokers");
    it.brokers[it.broker_count].worker = w;
    it.brokers[it.broker_count].connection = t->connection;
    it.brokers[it.broker_count++].generation = t->connection_generation;
}

static void broker_gone(uint32_t at) { it.brokers[at] = it.brokers[--it.broker_count]; }

static void broker_closed(uint32_t w, const told *t)
{
    for (uint32_t i = 0; i < it.broker_count; i++)
        if (it.brokers[i].worker == w && it.brokers[i].connection == t->connection
            && it.brokers[i].generation == t->connection_generation) { broker_gone(i); return; }
}

static void refuse(uint32_t w, told answer)
{
    answer.refused = true;
    core_says(w, C_ATTACHED, &answer);
}

/* An attach goes on to a broker. */
static void route(uint32_t w, const told *t)
{
    uint32_t i = 0;
    if (!it.broker_count) { refuse(w, *t); return; }
    while (i < CLIENTS * CLIENT_LINKS && it.waiting[i].request) i++;
    HOLDS(i < CLIENTS * CLIENT_LINKS, "too many attaches wait");
    const uint32_t at = ++it.requests % it.broker_count, far = it.brokers[at].worker;
    told asked = *t;
    asked.connection = it.brokers[at].connection;
    asked.connection_generation = it.brokers[at].generation;
    asked.request = it.requests;
    asked.session = w << 16 | t->connection;
    asked.outgoing = !t->outgoing;
    it.waiting[i].request = it.requests;
    it.waiting[i].worker = w;
    it.waiting[i].far = far;
    it.waiting[i].cancelled = false;
    it.waiting[i].near = *t;
    core_says(far, C_OPEN_LINK, &asked);
}

static int waiting_find(uint32_t request)
{
    for (int i = 0; i < CLIENTS * CLIENT_LINKS; i++) if (request && it.waiting[i].request == request) return i;
    return -1;
}

/* The broker has answered. */
static void answered(uint32_t w, const told *t)
{
    int at = waiting_find(t->request);
    if (at < 0 || it.waiting[at].cancelled) {
        if (at >= 0) it.waiting[at].request = 0;
        core_says(w, C_DETACH, t);
        return;
    }
    told near = it.waiting[at].near;
    const uint32_t there = it.waiting[at].worker;
    it.waiting[at].request = 0;
    core_link *a = link_add_routed(it.c, w, t->link, t->generation, t->outgoing, false);
    core_link *b = link_add_routed(it.c, there, near.link, near.generation, near.outgoing, false);
    HOLDS(a && b, "an end of a pair is there");
    a->pair = b;
    b->pair = a;
    near.routed = true;
    memcpy(near.modes, t->modes, sizeof near.modes);
    core_says(there, C_ATTACHED, &near);
}

static void refused(const told *t)
{
    int at = waiting_find(t->request);
    if (at < 0) return;
    it.waiting[at].request = 0;
    if (!it.waiting[at].cancelled) refuse(it.waiting[at].worker, it.waiting[at].near);
}

/* A link whose worker has died; its other end follows. */
static void parts(const core_link *l)
{
    if (l->kind != LINK_ROUTED || !l->pair || l->pair->worker == l->worker) return;
    core_says(l->pair->worker, C_DETACH, &(told) { .link = l->pair->link, .generation = l->pair->link_gen });
}

/* A worker has died: those who wait for its brokers are refused. */
static void routes_lost(uint32_t w)
{
    const core_worker *k = &it.c->worker[w];
    for (uint32_t i = 0; i < k->link_room; i++) if (k->link[i]) parts(k->link[i]);
    for (uint32_t i = it.broker_count; i--;) if (it.brokers[i].worker == w) broker_gone(i);
    for (int i = 0; i < CLIENTS * CLIENT_LINKS; i++) {
        if (!it.waiting[i].request) continue;
        if (it.waiting[i].worker == w) it.waiting[i].cancelled = true;
        if (it.waiting[i].far == w) refused(&(told) { .request = it.waiting[i].request });
    }
}

static bool cancelled(uint32_t w, const told *t)
{
    for (int i = 0; i < CLIENTS * CLIENT_LINKS; i++) {
        if (!it.waiting[i].request || it.waiting[i].worker != w || it.waiting[i].cancelled
            || it.waiting[i].near.link != t->link || it.waiting[i].near.generation != t->generation) continue;
        return it.waiting[i].cancelled = true;
    }
    return false;
}

#endif
