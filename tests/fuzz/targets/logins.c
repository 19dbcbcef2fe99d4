/* Logins: SASL frames of clients in any order, answered by the engine with Cyrus SASL, by Python, or by an
 * authentication service that says what it likes.  Nobody gets in without a decision, and nothing of a login is left
 * behind it.
 *
 * The target is the clients, the services, and what Python does at events.
 */
#include "tests/fuzz/parts/input.h"

#include "tests/native/worker_world.h"

#include "tests/fuzz/parts/client.h"

enum { ARENA = 64 << 10, CLIENTS = 3, STEPS = 200, LAST_TURNS = 200 };
/* Listeners, by who decides, and where services are dialled. */
enum { BY_ANYBODY, BY_ENGINE, BY_PYTHON, BY_SERVICE, SERVICES, PLACES };

const char *pn_transport_get_user(pn_transport_t *transport);
void pn_sasl_config_name(pn_sasl_t *sasl, const char *name);
void pn_sasl_config_path(pn_sasl_t *sasl, const char *path);

typedef struct { uint32_t index, generation; } name;

typedef struct {
    client says;
    name worker;                       /* the worker's connection to it */
} peer;

static struct {
    pump p;
    worker_world core;
    peer clients[CLIENTS], services[CLIENTS];    /* the service of each client */
    bool admitted[CLIENTS];            /* by Python */
} world;

static uint32_t reached[PLACES];       /* clients that got in, of all inputs together */
static uint32_t asked, refused;

const char *fuzz_missing(void)
{
    return !reached[BY_ANYBODY] ? "a client without a login" : !reached[BY_ENGINE] ? "a login that the engine decides"
        : !reached[BY_PYTHON] ? "a login that Python decides" : !reached[BY_SERVICE] ? "a login at a service"
        : !asked ? "a question" : !refused ? "a refusal" : NULL;
}

static worker_connection *there(name n)
{
    return (worker_connection *) pool_find2(&world.p.conns, n.index, n.generation);
}

static name name_of(worker_connection *c)
{
    return (name) { pool_index(&world.p.conns, c), c->slot.generation };
}

/* The number of a client by its connection; CLIENTS: it has gone. */
static uint32_t client_of(worker_connection *c)
{
    uint32_t i = 0;
    while (i < CLIENTS && there(world.clients[i].worker) != c) i++;
    return i;
}

/* ---- what is said ---- */

static uint8_t *put_any(uint8_t *at)
{
    static uint8_t many[1000];
    switch (below(8)) {
    case 0: return amqp_put(at, AMQP_NULL, 0);
    case 1: return amqp_put(at, AMQP_UBYTE, below(256));
    case 2: return amqp_put_octets(at, AMQP_STRING8, "PLAIN", 5);
    case 3: return amqp_put_octets(at, AMQP_SYMBOL8, "PLAIN", 5);
    case 4: *at++ = AMQP_LIST0; return at;
    case 5: return amqp_put(at, AMQP_TRUE, 0);
    case 6: return amqp_put_octets(at, AMQP_BINARY32, many, below(sizeof many));
    default: {
        uint32_t size = below(64);
        if (size > choices_left()) size = (uint32_t) choices_left();
        at = amqp_put_octets(at, AMQP_BINARY8, input.at, size);
        input.at += size;
        return at;
    }
    }
}

static uint8_t *put_text(uint8_t *at, uint8_t constructor, const char *text, size_t size)
{
    return one_in(16) ? put_any(at) : amqp_put_octets(at, constructor, text, size);
}

static void say_sasl_header(client *k) { say(k, "AMQP\3\1\0\0", 8); }

/* A SASL frame; `put` writes its fields. */
static void say_sasl(client *k, uint8_t code, void (*put)(list_writer *))
{
    uint8_t frame[4096];
    list_writer w = list_begin(frame, one_in(16) ? 1 : 0, code, true);
    frame[5] = (uint8_t) !one_in(32);
    if (one_in(16)) for (uint32_t i = below(4); i; i--) list_put(&w, put_any(w.at));
    else put(&w);
    say_list(k, frame, &w);
}

static void put_init(list_writer *w)
{
    static const char *const mechanisms[] = { "ANONYMOUS", "PLAIN", "EXTERNAL", "SCRAM-SHA-256", "plain", "", "GSSAPI",
        "A-MECHANISM-OF-A-NAME-THAT-IS-LONGER-THAN-WHAT-IS-KEPT-OF-ONE-IN-A-RELAY" };
    static const struct { const char *text; size_t size; } firsts[] = {
        { "", 0 }, { "a@b", 3 }, { "\0alice\0secret", 13 }, { "\0\377\376\0x", 5 }, { "n,,n=alice,r=abcdef", 19 },
        { "n,a=root,n=,r=,", 15 } };
    const char *mechanism = mechanisms[below(8)];
    uint32_t first = below(6);
    list_put(w, put_text(w->at, AMQP_SYMBOL8, mechanism, strlen(mechanism)));
    list_put(w, put_text(w->at, AMQP_BINARY8, firsts[first].text, firsts[first].size));
    if (one_in(4)) list_put(w, put_text(w->at, AMQP_STRING8, "host", 4));
}

static void put_octets(list_writer *w)
{
    static const char *const texts[] = { "", "c=biws,r=abcdef,p=AAAA", "r=abcdefgh,s=c2FsdA==,i=4096", "x" };
    const char *text = texts[below(4)];
    list_put(w, put_text(w->at, AMQP_BINARY8, text, strlen(text)));
}

static void put_offer(list_writer *w)
{
    if (below(2)) { list_put(w, put_text(w->at, AMQP_SYMBOL8, "PLAIN", 5)); return; }
    uint8_t items[1200], *at = items;
    uint32_t count = below(40);
    *at++ = AMQP_SYMBOL8;
    for (uint32_t i = 0; i < count; i++) {
        const char *one = i % 3 ? "ANONYMOUS" : i ? "PLAIN" : "SCRAM-SHA-256";
        *at++ = (uint8_t) strlen(one);
        at = (uint8_t *) mempcpy(at, one, strlen(one));
    }
    uint8_t *to = amqp_put_items_head(w->at, AMQP_ARRAY32, (uint32_t) (at - items), count);
    list_put(w, (uint8_t *) mempcpy(to, items, (size_t) (at - items)));
}

static void put_outcome(list_writer *w)
{
    list_put(w, amqp_put(w->at, AMQP_UBYTE, below(8) < 5 ? 0 : below(7)));
    if (one_in(4)) put_octets(w);
}

/* OPEN without the header in front of it, as if there were no login. */
static void say_open_early(client *k)
{
    uint32_t before = k->size;
    say_open(k);
    if (k->size < before + 8) return;
    k->size -= 8;
    memmove(k->unsent + before, k->unsent + before + 8, k->size - before);
}

static void client_says(client *k)
{
    switch (below(16)) {
    case 0: case 1: case 2: case 3: case 4: case 5: say_sasl(k, LANE_SASL_INIT, put_init); break;
    case 6: case 7: case 8: say_sasl(k, LANE_SASL_RESPONSE, put_octets); break;
    case 9: say_sasl(k, (uint8_t) (LANE_SASL_MECHANISMS + below(6)), put_octets); break;
    case 10: case 11: say_open(k); break;
    case 12: say_begin(k, 0); break;
    case 13: say_open_early(k); break;
    case 14: say_sasl_header(k); break;
    default: say_anything(k, 0);
    }
}

static void service_says(client *k)
{
    switch (below(16)) {
    case 0: case 1: case 2: say_sasl(k, LANE_SASL_MECHANISMS, put_offer); break;
    case 3: case 4: say_sasl(k, LANE_SASL_CHALLENGE, put_octets); break;
    case 5: case 6: case 7: case 8: say_sasl(k, LANE_SASL_OUTCOME, put_outcome); break;
    case 9: say_sasl(k, (uint8_t) (LANE_SASL_MECHANISMS + below(6)), put_octets); break;
    case 10: case 11: case 12: case 13: say_open(k); break;
    case 14: say_sasl_header(k); break;
    default: say_anything(k, 0);
    }
}

/* ---- what Python does ---- */

static int connect_to(client *k)
{
    int pair[2];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), "no sockets");
    memset(k, 0, sizeof *k);
    k->fd = pair[1];
    return pair[0];
}

static void decide(worker_connection *up, bool well)
{
    uint32_t i = client_of(up);
    if (!well) {
        static const int outcomes[] = { PN_SASL_AUTH, PN_SASL_SYS, PN_SASL_TEMP };
        relay_refuse(up->relay, outcomes[below(3)], "it is fuzzed");
        refused++;
        return;
    }
    if (i < CLIENTS && up->relay->state == (up->relay->local ? RELAY_ASKING : RELAY_OPENING)) world.admitted[i] = true;
    relay_admit(up->relay, "alice");
}

static void dial_service(worker_connection *up)
{
    uint32_t i = client_of(up);
    if (i == CLIENTS || world.services[i].says.fd >= 0 || up->relay->down) return;
    worker_connection *c = dial(&world.p, connect_to(&world.services[i].says), SERVICES, "service", "", "");
    CHECK(c, "no connection");
    relay_dialled(up->relay, c, below(2) ? "realm" : "");
    world.services[i].worker = name_of(c);
    pn_connection_set_container(c->engine, "router");
    pn_connection_open(c->engine);
    say_sasl_header(&world.services[i].says);
}

static void service_opened(worker_connection *c)
{
    if (c->relay->up) decide(c->relay->up, below(8) != 7);
    conn_broken(&world.p, c);
}

static void client_opened(worker_connection *c)
{
    uint32_t i = client_of(c);
    reached[c->listener]++;
    if (c->listener != BY_ANYBODY)
        CHECK(pn_sasl_outcome(pn_sasl(c->transport)) == PN_SASL_OK, "a client is in without a login");
    if (c->listener == BY_ENGINE)
        CHECK(!strncmp(pn_transport_get_user(c->transport), "alice", 5), "a client is in as nobody");
    if (c->listener == BY_PYTHON) CHECK(i == CLIENTS || world.admitted[i], "Python has not admitted this client");
    if (c->listener == BY_SERVICE) CHECK(c->relay->user, "a client is in without the service's word");
}

static void on_event(void *self, int event, worker_connection *c, worker_link *k, void *object,
                     const routerd_record *record)
{
    (void) self, (void) k, (void) object, (void) record;
    if (event == EV_CONNECTION_OPEN && c->dialled) { service_opened(c); return; }
    if (event == EV_CONNECTION_OPEN) client_opened(c);
    if (!world_answers(&world.p, event, c) && event == EV_RELAY && !c->relay->local) dial_service(c);
}

/* Python's thread, or the judge of a service's answer, has come to a conclusion, or has not. */
static void python_decides(peer *k)
{
    worker_connection *c = there(k->worker);
    if (!c || !c->relay || c->dialled) return;
    if (c->relay->state != RELAY_ASKING && !one_in(8)) return;
    uint32_t how = below(4);
    if (how == 0) { relay_question(c->relay, "r=abcdefgh,s=c2FsdA==,i=4096", below(28)); asked++; }
    else if (c->relay->local || one_in(8)) decide(c, how != 1);
}

/* ---- the whole ---- */

static void client_begins(peer *k)
{
    uint16_t place = (uint16_t) below(SERVICES);
    worker_connection *c = conn_new(&world.p, connect_to(&k->says), place);
    CHECK(c, "no connection");
    k->worker = name_of(c);
    world.admitted[k - world.clients] = false;
    c->known = true;
    if (below(16) == 15) return;
    if (place != BY_ANYBODY || below(2)) say_sasl_header(&k->says);
    else say_open(&k->says);
}

static void turn(void)
{
    pump_run(&world.p, 0);
    ring_publish(&world.core.work);
    while (ring_peek(&world.core.actions)) ring_advance(&world.core.actions);
    ring_return(&world.core.actions);
}

static void step(void)
{
    uint32_t i = below(CLIENTS), how = below(32);
    peer *k = &world.clients[i], *service = &world.services[i];
    if (k->says.fd < 0) { client_begins(k); return; }
    if (how < 9) client_says(&k->says);
    else if (how < 14) client_writes(&k->says);
    else if (how < 16) client_reads(&k->says);
    else if (how < 18) python_decides(k);
    else if (how < 24 && service->says.fd >= 0) {
        if (how < 21) service_says(&service->says);
        else if (how < 23) client_writes(&service->says);
        else client_reads(&service->says);
    }
    else if (how == 30 && below(4) == 3) client_ends(&k->says);
    else if (how == 31 && below(4) == 3 && service->says.fd >= 0) client_ends(&service->says);
    else turn();
}

static void world_open(void)
{
    worker_listener terms = { .fd = eventfd(0, EFD_CLOEXEC), .max_frame = 16384, .channel_max = 100,
                              .idle_timeout_ms = 60000, .handshake_ms = 60000, .link_capacity = 20, .window = 64,
                              .widest = 64 };
    worker_open(&world.core, &world.p, ARENA, on_event, terms);
    pn_transport_t *any = pn_transport();
    pn_sasl_config_name(pn_sasl(any), "routerd");
    pn_sasl_config_path(pn_sasl(any), getenv("FUZZ_MATERIAL"));
    pn_transport_free(any);
    terms.authenticate = true;
    *listener_new(&world.p) = terms;
    strcpy(terms.offered, "ANONYMOUS PLAIN SCRAM-SHA-256 EXTERNAL");
    *listener_new(&world.p) = terms;
    terms.offered[0] = 0;
    terms.relays = true;
    *listener_new(&world.p) = terms;
    terms.authenticate = terms.relays = false;
    terms.dials = true;
    *listener_new(&world.p) = terms;
    for (uint32_t i = 0; i < CLIENTS; i++) world.clients[i].says.fd = world.services[i].says.fd = -1;
}

static void world_rest(void)
{
    pump *p = &world.p;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        if (world.clients[i].says.fd >= 0) client_ends(&world.clients[i].says);
        if (world.services[i].says.fd >= 0) client_ends(&world.services[i].says);
    }
    for (uint32_t i = 0; i < LAST_TURNS && p->conns.used; i++) {
        if (i > LAST_TURNS / 2) world_breaks(p);               /* those that have not been read to their end */
        turn();
    }
    CHECK(!p->conns.used, "%u connections are left", p->conns.used);
}

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t size)
{
    if (!world.core.control) world_open();
    input_open(octets, size);
    for (uint32_t i = 0; i < STEPS && choices_left(); i++) step();
    world_rest();
    return 0;
}
