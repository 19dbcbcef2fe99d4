/* The route table, as the core's Python keeps it (core/rmr/active/route_tables.py, intake.py, opening.py). */
#ifndef ROUTERD_TESTS_SIMULATION_CORE_TABLES_H
#define ROUTERD_TESTS_SIMULATION_CORE_TABLES_H

#include "tests/simulation/depth/tables.h"

typedef struct {                       /* numbers of endpoints; ROUTE_NONE: it has none.  Memory goes with its owner */
    uint32_t version, number[ENDPOINTS], count;
    route_table *table;
    route_owners *owners;
    void *words, *senders, *names;
} numbered;

enum { KEYS = TYPES * SUBSCRIPTIONS };

static struct {
    bool there, begun;
    core_routes p;
    numbered table, owners, former;
    uint32_t moved[2][ENDPOINTS];
    uint32_t receivers[MOST_WORKERS][ENDPOINTS], left[ENDPOINTS];
    route_busiest busiest;
    uint64_t turns[KEYS], sent[ENDPOINTS];     /* of the former table, when another one took its place */
} routes;

/* ---- building ---- */

static void numbered_free(numbered *n)
{
    route_table_free(n->table);
    route_owners_free(n->owners);
    free(n->words);
    free(n->senders);
    free(n->names);
    *n = (numbered) { 0 };
}

/* Gives numbers to the endpoints of `used`, in this order. */
static void number_endpoints(numbered *n, uint8_t used, const uint8_t order[ENDPOINTS])
{
    n->count = 0;
    for (uint32_t i = 0; i < ENDPOINTS; i++)
        n->number[order[i]] = used >> order[i] & 1 ? n->count++ : ROUTE_NONE;
}

static void name_endpoints(numbered *n, route_endpoints *to)
{
    uint8_t *text = (uint8_t *) (n->names = malloc(ENDPOINTS * NAME_OCTETS));
    for (uint8_t e = 0; e < ENDPOINTS; e++) {
        const uint32_t i = n->number[e];
        if (i == ROUTE_NONE) continue;
        memcpy(text + i * NAME_OCTETS, source_text(e), NAME_OCTETS);
        to->at[i].name = i * NAME_OCTETS;
        to->at[i].length = NAME_OCTETS;
        to->at[i].hash = alias_hash(it.c->aliases.seed, text + i * NAME_OCTETS, NAME_OCTETS);
    }
    to->names = text;
}

static uint32_t words_put(const numbered *n, const table_row *r, uint32_t *to)
{
    uint32_t *at = to;
    *at++ = r->groups;
    for (uint32_t g = 0; g < r->groups; g++) {
        *at++ = r->members[g];
        for (uint32_t i = 0; i < r->members[g]; i++) *at++ = n->number[r->member[g][i]];
    }
    return (uint32_t) (at - to);
}

static uint32_t senders_put(const table_row *r, uint64_t *to)
{
    uint32_t count = 0;
    for (uint8_t i = 0; i < SOURCES; i++)
        if (r->senders >> i & 1)
            to[count++] = alias_hash(it.c->aliases.seed, (const uint8_t *) source_text(i), NAME_OCTETS);
    return count;
}

static numbered table_compiled(uint32_t version)
{
    const table_version *v = &tables.table[version];
    int32_t types[TABLE_ROWS], subscriptions[TABLE_ROWS];
    uint32_t targets[TABLE_ROWS], places[TABLE_ROWS], rows[TABLE_ROWS], starts[TABLE_ROWS + 1] = { 0 };
    uint32_t words = 0, senders = 0, sent = 0;
    uint8_t used = 0;
    numbered n = { .version = version };
    n.words = malloc(TABLE_ROWS * (1 + ROW_GROUPS * (1 + GROUP_MEMBERS)) * sizeof(uint32_t));
    n.senders = malloc(TABLE_ROWS * SOURCES * sizeof(uint64_t));
    for (uint32_t i = 0; i < v->rows; i++)
        for (uint32_t g = 0; g < v->row[i].groups; g++)
            for (uint32_t m = 0; m < v->row[i].members[g]; m++) used |= (uint8_t) (1u << v->row[i].member[g][m]);
    number_endpoints(&n, used, v->order);
    for (uint32_t i = 0; i < v->rows; i++) {
        types[i] = v->row[i].type;
        subscriptions[i] = v->row[i].subscription;
        targets[i] = v->row[i].deleted ? ROUTE_NONE : i;
        places[i] = words;
        words += words_put(&n, &v->row[i], (uint32_t *) n.words + words);
        if (!v->row[i].senders) continue;
        rows[sent++] = i;
        starts[sent] = senders += senders_put(&v->row[i], (uint64_t *) n.senders + senders);
    }
    n.table = route_build(&(route_columns) { types, subscriptions, targets, v->rows, places, (uint32_t *) n.words, rows,
                                             starts, sent, (uint64_t *) n.senders, words, senders }, n.count);
    HOLDS(n.table, "no memory");
    name_endpoints(&n, &n.table->endpoints);
    return n;
}

static numbered owners_compiled(uint32_t version)
{
    const owners_version *v = &tables.owners[version];
    uint32_t starts[ENTITIES + 1] = { 0 }, owners[ENTITIES], count = 0;
    uint8_t used = 0;
    numbered n = { .version = version };
    uint8_t *text = (uint8_t *) (n.words = malloc(ENTITIES * ENTITY_OCTETS));
    for (uint32_t i = 0; i < ENTITIES; i++) if (v->owner[i] != NO_OWNER) used |= (uint8_t) (1u << v->owner[i]);
    number_endpoints(&n, used, v->order);
    for (uint8_t i = 0; i < ENTITIES; i++) {
        if (v->owner[i] == NO_OWNER) continue;
        memcpy(text + count * ENTITY_OCTETS, entity_text(i), ENTITY_OCTETS);
        owners[count++] = n.number[v->owner[i]];
        starts[count] = count * ENTITY_OCTETS;
    }
    n.owners = route_owners_build(it.c->aliases.seed, text, starts, owners, count, n.count);
    HOLDS(n.owners, "no memory");
    name_endpoints(&n, &n.owners->endpoints);
    return n;
}

/* ---- what is in use ---- */

static uint8_t endpoints_here(void)
{
    uint8_t here = 0;
    for (uint32_t e = 0; e < ENDPOINTS; e++)
        for (uint32_t w = 0; w < shared.workers; w++) if (routes.receivers[w][e]) here |= (uint8_t) (1u << e);
    return here;
}

/* The core knows something else from now on. */
static void routes_note(void)
{
    table_state s;
    if (!tables.on) return;
    memset(&s, 0, sizeof s);
    s.there = routes.there;
    s.open = routes.there && !routes.p.closed;
    s.skips = routes.p.skip_dead;
    s.table = routes.table.version;
    s.owners = routes.owners.version;
    s.alive = endpoints_here();
    memcpy(s.left, routes.left, sizeof s.left);
    for (uint32_t e = 0; e < ENDPOINTS; e++) if (interior.mapped[ENDPOINT + e]) s.reached |= (uint8_t) (1u << e);
    tables_now(&s);
}

static void endpoint_bind(uint32_t e)
{
    core_address *a = it.addresses[ENDPOINT + e];
    const uint32_t in_table = routes.table.number[e], owner = routes.owners.number[e];
    if (routes.table.table && in_table != ROUTE_NONE) routes.table.table->endpoints.at[in_table].address = a;
    if (routes.owners.owners && owner != ROUTE_NONE) routes.owners.owners->endpoints.at[owner].address = a;
}

/* An address has come, or is about to go. */
static void routes_watch(uint32_t address)
{
    if (routes.there && address >= ENDPOINT && address < NODE) endpoint_bind(address - ENDPOINT);
}

/* By the former number of an endpoint its present one. */
static void moved(const numbered *from, const numbered *to, uint32_t by[ENDPOINTS])
{
    for (uint32_t e = 0; from->version && e < ENDPOINTS; e++)
        if (from->number[e] != ROUTE_NONE) by[from->number[e]] = to->number[e];
}

/* The entry of a key for all senders; NULL: there is none. */
static const route_slot *entry_for_all(const route_table *t, uint32_t key)
{
    const route_slot *s = route_slot_of(t, FIRST_TYPE + (int32_t) (key % TYPES), (int32_t) (key / TYPES) - 1);
    return s && !(s->target & ROUTE_SPECIAL) ? s : NULL;
}

static void counts_remember(const numbered *n)
{
    const route_slot *s;
    memset(routes.turns, 0, sizeof routes.turns);
    memset(routes.sent, 0, sizeof routes.sent);
    for (uint32_t k = 0; n->version && k < KEYS; k++)
        if ((s = entry_for_all(n->table, k))) routes.turns[k] = route_slot_turns(n->table, s);
    for (uint32_t e = 0; n->version && e < ENDPOINTS; e++)
        if (n->number[e] != ROUTE_NONE) routes.sent[e] = n->table->endpoints.at[n->number[e]].sent;
}

static void counts_check(const numbered *n)
{
    const route_slot *s;
    for (uint32_t k = 0; k < KEYS; k++)
        HOLDS(!(s = entry_for_all(n->table, k)) || route_slot_turns(n->table, s) >= routes.turns[k],
              "the count of an entry has not moved to the next table");
    for (uint32_t e = 0; e < ENDPOINTS; e++)
        HOLDS(n->number[e] == ROUTE_NONE || n->table->endpoints.at[n->number[e]].sent >= routes.sent[e],
              "the count of endpoint %u has not moved to the next table", e);
}

static void routes_forget(void)
{
    if (routes.p.former || !routes.former.version) return;
    counts_check(&routes.table);
    numbered_free(&routes.former);
}

static void install(const table_made *made)
{
    if (made->table) {
        numbered next = table_compiled(made->table);
        moved(&routes.table, &next, routes.moved[0]);
        counts_remember(&routes.table);
        routes_use_table(&routes.p, next.table, routes.moved[0]);
        routes.former = routes.table;
        routes.table = next;
    }
    if (made->owners) {
        numbered next = owners_compiled(made->owners);
        moved(&routes.owners, &next, routes.moved[1]);
        routes_use_owners(&routes.p, next.owners, routes.moved[1]);
        numbered_free(&routes.owners);
        routes.owners = next;
    }
    for (uint32_t e = 0; e < ENDPOINTS; e++) if (it.addresses[ENDPOINT + e]) endpoint_bind(e);
    routes_forget();
    routes.begun = true;
    total.tables++;
}

/* Senders to what has become the table's address, or is it no more, attach again. */
static void senders_leave(const core_address *a)
{
    for (uint32_t w = 0; w < shared.workers; w++)
        for (uint32_t i = 0; i < it.c->worker[w].link_room; i++) {
            const core_link *l = it.c->worker[w].link[i];
            if (l && l->address == a) core_says(w, C_DETACH, &(told) { .link = l->link, .generation = l->link_gen });
        }
}

static void routes_begin(bool open)
{
    core_address *a = address_of(TABLE);
    a->holds++;
    memset(&routes.p, 0, sizeof routes.p);
    routes.p.address = a;
    routes.p.skip_dead = tables.skips;
    routes.p.closed = !open;
    routes.there = true;
    routes.begun = open;
    if (!open && tables.installed && tables.installed == tables.made_count) tables.installed--;
    address_set_routes(it.c, a, &routes.p);
    senders_leave(a);
}

static void routes_end(void)
{
    core_address *a = it.addresses[TABLE];
    address_set_routes(it.c, a, NULL);
    a->holds--;
    routes.there = false;
    numbered_free(&routes.table);
    numbered_free(&routes.owners);
    numbered_free(&routes.former);
    senders_leave(a);
}

/* Hears of one change, or does what is left of one. */
static void routes_turn(void)
{
    if (!tables.on) return;
    tables.news = false;
    if (tables.configured != routes.there) {
        if (routes.there) routes_end();
        else routes_begin(one_in(4));
    }
    routes.p.skip_dead = tables.skips;
    if (routes.there) {
        routes_settle(&routes.p);
        routes_forget();
        if (!routes.former.version && tables.installed < tables.made_count) install(&tables.made[tables.installed++]);
        if (routes.p.closed && (routes.begun || !tables.made_count) && one_in(4)) {
            routes.p.closed = false;
            address_set_routes(it.c, routes.p.address, &routes.p);
        }
        if (routes.table.table) (void) route_busiest_step(routes.table.table, &routes.busiest);
    }
    routes_note();
}

/* There is something to do at once. */
static bool routes_restless(void)
{
    return tables.on && (tables.news || (routes.there && (routes.former.version || routes.p.closed
                                                          || tables.installed < tables.made_count)));
}

/* ---- receivers at endpoints ---- */

static void routes_receiver(uint32_t w, uint32_t address, bool comes)
{
    if (address < ENDPOINT || address >= NODE) return;
    routes.receivers[w][address - ENDPOINT] += comes ? 1u : -1u;
    routes.left[address - ENDPOINT] += !comes;
    routes_note();
}

/* A link goes; its address is still known. */
static void routes_leaves(const core_link *l)
{
    for (uint32_t i = ENDPOINT; l->outgoing && l->address && i < NODE; i++)
        if (l->address == it.addresses[i]) routes_receiver(l->worker, i, false);
}

static void routes_worker_gone(uint32_t w)
{
    for (uint32_t e = 0; e < ENDPOINTS; e++) routes.left[e] += routes.receivers[w][e];
    memset(routes.receivers[w], 0, sizeof routes.receivers[w]);
    routes_note();
}

/* A new core begins with a snapshot, which may be older than what its predecessor had in use. */
static void routes_birth(void)
{
    memset(&routes, 0, sizeof routes);
    if (!tables.on) return;
    const uint32_t back = below(4);
    tables.installed -= back < tables.installed ? back : tables.installed;
    if (tables.configured) routes_begin(false);
    routes_note();
}

void core_tables_rest(void)
{
    const core_routes *p = &routes.p;
    if (!tables.on || !routes.there) return;
    HOLDS(!p->former && tables.installed == tables.made_count && !p->closed, "a route table is not in use");
    for (uint32_t e = 0; e < ENDPOINTS; e++) {
        const uint32_t i = routes.table.number[e];
        HOLDS(!p->table || i == ROUTE_NONE || p->table->endpoints.at[i].address == it.addresses[ENDPOINT + e],
              "endpoint %u of the table is bound to another address", e);
    }
}

#endif
