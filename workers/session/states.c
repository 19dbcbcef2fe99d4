/* The states of deliveries as octets: the peer's as it said them, and those that we say (AMQP 1.0 part 3.4). */
#include <stdlib.h>
#include <string.h>

#include "workers/session/session.h"

#define PLAIN(code) { AMQP_DESCRIBED, AMQP_SMALLULONG, code, AMQP_LIST0 }    /* a state without fields */

/* The value behind a state's descriptor. */
PRIVATE amqp_value state_fields(amqp_value state)
{
    amqp_value none = { NULL, 0 };
    if (!state.at || *state.at != AMQP_DESCRIBED) return none;
    amqp_value code = amqp_take(state.at + 1, state.at + state.size, 0);
    return amqp_take(code.at + code.size, state.at + state.size, AMQP_DEPTH);
}

/* Forgets what our state says besides its code. */
PRIVATE inline void state_forget(delivery *d)
{
    if (!d->local) return;
    free(d->local);
    d->local = NULL;
    d->local_size = 0;
}

/* Our state is these octets. */
PRIVATE void delivery_say(delivery *d, uint32_t code, const uint8_t *octets, uint32_t size)
{
    uint8_t *copy = (uint8_t *) memory_for(NULL, size);
    memcpy(copy, octets, size);
    state_forget(d);
    d->laden = true;
    d->local = copy;
    d->local_size = size;
    d->local_code = code;
}

/* Our state has this list, which is encoded already; size 0: an empty one. */
PRIVATE void delivery_say_fields(delivery *d, uint32_t code, const uint8_t *list, uint32_t size)
{
    uint8_t empty = AMQP_LIST0, *made = (uint8_t *) memory_for(NULL, 10 + size + 1), *at = made;
    if (code <= UINT8_MAX) at = amqp_put_descriptor(at, (uint8_t) code);
    else { *at++ = AMQP_DESCRIBED; at = amqp_put(at, AMQP_ULONG, code); }
    memcpy(at, size ? list : &empty, size ? size : 1);
    delivery_say(d, code, made, (uint32_t) (at - made) + (size ? size : 1));
    free(made);
}

/* Our state has these items, as many as `count`. */
PRIVATE void delivery_say_list(delivery *d, uint32_t code, const uint8_t *items, uint32_t size, uint32_t count)
{
    uint8_t *made = (uint8_t *) memory_for(NULL, 9 + size);
    uint8_t *at = count ? amqp_put_shortest_items_head(made, AMQP_LIST8, size, count) : amqp_put(made, AMQP_LIST0, 0);
    if (size) memcpy(at, items, size);
    delivery_say_fields(d, code, made, (uint32_t) (at - made) + size);
    free(made);
}

/* Our state is rejected, with this error. */
PRIVATE void delivery_reject(delivery *d, const char *name, const char *description)
{
    uint8_t made[1024], *list = amqp_put_descriptor(made, LANE_ERROR), *at = list + 9;
    at = amqp_put_shortest(at, AMQP_SYMBOL8, name, (uint32_t) strnlen(name, 255));
    at = amqp_put_shortest(at, AMQP_STRING8, description, (uint32_t) strnlen(description, 600));
    amqp_put_items_head(list, AMQP_LIST32, (uint32_t) (at - list - 9), 2);
    delivery_say_list(d, LANE_REJECTED, made, (uint32_t) (at - made), 1);
    delivery_update(d, LANE_REJECTED);
}

static const uint8_t plain_states[][4] = { PLAIN(LANE_ACCEPTED), PLAIN(LANE_REJECTED), PLAIN(LANE_RELEASED),
                                           PLAIN(LANE_MODIFIED) };

/* Our state as octets; none: no state. */
PRIVATE inline amqp_value state_said(const delivery *d)
{
    if (!d->local_code) return (amqp_value) { NULL, 0 };
    if (__builtin_expect(d->laden, 0) && d->local) return (amqp_value) { d->local, d->local_size };
    if (d->local_code < LANE_ACCEPTED || d->local_code > LANE_MODIFIED) return (amqp_value) { NULL, 0 };
    return (amqp_value) { plain_states[d->local_code - LANE_ACCEPTED], sizeof *plain_states };
}

/* Keeps the peer's state, if it is sound. */
__attribute__((noinline)) static void state_keep(delivery *d, amqp_value state)
{
    if (!lane_state_sound(state)) return;
    free(d->state_made);
    d->state_made = state.size > sizeof d->small ? (uint8_t *) memory_for(NULL, state.size) : NULL;
    uint8_t *at = d->state_made ? d->state_made : d->small;
    memcpy(at, state.at, state.size);
    d->state = at;
    d->state_size = (uint32_t) state.size;
    d->state_code = lane_state_code(state);
    d->laden = d->updated = true;
}

PRIVATE inline void state_note(delivery *d, amqp_value state)
{
    const uint8_t *accepted = plain_states[0];
    if (!state.at) return;
    if (__builtin_expect(state.size != sizeof *plain_states || memcmp(state.at, accepted, sizeof *plain_states), 0)) {
        state_keep(d, state);
        return;
    }
    d->state = accepted;
    d->state_size = sizeof *plain_states;
    d->state_code = LANE_ACCEPTED;
    d->updated = true;
}
