/* Route tables, as the simulation knows them: what each version says, what the core had in use and when, and where a
 * message may go by that.
 *
 * A *version* is a table or a map of owners that somebody has written.  A *state* is what the core knows at one time:
 * the versions in use, and which endpoints have receivers.  The core takes a message in one state between the one in
 * which its sender begins it, and the one in which somebody first hears of it; by that state alone it goes.
 */
#ifndef ROUTERD_TESTS_SIMULATION_TABLES_H
#define ROUTERD_TESTS_SIMULATION_TABLES_H

#include "tests/simulation/depth/simulation.h"

enum { TABLE_ROWS = 12, ROW_GROUPS = 3, GROUP_MEMBERS = 4, ENTITIES = 4, SOURCES = ENDPOINTS + 2 };
enum { NO_SOURCE = 255, NO_ENTITY = 255, NO_OWNER = 255, NO_TYPE = 0, RESERVED_TYPE = 20, FIRST_TYPE = 1000, TYPES = 4,
       SUBSCRIPTIONS = 3, ANY_SUBSCRIPTION = -1 /* the first of these */ };
enum { TABLE_VERSIONS = 1024, TABLE_STATES = 1 << 15, PROPERTIES_MOST = 96, NAME_OCTETS = 10, ENTITY_OCTETS = 6 };

typedef struct {                       /* `senders`: bits of sources; 0: all.  groups 0: by the managed entity */
    int32_t type, subscription;
    uint8_t senders, groups, members[ROW_GROUPS], member[ROW_GROUPS][GROUP_MEMBERS];
    bool deleted;
} table_row;

typedef struct { uint32_t rows; table_row row[TABLE_ROWS]; uint8_t order[ENDPOINTS]; } table_version;

typedef struct { uint8_t owner[ENTITIES], order[ENDPOINTS]; } owners_version;

typedef struct { uint32_t table, owners; } table_made;             /* numbers of versions, from 1; 0: none */

typedef struct {                       /* alive: bits of endpoints with receivers here; reached: at other routers */
    uint32_t table, owners;
    uint8_t alive, reached;
    uint32_t left[ENDPOINTS];          /* receivers that have gone: what was on its way to them comes to nobody */
    bool there, open, skips;
} table_state;

typedef struct { int32_t type, subscription; uint8_t source, entity; } table_key;

typedef struct {                       /* a message: what is known of its way */
    table_key key;
    uint32_t from, until;              /* states, from 1; until 0: nobody has heard of it yet */
    bool keyed, closed;                /* its link leads to the table; it never enters it */
    uint8_t got[ENDPOINTS];            /* copies */
} table_way;

typedef struct {
    bool on;                           /* in this life there is a table */
    bool configured, skips;            /* what the core is to hear */
    bool news;                         /* it has not yet */
    uint32_t changes;                  /* one in so many steps */
    uint32_t installed;                /* of what has been made: what the core has taken into use */
    table_version table[TABLE_VERSIONS];
    owners_version owners[TABLE_VERSIONS];
    table_made made[TABLE_VERSIONS];
    uint32_t table_count, owners_count, made_count;
    table_state state[TABLE_STATES];
    uint32_t states;
} tables_view;
extern tables_view tables;

void tables_begin(bool on);            /* of a life */
void tables_change(void);              /* somebody writes a table or a map, or changes the configuration */
void tables_now(const table_state *now);       /* what the core knows from now on */
const char *source_text(uint8_t source);
const char *entity_text(uint8_t entity);
table_way tables_way(bool keyed);      /* of a message that begins now */
uint32_t key_put(const table_key *key, uint8_t *to);               /* its application properties */
void tables_heard(table_way *way);     /* somebody has heard of it */
bool tables_left(const table_way *way);         /* receivers have gone since it began */
/* Whether a message goes as one of these states says.  told 0: some of its copies may be missing. */
bool tables_allow(const table_way *way, uint32_t until, uint32_t told);
void tables_tell(void);
void turn_begins(void);                /* turns of the state that there is */
void turn_taken(const table_way *way);
void turns_check(void);
void tables_way_text(const table_way *way, char *to, size_t room);
void core_tables_rest(void);

#endif
