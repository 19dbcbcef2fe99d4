/* The key of a message for a route table: message type, subscription id, managed entity and sender.
 *
 *   application property   message annotation     type
 *   rmr.mt                 x-opt-rmr.mt           any whole number of 32 bits
 *   rmr.sub-id             x-opt-rmr.sub-id       any whole number of 32 bits; absent: -1, no subscription
 *   rmr.meid               x-opt-rmr.meid         string, symbol; binary if it is not UTF-8
 *   rmr.source             x-opt-rmr.source       name:port as string, symbol or binary
 *
 * The annotation wins over the property.  Workers read the keys of messages on links to a route table, the core those
 * of messages that reach one otherwise (docs/route-tables.md, In a running router).
 */
#ifndef ROUTERD_SHM_RMR_KEY_H
#define ROUTERD_SHM_RMR_KEY_H

#include "shm/memory/record.h"
#include "shm/codec/scan.h"

#define RMR_RESERVED 100               /* RMR reserves the message types from 0 to below this */
#define RMR_NO_SUBSCRIPTION (-1)
#define RMR_KEY_WITHIN 16384u          /* octets, from rmr_key_from() on, in which the core looks for a key */

static const char rmr_key_prefix[] = "x-opt-";
static const char rmr_reserved[] = "message types 0 to 99 are reserved for RMR itself";
static const char rmr_cut_properties[] = "the message ends inside its application properties";
static const char rmr_bad_properties[] = "the application properties are malformed";

enum rmr_key_found { RMR_KEY_MT = 1, RMR_KEY_SID = 2, RMR_KEY_MEID = 4, RMR_KEY_SOURCE = 8 };

typedef struct {
    uint32_t found;                    /* mask of enum rmr_key_found */
    int32_t mt, sid;
    uint32_t meid, meid_length;        /* offset of the text in the message */
    uint32_t source, source_length;    /* the same; at most 255 octets, with the length in the octet before */
} rmr_key;

static inline void rmr_key_none(rmr_key *key) { *key = (rmr_key) { .sid = RMR_NO_SUBSCRIPTION }; }

/* A whole number of any width, if it fits. */
static inline bool rmr_key_number(amqp_value v, int32_t *value)
{
    int64_t n = 0;
    if (!amqp_integer(v, &n) || n < INT32_MIN || n > INT32_MAX) return false;
    *value = (int32_t) n;
    return true;
}

static inline bool rmr_key_is(const uint8_t *name, size_t length, const char *wanted, size_t size)
{
    return length == size && !memcmp(name, wanted, size);
}

/* Reads one entry of a map; a known key with a value of a wrong type counts as absent. */
static inline void rmr_key_entry(rmr_key *key, const uint8_t *start, const uint8_t *name, size_t length,
                                 amqp_value value)
{
    if (length < 6 || memcmp(name, "rmr.", 4)) return;
    if (rmr_key_is(name, length, "rmr.mt", 6)) {
        if (rmr_key_number(value, &key->mt)) key->found |= RMR_KEY_MT;
    } else if (rmr_key_is(name, length, "rmr.sub-id", 10)) {
        if (rmr_key_number(value, &key->sid)) key->found |= RMR_KEY_SID;
        else key->sid = RMR_NO_SUBSCRIPTION;
    } else if (rmr_key_is(name, length, "rmr.meid", 8)) {
        amqp_octets text = amqp_any_octets(value);
        if (!text.size) return;
        key->found |= RMR_KEY_MEID;
        key->meid = (uint32_t) (text.at - start);
        key->meid_length = text.size;
    } else if (rmr_key_is(name, length, "rmr.source", 10)) {
        amqp_octets text = amqp_any_octets(value);
        if (!text.size || text.size > UINT8_MAX) return;
        key->found |= RMR_KEY_SOURCE;
        key->source = (uint32_t) (text.at - start);
        key->source_length = text.size;
    }
}

/* Reads a section whose keys have a prefix.  False: it is no valid map. */
static inline bool rmr_key_map(rmr_key *key, const uint8_t *start, amqp_value map, const char *prefix)
{
    size_t before = strlen(prefix);
    amqp_cursor items;
    uint32_t count;
    if (!amqp_map(map, &items, &count) || count & 1) return false;
    for (; count; count -= 2) {
        amqp_value name = amqp_next(&items), value = amqp_next(&items);
        if (!value.at) return false;
        amqp_octets text = amqp_text(name);
        if (!text.at || text.size < before || memcmp(text.at, prefix, before)) continue;
        rmr_key_entry(key, start, text.at + before, text.size - before, value);
    }
    return true;
}

/* Where what may have a key begins, after a scan that is DONE. */
static inline uint32_t rmr_key_from(uint32_t message_annotations, uint32_t body)
{
    return message_annotations < body ? message_annotations : body;
}

/* Checks, after a scan that is DONE, whether the application properties have arrived completely. */
static inline enum scan_result rmr_key_there(const uint8_t *start, size_t size, bool complete, scan_found *found)
{
    if (found->application_properties == SCAN_ABSENT) {
        uint32_t length;
        const uint8_t *end = start + size;
        if (found->body >= size) return complete ? SCAN_DONE : scan_more(start, end, 0, end, found);
        uint8_t code = scan_descriptor(start + found->body, end, &length);
        if (!code) {
            return complete ? scan_bad(found, "the message ends inside a section descriptor")
                            : scan_more(start, end, 0, end, found);
        }
        if (code != SECTION_APPLICATION_PROPERTIES) return SCAN_DONE;
        found->application_properties = found->body;
    }
    const uint8_t *p = scan_value(start + found->application_properties), *end = start + size;
    size_t n = amqp_size(p, end, 0);
    if (p < end && !amqp_is_map(*p)) return scan_bad(found, rmr_bad_properties);
    if (n == 0 || n > (size_t) (end - p))
        return complete ? scan_bad(found, rmr_cut_properties) : scan_more(start, p, n, end, found);
    return SCAN_DONE;
}

/* Reads the key of a message after a scan that is DONE, with complete application properties. */
static inline enum scan_result rmr_key_scan(const uint8_t *start, size_t size, scan_found *found, rmr_key *key)
{
    rmr_key_none(key);
    if (found->application_properties != SCAN_ABSENT
        && !rmr_key_map(key, start, scan_whole_value(start, found->application_properties, size), ""))
        return scan_bad(found, rmr_bad_properties);
    if (found->message_annotations != SCAN_ABSENT && !rmr_key_map(key, start,
        scan_whole_value(start, found->message_annotations, size), rmr_key_prefix))
        return scan_bad(found, "the message annotations are malformed");
    return SCAN_DONE;
}

/* Writes the key into a record for the core (record.h, enum deliver_key). */
static inline void rmr_key_post(const rmr_key *key, routerd_record *r)
{
    r->state = key->found & RMR_KEY_MT ? KEY_FOUND : KEY_NONE;
    r->delivery = (uint64_t) (uint32_t) key->sid << 32 | (uint32_t) key->mt;
    r->extra = key->found & RMR_KEY_MEID ? (uint64_t) key->meid_length << 32 | key->meid : 0;
    r->credit = key->found & RMR_KEY_SOURCE ? key->source : 0;
}

#endif
