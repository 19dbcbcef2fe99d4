/* The scan of an arriving message: which sections there are and what the router needs of them (AMQP 1.0 part 3.2).
 *
 * Passes over a router-annotations section in front of the others (what it says, annotations_in.h reads), then reads header,
 * delivery-annotations, message-annotations and properties up to `to`; stops at the first section behind properties, and at bytes
 * that begin no section of a message: they go on as they are, as other message formats than 0 do (2.8.11).  A function of the
 * bytes alone: no state is kept between calls, so a message that arrived only in part is scanned again from its start when
 * there is more of it.
 *
 * Sections are known by their numbers, of either width, and by their names.
 *
 *   SCAN_DONE   everything the router needs is known
 *   SCAN_MORE   the bytes so far are in order, but do not reach far enough
 *   SCAN_BAD    no continuation of these bytes is a message; `why` says what is wrong
 */
#ifndef ROUTERD_SHM_SCAN_H
#define ROUTERD_SHM_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shm/content.h"
#include "shm/sections.h"

#define SCAN_ABSENT UINT32_MAX
#define SCAN_ROUTERS_DESCRIPTOR 10u    /* bytes: numbers of router annotations have their long form only */
#define SCAN_NAME_MAX 31u              /* bytes of a section's name */
#define SCAN_DESCRIPTOR_MAX (6u + SCAN_NAME_MAX)

static const uint8_t scan_section_ours[SCAN_ROUTERS_DESCRIPTOR] = { 0x00, 0x80, 0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x20, 0x00 };
static const uint8_t scan_section_skupper[SCAN_ROUTERS_DESCRIPTOR] = { 0x00, 0x80, 'S', 'K', 'P', 'R', '-', '-', 'R', 'A' };

enum scan_result { SCAN_DONE, SCAN_MORE, SCAN_BAD };
enum { SECTION_ROUTERS = 2 };          /* no number of AMQP's: the name of router annotations */

typedef struct {
    uint32_t delivery_annotations, message_annotations, properties, application_properties;   /* offsets, SCAN_ABSENT */
    uint32_t annotations_end;      /* offset behind header and both annotation sections */
    uint32_t body;                 /* offset of what stands behind properties: sections, or anything */
    uint32_t to, to_length;        /* offset of the text of properties.to, SCAN_ABSENT when null or absent */
    uint8_t priority;              /* clipped to 9; 4 when absent */
    uint8_t section;               /* the form of the router annotations in front (enum content_annotations) */
    uint32_t section_end;          /* offset behind them; 0: there are none */
    const char *why, *condition;   /* of BAD; condition NULL: amqp:decode-error */
} scan_found;

typedef struct { const uint8_t *at, *end; } scan_cursor;

static inline uint32_t scan_u32(const uint8_t *p) { return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3]; }

/* Encoded size of the value at p including its constructor; 0: needs more bytes; SIZE_MAX: no AMQP value.
 * Described values are measured as descriptor plus value; depth bounds descriptors of descriptors. */
static inline size_t scan_size(const uint8_t *p, const uint8_t *end, int depth)
{
    static const uint8_t fixed[16] = { [4] = 1, [5] = 2, [6] = 3, [7] = 5, [8] = 9, [9] = 17 };
    if (p >= end) return 0;
    uint8_t code = *p;
    if (code == 0x00) {
        if (!depth) return SIZE_MAX;
        size_t d = scan_size(p + 1, end, depth - 1);
        if (d == 0 || d == SIZE_MAX) return d;
        if ((size_t) (end - p) < 1 + d) return 0;
        size_t v = scan_size(p + 1 + d, end, depth - 1);
        return v == 0 || v == SIZE_MAX ? v : 1 + d + v;
    }
    if (fixed[code >> 4]) return fixed[code >> 4];
    switch (code >> 4) {
    case 0xa: case 0xc: case 0xe: return end - p < 2 ? 0 : (size_t) 2 + p[1];
    case 0xb: case 0xd: case 0xf: return end - p < 5 ? 0 : (size_t) 5 + scan_u32(p + 1);
    default: return SIZE_MAX;
    }
}

/* Opens a list: fields in [at, end), count.  The caller has made sure that the whole value is there. */
static inline bool scan_list(const uint8_t *p, size_t size, scan_cursor *fields, uint32_t *count)
{
    if (*p == 0x45) { fields->at = fields->end = p + 1; *count = 0; return true; }
    if (*p == 0xc0 && size >= 3) { fields->at = p + 3; *count = p[2]; }
    else if (*p == 0xd0 && size >= 9) { fields->at = p + 9; *count = scan_u32(p + 5); }
    else return false;
    fields->end = p + size;
    return true;
}

/* The next field; NULL when it is cut off or no value. */
static inline const uint8_t *scan_field(scan_cursor *fields, size_t *size)
{
    const uint8_t *p = fields->at;
    *size = scan_size(p, fields->end, 2);
    if (*size == 0 || *size == SIZE_MAX || *size > (size_t) (fields->end - p)) return NULL;
    fields->at += *size;
    return p;
}

static inline bool scan_header(const uint8_t *p, size_t size, scan_found *found)
{
    scan_cursor fields;
    uint32_t count;
    size_t n;
    const uint8_t *f;
    if (!scan_list(p, size, &fields, &count)) return false;
    for (uint32_t i = 0; i < count && i < 2; i++) {
        if (!(f = scan_field(&fields, &n))) return false;
        if (i == 0 && *f != 0x40 && *f != 0x41 && *f != 0x42 && *f != 0x56) return false;      /* durable */
        if (i == 1 && *f == 0x50) found->priority = f[1] > 9 ? 9 : f[1];
        else if (i == 1 && *f != 0x40) return false;
    }
    return true;
}

static inline bool scan_properties(const uint8_t *start, const uint8_t *p, size_t size, scan_found *found)
{
    scan_cursor fields;
    uint32_t count;
    size_t n;
    const uint8_t *f;
    if (!scan_list(p, size, &fields, &count)) return false;
    for (uint32_t i = 0; i < count && i < 3; i++) {           /* message-id, user-id, to */
        if (!(f = scan_field(&fields, &n))) return false;
        if (i < 2 || *f == 0x40) continue;
        if (*f != 0xa1 && *f != 0xb1) return false;
        uint32_t skip = *f == 0xa1 ? 2 : 5;
        found->to = (uint32_t) (f - start) + skip;
        found->to_length = (uint32_t) n - skip;
    }
    return true;
}

static inline enum scan_result scan_bad(scan_found *found, const char *why)
{
    found->why = why;
    return SCAN_BAD;
}

/* The same of a symbol. */
__attribute__((noinline, cold)) static uint8_t scan_name(const uint8_t *p, const uint8_t *end, uint32_t *length)
{
    static const char routers[] = "skupper:router-annotations";
    uint32_t head = p[1] == 0xa3 ? 3 : 6;
    if (end - p < (ptrdiff_t) head) return 0;
    uint32_t size = head == 3 ? p[2] : scan_u32(p + 2);
    if (size > SCAN_NAME_MAX) return 1;
    if ((size_t) (end - p) < head + size) return 0;
    *length = head + size;
    for (size_t i = 0; i < SECTION_COUNT; i++)
        if (strlen(section_names[i].text) == size && !memcmp(p + head, section_names[i].text, size)) return section_names[i].code;
    if (size == sizeof routers - 1 && !memcmp(p + head, routers, size)) return SECTION_ROUTERS;
    return 1;
}

/* The value of a section whose descriptor a scan has read.  No name leads further than one has octets: who wrote it may write it anew. */
static inline const uint8_t *scan_value(const uint8_t *p)
{
    if (__builtin_expect(p[1] == 0x53, 1)) return p + 3;
    if (p[1] == 0x80) return p + 10;
    uint32_t size = p[1] == 0xa3 ? p[2] : scan_u32(p + 2);
    return p + (p[1] == 0xa3 ? 3 : 6) + (size < SCAN_NAME_MAX ? size : SCAN_NAME_MAX);
}

/* The section's code, or 0 when more bytes are needed, or 1 when it is no section descriptor. */
static inline uint8_t scan_descriptor(const uint8_t *p, const uint8_t *end, uint32_t *length)
{
    if (p[0] != 0x00) return 1;
    if (end - p < 2) return 0;
    if (p[1] == 0x53) {
        if (end - p < 3) return 0;
        *length = 3;
        return p[2] > 1 ? p[2] : 1;
    }
    if (p[1] != 0x80) return p[1] == 0xa3 || p[1] == 0xb3 ? scan_name(p, end, length) : 1;
    if (end - p < 10) return 0;
    static const uint8_t zeros[7];
    *length = 10;
    return !memcmp(p + 2, zeros, 7) && p[9] > 1 ? p[9] : 1;
}

/* Router annotations in front of everything else: DONE with section_end 0 when there are none. */
static inline enum scan_result scan_routers(const uint8_t *start, size_t size, bool complete, scan_found *found)
{
    uint32_t length = SCAN_ROUTERS_DESCRIPTOR;
    if (size < SCAN_ROUTERS_DESCRIPTOR || __builtin_expect(start[1] == 0x53, 1)) return SCAN_DONE;
    bool ours = !memcmp(start, scan_section_ours, SCAN_ROUTERS_DESCRIPTOR);
    if (start[1] != 0x80) ours = scan_descriptor(start, start + size, &length) == SECTION_ROUTERS;
    if (!ours && memcmp(start, scan_section_skupper, SCAN_ROUTERS_DESCRIPTOR)) return SCAN_DONE;
    const uint8_t *value = start + length, *end = start + size;
    if (value < end && *value != 0x45 && *value != 0xc0 && *value != 0xd0) return scan_bad(found, "router annotations are no list");
    size_t n = scan_size(value, end, 0);
    if (n == 0 || n > (size_t) (end - value)) return complete ? scan_bad(found, "the message ends inside router annotations") : SCAN_MORE;
    found->section = ours ? ANNOTATIONS_SECTION : ANNOTATIONS_SKUPPER;
    found->section_end = found->annotations_end = (uint32_t) (value + n - start);
    if (found->section_end == size && complete) return scan_bad(found, "there is no message behind the router annotations");
    return SCAN_DONE;
}

/* size: bytes at hand; complete: there will be no more. */
static inline enum scan_result scan_message(const uint8_t *start, size_t size, bool complete, scan_found *found)
{
    if (size >= SCAN_ABSENT) size = SCAN_ABSENT - 1;
    const uint8_t *p = start, *end = start + size;
    uint8_t previous = 0;
    found->delivery_annotations = found->message_annotations = found->properties = found->application_properties = found->to = SCAN_ABSENT;
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
            if (!complete) return SCAN_MORE;
            found->body = here;
            return SCAN_DONE;
        }
        uint8_t code = scan_descriptor(p, end, &descriptor);
        if (code == 0) return complete ? scan_bad(found, "the message ends inside a section descriptor") : SCAN_MORE;
        if (code < SECTION_HEADER || code > SECTION_FOOTER) { found->body = here; return SCAN_DONE; }   /* the receiver's business */
        if (code <= previous && code < SECTION_DATA) return scan_bad(found, "the sections are out of order");
        if (code >= SECTION_APPLICATION_PROPERTIES) {
            if (code == SECTION_APPLICATION_PROPERTIES) found->application_properties = here;
            found->body = here;
            return SCAN_DONE;
        }
        const uint8_t *value = p + descriptor;
        size_t n = scan_size(value, end, 0);
        if (n == SIZE_MAX) return scan_bad(found, "a section holds no AMQP list or map");
        if (n == 0 || n > (size_t) (end - value)) {
            uint8_t kind = value < end ? *value : 0xd0;
            if (kind != 0x45 && kind != 0xc0 && kind != 0xd0 && kind != 0xc1 && kind != 0xd1) return scan_bad(found, "a section holds no list or map");
            return complete ? scan_bad(found, "the message ends inside a section") : SCAN_MORE;
        }
        bool map = *value == 0xc1 || *value == 0xd1;
        switch (code) {
        case SECTION_HEADER:
            if (!scan_header(value, n, found)) return scan_bad(found, "the header is malformed");
            break;
        case SECTION_DELIVERY_ANNOTATIONS:
            if (!map) return scan_bad(found, "delivery-annotations are not a map");
            found->delivery_annotations = here;
            break;
        case SECTION_MESSAGE_ANNOTATIONS:
            if (!map) {
                found->condition = "amqp:invalid-field";               /* facts 3.1 */
                return scan_bad(found, "message-annotations are not a map");
            }
            found->message_annotations = here;
            break;
        default:
            found->properties = here;
            if (!scan_properties(start, value, n, found)) return scan_bad(found, "the properties are malformed");
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
