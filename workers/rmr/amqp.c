/* A frame as an AMQP message, and an AMQP message as a frame.
 *
 *   message-annotations      x-opt-rmr.header: binary, everything between the transport's header and the payload
 *   properties               to: of replies and of messages about tables; reply-to: the connection it came on;
 *                            message-id and correlation-id: of blocking calls and answers to clients (ask.c)
 *   application-properties   rmr.mt, rmr.sub-id: int; rmr.meid, rmr.source, rmr.conn: string, where there is one;
 *                            binary where its octets are no UTF-8
 *   data                     the payload
 *
 * Composing is done once per frame into one piece of memory; the offsets that the content header needs come with it.
 */
#include <string.h>

#include "workers/rmr/wire.h"
#include "shm/codec/utf8.h"

static const char rmr_header_key[] = "x-opt-rmr.header";

/* Writes octets of a frame: as a string if they are UTF-8, else as binary. */
static uint8_t *rmr_put_octets(uint8_t *p, const uint8_t *octets, uint32_t size)
{
    return amqp_put_octets(p, utf8_valid(octets, size) ? AMQP_STRING8 : AMQP_BINARY8, octets, size);
}

enum { RMR_SECTION = 12 };             /* octets in front of the items of a section, in its long form */

/* Writes the heads of a section and of its list or map of `count` items, which end at `end`. */
static void rmr_section(uint8_t *section, uint8_t code, uint8_t compound, const uint8_t *end, uint32_t count)
{
    amqp_put_items_head(amqp_put_descriptor(section, code), compound, (uint32_t) (end - section) - RMR_SECTION, count);
}

static uint8_t *rmr_put_number(uint8_t *p, const char *key, uint32_t length, int32_t value)
{
    p = amqp_put_octets(p, AMQP_STRING8, key, length);
    return amqp_put(p, AMQP_INT, (uint32_t) value);
}

/* Writes properties; sets `to` to the text of the address. */
static uint8_t *rmr_put_properties(uint8_t *p, const rmr_wanted *want, uint8_t **to)
{
    uint8_t *section = p;
    if (!want->to.length && !want->reply_to.length) return p;
    p += RMR_SECTION;
    if (want->call) p = amqp_put_octets(p, AMQP_STRING8, want->call, RMR_CALL_TEXT);
    else *p++ = AMQP_NULL;
    *p++ = AMQP_NULL;
    *to = p + 5;
    if (want->to.length) p = amqp_put_octets(p, AMQP_STRING32, want->to.text, want->to.length);
    else *p++ = AMQP_NULL;
    *p++ = AMQP_NULL;
    if (want->reply_to.length) p = amqp_put_octets(p, AMQP_STRING32, want->reply_to.text, want->reply_to.length);
    else *p++ = AMQP_NULL;
    if (want->id_length) {
        memcpy(p, want->id, want->id_length);
        p += want->id_length;
    }
    rmr_section(section, SECTION_PROPERTIES, AMQP_LIST32, p, want->id_length ? 6 : 5);
    return p;
}

/* Writes everything in front of the payload and returns its length, at most RMR_FRONT_MAX. `source`: the field of the
 * header that becomes rmr.source. */
PRIVATE inline uint32_t rmr_compose(uint8_t *start, const uint8_t *header, const rmr_parts *parts,
                                    const uint8_t *source,
                             const rmr_wanted *want, scan_found *found, rmr_key *key)
{
    uint8_t *p = start + RMR_SECTION, *section, *to = start;
    uint32_t count = 4, meid = rmr_text(header + RMR_MEID, RMR_MEID_BYTES), name = rmr_text(source, RMR_SOURCE_BYTES);
    scan_message(start, 0, false, found);
    found->message_annotations = 0;
    p = amqp_put_octets(p, AMQP_SYMBOL8, rmr_header_key, sizeof rmr_header_key - 1);
    p = amqp_put_octets(p, AMQP_BINARY32, header, parts->head);
    rmr_section(start, SECTION_MESSAGE_ANNOTATIONS, AMQP_MAP32, p, 2);
    found->annotations_end = (uint32_t) (p - start);
    section = p;
    p = rmr_put_properties(p, want, &to);
    if (p != section) found->properties = found->annotations_end;
    if (want->to.length) { found->to = (uint32_t) (to - start); found->to_length = want->to.length; }
    found->body = found->application_properties = (uint32_t) (p - start);
    *key = (rmr_key) { .found = RMR_KEY_MT | RMR_KEY_SID, .mt = parts->mt, .sid = parts->sid };
    section = p;
    p = rmr_put_number(p + RMR_SECTION, "rmr.mt", 6, parts->mt);
    p = rmr_put_number(p, "rmr.sub-id", 10, parts->sid);
    if (meid) {
        p = amqp_put_octets(p, AMQP_STRING8, "rmr.meid", 8);
        key->found |= RMR_KEY_MEID;
        key->meid = (uint32_t) (p - start) + 2;
        key->meid_length = meid;
        p = rmr_put_octets(p, header + RMR_MEID, meid);
        count += 2;
    }
    if (name) {
        p = amqp_put_octets(p, AMQP_STRING8, "rmr.source", 10);
        key->found |= RMR_KEY_SOURCE;
        key->source = (uint32_t) (p - start) + 2;
        key->source_length = name;
        p = rmr_put_octets(p, source, name);
        count += 2;
    }
    if (want->conn.length) {
        p = amqp_put_octets(p, AMQP_STRING8, "rmr.conn", 8);
        p = amqp_put_octets(p, AMQP_STRING32, want->conn.text, want->conn.length);
        count += 2;
    }
    rmr_section(section, SECTION_APPLICATION_PROPERTIES, AMQP_MAP32, p, count);
    return (uint32_t) (amqp_put_head(amqp_put_descriptor(p, SECTION_DATA), AMQP_BINARY32, parts->payload) - start);
}

/* ---- the other way ---- */

/* Finds the body, if it is one data section or one value of octets.  PIECES: there are several. */
static enum rmr_made rmr_body(const uint8_t *start, uint64_t at, uint64_t size, uint64_t length, rmr_frame *frame)
{
    uint32_t descriptor = 0;
    frame->payload = (uint32_t) at;
    frame->payload_length = 0;
    if (at >= length) return RMR_MADE;
    /* the body's head is in another block */
    if (size - at < SCAN_DESCRIPTOR_MAX + 5 && size < length) return RMR_PIECES;
    const uint8_t *p = start + at, *end = start + size;
    uint8_t code = scan_descriptor(p, end, &descriptor);
    if (code == SECTION_FOOTER) return RMR_MADE;
    p += descriptor;
    if ((code != SECTION_DATA && code != SECTION_VALUE) || end - p < 2) return RMR_NO_BODY;
    uint32_t head = amqp_is_octets(*p) ? amqp_head(*p) : 0;
    if (code == SECTION_VALUE && *p == AMQP_NULL) return RMR_MADE;
    if (!head || end - p < (ptrdiff_t) head) return RMR_NO_BODY;
    frame->payload = (uint32_t) (p + head - start);
    frame->payload_length = head == 2 ? p[1] : be32(p + 1);
    uint64_t behind = (uint64_t) frame->payload + frame->payload_length;
    if (behind > length) return RMR_NO_MESSAGE;
    return behind == length || code == SECTION_VALUE ? RMR_MADE : RMR_PIECES;
}

/* Returns the value of x-opt-rmr.header in the annotations. */
static amqp_octets rmr_annotation(amqp_value annotations)
{
    amqp_octets none = { NULL, 0 };
    amqp_cursor items;
    uint32_t count;
    if (!amqp_map(annotations, &items, &count)) return none;
    for (; count >= 2; count -= 2) {
        amqp_value name = amqp_next(&items), value = amqp_next(&items);
        if (!value.at) return none;
        amqp_octets key = amqp_text(name), header = amqp_binary(value);
        if (header.at && key.at && rmr_key_is(key.at, key.size, rmr_header_key, sizeof rmr_header_key - 1))
            return header;
    }
    return none;
}

/* Takes a message's RMR header, or makes a new one.  False: the header is malformed. */
static bool rmr_take_header(const uint8_t *start, size_t size, const scan_found *found, rmr_frame *frame)
{
    rmr_parts parts;
    amqp_octets header = { NULL, 0 };
    if (found->message_annotations != SCAN_ABSENT)
        header = rmr_annotation(scan_whole_value(start, found->message_annotations, size));
    frame->annotated = header.at != NULL;
    frame->asks = false;
    if (!header.at) {
        frame->head_length = rmr_new_header(frame->head);
        return true;
    }
    if (header.size < RMR_HEADER_OLD || header.size > RMR_HEAD_MAX) return false;
    memcpy(frame->head, header.at, header.size);
    be32_put(frame->head + RMR_PAYLOAD, 0);
    frame->head_length = header.size;
    return rmr_measure(frame->head, header.size, &parts) && parts.head == header.size;
}

/* A header for a message without one, by its properties.  True: it answers a call, and so has a type. */
static bool rmr_take_properties(const uint8_t *start, size_t size, const scan_found *found, rmr_frame *frame)
{
    amqp_value field[6];
    if (found->properties == SCAN_ABSENT) return false;
    rmr_ask_fields(scan_whole_value(start, found->properties, size), field);
    rmr_asked asked = rmr_ask_read(field);
    if (rmr_call_take(frame->head, frame->head_length, field[5])) return true;
    if (!asked.length) return false;
    uint32_t trace = rmr_ask_put(frame->head + RMR_HEADER, &asked);
    memset(frame->head + RMR_HEADER + trace, 0, 4);
    be32_put(frame->head + RMR_LEN1, trace);
    frame->head_length += trace;
    frame->asks = true;
    return false;
}

enum {
    RMR_NAMED = RMR_SECTION + 2 + sizeof rmr_header_key - 1 + 5,   /* where rmr_compose puts a header */
    RMR_NUMBERS = 42                       /* octets of application properties with both numbers */
};

static bool rmr_begins(const uint8_t *p, const void *with, size_t size) { return !memcmp(p, with, size); }

/* Moves behind an entry of that name, if one begins at *p.  False: its value is not octets. */
__attribute__((always_inline)) static inline bool rmr_pass_entry(const uint8_t **p, const uint8_t *end,
                                                                 const char *name, uint8_t length, uint32_t *count)
{
    const uint8_t *at = *p, *value = at + 2 + length;
    if (end - at <= 2 + length || at[0] != AMQP_STRING8 || at[1] != length || memcmp(at + 2, name, length)) return true;
    size_t size = amqp_is_octets(*value) ? amqp_size(value, end, 0) : 0;
    *p = value + size;
    *count -= 2;
    return size && size <= (size_t) (end - value);
}

/* Whether a map has behind both numbers only what rmr_compose writes there, so that no number stands there twice. */
static bool rmr_says_no_more(const uint8_t *p, const uint8_t *end, uint32_t count)
{
    return rmr_pass_entry(&p, end, "rmr.meid", 8, &count) && rmr_pass_entry(&p, end, "rmr.source", 10, &count)
        && rmr_pass_entry(&p, end, "rmr.conn", 8, &count) && p == end && count == 4;
}

/* Reads a message of rmr_compose, as most are, at the known places and without a scan. False: it is another one. */
static bool rmr_recognise(const uint8_t *start, size_t size, uint64_t length, rmr_frame *frame)
{
    static const uint8_t type[] = { AMQP_STRING8, 6, 'r', 'm', 'r', '.', 'm', 't', AMQP_INT };
    static const uint8_t subscription[] = { AMQP_STRING8, 10, 'r', 'm', 'r', '.', 's', 'u', 'b', '-', 'i', 'd',
        AMQP_INT };
    static const uint8_t annotations[] = { AMQP_DESCRIBED, AMQP_SMALLULONG, SECTION_MESSAGE_ANNOTATIONS, AMQP_MAP32 };
    static const uint8_t properties[] = { AMQP_DESCRIBED, AMQP_SMALLULONG, SECTION_PROPERTIES, AMQP_LIST32 };
    static const uint8_t application[] = { AMQP_DESCRIBED, AMQP_SMALLULONG, SECTION_APPLICATION_PROPERTIES,
        AMQP_MAP32 };
    static const uint8_t data[] = { AMQP_DESCRIBED, AMQP_SMALLULONG, SECTION_DATA, AMQP_BINARY32 };
    rmr_parts parts;
    if (size < RMR_NAMED || !rmr_begins(start, annotations, 4) || be32(start + 8) != 2) return false;
    if (start[12] != AMQP_SYMBOL8 || start[13] != sizeof rmr_header_key - 1
        || !rmr_begins(start + 14, rmr_header_key, sizeof rmr_header_key - 1))
        return false;
    uint64_t head = be32(start + RMR_NAMED - 4), at = RMR_NAMED + head;
    if (start[RMR_NAMED - 5] != AMQP_BINARY32 || head < RMR_HEADER_OLD || head > RMR_HEAD_MAX
        || 8 + (uint64_t) be32(start + 4) != at)
        return false;
    if (at + 8 <= size && rmr_begins(start + at, properties, 4)) at += 8 + (uint64_t) be32(start + at + 4);
    if (at + RMR_NUMBERS > size || !rmr_begins(start + at, application, 4)) return false;
    if (!rmr_begins(start + at + 12, type, sizeof type)
        || !rmr_begins(start + at + 25, subscription, sizeof subscription))
        return false;
    uint64_t body = at + 8 + be32(start + at + 4);
    int32_t mt = (int32_t) be32(start + at + 21);
    if (body < at + RMR_NUMBERS || body + 8 > size || !rmr_begins(start + body, data, 4)
        || (mt >= 0 && mt < RMR_RESERVED))
        return false;
    if (!rmr_says_no_more(start + at + RMR_NUMBERS, start + body, be32(start + at + 8))) return false;
    frame->payload = (uint32_t) body + 8;
    frame->payload_length = be32(start + body + 4);
    if ((uint64_t) frame->payload + frame->payload_length != length) return false;
    memcpy(frame->head, start + RMR_NAMED, head);
    be32_put(frame->head + RMR_PAYLOAD, 0);
    if (!rmr_measure(frame->head, (uint32_t) head, &parts) || parts.head != head) return false;
    be32_put(frame->head + RMR_MT, (uint32_t) mt);
    be32_put(frame->head + RMR_SUBID, be32(start + at + 38));
    be32_put(frame->head + RMR_PAYLOAD, frame->payload_length);
    frame->head_length = (uint32_t) head;
    frame->annotated = true;
    frame->asks = false;
    return true;
}

/* Makes a frame of any other message. */
static enum rmr_made rmr_make_scanned(const uint8_t *start, size_t size, uint64_t length, rmr_frame *frame)
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
        amqp_value properties = scan_whole_value(start, found.application_properties, size);
        body = (uint64_t) (properties.at - start) + properties.size;
    }
    bool answers = !frame->annotated && rmr_take_properties(start, size, &found, frame);
    if (key.found & RMR_KEY_MT) be32_put(frame->head + RMR_MT, (uint32_t) key.mt);
    else if (!frame->annotated && !answers) return RMR_NO_TYPE;
    if (key.found & RMR_KEY_SID) be32_put(frame->head + RMR_SUBID, (uint32_t) key.sid);
    if (!frame->annotated) {
        if (key.found & RMR_KEY_MEID)
            rmr_put_text(frame->head + RMR_MEID, RMR_MEID_BYTES, start + key.meid, key.meid_length);
        if (key.found & RMR_KEY_SOURCE)
            rmr_put_text(frame->head + RMR_SOURCE, RMR_SOURCE_BYTES, start + key.source, key.source_length);
    }
    enum rmr_made made = rmr_body(start, body, size, length, frame);
    if (made == RMR_MADE) be32_put(frame->head + RMR_PAYLOAD, frame->payload_length);
    return made;
}

/* A frame from the first `size` of a message's `length` bytes. What its properties say counts more than the header that
 * it came with. PIECES: everything in front of the body, or the body, lies in pieces: gather them and come again. */
PRIVATE inline enum rmr_made rmr_make(const uint8_t *start, size_t size, uint64_t length, rmr_frame *frame)
{
    return rmr_recognise(start, size, length, frame) ? RMR_MADE : rmr_make_scanned(start, size, length, frame);
}

/* Moves the data sections of a gathered message together, from its body on. False: another section stands between
 * them. */
PRIVATE inline bool rmr_join(uint8_t *start, uint32_t size, rmr_frame *frame)
{
    uint32_t at = frame->payload + frame->payload_length, descriptor = 0;
    while (at < size) {
        uint8_t code = size - at < 3 ? 1 : scan_descriptor(start + at, start + size, &descriptor);
        if (code == SECTION_FOOTER) break;
        amqp_value value = code == SECTION_DATA ? amqp_take(start + at + descriptor, start + size, 0)
                           : (amqp_value) { NULL, 0 };
        amqp_octets data = amqp_binary(value);
        if (!data.at) return false;
        memmove(start + frame->payload + frame->payload_length, data.at, data.size);
        frame->payload_length += data.size;
        at = (uint32_t) (data.at + data.size - start);
    }
    be32_put(frame->head + RMR_PAYLOAD, frame->payload_length);
    return true;
}
