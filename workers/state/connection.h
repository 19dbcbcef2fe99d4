/* A connection of a client, broker or router, from the accepted or dialled socket until it is closed. */
#ifndef ROUTERD_WORKERS_CONNECTION_H
#define ROUTERD_WORKERS_CONNECTION_H

#include <netinet/in.h>

#include "workers/state/pump.h"

/* The list that a connection is on: of those that are to be served (loop.c), or of those that end (ends.c). */
enum connection_list { LIST_NONE, LIST_DIRTY, LIST_ENDING };

/* What messages of some links have of their worker. */
typedef struct {
    uint32_t kept[2];              /* blocks of each class that they occupy */
    uint32_t streams, gathered;    /* those of which more is to come; those of the pump's `gathered` */
} block_use;

struct worker_connection {
    slot_head slot;
    pn_connection_t *engine;
    pn_transport_t *transport;
    int fd;
    uint16_t listener;
    uint16_t work_mask;            /* priorities whose list is not empty */
    bool opened;                   /* the peer's OPEN has been seen */
    bool leaving;                  /* so has its CLOSE, or all is over: its links go */
    bool reading, want_write, failed, output_done;
    uint8_t list;                  /* enum connection_list: by `dirty_next` */
    bool bare;                     /* its frames go past the transport, which has nothing to send (sockets.c) */
    bool known;                    /* the core has been told of it */
    uint32_t dirty_next;
    uint32_t link_first;           /* all its links */
    uint32_t read_most;            /* octets that the next read may bring (reads.c); 0: as many as there is room for */
    uint32_t links_in, links_out;
    block_use use;                 /* of its links, but those of a broker or router that are for clients (link_share) */
    uint32_t work_first[ROUTERD_PRIORITIES], work_last[ROUTERD_PRIORITIES];
    int64_t tick_at, deadline;     /* milliseconds of CLOCK_MONOTONIC; 0: none */
    char *user;                    /* the only user-id that messages may have (security.c); NULL: any */
    uint64_t max_message;          /* bytes; 0: no limit */
    uint32_t window, widest;       /* frames of each session, and of one of them */
    uint32_t sessions, max_sessions;   /* max 0: no limit but the channels */
    struct sockaddr_in6 peer;      /* the peer's address, IPv6 or IPv4 */
    bool secured;                  /* it was accepted with TLS */
    bool admitted;                 /* its user is known, and the engine may forget its login (relay.c) */
    uint8_t trace;                 /* enum trace_setting (trace.c) */
    struct pump *tracer;           /* the pump to which the engine reports each frame; NULL: none */
    bool denied;                   /* it is being closed for a message too large; nothing more is received */
    uint8_t trusted;               /* the trusted forms of received router annotations: a mask (annotations.h) */
    uint8_t annotations;           /* the form of sent router annotations: enum content_annotations */
    bool dialled;                  /* the router has initiated it */
    struct framed_connection *framed; /* its framed protocol (framed.c); NULL: AMQP */
    bool messages_logged;          /* Python logs each of its messages (message_log.c) */
    struct websocket *websocket;   /* its WebSocket framing (websocket.c); NULL: none */
    struct lane_connection *lane;  /* its sessions and frames (session.h); NULL: a framed connection */
    struct worker_link *drain_links, *drain_links_last;    /* that want to drain, of which the core has not heard */
    struct worker_connection *drain_next, *drain_previous; /* that have such links (drains.c) */
    struct relay *relay;           /* its relayed SASL exchange (relay.c); NULL: the engine's */
};

static inline void mark_dirty(pump *p, worker_connection *c)
{
    if (c->list) return;
    c->list = LIST_DIRTY;
    c->dirty_next = p->dirty_first;
    p->dirty_first = pool_index(&p->conns, c);
}

#endif
