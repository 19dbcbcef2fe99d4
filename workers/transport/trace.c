/* Protocol trace: the engine describes each frame of a traced connection in a line, and Python logs it.
 *
 * The log's level of the module PROTOCOL (pump.tracing) decides for connections without a setting of their own.  An
 * untraced connection costs the engine a check of one flag per frame.  Framed connections pass their frames themselves.
 */
#include "workers/transport/transport.h"

static bool trace_wanted(const pump *p, const worker_connection *c)
{
    return c->trace == TRACE_ON || (c->trace == TRACE_AS_LOGGED && p->tracing);
}

static void trace_line(pn_transport_t *transport, const char *line)
{
    worker_connection *c = (worker_connection *) pn_transport_get_context(transport);
    if (c && c->tracer) c->tracer->on_event(c->tracer->self, EV_TRACE, c, NULL, (void *) line, NULL);
}

/* Begin or stop, as is wanted now. */
GLUE void trace_apply(pump *p, worker_connection *c)
{
    bool wanted = trace_wanted(p, c);
    if ((!c->transport && !c->framed) || wanted == (c->tracer != NULL)) return;
    c->tracer = wanted ? p : NULL;
    if (c->framed) return;  /* the framed protocol traces its frames itself, by `tracer` */
    if (wanted) {
        pn_transport_set_context(c->transport, c);
        pn_transport_set_tracer(c->transport, trace_line);
    }
    pn_transport_trace(c->transport, wanted ? PN_TRACE_FRM : PN_TRACE_OFF);
}

/* The log's level has changed. */
GLUE void trace_all(pump *p, bool tracing)
{
    if (p->tracing == tracing) return;
    p->tracing = tracing;
    for (uint32_t i = 0; i < p->conns.high; i++) {
        worker_connection *c = (worker_connection *) pool_at(&p->conns, i);
        if (c->slot.next_free == SLOT_USED) trace_apply(p, c);
    }
}

PRIVATE inline void trace_frame(worker_connection *c, frame_seen *seen)
{
    if (seen->payload_length > FRAME_SEEN_PAYLOAD) seen->payload_length = FRAME_SEEN_PAYLOAD;
    c->tracer->on_event(c->tracer->self, EV_TRACE, c, NULL, seen, NULL);
}

/* Nobody is left to say whose frames these are. */
PRIVATE inline void trace_end(worker_connection *c)
{
    c->tracer = NULL;
    pn_transport_trace(c->transport, PN_TRACE_OFF);
}
