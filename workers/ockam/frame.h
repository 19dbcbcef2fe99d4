/* Ockam's octets: frames around messages with source routes. */
#ifndef ROUTERD_WORKERS_OCKAM_FRAME_H
#define ROUTERD_WORKERS_OCKAM_FRAME_H

#include "workers/source_routes/source_routes.h"

#define OCKAM_VERSION 1u               /* the first octet of each side of a CBOR connection */

enum ockam_framing { OCKAM_CBOR, OCKAM_BARE };

/* frame.c */
PRIVATE uint32_t ockam_width(uint8_t framing);
PRIVATE uint32_t ockam_length(uint8_t framing, const uint8_t *p);
PRIVATE enum route_result ockam_read(route_engine *e, const route_sender *s, uint8_t framing, const uint8_t *at,
    uint32_t size, const route_stop *own);
PRIVATE uint32_t ockam_head(const route_level *l, uint8_t framing, uint32_t payload, uint32_t tail, uint8_t *to,
    uint32_t room);
PRIVATE uint32_t ockam_tail(const route_level *l, uint8_t framing, uint8_t *to, uint32_t room);

#endif
