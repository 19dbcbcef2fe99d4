/* What one frame of a peer makes the worker do goes on in the next turns, while others have theirs: counts of the
 * longest turn, which do not grow with n (growth_worker.c). */
#ifndef ROUTERD_TESTS_GROWTH_PORTIONS_H
#define ROUTERD_TESTS_GROWTH_PORTIONS_H

#include "tests/native/growth/growth_world.h"

static void report_longest(const char *name, uint64_t longest)
{
    steps = longest;
    report(name, 1);
}

/* A drain is answered before the next turn. */
static void core_answers_drains(void)
{
    for (; world.drained_count; world.drained_count--) {
        const name *link = &world.drained[world.drained_count - 1];
        to_worker(W_DRAINED, *link);
    }
}

static void say_drain(client *k, uint32_t handle, bool drain)
{
    uint8_t frame[LANE_FLOW_MAX];
    lane_flow w = { .has_next_in = true, .in_window = WIDE, .out_window = WIDE, .has_handle = true, .handle = handle,
                    .has_count = true, .has_credit = true, .credit = 10, .drain = drain };
    say(k, frame, lane_put_flow(frame, 0, &w));
}

/* Of n receivers of a client all drain, some of them again and again, and so does one of another client. */
static void drains(uint32_t n)
{
    client k = client_with(n, true), other = client_with(1, true);
    const name link = world.links[0];                          /* the other's */
    for (uint32_t i = 0; i < n; i++) {
        say_drain(&k, i, true);
        if (i % 4) continue;
        say_drain(&k, i, false);
        if (i % 8) say_drain(&k, i, true);
    }
    bool said = write_said(&k);
    say_drain(&other, 0, true);
    write_said(&other);
    uint32_t longest = 0, all = 0, before = 0;
    bool heard = false;
    for (uint32_t idle = 0; !said || idle < 2; idle = world.drained_count ? 0 : idle + 1) {
        core_answers_drains();
        said = said || write_said(&k);
        turn(false);
        forget_answers(&k);
        forget_answers(&other);
        for (uint32_t i = 0; i < world.drained_count; i++) heard |= world.drained[i].index == link.index;
        before += !heard;
        all += world.drained_count;
        if (world.drained_count > longest) longest = world.drained_count;
    }
    report_longest("most_drains_of_a_turn", longest);
    CHECK(before <= 1, "another client's drain waits for %u turns", before);
    CHECK(all >= n - n / 8 && all <= n + n / 4 + 1, "%u drains of %u", all, n);
    for (uint32_t i = 0; i < world.p.links.high; i++) {
        const worker_link *l = (worker_link *) pool_at(&world.p.links, i);
        CHECK(l->slot.next_free != SLOT_USED || !l->lane.drain || !l->lane.credit, "link %u still drains", i);
    }
    say_drain(&k, 0, true);
    say_end(&k, 0, 0, LANE_DETACH);
    say_drain(&k, 1, true);
    utter(&k, false);
    client_goes(&other, false);
    client_goes(&k, false);
    world.drained_count = 0;
    CHECK(!world.p.drain_first, "a connection that is gone drains");
}

#endif
