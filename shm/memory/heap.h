/* Memory of malloc() that is free goes back to the system. */
#ifndef ROUTERD_SHM_HEAP_H
#define ROUTERD_SHM_HEAP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

/* Takes a millisecond for each 10 MB.  Other C libraries do so themselves. */
static inline void heap_thin(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

#define HEAP_MANY 1024u                /* objects whose end is worth a look at the heap */
#define HEAP_LOOKS 10u                 /* in a row that find few of them */
#define HEAP_PIECE 13                  /* so many bits of octets are one of them */

/* The most objects that there were, and the looks in a row that found few of them. */
typedef struct { uint32_t most, gone; } heap_crowd;

/* There are so many objects now. */
static inline void heap_crowd_is(heap_crowd *k, uint32_t there)
{
    if (there > k->most) k->most = there;
}

/* Whether three quarters of many objects have been gone for a while, with what the heap had of them. */
static inline bool heap_crowd_gone(heap_crowd *k, uint32_t there)
{
    heap_crowd_is(k, there);
    k->gone = k->most >= HEAP_MANY && there <= k->most / 4 ? k->gone + 1 : 0;
    if (k->gone < HEAP_LOOKS) return false;
    k->most = there;
    return true;
}

#endif
