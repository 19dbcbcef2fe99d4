/* The states of deliveries as octets: the peer's as it said them, and those that we say (AMQP 1.0 part 3.4). */
#include <stddef.h>
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

#define STATES_MOST (16u << 20)        /* octets of a connection's long states */

/* A long state is kept once for deliveries of a connection that have it one after the other. */
struct long_state {
    lane_connection *connection;
    uint32_t uses, size;
    uint8_t octets[];
};

static long_state *long_state_of(uint8_t *octets)
{
    return (long_state *) (void *) (octets - offsetof(long_state, octets));
}

static void long_state_leave(long_state *s)
{
    if (!s || --s->uses) return;
    s->connection->states -= s->size;
    pump_keeps(s->connection->p, -(int64_t) s->size);
    free(s);
}

static long_state *long_state_new(lane_connection *l, uint32_t size)
{
    long_state *s = (long_state *) memory_for(NULL, sizeof *s + size);
    *s = (long_state) { .connection = l, .uses = 1, .size = size };
    l->states += size;
    pump_keeps(l->p, size);
    return s;
}

static lane_connection *connection_of(const delivery *d) { return d->link->session->connection; }

/* Whether its connection has room for a state of so many octets.  Without it, an outcome loses its fields, and another
 * state does not pass: a peer that settles nothing could have as many of them as there are blocks. */
PRIVATE bool delivery_may_say(const delivery *d, uint32_t size)
{
    return size <= sizeof d->said || connection_of(d)->states + size <= STATES_MOST;
}

/* A state for another delivery: the last one, if that has the same octets, or else a new one, which is the last from
 * now on. */
static uint8_t *long_state_take(lane_connection *l, long_state **last, const uint8_t *octets, uint32_t size)
{
    if (!*last || (*last)->size != size || memcmp((*last)->octets, octets, size)) {
        long_state *s = long_state_new(l, size);
        memcpy(s->octets, octets, size);
        long_state_leave(*last);
        *last = s;
    }
    (*last)->uses++;
    return (*last)->octets;
}

/* No other delivery is going to have the connection's last long states. */
PRIVATE void long_states_end(lane_connection *l)
{
    long_state_leave(l->last_said);
    long_state_leave(l->last_heard);
    l->last_said = l->last_heard = NULL;
}

/* Forgets what our state says besides its code. */
PRIVATE inline void state_forget(delivery *d)
{
    if (!d->local) return;
    if (d->local != d->said) long_state_leave(long_state_of(d->local));
    d->local = NULL;
    d->local_size = 0;
}

/* Keeps a long state of ours, which has been written, once for those that say it. */
PRIVATE void state_share(delivery *d)
{
    if (!d->local || d->local == d->said) return;
    long_state *own = long_state_of(d->local);
    d->local = long_state_take(connection_of(d), &connection_of(d)->last_said, d->local, d->local_size);
    long_state_leave(own);
}

/* Room for the octets of our state, which the caller writes. */
PRIVATE uint8_t *delivery_say_room(delivery *d, uint32_t code, uint32_t size)
{
    state_forget(d);
    d->laden = true;
    d->local = size <= sizeof d->said ? d->said : long_state_new(connection_of(d), size)->octets;
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

/* Forgets the octets of the peer's state that are not in the delivery. */
PRIVATE void state_unmake(delivery *d)
{
    if (d->state_made) long_state_leave(long_state_of(d->state_made));
    d->state_made = NULL;
}

/* What others may get of a peer's state that says more than its code does: an outcome whose fields are none of it loses
 * them, another such state is none.  False: it names a transaction, and without that it would say something else. */
__attribute__((noinline)) static bool state_fit_long(amqp_value *state)
{
    const uint32_t code = lane_state_code(*state);
    const bool sound = lane_state_sound(*state);
    if (sound && lane_state_typed(*state)) return true;
    if (code == LANE_TRANSACTIONAL || code == LANE_DECLARED) return false;
    const bool outcome = sound && code >= LANE_ACCEPTED && code <= LANE_MODIFIED;
    *state = (amqp_value) { outcome ? plain_states[code - LANE_ACCEPTED] : NULL, outcome ? sizeof *plain_states : 0 };
    return true;
}

/* Makes a state of a frame what others may get of it, before it is compared and kept.  False: it is a fault. */
PRIVATE inline bool state_fit(amqp_value *state)
{
    const uint8_t *at = state->at;
    if (!at) return true;
    if (__builtin_expect(!*at && state_bare(at, (uint32_t) state->size) && at[2] >= LANE_ACCEPTED
                         && at[2] <= LANE_MODIFIED, 1)) return true;
    return state_fit_long(state);
}

/* Keeps the peer's state.  Some senders say the same with each TRANSFER of a delivery. */
__attribute__((noinline)) static void state_keep(delivery *d, amqp_value state)
{
    if (d->state_code && d->state_size == state.size && !memcmp(d->state, state.at, state.size)) return;
    if (!delivery_may_say(d, (uint32_t) state.size)) {
        const uint32_t code = lane_state_code(state);
        if (code < LANE_ACCEPTED || code > LANE_MODIFIED) return;
        state = (amqp_value) { plain_states[code - LANE_ACCEPTED], sizeof *plain_states };
    }
    uint32_t size = (uint32_t) state.size;
    lane_connection *l = connection_of(d);
    uint8_t *made = size > sizeof d->small ? long_state_take(l, &l->last_heard, state.at, size) : NULL;
    state_unmake(d);
    d->state_made = made;
    if (!made) memcpy(d->small, state.at, size);
    d->state = made ? made : d->small;
    d->state_size = size;
    d->state_code = lane_state_code(state);
    d->laden = d->updated = true;
}

/* Whether a state says nothing new. */
PRIVATE bool state_same(const delivery *d, amqp_value state)
{
    return !state.at || (d->state && d->state_size == state.size && !memcmp(d->state, state.at, state.size));
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
