/* A route table that changes, for the core's target: entries, owners, endpoints that come and go. */
#ifndef ROUTERD_TESTS_FUZZ_ROUTES_H
#define ROUTERD_TESTS_FUZZ_ROUTES_H

#define FUZZ_ROWS 24u
#define FUZZ_ENDPOINTS 6u

static const uint32_t fuzz_words[] = {1, 1, 0, 2, 2, 0, 1, 3, 2, 3, 4, 0, 3, 1, 5, 2, 4, 4, 1, 0};
static const uint32_t fuzz_places[] = {0, 3, 11, 12};
static const uint8_t fuzz_names[] = "a:1b:1c:1d:1e:1f:1";
static const uint32_t fuzz_moved[] = {5, 0, 1, ROUTE_NONE, 3, 77};
static uint64_t fuzz_senders[2];

typedef struct {
    core_routes routes;
    route_table *former;
} fuzz_routes;

static void fuzz_name(route_endpoints *all, uint64_t seed)
{
    all->names = fuzz_names;
    for (uint32_t i = 0; i < all->count; i++) {
        all->at[i].name = i * 3;
        all->at[i].length = 3;
        all->at[i].hash = alias_hash(seed, fuzz_names + i * 3, 3);
    }
}

static route_table *fuzz_table(core_router *c)
{
    int32_t type[FUZZ_ROWS], subscription[FUZZ_ROWS];
    uint32_t target[FUZZ_ROWS], row[FUZZ_ROWS], start[FUZZ_ROWS + 1] = {0}, special = 0;
    uint32_t rows = FUZZ_ROWS - 1 - below(FUZZ_ROWS);
    for (uint32_t i = 0; i < 2; i++) fuzz_senders[i] = alias_hash(c->aliases.seed, fuzz_names + i * 3, 3);
    for (uint32_t i = 0; i < rows; i++) {
        type[i] = (int32_t) (98 + below(8));
        subscription[i] = (int32_t) below(4) - 1;
        target[i] = below(6) ? below(4) : ROUTE_NONE;
        if (below(3)) continue;
        row[special] = i;
        start[special] = special ? start[special] : 0;
        start[special + 1] = start[special] + (start[special] < 2 ? 1 : 0);
        special++;
    }
    route_columns columns = {.type = type, .subscription = subscription, .target = target, .rows = rows,
        .place = fuzz_places, .word = fuzz_words,
                             .sender_row = row, .sender_start = start, .sender_rows = special, .sender = fuzz_senders};
    route_table *t = route_build(&columns, FUZZ_ENDPOINTS);
    if (!t) exit(2);
    fuzz_name(&t->endpoints, c->aliases.seed);
    return t;
}

static void fuzz_bind(route_endpoints *all, core_address **addresses)
{
    for (uint32_t i = 0; i < all->count; i++) all->at[i].address = below(4) < 3 ? addresses[below(4)] : NULL;
}

static void fuzz_owners(core_router *c, core_routes *p)
{
    static const uint8_t meids[] = "m1m22m3";
    static const uint32_t start[] = {0, 2, 5, 7}, owner[] = {0, 1, 1};
    route_owners *old = p->owners, *o = route_owners_build(c->aliases.seed, meids, start, owner, below(4), 2);
    if (!o) exit(2);
    fuzz_name(&o->endpoints, c->aliases.seed);
    routes_use_owners(p, o, fuzz_moved);
    route_owners_free(old);
}

static void fuzz_renew(core_router *c, fuzz_routes *f)
{
    f->former = f->routes.table;
    routes_use_table(&f->routes, fuzz_table(c), fuzz_moved);
}

/* Another table, another map, other endpoints that somebody is at; or a portion of what is left to settle. */
static void fuzz_tables(core_router *c, fuzz_routes *f, core_address **addresses)
{
    core_routes *p = &f->routes;
    if (routes_settle(p)) {
        route_table_free(f->former);
        f->former = NULL;
        if (below(50) == 49) fuzz_renew(c, f);
    }
    if (below(50) == 49) fuzz_owners(c, p);
    if (p->table && !below(8)) fuzz_bind(&p->table->endpoints, addresses);
    if (p->owners && !below(8)) fuzz_bind(&p->owners->endpoints, addresses);
    p->skip_dead = below(2);
}

static void fuzz_routes_close(core_router *c, fuzz_routes *f)
{
    address_set_routes(c, f->routes.address, NULL);
    route_table_free(f->former);
    route_table_free(f->routes.table);
    route_owners_free(f->routes.owners);
}

#endif
