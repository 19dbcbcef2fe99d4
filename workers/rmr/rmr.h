/* Connections of RMR applications. */
#ifndef ROUTERD_WORKERS_RMR_H
#define ROUTERD_WORKERS_RMR_H

#include "workers/framed/framed.h"
#include "workers/rmr/wire.h"

#define RMR_NUMBER 10u                 /* digits of a connection's number */

enum rmr_reply { REPLY_TRANSPARENT, REPLY_PROXIED, REPLY_SAME };

typedef struct {                       /* the terms of a listener, or of the connections to a route table's endpoints */
    framed_terms framed;
    char address[RMR_ADDRESS_MAX];     /* of the table */
    char control[RMR_ADDRESS_MAX];     /* of messages about tables */
    char back[RMR_ADDRESS_MAX];        /* the prefix of connections' addresses, before their number */
    uint32_t address_length, control_length, back_length;
    char source[RMR_SOURCE_BYTES];     /* the host:port for replies */
    uint64_t nonce;
    uint8_t reply;                     /* enum rmr_reply */
    uint8_t key[SIPHASH_KEY];          /* the key of this router's tags */
    bool replies;                      /* a received frame with a token is a reply, never a message by the table */
} rmr_terms;

typedef struct rmr_sid { uint32_t number; uint8_t sid[RMR_SID_BYTES]; } rmr_sid;

/* rmr.c */
PRIVATE const rmr_terms *rmr_terms_of(const pump *p, const worker_connection *c);
PRIVATE void rmr_unsign(const rmr_terms *t, const framed_connection *x, uint8_t *header);
PRIVATE enum framed_step rmr_frame_next(pump *p, worker_connection *c);

/* out.c */
extern GLUE const framed_protocol rmr_protocol;

#endif
