/* To be included before all else that the router's code includes: its heap is the process's, and each access to shared
 * memory that orders others is a point (simulation.h). */
#ifndef ROUTERD_TESTS_SIMULATION_SHARED_H
#define ROUTERD_TESTS_SIMULATION_SHARED_H

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "tests/simulation/depth/simulation.h"

#undef atomic_store_explicit
#undef atomic_load_explicit
#undef atomic_exchange_explicit
#define POINT(order) ((order) == memory_order_relaxed ? (void) 0 : point())
#define atomic_store_explicit(object, value, order) (POINT(order), __atomic_store_n(object, value, order))
#define atomic_load_explicit(object, order) (POINT(order), __atomic_load_n(object, order))
#define atomic_exchange_explicit(object, value, order) (POINT(order), __atomic_exchange_n(object, value, order))

static inline void *heap_take_aligned(size_t alignment, size_t size) { (void) alignment; return heap_take(size); }
static inline int heap_keeps(size_t rest) { (void) rest; return 0; }
static inline int nobody_else(void) { return 0; }
static inline int virtual_sleep(const struct timespec *time, struct timespec *left)
{
    (void) left;
    process_sleep(virtual_now + (uint64_t) time->tv_nsec);
    return 0;
}

#define malloc heap_take
#define calloc heap_take_clear
#define realloc heap_change
#define aligned_alloc heap_take_aligned            /* all of them begin at 64 octets */
#define posix_memalign heap_take_pages
#define free heap_give
#define malloc_trim heap_keeps
#define clock_gettime clock_virtual
#define sched_yield nobody_else
#define nanosleep virtual_sleep

#endif
