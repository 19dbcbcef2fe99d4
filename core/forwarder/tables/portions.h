/* What is done in portions with the many copies of a message: they are made (fan.c), and told of their sender
 * (tell.c). */
#ifndef ROUTERD_CORE_PORTIONS_H
#define ROUTERD_CORE_PORTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/forwarder/tables/pool.h"

enum core_said { SAID_NOTHING, SAID_STATE, SAID_END };

typedef struct core_tell {     /* tell.c: a message whose copies are told in portions what its sender does */
    pool_node node;
    struct core_in *in;
    struct core_out *at;       /* the next one to hear that more has come; NULL: all have */
    struct core_out *to;       /* the next one to hear what the sender has said; NULL: all have */
    struct core_tell *next, *prev;
    bool again;                /* more came meanwhile */
    bool stalled;              /* and its sender takes its time */
    uint8_t said;              /* enum core_said */
    bool said_again;           /* it has said another state meanwhile */
    bool aborted, quiet;       /* SAID_END: as of in_abort() and in_sender_settled() */
    uint8_t extra;             /* enum routerd_update_detail of `state` */
    uint32_t state;
} core_tell;

typedef struct core_fan {      /* fan.c: a message whose copies for an address are made in portions */
    pool_node node;
    struct core_in *in;
    struct core_fan *next;     /* of the same address */
    struct core_text *text;    /* for edge connections: what overrides `to`; NULL: nothing */
    uint32_t at;               /* of the address's outgoing links: the next one that gets a copy */
    uint32_t made, state, shut;
    int origin;                /* bit of the router where it came in; 0: here */
    uint8_t priority;
    bool own;                  /* from the core: its own receivers know it already */
    bool untold;               /* no copies for edge connections: there were none, or no room for `text` */
} core_fan;

#endif
