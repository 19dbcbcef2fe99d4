/* A sender's state of a delivery that has not begun here: it goes with the delivery's first transfer.
 *
 * A transfer may carry a state (AMQP 1.0 part 2.7.5).  The state arrives after the SEND, while the delivery waits for
 * credit or for others, so the last state and its payload are kept with the delivery until it begins or ends.
 */
#include <stdlib.h>

#include "workers/amqp/amqp.h"

PRIVATE inline void initial_state_drop(pump *p, out_delivery *o)
{
    if (o->initial_state->extra & D_PAYLOAD) payload_done(p, o->initial_state->arena, o->initial_state->block);
    free(o->initial_state);
    o->initial_state = NULL;
}

PRIVATE inline void initial_state_keep(pump *p, out_delivery *o, const routerd_record *r)
{
    if (o->initial_state) initial_state_drop(p, o);
    o->initial_state = (routerd_record *) malloc(sizeof *r);
    if (o->initial_state) *o->initial_state = *r;
    else if (r->extra & D_PAYLOAD) payload_done(p, r->arena, r->block);
}

PRIVATE inline void initial_state_send(pump *p, out_delivery *o)
{
    disposition_write(p, o->delivery, o->initial_state);
    delivery_update(o->delivery, o->initial_state->state);
    initial_state_drop(p, o);
}
