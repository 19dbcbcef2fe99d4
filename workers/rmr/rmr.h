/* Connections that speak RMR. */
#ifndef ROUTERD_WORKERS_RMR_H
#define ROUTERD_WORKERS_RMR_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/unity.h"
#include "workers/framed/framed.h"
#include "workers/rmr/wire.h"
#include "workers/state/pump.h"

#define RMR_NUMBER 10u                 /* digits of a connection's number */

enum rmr_reply { REPLY_TRANSPARENT, REPLY_PROXIED, REPLY_SAME };

typedef struct {                       /* of a listener, or of the connections that are made for a route table */
    plain_terms plain;
    char address[RMR_ADDRESS_MAX];     /* of the table */
    char control[RMR_ADDRESS_MAX];     /* what is about tables goes there */
    char back[RMR_ADDRESS_MAX];        /* addresses of connections: this, and their number */
    uint32_t address_length, control_length, back_length;
    char source[RMR_SOURCE_BYTES];     /* what replies are sent to */
    uint64_t nonce;
    uint8_t reply;                     /* enum rmr_reply */
    uint8_t key[SIPHASH_KEY];          /* of tags that only this router can make */
    bool replies;                      /* a frame with a token that comes here is a reply, and never on its way by the
                                          table */
} rmr_terms;

typedef struct rmr_sid { uint32_t number; uint8_t sid[RMR_SID_BYTES]; } rmr_sid;

/* rmr.c */
PRIVATE const rmr_terms *rmr_terms_of(const pump *p, const wconn *c);
PRIVATE void rmr_unsign(const rmr_terms *t, const plain_conn *x, uint8_t *header);
PRIVATE enum plain_step rmr_frame_next(pump *p, wconn *c);

/* out.c */
extern GLUE const plain_protocol rmr_protocol;

#endif
