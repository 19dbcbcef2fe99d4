/* Messages to RMR applications as frames: the protocol's part of framed/out.c. */
#include <string.h>

#include "workers/rmr/rmr.h"

static const char *rmr_unfit_why(enum rmr_made made)
{
    if (made == RMR_NO_TYPE) return "there is no message type: application property rmr.mt";
    return made == RMR_NO_BODY ? "the body is neither data nor one value of octets"
           : "the RMR header that it carries is none";
}

static bool rmr_too_long(const pump *p, const worker_connection *c, const rmr_frame *frame)
{
    return (uint64_t) RMR_TRANSPORT + frame->head_length + frame->payload_length > framed_terms_of(p, c)->most;
}

/* Only the core may send messages about tables: a client could otherwise give routes to applications. */
static bool rmr_forbidden(const pump *p, const out_delivery *o, const rmr_frame *frame)
{
    return o->arena != p->workers && rmr_control((int32_t) be32(frame->head + RMR_MT));
}

/* What only replies, and what comes for them, need. */
static void rmr_address_back(const pump *p, const worker_connection *c, const out_delivery *o, rmr_frame *frame)
{
    const rmr_terms *t = rmr_terms_of(p, c);
    const framed_connection *x = c->framed;
    if (o->link == x->back) {
        int32_t mt = (int32_t) be32(frame->head + RMR_MT);
        rmr_unsign(t, x, frame->head);
        if (!rmr_control(mt)) frame->head[RMR_FLAGS] &= (uint8_t) ~RMR_CALL;
    } else if (!frame->annotated && (t->reply != REPLY_TRANSPARENT || (frame->asks && !frame->head[RMR_SOURCE]))) {
        uint8_t *source = frame->head + RMR_SOURCE;
        if (frame->asks) {
            rmr_token_asked(frame->head + RMR_SID, t->nonce);
            rmr_ask_sign(t->key, frame->head + RMR_HEADER, be32(frame->head + RMR_LEN1));
        } else if (!rmr_token_endpoint(frame->head + RMR_SID, t->nonce, source, rmr_text(source, RMR_SOURCE_BYTES)))
            memset(frame->head + RMR_SID, 0, RMR_SID_BYTES);
        memset(source, 0, RMR_SOURCE_BYTES);
        if (t->reply == REPLY_PROXIED) memcpy(source, t->source, RMR_SOURCE_BYTES);
    }
}

static enum framed_made rmr_made_of(pump *p, worker_connection *c, out_delivery *o, const framed_message *m,
                                    framed_frame *f)
{
    rmr_frame *last = (rmr_frame *) framed_made_last(p);
    enum rmr_made made = rmr_make(m->start, m->size, m->length, last);
    if (made == RMR_PIECES && m->whole)
        made = rmr_join(m->whole, (uint32_t) m->length, last) ? RMR_MADE : RMR_NO_BODY;
    if (made == RMR_PIECES) return FRAMED_PIECES;
    f->why = made != RMR_MADE ? rmr_unfit_why(made) : rmr_forbidden(p, o, last) ? rmr_reserved
        : rmr_too_long(p, c, last) ? framed_long : NULL;
    f->head = RMR_TRANSPORT + last->head_length;
    f->tail = 0;
    f->payload = last->payload;
    f->payload_length = last->payload_length;
    return f->why ? FRAMED_UNFIT : FRAMED_MADE;
}

static void rmr_put_head(pump *p, worker_connection *c, out_delivery *o, const framed_frame *f, uint8_t *to)
{
    rmr_frame *last = (rmr_frame *) framed_made_last(p);
    rmr_address_back(p, c, o, last);
    rmr_put_transport(to, last->head_length + f->payload_length);
    memcpy(to + RMR_TRANSPORT, last->head, last->head_length);
}

GLUE const framed_protocol rmr_protocol = {
    .number = 0, .frames_in = N_RMR_FRAMES_IN, .frames_out = N_RMR_FRAMES_OUT, .undelivered = N_RMR_UNDELIVERED,
    .unfit = N_RMR_UNFIT,
    .unfit_name = "routerd:not-an-rmr-message", .next = rmr_frame_next, .make = rmr_made_of, .put = rmr_put_head,
    .made_size = sizeof(rmr_frame),
};
