/* A router in one process: its core and its workers are coroutines with heaps of their own, in virtual time.
 *
 *   simulation.h   what the files below share
 *   shared.h       shared memory whose every access that orders others is a point
 *   process.c      coroutines, their heaps, and the points where the scheduler takes over
 *   wire.c         sockets
 *   core.c         the real core, and what Python does for it
 *   worker.c       the real workers, and what Python does for them
 *   ..._routes.h     what Python does for link routes
 *   ..._neighbours.h what Python does for connections to other routers
 *   network.h      the routers besides this one
 *   tables.h       route tables, and the judge of messages that go by them
 *   sourced.h      source routes, and the judge of messages on them
 *   client.h       clients, who know the protocol and remember what they were told
 *   ledger.h       what has become of each message
 *   supervisor.h   shared memory, deaths and births
 *   world.c        the scheduler, and lives
 *
 * A point is an access to shared memory that orders others: a store that publishes, or a load that looks for what was
 * published.  A process runs up to one of its next points; then somebody else does.  A process that has died is not
 * resumed, so that all that it has published is there, and nothing else.
 *
 * All that happens is a function of the seed.
 */
#ifndef ROUTERD_TESTS_SIMULATION_H
#define ROUTERD_TESTS_SIMULATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { MOST_WORKERS = 3, CLIENTS = 8, CLIENT_LINKS = 5, BROKER_LINKS = (CLIENTS - 1) * CLIENT_LINKS, ADDRESSES = 8 };
enum { NEIGHBOURS_LINKS = 26 };        /* of a connection to a router, at most */
enum { ROUTED = ADDRESSES };           /* the address of the link route: brokers are behind it */
/* the address of a route table, and those of its endpoints; those of route workers; all that have a text */
enum { TABLE = ROUTED + 1, ENDPOINT, ENDPOINTS = 6, NODE = ENDPOINT + ENDPOINTS, ROUTE_NODES = 6,
       NAMED = NODE + ROUTE_NODES };

enum life_kind { PLAIN, TABLES, SOURCED, KINDS };           /* a life of each begins with a seed */

/* ---- chance ---- */

extern uint64_t chance_state;

static inline uint64_t chance(void)    /* xorshift64*; the state is not 0 */
{
    chance_state ^= chance_state >> 12;
    chance_state ^= chance_state << 25;
    chance_state ^= chance_state >> 27;
    return chance_state * 0x2545f4914f6cdd1dull;
}
static inline uint32_t below(uint32_t n) { return (uint32_t) ((chance() >> 32) * n >> 32); }
static inline bool one_in(uint32_t n) { return !below(n); }

/* ---- failures ---- */

__attribute__((noreturn, cold, format(printf, 4, 5)))
void failed(const char *file, int line, const char *condition, const char *form, ...);

#define HOLDS(condition, ...) \
    do { if (__builtin_expect(!(condition), 0)) failed(__FILE__, __LINE__, #condition, __VA_ARGS__); } while (0)

/* ---- processes ---- */

enum { CORE = MOST_WORKERS, PEOPLE, PROCESSES };   /* numbers of processes: workers from 0; people have a heap alone */

typedef struct {
    void *stack, *at;
    uint8_t *heap;                     /* address range; used up to heap_top */
    size_t heap_top, heap_live, heap_most;
    void *free_of[32];                 /* by the logarithm of their size */
    bool alive, asleep;
    uint64_t wake_at;                  /* asleep: nanoseconds */
    uint32_t points;                   /* left until the scheduler takes over */
} process;

extern process processes[PROCESSES];
extern int running;                    /* the process that runs; -1: none, the scheduler does */
extern int heap_now;                   /* whose heap malloc() takes from */
extern uint64_t virtual_now;           /* nanoseconds */

void process_start(int number, void (*body)(int));
void process_resume(int number, uint32_t points);
void process_kill(int number);
void process_sleep(uint64_t until);
void process_pause(void);              /* a point that is always taken */

static inline void point(void) { if (running >= 0 && !--processes[running].points) process_pause(); }

void *heap_take(size_t size);
void *heap_take_clear(size_t count, size_t size);
void *heap_change(void *old, size_t size);
void heap_give(void *old);
int heap_take_pages(void **to, size_t alignment, size_t size);
int clock_virtual(int clock, void *time);

/* ---- wires: connections of clients to workers ---- */

enum { WIRE_ROOM = 1 << 17, WIRES = 24 };

typedef struct { uint32_t at, end; bool closed; uint8_t octets[WIRE_ROOM]; } wire_way;

typedef struct {
    bool used, open_there;             /* the worker has its socket open */
    int worker;
    uint32_t watched;                  /* events that the worker asks for */
    uint64_t name;                     /* with these data */
    bool in_epoll;
    wire_way in, out;                  /* to the worker, from the worker */
} wire;

extern wire wires[WIRES];

int wire_new(int worker);              /* its number; -1: none is left */
void wire_say(int number, const void *octets, uint32_t size);
bool wire_events(const wire *w, uint32_t *events);
void wire_hang_up(int number);         /* the client's end */
void wires_lost(int worker);           /* the worker is dead */
ssize_t wire_read(int number, void *to, size_t size);
ssize_t wire_write(int number, const void *from, size_t size);
int wire_close(int number);
int wire_shutdown(int number);
int wire_watch(int worker, int operation, int number, void *event);

/* ---- shared memory ---- */

typedef struct {
    uint8_t *control, *rings, *arena[MOST_WORKERS + 1];
    size_t arena_bytes, core_bytes;
    uint32_t workers, ring_room;
    uint32_t semaphore;                /* the core's */
    bool bell[MOST_WORKERS], wake[MOST_WORKERS];   /* eventfds: the doorbell, and for who wants Python */
} segments;

extern segments shared;

/* ---- control messages ---- */

enum { ANONYMOUS = 255 };

typedef struct {
    uint32_t link, generation, connection, connection_generation;
    int32_t granted;
    uint32_t capacity, request, session;   /* request, session: of the other end of a link-route pair */
    uint8_t address, modes[2];         /* ANONYMOUS: none; settle modes of sender and receiver */
    uint8_t kind, router;              /* between routers: LINK_CONTROL or LINK_DATA; a connection's router; 0: none */
    bool outgoing, settles, restored, refused, routed, to_table;
    char name[24];
} told;

/* ---- other routers ---- */

enum { NEXT = 2, BEYOND, ROUTERS };    /* by their bits: 0 is this one, NEXT are its neighbours, BEYOND is behind */

typedef struct {
    uint32_t neighbours;               /* 0: in this life this router is alone */
    uint8_t form[NEXT + 1];            /* of annotations: enum content_annotations */
    uint8_t announced[NAMED];          /* bits of the routers that have receivers */
    uint8_t lately[NAMED];             /* bits of those that have had some since all was at rest */
    uint32_t beyond;                   /* the neighbour that is next to BEYOND */
    bool joined;                       /* the neighbours are next to each other */
    bool streams;                      /* they have links for streams */
    bool news;                         /* the core has not heard what has changed */
} network_view;
extern network_view network;

void network_begin(uint64_t seed);     /* of a life */
void network_changes(void);            /* receivers come or go, or a path does */
void network_rests(void);
const uint8_t *router_text(uint32_t bit);
enum { ROUTER_OCTETS = 8, NOBODY = ROUTERS };  /* NOBODY: a name that no router has */

/* ---- the core ---- */

/* address: ROUTED if it has another end; owed: credit between routers that its worker has not been told of */
typedef struct {
    bool there, outgoing, draining;
    int64_t granted, withheld;
    uint32_t capacity, count, owed;
    uint8_t address;
} core_view;

void core_birth(uint32_t presenting, uint64_t seed);
void core_body(int number);
void core_worker_gone(uint32_t worker, uint32_t generation);
uint32_t core_reclaimed(uint32_t worker);      /* the last generation of which it has said so */
core_view core_see(uint32_t worker, uint32_t link, uint32_t generation);
void core_shown(void);
uint8_t core_reach(uint32_t address);  /* bits of the neighbours that get what all its receivers get */
void core_hold_still(void);            /* what holds after each step */
void core_rests(bool empty);           /* what holds when nothing is on its way; and without links */
const uint8_t *address_text(uint32_t address);
enum { ADDRESS_OCTETS = 8 };
enum { CLOSEST, BALANCED, MULTICAST, UNAVAILABLE };
uint32_t address_treatment(uint32_t address);

/* ---- workers ---- */

/* capacity 0: it grows; whole: each message is one TRANSFER */
typedef struct { uint32_t frame, window, capacity; bool whole; } worker_terms;
extern worker_terms listener_terms;

void worker_birth(uint32_t worker);
void worker_body(int number);
void worker_bury(uint32_t worker);
bool worker_core_gone(uint32_t worker);
void worker_core_back(uint32_t worker);
bool worker_quiet(uint32_t worker);
bool worker_connect(uint32_t worker, int wire);      /* false: too many wait already */
void worker_rests(uint32_t worker, bool empty);
bool link_of_worker(uint32_t worker, int wire, uint32_t handle, uint32_t *link, uint32_t *generation);
bool worker_wakes(uint32_t worker);
uint32_t worker_links(uint32_t worker);

/* ---- clients and the ledger ---- */

void people_begin(bool feeds);         /* feeds: receivers of a link route who take little */
void people_end(void);
bool client_step(uint32_t client);     /* false: it had nothing to do */
void people_oblige(bool on);           /* from now on they finish what they have begun, and begin nothing */
bool people_goodbye(void);             /* they all go; false: not all have gone */
void people_disturbed(void);           /* what is on its way may end as failed */
void people_supervisor_gone(void);
void people_check(void);
void people_tell(void);
bool people_wait(void);                /* somebody waits for the router */

typedef struct {
    uint64_t messages, presettled, streams, settled, accepted, received, links, connections, worker_deaths, core_deaths,
        supervisor_deaths, vanished, lives, steps, to_routers, from_routers, idle, by_table, tables, by_route, detours;
} totals;
extern totals total;

#endif
