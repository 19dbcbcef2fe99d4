/* The network as the forwarder sees it: at most 128 routers, a bit for each, and the connections to those next to us.
 *
 * Bit 0 is this router.  A router is reached through its next hop, a neighbour; a neighbour is reached over the links
 * of one connection: one for what routers tell each other, one for each priority of everything else, and some for
 * messages that are still coming in.  The router protocol (core/network) fills the table; per message it is only read.
 */
#ifndef ROUTERD_CORE_NODES_H
#define ROUTERD_CORE_NODES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "shm/memory/record.h"

#define NODES 128u
#define NEIGHBOURS 256u  /* connections to routers: more than there are bits, since some are not identified yet */
#define NODE_TEXT 256u                 /* octets of `area/id` */

struct core_link;

typedef struct { uint64_t word[NODES / 64]; } core_mask;

static inline bool mask_has(const core_mask *m, uint32_t bit) { return m->word[bit >> 6] >> (bit & 63) & 1; }
static inline void mask_set(core_mask *m, uint32_t bit) { m->word[bit >> 6] |= 1ull << (bit & 63); }
static inline void mask_clear(core_mask *m, uint32_t bit) { m->word[bit >> 6] &= ~(1ull << (bit & 63)); }
static inline bool mask_any(const core_mask *m) { return m->word[0] | m->word[1]; }
static inline core_mask mask_both(core_mask a, core_mask b)
{
    return (core_mask) {{a.word[0] & b.word[0], a.word[1] & b.word[1]}};
}
static inline core_mask mask_without(core_mask a, core_mask b)
{
    return (core_mask) {{a.word[0] & ~b.word[0], a.word[1] & ~b.word[1]}};
}

/* The first bit at or behind `from`; NODES: none. */
static inline uint32_t mask_next(const core_mask *m, uint32_t from)
{
    for (; from < NODES; from = (from | 63) + 1) {
        uint64_t rest = m->word[from >> 6] >> (from & 63);
        if (rest) return from + (uint32_t) __builtin_ctzll(rest);
    }
    return NODES;
}

typedef struct {               /* a router; its place in the table is its bit */
    bool known;
    int16_t next_hop;          /* bit of the neighbour on the way to it; -1: out of reach */
    int16_t neighbour;         /* the connection to it; -1: it is no neighbour */
    uint32_t cost;
    core_mask valid_origins;   /* routers whose messages to it come through here */
    uint32_t length;
    uint8_t text[NODE_TEXT];   /* area/id, as routers write it into messages */
} core_node;

typedef struct {               /* a connection to a router: our links there */
    bool taken;
    bool abroad;               /* it speaks the other dialect when it comes to addresses */
    struct core_link *control;
    struct core_link *data[ROUTERD_PRIORITIES];
    uint64_t streams;          /* handle of its core_streams; 0: it knows none */
} core_neighbour;

typedef struct {
    core_node node[NODES];
    core_neighbour neighbour[NEIGHBOURS];
    core_mask reachable;       /* routers with a way to them, and a link at its beginning */
    uint32_t radius;           /* hops to the farthest router */
    uint32_t epoch;            /* another one with every change */
    bool thirsty;              /* a stream waits for a link that has to be opened */
    uint32_t abroad;           /* neighbours that speak the other dialect */
    struct core_address *border;       /* who hears what cannot cross into the other dialect; NULL: nobody */
} core_network;

static inline core_neighbour *network_hop(core_network *n, uint32_t bit)
{
    int16_t at = n->node[bit].neighbour;
    return at >= 0 && n->neighbour[at].taken ? &n->neighbour[at] : NULL;
}

/* The router that an annotation names; -1: nobody we know. */
static inline int network_find(const core_network *n, const uint8_t *text, uint32_t length)
{
    for (uint32_t bit = 0; bit < NODES; bit++) {
        const core_node *node = &n->node[bit];
        if (node->known && node->length == length && !memcmp(node->text, text, length)) return (int) bit;
    }
    return -1;
}

#endif
