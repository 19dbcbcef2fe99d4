/* Receivers of a link route who take little of what they have given credit for: one who takes nothing for long, and one
 * who takes one message at a time.  A broker that feeds them has one channel, so that others share their session. */
#ifndef ROUTERD_TESTS_SIMULATION_TAKERS_H
#define ROUTERD_TESTS_SIMULATION_TAKERS_H

#include "tests/simulation/depth/client.h"

enum { FED = 150, FED_AT_ONCE = 8 };   /* credit of theirs; messages of the broker */
#define DEAF_NS 30000000000ull         /* for which the idle one hears nothing */
#define PAUSE_NS 500000000ull          /* of the slow one */

/* The router has given up a link of a link route because its receiver takes nothing: that is the idle one, or gone. */
static void slow_heard(const peer_link *l)
{
    total.idle++;
    for (uint32_t i = 0; i < CLIENTS; i++)
        for (uint32_t j = 0; j < clients[i].places && clients[i].connected && !clients[i].broker; j++)
            HOLDS(clients[i].links[j].name != l->name || clients[i].links[j].state == DETACHED
                  || clients[i].taker == IDLE_TAKER, "client %u, who takes something, loses link %u", i, j);
}

static void taker_waits(client *k, uint64_t until)
{
    k->deaf_until = until;
    k->deaths = total.worker_deaths + total.core_deaths;
}

/* A link of a link route by which it is to get all that it likes.  False: it has none, or one already. */
static bool taker_grants(client *k)
{
    for (uint32_t i = 0; i < k->places; i++) if (k->links[i].state == ATTACHED && k->links[i].fed) return false;
    for (uint32_t i = 0; i < k->places; i++) {
        peer_link *l = &k->links[i];
        if (l->state != ATTACHED || !l->receives || l->address != ROUTED || k->got_count) continue;
        l->fed = true;
        l->lane.drain = false;
        lane_grant(&l->lane, FED);
        say_flow(k, l);
        return true;
    }
    return false;
}

/* The first of what it has got over the link route, accepted.  False: it has nothing of that. */
static bool taker_answers(client *k)
{
    delivery_known *first = NULL;
    for (uint32_t i = 0; i < OUTSTANDING && k->got_count; i++) {
        delivery_known *g = &k->got[i];
        if (!g->used || g->over || k->links[g->link].address != ROUTED) continue;
        if (!first || (int32_t) (g->id - first->id) < 0) first = g;
    }
    if (!first) return false;
    message_said(first->number, S_ACCEPTED);
    say_disposition(k, true, true, first->id, S_ACCEPTED);
    known_end(first, &k->got_count);
    return true;
}

/* Whether the router holds up a session for the idle one alone, after all that time.  The slow one may still. */
static void session_check(const client *idle)
{
    for (uint32_t i = 0; i < CLIENTS; i++)
        if (clients[i].connected && clients[i].taker == SLOW_TAKER && clients[i].deaf_until) return;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        const client *k = &clients[i];
        if (!k->connected || !k->broker || k->s.out_window) continue;
        for (uint32_t j = 0; j < k->places; j++) {
            const peer_link *l = &k->links[j];
            bool theirs = l->state != ATTACHED;
            for (uint32_t own = 0; own < idle->places && !theirs; own++) theirs = idle->links[own].name == l->name;
            HOLDS(theirs, "link %u of a link route stands still because another one's receiver takes nothing", l->name);
        }
    }
}

/* True: it has done what it does.  False: it does what all do. */
static bool taker_step(client *k, bool *done)
{
    *done = false;
    if (!k->taker || !k->begun || !may_say(k)) return false;
    if (virtual_now < k->deaf_until) return true;
    const bool undisturbed = k->deaths == total.worker_deaths + total.core_deaths;
    if (k->taker == IDLE_TAKER && k->deaf_until && undisturbed) session_check(k);
    k->deaf_until = 0;
    if (leaving) return false;
    if (taker_grants(k)) {
        taker_waits(k, virtual_now + (k->taker == IDLE_TAKER ? DEAF_NS : 1));
        return *done = true;
    }
    if (k->taker == IDLE_TAKER) return false;
    *done = client_hears(k);
    if (!k->connected || !may_say(k)) return true;
    *done |= client_due(k);
    if (!taker_answers(k)) return *done;
    taker_waits(k, virtual_now + PAUSE_NS);
    return *done = true;
}

/* A broker sends what it can to those. */
static bool broker_feeds(client *k)
{
    bool did = false;
    for (uint32_t i = 0; i < k->places; i++) {
        peer_link *l = &k->links[i];
        for (int n = 0; n < FED_AT_ONCE && may_say(k); n++) {
            if (l->state != ATTACHED || l->receives || l->lane.credit <= LARGEST_GRANT || !sender_sends(k, l)) break;
            did = true;
        }
    }
    return did;
}

#endif
