/* Setting a router's tables up on its segments, and taking them down. */
#include "core/forwarder/turns/turns.h"
#include "shm/codec/outcome.h"
#include "shm/memory/layout.h"

/* Condition and description. */
static const char *const reasons[CORE_ROUTES][2] = {
    [ROUTE_NO_ADDRESS] = {"amqp:precondition-failed", "Routing failure: no address present"},
    [ROUTE_UNAVAILABLE] = {"amqp:not-found", "Deliveries cannot be sent to an unavailable address"},
    [ROUTE_FORBIDDEN] = {"amqp:unauthorized-access", "The policy does not allow messages to this address"},
    [ROUTE_KEYLESS] = {"routerd:no-route-key", "The message has no application property rmr.mt that is a whole number"},
    [ROUTE_RESERVED] = {"routerd:reserved-message-type", "Message types 0 to 99 are reserved for RMR itself"},
};

/* A constant payload: a rejected state, as receivers say it. */
static uint32_t setup_rejected(core_router *c, const char *const part[2])
{
    uint8_t octets[OUTCOME_MAX];
    return payload_write(c, octets, outcome_rejected(octets, part[0], part[1]));
}

GLUE const char *setup_worker(core_router *c, uint32_t w, uint8_t *control, uint8_t *rings, int eventfd)
{
    core_worker *k = &c->worker[w];
    routerd_ring *actions = (routerd_ring *) (rings + layout_action_ring(w)),
        *work = (routerd_ring *) (rings + layout_work_ring(w));
    if (actions->capacity > LAYOUT_RING_CAPACITY || work->capacity > LAYOUT_RING_CAPACITY)
        return "a ring is larger than its place";
    if (!ring_consume(&k->actions, actions) || !ring_produce(&k->work, work)) return "a ring is not intact";
    k->bell = (routerd_doorbell *) (control + layout_worker_doorbell(w));
    k->eventfd = eventfd;
    k->bit = 1ull << w;
    return NULL;
}

/* NULL, or what is wrong.  Sizes of the segments have been checked for room; their contents are checked here. */
GLUE const char *core_open(core_router *c, uint32_t workers, uint8_t *control, uint64_t seed)
{
    c->workers = workers;
    if (!c->active) c->active = workers;
    for (uint32_t w = c->active; w <= workers + 1; w++) c->worker[w].gone = true;
    c->aliases.seed = seed;
    for (uint32_t bit = 0; bit < NODES; bit++) c->network.node[bit].next_hop = c->network.node[bit].neighbour = -1;
    pool_open(&c->ins, sizeof(core_in));
    pool_open(&c->outs, sizeof(core_out));
    pool_open(&c->links, sizeof(core_link));
    pool_open(&c->addresses, sizeof(core_address));
    pool_open(&c->streams, sizeof(core_streams));
    pool_open(&c->fans, sizeof(core_fan));
    pool_open(&c->tells, sizeof(core_tell));
    c->bell = (routerd_doorbell *) (control + layout_core_doorbell());
    c->stats = (stats_page *) (control + layout_stats(workers));
    count_former(c);
    if (!arena_own(&c->own, &c->arena[workers])) return "there is no memory for the core's free lists";
    for (int why = ROUTE_NO_ADDRESS; why < CORE_ROUTES; why++)
        if ((c->reason[why] = setup_rejected(c, reasons[why])) == ROUTERD_NIL) return "the core's arena has no room";
    return NULL;
}

/* Texts go with what owns them, or with the last copy that names them. */
static void close_texts(core_router *c)
{
    uint32_t at = 0;
    for (core_streams *k; (k = (core_streams *) pool_next(&c->streams, &at));) free(k->waiting);
    at = 0;
    for (core_out *out; (out = (core_out *) pool_next(&c->outs, &at));)
        if (out->text) text_done(c, out->text);
    at = 0;
    for (core_fan *f; (f = (core_fan *) pool_next(&c->fans, &at));)
        if (f->text) text_done(c, f->text);
    at = 0;
    for (core_address *a; (a = (core_address *) pool_next(&c->addresses, &at));) text_disown(c, a->text);
    at = 0;
    for (core_link *l; (l = (core_link *) pool_next(&c->links, &at));) {
        if (!l->outgoing) text_disown(c, l->text);
        if (!l->outgoing && l->kind != LINK_ROUTED && l->park) {
            park_unlink(c, l);
            park_end(l);
        }
        free(l->memo);     /* or its origins */
    }
}

GLUE void core_close(core_router *c)
{
    for (uint32_t w = 0; w <= ROUTERD_MAX_WORKERS + 1; w++) {
        queue_close(&c->worker[w].overflow);
        free(c->worker[w].link);
    }
    uint32_t at = 0;
    for (core_address *a; (a = (core_address *) pool_next(&c->addresses, &at));) {
        if (a->exchange) exchange_free(c, a->exchange);
        free(a->out);
        free(a->ranks);
        free(a->outstanding);
    }
    close_texts(c);
    stall_close(c);
    alias_close(&c->aliases);
    for (uint32_t i = 0; i <= c->workers; i++) free(c->payloads.reader[i]);
    for (uint32_t w = 0; w <= ROUTERD_MAX_WORKERS; w++) {
        free(c->peers[w].in);
        free(c->parked[w]);
    }
    pool_close(&c->ins);
    pool_close(&c->outs);
    pool_close(&c->links);
    pool_close(&c->addresses);
    pool_close(&c->streams);
    pool_close(&c->fans);
    pool_close(&c->tells);
    arena_disown(&c->own);
    if (c->sem) sem_close(c->sem);
}
