/* Exchanges as they are laid out in memory; exchange.c makes and reads them. */
#ifndef ROUTERD_CORE_EXCHANGE_H
#define ROUTERD_CORE_EXCHANGE_H

#include "core/forwarder/tables/tables.h"

#define EXCHANGE_NONE UINT32_MAX
#define EXCHANGE_SUBJECT 16384u        /* octets of a subject that are looked at; a longer one matches nothing */
#define EXCHANGE_STEPS 1000u           /* tokens times places of the tree that are tried; beyond it nothing matches */

enum exchange_state {           /* bits */
    EXCHANGE_BUSY = 1,         /* a message is on its way through it: it does not come through twice */
    EXCHANGE_GIVEN = 2         /* a replay's: a recording says which hops messages match */
};

enum exchange_token { TOKEN_ITSELF = 0, TOKEN_ONE = 1, TOKEN_ANY = 2 };

typedef struct {               /* a place in the tree; number 0 is its root */
    uint32_t parent, token, token_length;      /* token: offset into `tokens` */
    uint32_t one, any;         /* children for one token, and for any number; EXCHANGE_NONE: there is none */
    uint32_t bindings;         /* the first one with this key; EXCHANGE_NONE */
    uint32_t next_slot;        /* children with the same hash */
    bool stays;                /* reached by any number of tokens, so one more changes nothing */
    uint64_t mark;             /* the last step that got here */
} core_exchange_node;

typedef struct {
    uint32_t next;             /* with the same key */
    uint32_t hop;
    uint64_t matched;
} core_binding;

typedef struct {               /* an address that messages go on to; several bindings may have the same */
    core_address *address;
    core_text *text;           /* what other routers are told of it */
    uint64_t mark;             /* the last message that goes there */
} core_hop;

typedef struct core_exchange {
    uint8_t separator;
    uint8_t state;             /* enum exchange_state */
    uint32_t node_count, binding_count, hop_count;
    uint32_t alternate;        /* hop for what goes nowhere else; EXCHANGE_NONE */
    core_exchange_node *node;
    uint32_t *slot, slot_mask; /* children by hash of parent and token */
    uint64_t seed;
    uint32_t *active[2];
    uint8_t *tokens;
    core_binding *binding;
    core_hop *hop;
    uint64_t step, message;
    uint64_t received, forwarded, diverted, dropped;
    uint32_t *given;           /* EXCHANGE_GIVEN: for each message to come EXCHANGE_NONE, and hops that it matches */
    uint32_t given_count, given_room, given_at;
} core_exchange;

#endif
