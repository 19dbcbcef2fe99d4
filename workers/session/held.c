/* Octets that wait: of TRANSFERs that nobody takes now, or of deliveries whose receiver has shut its window.
 *
 * They stand in pieces, which go back to memory as they are taken: what waits is all that a long message costs, and it
 * does not move.  Pieces of some length stay in the buffer in which they were read.  Its last piece frees it; the next
 * read has another buffer.
 */
#include <stdlib.h>
#include <string.h>

#include "workers/session/session.h"

enum {                                 /* octets */
    HELD_PIECE = 65536,            /* of the larger pieces; the first ones have what they must */
    HELD_THERE = 4096              /* that stay in their buffer; of fewer, little would keep much of it */
};

struct held_piece {
    held_piece *next;
    uint32_t size, room, frames;
    read_buffer *buffer;           /* where its octets are; NULL: here */
    const uint8_t *there;
    uint8_t here[];
};

static const uint8_t *piece_octets(const held_piece *piece) { return piece->buffer ? piece->there : piece->here; }

static void piece_free(held_piece *piece)
{
    if (piece->buffer) read_buffer_left(piece->buffer);
    free(piece);
}

static held_piece *piece_add(held_octets *h, size_t room)
{
    held_piece *piece = (held_piece *) memory_for(NULL, sizeof *piece + room);
    *piece = (held_piece) { .room = (uint32_t) room };
    if (h->last) h->last->next = piece;
    else h->first = piece;
    h->last = piece;
    return piece;
}

/* Keeps octets of a buffer, or of none that stays; `frames` of them count until the last of the octets is taken. */
PRIVATE void held_add(held_octets *h, const uint8_t *octets, size_t size, uint32_t frames, read_buffer *buffer)
{
    held_piece *last = h->last;
    if (buffer && size >= HELD_THERE) {
        last = piece_add(h, 0);
        last->buffer = buffer;
        last->there = octets;
        buffer->pieces++;
    } else {
        if (!last || last->room - last->size < size || last->buffer) {
            size_t room = !last ? 0 : last->room < HELD_PIECE / 2 ? 2 * last->room : HELD_PIECE;
            last = piece_add(h, room < size ? size : room);
        }
        memcpy(last->here + last->size, octets, size);
    }
    last->size += (uint32_t) size;
    last->frames += frames;
    h->size += size;
}

/* The first octets that wait, and how many stand together.  NULL: none. */
PRIVATE const uint8_t *held_front(const held_octets *h, size_t *size)
{
    if (!h->size) return NULL;
    *size = h->first->size - h->at;
    return piece_octets(h->first) + h->at;
}

/* Forgets so many of them, at most those that stand together; returns the frames that are counted no more. */
PRIVATE uint32_t held_take(held_octets *h, size_t size)
{
    held_piece *first = h->first;
    h->at += (uint32_t) size;
    h->size -= size;
    if (h->at < first->size) return 0;
    uint32_t frames = first->frames;
    h->first = first->next;
    h->at = 0;
    if (!h->first) h->last = NULL;
    piece_free(first);
    return frames;
}

/* Forgets all of them; returns the frames. */
PRIVATE uint32_t held_forget(held_octets *h)
{
    uint32_t frames = 0;
    for (held_piece *piece = h->first, *next; piece; piece = next) {
        next = piece->next;
        frames += piece->frames;
        piece_free(piece);
    }
    *h = (held_octets) { 0 };
    return frames;
}
