/* The engine's own SASL, for clients that keep the order of its frames: init --> responses.
 *
 * Cyrus SASL crashes when it is asked to go on with an exchange that has not begun, and the engine asks it whatever a
 * client says.  A frame out of order fails the login.  Exchanges that the engine does not answer have an order of their
 * own (relay.c).
 */
#include "workers/transport/transport.h"

extern const pnx_sasl_implementation *const cyrus_sasl_impl;   /* NULL: the engine has been built without it */
static pnx_sasl_implementation orderly;

static void orderly_fail(pn_transport_t *t)
{
    pn_sasl_done(pn_sasl(t), PN_SASL_AUTH);
    pnx_sasl_set_desired_state(t, SASL_POSTED_OUTCOME);
}

/* `mechanism`: NULL if the client has sent no symbol. */
static void orderly_init(pn_transport_t *t, const char *mechanism, const pn_bytes_t *said)
{
    if (mechanism) cyrus_sasl_impl->process_init(t, mechanism, said);
    else orderly_fail(t);
}

static void orderly_response(pn_transport_t *t, const pn_bytes_t *said)
{
    if (pnx_sasl_get_selected_mechanism(t)) cyrus_sasl_impl->process_response(t, said);
    else orderly_fail(t);
}

/* Has the transports of this process use it. */
PRIVATE void orderly_install(void)
{
    if (!cyrus_sasl_impl) return;
    orderly = *cyrus_sasl_impl;
    orderly.process_init = orderly_init;
    orderly.process_response = orderly_response;
    pnx_sasl_set_default_implementation(&orderly);
}
