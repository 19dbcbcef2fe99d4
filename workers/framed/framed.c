/* Connections without an engine: a protocol of plain frames on a socket, such as RMR's (rmr.h) or Ockam's (ockam.h).
 *
 *   a connection    connecting (only if we made it) --connected--> its links are attached --the incoming ones are open--> read
 *   a frame         at hand --> message begun, posted --payload--> complete --core settles--> gone
 *
 * What is the same for all of them stands here and in plain_out.h and plain_conn.h: the buffer, back pressure, frames out, links.  What a
 * frame is says the connection's plain_protocol.  Frames are posted unsettled, and the socket is read only while there is credit and there
 * are blocks: nothing is dropped, the sender's socket fills up.  A frame that is not what it says ends its connection.
 */
#ifndef ROUTERD_WORKERS_PLAIN_H
#define ROUTERD_WORKERS_PLAIN_H

#include "workers/amqp/intake.c"
#include "workers/transport/trace.c"

#define PLAIN_BUFFER (64u << 10)       /* bytes read ahead of a connection, if its protocol needs no more of them at once */
#define PLAIN_READ_MIN (16u << 10)     /* room that a read is worth making */
#define PLAIN_BLOCKS 8u                /* large blocks that a frame may need at once: what a buffer holds, and its front */
#define PLAIN_HEAD_MAX 16384u          /* octets of a frame around its payload */

enum plain_step { PLAIN_ON, PLAIN_MORE, PLAIN_WAIT };
enum plain_made { PLAIN_MADE, PLAIN_PIECES, PLAIN_UNFIT };

typedef struct {                       /* a frame in the making: where its payload stands in the message, what goes around that */
    uint32_t head, tail, payload, payload_length;
    const char *why;                   /* the message makes no frame */
} plain_frame;

typedef struct {                       /* a message that a frame is to be made of: the first `size` of its `length` bytes stand at `start` */
    const uint8_t *start;
    size_t size;
    uint64_t length;
    uint8_t *whole;                    /* gathered: the same bytes, which may be moved about; or NULL */
} plain_message;

typedef struct plain_protocol {
    uint8_t number;                    /* whom Python asks: RmrTransport, OckamTransport */
    enum counter frames_in, frames_out, undelivered, unfit;
    const char *unfit_name;            /* of the error that the sender of such a message is told */
    enum plain_step (*next)(pump *p, wconn *c);                 /* takes the frame at the front of the buffer; WAIT: not now */
    /* Finds out what a message is as a frame.  PIECES: gather it and come again, with `whole`. */
    enum plain_made (*make)(pump *p, wconn *c, wout *o, const plain_message *m, plain_frame *f);
    void (*put)(pump *p, wconn *c, wout *o, const plain_frame *f, uint8_t *to);       /* head and tail of what was made last */
} plain_protocol;

typedef struct plain_terms {           /* of a listener, or of the connections that this side makes: a protocol's own begin with it */
    const plain_protocol *speaks;
    uint32_t most;                     /* longest frame */
} plain_terms;

typedef struct plain_conn {
    const plain_protocol *speaks;
    wlink *data, *other;               /* in: to its route table, or NULL; to where each message says */
    wlink *out, *back;                 /* out: to the endpoint that we have connected to, or NULL; to this connection */
    uint32_t number;
    bool connecting, ended, waiting, watched;   /* waiting: what has been read waits for credit, blocks, readers; watched: by epoll */
    bool greeted;                      /* what the peer says once has come */
    const char *why;                   /* it is closed; NULL: the peer has */
    uint8_t *in;                       /* bytes read: [first, end) */
    uint32_t first, end, room;
    uint64_t left, skip;               /* of the frame being received: payload still to come; bytes still to pass over */
    wlink *into;                       /* whose `current` that frame is */
    uint8_t *rest;                     /* what the socket had no room for of a frame: [rest_first, rest_size) */
    size_t rest_first, rest_size;
    uint64_t rest_of;                  /* handle of the delivery; gone: nobody asks any more */
    uint64_t gathered_of;              /* the same of the message that is being gathered; 0: none */
    uint8_t *gathered;
    uint64_t gathered_size;
    struct rmr_sid *sids;
    uint32_t sids_kept;
    uint8_t *name;                     /* its address in routes, for whom it has one (ockam.h) */
    uint16_t name_length;
    uint8_t name_type;
} plain_conn;

static inline const plain_terms *plain_terms_of(const pump *p, const wconn *c) { return p->listeners[c->listener].plain; }

/* ---- the socket ---- */

static inline void plain_watch(pump *p, wconn *c)
{
    plain_conn *x = c->plain;
    struct epoll_event e = { .events = (c->reading ? EPOLLIN : 0u) | (c->want_write ? EPOLLOUT : 0u), .data.u64 = epoll_name(EPOLL_CONNECTION, pool_handle(&p->conns, c)) };
    bool wanted = e.events != 0;       /* epoll would go on telling of a peer that is gone, whose frames still have to wait */
    if (wanted || x->watched) epoll_ctl(p->epoll_fd, !wanted ? EPOLL_CTL_DEL : x->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &e);
    x->watched = wanted;
}

static inline void plain_read_on(pump *p, wconn *c, bool reading)
{
    if (c->reading == reading) return;
    c->reading = reading;
    plain_watch(p, c);
}

static inline void plain_close(pump *p, wconn *c, const char *why)
{
    if (!c->failed) c->plain->why = why;
    c->failed = true;
    mark_dirty(p, c);
}

static inline void plain_malformed(pump *p, wconn *c, enum counter counter, const char *why)
{
    stats_add(p->stats, counter, 1);
    plain_close(p, c, why);
}

/* ---- what the core hears of a frame ---- */

static inline win *plain_win(pump *p, wlink *k)
{
    win *s = (win *) pool_take(&p->ins);
    if (!s) return NULL;
    s->writer.head = ROUTERD_NIL;
    win_link(k, s);
    p->unsettled++;
    return s;
}

/* May a frame be taken on this link now?  If not, something will wake its connection up. */
static inline bool plain_may(pump *p, wlink *k)
{
    if (k->held || k->stalled || k->credit <= 0 || p->withhold) return false;
    if (!p->resting && blocks_left(p) && p->arena.free_count[1] >= PLAIN_BLOCKS && !over_share(p, k)) return true;
    intake_stall(p, k);
    return false;
}

/* All of the frame's payload is there, or passed over. */
static inline void plain_finish(pump *p, wconn *c, win *s)
{
    wlink *k = c->plain->into;
    c->plain->into = NULL;
    if (s->refund) k->credit++;
    if (!s->discard) {
        chain_publish(&p->arena, &s->writer, CONTENT_COMPLETE);
        post_continue(p, s, F_COMPLETE);
    }
    s->complete = true;
    k->current = NULL;
    k->held = false;
    if (s->discard || s->settled) win_free(p, s);
}

/* Where the next bytes of the payload go; NULL: nowhere now. */
static inline uint8_t *plain_room(pump *p, wconn *c, uint32_t *room)
{
    wlink *k = c->plain->into;
    win *s = k->current;
    const uint32_t before[2] = { p->arena.free_count[0], p->arena.free_count[1] };
    if (s->writer.written - s->read_to >= HOLD_HIGH) { k->held = true; return NULL; }
    uint8_t *to = blocks_left(p) ? chain_room(&p->arena, &s->writer, ARENA_LARGE, room) : NULL;
    if (!to) intake_stall(p, k);
    kept_change(p, k, before);
    return to;
}

/* So many bytes of the payload have been written there. */
static inline void plain_wrote(pump *p, wconn *c, uint32_t size)
{
    plain_conn *x = c->plain;
    win *s = x->into->current;
    chain_wrote(&s->writer, size);
    x->left -= size;
    if (!x->left) { plain_finish(p, c, s); return; }
    chain_publish(&p->arena, &s->writer, CONTENT_RECEIVING);
    intake_grown(p, s);
}

/* The payload of the frame being received, from the buffer. */
static inline enum plain_step plain_fill(pump *p, wconn *c)
{
    plain_conn *x = c->plain;
    if (x->into->current->discard) {
        x->skip += x->left;
        x->left = 0;
        plain_finish(p, c, x->into->current);
        return PLAIN_ON;
    }
    while (x->left && x->first < x->end) {
        uint32_t room, size = x->end - x->first;
        uint8_t *to = x->into->held || x->into->stalled ? NULL : plain_room(p, c, &room);
        if (!to) return PLAIN_WAIT;
        if (size > room) size = room;
        if (size > x->left) size = (uint32_t) x->left;
        memcpy(to, x->in + x->first, size);
        x->first += size;
        plain_wrote(p, c, size);
    }
    return x->left ? PLAIN_MORE : PLAIN_ON;
}

/* Whatever the buffer holds, as far as it goes. */
static inline enum plain_step plain_take(pump *p, wconn *c)
{
    plain_conn *x = c->plain;
    for (;;) {
        enum plain_step step = PLAIN_ON;
        if (c->failed) return PLAIN_WAIT;
        if (x->left) step = plain_fill(p, c);
        else if (x->skip) {
            uint32_t size = x->end - x->first;
            if (size > x->skip) size = (uint32_t) x->skip;
            x->first += size;
            x->skip -= size;
            if (x->skip) step = PLAIN_MORE;
        } else step = x->speaks->next(p, c);
        if (step != PLAIN_ON) return step;
    }
}

/* Take what can be taken, and read on or not. */
static inline void plain_input(pump *p, wconn *c)
{
    plain_conn *x = c->plain;
    if (!x->other || !x->other->open || (x->data && !x->data->open) || c->failed) return;
    x->waiting = plain_take(p, c) == PLAIN_WAIT;
    if (x->ended && !x->waiting) plain_close(p, c, x->left || x->skip || x->first != x->end ? "it ended inside a frame" : NULL);
    else plain_read_on(p, c, !x->waiting && !x->ended);
}

/* All of the buffer was taken; one that had to grow for a long frame is small again. */
static inline void plain_buffer_empty(plain_conn *x)
{
    x->first = x->end = 0;
    uint8_t *in = x->room > PLAIN_BUFFER ? (uint8_t *) realloc(x->in, PLAIN_BUFFER) : NULL;
    if (!in) return;
    x->in = in;
    x->room = PLAIN_BUFFER;
}

/* Read once; true if there may be more. */
static inline bool plain_read(pump *p, wconn *c)
{
    plain_conn *x = c->plain;
    uint32_t room = 0;
    uint8_t *to = NULL;
    bool direct = x->left && x->first == x->end && !x->into->current->discard && !x->into->held && !x->into->stalled;
    if (direct && !(to = plain_room(p, c, &room))) { x->waiting = true; plain_read_on(p, c, false); return false; }
    if (direct && room > x->left) room = (uint32_t) x->left;
    if (!direct) {
        if (x->first == x->end) plain_buffer_empty(x);
        else if (x->room - x->end < PLAIN_READ_MIN) {
            memmove(x->in, x->in + x->first, x->end - x->first);
            x->end -= x->first;
            x->first = 0;
        }
        to = x->in + x->end;
        room = x->room - x->end;
    }
    ssize_t n = read(c->fd, to, room);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) plain_close(p, c, strerror(errno));
        return false;
    }
    if (n == 0) x->ended = true;
    else if (direct) plain_wrote(p, c, (uint32_t) n);
    else x->end += (uint32_t) n;
    stats_add(p->stats, N_BYTES_IN, (uint64_t) n);
    plain_input(p, c);
    return (uint32_t) n == room && c->reading;
}

#endif
