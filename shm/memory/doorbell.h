/* Doorbells: flags by which a producer wakes its consumer only if that sleeps.
 *
 *   consumer                                 producer
 *   awake --doorbell_sleep()--> drowsy       publish records
 *   drowsy: check every ring once more       doorbell_should_ring(): true at most once per sleep
 *   nothing there --> asleep (blocks)        ring: sem_post or a write to the eventfd
 *   something there, or woken --doorbell_wake()--> awake
 *
 * Prohibited: blocking without the second check; publishing after doorbell_should_ring() returned false.
 * Either the consumer's second check sees the records or the producer sees the flag: both sides put a full fence
 * between their store and their load (store-buffering pattern), so they cannot both miss.
 */
#ifndef ROUTERD_SHM_DOORBELL_H
#define ROUTERD_SHM_DOORBELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    _Alignas(64) _Atomic uint32_t asleep;
} routerd_doorbell;

static inline void doorbell_sleep(routerd_doorbell *d)
{
    /* partner: the fence and load in doorbell_should_ring */
    atomic_store_explicit(&d->asleep, 1, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst);
}

static inline void doorbell_wake(routerd_doorbell *d) { atomic_store_explicit(&d->asleep, 0, memory_order_relaxed); }

/* Between the publication of records and doorbell_left(); one fence serves any number of rings. */
static inline void doorbell_published(void)
{
    /* partner: the store and fence in doorbell_sleep */
    atomic_thread_fence(memory_order_seq_cst);
}

/* After doorbell_published(): whether the consumer sleeps, and it is for the caller to wake it. */
static inline bool doorbell_left(routerd_doorbell *d)
{
    if (!atomic_load_explicit(&d->asleep, memory_order_relaxed)) return false;
    return atomic_exchange_explicit(&d->asleep, 0, memory_order_seq_cst) != 0;
}

static inline bool doorbell_should_ring(routerd_doorbell *d)
{
    doorbell_published();
    return doorbell_left(d);
}

#endif
