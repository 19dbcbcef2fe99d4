/* What a sender says of a delivery before that is begun here: it goes with its first transfer.
 *
 * A transfer may carry a state (AMQP 2.7.5). It comes behind the SEND, and the delivery waits for credit, or behind
 * others: what was said last is kept with it, its payload included, until it is begun or over.
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
