/* Windows, delivery-ids, credit and drain of a session and its links (AMQP 1.0 part 2.5.6, 2.6.7 to 2.6.12).
 *
 *   a delivery of a link     begun by          ends with
 *   coming                   first TRANSFER    a TRANSFER without `more`, or an aborted one
 *   going                    lane_send         the same
 *
 * All numbers are serial numbers of 32 bits: they are compared by the sign of their difference (RFC 1982).
 *
 * Every TRANSFER counts against the window, whatever becomes of it.  A session's FLOW offers the whole window less what
 * the router holds back.
 *
 * The caller writes what is due (`tell`), and looks at window and credit before each lane_send.
 *
 * Prohibited: lane_send for a link without window, or to begin a delivery without credit; a frame of a session before
 * our BEGIN or behind our END, of a link before our ATTACH or behind our DETACH, of all behind our CLOSE: the caller
 * knows these.
 */
#include "workers/lane/lane.h"

#define OUT_WINDOW INT32_MAX           /* what FLOWs say of TRANSFERs that we might send */

static inline bool serial_past(uint32_t a, uint32_t b) { return (int32_t) (a - b) > 0; }

/* What is left of `n` when the other side does not know of `ahead` yet, a difference of serial numbers. */
static inline uint32_t serial_left(uint32_t n, uint32_t ahead)
{
    int64_t left = (int64_t) n - (int32_t) ahead;
    return left < 0 ? 0 : left > UINT32_MAX ? UINT32_MAX : (uint32_t) left;
}

/* ---- the session ---- */

/* Before our BEGIN, which offers `window` TRANSFERs. */
PRIVATE inline void lane_session_open(lane_session *s, uint32_t window)
{
    *s = (lane_session) { .in_window = window, .in_most = window };
}

/* The peer's BEGIN. */
PRIVATE inline void lane_session_begun(lane_session *s, const lane_begin *b)
{
    s->next_in = b->next_out;
    s->out_window = b->in_window;
}

PRIVATE inline void lane_session_end(lane_session *s)
{
    lane_map_end(&s->in);
    lane_map_end(&s->out);
}

static inline uint32_t window_offer(const lane_session *s) { return s->held < s->in_most ? s->in_most - s->held : 0; }

/* A FLOW is due when half of what it would offer is used up, and it opens the window by an eighth at least: some
 * senders move all that they have not sent in memory with each. */
static inline void window_check(lane_session *s)
{
    if (s->in_window > s->in_most / 2) return;
    uint32_t offer = window_offer(s), least = s->in_most < 8 ? 1 : s->in_most / 8;
    if (s->in_window <= offer / 2 && offer - s->in_window >= least) s->tell = true;
}

/* The router has taken the content of TRANSFERs that it held back (counted in `held` by the caller). */
PRIVATE inline void lane_release(lane_session *s, uint32_t transfers)
{
    s->held -= transfers;
    window_check(s);
}

/* ---- coming ---- */

/* The first TRANSFER of a delivery. */
static inline enum lane_fault delivery_begin(lane_session *s, lane_link *k, const lane_transfer *t)
{
    if (!t->has_id || (s->id_known && t->id != s->id_in)) return LANE_FIELD;
    s->id_known = true;
    s->id_in = t->id + 1;
    if (__builtin_expect(!k->credit, 0)) {
        if (!k->withdrawn) return LANE_LIMIT;  /* the link ends: others of the session go on with the next id */
        k->withdrawn--;
        k->overrun++;
    } else {
        k->credit--;
    }
    k->id = t->id;
    k->count++;
    k->settled = false;
    return LANE_FINE;
}

/* A TRANSFER has come; `k` NULL: for a link that is being detached. */
PRIVATE inline enum lane_fault lane_receive(lane_session *s, lane_link *k, const lane_transfer *t, lane_piece *piece)
{
    *piece = (lane_piece) { 0 };
    if (!s->in_window) return LANE_WINDOW;
    s->in_window--;
    s->next_in++;
    window_check(s);
    if (!k) {
        if (t->has_id && (!s->id_known || t->id == s->id_in)) { s->id_known = true; s->id_in = t->id + 1; }
        return LANE_FINE;
    }
    if (k->outgoing) return LANE_UNATTACHED;
    piece->first = !k->begun;
    if (piece->first) {
        enum lane_fault fault = delivery_begin(s, k, t);
        if (fault) return fault;
    } else if ((t->has_id && t->id != k->id) || (k->settled && t->has_settled && !t->settled)) {
        return LANE_FIELD;
    }
    k->settled |= t->settled | t->aborted;
    k->begun = t->more && !t->aborted;
    piece->last = !k->begun;
    piece->aborted = t->aborted;
    piece->settled = k->settled;
    return LANE_FINE;
}

/* A FLOW has come; `k` NULL: it names no link, or one that is being detached. */
PRIVATE inline lane_heard lane_hear(lane_session *s, lane_link *k, const lane_flow *flow)
{
    lane_heard heard = { 0 };
    uint32_t window = serial_left(flow->in_window, s->next_out - (flow->has_next_in ? flow->next_in : 0));
    heard.window = window && !s->out_window;
    s->out_window = window;
    if (flow->echo) *(k ? &k->tell : &s->tell) = true;
    if (!k) return heard;
    if (k->outgoing) {
        k->credit = serial_left(flow->credit, k->count - (flow->has_count ? flow->count : 0));
        k->drain = flow->drain;
        heard.credit = k->credit > 0;
    } else if (flow->has_count && serial_past(flow->count, k->count)) {
        uint32_t ahead = flow->count - k->count;
        heard.returned = ahead < k->credit ? ahead : k->credit;
        ahead -= heard.returned;
        uint32_t withdrawn = ahead < k->withdrawn ? ahead : k->withdrawn;
        k->count += heard.returned + withdrawn;
        k->credit -= heard.returned;
        k->withdrawn -= withdrawn;             /* nobody has it any more: it was taken back when it was returned */
    }
    return heard;
}

/* ---- going ---- */

/* Gives the link's next TRANSFER its handle and numbers.  `more`, `settled`, `aborted`, and what a first one says
 * besides, are the caller's.  Its delivery-id is in `t` and, until its last TRANSFER, in `k`. */
PRIVATE inline void lane_send(lane_session *s, lane_link *k, lane_transfer *t)
{
    if (!k->begun) {
        k->id = s->id_out++;
        k->credit--;
        k->count++;
    }
    s->out_window--;
    s->next_out++;
    t->handle = k->handle;
    t->id = k->id;
    t->has_id = !k->begun;
    k->begun = t->more && !t->aborted;
}

/* An incoming link's sender gets credit. */
PRIVATE inline void lane_grant(lane_link *k, uint32_t credit)
{
    uint32_t due = credit < k->overrun ? credit : k->overrun;
    k->overrun -= due;
    credit -= due;
    k->credit += credit;
    k->withdrawn -= credit < k->withdrawn ? credit : k->withdrawn;
    k->tell = true;
}

/* An incoming link's sender loses credit (part 2.6.7).  What it has used before it hears of that arrives all the same,
 * so count + credit + withdrawn never falls. */
PRIVATE inline void lane_withdraw(lane_link *k, uint32_t credit)
{
    uint32_t unused = credit < k->credit ? credit : k->credit;
    k->credit -= unused;
    k->withdrawn += unused;
    k->overrun += credit - unused;
    k->tell = true;
}

/* Nothing is left to be sent: the answer to a peer that has asked for that. */
PRIVATE inline void lane_drained(lane_link *k)
{
    if (!k->drain) return;
    k->count += k->credit;
    k->credit = 0;
    k->tell = true;
}

/* The FLOW that is due of a link, or (k NULL) of the session alone. */
PRIVATE inline void lane_say(lane_session *s, lane_link *k, lane_flow *flow)
{
    s->in_window = window_offer(s);
    s->tell = false;
    *flow = (lane_flow) { .has_next_in = true, .next_in = s->next_in, .in_window = s->in_window,
                          .next_out = s->next_out, .out_window = OUT_WINDOW };
    if (!k) return;
    k->tell = false;
    flow->has_handle = flow->has_count = flow->has_credit = true;
    flow->handle = k->handle;
    flow->count = k->count;
    flow->credit = k->credit;
    flow->drain = k->drain;
}

/* ---- dispositions ---- */

/* Most states have four octets. */
static inline bool octets_same(const uint8_t *a, const uint8_t *b, size_t size)
{
    return __builtin_expect(size == 4, 1) ? be32(a) == be32(b) : !memcmp(a, b, size);
}

/* Adds a delivery to the pending DISPOSITION, at either end: what a receiver leaves is told newest first.  False: that
 * has to be written first, or this state needs one alone. */
PRIVATE inline bool lane_range_add(lane_range *r, bool receiver, bool settled, uint32_t id, amqp_value state)
{
    if (state.size > sizeof r->state) return false;
    if (!r->open) {
        r->first = r->last = id;
        r->receiver = receiver;
        r->settled = settled;
        r->size = (uint8_t) state.size;
        if (state.size) memcpy(r->state, state.at, state.size);
        r->open = true;
        return true;
    }
    if (receiver != r->receiver || settled != r->settled || state.size != r->size
        || (state.size && !octets_same(r->state, state.at, state.size)))
        return false;
    if (__builtin_expect(id == r->last + 1, 1)) r->last = id;
    else if (id == r->first - 1) r->first = id;
    else return false;
    return true;
}

/* The pending DISPOSITION, whose state stays in `r`; false: there is none. */
PRIVATE inline bool lane_range_take(lane_range *r, lane_disposition *d)
{
    if (!r->open) return false;
    r->open = false;
    *d = (lane_disposition) { .receiver = r->receiver, .settled = r->settled, .first = r->first, .last = r->last,
                              .state = { r->size ? r->state : NULL, r->size } };
    return true;
}

/* Notes that each delivery that a DISPOSITION names has its state. */
PRIVATE void lane_range_hear(lane_range *r, const lane_disposition *d)
{
    r->open = d->state.size <= sizeof r->state;
    if (!r->open) return;
    r->first = d->first;
    r->last = d->last;
    r->size = (uint8_t) d->state.size;
    memcpy(r->state, d->state.at, d->state.size);
}

/* Whether that is known already of a DISPOSITION, so that it says nothing new. */
PRIVATE bool lane_range_heard(const lane_range *r, const lane_disposition *d)
{
    return r->open && d->first - r->first <= d->last - r->first && d->last - r->first <= r->last - r->first
        && d->state.size == r->size && !memcmp(d->state.at, r->state, r->size);
}
