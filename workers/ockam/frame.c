/* Messages of Ockam's TCP transport (docs/source-routes.md, Ockam nodes): frames to routes and payload, and back.
 *
 *   bare    length in 2 octets, then a BARE message (source_routes/body.c)
 *   cbor    one octet 01 for the connection; length in 4 octets, then [onward, return, payload: bytes,
 *           tracing: text or null], a route being [[type, value: bytes], ...]
 *
 * CBOR is read only with definite lengths in the fewest octets (RFC 8949 section 4.2.1).  Without the fourth element
 * there is no tracing context.
 */
#include <string.h>

#include "workers/ockam/frame.h"

enum cbor_major { CBOR_UINT = 0, CBOR_BYTES = 2, CBOR_TEXT = 3, CBOR_ARRAY = 4 };

PRIVATE inline uint32_t ockam_width(uint8_t framing) { return framing == OCKAM_CBOR ? 4 : 2; }

PRIVATE inline uint32_t ockam_length(uint8_t framing, const uint8_t *p)
{
    return (uint32_t) be_of(p, ockam_width(framing));
}

/* ---- in ---- */

static uint64_t cbor_head(route_bare *b, uint8_t major)
{
    uint64_t n = 0;
    if (b->why) return 0;
    if (b->at == b->end) { b->why = "it is cut short"; return 0; }
    uint8_t first = *b->at++, low = first & 31;
    if (first >> 5 != major) { b->why = "a value of another type stands where it belongs"; return 0; }
    if (low < 24) return low;
    if (low > 27) { b->why = "a value has no definite length"; return 0; }
    uint32_t octets = 1u << (low - 24);
    if (b->end - b->at < (ptrdiff_t) octets) { b->why = "it is cut short"; return 0; }
    n = be_of(b->at, octets);
    b->at += octets;
    if (n < (octets == 1 ? 24 : 1ull << 4 * octets))
        b->why = "a number is not written in as few octets as it needs (non-minimal)";
    return n;
}

static amqp_octets cbor_octets(route_bare *b, uint8_t major)
{
    uint64_t n = cbor_head(b, major);
    if (!b->why && n > (uint64_t) (b->end - b->at)) b->why = "it is cut short";
    if (b->why) return (amqp_octets) { b->at, 0 };
    b->at += n;
    return (amqp_octets) { b->at - n, (uint32_t) n };
}

static enum route_result cbor_path(route_run *r, route_bare *b, route_path *w, bool onward)
{
    uint64_t count = cbor_head(b, CBOR_ARRAY);
    if (route_path_begin(r, b, w, count, onward) == ROUTE_REFUSED) return ROUTE_REFUSED;
    for (uint64_t i = 0; i < count && !b->why; i++) {
        if (cbor_head(b, CBOR_ARRAY) != 2 && !b->why) b->why = "an address has not 2 elements";
        uint64_t type = cbor_head(b, CBOR_UINT);
        if (!b->why && type > 255) b->why = "an address type is above 255";
        if (route_path_add(r, b, w, type, cbor_octets(b, CBOR_BYTES)) == ROUTE_REFUSED) return ROUTE_REFUSED;
    }
    path_reverse(w);
    return ROUTE_DONE;
}

/* Reads a CBOR message, as bare_message() does in BARE. */
static enum route_result cbor_message(route_run *r, route_level *l)
{
    route_bare b = { r->rest, r->rest + r->rest_size, NULL };
    level_clear(l);
    uint64_t elements = cbor_head(&b, CBOR_ARRAY);
    if (!b.why && elements != 3 && elements != 4) b.why = "a message has 3 or 4 elements";
    if (!b.why && cbor_path(r, &b, &l->onward, true) == ROUTE_REFUSED) return ROUTE_REFUSED;
    if (!b.why && cbor_path(r, &b, &l->returning, false) == ROUTE_REFUSED) return ROUTE_REFUSED;
    amqp_octets payload = cbor_octets(&b, CBOR_BYTES);
    if (!b.why && elements == 4 && b.at < b.end && *b.at == 0xf6) {
        b.at++;
    } else if (!b.why && elements == 4) {
        amqp_octets tracing = cbor_octets(&b, CBOR_TEXT);
        if (!b.why && route_tracing(r, l, tracing, &b.why) == ROUTE_REFUSED) return ROUTE_REFUSED;
    }
    return route_read_to_end(r, l, &b, payload);
}

/* The content of a frame as the message that workers see, with `own`, where it has come in, in front of its return
 * route. PASS: it is a heartbeat, which leads nowhere. */
PRIVATE inline enum route_result ockam_read(route_engine *e, const route_sender *s, uint8_t framing, const uint8_t *at,
                                            uint32_t size, const route_stop *own)
{
    route_run *r = &e->run;
    route_level *l = &e->level[0];
    const scan_found none = { .message_annotations = SCAN_ABSENT };
    route_begin(e, s, at, size, true, &none);
    if ((framing == OCKAM_CBOR ? cbor_message(r, l) : bare_message(r, l)) == ROUTE_REFUSED) return ROUTE_REFUSED;
    if (!l->onward.count) return ROUTE_PASS;
    path_push(&l->returning, own);
    return level_check(r, l, NULL);
}

/* ---- out ---- */

typedef struct { uint8_t *at, *end; bool full; } ockam_out;

static void ockam_put(ockam_out *o, const void *bytes, size_t size)
{
    if (o->full || (size_t) (o->end - o->at) < size) { o->full = true; return; }
    if (size) memcpy(o->at, bytes, size);
    o->at += size;
}

static void ockam_put_uint(ockam_out *o, uint64_t n)
{
    uint8_t bytes[10];
    ockam_put(o, bytes, route_uint(bytes, n));
}

static void cbor_put(ockam_out *o, uint8_t major, uint64_t n)
{
    uint8_t bytes[9];
    uint32_t width = n < 24 ? 0 : n < 1u << 8 ? 1 : n < 1u << 16 ? 2 : n < 1ull << 32 ? 4 : 8;
    bytes[0] = (uint8_t) (major << 5 | (width == 0 ? n : width == 1 ? 24 : width == 2 ? 25 : width == 4 ? 26 : 27));
    be_put(bytes + 1, n, width);
    ockam_put(o, bytes, 1 + width);
}

static void ockam_put_path(ockam_out *o, uint8_t framing, const route_path *w)
{
    if (framing == OCKAM_CBOR) cbor_put(o, CBOR_ARRAY, w->count);
    else ockam_put_uint(o, w->count);
    for (uint32_t i = w->count; i-- > 0;) {
        const route_stop *s = &w->stop[i];
        if (framing == OCKAM_CBOR) {
            cbor_put(o, CBOR_ARRAY, 2);
            cbor_put(o, CBOR_UINT, s->type);
            cbor_put(o, CBOR_BYTES, s->length);
        } else {
            ockam_put_uint(o, s->type);
            ockam_put_uint(o, s->length);
        }
        ockam_put(o, s->at, s->length);
    }
}

/* What goes in front of `payload` octets: into [to, to + room), with a length of a frame that has `tail` octets behind
 * them. How much it is; 0: more than there is room for. */
PRIVATE inline uint32_t ockam_head(const route_level *l, uint8_t framing, uint32_t payload, uint32_t tail, uint8_t *to,
                                   uint32_t room)
{
    uint32_t width = ockam_width(framing);
    ockam_out o = { to + width, to + room, false };
    if (framing == OCKAM_CBOR) cbor_put(&o, CBOR_ARRAY, 4);
    else ockam_put_uint(&o, l->tracing ? 2 : 1);
    ockam_put_path(&o, framing, &l->onward);
    ockam_put_path(&o, framing, &l->returning);
    if (framing == OCKAM_CBOR) cbor_put(&o, CBOR_BYTES, payload);
    else ockam_put_uint(&o, payload);
    if (o.full) return 0;
    uint32_t head = (uint32_t) (o.at - to), length = head - width + payload + tail;
    be_put(to, length, width);
    return head;
}

/* Writes what follows the payload; returns its length. */
PRIVATE inline uint32_t ockam_tail(const route_level *l, uint8_t framing, uint8_t *to, uint32_t room)
{
    ockam_out o = { to, to + room, false };
    if (framing == OCKAM_CBOR && !l->tracing) ockam_put(&o, "\xf6", 1);
    if (framing == OCKAM_CBOR && l->tracing) cbor_put(&o, CBOR_TEXT, l->tracing_size);
    if (framing == OCKAM_BARE && l->tracing) {
        ockam_put(&o, "\1", 1);
        ockam_put_uint(&o, l->tracing_size);
    }
    if (l->tracing) ockam_put(&o, l->tracing, l->tracing_size);
    return (uint32_t) (o.at - to);
}
