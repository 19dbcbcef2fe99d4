/* Where messages go, and the copies made of them. */
#ifndef ROUTERD_CORE_DELIVERY_H
#define ROUTERD_CORE_DELIVERY_H

#include "core/forwarder/delivery/exchange.h"
#include "core/forwarder/settlement/settlement.h"

#define PROVENANCE_BYTES 16384u              /* of ingress and trace that are looked at: the longest way there can be */

#define PROVENANCE_MEMO 480u                 /* of these, how much a link remembers */

typedef struct core_memo {
    uint32_t epoch, ingress_length, trace_length;
    int origin;
    core_mask trace;
    uint8_t bytes[PROVENANCE_MEMO];
} core_memo;

typedef struct {
    bool control;              /* it came over a control link, or is the router protocol's own */
    bool own;                  /* from this process: its own receivers know it already */
    bool overridden;           /* its address was not its link's, nor `to` */
    bool streaming;            /* marked so by another router */
    bool known;                /* origin and trace have been read */
    int origin;                /* bit of the router where it came in: 0: here; -1: one that is not known */
    core_mask trace;           /* routers it has passed */
    const arena_content *content;      /* NULL: it says nothing of routers */
    uint32_t block;
    /* what the next router is told of its address, whatever else there is; NULL: see transit_text() */
    struct core_text *text;
} core_provenance;

#define PROVENANCE_NONE ((core_provenance) {.known = true})

/* ---- exchanges: exchange.c ---- */

PRIVATE void exchange_free(core_router *c, core_exchange *x);
PRIVATE bool exchange_match(core_exchange *x, const uint8_t *subject, uint32_t length);
PRIVATE void exchange_record(core_router *c, const core_address *a);
PRIVATE bool exchange_given(core_exchange *x);
GLUE bool exchange_give(core_exchange *x, uint32_t hop);
GLUE void exchange_given_over(core_exchange *x);
PRIVATE uint32_t exchange_subject(const arena_view *v, uint32_t head, uint8_t *subject);
GLUE core_exchange *exchange_new(core_router *c, uint8_t separator, uint32_t nodes, uint32_t bindings, uint32_t hops,
                                 uint32_t token_bytes);
GLUE void exchange_add_node(core_exchange *x, uint32_t parent, enum exchange_token kind, const uint8_t *token,
                            uint32_t length, uint32_t at);
GLUE void exchange_add_binding(core_exchange *x, uint32_t node, uint32_t hop, uint64_t matched);
GLUE void exchange_add_hop(core_exchange *x, core_address *address, const uint8_t *text, uint32_t length);
GLUE void exchange_take_counts(core_exchange *x, const core_address *a);

/* ---- redirects: redirect.c ---- */

PRIVATE void address_way_changed(core_router *c, core_address *a);
PRIVATE void deliver_exchange(core_router *c, core_in *in, core_address *a, uint8_t priority, uint32_t state);
GLUE void address_set_fallback(core_router *c, core_address *a, core_address *fallback);
GLUE void address_set_exchange(core_router *c, core_address *a, core_exchange *x);
GLUE void address_set_routes(core_router *c, core_address *a, core_routes *p);

/* ---- link-route pairs: link_route_pair.c ---- */

PRIVATE void deliver_to_pair(core_router *c, core_link *l, const routerd_record *r);
PRIVATE void pair_credit(core_router *c, const core_link *out, int32_t credit);
PRIVATE void pair_drain(core_router *c, const core_link *out);
PRIVATE void pair_drained(core_router *c, core_link *in, uint32_t credit);
PRIVATE void pair_part(core_link *l);

/* ---- where a message has been: provenance.c ---- */

PRIVATE void provenance_read(core_router *c, core_link *l, core_provenance *provenance);
PRIVATE void origin_count(core_link *to, int origin);
PRIVATE void provenance_record(core_router *c, core_link *l, uint32_t block, const arena_content *content);
PRIVATE void provenance_count(core_router *c, core_link *from, core_link *to, const core_provenance *provenance);

/* ---- treatments: choose.c ---- */

PRIVATE core_link *choose_without(core_address *a, uint32_t edge);
PRIVATE core_link *choose_one(core_address *a);

/* ---- delivering: deliver.c ---- */

PRIVATE enum core_route route_find(core_router *c, const core_link *l, uint32_t block, uint32_t scope,
                                   const core_provenance *provenance, core_address **address);
PRIVATE enum core_route route_annotated(core_router *c, core_link *l, const routerd_record *r,
                                        core_provenance *provenance, core_address **address);
PRIVATE core_in *deliver_in(core_router *c, core_link *l, const routerd_record *r);
PRIVATE core_out *deliver_copy(core_router *c, core_in *in, core_link *to, uint8_t priority, uint32_t state,
                               const core_text *text);
PRIVATE core_out *deliver_between(core_router *c, core_in *in, core_address *a, core_link *to, uint8_t priority,
                                  uint32_t state, const core_provenance *provenance);
PRIVATE uint8_t deliver_priority(const core_address *a, uint8_t priority);
PRIVATE void deliver_unroutable(core_router *c, core_link *l, const routerd_record *r, enum core_route why,
                                const core_address *a);
PRIVATE void deliver_receivers(core_router *c, core_in *in, core_address *a, uint8_t priority, uint32_t state,
                               core_provenance *provenance);
PRIVATE void deliver_address(core_router *c, core_in *in, core_address *a, uint8_t priority, uint32_t state,
                             core_provenance *provenance);
PRIVATE void deliver_failed(core_router *c, core_link *l, core_in *in);
PRIVATE void deliver_tail(core_router *c, core_link *l, core_in *in);
PRIVATE void deliver_routed(core_router *c, core_link *l, const routerd_record *r, enum core_route route,
                            core_address *a, core_provenance *provenance);
PRIVATE bool deliver_sourced(core_router *c, core_link *l, const routerd_record *r);

/* ---- in portions: fan.c ---- */

PRIVATE bool fan_wanted(const core_address *a);
PRIVATE void fan_begin(core_router *c, core_in *in, core_address *a, uint8_t priority, uint32_t state, uint32_t shut,
                       core_provenance *provenance);
PRIVATE void fan_leaves(core_router *c, core_in *in);
PRIVATE void fan_append(core_router *c, core_address *a);
PRIVATE uint32_t fan_turn(core_router *c);
PRIVATE uint32_t fan_leave(core_address *a, uint32_t place);
PRIVATE void fan_drop(core_router *c, core_address *a);

/* ---- links that wait for an address: park.c ---- */

PRIVATE core_link *park_next(const core_router *c);
PRIVATE void park_unlink(core_router *c, core_link *l);
PRIVATE void park_rotate(core_router *c, core_link *l);
PRIVATE void park_put(core_router *c, core_link *l, const routerd_record *r);
PRIVATE bool park_follows(core_router *c, uint32_t w, const routerd_record *r);
PRIVATE void park_end(core_link *l);
PRIVATE void park_drop(core_router *c, core_link *l);

/* ---- to other routers: transit.c ---- */

PRIVATE core_link *transit_link(core_router *c, uint32_t hop, bool control, uint8_t priority);
PRIVATE uint32_t transit_closest(const core_network *n, core_address *a);
PRIVATE uint32_t transit_balanced(core_router *c, core_address *a, const core_link *here, int origin, uint8_t priority);
PRIVATE core_mask transit_multicast(const core_network *n, const core_link *from, const core_address *a,
                                    const core_provenance *provenance);
PRIVATE core_address *transit_border(core_router *c, const core_link *from, uint32_t block, core_address *a);
PRIVATE bool transit_text(core_router *c, const core_link *from, core_address *a, const core_provenance *provenance,
                          core_text **text);

/* ---- the core's own messages: local.c ---- */

GLUE bool local_take(core_router *c, routerd_record *r);
GLUE uint32_t local_send(core_router *c, core_link *from, core_address *to, const uint8_t *bytes, uint32_t size,
                         bool control);
GLUE uint32_t local_tell(core_router *c, core_link *from, uint32_t neighbour, const uint8_t *bytes, uint32_t size);

#endif
