/* The board: a MessagePack page that the core replaces as a whole from time to time (shm/statistics/board.py).
 *
 * It is a sequence lock: one writer, any number of readers that never delay it.
 *
 *   version even: the bytes are whole; odd: they are being replaced, or the writer died while it did so
 *   even --board_write begins--> odd --board_write ends--> even + 2
 *
 * A writer that finds it odd succeeds a dead one and continues from there.  Prohibited: two writers; using bytes read
 * while the version was odd or changed: board_read then returns 0, and the reader retries later.
 */
#ifndef ROUTERD_SHM_BOARD_H
#define ROUTERD_SHM_BOARD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BOARD_BYTES 65536u

typedef struct {
    _Alignas(64) _Atomic uint32_t version;
    _Atomic uint32_t length;
    _Alignas(64) _Atomic uint64_t word[];
} shared_board;

#define BOARD_ROOM (BOARD_BYTES - (uint32_t) sizeof(shared_board))

/* At most BOARD_ROOM bytes. */
static inline void board_write(shared_board *b, const uint8_t *bytes, uint32_t length)
{
    uint32_t version = atomic_load_explicit(&b->version, memory_order_relaxed) | 1u;
    atomic_store_explicit(&b->version, version, memory_order_relaxed);
    /* partner: the acquire fence in board_read; a reader that sees a word below also sees the odd version */
    atomic_thread_fence(memory_order_release);
    for (uint32_t at = 0; at < length; at += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + at, length - at < 8 ? length - at : 8);
        atomic_store_explicit(&b->word[at / 8], word, memory_order_relaxed);
    }
    atomic_store_explicit(&b->length, length, memory_order_relaxed);
    /* partner: the first, acquiring load in board_read */
    atomic_store_explicit(&b->version, version + 1, memory_order_release);
}

/* Copies the content into BOARD_ROOM bytes and returns its length; 0: nothing, or nothing whole. */
static inline uint32_t board_read(const shared_board *b, uint8_t *bytes)
{
    /* partner: the last, releasing store in board_write */
    uint32_t version = atomic_load_explicit(&b->version, memory_order_acquire);
    uint32_t length = atomic_load_explicit(&b->length, memory_order_relaxed);
    if ((version & 1u) || length > BOARD_ROOM) return 0;
    for (uint32_t at = 0; at < length; at += 8) {
        uint64_t word = atomic_load_explicit(&b->word[at / 8], memory_order_relaxed);
        memcpy(bytes + at, &word, length - at < 8 ? length - at : 8);
    }
    /* partner: the release fence in board_write */
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&b->version, memory_order_relaxed) == version ? length : 0;
}

#endif
