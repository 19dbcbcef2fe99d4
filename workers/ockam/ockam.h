/* Connections of Ockam nodes. */
#ifndef ROUTERD_WORKERS_OCKAM_H
#define ROUTERD_WORKERS_OCKAM_H

#include "workers/framed/framed.h"

typedef struct {                       /* of a listener or connector */
    framed_terms framed;
    uint8_t framing;                   /* enum ockam_framing */
    uint32_t reach_count;              /* addresses, besides route workers', that may be reached from here */
    uint8_t reach[];                   /* of each: type, whether it is a prefix, two octets of length, octets */
} ockam_terms;

/* ockam.c */
PRIVATE const ockam_terms *ockam_terms_of(const pump *p, const worker_connection *c);
PRIVATE enum framed_step ockam_next(pump *p, worker_connection *c);

/* out.c */
GLUE void ockam_greet(pump *p, worker_connection *c);
extern GLUE const framed_protocol ockam_protocol;

#endif
