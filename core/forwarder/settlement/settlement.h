/* Work that is posted, credit, and outcomes on their way. */
#ifndef ROUTERD_CORE_SETTLEMENT_H
#define ROUTERD_CORE_SETTLEMENT_H

#include "core/forwarder/tables/access.h"

#define DELAYED_1 1000000000ll        /* nanoseconds from arrival to settlement */
#define DELAYED_10 10000000000ll
#define RATE_SHIFT 30u                 /* a tick is 2^30 ns: 1.07 s, without a division for each delivery */

/* On the way of each message it is handed on by its address: a copy of what was just written field by field stalls the
 * CPU. */
typedef struct {               /* a delivery state as it travels */
    uint32_t state;
    uint32_t detail;           /* its octets as a payload; ROUTERD_NIL: it is one without fields */
    uint8_t arena;             /* of the payload */
    uint8_t extra;             /* enum routerd_update_detail, but for D_PAYLOAD */
} core_outcome;

#define OUTCOME_NONE ((core_outcome) {.detail = ROUTERD_NIL})
#define OUTCOME_RELEASED ((core_outcome) {.state = S_RELEASED, .detail = ROUTERD_NIL})

/* ---- posting work: out.c ---- */

PRIVATE void queue_close(core_queue *q);
PRIVATE routerd_record *core_post_link(core_router *c, const core_link *l, uint8_t type);
PRIVATE void core_flush(core_router *c, uint32_t w);
PRIVATE void core_release_payload(core_router *c, uint8_t arena, uint32_t block);
GLUE uint64_t core_overflow(const core_router *c);
GLUE void core_publish(core_router *c);
GLUE void core_release(core_router *c, uint8_t arena, uint32_t block, const core_link *l, uint32_t credit);
GLUE bool core_post_control(core_router *c, uint32_t w, uint32_t kind, const uint8_t *bytes, uint32_t size);

/* ---- counts: counts.c ---- */

GLUE void count_stale(core_router *c);
GLUE void count_bad(core_router *c);
PRIVATE int64_t in_delay(const core_router *c, const core_in *in);
PRIVATE void link_count(const core_router *c, core_link *l, const core_in *in, uint32_t state, int64_t delay);
PRIVATE void count_late(core_router *c, core_in *in);
PRIVATE void count_in(core_router *c, const core_link *l, const routerd_record *r);
PRIVATE void count_lost(core_router *c, const routerd_record *r);
PRIVATE void count_copy(core_router *c, const core_out *out);
PRIVATE void count_totals(const core_router *c);
GLUE uint64_t count_forwarded(const core_router *c);
PRIVATE void count_former(const core_router *c);
GLUE uint64_t link_rate(const core_link_counts *k, uint32_t tick);

/* ---- credit: credit.c ---- */

PRIVATE bool address_has_receiver(const core_address *a);
PRIVATE bool address_leads(const core_address *a, const core_link *l);
PRIVATE void credit_begin(core_link *l, int64_t granted);
PRIVATE void credit_cycle(core_router *c, core_link *l);
PRIVATE void credit_poll(const core_router *c, core_link *l);
PRIVATE void credit_grant(core_router *c, core_link *l);
PRIVATE void credit_grant_all(core_router *c, core_address *a);
PRIVATE uint32_t credit_back(core_link *l);
PRIVATE void credit_due(core_router *c, core_link *l);
PRIVATE void credit_drain(core_router *c, core_link *l);
PRIVATE void credit_drained(core_router *c, core_link *l, uint32_t credit);
GLUE bool address_has_way(const core_address *a);

/* ---- links for streams: stream.c ---- */

/* Whether a copy waits for a link: no worker has heard of it. */
static inline bool stream_waits(const core_out *out) { return out->link->link == ROUTERD_NIL; }

PRIVATE core_link *stream_link(core_router *c, uint64_t streams, const core_in *in, bool known);
PRIVATE void stream_note(core_router *c, core_out *out, const core_link *to, uint8_t priority, uint32_t state);
PRIVATE void stream_grown(core_router *c, core_out *out, bool stalled);
PRIVATE void stream_idle(core_router *c, core_link *l);
PRIVATE bool stream_said(core_router *c, const core_out *out, const core_outcome *o);
PRIVATE void stream_forget(core_router *c, core_in *in);
PRIVATE void stream_drop_link(core_router *c, core_link *l);
GLUE void stream_add_link(core_router *c, core_link *l, uint64_t streams);
PRIVATE bool stream_begin_waiting(const core_router *c, core_streams *k);
GLUE core_streams *stream_open(core_router *c);
GLUE void stream_close(core_router *c, core_streams *k);

/* ---- telling many copies what their sender does: tell.c ---- */

PRIVATE bool tell_wanted(const core_in *in);
PRIVATE void tell_state(core_router *c, core_in *in, uint32_t state, uint8_t extra);
PRIVATE void tell_over(core_router *c, core_in *in, uint32_t state, uint8_t extra, bool quiet, bool aborted);
PRIVATE void tell_more(core_router *c, core_in *in, bool stalled);
PRIVATE void tell_copy(core_router *c, core_out *out, bool stalled);
PRIVATE void tell_leave(const core_out *out);
PRIVATE void tell_end(core_router *c, core_in *in);
PRIVATE uint32_t tell_turn(core_router *c);

/* ---- settling: settle.c ---- */

PRIVATE core_outcome outcome_plain(uint32_t state, uint8_t extra);
PRIVATE void in_settle(core_router *c, core_in *in, const core_outcome *outcome);
PRIVATE bool in_eager(const core_in *in);
PRIVATE void in_forwarded(core_router *c, core_in *in);
PRIVATE routerd_record *in_post(core_router *c, const core_in *in, uint8_t type);
PRIVATE void out_post_continue(core_router *c, const core_out *out, uint8_t flags);
PRIVATE void out_post_update(core_router *c, const core_out *out, const core_outcome *outcome, uint8_t flags);
PRIVATE bool in_stalled(const core_router *c, const core_in *in);
PRIVATE void in_slowest(core_router *c, core_in *in);
PRIVATE void in_consumed(core_router *c, core_in *in, uint64_t from, uint64_t to);
PRIVATE void in_fanned(core_router *c, core_in *in);
PRIVATE void in_abort(core_router *c, core_in *in);
PRIVATE void out_abort(core_router *c, core_out *out);
PRIVATE void out_sender_settled(core_router *c, core_out *out, core_outcome *outcome, bool quiet);
PRIVATE void out_finish(core_router *c, core_out *out, const core_outcome *outcome);
PRIVATE void out_unsettled(core_router *c, core_out *out, core_outcome outcome);
PRIVATE void in_sender_settled(core_router *c, core_in *in, core_outcome outcome, bool quiet);

#endif
