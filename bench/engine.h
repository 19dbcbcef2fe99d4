/* Prototypes of the AMQP engine's functions that the load client calls and the router does not: deliveries and credit.
 */
#ifndef BENCH_ENGINE_H
#define BENCH_ENGINE_H

#include "workers/state/engine.h"

typedef struct pn_delivery_t pn_delivery_t;

enum { PN_DELIVERY = 28, PN_TRANSPORT_ERROR = 31, PN_TRANSPORT_CLOSED = 34 };   /* pn_event_type_t */
enum { PN_ACCEPTED = 0x24 };           /* the first terminal outcome (AMQP 1.0 part 3.4) */

size_t pn_session_outgoing_bytes(pn_session_t *session);

int pn_link_credit(pn_link_t *link);
void pn_link_flow(pn_link_t *receiver, int credit);
bool pn_link_advance(pn_link_t *link);
ssize_t pn_link_send(pn_link_t *sender, const char *bytes, size_t size);
ssize_t pn_link_recv(pn_link_t *receiver, char *bytes, size_t size);

pn_delivery_t *pn_delivery(pn_link_t *link, pn_bytes_t tag);
bool pn_delivery_readable(pn_delivery_t *delivery);
bool pn_delivery_partial(pn_delivery_t *delivery);
bool pn_delivery_aborted(pn_delivery_t *delivery);
bool pn_delivery_settled(pn_delivery_t *delivery);
uint64_t pn_delivery_remote_state(pn_delivery_t *delivery);
void pn_delivery_update(pn_delivery_t *delivery, uint64_t state);
void pn_delivery_settle(pn_delivery_t *delivery);

pn_session_t *pn_event_session(pn_event_t *event);
pn_link_t *pn_event_link(pn_event_t *event);
pn_delivery_t *pn_event_delivery(pn_event_t *event);

#endif
