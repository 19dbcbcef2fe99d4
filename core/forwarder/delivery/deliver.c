/* A message that has come: where it goes, and a copy for everyone who is to have it.
 *
 * Its address is that of its link, or the text that it carries; a message from another router, or one whose sender may
 * say so, also carries where it has been.
 */
#include "core/forwarder/delivery/delivery.h"
#include "core/forwarder/tables/planes.h"
#include "shm/codec/utf8.h"

static INLINED void *core_take(core_pool *p, uint32_t bytes)
{
    void *entry = pool_take_of(p, bytes);
    if (!entry) abort();   /* no memory for a delivery: dying loses nothing, forgetting it would */
    return entry;
}

/* Finds the address by the text in the message. */
static enum core_route route_lookup(core_router *c, const core_link *l, uint32_t block, uint32_t scope,
                                    core_address **address)
{
    uint32_t length = content_to(&c->arena[l->worker], block, c->text);
    core_alias *known = length - 1 < CORE_MAX_TEXT ? alias_find(&c->aliases, scope, c->text, length) : NULL;
    if (__builtin_expect(c->flight != NULL, 0))
        flight_text(c, l->worker, block, length, known ? known->hash : length - 1 < CORE_MAX_TEXT
            ? alias_hash_in(c->aliases.seed, scope, c->text, length) : 0);
    if (!length) return ROUTE_NO_ADDRESS;
    if (length > CORE_MAX_TEXT) return ROUTE_UNROUTABLE;
    if (!known) {
        c->text_length = length, c->text_scope = scope;
        /* what is no AMQP string is nobody's address */
        return utf8_valid(c->text, length) ? ROUTE_UNKNOWN : ROUTE_UNROUTABLE;
    }
    *address = known->address && __builtin_expect(known->agent & l->bounded, 0) ? c->agent : known->address;
    return *address ? ROUTE_FOUND : ROUTE_FORBIDDEN;
}

/* Whether a message without a way may leave an edge router for wherever others know one. */
static inline bool route_exit(const core_router *c, const core_link *from)
{
    return c->exit && c->exit->out_count && !from->address && !from->edge;
}

PRIVATE inline enum core_route route_find(core_router *c, const core_link *l, uint32_t block, uint32_t scope,
                                          const core_provenance *provenance, core_address **address)
{
    core_address *a = *address = l->address;
    if (!a || provenance->overridden) {
        enum core_route route = route_lookup(c, l, block, scope, address);
        if (route != ROUTE_FOUND) return route;
        a = *address;
    }
    if (a->treatment >= T_UNAVAILABLE) {
        if (a->treatment == T_UNAVAILABLE) return ROUTE_UNAVAILABLE;
        if (!provenance->control) return ROUTE_UNROUTABLE;
    }
    return address_leads(a, l) || route_exit(c, l) ? ROUTE_FOUND : ROUTE_UNROUTABLE;
}

/* Finds the way of a message that may say where it goes and where it has been. */
PRIVATE enum core_route route_annotated(core_router *c, core_link *l, const routerd_record *r,
                                        core_provenance *provenance, core_address **address)
{
    const arena_content *content = arena_content_of(&c->arena[l->worker], r->block);
    uint32_t scope = l->scope;
    provenance->control = l->kind == LINK_CONTROL;
    provenance->known = true;
    if (__builtin_expect(c->flight != NULL, 0)) provenance_record(c, l, r->block, content);
    if (content->annotations != ANNOTATIONS_NONE) {
        if (link_inter_router(l) && content->trace_count > c->network.radius + 1) return ROUTE_UNROUTABLE;
        provenance->known = false;
        provenance->content = content;
        provenance->block = r->block;
        provenance->overridden = !l->address && content->routed & ROUTED_OVERRIDE;  /* a target holds */
        provenance->streaming = content->routed & ROUTED_STREAM;
        if (!scope && content->phase && content->phase < 10) scope = ALIAS_PHASES + content->phase;
    }
    enum core_route route = route_find(c, l, r->block, scope, provenance, address);
    if (provenance->control && c->network.abroad && route == ROUTE_FOUND)
        *address = transit_border(c, l, r->block, *address);
    return route;
}

PRIVATE INLINED core_in *deliver_in(core_router *c, core_link *l, const routerd_record *r)
{
    core_in *in = (core_in *) core_take(&c->ins, sizeof(core_in));
    in->peer = r->peer;
    in->length = r->length;
    in->arrived = r->time;
    in->block = r->block;
    in->arena = l->worker;
    in->detail = ROUTERD_NIL;
    if (r->flags & F_SETTLED) in->flags |= IN_PRESETTLED;
    if (r->flags & F_COMPLETE) in->flags |= IN_COMPLETE;
    link_add_in(l, in);
    if (__builtin_expect(l->by_peer, 0)) by_peer_note(c, in);
    l->granted--;
    l->counts.last = c->now;
    l->counts.presettled += in->flags & IN_PRESETTLED;
    if (__builtin_expect(!(++l->deliveries & (CREDIT_CYCLE - 1)), 0)) credit_cycle(c, l);
    return in;
}

/* Adds to a W_SEND for the core itself where the message came from. */
__attribute__((noinline, cold)) static void deliver_own(core_router *c, const core_in *in, core_link *to,
                                                        routerd_record *s)
{
    to->address->to_core++;
    const core_link *from = in->link;
    s->length = from ? from->worker + 1u : 0, s->delivery = from ? from->link | (uint64_t) from->link_gen << 32 : 0;
    if (!from || !from->annotated || from->worker == c->workers) return;
    const arena_content *content = arena_content_of(&c->arena[in->arena], in->block);
    if (content->annotations != ANNOTATIONS_NONE) s->time = content->section_end;
    if (link_inter_router(from)) s->credit = from->neighbour + 1u;
}

/* Whether a receiver is too far behind for another copy whose credit comes back before it is read. */
static inline bool full(const core_in *in, const core_link *l) { return in_eager(in) && l->count / 2 >= l->capacity; }

/* NULL: dropped. */
PRIVATE INLINED core_out *deliver_copy(core_router *c, core_in *in, core_link *to, uint8_t priority, uint32_t state,
                                       const core_text *text)
{
    if (full(in, to)) {
        to->counts.presettled++;
        if (__builtin_expect(c->flow != NULL, 0)) flow_drop(c, in, to, FLOW_DROPPED, ROUTERD_NIL);
        to->counts.dropped++;
        in->flags |= IN_BEHIND;
        stats_add(c->stats, N_DROPPED_BEHIND, 1);
        return NULL;
    }
    core_out *out = (core_out *) core_take(&c->outs, sizeof(core_out));
    link_add_out(to, out);
    in_add_copy(in, out);
    to->deliveries++;
    to->counts.last = c->now;
    bool settled = (in->flags & (IN_PRESETTLED | IN_SETTLED)) || to->settles;
    if (settled) out->flags |= OUT_SETTLED;
    routerd_record *s = core_post_link(c, to, W_SEND);
    s->flags = (uint8_t) ((settled ? F_SETTLED : 0) | (in->flags & IN_COMPLETE ? F_COMPLETE : 0));
    s->priority = priority;
    s->arena = in->arena;
    s->block = in->block;
    s->peer = pool_handle(out);
    s->length = in->length;
    s->state = state;
    if (text) s->extra = (uint64_t) text->block + 1;
    if (__builtin_expect(to->worker == c->workers, 0)) {
        out->flags |= OUT_APART;
        deliver_own(c, in, to, s);
    }
    if (__builtin_expect(to->container, 0)) {
        to->address->to_containers++;
        stats_add(c->stats, N_TO_CONTAINERS, 1);
    }
    return out;
}

/* To an edge router, or from there to its interior router.  Some of these links say nothing of where a message goes,
 * nor do those for streams. */
__attribute__((noinline)) PRIVATE core_out *deliver_between(core_router *c, core_in *in, core_address *a,
                                                            core_link *to, uint8_t priority, uint32_t state,
                                                            const core_provenance *provenance)
{
    if (in->flags & IN_COMPLETE && !provenance->streaming) state &= ~SEND_STREAM;     /* its end has come meanwhile */
    bool aside = to->streams && state & SEND_STREAM;
    core_text *text = NULL;
    if ((to->wants_override || aside) && !transit_text(c, in->link, a, provenance, &text)) return NULL;
    core_link *stream = aside && !full(in, to) ? stream_link(c, to->streams, in, provenance->streaming) : NULL;
    core_out *out = deliver_copy(c, in, stream ? stream : to, priority, state, text);
    if (!out) {
        if (text) text_done(c, text);
        return NULL;
    }
    out->text = text;
    if (stream) stream_note(c, out, to, priority, state);
    return out;
}

static INLINED core_out *deliver_here(core_router *c, core_in *in, core_address *a, core_link *to, uint8_t priority,
                                      uint32_t state, const core_provenance *provenance)
{
    if (__builtin_expect(to->kind == LINK_EDGE, 0)) return deliver_between(c, in, a, to, priority, state, provenance);
    core_out *out = deliver_copy(c, in, to, priority, state, NULL);
    if (__builtin_expect(link_inter_router(in->link), 0) && out) provenance_count(c, in->link, to, provenance);
    return out;
}

/* No message goes back over an edge connection, except an exchange's or a route table's copy, which starts here. */
static inline uint32_t edge_shut(const core_link *from, uint32_t state) { return state & SEND_AFRESH ? 0 : from->edge; }

/* Chooses a receiver of ours; `e`: the edge connection that is shut, or 0. */
static inline core_link *choose_here(uint32_t e, core_address *a) { return e ? choose_without(a, e) : choose_one(a); }

/* Delivers what came from an edge router, or leaves one for wherever others know a way. */
static void deliver_edge(core_router *c, core_in *in, core_address *a, uint8_t priority, uint32_t state,
                         const core_provenance *provenance)
{
    core_link *to = a->out_count ? choose_here(edge_shut(in->link, state), a) : c->exit && c->exit->out_count
        ? choose_one(c->exit) : NULL;
    if (to) deliver_here(c, in, a, to, priority, state, provenance);
}

static void deliver_transit(core_router *c, core_in *in, core_address *a, uint32_t hop, uint8_t priority,
                            uint32_t state, const core_provenance *provenance)
{
    core_text *text;
    core_link *to = transit_link(c, hop, provenance->control, priority), *stream = NULL;
    if (!to || !transit_text(c, in->link, a, provenance, &text)) return;
    if (in->flags & IN_COMPLETE && !provenance->streaming) state &= ~SEND_STREAM;
    if (state & SEND_STREAM && !provenance->control && !full(in, to))
        stream = stream_link(c, network_hop(&c->network, hop)->streams, in, provenance->streaming);
    core_out *out = deliver_copy(c, in, stream ? stream : to, priority, state, text);
    if (!out) {
        if (text) text_done(c, text);
        return;
    }
    out->hop = (uint8_t) hop;
    if (stream) stream_note(c, out, to, priority, state);
    out->address = pool_handle(a);
    out->text = text;
    if (!(in->flags & IN_PRESETTLED)) a->outstanding[hop]++;
    a->transit++;
}

static void deliver_multicast(core_router *c, core_in *in, core_address *a, uint8_t priority, uint32_t state,
                              core_provenance *provenance)
{
    in->flags |= IN_MULTICAST;
    uint32_t shut = edge_shut(in->link, state);
    /* an edge router's senders without a target reach others, too, but once */
    bool left = provenance->own || a == c->exit || state & SEND_AFRESH || a->edges;
    if (fan_wanted(a)) fan_begin(c, in, a, priority, state, shut, provenance);
    else for (uint32_t i = 0; i < a->out_count; i++) {
        core_link *to = a->out[i];
        if ((provenance->own && to->worker == c->workers) || (to->edge && to->edge == shut)) continue;
        deliver_here(c, in, a, to, priority, state, provenance);
    }
    if (!left && route_exit(c, in->link)) deliver_here(c, in, a, choose_one(c->exit), priority, state, provenance);
    if (a->reached) {
        provenance_read(c, in->link, provenance);
        core_mask hops = transit_multicast(&c->network, in->link, a, provenance);
        for (uint32_t hop = mask_next(&hops, 0); hop < NODES; hop = mask_next(&hops, hop + 1))
            deliver_transit(c, in, a, hop, priority, state, provenance);
    }
    in_copies_open(in);
}

/* Closest and balanced, where other routers have receivers, too. */
static void deliver_near_or_far(core_router *c, core_in *in, core_address *a, uint8_t priority, uint32_t state,
                                core_provenance *provenance)
{
    core_link *here = a->out_count ? choose_here(edge_shut(in->link, state), a) : NULL;
    uint32_t hop = 0;
    if (a->treatment == T_CLOSEST) {
        if (!here) hop = transit_closest(&c->network, a);
    } else {
        provenance_read(c, in->link, provenance);
        hop = transit_balanced(c, a, here, provenance->origin, priority);
    }
    if (hop) deliver_transit(c, in, a, hop, priority, state, provenance);
    else if (here) deliver_here(c, in, a, here, priority, state, provenance);
}

PRIVATE inline uint8_t deliver_priority(const core_address *a, uint8_t priority)
{
    return a && a->priority >= 0 ? (uint8_t) a->priority : priority < ROUTERD_PRIORITIES ? priority
           : ROUTERD_PRIORITIES - 1;
}

__attribute__((noinline)) PRIVATE void deliver_unroutable(core_router *c, core_link *l, const routerd_record *r,
                                                          enum core_route why, const core_address *a)
{
    core_in *in = deliver_in(c, l, r);
    if (why == ROUTE_FORBIDDEN) stats_add(c->stats, N_REFUSED_MESSAGES, 1);
    core_outcome o = outcome_plain(why == ROUTE_UNROUTABLE ? S_RELEASED : S_REJECTED, 0);
    if (in->flags & IN_PRESETTLED) {
        o.state = S_RELEASED;
        l->counts.dropped++;
        stats_add(c->stats, N_DROPPED_PRESETTLED, 1);
    } else if (why != ROUTE_UNROUTABLE) {
        o.detail = c->reason[why];
        o.arena = (uint8_t) c->workers;
    }
    if (__builtin_expect(c->flow != NULL, 0)) {
        flow_note(c, l, in, a, deliver_priority(a, r->priority), r);
        flow_drop(c, in, NULL, o.state == S_REJECTED ? FLOW_REJECTED : FLOW_UNDELIVERABLE, o.detail);
    }
    in_settle(c, in, &o);
    if (l->kind != LINK_ENDPOINT) credit_due(c, l);
    credit_drain(c, l);
}

/* Nobody took it: it is settled and every receiver is too far behind, or no router may get it from here. */
__attribute__((noinline, cold)) PRIVATE void deliver_failed(core_router *c, core_link *l, core_in *in)
{
    if (l && l->kind != LINK_ENDPOINT) credit_due(c, l);
    if (in->flags & IN_PRESETTLED && !(in->flags & IN_BEHIND)) stats_add(c->stats, N_DROPPED_PRESETTLED, 1);
    if (__builtin_expect(c->flow != NULL, 0))
        flow_drop(c, in, NULL, in->flags & IN_PRESETTLED ? FLOW_DROPPED : FLOW_UNDELIVERABLE, ROUTERD_NIL);
    in_settle(c, in, &OUTCOME_RELEASED);
}

/* To all receivers of an address, to one that may be at another router, or from or to an edge router. */
__attribute__((noinline)) static void deliver_widely(core_router *c, core_in *in, core_address *a, uint8_t priority,
                                                     uint32_t state, core_provenance *provenance)
{
    uint32_t before = in->copy_count, fans = in->fans;
    if (a->treatment >= T_MULTICAST) deliver_multicast(c, in, a, priority, state, provenance);
    else if (a->reached) deliver_near_or_far(c, in, a, priority, state, provenance);
    else deliver_edge(c, in, a, priority, state, provenance);
    a->deliveries += in->copy_count - before - (in->fans - fans);
}

/* To the receivers of an address. */
PRIVATE INLINED void deliver_receivers(core_router *c, core_in *in, core_address *a, uint8_t priority, uint32_t state,
                                       core_provenance *provenance)
{
    if (__builtin_expect(a->treatment >= T_MULTICAST || a->reached || in->link->edge || !a->out_count, 0))
        deliver_widely(c, in, a, priority, state, provenance);
    else if (deliver_here(c, in, a, choose_one(a), priority, state, provenance)) a->deliveries++;
}

/* Nobody has it: the fallback destination is for such messages.  A receiver here that is too far behind is somebody. */
static void deliver_fallback(core_router *c, core_in *in, core_address *a, uint8_t priority, uint32_t state,
                             core_provenance *provenance)
{
    core_address *to = a->fallback;
    if (!to || a->out_count) return;
    uint32_t before = in->copy_count;
    deliver_receivers(c, in, to, deliver_priority(to, priority), (state & ~(uint32_t) SEND_PHASE) | to->phase,
                      provenance);
    if (in->copy_count == before) return;
    if (in->flags & IN_MULTICAST) in_copies_open(in);
    a->redirected++;
    stats_add(c->stats, N_REDIRECTED, 1);
}

/* To an address, and wherever its messages go from there. */
PRIVATE void deliver_address(core_router *c, core_in *in, core_address *a, uint8_t priority, uint32_t state,
                             core_provenance *provenance)
{
    uint32_t before = in->copy_count;
    if (a->routes) {
        deliver_by_table(c, in, a, priority);
        return;
    }
    if (address_has_receiver(a)) deliver_receivers(c, in, a, priority, state, provenance);
    if (a->exchange) deliver_exchange(c, in, a, priority, state);
    if (in->copy_count == before) deliver_fallback(c, in, a, priority, state, provenance);
}

/* Finishes a delivery whose copies have been made. */
PRIVATE INLINED void deliver_tail(core_router *c, core_link *l, core_in *in)
{
    if (__builtin_expect(!in->copies || in->fans, 0)) {
        if (in->fans) fan_leaves(c, in); else deliver_failed(c, l, in);
        return;
    }
    if (__builtin_expect(l->kind != LINK_ENDPOINT, 0)) credit_due(c, l);
    in_forwarded(c, in);
    if (!(in->flags & IN_COMPLETE) && in->peer) in_post(c, in, W_ACCEPTED);
}

/* Delivers a message whose way is known; `a`: its address if the route is ROUTE_FOUND. */
PRIVATE INLINED void deliver_routed(core_router *c, core_link *l, const routerd_record *r, enum core_route route,
                                    core_address *a, core_provenance *provenance)
{
    count_in(c, l, r);
    if (route != ROUTE_FOUND) {
        deliver_unroutable(c, l, r, route, a);
        return;
    }
    if (__builtin_expect(a->redirects, 0) && a->routes) {
        deliver_to_table(c, l, r, a);
        return;
    }
    uint8_t priority = deliver_priority(a, r->priority);
    core_in *in = deliver_in(c, l, r);
    if (__builtin_expect(c->flow != NULL, 0)) flow_note(c, l, in, a, priority, r);
    a->ingress += !link_inter_router(l);
    if (__builtin_expect(l->container, 0)) {
        a->from_containers++;
        stats_add(c->stats, N_FROM_CONTAINERS, 1);
    }
    uint32_t state = a->phase;
    if (!(in->flags & IN_COMPLETE) || provenance->streaming) state |= SEND_STREAM;
    if (__builtin_expect(!a->redirects || (l->fallback && !a->exchange), 1))
        deliver_receivers(c, in, a, priority, state, provenance);
    else deliver_address(c, in, a, priority, state, provenance);
    deliver_tail(c, l, in);
}

/* One more than its link's sender has sent: it leaves the link once it is on its way, and no credit comes back. */
static void deliver_more(core_router *c, core_link *l, const routerd_record *r, core_address *a,
                         core_provenance *provenance)
{
    core_in *in = deliver_in(c, l, r);
    stats_add(c->stats, N_OWN_IN, 1);
    if (in->flags & IN_PRESETTLED) stats_add(c->stats, N_OWN_PRESETTLED, 1);
    deliver_address(c, in, a, deliver_priority(a, r->priority), a->phase, provenance);
    link_drop_in(in);
    l->granted++;
    if (in->copies) in->flags |= IN_SENT;
    if (!in->copies && !in->fans) in_settle(c, in, &OUTCOME_RELEASED);
}

/* Workers of source routes have had it: it says where it goes now, and goes as if it had come in here. */
PRIVATE bool deliver_sourced(core_router *c, core_link *l, const routerd_record *r)
{
    core_address *a = NULL;
    core_provenance provenance = PROVENANCE_NONE;
    provenance.overridden = true;
    enum core_route route = route_find(c, l, r->block, r->state & DELIVER_OF_WORKER ? 0 : l->scope, &provenance, &a);
    if (route == ROUTE_UNKNOWN) return false;
    if (!(r->state & DELIVER_COPY)) deliver_routed(c, l, r, route, a, &provenance);
    else if (route == ROUTE_FOUND) deliver_more(c, l, r, a, &provenance);
    else core_release(c, l->worker, r->block, NULL, 0);
    return true;
}
