/* What a frame says, from its octets (AMQP 1.0 part 2.3 and 2.7).
 *
 * A field that is absent, at the end of a list or by null, has its default; one of another type than its place demands
 * makes the frame malformed.  Integers have any of their forms.  Fields behind the known ones are ignored.
 */
#include "workers/lane/lane.h"

GLUE const struct lane_fault_terms lane_faults[] = {
    [LANE_FINE] = { LANE_NOBODY, NULL, NULL },
    [LANE_FRAMING] = { LANE_CONNECTION, "amqp:connection:framing-error", "the size of a frame makes no sense" },
    [LANE_TYPE] = { LANE_CONNECTION, "amqp:connection:framing-error", "a frame is of another type than AMQP's" },
    [LANE_DECODE] = { LANE_CONNECTION, "amqp:decode-error", "a frame is malformed" },
    [LANE_ORDER] = { LANE_CONNECTION, "amqp:not-allowed", "OPEN is the first frame, and comes once" },
    [LANE_CHANNEL] = { LANE_CONNECTION, "amqp:not-allowed", "no session has the channel of a frame" },
    [LANE_BEGUN] = { LANE_CONNECTION, "amqp:not-allowed", "another session has the channel" },
    [LANE_UNATTACHED] = { LANE_SESSION, "amqp:session:unattached-handle", "no link of that role has the handle" },
    [LANE_IN_USE] = { LANE_SESSION, "amqp:session:handle-in-use", "another link has the handle" },
    [LANE_WINDOW] = { LANE_SESSION, "amqp:session:window-violation", "more transfers have come than the window has" },
    [LANE_LIMIT] = { LANE_LINK, "amqp:link:transfer-limit-exceeded", "more deliveries have come than credit" },
    [LANE_FIELD] = { LANE_SESSION, "amqp:invalid-field", "the number of a delivery is out of order" },
    [LANE_STATE] = { LANE_SESSION, "amqp:invalid-field", "a delivery's state names a transaction in a malformed way" },
    [LANE_MANY] = { LANE_CONNECTION, "amqp:resource-limit-exceeded", "too many sessions or links" },
    [LANE_NAME] = { LANE_SESSION, "amqp:frame-size-too-small",
                    "a link's name is too long: the answer to its ATTACH would exceed your max-frame-size" },
    [LANE_HANDLES] = { LANE_SESSION, "amqp:resource-limit-exceeded", "more links than the handle-max of its BEGIN" },
};

/* The size of the frame that begins here, of which `there` octets have come.  0: its size has not come; AMQP_WRONG: no
 * frame has that size. */
PRIVATE inline size_t lane_frame_size(const uint8_t *octets, size_t there, uint32_t most)
{
    if (there < 4) return 0;
    uint32_t size = be32(octets);
    return size < LANE_FRAME_HEAD || size > most ? AMQP_WRONG : size;
}

/* A descriptor that is a ulong of one octet; 0: it is none of these. */
static inline uint8_t descriptor(amqp_value v)
{
    switch (amqp_code_of(v)) {
    case AMQP_SMALLULONG: return v.at[1];
    case AMQP_ULONG: return be64(v.at + 1) > UINT8_MAX ? 0 : v.at[8];
    default: return 0;
    }
}

/* The performative and its list, in any of their forms; where the payload begins.  NULL: it is malformed. */
__attribute__((noinline)) static const uint8_t *performative(const uint8_t *at, const uint8_t *end, lane_frame *f)
{
    if (*at++ != AMQP_DESCRIBED) return NULL;
    amqp_value code = amqp_take(at, end, 0), list;
    f->performative = descriptor(code);
    if (!f->performative) return NULL;
    list = amqp_take(code.at + code.size, end, 0);
    return amqp_list(list, &f->fields.items, &f->fields.count) ? list.at + list.size : NULL;
}

/* The octets in front of a payload: of a TRANSFER in its short form, of which so many octets have come.  0: it is none,
 * or those have not all come. */
PRIVATE inline uint32_t lane_transfer_head(const uint8_t *octets, size_t there)
{
    amqp_cursor items;
    uint32_t count;
    size_t head = there < LANE_FRAME_HEAD ? 0 : (size_t) octets[4] * 4;
    if (head < LANE_FRAME_HEAD || head > there || octets[5]) return 0;
    if (amqp_short_list(octets + head, octets + there, &items, &count) != LANE_TRANSFER) return 0;
    return (uint32_t) (items.end - octets);
}

/* A frame that is there as a whole, or one that lane_transfer_head has found. */
PRIVATE inline enum lane_fault lane_frame_read(const uint8_t *octets, size_t size, lane_frame *f)
{
    size_t head = (size_t) octets[4] * 4;
    const uint8_t *at = octets + head, *end = octets + size;
    *f = (lane_frame) { .type = octets[5], .channel = be16(octets + 6), .payload = end };
    if (head < LANE_FRAME_HEAD || head > size) return LANE_FRAMING;
    if (f->type || at == end) return LANE_FINE;
    f->performative = amqp_short_list(at, end, &f->fields.items, &f->fields.count);
    if (__builtin_expect(f->performative != 0, 1)) f->payload = f->fields.items.end;
    else if (!(f->payload = performative(at, end, f))) return LANE_DECODE;
    f->payload_size = (uint32_t) (end - f->payload);
    return LANE_FINE;
}

/* A whole frame of a login.  It has no performative if it is empty. */
PRIVATE enum lane_fault lane_sasl_read(const uint8_t *octets, size_t size, lane_frame *f)
{
    size_t head = (size_t) octets[4] * 4;
    *f = (lane_frame) { .type = octets[5] };
    if (head < LANE_FRAME_HEAD || head > size) return LANE_FRAMING;
    if (head == size) return LANE_FINE;
    if (f->type != LANE_SASL) return LANE_TYPE;
    return performative(octets + head, octets + size, f) ? LANE_FINE : LANE_DECODE;
}

/* ---- fields ---- */

static inline amqp_value field_next(lane_fields *f)
{
    amqp_value none = { NULL, 0 };
    if (!f->count) return none;
    f->count--;
    amqp_value v = amqp_next(&f->items);
    if (!v.at) f->bad = true;
    return amqp_code_of(v) == AMQP_NULL ? none : v;
}

/* These return whether the field is there.  They are inlined so that a frame's fields stay in registers. */
__attribute__((always_inline)) static inline bool field_uint(lane_fields *f, uint32_t *n)
{
    if (!f->count) return false;
    f->count--;
    enum amqp_field is = amqp_next_uint(&f->items, n);
    f->bad |= is == AMQP_FIELD_WRONG;
    return is == AMQP_FIELD_THERE;
}

__attribute__((always_inline)) static inline bool field_boolean(lane_fields *f, bool *truth)
{
    if (!f->count) return false;
    f->count--;
    enum amqp_field is = amqp_next_boolean(&f->items, truth);
    f->bad |= is == AMQP_FIELD_WRONG;
    return is == AMQP_FIELD_THERE;
}

__attribute__((always_inline)) static inline void field_binary(lane_fields *f, amqp_octets *octets)
{
    if (!f->count) return;
    f->count--;
    f->bad |= amqp_next_binary(&f->items, octets) == AMQP_FIELD_WRONG;
}

/* Whether the frame is batchable makes no difference. */
static inline void field_hint(lane_fields *f)
{
    bool batchable;
    field_boolean(f, &batchable);
}

static inline bool field_ushort(lane_fields *f, uint16_t *n)
{
    amqp_value v = field_next(f);
    if (!v.at) return false;
    if (amqp_code_of(v) == AMQP_USHORT) *n = be16(v.at + 1);
    else f->bad = true;
    return true;
}

static inline uint8_t field_settle_mode(lane_fields *f)
{
    amqp_value v = field_next(f);
    if (!v.at) return LANE_AS_LINK;
    if (amqp_code_of(v) != AMQP_UBYTE || v.at[1] > 1) { f->bad = true; return LANE_AS_LINK; }
    return v.at[1] ? LANE_SECOND : LANE_FIRST;
}

static inline amqp_value field_described(lane_fields *f)
{
    amqp_value v = field_next(f);
    if (v.at && *v.at != AMQP_DESCRIBED) f->bad = true;
    return v;
}

static inline void field_must(lane_fields *f, bool there) { f->bad |= !there; }

static inline enum lane_fault frame_fault(const lane_fields *f) { return f->bad ? LANE_DECODE : LANE_FINE; }

/* ---- performatives ---- */

PRIVATE inline enum lane_fault lane_transfer_read(const lane_frame *frame, lane_transfer *t)
{
    lane_fields f = frame->fields;
    *t = (lane_transfer) { 0 };
    field_must(&f, field_uint(&f, &t->handle));
    t->has_id = field_uint(&f, &t->id);
    field_binary(&f, &t->tag);
    t->has_format = field_uint(&f, &t->format);
    t->has_settled = field_boolean(&f, &t->settled);
    field_boolean(&f, &t->more);
    if (__builtin_expect(!f.count, 1)) return frame_fault(&f);
    t->settle_mode = field_settle_mode(&f);
    t->state = field_described(&f);
    field_boolean(&f, &t->resume);
    field_boolean(&f, &t->aborted);
    field_hint(&f);
    return frame_fault(&f);
}

PRIVATE inline enum lane_fault lane_flow_read(const lane_frame *frame, lane_flow *flow)
{
    lane_fields f = frame->fields;
    *flow = (lane_flow) { 0 };
    flow->has_next_in = field_uint(&f, &flow->next_in);
    field_must(&f, field_uint(&f, &flow->in_window));
    field_must(&f, field_uint(&f, &flow->next_out));
    field_must(&f, field_uint(&f, &flow->out_window));
    flow->has_handle = field_uint(&f, &flow->handle);
    flow->has_count = field_uint(&f, &flow->count);
    flow->has_credit = field_uint(&f, &flow->credit);
    flow->has_available = field_uint(&f, &flow->available);
    field_boolean(&f, &flow->drain);
    field_boolean(&f, &flow->echo);
    return frame_fault(&f);
}

PRIVATE inline enum lane_fault lane_disposition_read(const lane_frame *frame, lane_disposition *d)
{
    lane_fields f = frame->fields;
    *d = (lane_disposition) { 0 };
    field_must(&f, field_boolean(&f, &d->receiver));
    field_must(&f, field_uint(&f, &d->first));
    d->last = d->first;
    field_uint(&f, &d->last);
    field_boolean(&f, &d->settled);
    d->state = field_described(&f);
    field_hint(&f);
    if (f.bad) return LANE_DECODE;
    return (int32_t) (d->last - d->first) < 0 ? LANE_FIELD : LANE_FINE;
}

PRIVATE inline enum lane_fault lane_begin_read(const lane_frame *frame, lane_begin *b)
{
    lane_fields f = frame->fields;
    uint32_t unused;                   /* the peer's outgoing window */
    *b = (lane_begin) { .handle_most = UINT32_MAX };
    b->answers = field_ushort(&f, &b->remote_channel);
    field_must(&f, field_uint(&f, &b->next_out));
    field_must(&f, field_uint(&f, &b->in_window));
    field_must(&f, field_uint(&f, &unused));
    field_uint(&f, &b->handle_most);
    return frame_fault(&f);
}

PRIVATE inline enum lane_fault lane_attach_read(const lane_frame *frame, lane_attach *a)
{
    lane_fields f = frame->fields;
    *a = (lane_attach) { 0 };
    a->name = amqp_string(field_next(&f));
    field_must(&f, a->name.at);
    field_must(&f, field_uint(&f, &a->handle));
    field_must(&f, field_boolean(&f, &a->receiver));
    for (int i = 0; i < 6; i++) field_next(&f);     /* settle modes, source, target, unsettled, incomplete-unsettled */
    field_uint(&f, &a->count);
    if (a->receiver) a->count = 0;
    return frame_fault(&f);
}

PRIVATE inline enum lane_fault lane_detach_read(const lane_frame *frame, uint32_t *handle)
{
    lane_fields f = frame->fields;
    field_must(&f, field_uint(&f, handle));
    return frame_fault(&f);
}

/* An error's condition and description (AMQP 1.0 part 2.8.14). */
static void error_read(amqp_value error, lane_ending *e)
{
    lane_fields f = { .count = 0 };
    amqp_value code = amqp_take(error.at + 1, error.at + error.size, 0);
    if (descriptor(code) != LANE_ERROR) return;
    amqp_value list = amqp_take(code.at + code.size, error.at + error.size, 0);
    if (!amqp_list(list, &f.items, &f.count)) return;
    e->condition = amqp_symbol(field_next(&f));
    e->description = amqp_string(field_next(&f));
}

PRIVATE enum lane_fault lane_ending_read(const lane_frame *frame, lane_ending *e)
{
    lane_fields f = frame->fields;
    *e = (lane_ending) { 0 };
    if (frame->performative == LANE_DETACH) {
        field_must(&f, field_uint(&f, &e->handle));
        field_boolean(&f, &e->closed);
    }
    amqp_value error = field_described(&f);
    e->failed = error.at;
    if (e->failed && !f.bad) error_read(error, e);
    return frame_fault(&f);
}
