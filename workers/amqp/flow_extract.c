/* What the flow log wants to know of a message and its router does not need: read where the message's bytes are at hand, and only
 * while there is a flow log (pump.digests).
 *
 *   header                   delivery-count
 *   properties               message-id, as a hash
 *   message-annotations      the transaction id of RMR's header, the routes of a source route, a W3C traceparent
 *   application-properties   a W3C traceparent
 *   behind them              where the body begins
 *
 * What stands behind the first block of a message, or has not come yet, is left out: nobody waits for it, and nothing here makes
 * a message malformed.
 */
#ifndef ROUTERD_WORKERS_DIGEST_H
#define ROUTERD_WORKERS_DIGEST_H

#include "shm/content.h"
#include "workers/rmr/frame.c"
#include "shm/scan.h"

#define DIGEST_TRACEPARENT 55u         /* octets: 00-TRACE-SPAN-FLAGS */

enum digest_wish { DIGEST_NOTHING = 0, DIGEST_MESSAGES = 1, DIGEST_TRANSACTIONS = 2 };    /* pump.digests, a mask */

/* A message-id is known by the same number in every router and every version: docs/flow-log.md says how it is made.  Never 0. */
static inline uint64_t digest_hash(const uint8_t *text, size_t size)
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
static inline uint64_t digest_identity(const uint8_t *value, size_t size)
{
    uint8_t number[8] = { 0 };
    switch (*value) {
    case 0x44: return digest_hash(number, sizeof number);
    case 0x53: number[7] = value[1]; return digest_hash(number, sizeof number);
    case 0x80: return digest_hash(value + 1, 8);
    case 0x98: return digest_hash(value + 1, 16);
    case 0xa0: case 0xa1: return digest_hash(value + 2, size - 2);
    case 0xb0: case 0xb1: return digest_hash(value + 5, size - 5);
    default: return 0;
    }
}

/* The value of a section that begins at `offset`, and its size; NULL: it is not of that kind, or not all there. */
static inline const uint8_t *digest_section(const uint8_t *start, size_t size, uint32_t offset, uint8_t wanted, size_t *value_size)
{
    uint32_t descriptor = 0;
    if (offset >= size) return NULL;
    const uint8_t *p = start + offset, *end = start + size;
    if (scan_descriptor(p, end, &descriptor) != wanted || !descriptor || descriptor >= (size_t) (end - p)) return NULL;
    size_t n = scan_size(p + descriptor, end, 0);
    if (n == 0 || n == SIZE_MAX || n > (size_t) (end - p - descriptor)) return NULL;
    *value_size = n;
    return p + descriptor;
}

/* The field of a list at a place from 0; NULL: it is not there. */
static inline const uint8_t *digest_field(const uint8_t *list, size_t list_size, uint32_t place, size_t *size)
{
    scan_cursor fields;
    uint32_t count;
    const uint8_t *f = NULL;
    if (!scan_list(list, list_size, &fields, &count) || place >= count) return NULL;
    for (uint32_t i = 0; i <= place; i++)
        if (!(f = scan_field(&fields, size))) return NULL;
    return f;
}

static inline void digest_header(content_digest *d, const uint8_t *start, size_t size, uint32_t offset)
{
    size_t n, field;
    const uint8_t *list = digest_section(start, size, offset, SECTION_HEADER, &n), *f = list ? digest_field(list, n, 4, &field) : NULL;
    uint32_t count = !f ? 0 : *f == 0x52 ? f[1] : *f == 0x70 ? scan_u32(f + 1) : 0;
    d->delivery_count = (uint16_t) (count > INT16_MAX ? INT16_MAX : count);
}

static inline bool digest_is(const uint8_t *key, uint32_t length, const char *name) { return length == strlen(name) && !memcmp(key, name, length); }

/* One entry of a map: `text`, of `length`, is the key. */
static inline void digest_entry(content_digest *d, const uint8_t *start, const uint8_t *text, uint32_t length, const uint8_t *value, size_t size, uint8_t wishes)
{
    uint32_t at = (uint32_t) (value - start);
    bool string = *value == 0xa1 || *value == 0xb1, list = *value == 0xc0 || *value == 0xd0;
    if (digest_is(text, length, "traceparent") && string) {
        uint32_t skip = *value == 0xa1 ? 2 : 5;
        if (size - skip >= DIGEST_TRACEPARENT) d->trace = at + skip;
    } else if (digest_is(text, length, "x-opt-route.onward") && list) {
        d->onward = at;
    } else if (digest_is(text, length, "x-opt-route.return") && list) {
        d->back = at;
    } else if (wishes & DIGEST_TRANSACTIONS && digest_is(text, length, "x-opt-rmr.header") && (*value == 0xa0 || *value == 0xb0)) {
        uint32_t skip = *value == 0xa0 ? 2 : 5;
        if (size - skip >= RMR_XACT + RMR_XACT_BYTES) d->transaction = at + skip + RMR_XACT;
    }
}

/* The entries of a section that is a map, if all of it is there. */
static inline void digest_map(content_digest *d, const uint8_t *start, const uint8_t *map, size_t map_size, uint8_t wishes)
{
    scan_cursor at = { map, map + map_size };
    if (*map == 0xc1 && map_size >= 3) at.at = map + 3;
    else if (*map == 0xd1 && map_size >= 9) at.at = map + 9;
    else return;
    while (at.at < at.end) {
        size_t key_size, value_size;
        const uint8_t *key = scan_field(&at, &key_size), *value = key ? scan_field(&at, &value_size) : NULL;
        if (!value) return;
        uint32_t skip = *key == 0xa1 || *key == 0xa3 ? 2 : *key == 0xb1 || *key == 0xb3 ? 5 : 0;
        if (skip) digest_entry(d, start, key + skip, (uint32_t) key_size - skip, value, value_size, wishes);
    }
}

/* Of a message whose scan is DONE, of which `size` bytes are in one piece; `all`: these are all. */
static inline void digest_read(content_digest *d, const uint8_t *start, size_t size, bool all, const scan_found *found, uint8_t wishes)
{
    size_t n, field;
    const uint8_t *value;
    *d = (content_digest) { 0 };
    digest_header(d, start, size, found->section_end);
    if (found->properties != SCAN_ABSENT && (value = digest_section(start, size, found->properties, SECTION_PROPERTIES, &n)) && (value = digest_field(value, n, 0, &field)))
        d->message = digest_identity(value, field);
    if (found->message_annotations != SCAN_ABSENT && (value = digest_section(start, size, found->message_annotations, SECTION_MESSAGE_ANNOTATIONS, &n)))
        digest_map(d, start, value, n, wishes);
    uint32_t body = found->body, descriptor = 0;
    if (body >= size) {
        d->body = all ? body : 0;
        return;
    }
    uint8_t code = scan_descriptor(start + body, start + size, &descriptor);
    if (code > SECTION_APPLICATION_PROPERTIES) d->body = body;
    if (code != SECTION_APPLICATION_PROPERTIES || !(value = digest_section(start, size, body, code, &n))) return;
    d->body = (uint32_t) (value - start + n);
    digest_map(d, start, value, n, wishes);
}

#endif
