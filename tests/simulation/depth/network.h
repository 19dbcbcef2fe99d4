/* The routers besides this one: who has receivers, and who is next to whom.
 *
 *   this one --- next-1        next-1 and next-2 may be joined;
 *            \-- next-2        `beyond` is behind one of them
 */
#ifndef ROUTERD_TESTS_SIMULATION_NETWORK_H
#define ROUTERD_TESTS_SIMULATION_NETWORK_H

#include "tests/simulation/depth/sourced.h"
#include "tests/simulation/depth/tables.h"

network_view network;

const uint8_t *router_text(uint32_t bit)
{
    static const char text[ROUTERS + 1][ROUTER_OCTETS + 1] = { "0/router", "0/next-1", "0/next-2", "0/beyond",
                                                               "0/nobody" };
    return (const uint8_t *) text[bit];
}

static void network_said(void)
{
    for (uint32_t i = 0; i < NAMED; i++) network.lately[i] |= network.announced[i];
    network.news = true;
    shared.semaphore++;
}

/* One life of three has neighbours.  The others take no chance, so that they are what they would be without. */
void network_begin(uint64_t seed)
{
    memset(&network, 0, sizeof network);
    if (seed % 3 != 1 || sourced.on) return;
    network.neighbours = 1 + one_in(2);
    network.joined = one_in(2);
    network.streams = one_in(2);
    network.beyond = 1 + below(network.neighbours);
    for (uint32_t i = 1; i <= network.neighbours; i++) network.form[i] = (uint8_t) (1 + below(3));
    for (uint32_t i = 0; i < ADDRESSES; i++)
        if (address_treatment(i) != UNAVAILABLE) network.announced[i] = (uint8_t) (below(8) << 1);
    for (uint32_t i = ENDPOINT; tables.on && i < NODE; i++)
        if (one_in(3)) network.announced[i] = (uint8_t) (below(8) << 1);
    network_said();
}

void network_changes(void)
{
    const uint32_t at = below(ADDRESSES + 2), bit = 1 + below(BEYOND);
    if (at == ADDRESSES) network.beyond = 1 + below(network.neighbours);
    else if (at > ADDRESSES) network.joined = one_in(2);
    else if (tables.on && one_in(2)) network.announced[ENDPOINT + below(ENDPOINTS)] ^= (uint8_t) (1u << bit);
    else if (address_treatment(at) != UNAVAILABLE) network.announced[at] ^= (uint8_t) (1u << bit);
    network_said();
}

void network_rests(void) { memcpy(network.lately, network.announced, sizeof network.lately); }

#endif
