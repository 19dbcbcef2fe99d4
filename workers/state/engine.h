/* Prototypes of the AMQP engine's functions that the pump calls: connections, sessions and links.  Deliveries and
 * credit are the data lane's (workers/session).
 *
 * The engine is the one inside python-qpid-proton: its extension module exports every pn_* symbol and is loaded with
 * RTLD_GLOBAL before the pump (see engine.py), so nothing is linked and no engine header is needed.
 * tests/unit/workers/test_engine.py compares each with the engine's own idea of its signature.
 */
#ifndef ROUTERD_WORKERS_ENGINE_H
#define ROUTERD_WORKERS_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct pn_connection_t pn_connection_t;
typedef struct pn_session_t pn_session_t;
typedef struct pn_link_t pn_link_t;
typedef struct pn_transport_t pn_transport_t;
typedef struct pn_terminus_t pn_terminus_t;
typedef struct pn_collector_t pn_collector_t;
typedef struct pn_condition_t pn_condition_t;
typedef struct pn_event_t pn_event_t;
typedef struct pn_sasl_t pn_sasl_t;
typedef struct pn_ssl_t pn_ssl_t;
typedef struct pn_ssl_domain_t pn_ssl_domain_t;
typedef struct pn_data_t pn_data_t;
typedef struct pn_bytes_t { size_t size; const char *start; } pn_bytes_t;
typedef void (*pn_tracer_t)(pn_transport_t *transport, const char *message);   /* a line about each frame */

enum {                                 /* pn_event_type_t: what the pump looks at */
    PN_CONNECTION_REMOTE_OPEN = 9, PN_CONNECTION_REMOTE_CLOSE = 11,
    PN_SESSION_REMOTE_OPEN = 15, PN_SESSION_REMOTE_CLOSE = 17,
    PN_LINK_REMOTE_OPEN = 21, PN_LINK_REMOTE_CLOSE = 23, PN_LINK_REMOTE_DETACH = 25
};
enum { PN_LOCAL_UNINIT = 1, PN_LOCAL_ACTIVE = 2, PN_LOCAL_CLOSED = 4, PN_REMOTE_UNINIT = 8, PN_REMOTE_ACTIVE = 16,
       PN_REMOTE_CLOSED = 32 };
enum { PN_SND_UNSETTLED = 0, PN_SND_SETTLED = 1, PN_SND_MIXED = 2 };
enum { PN_UNSPECIFIED = 0, PN_SOURCE = 1, PN_COORDINATOR = 3 };   /* pn_terminus_type_t */
enum { PN_EXPIRE_NEVER = 3 };          /* pn_expiry_policy_t */
enum {                                 /* pn_type_t */
    PN_NULL = 1, PN_BOOL = 2, PN_UBYTE = 3, PN_BYTE = 4, PN_USHORT = 5, PN_SHORT = 6, PN_UINT = 7, PN_INT = 8,
    PN_ULONG = 10, PN_LONG = 11, PN_FLOAT = 13, PN_DOUBLE = 14, PN_STRING = 20, PN_SYMBOL = 21, PN_DESCRIBED = 22,
    PN_ARRAY = 23, PN_LIST = 24, PN_MAP = 25
};
enum { PN_EOS = -1 };
enum { PN_TRACE_OFF = 0, PN_TRACE_FRM = 2 };   /* pn_trace_t */
enum { PN_SASL_NONE = -1, PN_SASL_OK = 0, PN_SASL_AUTH = 1, PN_SASL_SYS = 2, PN_SASL_TEMP = 4 }; /* pn_sasl_outcome_t */
enum { PN_SSL_MODE_CLIENT = 1, PN_SSL_MODE_SERVER = 2 };   /* pn_ssl_mode_t */
enum { PN_SSL_VERIFY_PEER = 1, PN_SSL_ANONYMOUS_PEER = 2, PN_SSL_VERIFY_PEER_NAME = 3 };   /* pn_ssl_verify_mode_t */
enum { PN_SSL_CERT_SUBJECT_COUNTRY_NAME = 0, PN_SSL_CERT_SUBJECT_STATE_OR_PROVINCE = 1,
       PN_SSL_CERT_SUBJECT_CITY_OR_LOCALITY = 2,
       PN_SSL_CERT_SUBJECT_ORGANIZATION_NAME = 3, PN_SSL_CERT_SUBJECT_ORGANIZATION_UNIT = 4,
       PN_SSL_CERT_SUBJECT_COMMON_NAME = 5 };
enum { PN_SSL_SHA1 = 0, PN_SSL_SHA256 = 1, PN_SSL_SHA512 = 2 };   /* pn_ssl_hash_alg */

pn_connection_t *pn_connection(void);
void pn_connection_free(pn_connection_t *connection);
void pn_connection_collect(pn_connection_t *connection, pn_collector_t *collector);
void pn_connection_open(pn_connection_t *connection);
void pn_connection_close(pn_connection_t *connection);
void pn_connection_set_container(pn_connection_t *connection, const char *container);
const char *pn_connection_remote_container(pn_connection_t *connection);
void pn_connection_set_hostname(pn_connection_t *connection, const char *hostname);
void pn_connection_set_user(pn_connection_t *connection, const char *user);
void pn_connection_set_password(pn_connection_t *connection, const char *password);
void pn_connection_set_context(pn_connection_t *connection, void *context);
void *pn_connection_get_context(pn_connection_t *connection);
pn_condition_t *pn_connection_condition(pn_connection_t *connection);
pn_condition_t *pn_connection_remote_condition(pn_connection_t *connection);
pn_link_t *pn_link_head(pn_connection_t *connection, int state);
pn_link_t *pn_link_next(pn_link_t *link, int state);

pn_transport_t *pn_transport(void);
void pn_transport_free(pn_transport_t *transport);
void pn_transport_set_context(pn_transport_t *transport, void *context);
void *pn_transport_get_context(pn_transport_t *transport);
const char *pn_transport_get_user(pn_transport_t *transport);
void pn_transport_trace(pn_transport_t *transport, int trace);
void pn_transport_set_tracer(pn_transport_t *transport, pn_tracer_t tracer);
void pn_transport_set_server(pn_transport_t *transport);
int pn_transport_bind(pn_transport_t *transport, pn_connection_t *connection);
int pn_transport_unbind(pn_transport_t *transport);
void pn_transport_set_max_frame(pn_transport_t *transport, uint32_t size);
int pn_transport_set_channel_max(pn_transport_t *transport, uint16_t channel_max);
uint16_t pn_transport_get_channel_max(pn_transport_t *transport);
void pn_transport_set_idle_timeout(pn_transport_t *transport, uint32_t milliseconds);
uint32_t pn_transport_get_remote_idle_timeout(pn_transport_t *transport);
void pn_transport_require_auth(pn_transport_t *transport, bool required);
ssize_t pn_transport_capacity(pn_transport_t *transport);
char *pn_transport_tail(pn_transport_t *transport);
int pn_transport_process(pn_transport_t *transport, size_t size);
int pn_transport_close_tail(pn_transport_t *transport);
ssize_t pn_transport_pending(pn_transport_t *transport);
const char *pn_transport_head(pn_transport_t *transport);
void pn_transport_pop(pn_transport_t *transport, size_t size);
ssize_t pn_transport_push(pn_transport_t *transport, const char *octets, size_t size);
int pn_transport_close_head(pn_transport_t *transport);
bool pn_transport_closed(pn_transport_t *transport);
int64_t pn_transport_tick(pn_transport_t *transport, int64_t now);
uint32_t pn_transport_get_max_frame(pn_transport_t *transport);
uint32_t pn_transport_get_remote_max_frame(pn_transport_t *transport);
pn_condition_t *pn_transport_condition(pn_transport_t *transport);
pn_sasl_t *pn_sasl(pn_transport_t *transport);
void pn_sasl_allowed_mechs(pn_sasl_t *sasl, const char *mechs);
int pn_sasl_outcome(pn_sasl_t *sasl);
void pn_sasl_set_allow_insecure_mechs(pn_sasl_t *sasl, bool insecure);
void pn_sasl_done(pn_sasl_t *sasl, int outcome);

enum {                                 /* pnx_sasl_state: what the engine is to say next */
    SASL_POSTED_INIT = 1, SASL_POSTED_MECHANISMS = 2, SASL_POSTED_RESPONSE = 3, SASL_POSTED_CHALLENGE = 4,
        SASL_POSTED_OUTCOME = 7
};
typedef struct pnx_sasl_implementation {   /* answers for the engine in a SASL exchange; all functions are required */
    void (*free)(pn_transport_t *);                              /* the last call; only with a context */
    const char *(*list_mechanisms)(pn_transport_t *);            /* blanks between */
    bool (*init_server)(pn_transport_t *);                       /* called again until mechanisms are to be said */
    bool (*init_client)(pn_transport_t *);                       /* before process_mechanisms */
    void (*prepare_write)(pn_transport_t *);                     /* before anything is written */
    void (*process_init)(pn_transport_t *, const char *, const pn_bytes_t *);   /* a client's, each time it comes */
    void (*process_response)(pn_transport_t *, const pn_bytes_t *);              /* a client's */
    bool (*process_mechanisms)(pn_transport_t *, const char *);                  /* a server's */
    void (*process_challenge)(pn_transport_t *, const pn_bytes_t *);             /* a server's */
    void (*process_outcome)(pn_transport_t *, const pn_bytes_t *);               /* a server's, in pn_sasl_outcome() */
    bool (*can_encrypt)(pn_transport_t *);                       /* from here on: security layers */
    ssize_t (*max_encrypt_size)(pn_transport_t *);               /* bytes */
    ssize_t (*encode)(pn_transport_t *, pn_bytes_t, pn_bytes_t *);               /* bytes made */
    ssize_t (*decode)(pn_transport_t *, pn_bytes_t, pn_bytes_t *);               /* bytes made */
} pnx_sasl_implementation;
void pnx_sasl_set_implementation(pn_transport_t *transport, const pnx_sasl_implementation *implementation,
                                 void *context);
void *pnx_sasl_get_context(pn_transport_t *transport);
void pnx_sasl_set_context(pn_transport_t *transport, void *context);
void pnx_sasl_set_desired_state(pn_transport_t *transport, int state);
void pnx_sasl_set_bytes_out(pn_transport_t *transport, pn_bytes_t bytes);
void pnx_sasl_set_selected_mechanism(pn_transport_t *transport, const char *mechanism);
void pnx_sasl_set_local_hostname(pn_transport_t *transport, const char *name);
void pnx_sasl_set_succeeded(pn_transport_t *transport, const char *user, const char *authorization);
const char *pnx_sasl_get_external_username(pn_transport_t *transport);   /* of the certificate; NULL: none */
bool pnx_sasl_is_mechanism_included(pn_transport_t *transport, pn_bytes_t mechanism);

void pn_transport_require_encryption(pn_transport_t *transport, bool required);
pn_ssl_t *pn_ssl(pn_transport_t *transport);
int pn_ssl_init(pn_ssl_t *ssl, pn_ssl_domain_t *domain, const char *session);

pn_session_t *pn_session(pn_connection_t *connection);
pn_condition_t *pn_session_condition(pn_session_t *session);
void pn_session_open(pn_session_t *session);
void pn_session_close(pn_session_t *session);
void pn_session_free(pn_session_t *session);
int pn_session_state(pn_session_t *session);
pn_session_t *pn_session_head(pn_connection_t *connection, int state);
pn_session_t *pn_session_next(pn_session_t *session, int state);
void pn_session_set_context(pn_session_t *session, void *context);
void *pn_session_get_context(pn_session_t *session);
pn_connection_t *pn_session_connection(pn_session_t *session);
int pn_session_set_incoming_window_and_lwm(pn_session_t *session, uint32_t window, uint32_t lwm);

pn_link_t *pn_sender(pn_session_t *session, const char *name);
pn_link_t *pn_receiver(pn_session_t *session, const char *name);
void pn_link_open(pn_link_t *link);
void pn_link_close(pn_link_t *link);
void pn_link_detach(pn_link_t *link);
void pn_link_free(pn_link_t *link);
int pn_link_state(pn_link_t *link);
bool pn_link_is_sender(pn_link_t *link);
const char *pn_link_name(pn_link_t *link);
pn_session_t *pn_link_session(pn_link_t *link);
void pn_link_set_context(pn_link_t *link, void *context);
void *pn_link_get_context(pn_link_t *link);
pn_terminus_t *pn_link_source(pn_link_t *link);
pn_terminus_t *pn_link_target(pn_link_t *link);
pn_terminus_t *pn_link_remote_source(pn_link_t *link);
pn_terminus_t *pn_link_remote_target(pn_link_t *link);
pn_condition_t *pn_link_condition(pn_link_t *link);
pn_condition_t *pn_link_remote_condition(pn_link_t *link);
void pn_link_set_snd_settle_mode(pn_link_t *link, int mode);

pn_data_t *pn_link_remote_properties(pn_link_t *link);

bool pn_terminus_is_dynamic(pn_terminus_t *terminus);
const char *pn_terminus_get_address(pn_terminus_t *terminus);
int pn_terminus_set_address(pn_terminus_t *terminus, const char *address);
int pn_terminus_get_type(pn_terminus_t *terminus);
uint32_t pn_terminus_get_timeout(pn_terminus_t *terminus);
bool pn_terminus_has_expiry_policy(pn_terminus_t *terminus);
int pn_terminus_get_expiry_policy(pn_terminus_t *terminus);
int pn_terminus_copy(pn_terminus_t *terminus, pn_terminus_t *source);
pn_data_t *pn_terminus_capabilities(pn_terminus_t *terminus);
pn_data_t *pn_terminus_properties(pn_terminus_t *terminus);
pn_data_t *pn_terminus_outcomes(pn_terminus_t *terminus);
pn_data_t *pn_terminus_filter(pn_terminus_t *terminus);

bool pn_condition_is_set(pn_condition_t *condition);
const char *pn_condition_get_name(pn_condition_t *condition);
int pn_condition_set_name(pn_condition_t *condition, const char *name);
const char *pn_condition_get_description(pn_condition_t *condition);
int pn_condition_set_description(pn_condition_t *condition, const char *description);

pn_collector_t *pn_collector(void);
void pn_collector_free(pn_collector_t *collector);
pn_event_t *pn_collector_next(pn_collector_t *collector);
pn_event_t *pn_collector_peek(pn_collector_t *collector);
bool pn_collector_pop(pn_collector_t *collector);
int pn_event_type(pn_event_t *event);
void *pn_event_context(pn_event_t *event);

void pn_data_clear(pn_data_t *data);
size_t pn_data_size(pn_data_t *data);
void pn_data_rewind(pn_data_t *data);
bool pn_data_next(pn_data_t *data);
bool pn_data_enter(pn_data_t *data);
bool pn_data_exit(pn_data_t *data);
int pn_data_type(pn_data_t *data);
size_t pn_data_get_array(pn_data_t *data);
int pn_data_get_array_type(pn_data_t *data);
bool pn_data_is_array_described(pn_data_t *data);
size_t pn_data_get_list(pn_data_t *data);
size_t pn_data_get_map(pn_data_t *data);
ssize_t pn_data_encode(pn_data_t *data, char *bytes, size_t size);
ssize_t pn_data_decode(pn_data_t *data, const char *bytes, size_t size);

#endif
