/* Statistics pages: each process writes its own, any process reads all at any time.
 *
 * Counters only grow and gauges move; both are single 64-bit words, so a reader never sees half a value. A histogram is
 * log-linear: 4 buckets for each power of two, from 1 upwards, so a value is known to within 25 %.
 * Names and meaning of the numbers: counters.h.
 */
#ifndef ROUTERD_SHM_STATS_H
#define ROUTERD_SHM_STATS_H

#include <stdatomic.h>
#include <stdint.h>

#include "shm/statistics/counters.h"
#include "shm/unity.h"

#define STATS_MAGIC 0x73746174u
#define STATS_COUNTERS 192u
#define STATS_HISTOGRAMS 4u
#define STATS_BUCKETS 192u     /* 4 for each of 48 powers of two: a nanosecond to three days */

typedef struct {
    uint32_t magic;
    _Atomic uint32_t pid;      /* 0: there is no such process now */
    _Atomic uint32_t generation;   /* of the process in this place */
    uint32_t reserved;
    _Atomic uint64_t heartbeat;           /* turns of the loop; the process hangs if it stops growing */
    uint64_t padding[5];
    _Atomic uint64_t counter[STATS_COUNTERS];
    struct { _Atomic uint64_t sum; _Atomic uint64_t bucket[STATS_BUCKETS]; } histogram[STATS_HISTOGRAMS];
} stats_page;

#define STATS_PAGE_BYTES 8192u
_Static_assert(sizeof(stats_page) <= STATS_PAGE_BYTES, "a statistics page fits in its place");

/* Load and store, not an atomic addition: there is one writer. */
static INLINED void stats_add(stats_page *p, uint32_t which, uint64_t n)
{
    _Atomic uint64_t *c = &p->counter[which];
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}
static inline void stats_set(stats_page *p, uint32_t which, uint64_t n)
{
    atomic_store_explicit(&p->counter[which], n, memory_order_relaxed);
}
static inline uint64_t stats_get(const stats_page *p, uint32_t which)
{
    return atomic_load_explicit(&p->counter[which], memory_order_relaxed);
}

static inline void stats_beat(stats_page *p)
{
    atomic_store_explicit(&p->heartbeat, atomic_load_explicit(&p->heartbeat, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static INLINED uint32_t stats_bucket(uint64_t value)
{
    uint32_t shift = (63u ^ (uint32_t) __builtin_clzll(value | 4)) - 2;    /* 0 for values below 8: a bucket for each */
    uint32_t bucket = shift * 4 + (uint32_t) (value >> shift);
    return bucket < STATS_BUCKETS ? bucket : STATS_BUCKETS - 1;
}

/* The smallest value of a bucket. */
static inline uint64_t stats_bucket_floor(uint32_t bucket)
{
    return bucket < 4 ? bucket : (uint64_t) (4 + (bucket & 3)) << (bucket / 4 - 1);
}

static INLINED void stats_observe(stats_page *p, uint32_t which, uint64_t value)
{
    _Atomic uint64_t *b = &p->histogram[which].bucket[stats_bucket(value)], *s = &p->histogram[which].sum;
    atomic_store_explicit(b, atomic_load_explicit(b, memory_order_relaxed) + 1, memory_order_relaxed);
    atomic_store_explicit(s, atomic_load_explicit(s, memory_order_relaxed) + value, memory_order_relaxed);
}

#endif
