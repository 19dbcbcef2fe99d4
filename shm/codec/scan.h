/* The scan of an arriving message: it finds the sections and the values that the router needs (AMQP 1.0 part 3.2).
 *
 * The scan skips a leading router-annotations section (annotations_in.c reads it), then reads header, delivery-
 * annotations, message-annotations and properties up to `to`.  It stops at the first section after properties, and at
 * bytes that begin no section: the router forwards them unchanged, like messages of formats other than 0 (AMQP 1.0 part
 * 2.8.11).  The scan keeps no state: a message that has arrived in part is scanned again from its start later, when it
 * has as many bytes as the scan has asked for.
 *
 * The scan accepts section descriptors as numbers of either width and as symbols.
 *
 *   SCAN_DONE   all that the router needs is known
 *   SCAN_MORE   the bytes so far are valid but not enough
 *   SCAN_BAD    no continuation of these bytes is a message; `why` says what is wrong
 */
#ifndef ROUTERD_SHM_SCAN_H
#define ROUTERD_SHM_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shm/codec/amqp.h"
#include "shm/memory/content.h"
#include "shm/codec/sections.h"

#define SCAN_ABSENT UINT32_MAX
#define SCAN_ROUTERS_DESCRIPTOR 10u    /* bytes: the descriptor is always a long ulong */
#define SCAN_NAME_MAX 31u              /* bytes of a section's name */
#define SCAN_DESCRIPTOR_MAX (6u + SCAN_NAME_MAX)

static const uint8_t scan_section_ours[SCAN_ROUTERS_DESCRIPTOR] = { AMQP_DESCRIBED, AMQP_ULONG, 0xff, 0xff, 0xff, 0xff,
    0x00, 0x00, 0x20, 0x00 };
static const uint8_t scan_section_skupper[SCAN_ROUTERS_DESCRIPTOR] = { AMQP_DESCRIBED, AMQP_ULONG, 'S', 'K', 'P', 'R',
    '-', '-', 'R', 'A' };

enum scan_result { SCAN_DONE, SCAN_MORE, SCAN_BAD };
enum { SECTION_ROUTERS = 2 };          /* not a number of AMQP: router annotations by symbolic descriptor */

typedef struct {
    uint32_t message_annotations, properties, application_properties;   /* offsets, SCAN_ABSENT */
    uint32_t annotations_end;      /* offset behind header and both annotation sections */
    uint32_t body;                 /* offset of the bytes after properties */
    uint32_t to, to_length;        /* offset of the text of properties.to, SCAN_ABSENT when null or absent */
    uint8_t priority;              /* clipped to 9; 4 when absent */
    uint8_t section;               /* the form of leading router annotations (enum content_annotations) */
    uint32_t section_end;          /* offset after them; 0: there are none */
    const char *why, *condition;   /* of BAD; condition NULL: amqp:decode-error */
    uint32_t need;                 /* of MORE: with fewer bytes than these another scan finds nothing new */
} scan_found;

/* More bytes are needed: one, or as many as the value there says that it has. */
static inline enum scan_result scan_more(const uint8_t *start, const uint8_t *value, size_t n, const uint8_t *end,
                                         scan_found *found)
{
    size_t need = (n ? (size_t) (value - start) + n : (size_t) (end - start) + 1);
    found->need = need < SCAN_ABSENT ? (uint32_t) need : SCAN_ABSENT;
    return SCAN_MORE;
}

static inline bool scan_header(amqp_value value, scan_found *found)
{
    amqp_cursor fields;
    uint32_t count;
    if (!amqp_list(value, &fields, &count)) return false;
    for (uint32_t i = 0; i < count && i < 2; i++) {
        amqp_value f = amqp_next(&fields);
        if (!f.at) return false;
        if (*f.at == AMQP_NULL) continue;
        if (i == 0 && !amqp_is_boolean(*f.at)) return false;                   /* durable */
        if (i == 1 && *f.at != AMQP_UBYTE) return false;
        if (i == 1) found->priority = f.at[1] > 9 ? 9 : f.at[1];
    }
    return true;
}

static inline bool scan_properties(const uint8_t *start, amqp_value value, scan_found *found)
{
    amqp_cursor fields;
    uint32_t count;
    if (!amqp_list(value, &fields, &count)) return false;
    for (uint32_t i = 0; i < count && i < 3; i++) {           /* message-id, user-id, to */
        if (fields.at < fields.end && *fields.at == AMQP_NULL) { fields.at++; continue; }
        amqp_value f = amqp_next(&fields);
        if (!f.at) return false;
        if (i < 2) continue;
        amqp_octets to = amqp_string(f);
        if (!to.at) return false;
        found->to = (uint32_t) (to.at - start);
        found->to_length = to.size;
    }
    return true;
}

static inline enum scan_result scan_bad(scan_found *found, const char *why)
{
    found->why = why;
    return SCAN_BAD;
}

/* The section's code by a symbolic descriptor, as in scan_descriptor. */
__attribute__((noinline, cold)) static uint8_t scan_name(const uint8_t *p, const uint8_t *end, uint32_t *length)
{
    static const char routers[] = "skupper:router-annotations";
    uint32_t head = 1 + amqp_head(p[1]);
    if (end - p < (ptrdiff_t) head) return 0;
    uint32_t size = head == 3 ? p[2] : be32(p + 2);
    if (size > SCAN_NAME_MAX) return 1;
    if ((size_t) (end - p) < head + size) return 0;
    *length = head + size;
    for (size_t i = 0; i < SECTION_COUNT; i++)
        if (strlen(section_names[i].text) == size && !memcmp(p + head, section_names[i].text, size))
            return section_names[i].code;
    if (size == sizeof routers - 1 && !memcmp(p + head, routers, size)) return SECTION_ROUTERS;
    return 1;
}

/* The value of a section whose descriptor a scan has read; the name's length is bounded again, as its writer may change
 * it. */
static inline const uint8_t *scan_value(const uint8_t *p)
{
    if (__builtin_expect(p[1] == AMQP_SMALLULONG, 1)) return p + 3;
    if (p[1] == AMQP_ULONG) return p + 10;
    uint32_t size = p[1] == AMQP_SYMBOL8 ? p[2] : be32(p + 2);
    return p + 1 + amqp_head(p[1]) + (size < SCAN_NAME_MAX ? size : SCAN_NAME_MAX);
}

/* The value of the section at an offset, if it is complete. */
static inline amqp_value scan_whole_value(const uint8_t *start, uint32_t at, size_t size)
{
    return amqp_take(scan_value(start + at), start + size, 0);
}

/* The section's code, or 0 when more bytes are needed, or 1 when it is no section descriptor. */
static inline uint8_t scan_descriptor(const uint8_t *p, const uint8_t *end, uint32_t *length)
{
    if (p[0] != AMQP_DESCRIBED) return 1;
    if (end - p < 2) return 0;
    if (p[1] == AMQP_SMALLULONG) {
        if (end - p < 3) return 0;
        *length = 3;
        return p[2] > 1 ? p[2] : 1;
    }
    if (p[1] != AMQP_ULONG) return amqp_is_symbol(p[1]) ? scan_name(p, end, length) : 1;
    if (end - p < 10) return 0;
    static const uint8_t zeros[7];
    *length = 10;
    return !memcmp(p + 2, zeros, 7) && p[9] > 1 ? p[9] : 1;
}

/* Scans leading router annotations: DONE with section_end 0 if there are none. */
static inline enum scan_result scan_routers(const uint8_t *start, size_t size, bool complete, scan_found *found)
{
    uint32_t length = SCAN_ROUTERS_DESCRIPTOR;
    if (size < SCAN_ROUTERS_DESCRIPTOR || __builtin_expect(start[1] == AMQP_SMALLULONG, 1)) return SCAN_DONE;
    bool ours = !memcmp(start, scan_section_ours, SCAN_ROUTERS_DESCRIPTOR);
    if (start[1] != AMQP_ULONG) ours = scan_descriptor(start, start + size, &length) == SECTION_ROUTERS;
    if (!ours && memcmp(start, scan_section_skupper, SCAN_ROUTERS_DESCRIPTOR)) return SCAN_DONE;
    const uint8_t *value = start + length, *end = start + size;
    if (value < end && !amqp_is_list(*value)) return scan_bad(found, "router annotations are no list");
    size_t n = amqp_size(value, end, 0);
    if (n == 0 || n > (size_t) (end - value))
        return complete ? scan_bad(found, "the message ends inside router annotations")
                        : scan_more(start, value, n, end, found);
    found->section = ours ? ANNOTATIONS_SECTION : ANNOTATIONS_SKUPPER;
    found->section_end = found->annotations_end = (uint32_t) (value + n - start);
    if (found->section_end == size && complete)
        return scan_bad(found, "there is no message behind the router annotations");
    return SCAN_DONE;
}

/* `size`: bytes that have arrived; `complete`: no more will arrive. */
static inline enum scan_result scan_message(const uint8_t *start, size_t size, bool complete, scan_found *found)
{
    if (size >= SCAN_ABSENT) size = SCAN_ABSENT - 1;
    const uint8_t *p = start, *end = start + size;
    uint8_t previous = 0;
    found->message_annotations = found->properties = found->application_properties = found->to = SCAN_ABSENT;
    found->annotations_end = found->body = found->to_length = found->section_end = 0;
    found->priority = 4;
    found->section = ANNOTATIONS_NONE;
    found->why = found->condition = NULL;
    if (!size && complete) return scan_bad(found, "the message is empty");
    enum scan_result routers = scan_routers(start, size, complete, found);
    if (routers != SCAN_DONE) return routers;
    p += found->section_end;
    for (;;) {
        uint32_t descriptor = 0;
        uint32_t here = (uint32_t) (p - start);
        if (p == end) {
            if (!complete) return scan_more(start, p, 0, end, found);
            found->body = here;
            return SCAN_DONE;
        }
        uint8_t code = scan_descriptor(p, end, &descriptor);
        if (code == 0) {
            return complete ? scan_bad(found, "the message ends inside a section descriptor")
                            : scan_more(start, p, 0, end, found);
        }
        /* the receiver judges it */
        if (code < SECTION_HEADER || code > SECTION_FOOTER) { found->body = here; return SCAN_DONE; }
        if (code <= previous && code < SECTION_DATA) return scan_bad(found, "the sections are out of order");
        if (code >= SECTION_APPLICATION_PROPERTIES) {
            if (code == SECTION_APPLICATION_PROPERTIES) found->application_properties = here;
            found->body = here;
            return SCAN_DONE;
        }
        const uint8_t *value = p + descriptor;
        size_t n = amqp_size(value, end, 0);
        if (n == AMQP_WRONG) return scan_bad(found, "a section holds no AMQP list or map");
        if (n == 0 || n > (size_t) (end - value)) {
            if (value < end && !amqp_is_list(*value) && !amqp_is_map(*value))
                return scan_bad(found, "a section holds no list or map");
            return complete ? scan_bad(found, "the message ends inside a section")
                            : scan_more(start, value, n, end, found);
        }
        bool map = amqp_is_map(*value);
        switch (code) {
        case SECTION_HEADER:
            if (!scan_header((amqp_value) { value, n }, found)) return scan_bad(found, "the header is malformed");
            break;
        case SECTION_DELIVERY_ANNOTATIONS:
            if (!map) return scan_bad(found, "delivery-annotations are not a map");
            break;
        case SECTION_MESSAGE_ANNOTATIONS:
            if (!map) {
                found->condition = "amqp:invalid-field";
                return scan_bad(found, "message-annotations are not a map");
            }
            found->message_annotations = here;
            break;
        default:
            found->properties = here;
            if (!scan_properties(start, (amqp_value) { value, n }, found))
                return scan_bad(found, "the properties are malformed");
        }
        p = value + n;
        if (code < SECTION_PROPERTIES) found->annotations_end = (uint32_t) (p - start);
        else {
            found->body = (uint32_t) (p - start);
            return SCAN_DONE;
        }
        previous = code;
    }
}

#endif
