/* A frame as an AMQP message, and an AMQP message as a frame.
 *
 *   message-annotations      x-opt-rmr.header: binary, everything between the transport's header and the payload
 *   properties               to: of replies and of what is about tables; reply-to: the connection it came on; message-id and correlation-id: of
 *                            blocking calls and of answers to clients (rmr_ask.h)
 *   application-properties   rmr.mt, rmr.sub-id: int; rmr.meid, rmr.source, rmr.conn: string, where there is one; binary where its octets are no UTF-8
 *   data                     the payload
 *
 * Composing is done once per frame into one piece of memory; the offsets that the content header needs come with it.
 */
#ifndef ROUTERD_WORKERS_RMR_AMQP_H
#define ROUTERD_WORKERS_RMR_AMQP_H

#include "workers/rmr/ask.c"
#include "shm/rmr_key.h"

#define RMR_ADDRESS_MAX 1024u          /* octets of an address of ours: of a table, with what goes on there */
#define RMR_FRONT_MAX (RMR_HEAD_MAX + 4 * RMR_ADDRESS_MAX + 1536u)     /* octets of a message in front of its payload */

static const char rmr_header_key[] = "x-opt-rmr.header";

typedef struct {
    const char *text;
    uint32_t length;                   /* 0: none */
} rmr_address;

typedef struct {                       /* what the message is to say beside its frame */
    rmr_address to, reply_to, conn;
    const uint8_t *call;               /* message-id, RMR_CALL_TEXT long; NULL: none */
    const uint8_t *id;                 /* correlation-id, as AMQP encodes it */
    uint32_t id_length;                /* 0: none */
} rmr_wanted;

static inline uint8_t *rmr_put_long(uint8_t *p, uint8_t code, const void *bytes, uint32_t size)
{
    *p = code;
    rmr_put32(p + 1, size);
    if (size) memcpy(p + 5, bytes, size);
    return p + 5 + size;
}

static inline uint8_t *rmr_put_short(uint8_t *p, uint8_t code, const void *bytes, uint32_t size)
{
    p[0] = code;
    p[1] = (uint8_t) size;
    memcpy(p + 2, bytes, size);
    return p + 2 + size;
}

/* Octets of a frame: text, if they are. */
static inline uint8_t *rmr_put_octets(uint8_t *p, const uint8_t *octets, uint32_t size) { return rmr_put_short(p, utf8_valid(octets, size) ? 0xa1 : 0xa0, octets, size); }

/* A section around a list or map of `count` items, which end here. */
static inline void rmr_section(uint8_t *section, uint8_t code, uint8_t compound, const uint8_t *end, uint32_t count)
{
    section[0] = 0x00; section[1] = 0x53; section[2] = code; section[3] = compound;
    rmr_put32(section + 4, (uint32_t) (end - section - 8));
    rmr_put32(section + 8, count);
}

static inline uint8_t *rmr_put_number(uint8_t *p, const char *key, uint32_t length, int32_t value)
{
    p = rmr_put_short(p, 0xa1, key, length);
    *p = 0x71;
    rmr_put32(p + 1, (uint32_t) value);
    return p + 5;
}

/* `to`: where its text stands. */
static inline uint8_t *rmr_put_properties(uint8_t *p, const rmr_wanted *want, uint8_t **to)
{
    uint8_t *section = p;
    if (!want->to.length && !want->reply_to.length) return p;
    p += 12;
    if (want->call) p = rmr_put_short(p, 0xa1, want->call, RMR_CALL_TEXT);
    else *p++ = 0x40;
    *p++ = 0x40;
    *to = p + 5;
    if (want->to.length) p = rmr_put_long(p, 0xb1, want->to.text, want->to.length);
    else *p++ = 0x40;
    *p++ = 0x40;
    if (want->reply_to.length) p = rmr_put_long(p, 0xb1, want->reply_to.text, want->reply_to.length);
    else *p++ = 0x40;
    if (want->id_length) {
        memcpy(p, want->id, want->id_length);
        p += want->id_length;
    }
    rmr_section(section, SECTION_PROPERTIES, 0xd0, p, want->id_length ? 6 : 5);
    return p;
}

/* Everything in front of the payload, which begins at the length returned; at most RMR_FRONT_MAX.  `source`: what rmr.source is to be, a field of
 * the header as it came. */
static inline uint32_t rmr_compose(uint8_t *start, const uint8_t *header, const rmr_parts *parts, const uint8_t *source, const rmr_wanted *want, scan_found *found, rmr_key *key)
{
    uint8_t *p = start + 12, *section, *to = start;
    uint32_t count = 4, meid = rmr_text(header + RMR_MEID, RMR_MEID_BYTES), name = rmr_text(source, RMR_SOURCE_BYTES);
    scan_message(start, 0, false, found);
    found->message_annotations = 0;
    p = rmr_put_short(p, 0xa3, rmr_header_key, sizeof rmr_header_key - 1);
    p = rmr_put_long(p, 0xb0, header, parts->head);
    rmr_section(start, SECTION_MESSAGE_ANNOTATIONS, 0xd1, p, 2);
    found->annotations_end = (uint32_t) (p - start);
    section = p;
    p = rmr_put_properties(p, want, &to);
    if (p != section) found->properties = found->annotations_end;
    if (want->to.length) { found->to = (uint32_t) (to - start); found->to_length = want->to.length; }
    found->body = found->application_properties = (uint32_t) (p - start);
    *key = (rmr_key) { .found = RMR_KEY_MT | RMR_KEY_SID, .mt = parts->mt, .sid = parts->sid };
    section = p;
    p = rmr_put_number(p + 12, "rmr.mt", 6, parts->mt);
    p = rmr_put_number(p, "rmr.sub-id", 10, parts->sid);
    if (meid) {
        p = rmr_put_short(p, 0xa1, "rmr.meid", 8);
        key->found |= RMR_KEY_MEID;
        key->meid = (uint32_t) (p - start) + 2;
        key->meid_length = meid;
        p = rmr_put_octets(p, header + RMR_MEID, meid);
        count += 2;
    }
    if (name) {
        p = rmr_put_short(p, 0xa1, "rmr.source", 10);
        key->found |= RMR_KEY_SOURCE;
        key->source = (uint32_t) (p - start) + 2;
        key->source_length = name;
        p = rmr_put_octets(p, source, name);
        count += 2;
    }
    if (want->conn.length) {
        p = rmr_put_short(p, 0xa1, "rmr.conn", 8);
        p = rmr_put_long(p, 0xb1, want->conn.text, want->conn.length);
        count += 2;
    }
    rmr_section(section, SECTION_APPLICATION_PROPERTIES, 0xd1, p, count);
    p[0] = 0x00; p[1] = 0x53; p[2] = SECTION_DATA; p[3] = 0xb0;
    rmr_put32(p + 4, parts->payload);
    return (uint32_t) (p + 8 - start);
}

/* ---- the other way ---- */

enum rmr_made { RMR_MADE, RMR_PIECES, RMR_NO_TYPE, RMR_NO_BODY, RMR_NO_MESSAGE };

typedef struct {                       /* a frame in the making */
    uint8_t head[RMR_HEAD_MAX];        /* from the header up to the payload; its length field is filled in */
    uint32_t head_length;
    uint32_t payload, payload_length;  /* in the message */
    bool annotated;                    /* it has the header that it came with */
    bool asks;                         /* trace data say where its answer goes */
} rmr_frame;

/* The body, where it is one data section or one value of octets: its place.  PIECES: there are several. */
static inline enum rmr_made rmr_body(const uint8_t *start, uint64_t at, uint64_t size, uint64_t length, rmr_frame *frame)
{
    uint32_t descriptor = 0;
    frame->payload = (uint32_t) at;
    frame->payload_length = 0;
    if (at >= length) return RMR_MADE;
    if (size - at < SCAN_DESCRIPTOR_MAX + 5 && size < length) return RMR_PIECES;        /* it goes on in another block */
    const uint8_t *p = start + at, *end = start + size;
    uint8_t code = scan_descriptor(p, end, &descriptor);
    if (code == SECTION_FOOTER) return RMR_MADE;
    p += descriptor;
    if ((code != SECTION_DATA && code != SECTION_VALUE) || end - p < 2) return RMR_NO_BODY;
    uint32_t head = *p == 0xa0 || *p == 0xa1 || *p == 0xa3 ? 2 : *p == 0xb0 || *p == 0xb1 || *p == 0xb3 ? 5 : 0;
    if (code == SECTION_VALUE && *p == 0x40) return RMR_MADE;
    if (!head || end - p < (ptrdiff_t) head) return RMR_NO_BODY;
    frame->payload = (uint32_t) (p + head - start);
    frame->payload_length = head == 2 ? p[1] : scan_u32(p + 1);
    uint64_t behind = (uint64_t) frame->payload + frame->payload_length;
    if (behind > length) return RMR_NO_MESSAGE;
    return behind == length || code == SECTION_VALUE ? RMR_MADE : RMR_PIECES;
}

/* The value of x-opt-rmr.header in the annotations; NULL: there is none. */
static inline const uint8_t *rmr_annotation(const uint8_t *start, uint32_t at, size_t size, uint32_t *length)
{
    const uint8_t *p = scan_value(start + at);
    size_t n = scan_size(p, start + size, 0), name_size, value_size;
    scan_cursor items = { p, p + n };
    uint32_t count;
    if (*p == 0xc1 && n >= 3) { count = p[2]; items.at = p + 3; }
    else if (*p == 0xd1 && n >= 9) { count = scan_u32(p + 5); items.at = p + 9; }
    else return NULL;
    for (; count >= 2; count -= 2) {
        const uint8_t *name = scan_field(&items, &name_size), *value = name ? scan_field(&items, &value_size) : NULL;
        if (!value) return NULL;
        uint32_t skip = rmr_key_text(*name), head = *value == 0xa0 ? 2 : *value == 0xb0 ? 5 : 0;
        if (!skip || !head || !rmr_key_is(name + skip, name_size - skip, rmr_header_key, sizeof rmr_header_key - 1)) continue;
        *length = (uint32_t) value_size - head;
        return value + head;
    }
    return NULL;
}

/* The header that a message came with, or a new one.  False: that is none. */
static inline bool rmr_take_header(const uint8_t *start, size_t size, const scan_found *found, rmr_frame *frame)
{
    uint32_t length = 0;
    rmr_parts parts;
    const uint8_t *header = found->message_annotations == SCAN_ABSENT ? NULL : rmr_annotation(start, found->message_annotations, size, &length);
    frame->annotated = header != NULL;
    frame->asks = false;
    if (!header) {
        frame->head_length = rmr_new_header(frame->head);
        return true;
    }
    if (length < RMR_HEADER_OLD || length > RMR_HEAD_MAX) return false;
    memcpy(frame->head, header, length);
    rmr_put32(frame->head + RMR_PAYLOAD, 0);
    frame->head_length = length;
    return rmr_measure(frame->head, length, &parts) && parts.head == length;
}

/* A header for a message without one, by its properties.  True: it answers a call, and so has a type. */
static inline bool rmr_take_properties(const uint8_t *start, size_t size, const scan_found *found, rmr_frame *frame)
{
    const uint8_t *p, *field[6];
    size_t length[6];
    if (found->properties == SCAN_ABSENT) return false;
    p = scan_value(start + found->properties);
    rmr_ask_fields(p, scan_size(p, start + size, 0), field, length);
    rmr_asked asked = rmr_ask_read(field, length);
    if (rmr_call_take(frame->head, frame->head_length, field[5], field[5] ? length[5] : 0)) return true;
    if (!asked.length) return false;
    uint32_t trace = rmr_ask_put(frame->head + RMR_HEADER, &asked);
    memset(frame->head + RMR_HEADER + trace, 0, 4);
    rmr_put32(frame->head + RMR_LEN1, trace);
    frame->head_length += trace;
    frame->asks = true;
    return false;
}

enum { RMR_NAMED = 12 + 2 + sizeof rmr_header_key - 1 + 5, RMR_NUMBERS = 42 };     /* where rmr_compose puts a header; octets of properties with both numbers */

static inline bool rmr_begins(const uint8_t *p, const void *with, size_t size) { return !memcmp(p, with, size); }

/* What a map says behind both numbers: what rmr_compose puts there, in its order, so nothing that would say a number again. */
static inline bool rmr_says_no_more(const uint8_t *p, const uint8_t *end, uint32_t count)
{
    static const uint8_t names[][13] = { "\x0a\xa1\x08rmr.meid", "\x0c\xa1\x0armr.source", "\x0a\xa1\x08rmr.conn" };
    for (int i = 0; i < 3 && p < end; i++) {
        size_t name = names[i][0];
        if ((size_t) (end - p) < name + 3 || memcmp(p, names[i] + 1, name)) continue;
        p += name;
        size_t size = *p == 0xa1 || *p == 0xa0 ? 2u + p[1] : *p == 0xb1 ? 5 + (size_t) scan_u32(p + 1) : SIZE_MAX;
        if (size > (size_t) (end - p)) return false;
        p += size;
        count -= 2;
    }
    return p == end && count == 4;
}

/* A message just as rmr_compose makes it, which is what most are: read at the places where that has put everything, without a scan.  False: it is
 * another one. */
static inline bool rmr_recognise(const uint8_t *start, size_t size, uint64_t length, rmr_frame *frame)
{
    static const uint8_t type[] = { 0xa1, 6, 'r', 'm', 'r', '.', 'm', 't', 0x71 }, subscription[] = { 0xa1, 10, 'r', 'm', 'r', '.', 's', 'u', 'b', '-', 'i', 'd', 0x71 };
    static const uint8_t annotations[] = { 0x00, 0x53, SECTION_MESSAGE_ANNOTATIONS, 0xd1 }, properties[] = { 0x00, 0x53, SECTION_PROPERTIES, 0xd0 };
    static const uint8_t application[] = { 0x00, 0x53, SECTION_APPLICATION_PROPERTIES, 0xd1 }, data[] = { 0x00, 0x53, SECTION_DATA, 0xb0 };
    rmr_parts parts;
    if (size < RMR_NAMED || !rmr_begins(start, annotations, 4) || scan_u32(start + 8) != 2) return false;
    if (start[12] != 0xa3 || start[13] != sizeof rmr_header_key - 1 || !rmr_begins(start + 14, rmr_header_key, sizeof rmr_header_key - 1)) return false;
    uint64_t head = scan_u32(start + RMR_NAMED - 4), at = RMR_NAMED + head;
    if (start[RMR_NAMED - 5] != 0xb0 || head < RMR_HEADER_OLD || head > RMR_HEAD_MAX || 8 + (uint64_t) scan_u32(start + 4) != at) return false;
    if (at + 8 <= size && rmr_begins(start + at, properties, 4)) at += 8 + (uint64_t) scan_u32(start + at + 4);
    if (at + RMR_NUMBERS > size || !rmr_begins(start + at, application, 4)) return false;
    if (!rmr_begins(start + at + 12, type, sizeof type) || !rmr_begins(start + at + 25, subscription, sizeof subscription)) return false;
    uint64_t body = at + 8 + scan_u32(start + at + 4);
    int32_t mt = (int32_t) scan_u32(start + at + 21);
    if (body < at + RMR_NUMBERS || body + 8 > size || !rmr_begins(start + body, data, 4) || (mt >= 0 && mt < RMR_RESERVED)) return false;
    if (!rmr_says_no_more(start + at + RMR_NUMBERS, start + body, scan_u32(start + at + 8))) return false;
    frame->payload = (uint32_t) body + 8;
    frame->payload_length = scan_u32(start + body + 4);
    if ((uint64_t) frame->payload + frame->payload_length != length) return false;
    memcpy(frame->head, start + RMR_NAMED, head);
    rmr_put32(frame->head + RMR_PAYLOAD, 0);
    if (!rmr_measure(frame->head, (uint32_t) head, &parts) || parts.head != head) return false;
    rmr_put32(frame->head + RMR_MT, (uint32_t) mt);
    rmr_put32(frame->head + RMR_SUBID, scan_u32(start + at + 38));
    rmr_put32(frame->head + RMR_PAYLOAD, frame->payload_length);
    frame->head_length = (uint32_t) head;
    frame->annotated = true;
    frame->asks = false;
    return true;
}

/* The same of any message. */
static inline enum rmr_made rmr_make_scanned(const uint8_t *start, size_t size, uint64_t length, rmr_frame *frame)
{
    scan_found found;
    rmr_key key;
    bool complete = size == length;
    enum scan_result result = scan_message(start, size, complete, &found);
    if (result == SCAN_DONE) result = rmr_key_there(start, size, complete, &found);
    if (result == SCAN_MORE) return RMR_PIECES;
    rmr_key_none(&key);
    if (result != SCAN_DONE || !rmr_take_header(start, size, &found, frame)) return RMR_NO_MESSAGE;
    if (rmr_key_scan(start, size, &found, &key) != SCAN_DONE) return RMR_NO_MESSAGE;
    uint64_t body = found.body;
    if (found.application_properties != SCAN_ABSENT) {
        const uint8_t *p = scan_value(start + found.application_properties);
        body = (uint64_t) (p - start) + scan_size(p, start + size, 0);
    }
    bool answers = !frame->annotated && rmr_take_properties(start, size, &found, frame);
    if (key.found & RMR_KEY_MT) rmr_put32(frame->head + RMR_MT, (uint32_t) key.mt);
    else if (!frame->annotated && !answers) return RMR_NO_TYPE;
    if (key.found & RMR_KEY_SID) rmr_put32(frame->head + RMR_SUBID, (uint32_t) key.sid);
    if (!frame->annotated) {
        if (key.found & RMR_KEY_MEID) rmr_put_text(frame->head + RMR_MEID, RMR_MEID_BYTES, start + key.meid, key.meid_length);
        if (key.found & RMR_KEY_SOURCE) rmr_put_text(frame->head + RMR_SOURCE, RMR_SOURCE_BYTES, start + key.source, key.source_length);
    }
    enum rmr_made made = rmr_body(start, body, size, length, frame);
    if (made == RMR_MADE) rmr_put32(frame->head + RMR_PAYLOAD, frame->payload_length);
    return made;
}

/* A frame from the first `size` of a message's `length` bytes.  What its properties say counts more than the header that it came with.
 * PIECES: everything in front of the body, or the body, lies in pieces: gather them and come again. */
static inline enum rmr_made rmr_make(const uint8_t *start, size_t size, uint64_t length, rmr_frame *frame)
{
    return rmr_recognise(start, size, length, frame) ? RMR_MADE : rmr_make_scanned(start, size, length, frame);
}

/* The data sections of a gathered message moved together, from the place of its body on.  False: there is something else between them. */
static inline bool rmr_join(uint8_t *start, uint32_t size, rmr_frame *frame)
{
    uint32_t at = frame->payload + frame->payload_length, descriptor = 0;
    while (at < size) {
        uint8_t code = size - at < 3 ? 1 : scan_descriptor(start + at, start + size, &descriptor);
        const uint8_t *p = start + at + descriptor;
        if (code == SECTION_FOOTER) break;
        size_t n = code == SECTION_DATA ? scan_size(p, start + size, 0) : 0;
        uint32_t head = !n ? 0 : *p == 0xa0 ? 2 : *p == 0xb0 ? 5 : 0;
        if (!head || n > (size_t) (start + size - p)) return false;
        memmove(start + frame->payload + frame->payload_length, p + head, n - head);
        frame->payload_length += (uint32_t) (n - head);
        at = (uint32_t) (p + n - start);
    }
    rmr_put32(frame->head + RMR_PAYLOAD, frame->payload_length);
    return true;
}

#endif
