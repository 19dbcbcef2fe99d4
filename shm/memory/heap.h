/* Memory of malloc() that is free goes back to the system. */
#ifndef ROUTERD_SHM_HEAP_H
#define ROUTERD_SHM_HEAP_H

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

#endif
