/* TRANSFER, FLOW and DISPOSITION as frames, in their shortest forms; others in fewer octets than they had.
 *
 * The caller has room for LANE_TRANSFER_MAX, LANE_FLOW_MAX or LANE_DISPOSITION_MAX octets, and for a state besides.
 * Fields that have their default are null, or absent behind the last that has another value.
 */
#include <endian.h>
#include <string.h>

#include "shm/codec/utf8.h"
#include "workers/lane/lane.h"

#define LIST8_STATE 128u               /* octets of a state with which the other fields fit a list8 in any case */

enum { DATA_OFFSET = LANE_FRAME_HEAD / 4, FRAME_AMQP = 0 };     /* AMQP 1.0 part 2.3.1 */

typedef struct {
    uint8_t *at, *end;                 /* end: behind the last field that is not null */
    uint32_t count, fields;            /* count: those up to `end` */
} list_writer;

/* The frame's head, and its list's as far as it is known. */
static inline list_writer list_begin(uint8_t *frame, uint16_t channel, uint8_t performative, bool wide)
{
    const uint8_t head[] = { DATA_OFFSET, FRAME_AMQP };
    const uint16_t wire_channel = htobe16(channel);
    memcpy(frame + 4, head, 2);
    memcpy(frame + 6, &wire_channel, 2);
    uint8_t *list = amqp_put_descriptor(frame + LANE_FRAME_HEAD, performative), *items = list + (wide ? 9 : 3);
    *list = wide ? AMQP_LIST32 : AMQP_LIST8;
    return (list_writer) { items, items, 0, 0 };
}

static inline void list_null(list_writer *w)
{
    *w->at++ = AMQP_NULL;
    w->fields++;
}

static inline void list_put(list_writer *w, uint8_t *at)
{
    w->at = w->end = at;
    w->count = ++w->fields;
}

static inline void list_uint(list_writer *w, uint32_t n)
{
    list_put(w, !n ? amqp_put(w->at, AMQP_UINT0, 0)
        : amqp_put(w->at, n <= UINT8_MAX ? AMQP_SMALLUINT : AMQP_UINT, n));
}

static inline void list_uint_if(list_writer *w, bool there, uint32_t n)
{
    if (there) list_uint(w, n);
    else list_null(w);
}

static inline void list_boolean(list_writer *w, bool truth)
{
    list_put(w, amqp_put(w->at, truth ? AMQP_TRUE : AMQP_FALSE, 0));
}

static inline void list_if_true(list_writer *w, bool truth)
{
    if (truth) list_boolean(w, true);
    else list_null(w);
}

static inline void list_state(list_writer *w, amqp_value state)
{
    if (!state.at) { list_null(w); return; }
    memcpy(w->at, state.at, state.size);
    list_put(w, w->at + state.size);
}

/* The list's head; behind the list. */
static inline uint8_t *list_end(uint8_t *frame, const list_writer *w, bool wide)
{
    uint8_t *list = frame + LANE_FRAME_HEAD + 3;
    uint32_t size = (uint32_t) (w->end - list) - (wide ? 9 : 3);
    amqp_put_items_head(list, wide ? AMQP_LIST32 : AMQP_LIST8, size, w->count);
    return w->end;
}

/* The size of a frame, once it is known where it ends. */
PRIVATE inline uint32_t lane_put_size(uint8_t *frame, const uint8_t *end)
{
    uint32_t size = (uint32_t) (end - frame);
    be32_put(frame, size);
    return size;
}

/* Octets behind a head: id, tag, format, settled; the fields of the list. */
enum { HEAD_BEHIND = 5 + 2 + LANE_HEAD_TAG + 1 + 1, HEAD_FIELDS = 5 };

/* What a link's TRANSFERs of whole deliveries begin with, before it sends the first one. */
PRIVATE void lane_head_begin(lane_head *h, uint16_t channel, uint32_t handle)
{
    list_writer w = list_begin(h->octets, channel, LANE_TRANSFER, false);
    list_uint(&w, handle);
    uint8_t *list = h->octets + LANE_FRAME_HEAD + 3;
    amqp_put_items_head(list, AMQP_LIST8, (uint32_t) (w.at - list) - 3 + HEAD_BEHIND, HEAD_FIELDS);
    h->size = (uint8_t) (w.at - h->octets);
}

/* A delivery's only TRANSFER, but its size and payload; where its payload begins. */
PRIVATE inline uint8_t *lane_put_head(uint8_t *to, const lane_head *h, uint32_t id, const uint8_t *tag, bool settled)
{
    memcpy(to, h->octets, sizeof h->octets);           /* those behind its size are overwritten */
    uint8_t *at = amqp_put(to + h->size, AMQP_UINT, id);
    at = amqp_put_head(at, AMQP_BINARY8, LANE_HEAD_TAG);
    memcpy(at, tag, LANE_HEAD_TAG);
    at = amqp_put(at + LANE_HEAD_TAG, AMQP_UINT0, 0);
    return amqp_put(at, settled ? AMQP_TRUE : AMQP_FALSE, 0);
}

/* All of a TRANSFER but its size and payload; where its payload begins. */
PRIVATE inline uint8_t *lane_put_transfer(uint8_t *to, uint16_t channel, const lane_transfer *t)
{
    bool wide = t->state.size > LIST8_STATE;
    list_writer w = list_begin(to, channel, LANE_TRANSFER, wide);
    list_uint(&w, t->handle);
    list_uint_if(&w, t->has_id, t->id);
    if (t->tag.at) list_put(&w, amqp_put_octets(w.at, AMQP_BINARY8, t->tag.at, t->tag.size));
    else list_null(&w);
    list_uint_if(&w, t->has_format, t->format);
    if (t->has_settled) list_boolean(&w, t->settled);
    else list_null(&w);
    list_if_true(&w, t->more);
    if (t->settle_mode) list_put(&w, amqp_put(w.at, AMQP_UBYTE, t->settle_mode == LANE_SECOND));
    else list_null(&w);
    list_state(&w, t->state);
    list_if_true(&w, t->resume);
    list_if_true(&w, t->aborted);
    return list_end(to, &w, wide);
}

/* A FLOW; its size. */
PRIVATE inline uint32_t lane_put_flow(uint8_t *to, uint16_t channel, const lane_flow *flow)
{
    list_writer w = list_begin(to, channel, LANE_FLOW, false);
    list_uint_if(&w, flow->has_next_in, flow->next_in);
    list_uint(&w, flow->in_window);
    list_uint(&w, flow->next_out);
    list_uint(&w, flow->out_window);
    list_uint_if(&w, flow->has_handle, flow->handle);
    list_uint_if(&w, flow->has_count, flow->count);
    list_uint_if(&w, flow->has_credit, flow->credit);
    list_uint_if(&w, flow->has_available, flow->available);
    list_if_true(&w, flow->drain);
    list_if_true(&w, flow->echo);
    return lane_put_size(to, list_end(to, &w, false));
}

/* A DETACH that closes, without an error; its size. */
PRIVATE uint32_t lane_put_detach(uint8_t *to, uint16_t channel, uint32_t handle)
{
    list_writer w = list_begin(to, channel, LANE_DETACH, false);
    list_uint(&w, handle);
    list_boolean(&w, true);
    return lane_put_size(to, list_end(to, &w, false));
}

/* A DISPOSITION; its size. */
PRIVATE inline uint32_t lane_put_disposition(uint8_t *to, uint16_t channel, const lane_disposition *d)
{
    bool wide = d->state.size > LIST8_STATE;
    list_writer w = list_begin(to, channel, LANE_DISPOSITION, wide);
    list_boolean(&w, d->receiver);
    list_uint(&w, d->first);
    list_uint_if(&w, d->last != d->first, d->last);
    list_if_true(&w, d->settled);
    list_state(&w, d->state);
    return lane_put_size(to, list_end(to, &w, wide));
}

/* ---- frames that have to be shorter ---- */

/* What stands for an error whose condition does not fit. */
static const char unfit_condition[] = "amqp:frame-size-too-small";

/* An error in at most `room` octets, which are enough for its heads and unfit_condition; where it ends. */
static uint8_t *error_put(uint8_t *to, uint32_t room, const lane_ending *e)
{
    const uint32_t heads = 3 + 3 * AMQP_HEAD_MAX;              /* of the error, its condition and its description */
    amqp_octets condition = e->condition, description = e->description;
    if (!condition.at || condition.size > room - heads)
        condition = (amqp_octets) { (const uint8_t *) unfit_condition, sizeof unfit_condition - 1 };
    description.size = (uint32_t) utf8_first(description.at, description.size, room - heads - condition.size);
    uint8_t *list = amqp_put_descriptor(to, LANE_ERROR), *items = list + AMQP_HEAD_MAX;
    uint8_t *end = amqp_put_shortest(items, AMQP_SYMBOL8, condition.at, condition.size);
    if (description.size) end = amqp_put_shortest(end, AMQP_STRING8, description.at, description.size);
    amqp_put_items_head(list, AMQP_LIST32, (uint32_t) (end - items), description.size ? 2 : 1);
    return end;
}

/* A DETACH, END or CLOSE in at most `room` octets, 512 or more; its size.  Its error loses what does not fit: its info,
 * the end of its description. */
PRIVATE uint32_t lane_put_ending(uint8_t *to, uint32_t room, const lane_frame *f, const lane_ending *e)
{
    list_writer w = list_begin(to, f->channel, f->performative, true);
    if (f->performative == LANE_DETACH) {
        list_uint(&w, e->handle);
        list_boolean(&w, e->closed);
    }
    if (e->failed) list_put(&w, error_put(w.at, room - (uint32_t) (w.at - to), e));
    return lane_put_size(to, list_end(to, &w, true));
}

/* A frame with as many of its first fields as fit `room` octets; its size.  Those behind have their defaults. */
PRIVATE uint32_t lane_put_first(uint8_t *to, uint32_t room, const lane_frame *f)
{
    list_writer w = list_begin(to, f->channel, f->performative, true);
    amqp_cursor items = f->fields.items;
    for (uint32_t left = f->fields.count; left; left--) {
        amqp_value v = amqp_next(&items);
        if (!v.at || v.size > room - (size_t) (w.at - to)) break;
        memcpy(w.at, v.at, v.size);
        list_put(&w, w.at + v.size);
    }
    return lane_put_size(to, list_end(to, &w, true));
}
