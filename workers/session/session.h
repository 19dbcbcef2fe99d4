/* AMQP sessions, links and deliveries, without the engine (AMQP 1.0 part 2.5 to 2.7).
 *
 *   lane.c       a connection's frames, in and out
 *   control.c    what BEGIN, ATTACH, DETACH, END and CLOSE say, both ways: channels and handles
 *   attaches.c   links whose ATTACH the engine has not written, and the handles of ours
 *   arrivals.c   TRANSFER, FLOW and DISPOSITION that come
 *   straight.c   long TRANSFERs, straight from the socket into blocks
 *   output.c     the connection's frames on their way out
 *   delivery.c   deliveries and links, for those who read and write messages
 *   numbers.c    sessions that this side began, for those who dial
 *   names.c      names of links that this side began, for the same
 *   heartbeats.c idle timeouts of those whose octets go past the engine's transport
 *   held.c       octets that wait
 *   borrowed.c   octets of blocks on their way to the socket
 *   states.c     the states of deliveries that we say
 *   shares.c     what links hold of what a peer may allow, and each client's part
 *   slow.c       links of clients that take nothing and hold up others
 *   faults.c     a peer's violation: DETACH, END or CLOSE
 *   logins.c     what a client says while its login has no answer yet
 *   turns.c      what a connection may take of its worker's time, and of memory for its output
 *
 * The engine keeps OPEN, BEGIN, ATTACH, DETACH, END and CLOSE; each of its frames passes here as octets, and is learnt
 * from.  It never sees a TRANSFER, FLOW or DISPOSITION.
 *
 * Whoever stops writes down what starts it again:
 *
 *   who stops                                 who starts it again
 *   a link without credit, or before ATTACH   flow_arrives, control_out: egress_flow
 *   octets that wait for the peer's window    flow_arrives: queue_flush
 *   egress at SESSION_HIGH                    conn_serve after a write; EPOLLOUT; flow_arrives, if the window is shut
 *   a FLOW before our ATTACH or BEGIN is out  lane_write, behind the engine's frames
 *   a held or stalled link's TRANSFERs        intake_resume, through link_current
 *   a connection of which too much waits      held_gone: conn_resume; slow_relieve, if it is for several clients
 *   a session whose window waiting links fill held_release: session_due; slow_relieve, if several clients share it
 *   frames that are behind their share        the next turns: turns_serve
 *   frames behind too much output             lane_sent: turn_unchoke, through conn_write and EPOLLOUT; or turn_overdue
 *   a DISPOSITION while many states are said  state_returned, as their blocks come back: turn_unfill
 *   an unfinished TRANSFER                    lane_write ends it when the finished octets are fewer than asked for
 *
 * What a peer can make grow, and what bounds it:
 *
 *   sessions                  twice the channels: those open, and those that it has ended and we have not
 *   handles, links            65,536 in all sessions of a connection; the policy's limits of its user before that
 *   deliveries that came      the credit that it has; each settles, or its link ends
 *   links of ours             NAMES_WAITING whose DETACH it has not answered, besides those that end at once (names.c)
 *   octets that came          the window of each session, in frames of our size; a stalled link's wait in memory, those
 *                             that go on are in blocks of the arena (over_share)
 *   frames that go            SESSION_HIGH for each session; DISPOSITIONs and FLOWs are made when the socket takes
 *                             some; the engine's answer others, which are not read beyond OUT_MOST (turns.c)
 *   frames behind their turn  what has been read of the socket at once; no more is read.  So before a login's answer
 *   states of deliveries      on their way: SAID_MOST of a connection besides outcomes, none in the last blocks;
 *                             those that are kept: one copy for neighbours with the same
 *   an unfinished frame       our frame size, in the engine's buffer or in blocks of the arena
 *
 * A connection without traffic keeps no buffers of these (lane_rest).
 *
 * Prohibited: asking the engine for credit, windows or deliveries.
 */
#ifndef ROUTERD_WORKERS_SESSION_H
#define ROUTERD_WORKERS_SESSION_H

#include <stdlib.h>

#include "workers/state/delivery.h"

#define PORTION 4u                     /* links that are lost between two looks at the clock */

/* control.c */
PRIVATE void lane_link_new(worker_link *k);
PRIVATE void lane_link_free(worker_link *k);
PRIVATE void lane_link_answered(worker_link *k);
PRIVATE void lane_session_opened(pn_session_t *session);
PRIVATE void lane_session_gone(pn_session_t *session);
PRIVATE void lane_session_begin(worker_connection *c, pn_session_t *session, uint64_t number);
PRIVATE void lane_session_close(worker_connection *c, pn_session_t *session);
PRIVATE bool control_in(lane_connection *l, const lane_frame *f, size_t size, lane_no_text *no);
PRIVATE void control_out(lane_connection *l, const lane_frame *f);
PRIVATE void session_free(worker_session *s);
PRIVATE bool session_crowded(const worker_session *s);
PRIVATE bool session_thin(worker_session *s);

/* attaches.c */
#define REFUSAL_ROOM 256               /* octets of a refusal's text */
PRIVATE bool attach_room(const worker_session *s);
PRIVATE const char *peer_called(const lane_connection *l);
PRIVATE void attach_refusal(const lane_connection *l, const worker_session *s, char to[REFUSAL_ROOM]);
PRIVATE void attach_wait(worker_link *k);
PRIVATE void attach_ask(worker_link *k);
PRIVATE bool attach_unbegun(const worker_link *k);
PRIVATE void attach_gone(worker_link *k);
PRIVATE void attach_answered(worker_session *s);
PRIVATE worker_link *attach_served(worker_session *s, const lane_attach *said);

/* shares.c */
enum { MOST_HANDLES = 65536 };         /* of a peer, in all sessions of a connection */
enum { ATTACH_OCTETS = 64 << 20 };     /* of the ATTACHs of these: names, addresses and properties stay in memory */
GLUE bool share_refused(const worker_connection *c, uint32_t client, bool neighbour, size_t octets,
                        char why[REFUSAL_ROOM]);
GLUE void share_take(worker_link *k, uint32_t client, bool neighbour, size_t octets);
PRIVATE void share_give(worker_link *k);
PRIVATE link_share *share_find(const lane_connection *l, uint32_t client);
PRIVATE void session_disown(worker_session *s);
PRIVATE void session_owned_turn(worker_session *s);
PRIVATE void seams_add(worker_session *s, const worker_link *k);
PRIVATE void seams_remove(worker_session *s, const worker_link *k);

/* slow.c */
PRIVATE void slow_due(worker_session *s);
PRIVATE void slow_waits(worker_link *k);
PRIVATE void slow_moves(worker_link *k);
PRIVATE void slow_hindrance(pump *p);
PRIVATE void slow_relieve(lane_connection *l);
GLUE bool slow_refused(const worker_connection *c, uint32_t client, char why[REFUSAL_ROOM]);

/* numbers.c */
PRIVATE void session_name(worker_session *s, uint64_t number);
PRIVATE void session_turn(worker_session *s);
PRIVATE bool session_routed(const worker_session *s);
PRIVATE void channel_take(worker_session *s);
PRIVATE void channel_give(worker_session *s);
PRIVATE uint32_t channels_left(const lane_connection *l);

/* names.c */
PRIVATE void name_begin(const worker_link *k);
PRIVATE void name_wait(const worker_link *k);
PRIVATE void name_end(pn_link_t *engine);
PRIVATE void names_end(worker_session *s);
PRIVATE enum name_state name_taken(lane_connection *l, const char *octets, bool outgoing);

/* lane.c */
PRIVATE void read_buffer_left(read_buffer *buffer);
PRIVATE void lane_rest(worker_connection *c);
PRIVATE void rest_add(lane_connection *l, const uint8_t *octets, size_t size);
PRIVATE void lane_go_on(lane_connection *l);
PRIVATE void lane_free(worker_connection *c);

/* logins.c */
PRIVATE ssize_t login_go_on(lane_connection *l);

/* frame_sizes.c */
GLUE uint32_t frame_largest(const worker_connection *c);
PRIVATE bool name_fits(const lane_connection *l, size_t size);
PRIVATE size_t frame_fit(lane_connection *l, uint8_t *octets, size_t size, const lane_frame *f);

/* heartbeats.c */
PRIVATE bool heartbeat_spared(const lane_connection *l);

/* turns.c */
PRIVATE uint64_t turn_begin(lane_connection *l);
PRIVATE bool turn_allows(lane_connection *l);
PRIVATE void turn_count(lane_connection *l, uint64_t began);
PRIVATE bool turn_lasts(const lane_connection *l, uint64_t began);
PRIVATE void turn_await(lane_connection *l);
PRIVATE void turn_forget(lane_connection *l);
PRIVATE void turn_unchoke(lane_connection *l);
PRIVATE void turn_overdue(lane_connection *l);
PRIVATE bool turn_work(lane_connection *l, uint64_t took);
PRIVATE bool frame_ends(lane_connection *l, const lane_frame *f);
PRIVATE void turn_fill(lane_connection *l);
PRIVATE void turn_unfill(lane_connection *l);
PRIVATE bool said_full(const lane_connection *l);
PRIVATE void turns_serve(pump *p);

/* arrivals.c */
PRIVATE void transfer_arrives(lane_connection *l, worker_session *s, const lane_frame *f);
PRIVATE void flow_arrives(lane_connection *l, worker_session *s, const lane_frame *f);
PRIVATE void disposition_arrives(lane_connection *l, worker_session *s, const lane_frame *f);

PRIVATE void payload_arrives(lane_connection *l, delivery *d, const uint8_t *octets, uint32_t size, bool frame);

/* straight.c */
PRIVATE bool straight_begin(lane_connection *l, const uint8_t *octets, size_t there);
PRIVATE size_t straight_take(lane_connection *l, const uint8_t *octets, size_t size);

/* borrowed.c */
PRIVATE void lane_lend(lane_connection *l, const uint8_t *octets, size_t size);
PRIVATE void lent_move(lane_connection *l, size_t size);

/* output.c */
PRIVATE uint8_t *out_grow(lane_connection *l, size_t size);
PRIVATE uint8_t *out_frame(lane_connection *l, size_t size);
PRIVATE void session_due(worker_session *s);
PRIVATE void session_undue(worker_session *s);
PRIVATE void range_say(worker_session *s, bool receiver, bool settled, uint32_t id, amqp_value state);
PRIVATE void tell_later(worker_link *k);
PRIVATE void tell_remove(worker_link *k);
PRIVATE void tell_flush(lane_connection *l);
PRIVATE void out_due(lane_connection *l);
PRIVATE void queue_flush(worker_session *s);
PRIVATE void queue_remove(delivery *d);
PRIVATE void frame_close(lane_connection *l, bool more);
PRIVATE void frame_end(const worker_link *k);
PRIVATE void delivery_finish(delivery *d);
PRIVATE size_t session_outgoing(const worker_session *s);

/* states.c */
PRIVATE bool state_bare(const uint8_t *octets, uint32_t size);
PRIVATE amqp_value state_said(const delivery *d);
PRIVATE void state_forget(delivery *d);
PRIVATE void state_share(delivery *d);
PRIVATE void long_states_end(lane_connection *l);
PRIVATE bool state_fit(amqp_value *state);
PRIVATE bool state_same(const delivery *d, amqp_value state);
PRIVATE void state_unmake(delivery *d);
PRIVATE void state_note(delivery *d, amqp_value state);
PRIVATE void delivery_say(delivery *d, uint32_t code, const uint8_t *octets, uint32_t size);
PRIVATE bool delivery_may_say(const delivery *d, uint32_t size);
PRIVATE uint8_t *delivery_say_room(delivery *d, uint32_t code, uint32_t size);
PRIVATE void delivery_say_bare(delivery *d, uint32_t code);
PRIVATE void delivery_fail(delivery *d);
PRIVATE void delivery_reject(delivery *d, const char *name, const char *description);

/* held.c */
PRIVATE void held_add(held_octets *h, const uint8_t *octets, size_t size, uint32_t frames, read_buffer *buffer);
PRIVATE const uint8_t *held_front(const held_octets *h, size_t *size);
PRIVATE uint32_t held_take(held_octets *h, size_t size);
PRIVATE uint32_t held_forget(held_octets *h);

/* delivery.c */
PRIVATE delivery *delivery_take(worker_link *k);
PRIVATE void delivery_drop(delivery *d);
PRIVATE void held_came(worker_link *k, size_t size, uint32_t frames);
PRIVATE void delivery_hold(delivery *d, const uint8_t *octets, size_t size, uint32_t frames, read_buffer *buffer);
PRIVATE delivery *delivery_new(worker_link *k, const uint8_t *tag, size_t size, bool settled);
PRIVATE void delivery_ends(delivery *d, uint64_t code);
PRIVATE void delivery_update(delivery *d, uint64_t code);
PRIVATE void delivery_unchange(delivery *d);
PRIVATE void delivery_settle(delivery *d);
PRIVATE void delivery_abort(delivery *d);
PRIVATE ssize_t link_recv(worker_link *k, uint8_t *to, size_t size);
PRIVATE void link_send(worker_link *k, const uint8_t *bytes, size_t size);
PRIVATE void link_lend(worker_link *k, const uint8_t *bytes, size_t size);
PRIVATE bool link_send_whole(worker_link *k, const uint8_t *bytes, size_t size);
PRIVATE void link_advance(worker_link *k);
PRIVATE delivery *link_current(worker_link *k);
PRIVATE int link_credit(worker_link *k);
PRIVATE int link_queued(worker_link *k);
PRIVATE void link_flow(worker_link *k, uint32_t credit);
PRIVATE void link_withdraw(worker_link *k, uint32_t credit);
PRIVATE void link_drain(worker_link *k, uint32_t credit);
PRIVATE void link_set_drain(worker_link *k, bool drain);
PRIVATE bool link_get_drain(worker_link *k);
PRIVATE bool link_draining(worker_link *k);
PRIVATE int link_drained(worker_link *k);

/* faults.c */
GLUE void link_give_up(pump *p, worker_link *k);
PRIVATE void fault_raise(lane_connection *l, worker_session *s, worker_link *k, enum lane_fault fault);
PRIVATE void fault_end(lane_connection *l, worker_session *s, worker_link *k, const struct lane_fault_terms *f);
PRIVATE void fault_name(lane_connection *l, worker_session *s, const lane_no_text *no);
PRIVATE bool fault_open(lane_connection *l, const lane_frame *f);
PRIVATE bool fault_attach(lane_connection *l, worker_link *k, pn_link_t *engine);
PRIVATE bool fault_go_on(lane_connection *l);

/* Defined by whoever reads and writes messages (workers/amqp), and by who ends links and sessions (workers/loop). */
PRIVATE void intake_event(pump *p, worker_link *k, delivery *d);
PRIVATE size_t intake_straight(pump *p, const worker_link *k, const delivery *d, size_t most);
PRIVATE void intake_ahead(pump *p, const delivery *d, chain_ahead *a);
PRIVATE void intake_landed(pump *p, delivery *d, chain_ahead *a, size_t size, const uint32_t before[2]);
PRIVATE void intake_flow(pump *p, worker_link *k);
PRIVATE void egress_updated(pump *p, worker_link *k, delivery *d);
GLUE void egress_flow(pump *p, worker_link *k);
GLUE void link_lost(pump *p, worker_link *k, int event);
GLUE void dial_forget(pump *p, worker_link *k);
PRIVATE bool link_ends(pump *p, worker_link *k);
PRIVATE bool session_lost(pump *p, worker_session *s, bool all);
PRIVATE void events_drain(pump *p);

static inline worker_session *session_of(uint64_t value) { return (worker_session *) (uintptr_t) value; }
static inline uint64_t value_of(const void *p) { return (uint64_t) (uintptr_t) p; }

static inline void delivery_set_context(delivery *d, void *context) { d->context = context; }
static inline void *delivery_get_context(const delivery *d) { return d->context; }
static inline size_t delivery_pending(const delivery *d)
{
    return d->aborted ? 0 : d->direct_size + (d->laden ? d->held.size : 0);
}
static inline bool delivery_partial(const delivery *d) { return d->partial; }
/* Whether nobody may have this delivery, whatever its octets are. */
static inline bool delivery_unfit(const delivery *d)
{
    return __builtin_expect(d->laden, 0) && (d->resumed || d->long_tag);
}
static inline bool delivery_aborted(const delivery *d) { return d->aborted; }
static inline bool delivery_settled(const delivery *d) { return d->settled; }
static inline bool delivery_updated(const delivery *d) { return d->updated; }
static inline void delivery_clear(delivery *d) { d->updated = false; }
static inline uint64_t delivery_remote_state(const delivery *d) { return d->state_code; }
static inline bool delivery_readable(const delivery *d) { return d->link->unread_first == d; }

/* Whether octets of blocks go to the socket from where they are.  The trace wants whole frames in one place. */
static inline bool lane_lends(const lane_connection *l) { return l->c->bare && !l->c->tracer; }

/* Allocated memory.  A worker without memory ends; the supervisor starts another (see memory_left in accept.c). */
static inline void *memory_for(void *old, size_t size)
{
    void *at = realloc(old, size);
    if (!at) abort();
    return at;
}

static inline void *memory_clear(size_t size)
{
    void *at = calloc(1, size);
    if (!at) abort();
    return at;
}

#endif
