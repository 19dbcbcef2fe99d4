/* The data lane's place in the engine's transport, which is a stack of layers: TLS, SASL and AMQP.
 *
 * The engine calls a layer through a table of functions, and replaces the table when a header has been agreed.  The
 * lane takes the place of the engine's AMQP layer, so that it gets plain octets from whatever is below.  Wrappers of
 * the engine's other layers keep watch: each puts the engine's own table back, calls it, and wraps what that has left.
 *
 *   accepted   autodetect --SASL header--> SASL, and autodetect above it
 *                         --AMQP header--> their header has come --our header is out--> both have passed
 *   dialled    SASL, if wanted, and above it: neither header has passed
 *                         --our header is out, theirs has come, in either order--> both have passed
 *
 * The lane reads once their header has come, and writes our header and all behind it; OPEN does not wait for their
 * header.  A layer that reads a header sees at most the 8 octets of one: clients send frames behind it without waiting.
 * Until the answer to a login is out, the lane keeps a header that comes, and all behind it (lane_hold).
 *
 * The engine describes no frame of a traced connection by itself, since malformed octets would crash it: the lane does
 * (trace.c).  SASL frames are the engine's; it is quiet about those that are malformed.
 *
 * The engine's transport has a buffer each way.  They are small until one has been full, and when the connection rests.
 *
 * The tables are data of the engine that no header declares: layers_found() says whether this engine has them where
 * they are looked for, and workers/loop/engine.py names the version that has.
 */
#include <stdlib.h>

#include "workers/transport/transport.h"
#include "workers/state/session.h"

typedef struct io_layer {              /* pn_io_layer_t */
    ssize_t (*in)(pn_transport_t *transport, unsigned layer, const char *octets, size_t size);
    ssize_t (*out)(pn_transport_t *transport, unsigned layer, char *to, size_t room);
    void (*error)(pn_transport_t *transport, unsigned layer);
    int64_t (*tick)(pn_transport_t *transport, unsigned layer, int64_t now);
    size_t (*held)(pn_transport_t *transport);
} io_layer;

extern const io_layer pni_setup_layer, pni_autodetect_layer, amqp_header_layer, amqp_write_header_layer,
    amqp_read_header_layer, amqp_layer, sasl_header_layer, sasl_write_header_layer, sasl_read_header_layer, sasl_layer,
    ssl_layer, pni_passthru_layer;

extern ssize_t pni_transport_grow_capacity(pn_transport_t *transport, size_t size);
extern int pn_do_error(pn_transport_t *transport, const char *condition, const char *format, ...);

enum { LAYERS = 3, LAYERS_SOUGHT = 64, HEADER = 8 };       /* slots; words of a transport; octets of a header */
enum { BUFFER = 8192 };                /* octets of a buffer of a new transport */
enum watched {                         /* the headers that have passed */
    DETECT, SASL_NEITHER, SASL_THEIRS, SASL_OURS, SASL_BOTH, AMQP_NEITHER, AMQP_THEIRS, AMQP_OURS, AMQP_BOTH, WATCHED
};

static const io_layer *const own[WATCHED] = {
    &pni_autodetect_layer, &sasl_header_layer, &sasl_write_header_layer, &sasl_read_header_layer, &sasl_layer,
    &amqp_header_layer, &amqp_write_header_layer, &amqp_read_header_layer, &amqp_layer
};
static io_layer watching[WATCHED], watched_tls;

typedef struct { size_t size, pending; char *octets; } engine_buffer;  /* of a transport: output, then input */
static unsigned buffers_word;          /* where a transport has them; 0: they are not where they are looked for */

static lane_connection *layers_lane(pn_transport_t *t)
{
    return ((worker_connection *) pn_transport_get_context(t))->lane;
}

static enum watched layers_which(const io_layer *is)
{
    for (enum watched w = DETECT; w < WATCHED; w++) if (is == own[w] || is == &watching[w]) return w;
    return WATCHED;
}

/* Wraps what the engine has left. */
static void layers_wrap(lane_connection *l)
{
    for (unsigned i = 0; i < LAYERS; i++) {
        if (l->slots[i] == &ssl_layer) l->slots[i] = &watched_tls;
        enum watched w = layers_which(l->slots[i]);
        if (w == WATCHED) continue;
        l->slots[i] = &watching[w];
        if (w >= AMQP_NEITHER) l->layer = i;
        if (w >= AMQP_OURS) l->headed = true;
    }
}

/* Whether a login has failed: what is said behind it is forgotten, which the engine hears until its answer is out. */
PRIVATE bool layers_refused(const lane_connection *l)
{
    return pn_sasl_outcome(pn_sasl(l->transport)) > PN_SASL_OK;
}

/* Whether a client's login has no answer yet, or one that is not out: an error before it is would end the connection
 * without OPEN and CLOSE. */
static bool layers_unanswered(const lane_connection *l)
{
    return relay_asking(l->c) || (!l->c->dialled && pn_sasl_outcome(pn_sasl(l->transport)) == PN_SASL_OK);
}

/* Notes that a client's first octets are those of TLS where none is served: the engine ends such a connection without
 * a word. */
static void layers_tls_unserved(const lane_connection *l, const char *octets, size_t size)
{
    if (size < 2 || octets[0] != 22 || octets[1] != 3) return; /* a handshake of some version (RFC 8446 section 5.1) */
    if (l->c->dialled || l->p->listeners[l->c->listener].tls) return;
    pn_condition_t *why = pn_transport_condition(l->transport);
    pn_condition_set_name(why, "amqp:connection:framing-error");
    pn_condition_set_description(why, "the client speaks TLS, and the listener has no sslProfile");
}

/* A frame that is out of order is none for the engine, which begins a login when it hears the first one. */
static const char nothing[] = { 0, 0, 0, 8, 2, 1, 0, 0 };

static ssize_t watched_in(pn_transport_t *t, unsigned layer, const char *octets, size_t size)
{
    lane_connection *l = layers_lane(t);
    enum watched w = layers_which(l->slots[layer]);
    bool sasl = w == SASL_THEIRS || w == SASL_BOTH;
    if (!size && l->behind) return 0;                          /* as in lane_in */
    if (size && l->rest_size) return lane_joined(l, (const uint8_t *) octets, size);
    if (size && sasl && layers_refused(l)) return (ssize_t) size;
    if (w == DETECT) layers_tls_unserved(l, octets, size);
    if (size && sasl && *octets == 'A' && layers_unanswered(l)) {  /* a header: no frame of SASL is that large */
        l->layer = layer;
        return lane_hold(l, (const uint8_t *) octets, size);
    }
    bool orderly = !size || !sasl || lane_orderly(l, (const uint8_t *) octets, size);
    bool quiet = sasl && l->c->tracer && !trace_sound(l->c, (const uint8_t *) octets, size);
    if (quiet) trace_pause(l->c);
    l->slots[layer] = own[w];
    ssize_t done = !orderly ? own[w]->in(t, layer, nothing, sizeof nothing)
                   : own[w]->in(t, layer, octets, sasl || size < HEADER ? size : HEADER);
    layers_wrap(l);
    if (quiet) trace_resume(l->c);
    if (orderly) return done;
    lane_disorder(l);
    return l->c->dialled ? PN_EOS : (ssize_t) size;
}

static ssize_t watched_out(pn_transport_t *t, unsigned layer, char *to, size_t room)
{
    lane_connection *l = layers_lane(t);
    enum watched w = layers_which(l->slots[layer]);
    l->slots[layer] = own[w];
    ssize_t done = own[w]->out(t, layer, to, room);
    layers_wrap(l);
    return done;
}

static ssize_t lane_in(pn_transport_t *t, unsigned layer, const char *octets, size_t size)
{
    lane_connection *l = layers_lane(t);
    (void) layer;
    if (!size && l->behind) return 0;                          /* it comes again behind the frames that wait */
    if (!size) return l->closed_in ? PN_EOS : layers_give(l, NULL, 0);
    return lane_given(l, (const uint8_t *) octets, size);
}

static ssize_t lane_out(pn_transport_t *t, unsigned layer, char *to, size_t room)
{
    (void) layer;
    return lane_write(layers_lane(t), (uint8_t *) to, room);
}

static void lane_error(pn_transport_t *t, unsigned layer)
{
    const worker_connection *c = layers_lane(t)->c;
    trace_pause(c);
    amqp_layer.error(t, layer);
    trace_resume(c);
}

static int64_t lane_tick(pn_transport_t *t, unsigned layer, int64_t now)
{
    const worker_connection *c = layers_lane(t)->c;
    trace_pause(c);
    int64_t next = amqp_layer.tick(t, layer, now);
    trace_resume(c);
    return next;
}

/* TLS tosses what it has to write when its input ends.  So it hears of the end that a fault or a CLOSE makes when all
 * that the lane has said is written. */
static ssize_t tls_in(pn_transport_t *t, unsigned layer, const char *octets, size_t size)
{
    const lane_connection *l = layers_lane(t);
    return !size && l->closed_in && !l->over ? 0 : ssl_layer.in(t, layer, octets, size);
}

/* The engine's TLS writes nothing after an error of AMQP, which is to be said in a CLOSE. */
static void tls_error(pn_transport_t *t, unsigned layer)
{
    const lane_connection *l = layers_lane(t);
    if (!l->closed_in && !l->giving) ssl_layer.error(t, layer);
}

static const io_layer **layers_slots(pn_transport_t *t)
{
    const io_layer **words = (const io_layer **) t;
    for (int i = 0; i < LAYERS_SOUGHT; i++) if (words[i] == &pni_setup_layer) return words + i;
    return NULL;
}

/* A new transport has two empty buffers. */
static unsigned layers_buffers(pn_transport_t *t)
{
    const uintptr_t *words = (const uintptr_t *) t;
    for (unsigned i = 1; i < LAYERS_SOUGHT - 6; i++) {
        const uintptr_t *w = words + i;
        if (w[0] == BUFFER && !w[1] && w[2] && w[3] == BUFFER && !w[4] && w[5]) return i;
    }
    return 0;
}

/* Fills the lane's tables from the engine's.  False: a new transport does not have its table where it is looked for. */
GLUE bool layers_found(void)
{
    pn_transport_t *t = pn_transport();
    bool found = t && layers_slots(t);
    if (found) buffers_word = layers_buffers(t);
    if (t) pn_transport_free(t);
    watched_tls = ssl_layer;
    watched_tls.in = tls_in;
    watched_tls.error = tls_error;
    for (enum watched w = DETECT; w < WATCHED; w++) {
        watching[w] = *own[w];
        watching[w].in = w == AMQP_THEIRS || w == AMQP_BOTH ? lane_in : watched_in;
        if (w != DETECT) watching[w].out = w >= AMQP_NEITHER ? lane_out : watched_out;
        if (w >= AMQP_OURS) watching[w].error = lane_error;
        if (w >= AMQP_NEITHER) watching[w].tick = lane_tick;
    }
    return found;
}

/* Puts the lane into a transport that has neither read nor written. */
PRIVATE void layers_install(lane_connection *l)
{
    unsigned layer = 0;
    l->slots = layers_slots(l->transport);
    pn_transport_set_context(l->transport, l->c);
    if (!l->c->dialled) {
        l->slots[0] = &watching[DETECT];
        return;
    }
    if (l->c->secured) l->slots[layer++] = &watched_tls;
    l->slots[layer++] = &watching[SASL_NEITHER];
    l->slots[layer] = &watching[AMQP_NEITHER];
    l->layer = layer;
}

/* Our header, if it is not out yet.  An error that is there already closes the connection behind it. */
PRIVATE size_t layers_head(lane_connection *l, uint8_t to[LAYERS_HEAD_MAX])
{
    enum watched w = layers_which(l->slots[l->layer]);
    if (l->headed || (w != AMQP_NEITHER && w != AMQP_THEIRS)) return 0;
    l->slots[l->layer] = own[w];
    ssize_t done = own[w]->out(l->transport, l->layer, (char *) to, LAYERS_HEAD_MAX);
    layers_wrap(l);
    return done > 0 ? (size_t) done : 0;
}

/* Makes the engine's buffers small.  Each gets a new block, so that the old one can be used whole. */
PRIVATE void layers_rest(lane_connection *l)
{
    engine_buffer *b = (engine_buffer *) ((uintptr_t *) l->transport + buffers_word);
    for (int i = 0; buffers_word && i < 2; i++, b++) {
        char *octets = b->pending || b->size <= BUFFER_RESTING ? NULL : (char *) malloc(BUFFER_RESTING);
        if (!octets) continue;
        free(b->octets);
        *b = (engine_buffer) { .size = BUFFER_RESTING, .octets = octets };
    }
}

/* Makes them as large as those of a new transport. */
PRIVATE void layers_wake(lane_connection *l)
{
    engine_buffer *b = (engine_buffer *) ((uintptr_t *) l->transport + buffers_word);
    for (int i = 0; buffers_word && i < 2; i++, b++) {
        char *octets = b->size >= BUFFER ? NULL : (char *) realloc(b->octets, BUFFER);
        if (!octets) continue;
        b->octets = octets;
        b->size = BUFFER;
    }
}

/* Whether nothing is between the lane and the socket: no TLS, no security layer of SASL, and no WebSocket. */
PRIVATE inline bool layers_bare(const lane_connection *l)
{
    if (l->slots[l->layer] != &watching[AMQP_BOTH] || l->c->websocket) return false;
    for (unsigned i = 0; i < l->layer; i++) if (l->slots[i] != &pni_passthru_layer) return false;
    return true;
}

/* Whether the lane reads the socket itself.  From then on the transport gets no octets, but for its idle timeout's. */
PRIVATE inline bool layers_passed(lane_connection *l)
{
    if (__builtin_expect(l->bare, 1)) return true;
    if (!layers_bare(l)) return false;
    l->bare = true;
    pn_transport_process(l->transport, 0);                     /* the beginning of a frame moves to the lane */
    return true;
}

/* Gives the engine a frame that is not the lane's, or the end of the input (size 0).  Negative: it reads no more. */
PRIVATE inline ssize_t layers_give(lane_connection *l, const uint8_t *octets, size_t size)
{
    trace_pause(l->c);
    l->giving = true;
    ssize_t done = amqp_layer.in(l->transport, l->layer, (const char *) octets, size);
    l->giving = false;
    trace_resume(l->c);
    return done;
}

/* Whether the lane does not read yet, but layers in its place or below it. */
PRIVATE bool layers_below(const lane_connection *l)
{
    enum watched w = layers_which(l->slots[l->layer]);
    return w != AMQP_THEIRS && w != AMQP_BOTH;
}

/* Gives the layer octets that have waited.  0: it needs more; negative: it reads no more. */
PRIVATE ssize_t layers_in(lane_connection *l, const uint8_t *octets, size_t size)
{
    return l->slots[l->layer]->in(l->transport, l->layer, (const char *) octets, size);
}

/* Takes what the engine writes.  Negative: it writes no more. */
PRIVATE inline ssize_t layers_take(lane_connection *l, uint8_t *to, size_t room)
{
    trace_pause(l->c);
    ssize_t done = amqp_layer.out(l->transport, l->layer, (char *) to, room);
    trace_resume(l->c);
    return done;
}

/* Lets the transport take so many octets at once, but no more than its largest frame has. */
PRIVATE void layers_widen(pn_transport_t *t, size_t size)
{
    pni_transport_grow_capacity(t, size);
}

/* Ends the connection with a CLOSE that has this condition. */
PRIVATE void layers_fail(lane_connection *l, const char *condition, const char *description)
{
    pn_do_error(l->transport, condition, "%s", description);
}

/* Whether the end of the input has come. */
PRIVATE bool layers_ended(const lane_connection *l) { return pn_transport_capacity(l->transport) < 0; }
