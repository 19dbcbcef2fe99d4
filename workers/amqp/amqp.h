/* Messages and what is said of them, between deliveries and blocks. */
#ifndef ROUTERD_WORKERS_AMQP_H
#define ROUTERD_WORKERS_AMQP_H

#include "shm/codec/rmr_key.h"
#include "workers/source_routes/source_routes.h"
#include "workers/session/session.h"

#define SCAN_LIMIT (1u << 20)           /* annotations and properties longer than this are refused */

/* Parts of the flow extract; pump.extracts is a mask of them. */
enum extract_parts { EXTRACT_NOTHING = 0, EXTRACT_MESSAGES = 1, EXTRACT_TRANSACTIONS = 2 };

#define MESSAGE_SEEN_BYTES 4096u       /* of a message, for the message log */

typedef struct {
    bool sent;
    uint32_t length;
    uint8_t bytes[MESSAGE_SEEN_BYTES];
} message_seen;

enum serve_result { SERVE_EMPTY, SERVE_BLOCKED, SERVE_BUSY };

/* sound.c */
PRIVATE bool attach_sound(pn_link_t *l);

/* payload.c */
PRIVATE uint32_t octets_store(pump *p, const void *bytes, size_t size);
GLUE uint64_t payload_size(const pump *p, uint8_t arena, uint32_t block);
GLUE ssize_t payload_load(const pump *p, uint8_t arena, uint32_t block, uint8_t *buffer, size_t limit);
PRIVATE void payload_done(pump *p, uint8_t arena, uint32_t block);
GLUE bool control_post(pump *p, const routerd_record *said, const void *bytes, size_t size);
PRIVATE void control_forget(pump *p);

/* disposition.c */
#define STATE_LONGEST 65536u           /* octets of a state that passes: no frame of ours holds a longer one */

PRIVATE void state_store(pump *p, const uint8_t *octets, uint32_t size, routerd_record *r);
PRIVATE uint32_t state_lend(pump *p, delivery *d);
PRIVATE void state_name(const pump *p, uint32_t state, uint32_t block, routerd_record *r);
PRIVATE void state_returned(pump *p, uint32_t connection, uint32_t generation);
PRIVATE void disposition_read(pump *p, delivery *d, routerd_record *r);
PRIVATE void disposition_write(pump *p, delivery *d, const routerd_record *r);

/* initial_state.c */
PRIVATE void initial_state_drop(pump *p, out_delivery *o);
PRIVATE void initial_state_keep(pump *p, out_delivery *o, const routerd_record *r);
PRIVATE void initial_state_send(pump *p, out_delivery *o);

/* content_header.c */
PRIVATE void content_header_fill(arena_content *c, const scan_found *found);
PRIVATE enum scan_result content_check(const worker_connection *conn, arena_content *c, uint8_t *bytes,
                                       scan_found *found,
    enum scan_result result, bool *moved);
PRIVATE enum scan_result content_key(const uint8_t *bytes, size_t size, bool complete, enum scan_result result,
    scan_found *found, rmr_key *key);
PRIVATE enum scan_result content_there(const uint8_t *bytes, size_t size, enum scan_result result, scan_found *found);
PRIVATE uint8_t *chain_gather(const arena_view *v, uint32_t head, uint64_t size);
PRIVATE enum scan_result intake_scan(pump *p, in_delivery *s, bool complete, scan_found *found, rmr_key *key);

/* rewrite.c */
PRIVATE bool rewrite_due(const worker_link *k, const arena_content *c);
PRIVATE bool rewrite_begin(const pump *p, worker_link *k, out_delivery *o, uint64_t length);

/* flow_extract.c */
PRIVATE void extract_read(content_extract *d, const uint8_t *start, size_t size, bool all, const scan_found *found,
    uint8_t parts);

/* message_log.c */
PRIVATE void message_log(pump *p, worker_link *k, const arena_view *v, uint32_t head, bool sent);

/* credit.c */
PRIVATE void credit_owed(pump *p, worker_link *k, uint32_t credit);

/* streams.c */
PRIVATE bool stream_fits(pump *p, const worker_link *k);
PRIVATE uint64_t stream_room(pump *p, in_delivery *s);
PRIVATE void stream_gathered(pump *p, in_delivery *s);
PRIVATE void stream_begin(pump *p, in_delivery *s);
PRIVATE void stream_over(pump *p, in_delivery *s);
PRIVATE void stream_stalled(pump *p, in_delivery *s);
PRIVATE void streams_check(pump *p);
PRIVATE void post_continue(pump *p, in_delivery *s, uint8_t flags);
PRIVATE void intake_flush(pump *p);
PRIVATE void intake_grown(pump *p, in_delivery *s);

/* incoming.c */
PRIVATE void in_delivery_link(worker_link *k, in_delivery *s);
PRIVATE void in_delivery_free(pump *p, in_delivery *s);
PRIVATE in_delivery *in_delivery_new(pump *p, worker_link *k, delivery *d);
PRIVATE void intake_stall(pump *p, worker_link *k);
PRIVATE void intake_unstall(pump *p, worker_link *k);
PRIVATE bool intake_complains(pump *p, const char *why);
PRIVATE void intake_refuse(pump *p, worker_link *k, delivery *d, const char *why, const char *condition);
PRIVATE bool intake_accept(pump *p, worker_link *k, delivery *d, uint32_t head, enum scan_result result,
                           const scan_found *found, in_delivery **s);
PRIVATE void intake_complete(worker_link *k, arena_content *c, uint64_t size, const scan_found *found,
                             in_delivery *s);
PRIVATE routerd_record *post_deliver(pump *p, worker_link *k, uint32_t block, uint64_t peer, uint8_t priority,
    uint64_t length, uint8_t flags);
PRIVATE routerd_record *post_said(pump *p, worker_link *k, const in_delivery *s, delivery *d);
PRIVATE void intake_said(pump *p, worker_link *k, const in_delivery *s, delivery *d);
PRIVATE uint8_t extract_chain(const pump *p, uint32_t head, uint64_t size, bool complete, const scan_found *found);
PRIVATE uint8_t extract_whole(const pump *p, const worker_link *k, arena_content *c, uint64_t size,
                              const scan_found *found,
    content_extract *d);
PRIVATE void extract_post(const content_extract *d, routerd_record *r);

/* link_routes.c */
extern GLUE const char routed_unfit[];
PRIVATE enum scan_result routed_scan(const pump *p, const in_delivery *s, bool complete, scan_found *found);
PRIVATE bool routed_begin(pump *p, in_delivery *s);
PRIVATE uint64_t routed_before(const pump *p, const in_delivery *s);
PRIVATE bool routed_whole(pump *p, worker_link *k, delivery *d, size_t size);
PRIVATE bool routed_fits(const delivery *d);
PRIVATE bool routed_open(const pump *p, worker_link *k, out_delivery *o, uint64_t length);
PRIVATE void routed_credit(pump *p, worker_link *k);
PRIVATE void routed_returned(worker_link *k, uint32_t credit);
PRIVATE void routed_flow(pump *p, worker_link *k);
PRIVATE void routed_drained(pump *p, worker_link *k);

/* source_routes.c */
extern GLUE const char route_broken[];
PRIVATE uint32_t route_counter_of(uint8_t reason);
PRIVATE void route_counted(pump *p);
PRIVATE bool route_sender_known(pump *p, worker_link *k);
PRIVATE void route_forget(pump *p, arena_content *c);
PRIVATE enum scan_result route_rescan(pump *p, uint32_t head, uint64_t size, bool complete, scan_found *found);
PRIVATE void content_header_route(pump *p, arena_content *c, uint32_t offset, uint32_t length);
PRIVATE void route_post_copies(pump *p, worker_link *k, const uint8_t *start, const scan_found *was);
PRIVATE enum scan_result route_whole(pump *p, worker_link *k, uint32_t *head, size_t *size, scan_found *found,
    uint8_t *origin);
PRIVATE enum scan_result route_streamed(pump *p, worker_link *k, in_delivery *s, bool complete, scan_found *found);
PRIVATE int route_receive(pump *p, worker_link *k, in_delivery *s, size_t pending);

/* intake.c */
PRIVATE void intake_discard(pump *p, in_delivery *s, bool refund);
PRIVATE void intake_finish(pump *p, worker_link *k, in_delivery *s);
PRIVATE void intake_post(pump *p, worker_link *k, in_delivery *s, bool complete);
PRIVATE void intake_resume(pump *p, worker_link *k);
PRIVATE void intake_consumed(pump *p, in_delivery *s, uint64_t length);
PRIVATE void intake_lost(pump *p, worker_link *k);

/* drains.c */
PRIVATE void drain_ask(pump *p, worker_link *k);
PRIVATE void drain_forget(pump *p, worker_link *k);
PRIVATE void drain_heard(pump *p, worker_link *k);
PRIVATE void drains_serve(pump *p);

/* egress.c */
PRIVATE void out_free(pump *p, out_delivery *o);
PRIVATE routerd_record *post_done(pump *p, const worker_link *k, uint64_t core, uint8_t flags);
PRIVATE routerd_record *post_update(pump *p, const out_delivery *o);
PRIVATE void out_abort(pump *p, out_delivery *o);
PRIVATE void out_waits(pump *p, worker_link *k);
PRIVATE void waits_serve(pump *p);
PRIVATE void starving_check(pump *p);
PRIVATE void egress_accept(pump *p, const routerd_record *r);
PRIVATE void egress_progress(pump *p, out_delivery *o);
PRIVATE void egress_drained(pump *p, worker_link *k);
PRIVATE enum serve_result egress_turn(pump *p, worker_connection *c);
PRIVATE void egress_continue(pump *p, const routerd_record *r);
PRIVATE void waits_forget(pump *p, worker_link *k);

/* egress_ends.c */
PRIVATE void egress_lost(pump *p, worker_link *k);
PRIVATE uint32_t egress_ends(pump *p, worker_link *k, uint32_t most);
PRIVATE void egress_decline(pump *p, const worker_link *k, const routerd_record *r);

/* egress_updates.c */
PRIVATE void out_note(pump *p, const out_delivery *o);
PRIVATE out_delivery *egress_find(pump *p, const routerd_record *r);
PRIVATE void egress_said(pump *p, out_delivery *o, delivery *d);
PRIVATE void egress_update(pump *p, const routerd_record *r);

#endif
