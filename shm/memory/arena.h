/* Arenas: shared memory in which messages and control payloads are kept as blocks.
 *
 * Each worker and the core own an arena.  Only its owner allocates, writes and frees blocks; other processes read them
 * in place.  The core counts the readers of a chain; the owner frees a chain when the core returns its head.  Layout
 * of a segment:
 *
 *   | header, 4096 bytes | in_use map, one byte per block | small blocks | large blocks |
 *
 * A chain is a head block followed by `next` blocks.  Every block but the last is full, so offsets suffice to find a
 * byte.  The head has the content header: how much is published, whether it is complete or aborted, and where the
 * sections begin (offsets count from the first byte of the message).  A block:
 *
 *   | front, 80 bytes: what few messages have | own header, 16 bytes | data; in a head first what all messages have |
 *
 * Own headers begin cache lines, so a short message without annotations is in the line of its header and those behind.
 *
 *   owner: writes bytes, then links a new block (release), then publishes `length` (release)
 *   reader: loads `length` (acquire), then reads at most that much, bounds-checking every `next`
 *
 * The free lists are the owner's private memory, most recently used first.  After an owner's death, the core marks the
 * blocks still in use in the in_use map, and the next owner starts with the others.
 */
#ifndef ROUTERD_SHM_ARENA_H
#define ROUTERD_SHM_ARENA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shm/memory/content.h"
#include "shm/memory/record.h"

#define ARENA_MAGIC 0x726f7574657264ull
#define ARENA_HEADER_BYTES 4096u
#define ARENA_SMALL_BYTES 512u
#define ARENA_LARGE_BYTES 16384u

enum arena_class { ARENA_SMALL = 0, ARENA_LARGE = 1 };

typedef struct {
    uint64_t magic;
    uint32_t small_count, large_count;
} arena_header;

typedef struct {
    _Atomic uint32_t next;     /* block index, ROUTERD_NIL at the end */
    uint32_t note[2];          /* of a head block, private to the owner: a worker keeps the link that fills it */
    uint32_t format;           /* of a head block: the message-format (AMQP 1.0 part 2.7.5) */
    uint8_t data[];
} arena_block;

_Static_assert(sizeof(arena_content) <= 160, "the content header leaves a small block room for a small message");
_Static_assert(sizeof(arena_content) == CONTENT_FRONT + 64, "what every reader looks at is in one cache line");
_Static_assert(sizeof(arena_block) == offsetof(arena_content, length) - CONTENT_FRONT, "a block's own header has room");

#define ARENA_FRONT 128u       /* bytes between the map and the first own header, which has its front there */
#define ARENA_HEAD_BYTES (sizeof(arena_content) - CONTENT_FRONT - sizeof(arena_block))    /* of a head's data */

#define ARENA_BLOCK_BYTES(large) ((large) ? ARENA_LARGE_BYTES : ARENA_SMALL_BYTES)

typedef struct {               /* any process's view of a mapped arena; counts are private copies */
    uint8_t *base;
    uint32_t small_count, large_count;
    size_t small_offset, large_offset;     /* of the first block's own header */
} arena_view;

typedef struct {               /* the owner's side */
    arena_view view;
    uint32_t *free_list[2];
    uint32_t free_count[2];
    uint8_t *is_free;          /* a byte per block: no block is freed twice */
} arena_owner;

static inline size_t arena_map_bytes(uint64_t blocks) { return (size_t) ((blocks + 4095u) & ~(uint64_t) 4095u); }

static inline size_t arena_bytes(uint32_t small_count, uint32_t large_count)
{
    return ARENA_HEADER_BYTES + arena_map_bytes((uint64_t) small_count + large_count) + ARENA_FRONT
         + (size_t) small_count * ARENA_SMALL_BYTES + (size_t) large_count * ARENA_LARGE_BYTES;
}

static inline void arena_format(void *base, uint32_t small_count, uint32_t large_count)
{
    arena_header *h = (arena_header *) base;
    h->small_count = small_count;
    h->large_count = large_count;
    h->magic = ARENA_MAGIC;
}

/* False if there is no arena of at most `bytes` at base. */
static inline bool arena_attach(arena_view *v, void *base, size_t bytes)
{
    const arena_header *h = (const arena_header *) base;
    if (bytes < ARENA_HEADER_BYTES || h->magic != ARENA_MAGIC) return false;
    v->base = (uint8_t *) base;
    v->small_count = h->small_count;
    v->large_count = h->large_count;
    if ((uint64_t) v->small_count + v->large_count >= ROUTERD_NIL) return false;
    v->small_offset = ARENA_HEADER_BYTES + arena_map_bytes((uint64_t) v->small_count + v->large_count) + ARENA_FRONT;
    v->large_offset = v->small_offset + (size_t) v->small_count * ARENA_SMALL_BYTES;
    return arena_bytes(v->small_count, v->large_count) <= bytes;
}

static inline uint32_t arena_blocks(const arena_view *v) { return v->small_count + v->large_count; }
static inline uint64_t arena_data_bytes(const arena_view *v)
{
    return (uint64_t) v->small_count * ARENA_SMALL_BYTES + (uint64_t) v->large_count * ARENA_LARGE_BYTES;
}
static inline bool arena_is_large(const arena_view *v, uint32_t index) { return index >= v->small_count; }
static inline uint8_t *arena_in_use(const arena_view *v) { return v->base + ARENA_HEADER_BYTES; }

/* NULL for an index that names no block: every index from shared memory has to be checked here. */
static inline arena_block *arena_at(const arena_view *v, uint32_t index)
{
    if (index < v->small_count) return (arena_block *) (v->base + v->small_offset + (size_t) index * ARENA_SMALL_BYTES);
    index -= v->small_count;
    if (index < v->large_count) return (arena_block *) (v->base + v->large_offset + (size_t) index * ARENA_LARGE_BYTES);
    return NULL;
}

/* Bytes that a block holds after its own header; a head block also has the content header. */
static inline uint32_t arena_capacity(const arena_view *v, uint32_t index, bool head)
{
    return ARENA_BLOCK_BYTES(arena_is_large(v, index)) - CONTENT_FRONT - (uint32_t) sizeof(arena_block)
           - (head ? (uint32_t) ARENA_HEAD_BYTES : 0);
}

/* The class of a head block for so many octets of a message. */
static inline enum arena_class arena_class_for(uint64_t size)
{
    return size <= ARENA_SMALL_BYTES - sizeof(arena_content) ? ARENA_SMALL : ARENA_LARGE;
}

static inline arena_content *arena_content_of(const arena_view *v, uint32_t head)
{
    arena_block *b = arena_at(v, head);
    return b ? (arena_content *) ((uint8_t *) b - CONTENT_FRONT) : NULL;
}

/* The head block whose content header this is. */
static inline const arena_block *arena_head_of(const arena_content *c)
{
    return (const arena_block *) ((const uint8_t *) c + CONTENT_FRONT);
}

/* Prefetches the header and the message's beginning of a head block that another process has written. */
static inline void arena_fetch(const arena_view *v, uint32_t head)
{
    const uint8_t *at = (const uint8_t *) arena_at(v, head);
    __builtin_prefetch(at);
    __builtin_prefetch(at + 64);
    __builtin_prefetch(at + 128);
}

/* ---- the owner ---- */

static inline void arena_disown(arena_owner *o)
{
    free(o->free_list[0]);
    free(o->free_list[1]);
    free(o->is_free);
    memset(o, 0, sizeof *o);
}

/* Takes every block without a mark in the in_use map.  False: no memory. */
static inline bool arena_own(arena_owner *o, const arena_view *v)
{
    o->view = *v;
    o->free_count[0] = o->free_count[1] = 0;
    o->free_list[0] = (uint32_t *) malloc(sizeof(uint32_t) * ((size_t) v->small_count + 1));
    o->free_list[1] = (uint32_t *) malloc(sizeof(uint32_t) * ((size_t) v->large_count + 1));
    o->is_free = (uint8_t *) calloc((size_t) arena_blocks(v) + 1, 1);
    if (!o->free_list[0] || !o->free_list[1] || !o->is_free) {
        arena_disown(o);
        return false;
    }
    const uint8_t *used = arena_in_use(v);
    for (uint32_t i = arena_blocks(v); i-- > 0;) {          /* downwards: low blocks are handed out first */
        int large = arena_is_large(v, i);
        if (used[i]) continue;
        o->is_free[i] = 1;
        o->free_list[large][o->free_count[large]++] = i;
    }
    return true;
}

/* A block of the wanted class, or of the other class if that is used up, or ROUTERD_NIL. */
static inline uint32_t arena_alloc(arena_owner *o, enum arena_class want)
{
    int c = o->free_count[want] ? (int) want : !want;
    if (!o->free_count[c]) return ROUTERD_NIL;
    uint32_t index = o->free_list[c][--o->free_count[c]];
    o->is_free[index] = 0;
    atomic_store_explicit(&arena_at(&o->view, index)->next, ROUTERD_NIL, memory_order_relaxed);
    return index;
}

/* False: there is no such block, or it is free already. */
static inline bool arena_free_one(arena_owner *o, uint32_t index)
{
    if (index >= arena_blocks(&o->view) || o->is_free[index]) return false;
    int c = arena_is_large(&o->view, index);
    o->is_free[index] = 1;
    o->free_list[c][o->free_count[c]++] = index;
    return true;
}

/* A head block with an empty content header. */
static inline uint32_t arena_alloc_head(arena_owner *o, enum arena_class want)
{
    uint32_t index = arena_alloc(o, want);
    arena_content *c = arena_content_of(&o->view, index);
    if (!c) return ROUTERD_NIL;                             /* none left */
    arena_at(&o->view, index)->note[0] = ROUTERD_NIL;
    arena_at(&o->view, index)->format = 0;
    atomic_store_explicit(&c->length, 0, memory_order_relaxed);
    atomic_store_explicit(&c->state, CONTENT_RECEIVING, memory_order_relaxed);
    content_reset(c);
    return index;
}

/* Frees a chain and its key block; returns the number of freed blocks (0: no such block, or free already).
 * It terminates on any chain: no block is freed twice, so it stops at the start of a cycle. */
static inline uint32_t arena_free_chain(arena_owner *o, uint32_t head)
{
    if (head >= arena_blocks(&o->view) || o->is_free[head]) return 0;   /* its header is not valid */
    uint32_t freed = arena_free_one(o, arena_content_of(&o->view, head)->key_block);
    for (uint32_t index = head; index < arena_blocks(&o->view);) {
        uint32_t next = atomic_load_explicit(&arena_at(&o->view, index)->next, memory_order_relaxed);
        if (!arena_free_one(o, index)) break;
        freed++;
        index = next;
    }
    return freed;
}

/* ---- writing a chain (owner) ---- */

typedef struct {
    uint32_t head, tail;       /* first and last block */
    uint32_t tail_used;        /* bytes written in the last block */
    uint64_t written;          /* total bytes written; published by chain_publish */
    uint64_t trimmed;          /* bytes of the freed blocks after the head, see chain_trim */
} arena_writer;

static inline bool chain_begin(arena_owner *o, arena_writer *w, enum arena_class want)
{
    w->head = w->tail = arena_alloc_head(o, want);
    w->tail_used = 0;
    w->written = w->trimmed = 0;
    return w->head != ROUTERD_NIL;
}

/* The place of the next bytes and its size; adds a block when the last one is full.  NULL: no block is left. */
static inline uint8_t *chain_room(arena_owner *o, arena_writer *w, enum arena_class want, uint32_t *room)
{
    bool head = w->tail == w->head;
    uint32_t capacity = arena_capacity(&o->view, w->tail, head);
    if (w->tail_used == capacity) {
        uint32_t index = arena_alloc(o, want);
        if (index == ROUTERD_NIL) return NULL;
        /* partner: the acquire load in chain_read */
        atomic_store_explicit(&arena_at(&o->view, w->tail)->next, index, memory_order_release);
        w->tail = index;
        w->tail_used = 0;
        head = false;
        capacity = arena_capacity(&o->view, index, false);
    }
    *room = capacity - w->tail_used;
    return arena_at(&o->view, w->tail)->data + (head ? ARENA_HEAD_BYTES : 0) + w->tail_used;
}

static inline void chain_wrote(arena_writer *w, uint32_t bytes)
{
    w->tail_used += bytes;
    w->written += bytes;
}

static inline void chain_publish(arena_owner *o, const arena_writer *w, enum content_state state)
{
    arena_content *c = arena_content_of(&o->view, w->head);
    /* partners: the acquire loads in chain_length and chain_state; state last, so that "complete" implies the length */
    atomic_store_explicit(&c->length, w->written, memory_order_release);
    atomic_store_explicit(&c->state, state, memory_order_release);
}

/* Copies bytes into the chain; false, after a part of them, if the arena is used up. */
static inline bool chain_write(arena_owner *o, arena_writer *w, enum arena_class want, const void *bytes, size_t size)
{
    const uint8_t *from = (const uint8_t *) bytes;
    while (size) {
        uint32_t room;
        uint8_t *to = chain_room(o, w, want, &room);
        if (!to) return false;
        uint32_t n = size < room ? (uint32_t) size : room;
        memcpy(to, from, n);
        chain_wrote(w, n);
        from += n;
        size -= n;
    }
    return true;
}

/* Frees the blocks of a stream that every reader has read; the head stays, because it has the content header.
 * `consumed` is the slowest reader's position.  A reader at a block's end still needs the block's `next`, so a block
 * is freed only after a byte of the next one has been read.  Returns the number of freed blocks. */
static inline uint32_t chain_trim(arena_owner *o, arena_writer *w, uint64_t consumed)
{
    arena_block *head = arena_at(&o->view, w->head);
    uint64_t end = arena_capacity(&o->view, w->head, true) + w->trimmed;
    uint32_t freed = 0;
    for (uint32_t index = atomic_load_explicit(&head->next, memory_order_relaxed);
         index < arena_blocks(&o->view) && index != w->tail;) {
        uint32_t capacity = arena_capacity(&o->view, index, false);
        uint32_t next = atomic_load_explicit(&arena_at(&o->view, index)->next, memory_order_relaxed);
        end += capacity;
        if (end >= consumed || !arena_free_one(o, index)) break;
        /* partner: the acquire load in arena_mark_chain */
        atomic_store_explicit(&head->next, next, memory_order_release);
        w->trimmed += capacity;
        freed++;
        index = next;
    }
    return freed;
}

/* ---- reading a chain (anybody) ---- */

typedef struct {
    uint32_t head, block;      /* block: the one with the next byte */
    uint32_t offset;           /* bytes already read of it */
    uint64_t position;         /* total bytes read */
} arena_reader;

static inline void chain_open(arena_reader *r, uint32_t head)
{
    r->head = r->block = head;
    r->offset = 0;
    r->position = 0;
}

static inline uint64_t chain_length(const arena_content *c)
{
    return atomic_load_explicit(&c->length, memory_order_acquire);
}
static inline uint32_t chain_state(const arena_content *c)
{
    return atomic_load_explicit(&c->state, memory_order_acquire);
}

/* The next run of contiguous bytes below `limit` (a published length); NULL and *size = 0 if there is none.
 * NULL and *size = 1: the chain is broken.  A limit beyond the arena's size is an error, so reading a cyclic chain ends
 * after at most one arena's bytes. */
static inline const uint8_t *chain_read(const arena_view *v, arena_reader *r, uint64_t limit, uint32_t *size)
{
    *size = 0;
    if (r->position >= limit) return NULL;
    if (limit - r->position > arena_data_bytes(v)) { *size = 1; return NULL; }
    bool head = r->block == r->head && r->position == r->offset;
    arena_block *b = arena_at(v, r->block);
    if (!b) { *size = 1; return NULL; }
    uint32_t capacity = arena_capacity(v, r->block, head);
    if (r->offset >= capacity) {
        /* partner: the release store in chain_room */
        uint32_t next = atomic_load_explicit(&b->next, memory_order_acquire);
        b = arena_at(v, next);
        if (!b) { *size = 1; return NULL; }
        r->block = next;
        r->offset = 0;
        head = false;
        capacity = arena_capacity(v, next, false);
    }
    uint64_t left = limit - r->position;
    *size = left < capacity - r->offset ? (uint32_t) left : capacity - r->offset;
    return b->data + (head ? ARENA_HEAD_BYTES : 0) + r->offset;
}

static inline void chain_advance(arena_reader *r, uint32_t bytes)
{
    r->offset += bytes;
    r->position += bytes;
}

/* ---- after an owner's death (the core) ---- */

static inline void arena_mark_none(const arena_view *v) { memset(arena_in_use(v), 0, arena_blocks(v)); }

/* Marks a chain as in use; stops at the first index that is invalid or marked already. */
static inline uint32_t arena_mark_chain(const arena_view *v, uint32_t head)
{
    uint8_t *used = arena_in_use(v);
    arena_content *c = arena_content_of(v, head);
    uint32_t marked = 0;
    if (!c) return 0;
    if (c->key_block < arena_blocks(v) && !used[c->key_block]) { used[c->key_block] = 1; marked++; }
    for (uint32_t index = head; index < arena_blocks(v) && !used[index];) {
        used[index] = 1;
        marked++;
        index = atomic_load_explicit(&arena_at(v, index)->next, memory_order_acquire);
    }
    return marked;
}

#endif
