/* A client's SASL exchange that the engine does not answer: an authentication service does (authServicePlugin), or
 * Cyrus SASL in a thread of this worker (logins.py).
 *
 * Two connections share a relay: `up`, the client's, and `down`, which Python dials to the service when the client
 * speaks SASL. Neither waits: each side's octets go to the memory from which the other's engine writes.
 *
 *   connecting --mechanisms--> offered --init--> asking --challenge--> answering --response--> asking
 *                                 asking --outcome ok--> opening --the service's OPEN, judged by Python--> decided
 *   any of them --anything else, the end of `down`, its deadline--> decided (refused)
 *
 * With Cyrus SASL (`local`) there is no `down`, and Python gets each init and response:
 *
 *   connecting --mechanisms--> offered --init--> asking --challenge--> answering --response--> asking --> decided
 *
 * Prohibited: deciding for the client without OPEN (its properties say who it is), deciding twice, offering EXTERNAL
 * (the service would see the router's certificate, and take the client for the router). An init that comes before the
 * mechanisms waits for them. The AMQP header of a client that is not answered waits, too, with what is behind it.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "workers/state/session.h"
#include "workers/transport/transport.h"

/* Copies octets, because the engine's buffer is gone when the callback returns. False: they are too long. */
static bool relay_keep(relay_said *said, const pn_bytes_t *bytes)
{
    if (bytes->size > RELAY_SAID_MAX) return false;
    char *copy = bytes->start ? (char *) malloc(bytes->size + 1) : NULL;
    if (copy) memcpy(copy, bytes->start, bytes->size);
    free(said->start);
    said->start = copy;
    said->size = copy ? bytes->size : 0;
    return true;
}

static pn_bytes_t relay_bytes(const relay_said *said) { return (pn_bytes_t) { said->size, said->start }; }

/* Whether a client has said what is not answered yet.  Its AMQP header may come meanwhile, and waits. */
PRIVATE bool relay_asking(const worker_connection *c)
{
    const relay *r = c->relay;
    if (!r || r->up != c) return false;
    return r->state == RELAY_ASKING || r->state == RELAY_OPENING || (r->state == RELAY_CONNECTING && r->early);
}

/* Whether a connection's SASL frames are passed on, or come from whoever gets them. */
PRIVATE bool relay_passes(const worker_connection *c) { return c->relay && !c->relay->local; }

/* The octets that a field of text or binary takes. */
static size_t relay_field(size_t size) { return size + (size > UINT8_MAX ? 5 : 2); }

/* Whether so many octets of fields make a frame that each peer takes, with its head, its descriptor and a list. */
static bool relay_fits(size_t fields) { return 8 + 3 + 9 + fields <= SASL_FRAME_MOST; }

/* Whether the end of a client's input ends its login: a service may never answer. */
PRIVATE bool relay_ended(const worker_connection *c) { return c->lane->asking && c->relay && !c->relay->local; }

/* Sends octets to one side. */
static void relay_say(relay *r, worker_connection *c, const relay_said *said, int what)
{
    if (c == r->up) lane_answered(c->lane);
    pnx_sasl_set_bytes_out(c->transport, relay_bytes(said));
    pnx_sasl_set_desired_state(c->transport, what);
    mark_dirty(r->p, c);
}

/* Ends the service's connection later, in the sweep, because its bytes may be being read. */
static void relay_hang_up(relay *r)
{
    if (r->down) r->down->deadline = r->p->now_ms;
}

/* Refuses the client with a pn_sasl_outcome_t. */
GLUE void relay_refuse(relay *r, int outcome, const char *why)
{
    if (r->state == RELAY_DECIDED) return;
    r->state = RELAY_DECIDED;
    r->why = why;
    r->faulty = outcome == PN_SASL_AUTH;
    if (r->up) {
        pn_sasl_done(pn_sasl(r->up->transport), outcome);
        relay_say(r, r->up, &(relay_said) { NULL, 0 }, SASL_POSTED_OUTCOME);
    }
    relay_hang_up(r);
}

/* Admits the client as a user. */
GLUE void relay_admit(relay *r, const char *user)
{
    if (r->state != (r->local ? RELAY_ASKING : RELAY_OPENING) || !r->up
        || pn_sasl_outcome(pn_sasl(r->up->transport)) != PN_SASL_NONE)
        return;
    r->user = strdup(user);
    if (!r->user) { relay_refuse(r, PN_SASL_TEMP, "out of memory"); return; }
    r->state = RELAY_DECIDED;
    pnx_sasl_set_succeeded(r->up->transport, r->user, NULL);
    relay_say(r, r->up, r->local ? &(relay_said) { NULL, 0 } : &r->service, SASL_POSTED_OUTCOME);
}

static relay *relay_of(pn_transport_t *t) { return (relay *) pnx_sasl_get_context(t); }

/* Whether a list of words contains a word. */
static bool relay_offers(const char *words, const char *word, size_t size)
{
    for (const char *at = words; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == size && !strncasecmp(at, word, size)) return true;
    return false;
}

/* Sets the mechanisms offered to a client: those of the service or of Cyrus SASL, without those that prove nothing. The
 * engine removes those that the listener does not allow. */
static uint32_t relay_choose(relay *r, const char *words)
{
    size_t used = 0;
    uint32_t count = 0;
    for (const char *at = words; *at; at += strcspn(at, " "), at += *at == ' ') {
        size_t size = strcspn(at, " ");
        bool proven = r->local && pnx_sasl_get_external_username(r->up->transport);
        bool denied = (size == 8 && !proven && !strncasecmp(at, "EXTERNAL", 8))
                      || (!r->anonymous && size == 9 && !strncasecmp(at, "ANONYMOUS", 9));
        if (!size || denied || !pnx_sasl_is_mechanism_included(r->up->transport, (pn_bytes_t) { size, at })) continue;
        if (count == RELAY_MECHANISM_COUNT || used + size + 2 > sizeof r->mechanisms) break;
        if (used) r->mechanisms[used++] = ' ';
        memcpy(r->mechanisms + used, at, size);
        used += size;
        count++;
    }
    r->mechanisms[used] = 0;
    return count;
}

/* ---- the engine asks: the client's side ---- */

static bool relay_init_server(pn_transport_t *t)
{
    relay *r = relay_of(t);
    if (!r->up || r->asked) return true;
    r->asked = true;
    if (r->local) {
        relay_choose(r, r->p->listeners[r->up->listener].offered);
        r->state = RELAY_OFFERED;
        pnx_sasl_set_desired_state(t, SASL_POSTED_MECHANISMS);
        return true;
    }
    r->p->on_event(r->p->self, EV_RELAY, r->up, NULL, NULL, NULL);
    return true;
}

static const char *relay_list(pn_transport_t *t) { return relay_of(t)->mechanisms; }

/* Passes the client's octets to Python. */
static void relay_tell(relay *r)
{
    r->state = RELAY_ASKING;
    r->p->on_event(r->p->self, EV_RELAY, r->up, NULL, NULL, NULL);
}

/* Handles a client's init for Cyrus SASL; mechanisms without a password are decided at once. */
static void relay_login(relay *r)
{
    const char *external = pnx_sasl_get_external_username(r->up->transport);
    r->state = RELAY_ASKING;
    if (!strcasecmp(r->mechanism, "ANONYMOUS")) relay_admit(r, "anonymous");
    else if (strcasecmp(r->mechanism, "EXTERNAL")) relay_tell(r);
    else if (!r->client.size || (external && r->client.size == strlen(external)
                                 && !memcmp(r->client.start, external, r->client.size)))
        relay_admit(r, external ? external : "");
    else relay_refuse(r, PN_SASL_AUTH, "the client's certificate is for another user than it says");
}

static void relay_ask(relay *r)
{
    if (!relay_offers(r->mechanisms, r->mechanism, strlen(r->mechanism))) {
        relay_refuse(r, PN_SASL_AUTH, "the client has chosen a mechanism that was not offered");
        return;
    }
    if (r->local) { relay_login(r); return; }
    size_t realm = r->realm ? relay_field(r->realm) : 0;
    if (!relay_fits(relay_field(strlen(r->mechanism)) + relay_field(r->client.size) + realm)) {
        relay_refuse(r, PN_SASL_AUTH, "the client's sasl-init would exceed 512 octets with the service's realm");
        return;
    }
    r->state = RELAY_ASKING;
    pnx_sasl_set_selected_mechanism(r->down->transport, r->mechanism);
    relay_say(r, r->down, &r->client, SASL_POSTED_INIT);
}

static void relay_init(pn_transport_t *t, const char *mechanism, const pn_bytes_t *bytes)
{
    relay *r = relay_of(t);
    bool early = r->state == RELAY_CONNECTING && !r->early;
    if ((!early && (r->state != RELAY_OFFERED || (!r->down && !r->local))) || strlen(mechanism) >= sizeof r->mechanism
        || !relay_keep(&r->client, bytes)) {
        relay_refuse(r, PN_SASL_AUTH, "the client's SASL exchange is malformed");
        return;
    }
    strcpy(r->mechanism, mechanism);
    r->early = early;
    if (!early) relay_ask(r);
}

static void relay_response(pn_transport_t *t, const pn_bytes_t *bytes)
{
    relay *r = relay_of(t);
    if (r->state != RELAY_ANSWERING || (!r->down && !r->local) || !relay_keep(&r->client, bytes)) {
        relay_refuse(r, PN_SASL_AUTH, "the client's SASL exchange is malformed");
        return;
    }
    if (r->local) { relay_tell(r); return; }
    r->state = RELAY_ASKING;
    relay_say(r, r->down, &r->client, SASL_POSTED_RESPONSE);
}

/* ---- the engine asks: the service's side ---- */

static bool relay_init_client(pn_transport_t *t) { (void) t; return true; }

static bool relay_mechanisms(pn_transport_t *t, const char *words)
{
    relay *r = relay_of(t);
    if (r->state != RELAY_CONNECTING || !r->up) {
        relay_refuse(r, PN_SASL_TEMP, "the service's SASL exchange is malformed");
        return false;
    }
    if (!relay_choose(r, words)) {
        relay_refuse(r, PN_SASL_SYS, "the service offers no mechanism that the listener allows");
        return false;
    }
    r->state = RELAY_OFFERED;
    pnx_sasl_set_desired_state(r->up->transport, SASL_POSTED_MECHANISMS);
    mark_dirty(r->p, r->up);
    if (r->early) relay_ask(r);
    return true;
}

static void relay_challenge(pn_transport_t *t, const pn_bytes_t *bytes)
{
    relay *r = relay_of(t);
    if (r->state != RELAY_ASKING || !r->up || !relay_keep(&r->service, bytes)) {
        relay_refuse(r, PN_SASL_TEMP, "the service's SASL exchange is malformed");
        return;
    }
    r->state = RELAY_ANSWERING;
    relay_say(r, r->up, &r->service, SASL_POSTED_CHALLENGE);
}

/* Sends the question of Cyrus SASL to the client. */
GLUE void relay_question(relay *r, const char *start, size_t size)
{
    const pn_bytes_t question = { size, start };
    if (r->state == RELAY_ASKING && r->up && relay_fits(relay_field(size)) && relay_keep(&r->service, &question)) {
        r->state = RELAY_ANSWERING;
        relay_say(r, r->up, &r->service, SASL_POSTED_CHALLENGE);
    } else relay_refuse(r, PN_SASL_TEMP, "no challenge could be sent");
}

static void relay_outcome(pn_transport_t *t, const pn_bytes_t *bytes)
{
    relay *r = relay_of(t);
    int outcome = pn_sasl_outcome(pn_sasl(t));
    if (r->state != RELAY_ASKING || !relay_keep(&r->service, bytes))
        relay_refuse(r, PN_SASL_TEMP, "the service's SASL exchange is malformed");
    else if (outcome == PN_SASL_OK && r->up) {
        r->state = RELAY_OPENING;
        pnx_sasl_set_bytes_out(r->up->transport, relay_bytes(&r->service));   /* what it named before is freed */
    }
    else relay_refuse(r, outcome > PN_SASL_TEMP ? PN_SASL_TEMP : outcome, NULL);
}

static bool relay_encrypts(pn_transport_t *t) { (void) t; return false; }
static ssize_t relay_encrypt_size(pn_transport_t *t) { (void) t; return 0; }
static ssize_t relay_encrypt(pn_transport_t *t, pn_bytes_t in, pn_bytes_t *out)
{
    (void) t;
    (void) in;
    (void) out;
    return 0;
}
static void relay_prepare(pn_transport_t *t) { (void) t; }

static void relay_release(pn_transport_t *t)
{
    relay *r = relay_of(t);
    if (--r->engines) return;
    free(r->client.start);
    free(r->service.start);
    free(r->user);
    free(r);
}

static const pnx_sasl_implementation relay_engine = {
    relay_release, relay_list, relay_init_server, relay_init_client, relay_prepare, relay_init, relay_response,
    relay_mechanisms,
    relay_challenge, relay_outcome, relay_encrypts, relay_encrypt_size, relay_encrypt, relay_encrypt
};

static void relay_join(relay *r, worker_connection *c)
{
    c->relay = r;
    r->engines++;
    pnx_sasl_set_implementation(c->transport, &relay_engine, r);
}

/* Joins the new connection to the service with the client's relay. */
GLUE void relay_dialled(relay *r, worker_connection *c, const char *realm)
{
    r->down = c;
    relay_join(r, c);
    r->realm = strlen(realm);
    if (r->realm) pnx_sasl_set_local_hostname(c->transport, realm);
}

/* Gives a new client a relay. A listener with a service requires SASL; one with Cyrus SASL has its own setting for
 * that. False: no memory. */
PRIVATE inline bool relay_accept(pump *p, const worker_listener *l, worker_connection *c)
{
    relay *r = (relay *) calloc(1, sizeof *r);
    if (!r) return false;
    r->p = p;
    r->up = c;
    r->anonymous = !l->authenticate;
    r->local = !l->relays;
    relay_join(r, c);
    if (!r->local) pn_transport_require_auth(c->transport, true);
    return true;
}

/* Detaches a lost connection from its relay. */
PRIVATE inline void relay_left(worker_connection *c)
{
    relay *r = c->relay;
    if (!r) return;
    if (r->up == c) {
        r->up = NULL;
        if (r->down) conn_broken(r->p, r->down);               /* no octets are being read: it ends at once */
    } else if (r->down == c) {
        r->down = NULL;
        relay_refuse(r, PN_SASL_TEMP, "the service has ended the connection");
    }
}

/* Cyrus SASL, which the engine has loaded.  NULL: the engine has been built without it. */
enum { SASL_SSF = 1 };                 /* a property, an int: 0 without encryption */
int sasl_getprop(void *exchange, int property, const void **value) __attribute__((weak));
void sasl_dispose(void **exchange) __attribute__((weak));

/* Forgets the engine's SASL exchange of a client that is in, some 6.5 KB: Python has asked for its user, and our AMQP
 * header is behind the last SASL frame.  An exchange that encrypts the frames that follow stays. */
PRIVATE inline void relay_forgo(worker_connection *c)
{
    if (!c->lane->headed) return;
    c->admitted = false;
    if (c->relay || c->dialled || !sasl_getprop || !sasl_dispose) return;
    if (pn_sasl_outcome(pn_sasl(c->transport)) != PN_SASL_OK) return;
    void *exchange = pnx_sasl_get_context(c->transport);
    const void *strength = NULL;
    if (!exchange || sasl_getprop(exchange, SASL_SSF, &strength) || *(const int *) strength) return;
    pnx_sasl_set_succeeded(c->transport, "", NULL);    /* the user's name ends with the exchange */
    pnx_sasl_set_context(c->transport, NULL);
    sasl_dispose(&exchange);
}
