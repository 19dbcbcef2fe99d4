/* Counts the pieces of code without a branch that run while `counting`, and the octets that are copied, by the 64.
 * The compiler puts a call into each such piece.  Include it before the bodies that are counted.
 */
#ifndef ROUTERD_TESTS_GROWTH_H
#define ROUTERD_TESTS_GROWTH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t steps;
static bool counting;

void __sanitizer_cov_trace_pc(void);
__attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc(void) { steps += counting; }

__attribute__((no_sanitize_coverage)) static void *counted_move(void *to, const void *from, size_t size)
{
    steps += counting ? size / 64 : 0;
    return memmove(to, from, size);
}
#define memmove counted_move

static void report(const char *name, uint64_t operations)
{
    counting = false;
    printf("%s %.1f\n", name, (double) steps / (double) operations);
    steps = 0;
}

#endif
