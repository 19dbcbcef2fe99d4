/* What the Cython module calls of the forwarder.  Sizes, limits and the functions of each body; its types are in
 * tables.h. */
#ifndef ROUTERD_CORE_API_H
#define ROUTERD_CORE_API_H

#include "core/forwarder/busiest.h"
#include "core/forwarder/exchange.h"
#include "core/forwarder/hash.h"
#include "core/forwarder/tables.h"
#include "shm/layout.h"
#include "shm/unity.h"

#define ALIAS_LIMIT 16384u
#define ALIAS_PHASES 0xfffffff0u       /* scopes that stand for the phases 1 to 9 of an address, behind this one */
#define CONTENT_HOPS 4096u             /* blocks walked to find `to`: 2 MiB of annotations in small blocks */
#define CONTENT_CONTROL_MAX (1u << 20) /* bytes of a control payload */
#define RATE_SHIFT 30u                 /* a tick is 2^30 ns: 1.07 s, without a division for each delivery */

/* ---- setting up: setup.c ---- */

GLUE const char *setup_worker(core_router *c, uint32_t w, uint8_t *control, uint8_t *rings, int eventfd);
GLUE const char *core_open(core_router *c, uint32_t workers, uint8_t *control, uint64_t seed);
GLUE void core_close(core_router *c);

/* ---- turns: loop.c ---- */

GLUE enum core_stop core_batch(core_router *c, uint32_t w, uint32_t limit, uint32_t *handled);
GLUE enum core_stop core_step(core_router *c, uint64_t now);
GLUE uint64_t clock_now(void);
GLUE enum core_stop core_run(core_router *c, uint64_t deadline, uint64_t busy);

/* ---- posting work: out.c ---- */

GLUE uint64_t core_overflow(const core_router *c);
GLUE void core_publish(core_router *c);
GLUE void core_release(core_router *c, uint8_t arena, uint32_t block, const core_link *l, uint32_t credit);
GLUE bool core_post_control(core_router *c, uint32_t w, uint32_t kind, const uint8_t *bytes, uint32_t size);

/* ---- actions: actions.c ---- */

GLUE void count_stale(core_router *c);
GLUE void count_bad(core_router *c);
GLUE enum core_stop core_action(core_router *c, uint32_t w, const routerd_record *r);

/* ---- spellings: alias.c ---- */

GLUE bool address_used(const core_address *a);
GLUE bool address_idle(const core_address *a);
GLUE bool alias_insert(core_router *c, uint32_t scope, const uint8_t *text, uint32_t length, core_address *address,
                       bool agent, core_address **evicted);

/* ---- reading a worker's arena: arena_read.c ---- */

GLUE bool content_copy(const arena_view *v, uint32_t head, uint64_t offset, uint8_t *to, uint32_t size, uint32_t hops);
GLUE uint32_t content_to(const arena_view *v, uint32_t head, uint8_t *text);

/* ---- counts: counts.c ---- */

GLUE uint64_t link_rate(const core_link_counts *k, uint64_t tick);

/* ---- credit: credit.c ---- */

GLUE bool address_has_way(const core_address *a);

/* ---- exchanges: exchange.c ---- */

GLUE core_exchange *exchange_new(core_router *c, uint8_t separator, uint32_t nodes, uint32_t bindings, uint32_t hops,
                                 uint32_t token_bytes);
GLUE void exchange_add_node(core_exchange *x, uint32_t parent, enum exchange_token kind, const uint8_t *token,
                            uint32_t length, uint32_t at);
GLUE void exchange_add_binding(core_exchange *x, uint32_t node, uint32_t hop, uint64_t matched);
GLUE void exchange_add_hop(core_exchange *x, core_address *address, const uint8_t *text, uint32_t length);
GLUE void exchange_take_counts(core_exchange *x, const core_address *a);

/* ---- redirects: redirect.c ---- */

GLUE void address_set_fallback(core_router *c, core_address *a, core_address *fallback);
GLUE void address_set_exchange(core_router *c, core_address *a, core_exchange *x);
GLUE void address_set_routes(core_router *c, core_address *a, core_routes *p);

/* ---- override texts: text.c ---- */

GLUE core_text *text_new(const uint8_t *bytes, uint32_t length);
GLUE void text_disown(core_router *c, core_text *t);

/* ---- links and places, as they come and go: recover.c ---- */

GLUE void address_free(core_router *c, core_address *a);
GLUE core_link *link_place(core_router *c, uint32_t w, uint32_t link, uint32_t generation, bool outgoing,
                           uint32_t capacity);
GLUE void link_credit(core_router *c, core_link *l, int64_t granted);
GLUE core_link *link_add(core_router *c, uint32_t w, uint32_t link, uint32_t generation, const core_link_terms *t);
GLUE bool link_move(core_router *c, core_link *l, core_address *a);
GLUE void link_remove(core_router *c, core_link *l, bool failed);
GLUE core_link *link_add_routed(core_router *c, uint32_t w, uint32_t link, uint32_t generation, bool outgoing,
                                bool far);
GLUE void core_reclaim(core_router *c, uint32_t w);
GLUE void place_empty(core_router *c, uint32_t w);
GLUE void place_fill(core_router *c, uint32_t w);

/* ---- the table of routers: topology.c ---- */

GLUE void network_add(core_router *c, uint32_t bit, const uint8_t *text, uint32_t length);
GLUE void network_remove(core_router *c, uint32_t bit);
GLUE void network_path(core_router *c, uint32_t bit, int next_hop, uint32_t cost, core_mask valid_origins);
GLUE void network_neighbour(core_router *c, uint32_t bit, int neighbour);
GLUE bool address_add_remote(core_router *c, core_address *a, uint32_t bit);
GLUE void address_drop_remote(core_router *c, core_address *a, uint32_t bit);
GLUE void neighbour_add_link(core_router *c, core_link *l, uint32_t neighbour, uint32_t priority);
GLUE int neighbour_take(core_router *c, uint64_t streams, bool abroad);
GLUE void neighbour_give(core_router *c, uint32_t neighbour);

/* ---- links for streams: stream.c ---- */

GLUE void stream_add_link(core_router *c, core_link *l, uint64_t streams);
GLUE core_streams *stream_open(core_router *c);
GLUE void stream_close(core_router *c, core_streams *k);

/* ---- the core's own messages: local.c ---- */

GLUE bool local_take(core_router *c, routerd_record *r);
GLUE uint32_t local_send(core_router *c, core_link *from, core_address *to, const uint8_t *bytes, uint32_t size,
                         bool control);
GLUE uint32_t local_tell(core_router *c, core_link *from, uint32_t neighbour, const uint8_t *bytes, uint32_t size);

/* ---- links that get nowhere: stall.c ---- */

GLUE bool stall_step(core_router *c);

#endif
