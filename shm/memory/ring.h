/* A single-producer single-consumer ring of 64-byte records in shared memory.
 *
 * Invariant: tail <= head <= tail + capacity; slots [tail, head) hold published records.
 *
 *   role      writes            reads             private copies
 *   producer  slots, head       tail              its own next index, the consumer's index as last seen
 *   consumer  tail              head, slots       its own next index, the producer's index as last seen
 *
 * A producer writes any number of records and publishes them with one store of `head`.  Prohibited: writing a slot at
 * or beyond tail + capacity (the consumer may still read it); moving an index backwards (the other side's arithmetic
 * would read old records as new).  The records that a process has not published before its death do not exist.  Readers
 * check indices from shared memory and ignore a ring with `head - tail > capacity`.
 */
#ifndef ROUTERD_SHM_RING_H
#define ROUTERD_SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shm/memory/record.h"
#include "shm/unity.h"

#define RING_AHEAD 4u          /* a producer prefetches the slot so many records ahead */

typedef struct {
    _Alignas(64) _Atomic uint64_t head;   /* records ever published; written by the producer */
    _Alignas(64) _Atomic uint64_t tail;   /* records ever consumed; written by the consumer */
    _Alignas(64) uint64_t capacity;       /* a power of two; written once by ring_format */
    _Alignas(64) routerd_record slot[];
} routerd_ring;

typedef struct {
    routerd_ring *ring;
    uint64_t next;        /* index of the next record to write; [ring->head, next) is written but not published */
    uint64_t tail_seen;
    uint64_t capacity;    /* a private copy: shared memory may change after the check */
} routerd_producer;

typedef struct {
    routerd_ring *ring;
    uint64_t next;        /* index of the next record to read; [ring->tail, next) is read but not given back */
    uint64_t head_seen;
    uint64_t capacity;
} routerd_consumer;

static inline size_t ring_bytes(uint64_t capacity)
{
    return sizeof(routerd_ring) + (size_t) capacity * sizeof(routerd_record);
}

static inline bool ring_format(routerd_ring *ring, uint64_t capacity)
{
    if (capacity < 2 || (capacity & (capacity - 1))) return false;
    atomic_store_explicit(&ring->head, 0, memory_order_relaxed);
    atomic_store_explicit(&ring->tail, 0, memory_order_relaxed);
    ring->capacity = capacity;
    return true;
}

/* Both sides may attach to a ring in use: a restarted process continues at the published indices. */
static inline bool ring_produce(routerd_producer *p, routerd_ring *ring)
{
    uint64_t c = ring->capacity;
    if (c < 2 || (c & (c - 1))) return false;
    p->ring = ring;
    p->capacity = c;
    p->next = atomic_load_explicit(&ring->head, memory_order_acquire);
    p->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
    return p->next - p->tail_seen <= c;
}

static inline bool ring_consume(routerd_consumer *c, routerd_ring *ring)
{
    uint64_t n = ring->capacity;
    if (n < 2 || (n & (n - 1))) return false;
    c->ring = ring;
    c->capacity = n;
    c->next = atomic_load_explicit(&ring->tail, memory_order_acquire);
    c->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire);
    return c->head_seen - c->next <= n;
}

/* To be called between two polls of memory that another CPU writes: it frees resources for the sibling thread. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile ("yield" : : : "memory");
#endif
}

/* Prefetches a cache line that will be written soon. */
static inline void ring_fetch(const void *line)
{
#if defined(__x86_64__)
    __asm__ volatile ("prefetchw %0" : : "m" (*(const char *) line));
#else
    __builtin_prefetch(line, 1);
#endif
}

/* The slot of the next record, or NULL if the ring is full; ring_push() completes it, ring_publish() publishes it. */
static INLINED routerd_record *ring_slot(routerd_producer *p)
{
    if (p->next - p->tail_seen >= p->capacity) {
        /* partner: the release store in ring_return; the slots it gave back may be overwritten from here on */
        p->tail_seen = atomic_load_explicit(&p->ring->tail, memory_order_acquire);
        if (p->next - p->tail_seen >= p->capacity) return NULL;
    }
    ring_fetch(&p->ring->slot[(p->next + RING_AHEAD) & (p->capacity - 1)]);
    return &p->ring->slot[p->next & (p->capacity - 1)];
}

static inline void ring_push(routerd_producer *p) { p->next++; }

/* True if anything new became visible. */
static inline bool ring_publish(routerd_producer *p)
{
    if (p->next == atomic_load_explicit(&p->ring->head, memory_order_relaxed)) return false;
    /* partner: the acquire load in ring_peek; makes the records, and the blocks they name, visible before the index */
    atomic_store_explicit(&p->ring->head, p->next, memory_order_release);
    return true;
}

/* The next record, or NULL when there is none.  It stays valid until ring_return(). */
static INLINED const routerd_record *ring_peek(routerd_consumer *c)
{
    if (c->next == c->head_seen) {
        /* partner: the release store in ring_publish */
        uint64_t head = atomic_load_explicit(&c->ring->head, memory_order_acquire);
        if (head - c->next > c->capacity) return NULL;   /* a broken index: no records rather than old ones */
        c->head_seen = head;
        if (c->next == head) return NULL;
    }
    return &c->ring->slot[c->next & (c->capacity - 1)];
}

static inline void ring_advance(routerd_consumer *c) { c->next++; }

/* Give the slots read so far back to the producer. */
static inline void ring_return(routerd_consumer *c)
{
    /* partner: the acquire load in ring_slot; our reads of the slots are done before the producer may write them */
    if (c->next != atomic_load_explicit(&c->ring->tail, memory_order_relaxed))
        atomic_store_explicit(&c->ring->tail, c->next, memory_order_release);
}

/* Whether there is a record to read; for the second check before sleeping: partner is the fence in doorbell.h.
 * It is false for a broken index, as in ring_peek: a consumer would otherwise never sleep and never read. */
static inline bool ring_pending(const routerd_consumer *c)
{
    uint64_t ahead = atomic_load_explicit(&c->ring->head, memory_order_seq_cst) - c->next;
    return ahead != 0 && ahead <= c->capacity;
}

/* The number of published records that wait, for observers, who know the capacity; 0 for a broken index. */
static inline uint64_t ring_waiting(const routerd_ring *ring, uint64_t capacity)
{
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint64_t waiting = atomic_load_explicit(&ring->head, memory_order_relaxed) - tail;
    return waiting <= capacity ? waiting : 0;
}

/* Drops what a dead consumer has not read; the producer calls this on its behalf. */
static inline void ring_discard(routerd_producer *p)
{
    atomic_store_explicit(&p->ring->head, p->next, memory_order_release);
    atomic_store_explicit(&p->ring->tail, p->next, memory_order_release);
    p->tail_seen = p->next;
}

#endif
