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

#include "shm/codec/outcome.h"
#include "workers/framed/framed.h"
#include "workers/amqp/amqp.h"
#include "workers/transport/transport.h"

#define FRAMED_BATCH 128u               /* frames of one system call */
#define FRAMED_PIECES_MAX 288u          /* their pieces of memory: a head and a payload each, some in two blocks */
#define FRAMED_FRONT_MAX (128u << 10)   /* octets of a message that are not its payload, where that is gathered */
#define FRAMED_TURNS 16                 /* system calls of one connection before others get their turn */

typedef struct framed_batch {          /* a pump's frames on their way into the kernel, while it serves a connection */
    void *made;                        /* what a protocol's make leaves for its put */
    size_t made_size;
    struct iovec piece[FRAMED_PIECES_MAX];
    out_delivery *out[FRAMED_BATCH];
    uint32_t first[FRAMED_BATCH], size[FRAMED_BATCH]; /* of each frame: its first piece, its octets */
    uint32_t pieces, frames;
    uint32_t used;                     /* octets of `heads` */
    uint8_t heads[FRAMED_BATCH * FRAMED_HEAD_MAX];
} framed_batch;

PRIVATE inline void *framed_made_last(const pump *p) { return p->batch->made; }

/* Room for frames of a protocol.  False: out of memory. */
PRIVATE bool framed_prepare(pump *p, const framed_protocol *speaks)
{
    if (!p->batch && !(p->batch = (framed_batch *) calloc(1, sizeof *p->batch))) return false;
    framed_batch *b = p->batch;
    if (b->made_size >= speaks->made_size) return true;
    void *made = realloc(b->made, speaks->made_size);
    if (!made) return false;
    b->made = memset(made, 0, speaks->made_size);
    b->made_size = speaks->made_size;
    return true;
}

/* The pump ends. */
GLUE void framed_end(pump *p)
{
    if (p->batch) free(p->batch->made);
    free(p->batch);
    p->batch = NULL;
}

/* The kernel has all of it. */
static void framed_sent(pump *p, out_delivery *o)
{
    out_begun(p, o->link, o);
    o->finished = p->now_ns;
    stats_add(p->stats, N_DELIVERIES_OUT, 1);
    stats_add(p->stats, o->link->conn->framed->speaks->frames_out, 1);
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
static void framed_unfit(pump *p, out_delivery *o, const char *why)
{
    uint8_t state[OUTCOME_MAX];
    stats_add(p->stats, o->link->conn->framed->speaks->unfit, 1);
    if (o->settled) {
        post_done(p, o->link, o->core, F_DROPPED);
    } else {
        routerd_record *r = post_update(p, o);
        r->flags = F_SETTLED;
        r->state = S_REJECTED;
        uint32_t size = outcome_rejected(state, o->link->conn->framed->speaks->unfit_name, why);
        state_store(p, state, size, r);
    }
    if (intake_complains(p, why))
        p->on_event(p->self, EV_MESSAGE_REFUSED, o->link->conn, o->link, (void *) (uintptr_t) why, NULL);
    out_free(p, o);
}

/* ---- messages that are gathered first ---- */

/* Links whose messages have waited are served again. */
PRIVATE void framed_work(pump *p, const framed_connection *x)
{
    for (int i = 0; i < 2; i++) {
        worker_link *k = i ? x->back : x->out;
        if (k && k->queue_first) work_add(p, k);
    }
}

static void framed_ungather(pump *p, framed_connection *x)
{
    free(x->gathered);
    x->gathered = NULL;
    x->gathered_of = 0;
    x->gathered_size = x->gathered_room = 0;
    framed_work(p, x);                                          /* the other link may have waited for this */
}

/* More of the message that is being gathered.  False: it will never be a frame. */
static bool framed_gather(pump *p, worker_connection *c, out_delivery *o, uint64_t length)
{
    framed_connection *x = c->framed;
    if (length > (uint64_t) framed_terms_of(p, c)->most + FRAMED_FRONT_MAX) return false;
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
        x->moved[FRAMED_OUT] += n;
        chain_advance(&o->reader, n);
    }
    if (o->streaming && o->reader.position > o->reported) egress_progress(p, o);
    return true;
}

/* ---- one frame ---- */

GLUE const char framed_long[] = "the message is longer than maxFrameSize allows, or than there is memory for";

static void framed_piece(framed_batch *b, const uint8_t *bytes, uint32_t size)
{
    b->piece[b->pieces].iov_base = (void *) (uintptr_t) bytes;
    b->piece[b->pieces++].iov_len = size;
}

/* What goes around the payload of the frame that was made last, and where it begins in the batch. */
static void framed_put_frame(pump *p, worker_connection *c, out_delivery *o, const framed_frame *f, framed_batch *b)
{
    uint8_t *to = b->heads + b->used;
    c->framed->speaks->put(p, c, o, f, to);
    b->used += f->head + f->tail;
    b->out[b->frames] = o;
    b->first[b->frames] = b->pieces;
    b->size[b->frames++] = f->head + f->payload_length + f->tail;
    framed_piece(b, to, f->head);
}

static void framed_put_tail(const framed_frame *f, framed_batch *b)
{
    if (f->tail) framed_piece(b, b->heads + b->used - f->tail, f->tail);
}

/* The payload where it stands in the blocks.  False: too many of them for what is left of the batch. */
static bool framed_put_blocks(const pump *p, const out_delivery *o, const framed_frame *f, framed_batch *b)
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
            if (b->pieces + 1 >= FRAMED_PIECES_MAX) return false;                /* one is for the tail */
            framed_piece(b, from + skip, n - skip);
        }
        chain_advance(&reader, n);
    }
    return true;
}

enum framed_put { PUT_DONE, PUT_FULL, PUT_LATER, PUT_GONE };

/* A message gathered as a whole: alone in its batch. */
static enum framed_put framed_put_gathered(pump *p, worker_connection *c, out_delivery *o, uint64_t length,
                                           bool complete, framed_batch *b)
{
    framed_connection *x = c->framed;
    framed_frame f = { .why = framed_long };
    if (b->frames) return PUT_FULL;
    if (x->gathered_of && !pool_find(&p->outs, x->gathered_of)) framed_ungather(p, x);
    if (x->gathered_of && x->gathered_of != pool_handle(&p->outs, o)) return PUT_LATER;
    const uint64_t most = (uint64_t) framed_terms_of(p, c)->most + FRAMED_FRONT_MAX;
    const uint64_t needs = length > most || (!complete && length > FRAMED_SURE) ? most : length;
    if (!long_lend(p, c, FRAMED_OUT, needs)) return PUT_LATER;
    x->gathered_room = needs;
    bool there = framed_gather(p, c, o, length);
    if (there && !complete) return PUT_LATER;
    framed_message m = { .start = x->gathered, .size = length, .length = length, .whole = x->gathered };
    if (!there || x->speaks->make(p, c, o, &m, &f) != FRAMED_MADE) {
        framed_ungather(p, x);
        framed_unfit(p, o, f.why);
        return PUT_GONE;
    }
    framed_put_frame(p, c, o, &f, b);
    if (f.payload_length) framed_piece(b, x->gathered + f.payload, f.payload_length);
    framed_put_tail(&f, b);
    return PUT_DONE;
}

/* What the kernel does not take of a frame is kept beside a message that is being gathered.  False: not now. */
static bool framed_lend(pump *p, worker_connection *c, uint64_t size)
{
    const uint64_t beside = c->framed->gathered_room;
    return (beside > FRAMED_SURE && size <= FRAMED_SURE) || long_lend(p, c, FRAMED_OUT, beside + size);
}

static enum framed_put framed_put(pump *p, worker_connection *c, out_delivery *o, framed_batch *b)
{
    const arena_view *v = &p->views[o->arena];
    const arena_content *content = arena_content_of(v, o->reader.head);
    uint32_t state = chain_state(content), room = arena_capacity(v, o->reader.head, true);
    uint64_t length = chain_length(content);
    framed_frame f;
    if (o->aborted) {
        if (c->framed->gathered_of == pool_handle(&p->outs, o)) framed_ungather(p, c->framed);
        out_abort(p, o);
        return PUT_GONE;
    }
    if (state == CONTENT_ABORTED) return PUT_LATER;
    if (b->frames == FRAMED_BATCH || b->pieces + 3 > FRAMED_PIECES_MAX) return PUT_FULL;
    if (state != CONTENT_COMPLETE || o->streaming)
        return framed_put_gathered(p, c, o, length, state == CONTENT_COMPLETE, b);
    framed_message m = { .start = (const uint8_t *) content + sizeof *content, .size = length < room ? length : room,
                        .length = length };
    switch (c->framed->speaks->make(p, c, o, &m, &f)) {
    case FRAMED_PIECES: return framed_put_gathered(p, c, o, length, true, b);
    case FRAMED_UNFIT: framed_unfit(p, o, f.why); return PUT_GONE;
    case FRAMED_MADE: break;
    }
    if (!framed_lend(p, c, (uint64_t) f.head + f.payload_length + f.tail)) return PUT_LATER;
    framed_put_frame(p, c, o, &f, b);
    if (!f.payload_length || framed_put_blocks(p, o, &f, b)) { framed_put_tail(&f, b); return PUT_DONE; }
    uint32_t at = --b->frames;
    b->pieces = b->first[at];
    b->used -= f.head + f.tail;
    return b->frames ? PUT_FULL : framed_put_gathered(p, c, o, length, true, b);
}

/* ---- writing ---- */

/* The kernel has begun with a frame: to the log, if anybody asked for that. */
static void framed_begun(pump *p, worker_connection *c, const framed_batch *b, uint32_t frame)
{
    const out_delivery *o = b->out[frame];
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
static void framed_keep_rest(pump *p, worker_connection *c, const framed_batch *b, uint32_t frame, size_t sent)
{
    framed_connection *x = c->framed;
    uint32_t last = frame + 1 < b->frames ? b->first[frame + 1] : b->pieces;
    size_t at = 0;
    framed_begun(p, c, b, frame);
    x->rest = (uint8_t *) malloc(b->size[frame]);
    x->rest_first = sent;
    x->rest_size = b->size[frame];
    x->rest_of = pool_handle(&p->outs, b->out[frame]);
    b->out[frame]->begun = true;
    if (!x->rest) { framed_close(p, c, "out of memory"); return; }
    for (uint32_t i = b->first[frame]; i < last; i++) {
        memcpy(x->rest + at, b->piece[i].iov_base, b->piece[i].iov_len);
        at += b->piece[i].iov_len;
    }
}

static void framed_blocked(pump *p, worker_connection *c)
{
    if (c->want_write) return;
    c->want_write = true;
    framed_watch(p, c);
}

/* The rest of a frame.  False: there is still some. */
static bool framed_write_rest(pump *p, worker_connection *c)
{
    framed_connection *x = c->framed;
    while (x->rest_first < x->rest_size) {
        ssize_t n = send(c->fd, x->rest + x->rest_first, x->rest_size - x->rest_first, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno != EAGAIN) { framed_close(p, c, strerror(errno)); return false; }
        if (n < 0) { framed_blocked(p, c); return false; }
        stats_add(p->stats, N_BYTES_OUT, (uint64_t) n);
        x->moved[FRAMED_OUT] += (uint64_t) n;
        x->rest_first += (size_t) n;
    }
    free(x->rest);
    x->rest = NULL;
    x->rest_first = x->rest_size = 0;
    out_delivery *o = (out_delivery *) pool_find(&p->outs, x->rest_of);
    if (o) framed_sent(p, o);
    return true;
}

/* False: the socket is full, or broken. */
static bool framed_write(pump *p, worker_connection *c, const framed_batch *b)
{
    struct msghdr message = { .msg_iov = (struct iovec *) (uintptr_t) b->piece, .msg_iovlen = b->pieces };
    ssize_t n;
    while ((n = sendmsg(c->fd, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) continue;
    if (n < 0) {
        if (errno == EAGAIN && b->out[0] && pool_handle(&p->outs, b->out[0]) == c->framed->gathered_of)
            framed_keep_rest(p, c, b, 0, 0);
        if (errno == EAGAIN) framed_blocked(p, c);
        else framed_close(p, c, strerror(errno));
        return false;
    }
    stats_add(p->stats, N_BYTES_OUT, (uint64_t) n);
    size_t left = (size_t) n;
    for (uint32_t i = 0; i < b->frames; i++) {
        if (left < b->size[i]) {
            if (left) framed_keep_rest(p, c, b, i, left);
            framed_blocked(p, c);
            return false;
        }
        left -= b->size[i];
        framed_begun(p, c, b, i);
        framed_sent(p, b->out[i]);
    }
    return true;
}

/* A batch of a link's.  False: the connection has to wait, or is broken. */
static bool framed_write_link(pump *p, worker_connection *c, worker_link *k)
{
    framed_batch *b = p->batch;
    b->pieces = b->frames = b->used = 0;
    enum framed_put put = PUT_DONE;
    for (out_delivery *o = k->queue_first, *next; o && put != PUT_FULL && put != PUT_LATER; o = next) {
        next = o->next;
        put = framed_put(p, c, o, b);
    }
    bool alone = b->frames && pool_handle(&p->outs, b->out[0]) == c->framed->gathered_of,
        written = !b->frames || framed_write(p, c, b);
    if (alone) framed_ungather(p, c->framed);                         /* what the kernel has not taken was kept */
    if (!k->queue_first || (put == PUT_LATER && !b->frames)) work_remove(p, k);
    return written;
}

/* Serve the connection's links with work, most urgent first. */
static void framed_serve_links(pump *p, worker_connection *c)
{
    if (c->want_write || (c->framed->rest && !framed_write_rest(p, c))) return;
    for (int turn = 0; c->work_mask && !c->failed; turn++) {
        if (turn == FRAMED_TURNS) { mark_dirty(p, c); return; }
        uint32_t q = 31u - (uint32_t) __builtin_clz(c->work_mask), index = c->work_first[q];
        worker_link *k = (worker_link *) pool_at(&p->links, index);
        if (!k->open) { work_remove(p, k); continue; }
        if (!framed_write_link(p, c, k)) return;
        if (k->on_list == (int) q) {                            /* the other one of this priority is next */
            work_remove(p, k);
            k->queue_priority = (uint8_t) q;
            work_add(p, k);
        }
    }
}

PRIVATE inline void framed_output(pump *p, worker_connection *c)
{
    framed_connection *x = c->framed;
    framed_serve_links(p, c);
    long_give(p, c, FRAMED_OUT, x->gathered_room + (x->rest ? x->rest_size : 0));
}

/* Rejects a message that is being gathered.  False: there is none. */
PRIVATE bool framed_forgo(pump *p, worker_connection *c, const char *why)
{
    framed_connection *x = c->framed;
    if (!x->gathered) return false;
    out_delivery *o = (out_delivery *) pool_find(&p->outs, x->gathered_of);
    framed_ungather(p, x);
    if (o) framed_unfit(p, o, why);
    mark_dirty(p, c);
    return true;
}
