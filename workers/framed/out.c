/* Messages sent on framed connections (framed.c): from blocks into frames, several per system call.
 *
 *   queued ──the kernel has its last octet──▶ gone (UPDATE accepted; DONE if it came settled)
 *     │  └──the kernel has some of it──▶ its rest is kept here, and goes first
 *     ├──makes no frame──▶ gone (UPDATE rejected)
 *     └──its connection is lost──▶ gone: released if nothing of it was written, else modified (egress_lost)
 *
 * A message that is still arriving, or whose beginning lies in pieces, is gathered first: a frame says how long it is
 * before anything else. What has been begun is finished whatever becomes of its blocks, so a core that dies leaves no
 * half frame behind.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "workers/framed/framed.h"
#include "shm/arena.h"
#include "shm/content.h"
#include "shm/counters.h"
#include "shm/record.h"
#include "shm/stats.h"
#include "workers/amqp/amqp.h"
#include "workers/loop/loop.h"
#include "workers/state/pool.h"
#include "workers/state/pump.h"
#include "workers/transport/transport.h"

#define PLAIN_BATCH 128u               /* frames of one system call */
/* pieces of memory that they may consist of: a head and a payload, and some are in two blocks */
#define PLAIN_PIECES_MAX 288u
#define PLAIN_FRONT_MAX (128u << 10)   /* octets of a message that are not its payload, where that is gathered */
#define PLAIN_TURNS 16                 /* system calls of one connection before others get their turn */

typedef struct plain_batch {           /* frames on their way into the kernel: a pump's, while it serves a connection */
    void *made;                        /* what a protocol's make leaves for its put */
    size_t made_size;
    struct iovec piece[PLAIN_PIECES_MAX];
    wout *out[PLAIN_BATCH];
    uint32_t first[PLAIN_BATCH], size[PLAIN_BATCH];    /* of each frame: its first piece, its octets */
    uint32_t pieces, frames;
    uint32_t used;                     /* octets of `heads` */
    uint8_t heads[PLAIN_BATCH * PLAIN_HEAD_MAX];
} plain_batch;

PRIVATE inline void *plain_made_last(const pump *p) { return p->batch->made; }

/* Room for frames of a protocol.  False: out of memory. */
PRIVATE bool plain_prepare(pump *p, const plain_protocol *speaks)
{
    if (!p->batch && !(p->batch = (plain_batch *) calloc(1, sizeof *p->batch))) return false;
    plain_batch *b = p->batch;
    if (b->made_size >= speaks->made_size) return true;
    void *made = realloc(b->made, speaks->made_size);
    if (!made) return false;
    b->made = memset(made, 0, speaks->made_size);
    b->made_size = speaks->made_size;
    return true;
}

/* The pump ends. */
GLUE void plain_end(pump *p)
{
    if (p->batch) free(p->batch->made);
    free(p->batch);
    p->batch = NULL;
}

/* The kernel has all of it. */
static void plain_sent(pump *p, wout *o)
{
    out_begun(p, o->link, o);
    o->finished = p->now_ns;
    stats_add(p->stats, N_DELIVERIES_OUT, 1);
    stats_add(p->stats, o->link->conn->plain->speaks->frames_out, 1);
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
static void plain_unfit(pump *p, wout *o, const char *why)
{
    uint8_t detail[512];
    size_t size = 0;
    stats_add(p->stats, o->link->conn->plain->speaks->unfit, 1);
    if (o->settled) {
        post_done(p, o->link, o->core, F_DROPPED);
    } else {
        routerd_record *r = post_update(p, o);
        r->flags = F_SETTLED;
        r->state = S_REJECTED;
        detail_text(detail, &size, o->link->conn->plain->speaks->unfit_name);
        detail_text(detail, &size, why);
        if (payload_store(p, detail, size, r)) r->extra = D_PAYLOAD;
    }
    if (intake_complains(p, why))
        p->on_event(p->self, EV_MESSAGE_REFUSED, o->link->conn, o->link, (void *) (uintptr_t) why, NULL);
    out_free(p, o);
}

/* ---- messages that are gathered first ---- */

static void plain_ungather(pump *p, plain_conn *x)
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
static bool plain_gather(pump *p, wconn *c, wout *o, uint64_t length)
{
    plain_conn *x = c->plain;
    if (length > (uint64_t) plain_terms_of(p, c)->most + PLAIN_FRONT_MAX) return false;
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

GLUE const char plain_long[] = "the message is longer than maxFrameSize allows, or than there is memory for";

static void plain_piece(plain_batch *b, const uint8_t *bytes, uint32_t size)
{
    b->piece[b->pieces].iov_base = (void *) (uintptr_t) bytes;
    b->piece[b->pieces++].iov_len = size;
}

/* What goes around the payload of the frame that was made last, and where it begins in the batch. */
static void plain_put_frame(pump *p, wconn *c, wout *o, const plain_frame *f, plain_batch *b)
{
    uint8_t *to = b->heads + b->used;
    c->plain->speaks->put(p, c, o, f, to);
    b->used += f->head + f->tail;
    b->out[b->frames] = o;
    b->first[b->frames] = b->pieces;
    b->size[b->frames++] = f->head + f->payload_length + f->tail;
    plain_piece(b, to, f->head);
}

static void plain_put_tail(const plain_frame *f, plain_batch *b)
{
    if (f->tail) plain_piece(b, b->heads + b->used - f->tail, f->tail);
}

/* The payload where it stands in the blocks.  False: too many of them for what is left of the batch. */
static bool plain_put_blocks(const pump *p, const wout *o, const plain_frame *f, plain_batch *b)
{
    const arena_view *v = &p->views[o->arena];
    arena_reader reader;
    uint64_t end = (uint64_t) f->payload + f->payload_length;
    uint32_t n;
    chain_open(&reader, o->reader.head);
    while (reader.position < end) {
        const uint8_t *from = chain_read(v, &reader, end, &n);
        if (!from) return false;
        if (reader.position + n > f->payload) {
            uint32_t skip = reader.position < f->payload ? f->payload - (uint32_t) reader.position : 0;
            if (b->pieces + 1 >= PLAIN_PIECES_MAX) return false;                /* one is for the tail */
            plain_piece(b, from + skip, n - skip);
        }
        chain_advance(&reader, n);
    }
    return true;
}

enum plain_put { PUT_DONE, PUT_FULL, PUT_LATER, PUT_GONE };

/* A message gathered as a whole: alone in its batch. */
static enum plain_put plain_put_gathered(pump *p, wconn *c, wout *o, uint64_t length, bool complete, plain_batch *b)
{
    plain_conn *x = c->plain;
    plain_frame f = { .why = plain_long };
    if (b->frames) return PUT_FULL;
    if (x->gathered_of && !pool_find(&p->outs, x->gathered_of)) plain_ungather(p, x);
    if (x->gathered_of && x->gathered_of != pool_handle(&p->outs, o)) return PUT_LATER;
    bool there = plain_gather(p, c, o, length);
    if (there && !complete) return PUT_LATER;
    plain_message m = { .start = x->gathered, .size = length, .length = length, .whole = x->gathered };
    if (!there || x->speaks->make(p, c, o, &m, &f) != PLAIN_MADE) {
        plain_ungather(p, x);
        plain_unfit(p, o, f.why);
        return PUT_GONE;
    }
    plain_put_frame(p, c, o, &f, b);
    if (f.payload_length) plain_piece(b, x->gathered + f.payload, f.payload_length);
    plain_put_tail(&f, b);
    return PUT_DONE;
}

static enum plain_put plain_put(pump *p, wconn *c, wout *o, plain_batch *b)
{
    const arena_view *v = &p->views[o->arena];
    const arena_content *content = arena_content_of(v, o->reader.head);
    uint32_t state = chain_state(content), room = arena_capacity(v, o->reader.head, true);
    uint64_t length = chain_length(content);
    plain_frame f;
    if (o->aborted) { out_abort(p, o); return PUT_GONE; }
    if (state == CONTENT_ABORTED) return PUT_LATER;
    if (b->frames == PLAIN_BATCH || b->pieces + 3 > PLAIN_PIECES_MAX) return PUT_FULL;
    if (state != CONTENT_COMPLETE || o->streaming)
        return plain_put_gathered(p, c, o, length, state == CONTENT_COMPLETE, b);
    plain_message m = { .start = (const uint8_t *) content + sizeof *content, .size = length < room ? length : room,
                        .length = length };
    switch (c->plain->speaks->make(p, c, o, &m, &f)) {
    case PLAIN_PIECES: return plain_put_gathered(p, c, o, length, true, b);
    case PLAIN_UNFIT: plain_unfit(p, o, f.why); return PUT_GONE;
    case PLAIN_MADE: break;
    }
    plain_put_frame(p, c, o, &f, b);
    if (!f.payload_length || plain_put_blocks(p, o, &f, b)) { plain_put_tail(&f, b); return PUT_DONE; }
    uint32_t at = --b->frames;
    b->pieces = b->first[at];
    b->used -= f.head + f.tail;
    return b->frames ? PUT_FULL : plain_put_gathered(p, c, o, length, true, b);
}

/* ---- writing ---- */

/* The kernel has begun with a frame: to the log, if anybody asked for that. */
static void plain_begun(pump *p, wconn *c, const plain_batch *b, uint32_t frame)
{
    const wout *o = b->out[frame];
    const struct iovec *piece = &b->piece[b->first[frame]];
    if (__builtin_expect(c->tracer != NULL, 0)) {
        uint32_t last = frame + 1 < b->frames ? b->first[frame + 1] : b->pieces;
        bool more = b->first[frame] + 1 < last;
        trace_frame(c, &(frame_seen) { .sent = true, .length = b->size[frame], .head_length = (uint32_t) piece->iov_len,
                                       .head = (const uint8_t *) piece->iov_base,
                                       .payload_length = more ? (uint32_t) piece[1].iov_len : 0,
                                       .payload = more ? (const uint8_t *) piece[1].iov_base : NULL });
    }
    message_log(p, o->link, &p->views[o->arena], o->reader.head, true);
}

/* Some of this frame is in the kernel: keep the rest of it. */
static void plain_keep_rest(pump *p, wconn *c, const plain_batch *b, uint32_t frame, size_t sent)
{
    plain_conn *x = c->plain;
    uint32_t last = frame + 1 < b->frames ? b->first[frame + 1] : b->pieces;
    size_t at = 0;
    plain_begun(p, c, b, frame);
    x->rest = (uint8_t *) malloc(b->size[frame]);
    x->rest_first = sent;
    x->rest_size = b->size[frame];
    x->rest_of = pool_handle(&p->outs, b->out[frame]);
    b->out[frame]->begun = true;
    if (!x->rest) { plain_close(p, c, "out of memory"); return; }
    for (uint32_t i = b->first[frame]; i < last; i++) {
        memcpy(x->rest + at, b->piece[i].iov_base, b->piece[i].iov_len);
        at += b->piece[i].iov_len;
    }
}

static void plain_blocked(pump *p, wconn *c)
{
    if (c->want_write) return;
    c->want_write = true;
    plain_watch(p, c);
}

/* The rest of a frame.  False: there is still some. */
static bool plain_write_rest(pump *p, wconn *c)
{
    plain_conn *x = c->plain;
    while (x->rest_first < x->rest_size) {
        ssize_t n = send(c->fd, x->rest + x->rest_first, x->rest_size - x->rest_first, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno != EAGAIN) { plain_close(p, c, strerror(errno)); return false; }
        if (n < 0) { plain_blocked(p, c); return false; }
        stats_add(p->stats, N_BYTES_OUT, (uint64_t) n);
        x->rest_first += (size_t) n;
    }
    free(x->rest);
    x->rest = NULL;
    x->rest_first = x->rest_size = 0;
    wout *o = (wout *) pool_find(&p->outs, x->rest_of);
    if (o) plain_sent(p, o);
    return true;
}

/* False: the socket is full, or broken. */
static bool plain_write(pump *p, wconn *c, const plain_batch *b)
{
    struct msghdr message = { .msg_iov = (struct iovec *) (uintptr_t) b->piece, .msg_iovlen = b->pieces };
    ssize_t n;
    while ((n = sendmsg(c->fd, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) continue;
    if (n < 0) {
        if (errno == EAGAIN && b->out[0] && pool_handle(&p->outs, b->out[0]) == c->plain->gathered_of)
            plain_keep_rest(p, c, b, 0, 0);
        if (errno == EAGAIN) plain_blocked(p, c);
        else plain_close(p, c, strerror(errno));
        return false;
    }
    stats_add(p->stats, N_BYTES_OUT, (uint64_t) n);
    size_t left = (size_t) n;
    for (uint32_t i = 0; i < b->frames; i++) {
        if (left < b->size[i]) {
            if (left) plain_keep_rest(p, c, b, i, left);
            plain_blocked(p, c);
            return false;
        }
        left -= b->size[i];
        plain_begun(p, c, b, i);
        plain_sent(p, b->out[i]);
    }
    return true;
}

/* A batch of a link's.  False: the connection has to wait, or is broken. */
static bool plain_write_link(pump *p, wconn *c, wlink *k)
{
    plain_batch *b = p->batch;
    b->pieces = b->frames = b->used = 0;
    enum plain_put put = PUT_DONE;
    for (wout *o = k->queue_first, *next; o && put != PUT_FULL && put != PUT_LATER; o = next) {
        next = o->next;
        put = plain_put(p, c, o, b);
    }
    bool alone = b->frames && pool_handle(&p->outs, b->out[0]) == c->plain->gathered_of,
        written = !b->frames || plain_write(p, c, b);
    if (alone) plain_ungather(p, c->plain);                         /* what the kernel has not taken was kept */
    if (!k->queue_first || (put == PUT_LATER && !b->frames)) work_remove(p, k);
    return written;
}

/* Serve the connection's links with work, most urgent first. */
PRIVATE inline void plain_output(pump *p, wconn *c)
{
    if (c->want_write || (c->plain->rest && !plain_write_rest(p, c))) return;
    for (int turn = 0; c->work_mask && !c->failed; turn++) {
        if (turn == PLAIN_TURNS) { mark_dirty(p, c); return; }
        uint32_t q = 31u - (uint32_t) __builtin_clz(c->work_mask), index = c->work_first[q];
        wlink *k = (wlink *) pool_at(&p->links, index);
        if (!k->open) { work_remove(p, k); continue; }
        if (!plain_write_link(p, c, k)) return;
        if (k->on_list == (int) q) {                            /* the other one of this priority is next */
            work_remove(p, k);
            k->queue_priority = (uint8_t) q;
            work_add(p, k);
        }
    }
}
