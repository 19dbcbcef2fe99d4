/* Broken copies of the headers under test, made by redefining what they are built on.  ThreadSanitizer must object. */
#ifndef ROUTERD_TESTS_BROKEN_H
#define ROUTERD_TESTS_BROKEN_H

#include <stdatomic.h>

#ifdef BROKEN_RELEASE              /* indices and lengths are published without what they stand for */
#define memory_order_release memory_order_relaxed
#endif

#ifdef BROKEN_ACQUIRE              /* ... or read without it */
#define memory_order_acquire memory_order_relaxed
#endif

#ifdef BROKEN_ATOMIC               /* indices are ordinary variables */
#undef atomic_store_explicit
#undef atomic_load_explicit
#define atomic_store_explicit(object, value, order) (*(volatile __typeof__(+*(object)) *) (object) = (value))
#define atomic_load_explicit(object, order) (*(const volatile __typeof__(+*(object)) *) (object))
#endif

#endif
