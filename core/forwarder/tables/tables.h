/* What the forwarder knows: addresses, links, deliveries, and how they hang together.
 *
 *   address --out[]--> outgoing links          (a treatment chooses among them)
 *   address --in_links--> incoming links       (credit follows the address's destinations)
 *   incoming link --ins--> incoming deliveries, oldest first
 *   outgoing link --outs--> outgoing deliveries, oldest first
 *   incoming delivery --copies--> outgoing deliveries made of it: one, or one per link for multicast
 *
 * An incoming delivery lives until its last copy is finished: it holds the content reference.  When its link goes
 * first, or has had its credit back at once, `link` is NULL and nobody is told the outcome.  An outgoing delivery
 * always has both its link and its incoming delivery.
 */
#ifndef ROUTERD_CORE_TABLE_H
#define ROUTERD_CORE_TABLE_H

#include <semaphore.h>
#include <stddef.h>

#include "shm/memory/arena.h"
#include "shm/memory/doorbell.h"
#include "shm/memory/flight.h"
#include "shm/memory/heap.h"
#include "core/forwarder/tables/nodes.h"
#include "core/forwarder/tables/pool.h"
#include "core/forwarder/tables/portions.h"
#include "shm/memory/ring.h"
#include "shm/statistics/stats.h"

#define CORE_MAX_LINKS (1u << 20)      /* of one worker: bounds what a nonsense link index can make us allocate */
#define CORE_MAX_CONNECTIONS (1u << 16)    /* of one worker */
#define CORE_MAX_TEXT 4096u            /* octets of `to` that are looked up */

/* What routers tell each other is multicast, and only over control links; a flood asks for nobody's origin. */
enum core_treatment { T_CLOSEST = 0, T_BALANCED = 1, T_MULTICAST = 2, T_UNAVAILABLE = 3, T_CONTROL = 4, T_FLOOD = 5 };

/* What a link is for.  All but endpoints are links between routers: their credit comes back at once.  Those of an edge
 * router's connection are like a client's for the rest; the others have no address.  Routed ones are no links between
 * routers either: link_route_pair.c. */
enum core_link_kind { LINK_ENDPOINT = 0, LINK_CONTROL = 1, LINK_DATA = 2, LINK_STREAM = 3, LINK_EDGE = 4,
    LINK_ROUTED = 5 };

struct core_link;
struct core_out;
struct core_alias;
typedef struct core_text core_text;
struct core_memo;
struct core_exchange;
typedef struct core_routes core_routes;      /* planes.h: a route table in use */
typedef struct core_flow core_flow;          /* planes.h: the flow log */

typedef struct {               /* rank.c: an address's links with as many deliveries */
    uint32_t prev, next;       /* in their ring */
    uint32_t count;
    bool full;                 /* they have reached their capacity */
    struct core_link *first, *last;        /* by `next`: the one first that has been here for longest */
} core_rank;

typedef struct {
    uint32_t room, free;
    core_rank at[];            /* the first two: ends of the two rings */
} core_ranks;

typedef struct {               /* copies that are over, by what their receivers said: outcomes.c */
    uint64_t outcome[4];       /* accepted, rejected, released, modified */
    uint64_t latency;          /* nanoseconds of all together */
    uint64_t delayed_1, delayed_10;
} core_outcomes;

typedef struct {               /* what a poll of its links has found of an address: outcomes.c */
    uint64_t backlog;          /* copies for its receivers that are not over */
    uint64_t credit;           /* of all its senders together */
    uint64_t dry;              /* senders without credit */
} core_load;

typedef struct core_address {
    pool_node node;
    uint8_t treatment;
    int8_t priority;           /* -1: the message's own */
    uint8_t phase;
    bool reached;              /* one of `remotes` is within reach */
    /* its messages can go to other addresses: an exchange's, a route table's, or a fallback that leads somewhere */
    bool redirects;
    struct core_link **out;    /* outgoing links; each knows its place */
    uint32_t out_count, out_room;
    uint32_t rotate;           /* where the next choice starts */
    core_ranks *ranks;         /* its outgoing links by deliveries; NULL: they are few, or it does not matter */
    uint32_t in_count;
    struct core_link *in_links;
    struct core_alias *aliases;
    uint64_t deliveries;       /* forwarded to it */
    uint64_t ingress;          /* received for it from clients */
    uint64_t to_core, from_core;   /* of these the core's own */
    uint64_t counted, score;       /* busiest.c: deliveries at its last poll, and how busy that makes it */
    bool unlisted;             /* nobody's name, so never shown among the busiest */
    bool listed;               /* it is shown among them */
    uint32_t flow;             /* its name in the flow log; 0: it has none */
    core_mask remotes;         /* routers that have receivers */
    core_mask nearest;         /* of these the ones with the lowest cost, as of `epoch` */
    uint32_t epoch, turn;      /* turn: the one behind the last choice among them */
    uint32_t *outstanding;     /* by next hop: copies not settled; NULL: there never was a router */
    struct core_text *text;    /* how other routers are told of it; NULL: as it stands in the message, or of the link */
    uint64_t transit;          /* of `deliveries` those to routers */
    struct core_address *fallback, *fallback_for;  /* takes what finds no receiver; the address that it does that for */
    struct core_exchange *exchange;
    struct core_routes *routes;            /* it is a route table's: its senders' messages have keys */
    uint64_t redirected;       /* messages that its fallback took */
    uint64_t to_containers, from_containers;       /* deliveries to brokers, and from them */
    uint32_t holds;            /* exchanges that send to it, or are it, and links that have left it: it stays */
    uint32_t edges;            /* of its outgoing links those of edge connections */
    struct core_fan *fan, *fan_last;       /* messages whose copies are being made, oldest first; NULL: none */
    struct core_address *fan_next;         /* the address whose copies are made next */
    core_outcomes ended;
    core_load load, before;    /* as of poll number `poll` of its links, and of the one before */
    uint64_t poll;
} core_address;

enum core_in_flag {
    IN_PRESETTLED = 1,         /* arrived settled */
    IN_SETTLED = 2,            /* the sender has settled: it waits for no outcome */
    IN_COMPLETE = 4,
    IN_ABORTED = 8,
    IN_MULTICAST = 16,         /* outcomes are merged, not mapped one to one */
    IN_HOLDS_NOBODY = 32,      /* arrived settled, and its receiver takes none at present: it holds up nobody */
    IN_LATE = 64,              /* only its last transfers said that it is settled: counted as one that arrived so */
    IN_SENT = 128,             /* multicast: there was a copy */
    IN_BEHIND = 256,           /* a receiver is too far behind for its copy */
    IN_GROWING = 512           /* a copy was OUT_GROWING when it was made: it is one of the last ones */
};

typedef struct core_in {
    pool_node node;
    struct core_link *link;    /* NULL once the incoming link is gone, or waits for nothing any more */
    struct core_in *next, *prev;
    struct core_out *copies;
    uint64_t peer;             /* the worker's handle; 0: it has none */
    uint64_t length, consumed;
    uint64_t near;             /* copies that have read no more than this hold `consumed` back: all but `ahead` */
    uint64_t arrived;
    uint32_t block;            /* content, in arena `arena` */
    uint32_t copy_count;       /* and its fans, and one while they are told of its end */
    uint32_t ahead;
    uint32_t open;             /* multicast: copies without a terminal state */
    uint32_t state;            /* multicast: merged so far; else what the sender has said while its copy waits */
    uint32_t detail;           /* payload of `state` */
    uint8_t detail_arena;
    uint8_t extra;             /* enum routerd_update_detail of `state` */
    uint8_t arena;
    uint16_t flags;
    uint16_t fans;             /* multicast: addresses whose receivers are still being served */
    struct core_tell *tell;    /* multicast: what its copies are still to be told; NULL: nothing */
} core_in;

_Static_assert(sizeof(core_in) == 128, "an incoming delivery fills two cache lines");

enum core_out_flag {
    OUT_SETTLED = 1,           /* sent presettled, or its worker has been told that the sender settled: expect A_DONE */
    OUT_STREAM = 2,            /* on a link for streams, or waiting for one */
    OUT_GROWING = 4,           /* it waits until its message is complete or long enough for a stream */
    OUT_APART = 8,             /* to another router, though not by its address, or to the core itself */
    OUT_UNSENT = 16,           /* it is over, and its receiver did not get it */
    OUT_SLOW = 32,             /* because that one is slow */
    OUT_IN_DOUBT = 64          /* it is over with its worker, which may have sent it */
};

typedef struct core_out {
    pool_node node;
    core_in *in;
    struct core_link *link;
    struct core_out *next, *prev;          /* in the link's list */
    struct core_out *sibling, *sibling_prev;   /* in the incoming delivery's list; before the first is the last */
    uint64_t peer;             /* the worker's handle; 0: not told yet */
    uint64_t progress;         /* bytes its worker has read */
    uint32_t state;            /* the first terminal state told: it stands; 0: none */
    uint8_t flags;
    uint8_t hop;               /* bit of the router it is sent to; 0: a receiver of ours */
    uint8_t priority, routed;  /* for a router: of its W_SEND, and that one's state */
    uint64_t address;          /* for a router: handle of the address, which counts it */
    struct core_text *text;    /* for a router: what overrides `to`; NULL: nothing */
    uint64_t ordinary;         /* of a stream: handle of the link it would have taken otherwise */
} core_out;

typedef struct {               /* stream.c: a connection's links for messages that are still coming in */
    pool_node node;
    struct core_link *idle;    /* links that carry none, by `next` */
    uint32_t idle_count, count;            /* of these, and of all */
    struct core_link *waiting; /* no link: on it are streams that wait for one */
    struct core_link *growing; /* no link: on it are incomplete messages that are still short */
} core_streams;

typedef struct core_parked {   /* park.c: the parked links of a connection */
    struct core_parked *next, *prev;
    struct core_link *first, *last;        /* in the order of their turns */
    struct core_parked **place;            /* where its connection's are found; NULL: a link's alone */
} core_parked;

typedef struct core_park {     /* park.c: records of a link that wait until an address is found */
    struct core_link *next, *prev;         /* of the same connection */
    core_parked *with;
    routerd_record *record;
    uint32_t head, count, room;
    bool asked;                /* the control plane was asked for the first one's address */
} core_park;

/* Whether the credit of an incoming link's sender may become more, and whether it is becoming less again (credit.c). */
enum core_growth { CREDIT_FIXED = 0, CREDIT_GROWS = 1, CREDIT_EBBS = 2 };

#define CREDIT_CYCLE 1024u             /* deliveries of a link, whose time tells how fast its sender is */
#define CREDIT_SHIFT 16u               /* nanoseconds to the unit of such times: 66 us, which pass once in 78 hours */

#define RATE_SLOTS 5u

typedef struct {               /* what management is told of a link; deliveries are counted when they are over */
    uint64_t last;             /* when the last delivery came, nanoseconds */
    uint64_t presettled;
    uint32_t tick;             /* now >> RATE_SHIFT of `settled` */
    uint32_t settled;          /* in this tick */
    uint64_t outcome[4];       /* accepted, rejected, released, modified */
    uint64_t dropped;          /* presettled ones that were not sent */
    uint32_t delayed_1, delayed_10;        /* over after more than 1 s, or more than 10 s; they stop at UINT32_MAX */
    uint64_t latency;          /* outgoing: from arrival to one of these outcomes, nanoseconds of all together */
    uint32_t before[RATE_SLOTS];           /* settled in the ticks before, the last one first */
    uint32_t cycle;            /* incoming: when its present CREDIT_CYCLE began, >> CREDIT_SHIFT */
} core_link_counts;

typedef struct core_link {     /* what each message reads or writes stands first, in two cache lines */
    pool_node node;
    uint32_t link, link_gen;   /* in its worker's table */
    core_address *address;     /* NULL: anonymous (incoming only) */
    /* incoming: capacity == granted + count + withheld, always (granted < 0: the sender overran) */
    int64_t granted;           /* credit the sender has */
    uint32_t capacity;         /* incoming: it may grow (credit.c) */
    uint32_t count;            /* deliveries on this link: outgoing undelivered + unsettled, incoming outstanding */
    uint8_t worker;
    uint8_t kind;              /* enum core_link_kind */
    uint8_t neighbour;         /* between routers: which connection */
    bool outgoing;
    bool settles;              /* outgoing: the receiver wants everything presettled */
    bool draining;             /* incoming: W_DRAIN is not answered yet */
    bool leaving;              /* it is being removed, or is for streams and surplus: it carries nothing any more */
    bool to_table;             /* incoming, to a route table: its worker tells a key with each message */
    bool annotated;            /* incoming: its messages may say where they go and have been */
    bool wants_override;       /* outgoing: the peer asks its messages where they go */
    bool container;            /* of a broker's connection: counted apart */
    bool fallback;             /* incoming, from a fallback destination: its messages are not for another */
    /* incoming: its connection may not manage all: what it sends to agents of other routers, ours looks at first */
    bool bounded;
    bool far;                  /* routed: at another router */
    uint8_t by_peer;           /* incoming, bits: its deliveries are in their worker's table; not all (by_peer.c) */
    uint8_t growth;            /* incoming: enum core_growth */
    union {                    /* by direction: deliveries on it, oldest first */
        struct { core_in *ins, *ins_tail; };
        struct { core_out *outs, *outs_tail; };
    };
    uint32_t edge;             /* of an edge router's connection: which; what comes on one never goes back on it */
    union {
        uint32_t scope;        /* anonymous: whose rights its messages' addresses are found with; 0: all is allowed */
        uint32_t place;        /* outgoing: among its address's links */
    };
    union {
        uint32_t withheld;     /* credit kept back until a destination appears */
        uint32_t rank;         /* outgoing: the rank of its deliveries; 0: it has none */
    };
    uint32_t owed;             /* between routers: credit that is due, and told in portions */
    uint64_t deliveries;
    core_link_counts counts;
    union {
        struct { struct core_link *next, *prev; };     /* incoming: in the address's list; outgoing: in the rank's */
        uint32_t connection;   /* incoming, anonymous: its connection's index at its worker, plus 1; 0: not known */
    };
    union {
        struct core_link *pair;        /* routed: the other end; NULL: it is gone */
        struct core_park *park;        /* incoming, not routed: what waits for an address; NULL: nothing */
    };
    union {
        struct {               /* incoming */
            struct core_text *text;    /* what the next router is told of its address, if the address has no text */
            struct core_memo *memo;    /* where its last message had been; NULL: not known */
        };
        struct {               /* outgoing */
            uint64_t streams;  /* handle of the core_streams it is one of, or that take streams for it; 0: none */
            uint64_t *origins; /* deliveries by bit of the router where they came in, if not here; NULL: none yet */
        };
    };
    uint32_t flow;             /* its number in the flow log; 0: none */
} core_link;

_Static_assert(offsetof(core_link, counts.outcome) == 128, "what each message needs of a link is in two cache lines");
_Static_assert(sizeof(core_link) == 256, "a link fills four cache lines");

typedef struct {               /* work that did not fit into a worker's ring */
    routerd_record *slot;
    uint32_t head, count, room;    /* room: a power of two */
} core_queue;

typedef struct {               /* what each of its records needs comes first */
    routerd_consumer actions;
    routerd_producer work;
    core_queue overflow;
    bool gone;                 /* no process reads its work: it is being reclaimed, or it is the core itself */
    uint32_t link_room;
    core_link **link;          /* by the worker's link index */
    routerd_doorbell *bell;
    int eventfd;               /* -1: nobody to wake */
    uint64_t bit;              /* of core_router.dirty */
} core_worker;

_Static_assert(sizeof(core_worker) == 128, "a worker is found by a shift");

typedef struct core_alias {    /* an address as senders spell it */
    uint64_t hash;
    core_address *address;     /* NULL: this scope has no right to it */
    struct core_alias *next, *prev, *chain;    /* of the same address; of the same bucket */
    uint32_t scope;            /* for links of this scope only */
    uint8_t used;              /* looked up since these searches came by: ALIAS_EVICTION, ALIAS_IDLENESS */
    bool agent;                /* a router's management agent is called so */
    uint16_t seen;             /* second, modulo 2^16, in which the search for idle ones last found it used */
    uint32_t length;
    uint8_t text[];
} core_alias;

#define ALIAS_RECENT 256u

typedef struct {
    struct { uint64_t sketch; core_alias *alias; } recent[ALIAS_RECENT];       /* found lately, by their sketch */
    core_alias **bucket;       /* room + split of them, in chains */
    uint32_t count, room, split;           /* room: a power of two; the buckets before `split` are divided already */
    uint32_t sweep, thinning;  /* the buckets at which the searches for an unused one and for idle ones go on */
    uint64_t thinned;          /* nanoseconds: up to then the search for idle ones has seen the buckets that were due */
    uint64_t bytes;            /* what all of them cost */
    uint64_t seed;             /* of the hash: a client cannot choose texts that collide */
} core_alias_table;

typedef struct core_text {
    uint32_t block;            /* ROUTERD_NIL: not written */
    uint32_t uses;             /* copies on their way that name it */
    uint32_t length, named;    /* `named`: what a checkpoint calls it (recording/network.c) */
    bool owned;                /* its address or link is still there */
    uint8_t bytes[];
} core_text;

typedef struct {               /* payloads under way: whoever reads one answers A_FREE */
    uint8_t *reader[ROUTERD_MAX_WORKERS + 1];      /* by arena and block: the reader, plus 1; 0: none */
    uint32_t count;
} core_payloads;

typedef struct {               /* by_peer.c: a worker's incoming deliveries */
    uint32_t *in;              /* by the index in its handle: the index in ours, plus 1; 0: none */
    uint32_t room;
} core_peers;

/* What becomes of a message: a way is known, it goes nowhere, Python has to find its address, or it is rejected. */
enum core_route { ROUTE_FOUND, ROUTE_UNROUTABLE, ROUTE_UNKNOWN, ROUTE_NO_ADDRESS, ROUTE_UNAVAILABLE, ROUTE_FORBIDDEN,
    ROUTE_KEYLESS, ROUTE_RESERVED, CORE_ROUTES };

enum core_stop { STOP_NOTHING = 0, STOP_CONTROL = 1, STOP_UNKNOWN = 2, STOP_LOCAL = 3, STOP_HELD = 4 };

typedef struct core_router {
    uint32_t workers, active;  /* places for workers; all from `active` on are empty: nobody looks at them */
    uint32_t turn;             /* which worker's ring is read next */
    /* bits per worker: records written, not published; its records wait, for Python takes its last one in portions */
    uint64_t dirty, held;
    uint64_t now, left;        /* nanoseconds: given from outside; since when Python has its turn, 0: never had */
    uint32_t python;           /* atomic: whether Python of the core's own thread has its turn, or waits for the lock */
    struct core_flow *flow; core_flight *flight;   /* NULL: no flow log is written; nothing is recorded */
    /* number `workers` is the core itself: local.c; the one behind is nobody */
    core_worker worker[ROUTERD_MAX_WORKERS + 2];
    arena_view arena[ROUTERD_MAX_WORKERS + 1];
    arena_owner own;           /* the core's arena: number `workers` */
    core_pool ins, outs, links, addresses, streams, fans, tells;
    core_tell *tell_first, *tell_last;     /* in the order of their turns */
    core_address *fan_first, *fan_last;    /* addresses with fans, in the order of their turns */
    uint32_t fan_count;
    core_parked *park_first, *park_last;   /* connections with parked links, in the order of their turns */
    uint32_t park_count;       /* of these links */
    core_parked **parked[ROUTERD_MAX_WORKERS + 1]; /* by worker, and the index of a connection; NULL: there was none */
    uint32_t park_since;       /* records handled since the control plane was asked for an address */
    core_alias_table aliases;
    core_payloads payloads;
    core_peers peers[ROUTERD_MAX_WORKERS + 1];
    stats_page *stats;
    routerd_doorbell *bell;
    sem_t *sem;                /* NULL: driven by steps */
    routerd_record scratch;    /* where work for a worker that is gone is written */
    routerd_record control;    /* STOP_CONTROL: the record; its worker is stop_worker */
    uint32_t stop_worker;
    uint32_t text_length, text_scope;      /* STOP_UNKNOWN: the address nobody has resolved yet, and for whom */
    uint8_t text[CORE_MAX_TEXT];
    uint32_t reason[CORE_ROUTES];  /* why a message is rejected: constant payloads in our arena */
    struct core_stall *stall;  /* NULL: links have not been polled yet */
    core_outcomes rest;        /* of addresses while they were not shown among the busiest */
    core_address *agent;       /* of our own management agent; NULL: there is none */
    core_address *exit;        /* of an edge router: where everything goes that has no way here; NULL: it is none */
    core_network network;
    struct {                   /* memory.c */
        uint64_t look, read;   /* when to look next; records read before */
        heap_crowd crowd; bool heap_due;       /* of links and spellings; the heap has memory to give back */
    } memory;
    uint8_t buffer[16384];     /* what of a message is looked at, copied: its provenance, subject or key */
} core_router;

#endif
