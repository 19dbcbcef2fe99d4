/* Octets of blocks between those of a connection's output, which the socket takes from where they are.
 *
 *   egress_turn        lends octets, and posts what it has sent for the core
 *   conn_write         the socket takes some; the others are copied
 *   publish_actions    the core hears of it: from here on a block may be used again
 *
 * Prohibited: to publish an action while octets are lent.
 */
#include <string.h>

#include "workers/session/session.h"
#include "workers/transport/transport.h"

/* Lends octets to the end of the output, which has fewer than LENT_MOST pieces. */
PRIVATE inline void lane_lend(lane_connection *l, const uint8_t *octets, size_t size)
{
    if (__builtin_expect(!l->p->lent, 0)) l->p->lent = (lane_lent *) memory_for(NULL, LENT_MOST * sizeof *l->p->lent);
    l->p->lent[l->lent_count++] = (lane_lent) { l->out_end, size, octets };
    l->lent_size += size;
}

/* The first octets of the output have been written and forgotten. */
PRIVATE void lent_move(lane_connection *l, size_t size)
{
    for (uint32_t i = 0; i < l->lent_count; i++) l->p->lent[i].at -= size;
}

/* The output, in pieces; how many. */
PRIVATE inline int lane_pieces(lane_connection *l, struct iovec *to)
{
    int n = 0;
    size_t at = l->out_at;
    for (uint32_t i = 0; i < l->lent_count; i++) {
        const lane_lent *lent = &l->p->lent[i];
        if (lent->at > at) to[n++] = (struct iovec) { l->out + at, lent->at - at };
        to[n++] = (struct iovec) { (void *) (uintptr_t) lent->octets, lent->size };
        at = lent->at;
    }
    if (l->out_end > at) to[n++] = (struct iovec) { l->out + at, l->out_end - at };
    return n;
}

/* The socket has taken so many octets of the output. */
PRIVATE inline void lane_sent(lane_connection *l, size_t size)
{
    uint32_t gone = 0;
    l->active = true;
    l->said_ms = l->p->now_ms;
    for (; gone < l->lent_count; gone++) {
        lane_lent *lent = &l->p->lent[gone];
        size_t before = lent->at - l->out_at;
        if (size < before) break;
        size -= before;
        l->out_at = lent->at;
        size_t n = size < lent->size ? size : lent->size;
        lent->octets += n;
        lent->size -= n;
        l->lent_size -= n;
        size -= n;
        if (lent->size) break;
    }
    l->out_at += size;
    l->lent_count -= gone;
    if (__builtin_expect(l->choked, 0)) turn_unchoke(l);
    if (gone && l->lent_count) memmove(l->p->lent, l->p->lent + gone, l->lent_count * sizeof *l->p->lent);
}

/* Copies what is still lent: its blocks may be used again from now on. */
PRIVATE inline void lane_own(lane_connection *l)
{
    if (__builtin_expect(!l->lent_count, 1)) return;
    size_t moved = l->lent_size;
    out_grow(l, moved);
    size_t end = l->out_end;
    l->out_end += moved;
    for (uint32_t i = l->lent_count; i-- > 0;) {               /* from the last on: nothing is overwritten */
        const lane_lent *lent = &l->p->lent[i];
        memmove(l->out + lent->at + moved, l->out + lent->at, end - lent->at);
        end = lent->at;
        moved -= lent->size;
        memcpy(l->out + end + moved, lent->octets, lent->size);
    }
    l->lent_count = 0;
    l->lent_size = 0;
    l->traced = l->out_end;
}
