/* Connections of RMR applications: frames from their sockets into blocks, and posted to the core (facts rmr 1, 11).
 *
 *   a connection    connecting (only if we made it) --connected--> its links are attached --both incoming ones are open--> read
 *   a frame         head at hand --> message begun, posted --payload--> complete --core settles--> gone
 *
 * It has two incoming links, which take turns by frame: `data` to its route table, by key, and `other`, where each message says where it goes:
 * replies, and what is about tables.  Frames are posted unsettled, and the socket is read only while there is credit and there are blocks: nothing
 * is dropped, the sender's socket fills up.  A frame that is not what it says ends its connection.
 */
#ifndef ROUTERD_WORKERS_RMR_H
#define ROUTERD_WORKERS_RMR_H

#include "intake.h"
#include "rmr_amqp.h"

#define RMR_BUFFER (64u << 10)         /* bytes read ahead of a connection */
#define RMR_READ_MIN (16u << 10)       /* room that a read is worth making */
#define RMR_BLOCKS 8u                  /* large blocks that a frame may need at once: what a buffer holds, and its front */
#define RMR_SIDS 1024u                 /* of a connection's senders, that are kept until the reply comes */
#define RMR_NUMBER 10u                 /* digits of a connection's number */

enum rmr_reply { REPLY_TRANSPARENT, REPLY_PROXIED, REPLY_SAME };

typedef struct rmr_terms {             /* of a listener, or of the connections that are made for a route table */
    char address[RMR_ADDRESS_MAX];     /* of the table */
    char control[RMR_ADDRESS_MAX];     /* what is about tables goes there */
    char back[RMR_ADDRESS_MAX];        /* addresses of connections: this, and their number */
    uint32_t address_length, control_length, back_length;
    char source[RMR_SOURCE_BYTES];     /* what replies are sent to */
    uint64_t nonce;
    uint32_t most;                     /* longest frame */
    uint8_t reply;                     /* enum rmr_reply */
    bool replies;                      /* a frame with a token that comes here is a reply, and never on its way by the table */
} rmr_terms;

typedef struct { uint32_t number; uint8_t sid[RMR_SID_BYTES]; } rmr_sid;

typedef struct rmr_conn {
    wlink *data, *other;               /* in */
    wlink *out, *back;                 /* out: to the endpoint that we have connected to, or NULL; to this connection */
    uint32_t number;
    bool connecting, ended, waiting, watched;   /* waiting: what has been read waits for credit, blocks, readers; watched: by epoll */
    const char *why;                   /* it is closed; NULL: the peer has */
    uint8_t *in;                       /* bytes read: [first, end) */
    uint32_t first, end;
    uint64_t left, skip;               /* of the frame being received: payload still to come; bytes still to pass over */
    wlink *into;                       /* whose `current` that frame is */
    uint8_t *rest;                     /* what the socket had no room for of a frame: [rest_first, rest_size) */
    size_t rest_first, rest_size;
    uint64_t rest_of;                  /* handle of the delivery; gone: nobody asks any more */
    uint64_t gathered_of;              /* the same of the message that is being gathered; 0: none */
    uint8_t *gathered;
    uint64_t gathered_size;
    rmr_sid *sids;
    uint32_t sids_kept;
} rmr_conn;

static inline const rmr_terms *rmr_terms_of(const pump *p, const wconn *c) { return p->listeners[c->listener].rmr; }

/* ---- the socket ---- */

static inline void rmr_watch(pump *p, wconn *c)
{
    rmr_conn *x = c->rmr;
    struct epoll_event e = { .events = (c->reading ? EPOLLIN : 0u) | (c->want_write ? EPOLLOUT : 0u), .data.u64 = epoll_name(EPOLL_CONNECTION, pool_handle(&p->conns, c)) };
    bool wanted = e.events != 0;       /* epoll would go on telling of a peer that is gone, whose frames still have to wait */
    if (wanted || x->watched) epoll_ctl(p->epoll_fd, !wanted ? EPOLL_CTL_DEL : x->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &e);
    x->watched = wanted;
}

static inline void rmr_read_on(pump *p, wconn *c, bool reading)
{
    if (c->reading == reading) return;
    c->reading = reading;
    rmr_watch(p, c);
}

static inline void rmr_close(pump *p, wconn *c, const char *why)
{
    if (!c->failed) c->rmr->why = why;
    c->failed = true;
    mark_dirty(p, c);
}

static inline void rmr_malformed(pump *p, wconn *c, enum counter counter, const char *why)
{
    stats_add(p->stats, counter, 1);
    rmr_close(p, c, why);
}

/* ---- what the core hears of a frame ---- */

static inline win *rmr_win(pump *p, wlink *k)
{
    win *s = (win *) pool_take(&p->ins);
    if (!s) return NULL;
    s->writer.head = ROUTERD_NIL;
    win_link(k, s);
    p->unsettled++;
    return s;
}

/* Where a reply goes that has this token. */
static inline rmr_address rmr_back_address(const rmr_terms *t, const rmr_token *token, char *room)
{
    if (token->kind == TOKEN_CONNECTION) return (rmr_address) { room, (uint32_t) snprintf(room, RMR_ADDRESS_MAX, "%s%u", t->back, token->number) };
    return (rmr_address) { room, (uint32_t) snprintf(room, RMR_ADDRESS_MAX, "%s/%.*s", t->address, (int) token->length, (const char *) token->text) };
}

/* So that its reply comes here, or back on the connection that it goes out on: our source, a token for what the sender had in its sid. */
static inline void rmr_sign(const rmr_terms *t, rmr_conn *x, uint8_t *header)
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

/* What a reply's sid was before it was signed. */
static inline void rmr_unsign(const rmr_terms *t, const rmr_conn *x, uint8_t *header)
{
    rmr_token token = rmr_token_read(header + RMR_SID, t->nonce);
    if (token.kind != TOKEN_CONNECTION || token.number != x->number) return;
    const rmr_sid *place = x->sids && token.saved ? &x->sids[token.saved % RMR_SIDS] : NULL;
    if (place && place->number == token.saved) memcpy(header + RMR_SID, place->sid, RMR_SID_BYTES);
    else memset(header + RMR_SID, 0, RMR_SID_BYTES);
}

static inline void rmr_describe(arena_content *c, const scan_found *found, uint64_t now)
{
    content_describe(c, found, now);
    c->user_from = found->message_annotations + 12;
    c->user_to = found->annotations_end;
    c->user_count = 2;
}

/* May a frame be taken on this link now?  If not, something will wake its connection up. */
static inline bool rmr_may(pump *p, wlink *k)
{
    if (k->held || k->stalled || k->credit <= 0 || p->withhold) return false;
    if (!p->resting && blocks_left(p) && p->arena.free_count[1] >= RMR_BLOCKS && !over_share(p, k)) return true;
    intake_stall(p, k);
    return false;
}

enum rmr_step { RMR_ON, RMR_MORE, RMR_WAIT };

/* A frame whose head and `here` bytes of payload are at hand.  WAIT: not now. */
static inline enum rmr_step rmr_begin(pump *p, wconn *c, uint8_t *header, const rmr_parts *parts, uint32_t here)
{
    static uint8_t front[RMR_FRONT_MAX];
    char to[RMR_ADDRESS_MAX], back[RMR_ADDRESS_MAX];
    uint8_t source[RMR_SOURCE_BYTES];
    rmr_conn *x = c->rmr;
    const rmr_terms *t = rmr_terms_of(p, c);
    bool control = rmr_control(parts->mt);
    rmr_token token = rmr_token_read(header + RMR_SID, t->nonce);
    bool reply = !control && token.kind && (t->replies || rmr_answers_call(header));
    wlink *k = control || reply ? x->other : x->data;
    win *s;
    if (!rmr_may(p, k)) return RMR_WAIT;
    if (!(s = rmr_win(p, k))) { intake_stall(p, k); return RMR_WAIT; }
    const rmr_token itself = { .kind = TOKEN_CONNECTION, .number = x->number };
    rmr_wanted want = { .reply_to = rmr_back_address(t, &itself, back) };
    if (control) want.conn = want.reply_to;
    if (control) want.to = (rmr_address) { t->control, t->control_length };
    else if (reply) want.to = rmr_back_address(t, &token, to);
    memcpy(source, header + RMR_SOURCE, RMR_SOURCE_BYTES);
    if (reply && token.kind == TOKEN_ENDPOINT) memset(header + RMR_SID, 0, RMR_SID_BYTES);
    else if (!reply && !control) rmr_sign(t, x, header);
    scan_found found;
    rmr_key key;
    const uint32_t before[2] = { p->arena.free_count[0], p->arena.free_count[1] };
    uint32_t length = rmr_compose(front, header, parts, source, &want, &found, &key);
    chain_begin(&p->arena, &s->writer, ARENA_LARGE);
    note_link(p, k, s->writer.head);
    chain_write(&p->arena, &s->writer, ARENA_LARGE, front, length);
    chain_write(&p->arena, &s->writer, ARENA_LARGE, header + parts->head, here);
    kept_change(p, k, before);
    rmr_describe(arena_content_of(&p->arena.view, s->writer.head), &found, p->now_ns);
    s->posted = true;
    s->complete = s->whole = here == parts->payload;
    chain_publish(&p->arena, &s->writer, s->complete ? CONTENT_COMPLETE : CONTENT_RECEIVING);
    routerd_record *r = post_deliver(p, k, s->writer.head, pool_handle(&p->ins, s), 4, s->writer.written, s->complete ? F_COMPLETE : 0);
    if (k->keyed) rmr_key_post(&key, r);
    k->credit--;
    stats_add(p->stats, N_RMR_FRAMES_IN, 1);
    x->left = parts->payload - here;
    if (!x->left) return RMR_ON;
    x->into = k;
    k->current = s;
    return RMR_ON;
}

/* All of the frame's payload is there, or passed over. */
static inline void rmr_finish(pump *p, wconn *c, win *s)
{
    wlink *k = c->rmr->into;
    c->rmr->into = NULL;
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
static inline uint8_t *rmr_room(pump *p, wconn *c, uint32_t *room)
{
    wlink *k = c->rmr->into;
    win *s = k->current;
    const uint32_t before[2] = { p->arena.free_count[0], p->arena.free_count[1] };
    if (s->writer.written - s->read_to >= HOLD_HIGH) { k->held = true; return NULL; }
    uint8_t *to = blocks_left(p) ? chain_room(&p->arena, &s->writer, ARENA_LARGE, room) : NULL;
    if (!to) intake_stall(p, k);
    kept_change(p, k, before);
    return to;
}

/* So many bytes of the payload have been written there. */
static inline void rmr_wrote(pump *p, wconn *c, uint32_t size)
{
    rmr_conn *x = c->rmr;
    win *s = x->into->current;
    chain_wrote(&s->writer, size);
    x->left -= size;
    if (!x->left) { rmr_finish(p, c, s); return; }
    chain_publish(&p->arena, &s->writer, CONTENT_RECEIVING);
    intake_grown(p, s);
}

/* The payload of the frame being received, from the buffer. */
static inline enum rmr_step rmr_fill(pump *p, wconn *c)
{
    rmr_conn *x = c->rmr;
    if (x->into->current->discard) {
        x->skip += x->left;
        x->left = 0;
        rmr_finish(p, c, x->into->current);
        return RMR_ON;
    }
    while (x->left && x->first < x->end) {
        uint32_t room, size = x->end - x->first;
        uint8_t *to = x->into->held || x->into->stalled ? NULL : rmr_room(p, c, &room);
        if (!to) return RMR_WAIT;
        if (size > room) size = room;
        if (size > x->left) size = (uint32_t) x->left;
        memcpy(to, x->in + x->first, size);
        x->first += size;
        rmr_wrote(p, c, size);
    }
    return x->left ? RMR_MORE : RMR_ON;
}

/* The frame at the front of the buffer. */
static inline enum rmr_step rmr_frame_next(pump *p, wconn *c)
{
    rmr_conn *x = c->rmr;
    uint8_t *frame = x->in + x->first;
    uint32_t there = x->end - x->first, most = rmr_terms_of(p, c)->most;
    rmr_parts parts;
    if (there < 4) return RMR_MORE;
    uint32_t length = rmr_length(frame);
    if (!rmr_length_good(length, most)) {
        rmr_malformed(p, c, N_RMR_BAD_LENGTH, length > most ? "a frame is longer than maxFrameSize allows" : "a frame is shorter than its header");
        return RMR_WAIT;
    }
    if (there < RMR_TRANSPORT + RMR_HEADER_OLD) return RMR_MORE;
    if (!rmr_measure(frame + RMR_TRANSPORT, length - RMR_TRANSPORT, &parts)) {
        rmr_malformed(p, c, N_RMR_BAD_HEADER, "the parts of a frame are longer than the frame, or its header is of no known length");
        return RMR_WAIT;
    }
    uint32_t head = RMR_TRANSPORT + parts.head, behind = length - head - parts.payload;
    if (there < head) return RMR_MORE;
    if (parts.mt >= 0 && parts.mt < RMR_RESERVED && !rmr_control(parts.mt)) {
        stats_add(p->stats, N_RMR_RESERVED, 1);
        x->skip = length;
        if (intake_complains(p, rmr_reserved)) p->on_event(p->self, EV_MESSAGE_REFUSED, c, NULL, (void *) (uintptr_t) rmr_reserved, NULL);
        return RMR_ON;
    }
    uint32_t here = there - head < parts.payload ? there - head : parts.payload;
    enum rmr_step step = rmr_begin(p, c, frame + RMR_TRANSPORT, &parts, here);
    if (step == RMR_WAIT) return RMR_WAIT;
    x->first += head + here;
    x->skip = behind;
    return RMR_ON;
}

/* Whatever the buffer holds, as far as it goes. */
static inline enum rmr_step rmr_take(pump *p, wconn *c)
{
    rmr_conn *x = c->rmr;
    for (;;) {
        enum rmr_step step = RMR_ON;
        if (c->failed) return RMR_WAIT;
        if (x->left) step = rmr_fill(p, c);
        else if (x->skip) {
            uint32_t size = x->end - x->first;
            if (size > x->skip) size = (uint32_t) x->skip;
            x->first += size;
            x->skip -= size;
            if (x->skip) step = RMR_MORE;
        } else step = rmr_frame_next(p, c);
        if (step != RMR_ON) return step;
    }
}

/* Take what can be taken, and read on or not. */
static inline void rmr_input(pump *p, wconn *c)
{
    rmr_conn *x = c->rmr;
    if (!x->data || !x->other || !x->data->open || !x->other->open || c->failed) return;
    x->waiting = rmr_take(p, c) == RMR_WAIT;
    if (x->ended && !x->waiting) rmr_close(p, c, x->left || x->skip || x->first != x->end ? "it ended inside a frame" : NULL);
    else rmr_read_on(p, c, !x->waiting && !x->ended);
}

/* Read once; true if there may be more. */
static inline bool rmr_read(pump *p, wconn *c)
{
    rmr_conn *x = c->rmr;
    uint32_t room = 0;
    uint8_t *to = NULL;
    bool direct = x->left && x->first == x->end && !x->into->current->discard && !x->into->held && !x->into->stalled;
    if (direct && !(to = rmr_room(p, c, &room))) { x->waiting = true; rmr_read_on(p, c, false); return false; }
    if (direct && room > x->left) room = (uint32_t) x->left;
    if (!direct) {
        if (x->first == x->end) x->first = x->end = 0;
        else if (RMR_BUFFER - x->end < RMR_READ_MIN) {
            memmove(x->in, x->in + x->first, x->end - x->first);
            x->end -= x->first;
            x->first = 0;
        }
        to = x->in + x->end;
        room = RMR_BUFFER - x->end;
    }
    ssize_t n = read(c->fd, to, room);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) rmr_close(p, c, strerror(errno));
        return false;
    }
    if (n == 0) x->ended = true;
    else if (direct) rmr_wrote(p, c, (uint32_t) n);
    else x->end += (uint32_t) n;
    stats_add(p->stats, N_BYTES_IN, (uint64_t) n);
    rmr_input(p, c);
    return (uint32_t) n == room && c->reading;
}

#endif
