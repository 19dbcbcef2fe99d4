/* Random numbers and octets for the tests of the data lane. */
#ifndef ROUTERD_TESTS_LANE_RANDOM_H
#define ROUTERD_TESTS_LANE_RANDOM_H

#define ROUTERD_UNITY

#include "tests/native/check.h"
#include "workers/lane/frame.c"
#include "workers/lane/map.c"
#include "workers/lane/session.c"
#include "workers/lane/state.c"
#include "workers/lane/write.c"

#define FRAME_ROOM 2048u

static uint64_t state;

static inline uint32_t below(uint32_t limit) { return (uint32_t) random_below(&state, limit); }
static inline bool one_in(uint32_t n) { return !below(n); }

/* Numbers of all widths, and those beside which serial arithmetic and lengths go wrong. */
static inline uint32_t some_number(void)
{
    static const uint32_t edges[] = { 0, 1, 127, 128, 255, 256, 65535, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff };
    return one_in(2) ? edges[below(sizeof edges / sizeof *edges)] : (uint32_t) random_next(&state) >> below(32);
}

static inline uint8_t *copy_of(const uint8_t *octets, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, octets, size);
    return copy;
}

#endif
