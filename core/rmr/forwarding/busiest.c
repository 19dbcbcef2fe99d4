/* The busiest entries of a route table.  The core examines the table in portions between its turns.
 *
 *   begun --route_busiest_step: more slots--> … --route_busiest_step: true--> rows complete; the next step starts over
 */
#include "core/rmr/forwarding/active_tables.h"

#ifndef ROUTE_BUSIEST_CHUNK
#define ROUTE_BUSIEST_CHUNK (1u << 17) /* slots of one portion: 2 MiB, some 0.2 ms */
#endif

static uint64_t route_key_turns(const route_table *t, const route_slot *s)
{
    uint64_t turns = 0;
    if (!(s->target & ROUTE_SPECIAL)) return route_slot_turns(t, s);
    for (uint32_t i = s->target & ~ROUTE_SPECIAL; i != ROUTE_NONE; i = t->special[i].next) turns += t->special[i].turn;
    return turns;
}

static void route_busiest_take(route_busiest *b, const route_slot *s, uint64_t turns)
{
    uint32_t place = b->count < ROUTE_BUSIEST_ROWS ? b->count++ : b->least;
    b->row[place] = (route_busiest_row) {s->type, s->subscription, turns};
    for (uint32_t i = b->least = 0; i < b->count; i++)
        if (b->row[i].turns < b->row[b->least].turns) b->least = i;
}

GLUE bool route_busiest_step(const route_table *t, route_busiest *b)
{
    if (!b->at) b->count = b->least = 0;
    for (uint32_t n = 0; n < ROUTE_BUSIEST_CHUNK && b->at <= t->mask; n++) {
        const route_slot *s = &t->slot[b->at++];
        if (s->target == ROUTE_FREE) continue;
        uint64_t turns = route_key_turns(t, s);
        if (turns && (b->count < ROUTE_BUSIEST_ROWS || turns > b->row[b->least].turns)) route_busiest_take(b, s, turns);
    }
    if (b->at <= t->mask) return false;
    b->at = 0;
    return true;
}
