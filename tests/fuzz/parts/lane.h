/* What the targets of the data lane share. */
#ifndef ROUTERD_TESTS_FUZZ_LANE_H
#define ROUTERD_TESTS_FUZZ_LANE_H

#define ROUTERD_UNITY

#include "tests/fuzz/parts/input.h"
#include "workers/lane/frame.c"
#include "workers/lane/map.c"
#include "workers/lane/session.c"
#include "workers/lane/state.c"
#include "workers/lane/text.c"
#include "workers/lane/write.c"

#define FRAME_ROOM 2048u

/* Numbers of all widths, and those beside which serial arithmetic and lengths go wrong. */
static inline uint32_t some_number(void)
{
    static const uint32_t edges[] = { 0, 1, 127, 128, 255, 256, 65535, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff };
    return one_in(2) ? edges[below(sizeof edges / sizeof *edges)] : (uint32_t) choose(4) >> below(32);
}

#endif
