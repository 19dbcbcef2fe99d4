/* Connections of RMR applications: framed.c reads frames from their sockets into blocks and posts them to the core.
 *
 * A connection has two incoming links, which take turns by frame: `data` to its route table, by key, and the anonymous
 * link `other` for replies and messages about tables (docs/rmr.md, Replies).
 */
#include <stdlib.h>
#include <string.h>

#include "workers/rmr/rmr.h"
#include "workers/amqp/amqp.h"
#include "workers/transport/transport.h"

#define RMR_SIDS 1024u                 /* of a connection's senders, that are kept until the reply comes */

PRIVATE inline const rmr_terms *rmr_terms_of(const pump *p, const worker_connection *c)
{
    return (const rmr_terms *) (const void *) p->listeners[c->listener].framed;
}

/* ---- what the core hears of a frame ---- */

#define RMR_BACK_MAX (RMR_ADDRESS_MAX + RMR_SID_BYTES)         /* octets of a table's address and what a token says */

/* Returns where a reply with this token goes. */
static rmr_address rmr_back_address(const rmr_terms *t, const rmr_token *token, char room[RMR_BACK_MAX])
{
    if (token->kind == TOKEN_CONNECTION) {
        char digits[RMR_NUMBER];
        uint32_t at = RMR_NUMBER, number = token->number;
        do digits[--at] = (char) ('0' + number % 10); while ((number /= 10));
        memcpy(room, t->back, t->back_length);
        memcpy(room + t->back_length, digits + at, RMR_NUMBER - at);
        return (rmr_address) { room, t->back_length + RMR_NUMBER - at };
    }
    memcpy(room, t->address, t->address_length);
    room[t->address_length] = '/';
    memcpy(room + t->address_length + 1, token->text, token->length);
    return (rmr_address) { room, t->address_length + 1 + token->length };
}

/* Makes the reply to a frame come to this router, or back on the frame's connection: the source becomes the router's,
 * and a token replaces the sender's sid. */
static void rmr_sign(const rmr_terms *t, framed_connection *x, uint8_t *header)
{
    static const uint8_t nothing[RMR_SID_BYTES];
    uint32_t saved = 0;
    if (t->reply == REPLY_TRANSPARENT) return;
    if (memcmp(header + RMR_SID, nothing, RMR_SID_BYTES)) {
        if (!x->sids) x->sids = (rmr_sid *) calloc(RMR_SIDS, sizeof *x->sids);
        if (x->sids) {
            saved = ++x->sids_kept ? x->sids_kept : ++x->sids_kept;
            rmr_sid *place = &x->sids[saved % RMR_SIDS];
            place->number = saved;
            memcpy(place->sid, header + RMR_SID, RMR_SID_BYTES);
        }
    }
    rmr_token_connection(header + RMR_SID, t->nonce, x->number, saved);
    memset(header + RMR_SOURCE, 0, RMR_SOURCE_BYTES);
    if (t->reply == REPLY_PROXIED) memcpy(header + RMR_SOURCE, t->source, RMR_SOURCE_BYTES);
}

/* Restores the sid that a frame had before `rmr_sign`. */
PRIVATE inline void rmr_unsign(const rmr_terms *t, const framed_connection *x, uint8_t *header)
{
    rmr_token token = rmr_token_read(header + RMR_SID, t->nonce);
    if (token.kind != TOKEN_CONNECTION || token.number != x->number) return;
    const rmr_sid *place = x->sids && token.saved ? &x->sids[token.saved % RMR_SIDS] : NULL;
    if (place && place->number == token.saved) memcpy(header + RMR_SID, place->sid, RMR_SID_BYTES);
    else memset(header + RMR_SID, 0, RMR_SID_BYTES);
}

static void rmr_content_header(arena_content *c, const scan_found *found)
{
    content_header_fill(c, found);
    c->user_from = found->message_annotations + 12;
    c->user_to = found->annotations_end;
    c->user_count = 2;
}

/* A frame whose head and `here` bytes of payload are at hand.  WAIT: not now. */
static enum framed_step rmr_begin(pump *p, worker_connection *c, uint8_t *header, const rmr_parts *parts, uint32_t here)
{
    uint8_t front[RMR_FRONT_MAX];
    char to[RMR_BACK_MAX], back[RMR_BACK_MAX];
    uint8_t source[RMR_SOURCE_BYTES], call[RMR_CALL_TEXT];
    rmr_asked asked = { .length = 0 };
    framed_connection *x = c->framed;
    const rmr_terms *t = rmr_terms_of(p, c);
    bool control = rmr_control(parts->mt);
    rmr_token token = rmr_token_read(header + RMR_SID, t->nonce);
    bool reply = !control && token.kind && (t->replies || rmr_answers_call(header));
    if (__builtin_expect(reply && token.kind == TOKEN_ASKED, 0))
        reply = (asked = rmr_ask_answered(t->key, header)).length;
    worker_link *k = control || reply ? x->other : x->data;
    in_delivery *s;
    if (!framed_may(p, k)) return FRAMED_WAIT;
    if (!(s = framed_in(p, k))) { intake_stall(p, k); return FRAMED_WAIT; }
    const rmr_token itself = { .kind = TOKEN_CONNECTION, .number = x->number };
    rmr_wanted want = { .reply_to = rmr_back_address(t, &itself, back) };
    if (control) want.conn = want.reply_to;
    if (control) want.to = (rmr_address) { t->control, t->control_length };
    else if (asked.length) {
        want.to = (rmr_address) { (const char *) asked.text, asked.length };
        want.id = asked.id;
        want.id_length = asked.id_length;
    } else if (reply) want.to = rmr_back_address(t, &token, to);
    memcpy(source, header + RMR_SOURCE, RMR_SOURCE_BYTES);
    if (reply && token.kind != TOKEN_CONNECTION) memset(header + RMR_SID, 0, RMR_SID_BYTES);
    else if (!reply && !control) rmr_sign(t, x, header);
    if (__builtin_expect(header[RMR_FLAGS] & RMR_CALL && !control && !reply, 0)) {
        rmr_call_put(call, header);
        want.call = call;
    }
    scan_found found;
    rmr_key key;
    const uint32_t before[2] = { p->arena.free_count[0], p->arena.free_count[1] };
    uint32_t length = rmr_compose(front, header, parts, source, &want, &found, &key);
    chain_begin(&p->arena, &s->writer, ARENA_LARGE);
    note_link(p, k, s->writer.head);
    chain_write(&p->arena, &s->writer, ARENA_LARGE, front, length);
    chain_write(&p->arena, &s->writer, ARENA_LARGE, header + parts->head, here);
    kept_change(p, k, before);
    rmr_content_header(arena_content_of(&p->arena.view, s->writer.head), &found);
    s->posted = true;
    s->complete = s->whole = here == parts->payload;
    chain_publish(&p->arena, &s->writer, s->complete ? CONTENT_COMPLETE : CONTENT_RECEIVING);
    message_log(p, k, &p->arena.view, s->writer.head, false);
    uint8_t flags =
        (uint8_t) ((s->complete ? F_COMPLETE : 0) | extract_chain(p, s->writer.head, s->writer.written, s->complete,
                                                                  &found));
    routerd_record *r = post_deliver(p, k, s->writer.head, pool_handle(&p->ins, s), 4, s->writer.written, flags);
    if (k->to_table) rmr_key_post(&key, r);
    k->credit--;
    stats_add(p->stats, N_RMR_FRAMES_IN, 1);
    x->left = parts->payload - here;
    if (!x->left) return FRAMED_ON;
    x->into = k;
    k->current = s;
    return FRAMED_ON;
}

/* Traces a received frame. */
static void rmr_trace(worker_connection *c, const uint8_t *frame, uint32_t length, uint32_t head, uint32_t here)
{
    trace_frame(c, &(frame_seen) { .length = length, .head_length = head, .payload_length = here, .head = frame,
                                   .payload = frame + head });
}

/* Begins a traced frame. The trace shows the frame as it came, before rmr_begin changes its addresses. */
static enum framed_step rmr_begin_traced(pump *p, worker_connection *c, uint8_t *frame, uint32_t length,
                                         const rmr_parts *parts,
                                        uint32_t here)
{
    uint8_t as_it_came[RMR_TRANSPORT + RMR_HEAD_MAX + FRAME_SEEN_PAYLOAD];
    uint32_t head = RMR_TRANSPORT + parts->head, shown = here < FRAME_SEEN_PAYLOAD ? here : FRAME_SEEN_PAYLOAD;
    memcpy(as_it_came, frame, head + shown);
    enum framed_step step = rmr_begin(p, c, frame + RMR_TRANSPORT, parts, here);
    if (step == FRAMED_ON) rmr_trace(c, as_it_came, length, head, shown);
    return step;
}

/* Takes the frame at the front of the buffer. */
PRIVATE inline enum framed_step rmr_frame_next(pump *p, worker_connection *c)
{
    framed_connection *x = c->framed;
    uint8_t *frame = x->in + x->first;
    uint32_t there = x->end - x->first, most = framed_terms_of(p, c)->most;
    rmr_parts parts;
    if (there < 4) return FRAMED_MORE;
    uint32_t length = rmr_length(frame);
    if (!rmr_length_good(length, most)) {
        framed_malformed(p, c, N_RMR_BAD_LENGTH, length > most ? "a frame is longer than maxFrameSize allows"
                         : "a frame is shorter than its header");
        return FRAMED_WAIT;
    }
    if (there < RMR_TRANSPORT + RMR_HEADER_OLD) return FRAMED_MORE;
    if (!rmr_measure(frame + RMR_TRANSPORT, length - RMR_TRANSPORT, &parts)) {
        framed_malformed(p, c, N_RMR_BAD_HEADER,
                         "the parts of a frame are longer than the frame, or its header is of no known length");
        return FRAMED_WAIT;
    }
    uint32_t head = RMR_TRANSPORT + parts.head, behind = length - head - parts.payload;
    if (there < head) return FRAMED_MORE;
    uint32_t here = there - head < parts.payload ? there - head : parts.payload;
    if (parts.mt >= 0 && parts.mt < RMR_RESERVED && !rmr_control(parts.mt)) {
        if (__builtin_expect(c->tracer != NULL, 0)) rmr_trace(c, frame, length, head, here);
        stats_add(p->stats, N_RMR_RESERVED, 1);
        x->skip = length;
        if (intake_complains(p, rmr_reserved))
            p->on_event(p->self, EV_MESSAGE_REFUSED, c, NULL, (void *) (uintptr_t) rmr_reserved, NULL);
        return FRAMED_ON;
    }
    enum framed_step step = __builtin_expect(c->tracer != NULL, 0) ? rmr_begin_traced(p, c, frame, length, &parts, here)
                                                                  : rmr_begin(p, c, frame + RMR_TRANSPORT, &parts,
                                                                              here);
    if (step == FRAMED_WAIT) return FRAMED_WAIT;
    x->first += head + here;
    x->skip = behind;
    return FRAMED_ON;
}
