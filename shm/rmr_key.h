/* The key of a message for a route table: message type, subscription id, managed entity, and who sent it.
 *
 *   application property   message annotation     type
 *   rmr.mt                 x-opt-rmr.mt           any whole number of 32 bits
 *   rmr.sub-id             x-opt-rmr.sub-id       the same; absent: -1, no subscription
 *   rmr.meid               x-opt-rmr.meid         string, symbol; binary where it is no UTF-8
 *   rmr.source             x-opt-rmr.source       the same: name:port
 *
 * Where both are there the annotation counts.  Workers look at messages on links to a route table; the core at those that come to one in another way.
 */
#ifndef ROUTERD_SHM_RMR_KEY_H
#define ROUTERD_SHM_RMR_KEY_H

#include "shm/record.h"
#include "shm/scan.h"

#define RMR_RESERVED 100               /* message types below, from 0, are RMR's own */
#define RMR_NO_SUBSCRIPTION (-1)

static const char rmr_key_prefix[] = "x-opt-";
static const char rmr_reserved[] = "message types 0 to 99 are reserved for RMR itself";
static const char rmr_cut_properties[] = "the message ends inside its application properties";
static const char rmr_bad_properties[] = "the application properties are malformed";

enum rmr_key_found { RMR_KEY_MT = 1, RMR_KEY_SID = 2, RMR_KEY_MEID = 4, RMR_KEY_SOURCE = 8 };

typedef struct {
    uint32_t found;                    /* mask of enum rmr_key_found */
    int32_t mt, sid;
    uint32_t meid, meid_length;        /* offset of the text in the message */
    uint32_t source, source_length;    /* the same; at most 255 octets, and the octet before them says how many */
} rmr_key;

static inline void rmr_key_none(rmr_key *key) { *key = (rmr_key) { .sid = RMR_NO_SUBSCRIPTION }; }

/* A whole number of any width, if it fits. */
static inline bool rmr_key_number(const uint8_t *p, int32_t *value)
{
    int64_t n;
    switch (*p) {
    case 0x43: case 0x44: n = 0; break;
    case 0x50: case 0x52: case 0x53: n = p[1]; break;
    case 0x51: case 0x54: case 0x55: n = (int8_t) p[1]; break;
    case 0x60: n = (uint16_t) (p[1] << 8 | p[2]); break;
    case 0x61: n = (int16_t) (p[1] << 8 | p[2]); break;
    case 0x70: n = scan_u32(p + 1); break;
    case 0x71: n = (int32_t) scan_u32(p + 1); break;
    case 0x80: n = scan_u32(p + 1) ? INT64_MAX : (int64_t) scan_u32(p + 5); break;
    case 0x81: n = (int64_t) ((uint64_t) scan_u32(p + 1) << 32 | scan_u32(p + 5)); break;
    default: return false;
    }
    *value = (int32_t) n;
    return n >= INT32_MIN && n <= INT32_MAX;
}

/* Where the text of a string or symbol begins in its encoding; 0: it is none. */
static inline uint32_t rmr_key_text(uint8_t code)
{
    if (code == 0xa1 || code == 0xa3) return 2;
    return code == 0xb1 || code == 0xb3 ? 5 : 0;
}

/* The same of octets, which may be binary, too. */
static inline uint32_t rmr_key_octets(uint8_t code) { return code == 0xa0 ? 2 : code == 0xb0 ? 5 : rmr_key_text(code); }

static inline bool rmr_key_is(const uint8_t *name, size_t length, const char *wanted, size_t size) { return length == size && !memcmp(name, wanted, size); }

/* One entry of a map; a key of ours whose value is of a wrong type counts as not there. */
static inline void rmr_key_entry(rmr_key *key, const uint8_t *start, const uint8_t *name, size_t length, const uint8_t *value, size_t size)
{
    uint32_t skip = rmr_key_octets(*value);
    if (length < 6 || memcmp(name, "rmr.", 4)) return;
    if (rmr_key_is(name, length, "rmr.mt", 6)) {
        if (rmr_key_number(value, &key->mt)) key->found |= RMR_KEY_MT;
    } else if (rmr_key_is(name, length, "rmr.sub-id", 10)) {
        if (rmr_key_number(value, &key->sid)) key->found |= RMR_KEY_SID;
        else key->sid = RMR_NO_SUBSCRIPTION;
    } else if (rmr_key_is(name, length, "rmr.meid", 8) && skip && size > skip) {
        key->found |= RMR_KEY_MEID;
        key->meid = (uint32_t) (value - start) + skip;
        key->meid_length = (uint32_t) size - skip;
    } else if (rmr_key_is(name, length, "rmr.source", 10) && skip && size > skip && size - skip <= UINT8_MAX) {
        key->found |= RMR_KEY_SOURCE;
        key->source = (uint32_t) (value - start) + skip;
        key->source_length = (uint32_t) size - skip;
    }
}

/* A section that is a map, or null as value; `prefix`: what its keys have in front.  False: it is no map in order. */
static inline bool rmr_key_map(rmr_key *key, const uint8_t *start, const uint8_t *p, size_t size, const char *prefix)
{
    size_t before = strlen(prefix);
    scan_cursor at = { p, p + size };
    uint32_t count;
    if (*p == 0xc1 && size >= 3) { count = p[2]; at.at = p + 3; }
    else if (*p == 0xd1 && size >= 9) { count = scan_u32(p + 5); at.at = p + 9; }
    else return false;
    if (count & 1) return false;
    for (; count; count -= 2) {
        size_t name_size, value_size;
        const uint8_t *name = scan_field(&at, &name_size), *value = name ? scan_field(&at, &value_size) : NULL;
        if (!value) return false;
        uint32_t skip = rmr_key_text(*name);
        if (!skip || name_size - skip < before || memcmp(name + skip, prefix, before)) continue;
        rmr_key_entry(key, start, name + skip + before, name_size - skip - before, value, value_size);
    }
    return true;
}

/* Are the application properties there as a whole?  Of a message whose scan is DONE; that ends with the properties if there are some. */
static inline enum scan_result rmr_key_there(const uint8_t *start, size_t size, bool complete, scan_found *found)
{
    if (found->application_properties == SCAN_ABSENT) {
        uint32_t length;
        if (found->body >= size) return complete ? SCAN_DONE : SCAN_MORE;
        uint8_t code = scan_descriptor(start + found->body, start + size, &length);
        if (!code) return complete ? scan_bad(found, "the message ends inside a section descriptor") : SCAN_MORE;
        if (code != SECTION_APPLICATION_PROPERTIES) return SCAN_DONE;
        found->application_properties = found->body;
    }
    const uint8_t *p = scan_value(start + found->application_properties), *end = start + size;
    size_t n = scan_size(p, end, 0);
    if (p < end && *p != 0xc1 && *p != 0xd1) return scan_bad(found, rmr_bad_properties);
    if (n == 0 || n > (size_t) (end - p)) return complete ? scan_bad(found, rmr_cut_properties) : SCAN_MORE;
    return SCAN_DONE;
}

/* The key of a message whose scan is DONE and whose application properties are there. */
static inline enum scan_result rmr_key_scan(const uint8_t *start, size_t size, scan_found *found, rmr_key *key)
{
    const uint8_t *p;
    rmr_key_none(key);
    if (found->application_properties != SCAN_ABSENT) {
        p = scan_value(start + found->application_properties);
        if (!rmr_key_map(key, start, p, scan_size(p, start + size, 0), "")) return scan_bad(found, rmr_bad_properties);
    }
    if (found->message_annotations != SCAN_ABSENT) {
        p = scan_value(start + found->message_annotations);
        if (!rmr_key_map(key, start, p, scan_size(p, start + size, 0), rmr_key_prefix)) return scan_bad(found, "the message annotations are malformed");
    }
    return SCAN_DONE;
}

/* What the core is told of it (record.h, enum deliver_key). */
static inline void rmr_key_post(const rmr_key *key, routerd_record *r)
{
    r->state = key->found & RMR_KEY_MT ? KEY_FOUND : KEY_NONE;
    r->delivery = (uint64_t) (uint32_t) key->sid << 32 | (uint32_t) key->mt;
    r->extra = key->found & RMR_KEY_MEID ? (uint64_t) key->meid_length << 32 | key->meid : 0;
    r->credit = key->found & RMR_KEY_SOURCE ? key->source : 0;
}

#endif
