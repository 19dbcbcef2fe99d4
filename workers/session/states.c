/* The states of deliveries as octets: the peer's as it said them, and those that we say (AMQP 1.0 part 3.4). */
#include <stdlib.h>
#include <string.h>

#include "shm/codec/outcome.h"
#include "workers/session/session.h"

#define PLAIN(code) { AMQP_DESCRIBED, AMQP_SMALLULONG, code, AMQP_LIST0 }    /* a state without fields */

/* Whether a state says no more than its code does, in the shortest form. */
PRIVATE inline bool state_bare(const uint8_t *octets, uint32_t size)
{
    return size == 4 && octets[1] == AMQP_SMALLULONG && octets[3] == AMQP_LIST0;
}

/* Forgets what our state says besides its code. */
PRIVATE inline void state_forget(delivery *d)
{
    if (!d->local) return;
    if (d->local != d->said) free(d->local);
    d->local = NULL;
    d->local_size = 0;
}

/* Room for the octets of our state, which the caller writes. */
PRIVATE uint8_t *delivery_say_room(delivery *d, uint32_t code, uint32_t size)
{
    state_forget(d);
    d->laden = true;
    d->local = size <= sizeof d->said ? d->said : (uint8_t *) memory_for(NULL, size);
    d->local_size = size;
    d->local_code = code;
    return d->local;
}

/* Our state is these octets. */
PRIVATE void delivery_say(delivery *d, uint32_t code, const uint8_t *octets, uint32_t size)
{
    memcpy(delivery_say_room(d, code, size), octets, size);
}

/* Our state has no fields. */
PRIVATE void delivery_say_bare(delivery *d, uint32_t code)
{
    uint8_t made[12] = { AMQP_DESCRIBED }, *at;
    if (code == LANE_OTHER) { state_forget(d); return; }           /* its name is lost: there is nothing to say */
    at = amqp_put(made + 1, code <= UINT8_MAX ? AMQP_SMALLULONG : AMQP_ULONG, code);
    *at++ = AMQP_LIST0;
    delivery_say(d, code, made, (uint32_t) (at - made));
}

/* Our state is modified (delivery-failed). */
PRIVATE void delivery_fail(delivery *d)
{
    static const uint8_t failed[] = { AMQP_DESCRIBED, AMQP_SMALLULONG, LANE_MODIFIED, AMQP_LIST8, 2, 1, AMQP_TRUE };
    delivery_say(d, LANE_MODIFIED, failed, sizeof failed);
}

/* Our state is rejected, with this error. */
PRIVATE void delivery_reject(delivery *d, const char *name, const char *description)
{
    uint8_t made[OUTCOME_MAX];
    delivery_say(d, LANE_REJECTED, made, outcome_rejected(made, name, description));
    delivery_update(d, LANE_REJECTED);
}

static const uint8_t plain_states[][4] = { PLAIN(LANE_ACCEPTED), PLAIN(LANE_REJECTED), PLAIN(LANE_RELEASED),
                                           PLAIN(LANE_MODIFIED) };

/* Our state as octets; none: no state. */
PRIVATE inline amqp_value state_said(const delivery *d)
{
    if (__builtin_expect(d->laden, 0) && d->local) return (amqp_value) { d->local, d->local_size };
    if (d->local_code < LANE_ACCEPTED || d->local_code > LANE_MODIFIED) return (amqp_value) { NULL, 0 };
    return (amqp_value) { plain_states[d->local_code - LANE_ACCEPTED], sizeof *plain_states };
}

/* Keeps the peer's state, if it is sound.  Some senders say the same with each TRANSFER of a delivery. */
__attribute__((noinline)) static void state_keep(delivery *d, amqp_value state)
{
    if (d->state_code && d->state_size == state.size && !memcmp(d->state, state.at, state.size)) return;
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
