/* A sender's state of a delivery that has not begun here: it goes with the delivery's first transfer.
 *
 * A transfer may carry a state (AMQP 1.0 part 2.7.5).  The state arrives after the SEND, while the delivery waits for
 * credit or for others, so the last state and its payload are kept with the delivery until it begins or ends.
 */
#include <stdlib.h>

#include "workers/amqp/amqp.h"
#include "shm/record.h"
#include "workers/state/engine.h"
#include "workers/state/pump.h"

PRIVATE inline void early_drop(pump *p, wout *o)
{
    if (o->early->extra & D_PAYLOAD) payload_done(p, o->early->arena, o->early->block);
    free(o->early);
    o->early = NULL;
}

PRIVATE inline void early_keep(pump *p, wout *o, const routerd_record *r)
{
    if (o->early) early_drop(p, o);
    o->early = (routerd_record *) malloc(sizeof *r);
    if (o->early) *o->early = *r;
    else if (r->extra & D_PAYLOAD) payload_done(p, r->arena, r->block);
}

PRIVATE inline void early_tell(pump *p, wout *o)
{
    disposition_write(p, o->engine, o->early);
    pn_delivery_update(o->engine, o->early->state);
    early_drop(p, o);
}
