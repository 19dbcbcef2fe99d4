/* The functions of the proton engine that the load client calls.
 *
 * The engine is the one inside python-qpid-proton: its extension module exports every pn_* symbol.  The
 * package ships no headers, so the prototypes are repeated here; nothing is linked, the symbols resolve when
 * the extension is imported after the engine was loaded with RTLD_GLOBAL.  A unit test compares what can be
 * compared with the signatures and constants the engine itself publishes.
 */
#ifndef BENCH_ENGINE_H
#define BENCH_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct pn_collector_t pn_collector_t;
typedef struct pn_condition_t pn_condition_t;
typedef struct pn_connection_t pn_connection_t;
typedef struct pn_delivery_t pn_delivery_t;
typedef struct pn_event_t pn_event_t;
typedef struct pn_link_t pn_link_t;
typedef struct pn_sasl_t pn_sasl_t;
typedef struct pn_session_t pn_session_t;
typedef struct pn_terminus_t pn_terminus_t;
typedef struct pn_transport_t pn_transport_t;

typedef struct pn_bytes_t {
    size_t size;
    const char *start;
} pn_bytes_t;

enum {
    PN_CONNECTION_REMOTE_OPEN = 9,
    PN_CONNECTION_REMOTE_CLOSE = 11,
    PN_SESSION_REMOTE_OPEN = 15,
    PN_SESSION_REMOTE_CLOSE = 17,
    PN_LINK_REMOTE_OPEN = 21,
    PN_LINK_REMOTE_CLOSE = 23,
    PN_LINK_REMOTE_DETACH = 25,
    PN_LINK_FLOW = 26,
    PN_DELIVERY = 28,
    PN_TRANSPORT_ERROR = 31,
};

enum { PN_SND_UNSETTLED = 0, PN_SND_SETTLED = 1 };
enum { PN_UNSPECIFIED = 0 };
enum { PN_ACCEPTED = 0x24 };

pn_collector_t *pn_collector(void);
void pn_collector_free(pn_collector_t *collector);
pn_event_t *pn_collector_next(pn_collector_t *collector);
int pn_event_type(pn_event_t *event);
pn_session_t *pn_event_session(pn_event_t *event);
pn_link_t *pn_event_link(pn_event_t *event);
pn_delivery_t *pn_event_delivery(pn_event_t *event);

const char *pn_condition_get_name(pn_condition_t *condition);
const char *pn_condition_get_description(pn_condition_t *condition);

pn_connection_t *pn_connection(void);
void pn_connection_free(pn_connection_t *connection);
void pn_connection_collect(pn_connection_t *connection, pn_collector_t *collector);
void pn_connection_set_container(pn_connection_t *connection, const char *container);
void pn_connection_set_hostname(pn_connection_t *connection, const char *hostname);
void pn_connection_open(pn_connection_t *connection);
void pn_connection_close(pn_connection_t *connection);
pn_condition_t *pn_connection_remote_condition(pn_connection_t *connection);

pn_session_t *pn_session(pn_connection_t *connection);
void pn_session_open(pn_session_t *session);
size_t pn_session_outgoing_bytes(pn_session_t *session);

pn_link_t *pn_sender(pn_session_t *session, const char *name);
pn_link_t *pn_receiver(pn_session_t *session, const char *name);
void pn_link_open(pn_link_t *link);
void pn_link_close(pn_link_t *link);
bool pn_link_is_sender(pn_link_t *link);
int pn_link_credit(pn_link_t *link);
void pn_link_flow(pn_link_t *link, int credit);
bool pn_link_advance(pn_link_t *link);
ssize_t pn_link_send(pn_link_t *link, const char *bytes, size_t n);
ssize_t pn_link_recv(pn_link_t *link, char *bytes, size_t n);
void pn_link_set_snd_settle_mode(pn_link_t *link, int mode);
pn_terminus_t *pn_link_source(pn_link_t *link);
pn_terminus_t *pn_link_target(pn_link_t *link);
pn_terminus_t *pn_link_remote_source(pn_link_t *link);
pn_terminus_t *pn_link_remote_target(pn_link_t *link);
pn_condition_t *pn_link_remote_condition(pn_link_t *link);
int pn_terminus_copy(pn_terminus_t *terminus, pn_terminus_t *from);
int pn_terminus_get_type(pn_terminus_t *terminus);
int pn_terminus_set_address(pn_terminus_t *terminus, const char *address);

pn_delivery_t *pn_delivery(pn_link_t *link, pn_bytes_t tag);
pn_link_t *pn_delivery_link(pn_delivery_t *delivery);
bool pn_delivery_aborted(pn_delivery_t *delivery);
bool pn_delivery_partial(pn_delivery_t *delivery);
bool pn_delivery_readable(pn_delivery_t *delivery);
bool pn_delivery_settled(pn_delivery_t *delivery);
bool pn_delivery_updated(pn_delivery_t *delivery);
uint64_t pn_delivery_remote_state(pn_delivery_t *delivery);
void pn_delivery_settle(pn_delivery_t *delivery);
void pn_delivery_update(pn_delivery_t *delivery, uint64_t state);

pn_sasl_t *pn_sasl(pn_transport_t *transport);
void pn_sasl_allowed_mechs(pn_sasl_t *sasl, const char *mechs);

pn_transport_t *pn_transport(void);
void pn_transport_free(pn_transport_t *transport);
void pn_transport_set_server(pn_transport_t *transport);
int pn_transport_bind(pn_transport_t *transport, pn_connection_t *connection);
int pn_transport_unbind(pn_transport_t *transport);
bool pn_transport_closed(pn_transport_t *transport);
pn_condition_t *pn_transport_condition(pn_transport_t *transport);
ssize_t pn_transport_capacity(pn_transport_t *transport);
char *pn_transport_tail(pn_transport_t *transport);
int pn_transport_process(pn_transport_t *transport, size_t size);
int pn_transport_close_tail(pn_transport_t *transport);
ssize_t pn_transport_pending(pn_transport_t *transport);
const char *pn_transport_head(pn_transport_t *transport);
void pn_transport_pop(pn_transport_t *transport, size_t size);
int pn_transport_close_head(pn_transport_t *transport);
int64_t pn_transport_tick(pn_transport_t *transport, int64_t now_ms);

#endif
