/* The octets of a long TRANSFER that continues a message: they go straight from the socket into blocks.
 *
 *   whole frames ──the beginning of such a TRANSFER has been read──▶ coming ──its last octet is there──▶ whole frames
 *
 * While one is coming, the socket is read into the free rest of the message's last block and into new ones.  Most
 * senders begin all TRANSFERs of a message but the first and the last with the same octets.  So room for these, and for
 * the same payload again, follows in the same read.  What comes instead of them is put together and read as usual.
 *
 * The frame counts from its beginning.  A delivery that ends meanwhile leaves the octets that are still to come: nobody
 * takes them.
 */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "workers/session/session.h"
#include "workers/transport/transport.h"

enum {
    STRAIGHT_LEAST = 4096,         /* octets of a frame; of shorter ones many come at once */
    PIECES = 40, PIECES_FRAME = 8, /* of a read, and at most of a frame */
    FOLLOWING = 8                  /* frames of a read that begin in it */
};

/* One read: where its octets go, and the beginnings of frames among them. */
typedef struct {
    struct iovec to[PIECES];
    int pieces, frames;
    size_t size;
    chain_ahead ahead;
    uint8_t heads[FOLLOWING][LANE_SHORT_HEAD];
} straight_read;

/* The peer's TRANSFER counts; whether it is the last of its delivery. */
static enum lane_fault coming_counts(worker_session *s, delivery *d, const lane_transfer *t, bool *last)
{
    lane_piece piece;
    enum lane_fault fault = lane_receive(&s->lane, &d->link->lane, t, &piece);
    if (s->lane.tell) session_due(s);
    if (fault) return fault;
    if (piece.settled && d->mapped) { d->mapped = false; lane_map_take(&s->lane.in, d->id); }
    d->settled |= piece.settled;
    *last = piece.last;
    return LANE_FINE;
}

/* So many octets of the TRANSFER have come. */
static void coming_passes(lane_connection *l, size_t size)
{
    lane_coming *coming = &l->coming;
    delivery *d = coming->delivery;
    coming->left -= (uint32_t) size;
    if (coming->left || !d) return;
    d->partial = !coming->last;
    if (coming->last) d->link->arriving = NULL;
}

/* Takes the beginning of a frame of which not all has come.  False: it comes again, with more. */
PRIVATE bool straight_begin(lane_connection *l, const uint8_t *octets, size_t there)
{
    lane_coming *coming = &l->coming;
    lane_frame f;
    lane_transfer t;
    size_t size = lane_frame_size(octets, there, UINT32_MAX);
    if (size < STRAIGHT_LEAST || size == AMQP_WRONG || size <= there || l->c->tracer) return false;
    uint32_t head = lane_transfer_head(octets, there);
    if (!head || lane_frame_read(octets, size, &f) || lane_transfer_read(&f, &t) || t.state.at || t.aborted)
        return false;
    worker_session *s = session_of(lane_map_get(&l->by_remote, f.channel));
    uint64_t value = s && !s->closed_here ? lane_map_get(&s->handles, t.handle) : 0;
    worker_link *k = HANDLE_LINK(value);
    delivery *d = k ? k->arriving : NULL;
    if (!d || d->aborted || !s->lane.in_window || !intake_straight(l->p, k, d, 1)) return false;
    bool last = false;
    enum lane_fault fault = coming_counts(s, d, &t, &last);
    *coming = (lane_coming) { .delivery = fault ? NULL : d, .left = f.payload_size, .payload = f.payload_size,
                              .last = last };
    if (fault) fault_raise(l, s, k, fault);
    else if (!last && head <= sizeof coming->octets) {
        coming->head = (uint8_t) head;
        memcpy(coming->octets, octets, head);
    }
    (void) straight_take(l, octets + head, there - head);
    return true;
}

/* Takes octets of the TRANSFER that is coming from a buffer; returns how many are its. */
PRIVATE size_t straight_take(lane_connection *l, const uint8_t *octets, size_t size)
{
    delivery *d = l->coming.delivery;
    size_t n = size < l->coming.left ? size : l->coming.left;
    coming_passes(l, n);
    if (d) payload_arrives(l, d, octets, (uint32_t) n, !l->coming.left);
    return n;
}

/* ---- reading ---- */

static void part_add(straight_read *r, uint8_t *at, size_t size)
{
    r->to[r->pieces++] = (struct iovec) { at, size };
    r->size += size;
}

static void pieces_of_blocks(pump *p, straight_read *r, size_t size)
{
    while (size) {
        uint32_t n;
        uint8_t *at = chain_ahead_room(&p->arena, &r->ahead, size, &n);
        part_add(r, at, n);
        size -= n;
    }
}

/* Room for what is left of the frame, and for frames that begin as it has.  The last of these ends an octet early, so
 * that the next read goes on in it. */
static void straight_room(lane_connection *l, straight_read *r, size_t most)
{
    const lane_coming *coming = &l->coming;
    size_t frame = (size_t) coming->head + coming->payload;
    pieces_of_blocks(l->p, r, most < coming->left ? most : coming->left);
    if (most < coming->left) return;
    for (size_t size = frame; coming->head && !l->c->tracer && size <= READ_AT_ONCE && coming->left + size <= most
         && r->frames < FOLLOWING && r->pieces + PIECES_FRAME <= PIECES; size += frame) {
        part_add(r, r->heads[r->frames++], coming->head);
        pieces_of_blocks(l->p, r, coming->payload);
    }
    if (!r->frames) { part_add(r, l->p->buffer->octets, READ_AT_ONCE); return; }
    r->to[r->pieces - 1].iov_len--;
    r->size--;
}

/* Puts what was read behind `from` together in a buffer. */
static void straight_gather(const straight_read *r, size_t from, size_t end, uint8_t *to)
{
    size_t at = 0;
    for (int i = 0; i < r->pieces && at < end; at += r->to[i++].iov_len) {
        size_t first = from > at ? from - at : 0, behind = end - at < r->to[i].iov_len ? end - at : r->to[i].iov_len;
        if (first >= behind) continue;
        memmove(to, (const uint8_t *) r->to[i].iov_base + first, behind - first);
        to += behind - first;
    }
}

/* Counts the frames that have begun as expected; returns the octets of the read that are theirs, and in `landed` those
 * that are the message's. */
static size_t straight_count(lane_connection *l, const straight_read *r, size_t got, size_t *landed)
{
    lane_coming *coming = &l->coming;
    delivery *d = coming->delivery;
    worker_session *s = d->link->session;
    size_t n = got < coming->left ? got : coming->left, used = n;
    *landed = n;
    coming_passes(l, n);
    for (int i = 0; i < r->frames && got - used >= coming->head && s->lane.in_window; i++) {
        lane_frame f;
        lane_transfer t;
        bool last;
        if (memcmp(r->heads[i], coming->octets, coming->head)) break;
        (void) lane_frame_read(coming->octets, (size_t) coming->head + coming->payload, &f);
        (void) lane_transfer_read(&f, &t);
        if (coming_counts(s, d, &t, &last)) break;             /* never: it says what the one before it said */
        used += coming->head;
        n = got - used < coming->payload ? got - used : coming->payload;
        used += n;
        *landed += n;
        coming->left = coming->payload;
        coming_passes(l, n);
    }
    return used;
}

/* Reads the socket, of which a TRANSFER is coming; `room`: how much it could have read.  Like read(). */
PRIVATE ssize_t straight_socket(lane_connection *l, int fd, size_t *room)
{
    pump *p = l->p;
    straight_read r;
    delivery *d = l->coming.delivery;
    const uint32_t before[2] = { p->arena.free_count[0], p->arena.free_count[1] };
    size_t most = d ? intake_straight(p, d->link, d, 2 * READ_AT_ONCE) : 0;
    uint8_t *buffer = lane_room(l, room);
    if (!most) {
        ssize_t n = read(fd, buffer, *room);
        if (n > 0) lane_came(l, (size_t) n);
        return n;
    }
    r.pieces = r.frames = 0;
    r.size = 0;
    intake_ahead(p, d, &r.ahead);
    straight_room(l, &r, most);
    *room = r.size;
    ssize_t got = readv(fd, r.to, r.pieces);
    size_t landed = 0, used = got > 0 ? straight_count(l, &r, (size_t) got, &landed) : 0;
    if (got > 0 && used < (size_t) got) straight_gather(&r, used, (size_t) got, buffer);
    intake_landed(p, d, &r.ahead, landed, before);
    if (got <= 0) return got;
    l->heard = l->active = true;
    if (used < (size_t) got) lane_came(l, (size_t) got - used);
    return got;
}
