/* The end of a checkpoint: what only all of its entries together say, and whether they make a whole. */
#include "core/forwarder/recording/image.h"
#include "core/forwarder/recording/recording.h"

static const char *finish_addresses(core_router *c)
{
    uint32_t at = 0;
    for (core_address *a; (a = (core_address *) pool_next(&c->addresses, &at));) {
        core_address *fallback = (core_address *) restored_entry(&c->addresses, a->epoch);
        REFUSE(a->epoch && (!fallback || fallback->fallback_for), "a fallback makes no sense");
        a->epoch = 0;
        a->fallback = fallback;
        if (fallback) fallback->fallback_for = a;
        for (uint32_t i = 0; i < a->out_count; i++)
            REFUSE(a->ranks && !a->out[i]->rank, "a receiver has no rank");
    }
    at = 0;
    for (core_address *a; (a = (core_address *) pool_next(&c->addresses, &at));)
        REFUSE(a->redirects && !a->fallback && !a->routes && !a->exchange, "an address leads nowhere");
    return NULL;
}

static const char *finish_links(core_router *c)
{
    uint32_t at = 0;
    for (core_link *l; (l = (core_link *) pool_next(&c->links, &at));) {
        REFUSE(l->address && l->leaving, "a link is in no list of its address");
        l->leaving = false;
        if (l->kind != LINK_ROUTED || !l->flow) continue;
        l->pair = (core_link *) restored_entry(&c->links, l->flow);
        REFUSE(!l->pair || l->pair == l || l->pair->kind != LINK_ROUTED || l->pair->outgoing == l->outgoing,
               "a pair of links makes no sense");
    }
    at = 0;
    for (core_link *l; (l = (core_link *) pool_next(&c->links, &at));) {
        REFUSE(l->kind == LINK_ROUTED && l->pair && l->pair->pair != l, "a pair of links makes no sense");
        l->flow = 0;
    }
    return NULL;
}

/* Whether all entries of a chunk are there, or none if it has no memory, which it is said once. */
static bool chunk_whole(const core_pool *p, uint32_t chunk)
{
    uint32_t there = 0, bare = 0;
    for (uint32_t i = 0; i < p->bare; i++) bare += p->bare_at[i] == chunk;
    for (uint32_t i = 0; i < POOL_CHUNK; i++) there += pool_at(p, (chunk << POOL_CHUNK_SHIFT) + i)->generation != 0;
    return bare <= 1 && there == (bare ? 0 : POOL_CHUNK);
}

static const char *finish_deliveries(core_router *c)
{
    uint32_t at = 0;
    for (core_in *in; (in = (core_in *) pool_next(&c->ins, &at));)
        REFUSE(!in->copies || (in->copy_count > 1 && !(in->flags & IN_MULTICAST)), "a message has no copies");
    for (uint32_t i = 0; i < IMAGE_POOLS; i++) {
        const core_pool *p = restored_pool(c, i);
        for (uint32_t chunk = 0; chunk < p->chunks; chunk++)
            REFUSE(!chunk_whole(p, chunk), "entries of a table are missing");
    }
    return NULL;
}

/* Free entries are taken in the order in which the recording has them. */
static void turn_free(core_pool *p)
{
    pool_node *first = NULL;
    while (p->free) {
        pool_node *n = p->free;
        p->free = n->next_free;
        n->next_free = first;
        first = n;
    }
    p->free = first;
}

/* Checks what has been restored as a whole.  NULL, or what is wrong: the core is no use then. */
GLUE const char *checkpoint_restored(core_router *c)
{
    const char *wrong = finish_addresses(c);
    if (!wrong) wrong = finish_links(c);
    if (!wrong) wrong = finish_deliveries(c);
    if (!wrong) wrong = network_restored(c);
    if (!wrong) wrong = exchanges_restored(c);
    REFUSE(wrong, wrong);
    for (uint32_t i = 0; i < IMAGE_POOLS; i++) turn_free(restored_pool(c, i));
    REFUSE((c->text_length && !restored_entry(&c->addresses, c->text_length))
           || (c->text_scope && !restored_entry(&c->addresses, c->text_scope))
           || (c->scratch.link && !restored_entry(&c->addresses, c->scratch.link)),
           "the core's own addresses are missing");
    c->agent = (core_address *) restored_entry(&c->addresses, c->text_length);
    c->exit = (core_address *) restored_entry(&c->addresses, c->text_scope);
    c->network.border = (core_address *) restored_entry(&c->addresses, c->scratch.link);
    c->text_length = c->text_scope = 0;
    memset(&c->scratch, 0, sizeof c->scratch);
    return NULL;
}
