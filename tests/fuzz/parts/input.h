/* A fuzzing target: LLVMFuzzerTestOneInput(octets, size), which libFuzzer calls, and tests/fuzz/replay.c.
 *
 * A target takes its input as octets (`input.at`), or as choices (`below`, `any`) from which it makes something that is
 * nearly right: each choice reads as few octets as its limit needs.  Behind the end all choices are 0, so a loop whose
 * end is a choice asks `choices_left` as well.
 */
#ifndef ROUTERD_TESTS_FUZZ_INPUT_H
#define ROUTERD_TESTS_FUZZ_INPUT_H

#include <stdbool.h>
#include <string.h>

#include "shm/codec/amqp.h"
#include "tests/native/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t size);
/* What all inputs of a replay have to reach together, or NULL; a target may define it. */
const char *fuzz_missing(void) __attribute__((weak));

typedef struct { const uint8_t *at, *end; } fuzz_input;

static fuzz_input input;

static inline void input_open(const uint8_t *octets, size_t size) { input = (fuzz_input) { octets, octets + size }; }

static inline size_t choices_left(void) { return (size_t) (input.end - input.at); }

static inline uint64_t choose(uint32_t octets)
{
    uint32_t there = octets < choices_left() ? octets : (uint32_t) choices_left();
    uint8_t number[8] = { 0 };
    if (there) memcpy(number + sizeof number - there, input.at, there);
    input.at += there;
    return be64(number);
}

static inline uint64_t any(void) { return choose(8); }

static inline uint32_t below(uint32_t limit)
{
    CHECK(limit, "a choice of nothing");
    return limit == 1 ? 0 : (uint32_t) (choose(limit <= 1 << 8 ? 1 : limit <= 1 << 16 ? 2 : 4) % limit);
}

static inline bool one_in(uint32_t n) { return below(n) == n - 1; }

/* Many octets of one choice. */
static inline void scribble(void *where, size_t bytes)
{
    uint64_t state = mix(choose(2)) | 1;
    for (size_t i = 0; i < bytes; i++) ((uint8_t *) where)[i] = (uint8_t) (random_next(&state) >> 32);
}

/* Octets in an allocation of their own size, for AddressSanitizer. */
static inline uint8_t *copy_of(const uint8_t *octets, size_t size)
{
    uint8_t *copy = (uint8_t *) malloc(size ? size : 1);
    CHECK(copy, "no memory");
    if (size) memcpy(copy, octets, size);
    return copy;
}

#endif
