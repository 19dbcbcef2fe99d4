/* Source routes, as the simulation knows them: what each version of the route workers' configuration does to a message.
 *
 * A route worker is a *node* here.  Each worker process takes a version into use when it hears of it, so a message goes
 * by one version of those that its worker had while it came.
 */
#ifndef ROUTERD_TESTS_SIMULATION_SOURCED_H
#define ROUTERD_TESTS_SIMULATION_SOURCED_H

#include "tests/simulation/depth/simulation.h"

enum { NODE_ROUTE = 3, SENT_STOPS = 5, ROUTE_LONGEST = 80, NODE_VERSIONS = 1024, NODE_TABLE = 4096, SOURCE_HOPS = 24,
       SOURCE_ONWARD = 12, SOURCE_RETURN = 12 };
enum node_kind { NODE_ABSENT, NODE_FORWARD, NODE_STATIC, NODE_EXTEND, NODE_TEE, NODE_WRAP, NODE_UNWRAP, NODE_KINDS };

typedef struct { uint8_t kind, stops, route[NODE_ROUTE]; bool traces; } route_node;    /* route: addresses */

typedef struct { route_node node[ROUTE_NODES]; } nodes_version;

typedef struct { uint8_t count, stop[ROUTE_LONGEST]; } stops;      /* the first one first */

typedef struct {                       /* a message: what its sender wrote, and by which versions it may have gone */
    bool on;
    uint8_t worker;
    uint32_t from;
    stops onward, back;
    uint8_t copies;                    /* that its receiver got; a tee's are others */
} sourced_way;

typedef struct {                       /* what becomes of a message */
    bool refused, tees;                /* tees: there may be copies */
    stops onward, back;                /* onward begins where it is delivered */
} sourced_end;

typedef struct {
    bool on;                           /* in this life there are route workers */
    uint32_t changes;                  /* one in so many steps */
    uint32_t count, used[MOST_WORKERS];            /* versions, from 1; the one that a worker has in use */
    nodes_version version[NODE_VERSIONS];
} sourced_view;
extern sourced_view sourced;

void sourced_begin(bool on);           /* of a life */
void sourced_change(void);
sourced_way sourced_new(uint32_t worker, uint8_t address);
uint32_t sourced_put(const sourced_way *way, uint8_t *to);         /* its annotations */
uint32_t sourced_table(uint32_t version, uint8_t *to);             /* what Python compiles of a version */
/* A copy that comes, by what one version says.  A tee's has no return route of its sender. */
enum sourced_copy { COPY_NONE, COPY_MAIN, COPY_OF_TEE };
enum sourced_copy sourced_comes(const sourced_way *way, uint8_t address, const stops *onward, const stops *back);
bool sourced_rests(const sourced_way *way, uint32_t told);
void sourced_text(const sourced_way *way, const stops *onward, const stops *back, char *to, size_t room);

#endif
