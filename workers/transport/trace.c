/* Protocol trace: a line describes each frame of a traced connection in the engine's words, and Python logs it.
 *
 * The log's level of the module PROTOCOL (pump.tracing) decides for connections without a setting of their own.  An
 * untraced connection costs a check of one pointer per frame.  Framed connections pass their frames themselves.
 *
 * Prohibited: giving the engine malformed octets to describe.  It reads beyond them.
 */
#include <stdio.h>

#include "workers/transport/transport.h"
#include "workers/state/session.h"

typedef struct pn_logger_t pn_logger_t;

enum { PN_SUBSYSTEM_AMQP = 8, PN_LEVEL_FRAME = 64 };

extern pn_logger_t *pn_transport_logger(pn_transport_t *transport);
extern void pni_logger_log_msg_frame(pn_logger_t *logger, int subsystem, int level, pn_bytes_t frame,
                                     const char *format, ...);

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

/* Whether the engine may describe a frame, of which `there` octets have come.  If not, our own line says it came. */
PRIVATE bool trace_sound(const worker_connection *c, const uint8_t *octets, size_t there)
{
    char line[80];
    size_t size = lane_frame_size(octets, there, UINT32_MAX);
    if (!size || size == AMQP_WRONG || size > there || octets[4] * 4u < LANE_FRAME_HEAD || octets[4] * 4u > size)
        return true;                                            /* no frame: it describes none */
    if (octets[4] * 4u == size || lane_value_sound(octets + octets[4] * 4u, octets + size) != AMQP_WRONG) return true;
    snprintf(line, sizeof line, "FRAME: %u <- (MALFORMED FRAME of %zu octets)", be16(octets + 6), size);
    trace_line(c->transport, line);
    return false;
}

/* A frame that has come or goes, as a whole. */
PRIVATE void trace_octets(const worker_connection *c, bool sent, const uint8_t *octets, size_t size)
{
    char line[80];
    size_t head = octets[4] * 4u;
    uint16_t channel = be16(octets + 6);
    if (head > size || !trace_sound(c, octets, size)) return;
    if (head == size) {
        snprintf(line, sizeof line, "FRAME: %u %s (EMPTY FRAME)", channel, sent ? "->" : "<-");
        trace_line(c->transport, line);
        return;
    }
    pn_bytes_t frame = { size - head, (const char *) octets + head };
    pni_logger_log_msg_frame(pn_transport_logger(c->transport), PN_SUBSYSTEM_AMQP, PN_LEVEL_FRAME, frame, "%u %s ",
                             channel, sent ? "->" : "<-");
}

/* Nobody is left to say whose frames these are. */
PRIVATE inline void trace_end(worker_connection *c)
{
    c->tracer = NULL;
    pn_transport_trace(c->transport, PN_TRACE_OFF);
}
