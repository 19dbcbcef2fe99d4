/* What the bodies of the forwarder hand to each other, and what they call of each other. */
#ifndef ROUTERD_CORE_BODIES_H
#define ROUTERD_CORE_BODIES_H

#include "core/forwarder/api.h"

#define PROVENANCE_BYTES 16384u              /* of ingress and trace that are looked at: the longest way there can be */
#define DELAYED_1 1000000000ull        /* nanoseconds from arrival to settlement */
#define DELAYED_10 10000000000ull

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

typedef struct core_text {
    uint32_t block;            /* ROUTERD_NIL: not written */
    uint32_t uses;             /* copies on their way that name it */
    uint32_t length;
    bool owned;                /* its address or link is still there */
    uint8_t bytes[];
} core_text;

enum core_route { ROUTE_FOUND, ROUTE_UNROUTABLE, ROUTE_NO_ADDRESS, ROUTE_UNAVAILABLE, ROUTE_FORBIDDEN, ROUTE_UNKNOWN,
    ROUTE_KEYLESS, ROUTE_RESERVED };

/* On the way of each message it is handed on by its address: a copy of what was just written field by field stalls the
 * CPU. */
typedef struct {               /* a delivery state as it travels */
    uint32_t state;
    uint64_t extra;
    uint64_t offset;           /* received: the section's (AMQP 3.4.1) */
    uint32_t detail;           /* ROUTERD_NIL: no payload */
    uint8_t arena;             /* of the payload */
} core_outcome;

#define OUTCOME_NONE ((core_outcome) {.detail = ROUTERD_NIL})
#define OUTCOME_RELEASED ((core_outcome) {.state = S_RELEASED, .detail = ROUTERD_NIL})

/* ---- posting work: out.c ---- */

PRIVATE void queue_close(core_queue *q);
PRIVATE routerd_record *core_post_link(core_router *c, const core_link *l, uint8_t type);
PRIVATE void core_flush(core_router *c, uint32_t w);
PRIVATE void core_release_payload(core_router *c, uint8_t arena, uint32_t block);

/* ---- spellings: alias.c ---- */

PRIVATE core_alias *alias_find(core_alias_table *t, uint32_t scope, const uint8_t *text, uint32_t length);
PRIVATE void alias_drop_all(core_router *c, core_address *address);

/* ---- counts: counts.c ---- */

PRIVATE void link_count(const core_router *c, core_link *l, const core_in *in, uint32_t state);
PRIVATE void count_late(core_router *c, core_in *in);

/* ---- credit: credit.c ---- */

PRIVATE bool address_has_receiver(const core_address *a);
PRIVATE bool address_leads(const core_address *a, const core_link *l);
PRIVATE void credit_grant(core_router *c, core_link *l);
PRIVATE void credit_grant_all(core_router *c, core_address *a);
PRIVATE uint32_t credit_back(core_link *l);
PRIVATE void credit_due(core_router *c, core_link *l);
PRIVATE void credit_drain(core_router *c, core_link *l);
PRIVATE void credit_drained(core_router *c, core_link *l, uint32_t credit);

/* ---- exchanges: exchange.c ---- */

PRIVATE void exchange_free(core_router *c, core_exchange *x);
PRIVATE bool exchange_match(core_exchange *x, const uint8_t *subject, uint32_t length);
PRIVATE uint32_t exchange_subject(const arena_view *v, uint32_t head, uint8_t *subject);

/* ---- redirects: redirect.c ---- */

PRIVATE void address_way_changed(core_router *c, core_address *a);
PRIVATE void deliver_exchange(core_router *c, core_in *in, core_address *a, uint8_t priority, uint32_t state);

/* ---- override texts: text.c ---- */

PRIVATE bool text_use(core_router *c, core_text *t);
PRIVATE void text_done(core_router *c, core_text *t);

/* ---- link-route pairs: link_route_pair.c ---- */

PRIVATE void deliver_to_pair(core_router *c, core_link *l, const routerd_record *r);
PRIVATE void pair_credit(core_router *c, const core_link *out, uint32_t credit);
PRIVATE void pair_drain(core_router *c, const core_link *out);
PRIVATE void pair_drained(core_router *c, core_link *in, uint32_t credit);
PRIVATE void pair_part(core_link *l);

/* ---- the table of routers: topology.c ---- */

PRIVATE void neighbour_drop_link(core_router *c, core_link *l);

/* ---- links for streams: stream.c ---- */

PRIVATE core_link *stream_link(core_router *c, uint64_t streams);
PRIVATE void stream_note(core_out *out, uint8_t priority, uint32_t state);
PRIVATE void stream_idle(core_router *c, core_link *l);
PRIVATE void stream_drop_link(core_router *c, core_link *l);

/* ---- payloads under way: payload.c ---- */

PRIVATE core_payload *payload_find(const core_payload_table *t, uint8_t arena, uint32_t block);
PRIVATE void payload_track(core_router *c, uint8_t arena, uint32_t block, uint8_t reader);
PRIVATE void payload_forget(core_payload_table *t, core_payload *p);
PRIVATE uint32_t payload_write(core_router *c, const uint8_t *bytes, uint32_t size);

/* ---- where a message has been: provenance.c ---- */

PRIVATE void provenance_read(core_router *c, core_link *l, core_provenance *provenance);
PRIVATE void provenance_count(core_router *c, core_link *from, core_link *to, const core_provenance *provenance);

/* ---- treatments: choose.c ---- */

PRIVATE core_link *choose_without(core_address *a, uint32_t edge);
PRIVATE core_link *choose_one(core_address *a);

/* ---- delivering: deliver.c ---- */

PRIVATE enum core_route route_find(core_router *c, const core_link *l, uint32_t block, uint32_t scope,
                                   const core_provenance *provenance, core_address **address);
PRIVATE enum core_route route_annotated(core_router *c, const core_link *l, const routerd_record *r,
                                        core_provenance *provenance, core_address **address);
PRIVATE core_in *deliver_in(core_router *c, core_link *l, const routerd_record *r);
PRIVATE core_out *deliver_copy(core_router *c, core_in *in, core_link *to, uint8_t priority, uint32_t state,
                               const core_text *text);
PRIVATE uint8_t deliver_priority(const core_address *a, uint8_t priority);
PRIVATE void deliver_unroutable(core_router *c, core_link *l, const routerd_record *r, enum core_route why,
                             const core_address *a);
PRIVATE void deliver_receivers(core_router *c, core_in *in, core_address *a, uint8_t priority, uint32_t state,
                               core_provenance *provenance);
PRIVATE void deliver_address(core_router *c, core_in *in, core_address *a, uint8_t priority, uint32_t state,
                             core_provenance *provenance);
PRIVATE void deliver_tail(core_router *c, core_link *l, core_in *in);
PRIVATE void deliver_routed(core_router *c, core_link *l, const routerd_record *r, enum core_route route,
                            core_address *a, core_provenance *provenance);
PRIVATE bool deliver_sourced(core_router *c, core_link *l, const routerd_record *r);

/* ---- settling: settle.c ---- */

PRIVATE core_outcome outcome_plain(uint32_t state, uint64_t extra);
PRIVATE void in_settle(core_router *c, core_in *in, const core_outcome *outcome);
PRIVATE bool in_eager(const core_in *in);
PRIVATE void in_forwarded(core_router *c, core_in *in);
PRIVATE void out_post_update(core_router *c, const core_out *out, const core_outcome *outcome, uint8_t flags);
PRIVATE void in_consumed(core_router *c, core_in *in);
PRIVATE void out_finish(core_router *c, core_out *out, const core_outcome *outcome);
PRIVATE void out_unsettled(core_router *c, core_out *out, core_outcome outcome);
PRIVATE void in_sender_settled(core_router *c, core_in *in, core_outcome outcome, bool quiet);

/* ---- to other routers: transit.c ---- */

PRIVATE core_link *transit_link(core_router *c, uint32_t hop, bool control, uint8_t priority);
PRIVATE uint32_t transit_closest(const core_network *n, core_address *a);
PRIVATE uint32_t transit_balanced(core_router *c, core_address *a, const core_link *here, int origin, uint8_t priority);
PRIVATE core_mask transit_multicast(const core_network *n, const core_link *from, const core_address *a,
                                    const core_provenance *provenance);
PRIVATE core_address *transit_border(core_router *c, const core_link *from, uint32_t block, core_address *a);
PRIVATE bool transit_text(core_router *c, const core_link *from, core_address *a, const core_provenance *provenance,
                          core_text **text);

#endif
