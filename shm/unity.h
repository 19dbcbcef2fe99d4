/* How the functions of a process are linked.
 *
 * The bodies (.c) of a process are one translation unit, unity.c beside the Cython module: it defines ROUTERD_UNITY and
 * includes them, so that the compiler inlines across files. Each body also compiles alone, as a test does and as
 * editors do.
 *
 *   static     used in its body only
 *   PRIVATE    shared by bodies, declared in a header: static in the unit, external in a body that is compiled alone
 *   GLUE       called by the Cython module as well: external, and hidden from whoever loads the module
 *
 * A body includes the header of its folder first, and then only what that header does not bring.
 *
 * `inline` makes the compiler weigh a function of another body as one of the file that calls it; `static inline` is for
 * short functions that stand in headers.  INLINED is for what each message passes: the compiler otherwise stops when
 * the function that calls has grown.  What few messages pass is noinline, so that the rest stays together.
 */
#ifndef ROUTERD_SHM_UNITY_H
#define ROUTERD_SHM_UNITY_H

#ifdef ROUTERD_UNITY
#define PRIVATE static
#else
#define PRIVATE
#endif
#define GLUE __attribute__((visibility("hidden")))
#define INLINED __attribute__((always_inline)) inline

#endif
