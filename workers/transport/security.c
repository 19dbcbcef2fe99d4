/* The native protection of connections: TLS and SASL at their beginning, and their vhost's limits afterwards.
 *
 * Python decides once per connection who may connect and with which limits (policy.py).  This file checks the limits of
 * sessions and messages, only on connections that have some.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workers/transport/transport.h"

#define CERTIFICATES_MS 1000           /* the least interval of checks of certificate files, when a client connects */

GLUE const char security_proxy[] = "user-id is not that of the connection";
static const char security_fields[] = "the properties are malformed";
GLUE const char security_order[] = "the sections are out of order, so receivers may read another user-id";

/* Sets up TLS and SASL of a new connection.  False: the connection cannot be protected and must end. */
PRIVATE inline bool security_begin(const worker_listener *l, worker_connection *c)
{
    pn_transport_t *t = c->transport;
    pn_sasl_t *sasl = pn_sasl(t);
    if (*l->mechanisms) pn_sasl_allowed_mechs(sasl, l->mechanisms);
    pn_sasl_set_allow_insecure_mechs(sasl, true);      /* as in qpid-dispatch; requireEncryption forbids them */
    pn_transport_require_auth(t, l->authenticate);
    pn_transport_require_encryption(t, l->encrypt);
    if (!l->tls) return true;
    pn_ssl_t *ssl = pn_ssl(t);
    c->secured = ssl && pn_ssl_init(ssl, l->tls, NULL) == 0;
    if (c->secured) return true;
    pn_transport_require_encryption(t, true);          /* no TLS to speak: nobody gets in */
    return false;
}

/* Somebody connects: let Python see whether the certificates have changed. */
PRIVATE inline void security_refresh(pump *p, worker_listener *l)
{
    if (!l->tls || p->now_ms < l->tls_checked + CERTIFICATES_MS) return;
    l->tls_checked = p->now_ms;
    p->on_event(p->self, EV_CERTIFICATES, NULL, NULL, l, NULL);
}

/* A session more than the vhost allows, begun before its peer could know how many these are: no channel is left to
 * answer it on, so the connection is closed. False: that has been done. */
PRIVATE inline bool security_session(pump *p, worker_connection *c)
{
    c->sessions++;
    if (!c->max_sessions || c->sessions <= c->max_sessions) return true;
    stats_add(p->stats, N_REFUSED_SESSIONS, 1);
    p->on_event(p->self, EV_SESSION_DENIED, c, NULL, NULL, NULL);
    return false;
}

/* A scanned message that is there whole, of a connection whose user-id is judged: its sections are in order to the end.
 */
PRIVATE inline enum scan_result security_sections(const worker_connection *c, const uint8_t *bytes, size_t size,
                                                  scan_found *found, enum scan_result result)
{
    if (__builtin_expect(c->user == NULL, 1) || result != SCAN_DONE) return result;
    section_walk w;
    section_walk_begin(&w);
    return section_walk_on(&w, bytes, size) ? result : scan_bad(found, security_order);
}

/* Follows the sections of a link's next delivery, which arrives in parts, if its connection's user-id is judged.
 * False: there is no memory for that. */
PRIVATE bool security_follow(worker_link *k)
{
    if (__builtin_expect(k->conn->user == NULL, 1)) return true;
    if (!k->walk && !(k->walk = (section_walk *) malloc(sizeof *k->walk))) return false;
    section_walk_begin(k->walk);
    return true;
}

/* The user-id of a scanned message: SCAN_BAD with security_proxy when it names somebody else. `start`: of the bytes
 * that were scanned; only their first SCAN_DONE bytes, of whose form the scan has made sure, are looked at. */
PRIVATE inline enum scan_result security_user_id(const worker_connection *c, const uint8_t *start, scan_found *found,
                                                 enum scan_result result)
{
    if (!c->user || result != SCAN_DONE || found->properties == SCAN_ABSENT) return result;
    const uint8_t *p = scan_value(start + found->properties);
    amqp_cursor fields;
    uint32_t count;
    amqp_value id = { NULL, 0 };
    if (!amqp_list((amqp_value) { p, (size_t) (start + found->body - p) }, &fields, &count)) return result;
    for (uint32_t i = 0; i < count; i++) {
        amqp_value field = amqp_next(&fields);
        if (!field.at) return scan_bad(found, security_fields);
        if (i == 1) id = field;
    }
    if (fields.at != fields.end) return scan_bad(found, security_fields);  /* some receivers do not count them */
    if (!id.at || *id.at == AMQP_NULL) return result;  /* nobody is named */
    amqp_octets name = amqp_binary(id);
    if (name.at && (!name.size || (name.size == strlen(c->user) && !memcmp(name.at, c->user, name.size))))
        return result;
    return scan_bad(found, security_proxy);
}

/* `address:port` of who connected, or "-". */
GLUE void security_peer(const worker_connection *c, char *text, size_t size)
{
    char address[INET6_ADDRSTRLEN];
    const struct sockaddr_in *v4 = (const struct sockaddr_in *) &c->peer;
    snprintf(text, size, "-");
    if (c->peer.sin6_family == AF_INET6 && inet_ntop(AF_INET6, &c->peer.sin6_addr, address, sizeof address))
        snprintf(text, size, "[%s]:%u", address, ntohs(c->peer.sin6_port));
    else if (v4->sin_family == AF_INET && inet_ntop(AF_INET, &v4->sin_addr, address, sizeof address))
        snprintf(text, size, "%s:%u", address, ntohs(v4->sin_port));
}

PRIVATE inline bool security_too_large(const worker_connection *c, uint64_t size)
{
    return c->max_message && size > c->max_message;
}
