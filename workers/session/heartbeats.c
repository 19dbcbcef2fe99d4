/* Idle timeouts of connections whose octets go past the engine's transport (AMQP 1.0 part 2.4.5). */
#include "workers/session/session.h"
#include "workers/transport/transport.h"

/* Before the transport's idle timeout is looked at: it counts its own octets, so it gets an empty frame. */
PRIVATE void lane_pulse(lane_connection *l)
{
    static const char empty[] = { 0, 0, 0, LANE_FRAME_HEAD, 2, 0, 0, 0 };
    if (!l->heard) return;
    l->heard = false;
    l->ticking = true;
    (void) pn_transport_push(l->transport, empty, sizeof empty);
    l->ticking = false;
}

/* Whether the peer needs no heartbeat: it has had frames of which the transport does not know.  They are not older than
 * half of the time to the next heartbeat, so that the peer waits for no longer than three quarters of its timeout. */
PRIVATE bool heartbeat_spared(const lane_connection *l)
{
    return l->bare && l->p->now_ms - l->said_ms < pn_transport_get_remote_idle_timeout(l->transport) / 4;
}
