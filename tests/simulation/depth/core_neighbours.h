/* Connections to other routers, as the core's Python keeps them (core/interior/inter_router.py), and what the router
 * protocol tells the forwarder (core/interior/network_adapter.py). */
#ifndef ROUTERD_TESTS_SIMULATION_CORE_NEIGHBOURS_H
#define ROUTERD_TESTS_SIMULATION_CORE_NEIGHBOURS_H

typedef struct { uint32_t link, generation; bool there; } own_link;

typedef struct {
    bool there, up;
    uint32_t worker, connection, generation, router;
    uint32_t place;
    uint64_t streams;                  /* handle; 0: it has no links for streams */
    own_link control[2], data[2][ROUTERD_PRIORITIES];   /* incoming, outgoing */
} inter_router;

static struct {
    inter_router of[WIRES];
    uint32_t chosen[NEXT + 1];         /* by router: its connection plus 1 that is used; 0: none is up */
    bool known[ROUTERS];
    int hop[ROUTERS];
    core_mask valid[ROUTERS];
    uint8_t mapped[NAMED];             /* bits of the routers with receivers, as far as the core has heard */
} interior;

/* ---- the router protocol ---- */

/* The next hop to a router; -1: there is none. */
static int hop_to(uint32_t bit)
{
    const uint32_t next = bit == BEYOND ? network.beyond : bit, other = NEXT + 1 - next;
    if (interior.chosen[next]) return (int) next;
    return network.joined && interior.chosen[other] ? (int) other : -1;
}

/* Origins whose messages to a router come through here: neighbours that are joined need nobody between them. */
static core_mask valid_to(uint32_t bit)
{
    core_mask valid = {{ 1, 0 }};
    for (uint32_t from = 1; from < ROUTERS && !network.joined; from++)
        if (from != bit && hop_to(from) >= 0 && hop_to(from) != hop_to(bit)) mask_set(&valid, from);
    return valid;
}

static void map(uint32_t address, uint32_t bit)
{
    core_address *a = address_of(address);
    text_disown(it.c, a->text);
    a->text = text_new(address_text(address), ADDRESS_OCTETS);
    HOLDS(address_add_remote(it.c, a, bit), "no memory");
    interior.mapped[address] |= (uint8_t) (1u << bit);
}

static void unmap(uint32_t address, uint32_t bit)
{
    address_drop_remote(it.c, address_of(address), bit);
    interior.mapped[address] &= (uint8_t) ~(1u << bit);
}

static void announcements_heard(uint32_t bit)
{
    for (uint32_t i = 0; i < NAMED; i++) {
        const bool now = network.announced[i] >> bit & 1, was = interior.mapped[i] >> bit & 1;
        if (now && !was) map(i, bit);
        if (was && !now) unmap(i, bit);
    }
}

static void router_forgotten(uint32_t bit)
{
    for (uint32_t i = 0; i < NAMED; i++) if (interior.mapped[i] >> bit & 1) unmap(i, bit);
    network_remove(it.c, bit);
    interior.known[bit] = false;
}

static void router_learned(uint32_t bit)
{
    network_add(it.c, bit, router_text(bit), ROUTER_OCTETS);
    interior.known[bit] = true;
    interior.hop[bit] = -1;
    interior.valid[bit] = (core_mask) {{ 0, 0 }};
    if (bit != BEYOND && interior.chosen[bit])
        network_neighbour(it.c, bit, (int) interior.of[interior.chosen[bit] - 1].place);
}

/* Something has changed: paths, then what routers say of addresses. */
static void protocol_step(void)
{
    for (uint32_t bit = 1; bit < ROUTERS; bit++) {
        if (!interior.known[bit] && hop_to(bit) >= 0) router_learned(bit);
        if (!interior.known[bit]) continue;
        const int hop = hop_to(bit);
        const core_mask valid = valid_to(bit);
        if (hop >= 0 && !interior.known[hop]) router_learned((uint32_t) hop);
        if (hop != interior.hop[bit] || memcmp(&valid, &interior.valid[bit], sizeof valid))
            network_path(it.c, bit, hop, hop == (int) bit ? 1 : 2, valid);
        interior.hop[bit] = hop;
        interior.valid[bit] = valid;
        if (hop >= 0) announcements_heard(bit);
        else if (one_in(2)) router_forgotten(bit);
    }
    routes_note();
}

static void news_heard(void)
{
    if (!network.news) return;
    network.news = false;
    protocol_step();
}

/* Which of a router's connections is used. */
static void choose(uint32_t router)
{
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < WIRES; i++)
        if (interior.of[i].there && interior.of[i].up && interior.of[i].router == router
            && (!chosen || one_in(2))) chosen = i + 1;
    if (chosen == interior.chosen[router]) return;
    interior.chosen[router] = chosen;
    if (interior.known[router])
        network_neighbour(it.c, router, chosen ? (int) interior.of[chosen - 1].place : -1);
    protocol_step();
}

/* ---- connections ---- */

static inter_router *inter_router_find(uint32_t w, uint32_t connection)
{
    for (uint32_t i = 0; i < WIRES; i++) {
        inter_router *r = &interior.of[i];
        if (r->there && r->worker == w && r->connection == connection) return r;
    }
    return NULL;
}

static void inter_router_opened(uint32_t w, const told *t)
{
    uint32_t i = 0;
    while (i < WIRES && interior.of[i].there) i++;
    HOLDS(i < WIRES && !inter_router_find(w, t->connection), "too many connections to routers");
    core_streams *streams = network.streams ? stream_open(it.c) : NULL;
    inter_router *r = &interior.of[i];
    *r = (inter_router) { .there = true, .worker = w, .connection = t->connection, .router = t->router,
                          .generation = t->connection_generation, .streams = streams ? pool_handle(streams) : 0 };
    const int place = neighbour_take(it.c, r->streams, network.form[t->router] == 3);
    HOLDS(place >= 0, "no place for a neighbour");
    r->place = (uint32_t) place;
}

static void inter_router_lost(inter_router *r)
{
    if (!r->up) return;
    r->up = false;
    choose(r->router);
}

static void inter_router_over(inter_router *r)
{
    inter_router_lost(r);
    r->there = false;
    if (r->streams) stream_close(it.c, (core_streams *) pool_find(&it.c->streams, r->streams));
    neighbour_give(it.c, r->place);
}

static void inter_router_closed(uint32_t w, const told *t)
{
    inter_router *r = inter_router_find(w, t->connection);
    if (r && r->generation == t->connection_generation) inter_router_over(r);
}

/* A worker has died; its links are gone. */
static void inter_routers_lost(uint32_t w)
{
    for (uint32_t i = 0; i < WIRES; i++)
        if (interior.of[i].there && interior.of[i].worker == w) inter_router_over(&interior.of[i]);
}

/* ---- links ---- */

static void inter_router_attach(uint32_t w, const told *t)
{
    inter_router *r = inter_router_find(w, t->connection);
    HOLDS(r, "a link between routers on connection %u of worker %u, which is none", t->connection, w);
    uint32_t priority = 0;
    uint8_t kind = t->kind;
    if (kind == LINK_DATA) while (priority < ROUTERD_PRIORITIES && r->data[t->outgoing][priority].there) priority++;
    if (priority == ROUTERD_PRIORITIES) { kind = LINK_STREAM; priority = 0; }
    own_link *own = kind == LINK_CONTROL ? &r->control[t->outgoing] : kind == LINK_DATA
        ? &r->data[t->outgoing][priority] : NULL;
    HOLDS(!own || !own->there, "two control links");
    if (!t->restored) core_says(w, C_ATTACHED, t);
    core_link terms = { .outgoing = t->outgoing, .capacity = t->capacity ? t->capacity : ROUTERD_LINK_CREDIT,
                        .growth = !t->capacity && !t->outgoing, .kind = kind, .annotated = true };
    core_link *l = link_place(it.c, w, t->link, t->generation, &terms);
    HOLDS(l, "link %u of worker %u is there", t->link, w);
    neighbour_add_link(it.c, l, r->place, priority);
    int64_t granted = t->restored ? t->granted : 0;
    if (!terms.growth && granted > terms.capacity) granted = terms.capacity;
    if (!l->outgoing) link_credit(it.c, l, granted);
    if (own) *own = (own_link) { t->link, t->generation, true };
    if (kind != LINK_CONTROL || r->up || !r->control[0].there || !r->control[1].there) return;
    r->up = true;
    choose(r->router);
}

/* A link is gone that may be one between routers. */
static void inter_router_detached(uint32_t w, const told *t)
{
    for (uint32_t i = 0; i < WIRES; i++) {
        inter_router *r = &interior.of[i];
        if (!r->there || r->worker != w) continue;
        for (int out = 0; out < 2; out++) {
            for (uint32_t p = 0; p < ROUTERD_PRIORITIES; p++) {
                own_link *own = &r->data[out][p];
                if (own->there && own->link == t->link && own->generation == t->generation) own->there = false;
            }
            own_link *own = &r->control[out];
            if (!own->there || own->link != t->link || own->generation != t->generation) continue;
            own->there = false;
            inter_router_lost(r);
        }
    }
}

static void interior_begin(void)
{
    memset(&interior, 0, sizeof interior);
    if (network.neighbours) network_add(it.c, 0, router_text(0), ROUTER_OCTETS);
    it.c->network.radius = 2;
}

/* The neighbours that get what all receivers of an address get; 0 while the core has news to hear. */
uint8_t core_reach(uint32_t address)
{
    uint8_t hops = 0;
    if (!it.c || !processes[CORE].alive || network.news) return 0;
    for (uint32_t bit = 1; bit < ROUTERS; bit++) {
        if (!interior.known[bit] || !(interior.mapped[address] >> bit & 1) || interior.hop[bit] < 0) continue;
        const uint32_t chosen = interior.chosen[interior.hop[bit]];
        if (chosen && interior.of[chosen - 1].data[1][0].there) hops |= (uint8_t) (1u << interior.hop[bit]);
    }
    return hops;
}

/* Nothing is on its way to other routers; returns the blocks that keep texts for them. */
static uint32_t interior_rests(void)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < NAMED; i++) {
        const core_address *a = it.addresses[i];
        if (!a) continue;
        for (uint32_t hop = 0; a->outstanding && hop < NODES; hop++)
            HOLDS(!a->outstanding[hop], "address %u has %u outstanding over %u", i, a->outstanding[hop], hop);
        if (!a->text) continue;
        HOLDS(!a->text->uses, "the text of address %u has %u uses", i, a->text->uses);
        kept += a->text->block != ROUTERD_NIL;
    }
    return kept;
}

#endif
