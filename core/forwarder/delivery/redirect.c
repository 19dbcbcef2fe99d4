/* Where messages of an address go besides its own receivers: through its exchange to others, or to its fallback. */
#include "core/forwarder/delivery/delivery.h"
#include "core/forwarder/tables/planes.h"

static void address_set_redirects(core_router *c, core_address *a)
{
    bool was = a->redirects;
    a->redirects = a->exchange || (a->routes && routes_open(a->routes))
        || (a->fallback && address_has_receiver(a->fallback));
    if (!was && a->redirects) credit_grant_all(c, a);
}

/* An address has its first receiver, or has lost its last: whose fallback it is leads somewhere, or nowhere. */
PRIVATE void address_way_changed(core_router *c, core_address *a)
{
    if (a->fallback_for) address_set_redirects(c, a->fallback_for);
}

/* NULL: it has none any more.  Each fallback is that of one address. */
GLUE void address_set_fallback(core_router *c, core_address *a, core_address *fallback)
{
    if (a->fallback) a->fallback->fallback_for = NULL;
    a->fallback = fallback;
    if (fallback) fallback->fallback_for = a;
    address_set_redirects(c, a);
}

/* NULL: there is none any more.  What it replaces is freed; messages on their way do not need it. */
GLUE void address_set_exchange(core_router *c, core_address *a, core_exchange *x)
{
    core_exchange *old = a->exchange;
    if (x && !old) a->holds++;
    if (!x && old) a->holds--;
    a->exchange = x;
    if (old) exchange_free(c, old);
    address_set_redirects(c, a);
}

/* NULL: it is no route table's any more.  What it replaces is the caller's. */
GLUE void address_set_routes(core_router *c, core_address *a, core_routes *p)
{
    a->routes = p;
    address_set_redirects(c, a);
}

/* Copies for a hop; as if the message had come in here. */
static void exchange_send(core_router *c, core_in *in, core_hop *hop, uint8_t priority, uint32_t state)
{
    core_address *a = hop->address;
    if (!a || a->treatment >= T_UNAVAILABLE) return;
    core_provenance provenance = PROVENANCE_NONE;
    provenance.text = hop->text;
    deliver_address(c, in, a, deliver_priority(a, priority), (state & ~(uint32_t) SEND_PHASE) | a->phase | SEND_AFRESH,
                    &provenance);
}

/* Copies for the hops that a message matches, or for the alternate one. */
static inline void exchange_forward(core_router *c, core_in *in, core_address *a, uint8_t priority, uint32_t state,
                                    bool found)
{
    core_exchange *x = a->exchange;
    uint32_t before = in->copy_count;
    if (__builtin_expect(c->flight != NULL, 0)) exchange_record(c, a);
    x->state |= EXCHANGE_BUSY;
    x->received++;
    in->flags |= IN_MULTICAST;
    if (found)
        for (uint32_t i = 0; i < x->hop_count; i++)
            if (x->hop[i].mark == x->message) exchange_send(c, in, &x->hop[i], priority, state);
    if (in->copy_count == before && x->alternate != EXCHANGE_NONE) {
        exchange_send(c, in, &x->hop[x->alternate], priority, state);
        x->diverted += in->copy_count != before;
    }
    if (in->copy_count == before) x->dropped++;
    else x->forwarded++;
    in_copies_open(in);
    x->state &= (uint8_t) ~EXCHANGE_BUSY;
}

PRIVATE void deliver_exchange(core_router *c, core_in *in, core_address *a, uint8_t priority, uint32_t state)
{
    core_exchange *x = a->exchange;
    if (__builtin_expect(x->state, 0)) {
        if (!(x->state & EXCHANGE_BUSY)) exchange_forward(c, in, a, priority, state, exchange_given(x));
        return;
    }
    uint32_t length = exchange_subject(&c->arena[in->arena], in->block, c->buffer);
    exchange_forward(c, in, a, priority, state, exchange_match(x, c->buffer, length));
}
