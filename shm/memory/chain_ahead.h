/* Room behind a chain's end that is filled before it is known how much there will be: by a read of a socket.
 *
 *   chain_ahead_begin   the free rest of the last block
 *   chain_ahead_room    pieces of it, then of new blocks, which no reader finds yet
 *   chain_ahead_end     blocks with octets join the chain, the others are free again
 *
 * Prohibited: writing to the chain in another way, or freeing it, between the first and the last.
 */
#ifndef ROUTERD_SHM_CHAIN_AHEAD_H
#define ROUTERD_SHM_CHAIN_AHEAD_H

#include "shm/memory/arena.h"

#define CHAIN_AHEAD 16u        /* blocks at once, at most */

typedef struct {
    uint32_t blocks[CHAIN_AHEAD], count;
    uint8_t *at;
    uint32_t room;
} chain_ahead;

static inline void chain_ahead_begin(arena_owner *o, const arena_writer *w, chain_ahead *a)
{
    bool head = w->tail == w->head;
    a->count = 0;
    a->room = arena_capacity(&o->view, w->tail, head) - w->tail_used;
    a->at = arena_at(&o->view, w->tail)->data + (head ? ARENA_HEAD_BYTES : 0) + w->tail_used;
}

/* The place of the next octets, at most so many.  There are as many free large blocks as that takes. */
static inline uint8_t *chain_ahead_room(arena_owner *o, chain_ahead *a, size_t most, uint32_t *size)
{
    if (!a->room) {
        uint32_t index = arena_alloc(o, ARENA_LARGE);
        a->blocks[a->count++] = index;
        a->at = arena_at(&o->view, index)->data;
        a->room = arena_capacity(&o->view, index, false);
    }
    uint8_t *at = a->at;
    *size = most < a->room ? (uint32_t) most : a->room;
    a->at += *size;
    a->room -= *size;
    return at;
}

/* So many octets have been written there: their blocks join the chain, the others are free again. */
static inline void chain_ahead_end(arena_owner *o, arena_writer *w, chain_ahead *a, size_t bytes)
{
    uint32_t linked = 0;
    while (bytes) {
        uint32_t room = arena_capacity(&o->view, w->tail, w->tail == w->head) - w->tail_used;
        uint32_t n = bytes < room ? (uint32_t) bytes : room;
        if (!room) {
            /* partner: the acquire load in chain_read */
            atomic_store_explicit(&arena_at(&o->view, w->tail)->next, a->blocks[linked], memory_order_release);
            w->tail = a->blocks[linked++];
            w->tail_used = 0;
        }
        chain_wrote(w, n);
        bytes -= n;
    }
    while (a->count > linked) arena_free_one(o, a->blocks[--a->count]);
}

#endif
