/* The frames of a login, before the engine gets them (AMQP 1.0 part 5.3): of SASL's type, in their order, and no larger
 * than any peer takes, if they are relayed.
 *
 *   a client says   init, of a mechanism --> responses
 *   a server says   mechanisms --> challenges --> outcome
 *
 * The engine takes whatever comes: an OPEN or ATTACH of a client that has not logged in; a response to no question, at
 * which Cyrus SASL crashes; another init, for which the memory of the last one is lost.
 */
#include "workers/session/session.h"
#include "workers/transport/transport.h"

/* Whether the engine may have the frame that begins here.  Of what is no frame, or not the whole of one, it says so, or
 * waits.  A login that is decided has no more frames. */
PRIVATE bool lane_orderly(lane_connection *l, const uint8_t *octets, size_t there)
{
    lane_frame f;
    size_t size = lane_frame_size(octets, there, UINT32_MAX);
    if (!size || size == AMQP_WRONG || pn_sasl_outcome(pn_sasl(l->transport)) != PN_SASL_NONE) return true;
    if (size > SASL_FRAME_MOST && relay_passes(l->c)) return false;
    if (size > there) return true;
    enum lane_fault fault = lane_sasl_read(octets, size, &f);
    if (fault == LANE_FRAMING || (fault == LANE_FINE && !f.performative)) return true;
    if (fault != LANE_FINE) return false;
    switch (f.performative) {
    case LANE_SASL_INIT:
    case LANE_SASL_MECHANISMS:
        if (l->begun || l->c->dialled != (f.performative == LANE_SASL_MECHANISMS)) return false;
        l->begun = true;
        return l->c->dialled || amqp_is_symbol(amqp_code_of(amqp_next(&f.fields.items)));
    case LANE_SASL_RESPONSE: return l->begun && !l->c->dialled;
    case LANE_SASL_CHALLENGE:
    case LANE_SASL_OUTCOME: return l->begun && l->c->dialled;
    default: return false;
    }
}

/* Ends a login with a frame that is not orderly. */
PRIVATE void lane_disorder(lane_connection *l)
{
    relay *r = l->c->relay;
    if (l->c->dialled) {
        if (r) relay_refuse(r, PN_SASL_TEMP, "the service's SASL exchange is malformed");
        layers_fail(l, "amqp:connection:framing-error", "the server's SASL frames are out of order");
    } else if (r) {
        relay_refuse(r, PN_SASL_AUTH, "the client's SASL exchange is malformed");
    } else {
        pn_sasl_done(pn_sasl(l->transport), PN_SASL_AUTH);
        pnx_sasl_set_desired_state(l->transport, SASL_POSTED_OUTCOME);
    }
}
