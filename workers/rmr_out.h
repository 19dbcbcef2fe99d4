/* Messages to RMR applications: from blocks into frames, several of them with one system call.
 *
 *   queued ──the kernel has its last octet──▶ gone (UPDATE accepted; DONE if it came settled)
 *     │  └──the kernel has some of it──▶ its rest is kept here, and goes first
 *     ├──makes no frame──▶ gone (UPDATE rejected)
 *     └──its connection is lost──▶ gone: released if nothing of it was written, else modified (egress_lost)
 *
 * A message that is still arriving, or whose beginning lies in pieces, is gathered first: a frame says how long it is before
 * anything else.  What has been begun is finished whatever becomes of its blocks, so a core that dies leaves no half frame behind.
 */
#ifndef ROUTERD_WORKERS_RMR_OUT_H
#define ROUTERD_WORKERS_RMR_OUT_H

#include "egress.h"
#include "rmr.h"

#define RMR_BATCH 32u                  /* frames of one system call */
#define RMR_PIECES_MAX 64u             /* pieces of memory that they may consist of */
#define RMR_TURNS 16                   /* system calls of one connection before others get their turn */

typedef struct {                       /* frames on their way into the kernel */
    struct iovec piece[RMR_PIECES_MAX];
    wout *out[RMR_BATCH];
    uint32_t first[RMR_BATCH], size[RMR_BATCH];    /* of each frame: its first piece, its octets */
    uint32_t pieces, frames;
    uint32_t used;                     /* octets of `heads` */
    uint8_t heads[RMR_BATCH * (RMR_TRANSPORT + RMR_HEAD_MAX)];
} rmr_batch;

/* The kernel has all of it. */
static inline void rmr_sent(pump *p, wout *o)
{
    out_begun(p, o->link, o);
    o->finished = p->now_ns;
    stats_add(p->stats, N_OUT, 1);
    stats_add(p->stats, N_RMR_FRAMES_OUT, 1);
    if (o->settled) {
        out_times(o, post_done(p, o->link, o->core, 0));
    } else {
        routerd_record *r = post_update(p, o);
        r->flags = F_SETTLED;
        r->state = S_ACCEPTED;
    }
    out_free(p, o);
}

/* It makes no frame. */
static inline void rmr_unfit(pump *p, wout *o, const char *why)
{
    uint8_t detail[512];
    size_t size = 0;
    stats_add(p->stats, N_RMR_UNFIT, 1);
    if (o->settled) {
        post_done(p, o->link, o->core, F_DROPPED);
    } else {
        routerd_record *r = post_update(p, o);
        r->flags = F_SETTLED;
        r->state = S_REJECTED;
        detail_text(detail, &size, "routerd:not-an-rmr-message");
        detail_text(detail, &size, why);
        if (payload_store(p, detail, size, r)) r->extra = D_PAYLOAD;
    }
    if (intake_complains(p, why)) p->on_event(p->self, EV_MESSAGE_REFUSED, o->link->conn, o->link, (void *) (uintptr_t) why, NULL);
    out_free(p, o);
}

static inline const char *rmr_unfit_why(enum rmr_made made)
{
    if (made == RMR_NO_TYPE) return "there is no message type: application property rmr.mt";
    return made == RMR_NO_BODY ? "the body is neither data nor one value of octets" : "the RMR header that it carries is none";
}

/* ---- messages that are gathered first ---- */

static inline void rmr_ungather(pump *p, rmr_conn *x)
{
    free(x->gathered);
    x->gathered = NULL;
    x->gathered_of = 0;
    x->gathered_size = 0;
    for (int i = 0; i < 2; i++) {                               /* the other link may have waited for this */
        wlink *k = i ? x->back : x->out;
        if (k && k->queue_first) work_add(p, k);
    }
}

/* More of the message that is being gathered.  False: it will never be a frame. */
static inline bool rmr_gather(pump *p, wconn *c, wout *o, uint64_t length)
{
    rmr_conn *x = c->rmr;
    if (length > (uint64_t) rmr_terms_of(p, c)->most + RMR_FRONT_MAX) return false;
    if (length > x->gathered_size) {
        uint8_t *more = (uint8_t *) realloc(x->gathered, length);
        if (!more) return false;
        x->gathered = more;
        x->gathered_size = length;
    }
    x->gathered_of = pool_handle(&p->outs, o);
    while (o->reader.position < length) {
        uint32_t n;
        const uint8_t *from = chain_read(&p->views[o->arena], &o->reader, length, &n);
        if (!from) return false;
        memcpy(x->gathered + o->reader.position, from, n);
        chain_advance(&o->reader, n);
    }
    if (o->streaming && o->reader.position > o->reported) {
        routerd_record *r = post_link(p, A_PROGRESS, o->link);
        r->delivery = o->core;
        r->peer = pool_handle(&p->outs, o);
        r->length = o->reported = o->reader.position;
    }
    return true;
}

/* ---- one frame ---- */

static const char rmr_long[] = "the message is longer than maxFrameSize allows, or than there is memory for";

static inline bool rmr_too_long(const pump *p, const wconn *c, const rmr_frame *frame)
{
    return (uint64_t) RMR_TRANSPORT + frame->head_length + frame->payload_length > rmr_terms_of(p, c)->most;
}

/* Tables, and what is said about them, come from the core or from nobody: a client could otherwise give applications routes. */
static inline bool rmr_forbidden(const pump *p, const wout *o, const rmr_frame *frame)
{
    return o->arena != p->workers && rmr_control((int32_t) scan_u32(frame->head + RMR_MT));
}

/* What only replies, and what comes for them, need. */
static inline void rmr_address_back(const pump *p, const wconn *c, const wout *o, rmr_frame *frame)
{
    const rmr_terms *t = rmr_terms_of(p, c);
    const rmr_conn *x = c->rmr;
    if (o->link == x->back) {
        int32_t mt = (int32_t) scan_u32(frame->head + RMR_MT);
        rmr_unsign(t, x, frame->head);
        if (!rmr_control(mt)) frame->head[RMR_FLAGS] &= (uint8_t) ~RMR_CALL;
    } else if (!frame->annotated && t->reply != REPLY_TRANSPARENT) {
        uint8_t *source = frame->head + RMR_SOURCE;
        if (!rmr_token_endpoint(frame->head + RMR_SID, t->nonce, source, rmr_text(source, RMR_SOURCE_BYTES))) memset(frame->head + RMR_SID, 0, RMR_SID_BYTES);
        memset(source, 0, RMR_SOURCE_BYTES);
        if (t->reply == REPLY_PROXIED) memcpy(source, t->source, RMR_SOURCE_BYTES);
    }
}

static inline void rmr_piece(rmr_batch *b, const uint8_t *bytes, uint32_t size)
{
    b->piece[b->pieces].iov_base = (void *) (uintptr_t) bytes;
    b->piece[b->pieces++].iov_len = size;
}

/* The head of a frame, and where it begins in the batch. */
static inline void rmr_put_frame(pump *p, wconn *c, wout *o, rmr_frame *frame, rmr_batch *b)
{
    uint8_t *to = b->heads + b->used;
    rmr_address_back(p, c, o, frame);
    rmr_put_transport(to, frame->head_length + frame->payload_length);
    memcpy(to + RMR_TRANSPORT, frame->head, frame->head_length);
    b->used += RMR_TRANSPORT + frame->head_length;
    b->out[b->frames] = o;
    b->first[b->frames] = b->pieces;
    b->size[b->frames++] = RMR_TRANSPORT + frame->head_length + frame->payload_length;
    rmr_piece(b, to, RMR_TRANSPORT + frame->head_length);
}

/* The payload where it stands in the blocks.  False: too many of them for what is left of the batch. */
static inline bool rmr_put_blocks(const pump *p, const wout *o, const rmr_frame *frame, rmr_batch *b)
{
    const arena_view *v = &p->views[o->arena];
    arena_reader reader;
    uint64_t end = (uint64_t) frame->payload + frame->payload_length;
    uint32_t n;
    chain_open(&reader, o->reader.head);
    while (reader.position < end) {
        const uint8_t *from = chain_read(v, &reader, end, &n);
        if (!from) return false;
        if (reader.position + n > frame->payload) {
            uint32_t skip = reader.position < frame->payload ? frame->payload - (uint32_t) reader.position : 0;
            if (b->pieces == RMR_PIECES_MAX) return false;
            rmr_piece(b, from + skip, n - skip);
        }
        chain_advance(&reader, n);
    }
    return true;
}

enum rmr_put { PUT_DONE, PUT_FULL, PUT_LATER, PUT_GONE };

/* A message gathered as a whole: alone in its batch. */
static inline enum rmr_put rmr_put_gathered(pump *p, wconn *c, wout *o, uint64_t length, bool complete, rmr_batch *b)
{
    static rmr_frame frame;
    rmr_conn *x = c->rmr;
    if (b->frames) return PUT_FULL;
    if (x->gathered_of && !pool_find(&p->outs, x->gathered_of)) rmr_ungather(p, x);
    if (x->gathered_of && x->gathered_of != pool_handle(&p->outs, o)) return PUT_LATER;
    if (!rmr_gather(p, c, o, length)) {
        rmr_ungather(p, x);
        rmr_unfit(p, o, rmr_long);
        return PUT_GONE;
    }
    if (!complete) return PUT_LATER;
    enum rmr_made made = rmr_make(x->gathered, length, length, &frame);
    if (made == RMR_PIECES && !rmr_join(x->gathered, (uint32_t) length, &frame)) made = RMR_NO_BODY;
    const char *why = made != RMR_MADE && made != RMR_PIECES ? rmr_unfit_why(made) : rmr_forbidden(p, o, &frame) ? rmr_reserved : rmr_too_long(p, c, &frame) ? rmr_long : NULL;
    if (why) {
        rmr_ungather(p, x);
        rmr_unfit(p, o, why);
        return PUT_GONE;
    }
    rmr_put_frame(p, c, o, &frame, b);
    if (frame.payload_length) rmr_piece(b, x->gathered + frame.payload, frame.payload_length);
    return PUT_DONE;
}

static inline enum rmr_put rmr_put(pump *p, wconn *c, wout *o, rmr_batch *b)
{
    static rmr_frame frame;
    const arena_view *v = &p->views[o->arena];
    const arena_content *content = arena_content_of(v, o->reader.head);
    uint32_t state = chain_state(content), room = arena_capacity(v, o->reader.head, true);
    uint64_t length = chain_length(content);
    if (o->aborted) { out_abort(p, o); return PUT_GONE; }
    if (state == CONTENT_ABORTED) return PUT_LATER;
    if (b->frames == RMR_BATCH || b->pieces + 2 > RMR_PIECES_MAX) return PUT_FULL;
    if (state != CONTENT_COMPLETE || o->streaming) return rmr_put_gathered(p, c, o, length, state == CONTENT_COMPLETE, b);
    const uint8_t *bytes = (const uint8_t *) content + sizeof *content;
    enum rmr_made made = rmr_make(bytes, length < room ? length : room, length, &frame);
    if (made == RMR_PIECES) return rmr_put_gathered(p, c, o, length, true, b);
    const char *why = made != RMR_MADE ? rmr_unfit_why(made) : rmr_forbidden(p, o, &frame) ? rmr_reserved : rmr_too_long(p, c, &frame) ? rmr_long : NULL;
    if (why) {
        rmr_unfit(p, o, why);
        return PUT_GONE;
    }
    rmr_put_frame(p, c, o, &frame, b);
    if (!frame.payload_length || rmr_put_blocks(p, o, &frame, b)) return PUT_DONE;
    uint32_t at = --b->frames;
    b->pieces = b->first[at];
    return b->frames ? PUT_FULL : rmr_put_gathered(p, c, o, length, true, b);
}

/* ---- writing ---- */

/* Some of this frame is in the kernel: keep the rest of it. */
static inline void rmr_keep_rest(pump *p, wconn *c, const rmr_batch *b, uint32_t frame, size_t sent)
{
    rmr_conn *x = c->rmr;
    uint32_t last = frame + 1 < b->frames ? b->first[frame + 1] : b->pieces;
    size_t at = 0;
    x->rest = (uint8_t *) malloc(b->size[frame]);
    x->rest_first = sent;
    x->rest_size = b->size[frame];
    x->rest_of = pool_handle(&p->outs, b->out[frame]);
    b->out[frame]->begun = true;
    if (!x->rest) { rmr_close(p, c, "out of memory"); return; }
    for (uint32_t i = b->first[frame]; i < last; i++) {
        memcpy(x->rest + at, b->piece[i].iov_base, b->piece[i].iov_len);
        at += b->piece[i].iov_len;
    }
}

static inline void rmr_blocked(pump *p, wconn *c)
{
    if (c->want_write) return;
    c->want_write = true;
    rmr_watch(p, c);
}

/* The rest of a frame.  False: there is still some. */
static inline bool rmr_write_rest(pump *p, wconn *c)
{
    rmr_conn *x = c->rmr;
    while (x->rest_first < x->rest_size) {
        ssize_t n = send(c->fd, x->rest + x->rest_first, x->rest_size - x->rest_first, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno != EAGAIN) { rmr_close(p, c, strerror(errno)); return false; }
        if (n < 0) { rmr_blocked(p, c); return false; }
        stats_add(p->stats, N_BYTES_OUT, (uint64_t) n);
        x->rest_first += (size_t) n;
    }
    free(x->rest);
    x->rest = NULL;
    x->rest_first = x->rest_size = 0;
    wout *o = (wout *) pool_find(&p->outs, x->rest_of);
    if (o) rmr_sent(p, o);
    return true;
}

/* False: the socket is full, or broken. */
static inline bool rmr_write(pump *p, wconn *c, const rmr_batch *b)
{
    struct msghdr message = { .msg_iov = (struct iovec *) (uintptr_t) b->piece, .msg_iovlen = b->pieces };
    ssize_t n;
    while ((n = sendmsg(c->fd, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) continue;
    if (n < 0) {
        if (errno == EAGAIN && b->out[0] && pool_handle(&p->outs, b->out[0]) == c->rmr->gathered_of) rmr_keep_rest(p, c, b, 0, 0);
        if (errno == EAGAIN) rmr_blocked(p, c);
        else rmr_close(p, c, strerror(errno));
        return false;
    }
    stats_add(p->stats, N_BYTES_OUT, (uint64_t) n);
    size_t left = (size_t) n;
    for (uint32_t i = 0; i < b->frames; i++) {
        if (left < b->size[i]) {
            if (left) rmr_keep_rest(p, c, b, i, left);
            rmr_blocked(p, c);
            return false;
        }
        left -= b->size[i];
        rmr_sent(p, b->out[i]);
    }
    return true;
}

/* A batch of a link's.  False: the connection has to wait, or is broken. */
static inline bool rmr_write_link(pump *p, wconn *c, wlink *k)
{
    static rmr_batch b;
    b.pieces = b.frames = b.used = 0;
    enum rmr_put put = PUT_DONE;
    for (wout *o = k->queue_first, *next; o && put != PUT_FULL && put != PUT_LATER; o = next) {
        next = o->next;
        put = rmr_put(p, c, o, &b);
    }
    bool alone = b.frames && pool_handle(&p->outs, b.out[0]) == c->rmr->gathered_of, written = !b.frames || rmr_write(p, c, &b);
    if (alone) rmr_ungather(p, c->rmr);                         /* what the kernel has not taken was kept */
    if (!k->queue_first || (put == PUT_LATER && !b.frames)) work_remove(p, k);
    return written;
}

/* Serve the connection's links with work, most urgent first. */
static inline void rmr_output(pump *p, wconn *c)
{
    if (c->want_write || (c->rmr->rest && !rmr_write_rest(p, c))) return;
    for (int turn = 0; c->work_mask && !c->failed; turn++) {
        if (turn == RMR_TURNS) { mark_dirty(p, c); return; }
        uint32_t q = 31u - (uint32_t) __builtin_clz(c->work_mask), index = c->work_first[q];
        wlink *k = (wlink *) pool_at(&p->links, index);
        if (!k->open) { work_remove(p, k); continue; }
        if (!rmr_write_link(p, c, k)) return;
        if (k->on_list == (int) q) {                            /* the other one of this priority is next */
            work_remove(p, k);
            k->queue_priority = (uint8_t) q;
            work_add(p, k);
        }
    }
}

#endif
