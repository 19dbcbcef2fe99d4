/* The longest turn of the core's loop after a message to many receivers (growth.c): between two looks at the rings. */
#ifndef ROUTERD_TESTS_GROWTH_TURNS_H
#define ROUTERD_TESTS_GROWTH_TURNS_H

#include "tests/native/growth/growth.h"

enum { RING = 64 };                    /* records of a worker that wait for the core's turn */

/* Turns until one handles nothing; returns the steps of the longest one, or `longest` if none took more. */
static uint64_t longest_turn(core_router *c, uint64_t longest)
{
    for (uint32_t handled = 1; handled;) {
        handled = 0;
        steps = 0;
        counting = true;
        if (core_turn(c, &handled) == STOP_UNKNOWN) exit(2);
        counting = false;
        if (steps > longest) longest = steps;
    }
    return longest;
}

/* n receivers settle a message, or only say their outcome: one record of each, as many as the ring holds at a time.
 * A DISPOSITION for each link and one for the whole session are the same to the core. */
static uint64_t receivers_say(core_router *c, uint32_t n, uint8_t flags)
{
    uint64_t longest = 0;
    routerd_producer says;
    if (!ring_produce(&says, c->worker[RECEIVERS].actions.ring)) exit(2);
    for (uint32_t i = 0; i < n; i++) {
        routerd_record *r = ring_slot(&says);
        if (!r) exit(2);
        *r = (routerd_record) {.type = A_UPDATE, .flags = flags, .state = S_ACCEPTED,
            .delivery = pool_handle(c->worker[RECEIVERS].link[i]->outs)};
        ring_push(&says);
        if (i % RING != RING - 1 && i != n - 1) continue;
        ring_publish(&says);
        longest = longest_turn(c, longest);
    }
    return longest;
}

static uint64_t sender_says(core_router *c, uint8_t type, uint8_t flags, uint32_t state)
{
    routerd_producer says;
    if (!ring_produce(&says, c->worker[SENDERS].actions.ring)) exit(2);
    *ring_slot(&says) = (routerd_record) {.type = type, .flags = flags, .state = state, .link_gen = 1, .peer = 1};
    ring_push(&says);
    ring_publish(&says);
    return longest_turn(c, 0);
}

static void tell_longest(const char *name, uint64_t longest)
{
    steps = longest;
    report(name, 1);
}

/* What becomes of a message to n receivers: all settle; all say their outcome and the sender says a state, then
 * settles; it aborts; it goes. */
static void turns_of_many(core_router *c, uint32_t n)
{
    core_address *a = address(c, T_MULTICAST);
    core_link *from = link_to(c, a, 0, false);
    for (uint32_t i = 0; i < n; i++) link_to(c, a, i, true);
    for (uint32_t round = 0; round < 6; round++) {
        message_with(c, from, 1, round == 2 ? 0 : F_COMPLETE, 0);
        longest_turn(c, 0);
        if (c->outs.live != n) exit(2);
        if (round == 0) {
            tell_longest("longest_turn_as_receivers_settle", receivers_say(c, n, F_SETTLED));
        } else if (round == 1) {
            tell_longest("longest_turn_as_receivers_say_their_outcomes", receivers_say(c, n, 0));
            tell_longest("longest_turn_as_the_sender_settles_second",
                         sender_says(c, A_UPDATE, F_IN | F_SETTLED, S_ACCEPTED));
        } else if (round == 2) {
            tell_longest("longest_turn_as_the_sender_aborts", sender_says(c, A_CONTINUE, F_ABORTED, 0));
            receivers_say(c, n, F_SETTLED);
        } else if (round == 3) {
            tell_longest("longest_turn_as_the_sender_says_a_state", sender_says(c, A_UPDATE, F_IN, S_ACCEPTED));
            tell_longest("longest_turn_as_the_sender_settles_first",
                         sender_says(c, A_UPDATE, F_IN | F_SETTLED, S_ACCEPTED));
            receivers_say(c, n, F_SETTLED);
        } else if (round == 4) {
            receivers_say(c, n, 0);
            steps = 0;
            counting = true;
            link_remove(c, from, false);
            counting = false;
            tell_longest("sender_of_many_goes", steps);
            tell_longest("longest_turn_after_that", longest_turn(c, 0));
            from = link_to(c, a, 0, false);
        } else {
            receivers_say(c, n / 2, F_SETTLED);    /* some have settled, some have said their outcome, some nothing */
            sender_says(c, A_UPDATE, F_IN | F_SETTLED, S_ACCEPTED);
            for (uint32_t i = 0; i < n; i++) {
                core_out *out = c->worker[RECEIVERS].link[i]->outs;
                if (out) settle(c, out);
            }
        }
        if (c->outs.live || c->ins.live || c->tells.live) {
            fprintf(stderr, "round %u: %u copies, %u messages and %u to be told are left\n", round, c->outs.live,
                    c->ins.live, c->tells.live);
            exit(2);
        }
    }
}

/* A message to n receivers and an edge router comes in two pieces: the edge router has it before the sender's next one
 * comes, and the others hear of the rest in portions. */
static void turn_of_the_last_piece(core_router *c, uint32_t n)
{
    core_address *a = address(c, T_MULTICAST);
    core_link *from = link_to(c, a, 0, false), *edge = NULL;
    for (uint32_t i = 0; i < n; i++) {
        core_link t = {.outgoing = true, .address = a, .capacity = 1, .edge = i == n / 2};
        core_link *l = link_add(c, RECEIVERS, i, 1, &t);
        if (!t.edge) continue;
        edge = l;
        edge->streams = pool_handle(stream_open(c));
    }
    message_with(c, from, 1, 0, 0);
    longest_turn(c, 0);
    if (c->outs.live != n || edge->count) exit(2);
    const uint64_t longest = sender_says(c, A_CONTINUE, F_COMPLETE, 0);
    if (edge->count != 1 || edge->outs->flags & OUT_GROWING) exit(2);
    tell_longest("longest_turn_as_the_last_piece_comes", longest);
    for (uint32_t i = 0; i < n; i++) settle(c, c->worker[RECEIVERS].link[i]->outs);
    if (c->outs.live || c->ins.live || c->tells.live) exit(2);
}

#endif
