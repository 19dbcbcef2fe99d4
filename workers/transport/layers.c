/* The data lane's place in the engine's transport, which is a stack of layers: TLS, SASL and AMQP.
 *
 * The engine calls a layer through a table of functions, and replaces the table when a header has been agreed.  The
 * lane takes the place of the engine's AMQP layer, so that it gets plain octets from whatever is below.  Wrappers of
 * the engine's header layers keep watch: each puts the engine's own table back, calls it, and replaces what that left.
 *
 *   accepted   autodetect --header--> header out --> lane
 *   dialled    header out and in, in either order --> lane; OPEN follows our header at once
 *
 * A header layer sees at most the 8 octets of a header: clients send frames behind it without waiting.
 *
 * The tables are data of the engine that no header declares (Proton C 0.40.0): layers_found() says whether this engine
 * has them where they are looked for.
 */
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
    amqp_read_header_layer, amqp_layer, sasl_header_layer, ssl_layer, pni_passthru_layer;

extern int pn_do_error(pn_transport_t *transport, const char *condition, const char *format, ...);

enum { LAYERS = 3, LAYERS_SOUGHT = 64, HEADER = 8 };       /* slots; words of a transport; octets of a header */
enum client_layer { CLIENT_NEITHER, CLIENT_THEIRS, CLIENT_OURS, CLIENT_LAYERS };     /* the headers that have passed */

static io_layer lane_layer, server_detect, server_header, client_layers[CLIENT_LAYERS];
static const io_layer *const client_own[] = { &amqp_header_layer, &amqp_write_header_layer, &amqp_read_header_layer };

static lane_connection *layers_lane(pn_transport_t *t)
{
    return ((worker_connection *) pn_transport_get_context(t))->lane;
}

/* Replaces each AMQP layer of the engine by the lane's. */
static void layers_replace(lane_connection *l)
{
    for (unsigned i = 0; i < LAYERS; i++) {
        const io_layer *is = l->slots[i];
        if (is == &pni_autodetect_layer) l->slots[i] = &server_detect;
        else if (is == &amqp_write_header_layer)
            l->slots[i] = l->c->dialled ? &client_layers[CLIENT_THEIRS] : &server_header;
        else if (is == &amqp_read_header_layer) { l->slots[i] = &client_layers[CLIENT_OURS]; l->headed = true; }
        else if (is == &amqp_layer) { l->slots[i] = &lane_layer; l->headed = true; }
        else continue;
        l->layer = i;
    }
}

static ssize_t lane_in(pn_transport_t *t, unsigned layer, const char *octets, size_t size)
{
    lane_connection *l = layers_lane(t);
    (void) layer;
    return size ? lane_read(l, (const uint8_t *) octets, size) : layers_give(l, NULL, 0);
}

static ssize_t lane_out(pn_transport_t *t, unsigned layer, char *to, size_t room)
{
    (void) layer;
    return lane_write(layers_lane(t), (uint8_t *) to, room);
}

static ssize_t detect_in(pn_transport_t *t, unsigned layer, const char *octets, size_t size)
{
    ssize_t done = pni_autodetect_layer.in(t, layer, octets, size < HEADER ? size : HEADER);
    layers_replace(layers_lane(t));
    return done;
}

static ssize_t header_out(pn_transport_t *t, unsigned layer, char *to, size_t room)
{
    lane_connection *l = layers_lane(t);
    l->slots[layer] = &amqp_write_header_layer;
    ssize_t done = amqp_write_header_layer.out(t, layer, to, room);
    layers_replace(l);
    return done;
}

static enum client_layer client_begin(lane_connection *l, unsigned layer)
{
    enum client_layer which = (enum client_layer) (l->slots[layer] - client_layers);
    l->slots[layer] = client_own[which];
    return which;
}

static void client_end(lane_connection *l, unsigned layer, enum client_layer which)
{
    if (l->slots[layer] == client_own[which]) l->slots[layer] = &client_layers[which];
    else layers_replace(l);
}

static ssize_t client_in(pn_transport_t *t, unsigned layer, const char *octets, size_t size)
{
    lane_connection *l = layers_lane(t);
    if (l->slots[layer] == &client_layers[CLIENT_THEIRS]) return lane_in(t, layer, octets, size);
    enum client_layer which = client_begin(l, layer);
    ssize_t done = client_own[which]->in(t, layer, octets, size < HEADER ? size : HEADER);
    client_end(l, layer, which);
    return done;
}

static ssize_t client_out(pn_transport_t *t, unsigned layer, char *to, size_t room)
{
    lane_connection *l = layers_lane(t);
    if (l->slots[layer] == &client_layers[CLIENT_OURS]) return lane_out(t, layer, to, room);
    enum client_layer which = client_begin(l, layer);
    ssize_t done = client_own[which]->out(t, layer, to, room);
    client_end(l, layer, which);
    return done;
}

static const io_layer **layers_slots(pn_transport_t *t)
{
    const io_layer **words = (const io_layer **) t;
    for (int i = 0; i < LAYERS_SOUGHT; i++) if (words[i] == &pni_setup_layer) return words + i;
    return NULL;
}

/* Fills the lane's tables from the engine's.  False: a new transport does not have its table where it is looked for. */
GLUE bool layers_found(void)
{
    pn_transport_t *t = pn_transport();
    bool found = t && layers_slots(t);
    if (t) pn_transport_free(t);
    lane_layer = amqp_layer;
    lane_layer.in = lane_in;
    lane_layer.out = lane_out;
    server_detect = pni_autodetect_layer;
    server_detect.in = detect_in;
    server_header = amqp_write_header_layer;
    server_header.in = lane_in;
    server_header.out = header_out;
    for (int i = 0; i < CLIENT_LAYERS; i++) {
        client_layers[i] = *client_own[i];
        client_layers[i].in = client_in;
        client_layers[i].out = client_out;
    }
    return found;
}

/* Puts the lane into a transport that has neither read nor written. */
PRIVATE void layers_install(lane_connection *l)
{
    unsigned layer = 0;
    l->slots = layers_slots(l->transport);
    pn_transport_set_context(l->transport, l->c);
    if (!l->c->dialled) { l->slots[0] = &server_detect; return; }
    if (l->c->secured) l->slots[layer++] = &ssl_layer;
    l->slots[layer++] = &sasl_header_layer;
    l->slots[layer] = &client_layers[CLIENT_NEITHER];
}

/* Whether nothing is between the lane and the socket: no TLS, and no security layer of SASL. */
PRIVATE inline bool layers_bare(const lane_connection *l)
{
    if (l->slots[l->layer] != &lane_layer) return false;
    for (unsigned i = 0; i < l->layer; i++) if (l->slots[i] != &pni_passthru_layer) return false;
    return true;
}

/* Gives the engine a frame that is not the lane's, or the end of the input (size 0).  Negative: it reads no more. */
PRIVATE inline ssize_t layers_give(lane_connection *l, const uint8_t *octets, size_t size)
{
    return amqp_layer.in(l->transport, l->layer, (const char *) octets, size);
}

/* Takes what the engine writes.  Negative: it writes no more. */
PRIVATE inline ssize_t layers_take(lane_connection *l, uint8_t *to, size_t room)
{
    return amqp_layer.out(l->transport, l->layer, (char *) to, room);
}

/* Ends the connection with a CLOSE that has this condition. */
PRIVATE void layers_fail(lane_connection *l, const char *condition, const char *description)
{
    pn_do_error(l->transport, condition, "%s", description);
}
