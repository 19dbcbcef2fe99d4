/* A place of the pump: a listening socket, or a connector, and the terms of its connections. */
#ifndef ROUTERD_WORKERS_LISTENER_H
#define ROUTERD_WORKERS_LISTENER_H

#include "workers/state/engine.h"

typedef struct {
    int fd;                        /* -1: removed, or a connector's; it may still have connections */
    bool dials;                    /* a connector's: it accepts nobody */
    bool relays;                   /* an authentication service authenticates its clients (relay.c) */
    char offered[256];             /* SASL mechanisms that Cyrus SASL serves (relay.c); empty: the engine serves all */
    bool hands_over;               /* its socket brings connections that the exporter has accepted (websocket.c) */
    uint32_t used;                 /* connections, those that are ending, too */
    uint32_t config;               /* the number of its ListenerSetup or ConnectorSetup */
    bool armed;
    uint32_t max_frame, idle_timeout_ms, handshake_ms, link_capacity, window, widest;
    uint16_t channel_max;
    bool authenticate, encrypt;    /* required of every connection */
    char mechanisms[256];          /* empty: all of the engine */
    pn_ssl_domain_t *tls;          /* NULL: none */
    int64_t tls_checked;           /* the time of the last check of its files */
    struct framed_terms *framed;   /* the terms of its framed connections (framed.c); NULL: AMQP */
} worker_listener;

#endif
