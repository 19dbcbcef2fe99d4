/* The flow extract of a message: the values that only the flow log needs, read while the message's bytes are in the
 * cache and there is a flow log (pump.extracts).
 *
 *   header                   delivery-count
 *   properties               message-id, as a hash
 *   message-annotations      the transaction id of RMR's header, the routes of a source route and their state, a W3C
 *                            traceparent
 *   application-properties   a W3C traceparent
 *   behind them              where the body begins
 *
 * The extract omits values after the first block of a message, or that have not arrived yet. No value here makes a
 * message malformed.
 */
#include <string.h>

#include "workers/amqp/amqp.h"
#include "workers/rmr/wire.h"

#define EXTRACT_TRACEPARENT 55u         /* octets: 00-TRACE-SPAN-FLAGS */

/* The hash of a message-id, never 0, equal in all routers and versions (docs/flow-log.md). */
static uint64_t extract_hash(const uint8_t *text, size_t size)
{
    const uint64_t odd = 0x9e3779b97f4a7c15ull;
    uint64_t h = size * odd;
    while (size) {
        uint64_t word = 0;
        size_t n = size < sizeof word ? size : sizeof word;
        for (size_t i = 0; i < n; i++) word |= (uint64_t) text[i] << 8 * i;
        h = (h ^ word) * odd;
        h ^= h >> 32;
        text += n;
        size -= n;
    }
    return h >> 1 ? h >> 1 : 1;
}

/* A ulong counts as its eight octets; all else as the octets of its value. */
static uint64_t extract_identity(amqp_value v)
{
    uint8_t number[8] = { 0 };
    amqp_octets content = amqp_content_if(v, amqp_is_binary(*v.at) || amqp_is_string(*v.at));
    if (content.at) return extract_hash(content.at, content.size);
    switch (*v.at) {
    case AMQP_ULONG0: return extract_hash(number, sizeof number);
    case AMQP_SMALLULONG: number[7] = v.at[1]; return extract_hash(number, sizeof number);
    case AMQP_ULONG: return extract_hash(v.at + 1, 8);
    case AMQP_UUID: return extract_hash(v.at + 1, 16);
    default: return 0;
    }
}

/* The value of a section that begins at `offset`; none: it is not of that kind, or not all there. */
static amqp_value extract_section(const uint8_t *start, size_t size, uint32_t offset, uint8_t wanted)
{
    uint32_t descriptor = 0;
    if (offset >= size || scan_descriptor(start + offset, start + size, &descriptor) != wanted || !descriptor)
        return (amqp_value) { NULL, 0 };
    return amqp_take(start + offset + descriptor, start + size, 0);
}

/* The field of a list at a place from 0; none: it is not there. */
static amqp_value extract_field(amqp_value list, uint32_t place)
{
    amqp_cursor fields;
    uint32_t count;
    amqp_value f = { NULL, 0 };
    if (!amqp_list(list, &fields, &count) || place >= count) return f;
    for (uint32_t i = 0; i <= place; i++)
        if (!(f = amqp_next(&fields)).at) break;
    return f;
}

static void extract_header(content_extract *d, const uint8_t *start, size_t size, uint32_t offset)
{
    amqp_value f = extract_field(extract_section(start, size, offset, SECTION_HEADER), 4);
    uint32_t count = 0;
    if (f.at) amqp_uint(f, &count);
    d->delivery_count = (uint16_t) (count > INT16_MAX ? INT16_MAX : count);
}

static bool extract_is(const uint8_t *key, uint32_t length, const char *name)
{
    return length == strlen(name) && !memcmp(key, name, length);
}

/* Whether a traceparent has the length of its version: more than the fields of version 00 is for later ones, behind
 * another `-` (W3C Trace Context 3.2, 4.3). */
static bool extract_traces(amqp_octets text)
{
    if (text.size <= EXTRACT_TRACEPARENT) return text.size == EXTRACT_TRACEPARENT;
    return text.at[EXTRACT_TRACEPARENT] == '-' && memcmp(text.at, "00", 2);
}

/* The place of a return route's state in ROUTE_STATES of shm/contract/flow_log/schema.py, plus 1; 0: none of them. */
static uint8_t extract_state(amqp_octets text)
{
    static const char *const states[] = {"complete", "partial", "none"};
    for (uint8_t i = 0; text.at && i < sizeof states / sizeof *states; i++)
        if (extract_is(text.at, (uint32_t) text.size, states[i])) return i + 1;
    return 0;
}

/* One entry of a map. */
static void extract_entry(content_extract *d, const uint8_t *start, amqp_octets key, amqp_value value, uint8_t parts)
{
    uint32_t at = (uint32_t) (value.at - start);
    bool list = amqp_is_list(*value.at);
    if (extract_is(key.at, key.size, "traceparent")) {
        amqp_octets text = amqp_string(value);
        if (extract_traces(text)) d->trace = (uint32_t) (text.at - start);
    } else if (extract_is(key.at, key.size, "x-opt-route.onward") && list) {
        d->onward = at;
    } else if (extract_is(key.at, key.size, "x-opt-route.return") && list) {
        d->back = at;
    } else if (extract_is(key.at, key.size, "x-opt-route.state")) {
        d->state = extract_state(amqp_text(value));
    } else if (parts & EXTRACT_TRANSACTIONS && extract_is(key.at, key.size, "x-opt-rmr.header")) {
        amqp_octets header = amqp_binary(value);
        if (header.size >= RMR_XACT + RMR_XACT_BYTES) d->transaction = (uint32_t) (header.at - start) + RMR_XACT;
    }
}

/* The entries of a section that is a map, if all of it is there. */
static void extract_map(content_extract *d, const uint8_t *start, amqp_value map, uint8_t parts)
{
    amqp_cursor items;
    uint32_t count;
    if (!amqp_map(map, &items, &count)) return;
    while (items.at < items.end) {
        amqp_value key = amqp_next(&items), value = amqp_next(&items);
        if (!value.at) return;
        amqp_octets name = amqp_text(key);
        if (name.at) extract_entry(d, start, name, value, parts);
    }
}

/* Of a message whose scan is DONE, of which `size` bytes are in one piece; `all`: these are all. */
PRIVATE inline void extract_read(content_extract *d, const uint8_t *start, size_t size, bool all,
                                 const scan_found *found,
                         uint8_t parts)
{
    *d = (content_extract) { 0 };
    extract_header(d, start, size, found->section_end);
    /* SCAN_ABSENT is behind any size */
    amqp_value id = extract_field(extract_section(start, size, found->properties, SECTION_PROPERTIES), 0);
    if (id.at) d->message = extract_identity(id);
    extract_map(d, start, extract_section(start, size, found->message_annotations, SECTION_MESSAGE_ANNOTATIONS), parts);
    uint32_t body = found->body, descriptor = 0;
    if (body >= size) {
        d->body = all ? body : 0;
        return;
    }
    uint8_t code = scan_descriptor(start + body, start + size, &descriptor);
    if (code > SECTION_APPLICATION_PROPERTIES) d->body = body;
    amqp_value properties = code == SECTION_APPLICATION_PROPERTIES ? extract_section(start, size, body, code)
                            : (amqp_value) { NULL, 0 };
    if (!properties.at) return;
    d->body = (uint32_t) (properties.at + properties.size - start);
    extract_map(d, start, properties, parts);
}
