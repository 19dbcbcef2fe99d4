/* What routers on the way have said of an arriving message: from its bytes into its content header.
 *
 * Called when the scan is DONE, so the sections are there as a whole, in one piece.  `heeded` says of which forms this
 * sender's word counts; what comes in another is marked as ignored and not passed on, except that a section of our own
 * form, which no client may send, gets the message refused (spec, Section Inclusion/Removal).
 *
 * Router keys of a map stand behind the user's, so that what stays is in one piece.  Where a sender has mixed them, its
 * router keys are moved to the end, in their order, and the users' keep theirs.
 */
#ifndef ROUTERD_WORKERS_ANNOTATIONS_IN_H
#define ROUTERD_WORKERS_ANNOTATIONS_IN_H

#include "workers/amqp/annotations.h"
#include "shm/scan.h"
#include "shm/utf8.h"

static const char annotations_invalid[] = "amqp:invalid-field", annotations_refused[] = "amqp:not-allowed";

typedef struct { const uint8_t *at; size_t size; } annotations_value;

/* A string: the place of its text, or `at` NULL when it is none.  What is no UTF-8 is none: we write it again as a string. */
static inline annotations_value annotations_text(const uint8_t *p, size_t size)
{
    size_t head = *p == 0xa1 ? 2 : *p == 0xb1 ? 5 : 0;
    if (!head || !utf8_valid(p + head, size - head)) return (annotations_value) { NULL, 0 };
    return (annotations_value) { p + head, size - head };
}

static inline const char *annotations_ingress(arena_content *c, const uint8_t *start, const uint8_t *p, size_t size)
{
    annotations_value id = annotations_text(p, size);
    if (!id.at) return "the ingress router is no string";
    if (id.size > ANNOTATIONS_ID_MAX) return "the ingress router's id is longer than 255 octets";
    c->ingress = (uint32_t) (id.at - start);
    c->ingress_length = (uint32_t) id.size;
    return NULL;
}

static inline const char *annotations_to(arena_content *c, const uint8_t *start, const uint8_t *p, size_t size, scan_found *found)
{
    annotations_value to = annotations_text(p, size);
    if (!to.at) return "the to-override is no string";
    if (to.size > ANNOTATIONS_TO_MAX) return "the to-override is longer than 4096 octets";
    if (!to.size) return NULL;
    found->to = (uint32_t) (to.at - start);
    found->to_length = (uint32_t) to.size;
    c->routed |= ROUTED_OVERRIDE;
    return NULL;
}

static inline const char *annotations_trace(arena_content *c, const uint8_t *start, const uint8_t *p, size_t size)
{
    scan_cursor entries;
    uint32_t count;
    if (!scan_list(p, size, &entries, &count)) return "the trace is no list";
    if (count > ANNOTATIONS_TRACE_MAX) return "the trace has more than 1024 entries";
    if (entries.end - entries.at > (ptrdiff_t) ANNOTATIONS_TRACE_BYTES) return "the trace is longer than 32 KiB";
    c->trace = (uint32_t) (entries.at - start);
    c->trace_length = (uint32_t) (entries.end - entries.at);
    c->trace_count = count;
    for (uint32_t i = 0; i < count; i++) {
        size_t n;
        const uint8_t *entry = scan_field(&entries, &n);
        if (!entry) return "the trace is cut short";
        annotations_value id = annotations_text(entry, n);
        if (!id.at || (*entry != 0xa1 && c->annotations == ANNOTATIONS_SECTION)) return "the trace has an entry that is no string, or no short one";
        if (id.size > ANNOTATIONS_ID_MAX) return "the trace has a router id longer than 255 octets";
    }
    return entries.at == entries.end ? NULL : "the trace is longer than its count says";
}

/* ---- sections ---- */

/* The flags: an ubyte in our own form, any uint in the other. */
static inline bool annotations_flags(arena_content *c, const uint8_t *p, enum content_annotations form)
{
    if (form == ANNOTATIONS_SECTION) {
        c->section_flags = p[1];
        return *p == 0x50;
    }
    if (*p == 0x70) c->section_flags = scan_u32(p + 1);
    else c->section_flags = *p == 0x52 ? p[1] : 0;
    return *p == 0x70 || *p == 0x52 || *p == 0x43;
}

/* The phase of the address, which the form has no field for: behind its fields, where others pass on what they do not know. */
static inline bool annotations_section_says(arena_content *c, scan_cursor *fields)
{
    const uint8_t *p = fields->at, last = ANNOTATIONS_PHASE_BYTES - 1;
    if (fields->end - p < (ptrdiff_t) ANNOTATIONS_PHASE_BYTES || memcmp(p, annotations_section_phase, last)) return false;
    if (p[last] < '1' || p[last] > '9') return false;
    c->phase = (uint8_t) (p[last] - '0');
    fields->at += ANNOTATIONS_PHASE_BYTES;
    return true;
}

static inline const char *annotations_section(arena_content *c, const uint8_t *start, scan_found *found)
{
    const uint8_t *p = scan_value(start), *field[4];
    size_t size[4];
    const char *why;
    scan_cursor fields;
    uint32_t count;
    if (!scan_list(p, found->section_end - (size_t) (p - start), &fields, &count)) return "the router annotations are cut short";
    if (count < 4) return "the router annotations have fewer than four fields";
    for (uint32_t i = 0; i < 4; i++) if (!(field[i] = scan_field(&fields, &size[i]))) return "the router annotations are cut short";
    if (found->section == ANNOTATIONS_SECTION && count > 4 && annotations_section_says(c, &fields)) count--;
    c->tail = (uint32_t) (fields.at - start);
    c->tail_length = (uint32_t) (fields.end - fields.at);
    c->tail_count = count - 4;
    for (uint32_t i = 4; i < count; i++) {
        size_t n;
        if (!scan_field(&fields, &n)) return "the router annotations are cut short";
    }
    if (fields.at != fields.end) return "the router annotations are longer than their count says";
    if (size[0] < 2 && *field[0] != 0x43) return "the router annotations' flags are of a wrong type";
    if (!annotations_flags(c, field[0], (enum content_annotations) found->section)) return "the router annotations' flags are of a wrong type";
    if (*field[1] != 0x40 && (why = annotations_to(c, start, field[1], size[1], found))) return why;
    if (*field[2] != 0x40 && (why = annotations_ingress(c, start, field[2], size[2]))) return why;
    if (c->section_flags & ANNOTATIONS_STREAMING) c->routed |= ROUTED_STREAM;
    c->annotations = found->section;
    return annotations_trace(c, start, field[3], size[3]);
}

/* ---- the map ---- */

typedef struct { enum annotations_key key; uint8_t *at; size_t key_size, size; } annotations_entry;   /* size: of key and value */

static inline enum annotations_key annotations_key_of(const uint8_t *p, size_t size)
{
    static const struct { uint8_t length; char text[9]; enum annotations_key key; } known[] = {
        { 14, "phase", KEY_PHASE }, { 15, "stream", KEY_STREAM }, { 11, "to", KEY_TO }, { 16, "ingress", KEY_INGRESS },
        { 14, "trace", KEY_TRACE }, { 14, "class", KEY_CLASS }, { 9, "", KEY_PADDING } };
    size_t head = *p == 0xa3 ? 2 : *p == 0xb3 ? 5 : size;
    if (size - head < 9 || size - head > 16 || memcmp(p + head, "x-opt-qd.", 9)) return KEY_USER;
    size_t length = size - head;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].length == length && !memcmp(p + head + 9, known[i].text, length - 9)) return known[i].key;
    return KEY_USER;
}

/* [from, middle) goes behind [middle, to). */
static inline void annotations_reverse(uint8_t *from, uint8_t *to)
{
    while (from < to) { uint8_t byte = *from; *from++ = *--to; *to = byte; }
}

static inline void annotations_rotate(uint8_t *from, uint8_t *middle, uint8_t *to)
{
    annotations_reverse(from, middle);
    annotations_reverse(middle, to);
    annotations_reverse(from, to);
}

/* Router entries, in their order, behind all of the user's. */
static inline void annotations_sort(annotations_entry *entry, uint32_t count, uint8_t *end)
{
    while (count--) {
        uint8_t *at = entry[count].at;
        annotations_rotate(at, at + entry[count].size, end);
        entry[count].at = end -= entry[count].size;
    }
}

/* A phase is a whole number of any type from 0 to 9; what is none is no phase. */
static inline uint8_t annotations_phase(const uint8_t *value, size_t size)
{
    static const uint8_t zeros[7];
    uint8_t family = *value >> 4, last = value[size - 1];
    bool whole = *value <= 0x81 && (family == 5 || ((family == 7 || family == 8) && (*value & 15) <= 1)) && *value != 0x56;
    return whole && last <= 9 && !memcmp(value + 1, zeros, size - 2) ? last : 0;
}

static inline const char *annotations_heed(arena_content *c, const uint8_t *start, const annotations_entry *e, scan_found *found)
{
    const uint8_t *value = e->at + e->key_size;
    size_t size = e->size - e->key_size;
    switch (e->key) {
    case KEY_PHASE: c->phase = annotations_phase(value, size); return NULL;
    case KEY_STREAM: c->routed |= ROUTED_STREAM; return NULL;              /* that it is there is what counts */
    case KEY_TO: return annotations_to(c, start, value, size, found);
    case KEY_INGRESS: return annotations_ingress(c, start, value, size);
    case KEY_TRACE: return annotations_trace(c, start, value, size);
    default: return NULL;
    }
}

/* *moved: bytes of the section have changed places. */
static inline const char *annotations_map(arena_content *c, uint8_t *start, scan_found *found, bool heed, bool *moved)
{
    const uint8_t *p = scan_value(start + found->message_annotations);
    uint8_t *end = start + found->annotations_end;
    annotations_entry entry[ANNOTATIONS_KEYS];
    uint32_t ours = 0, seen = 0, user_bytes = 0;
    bool mixed = false;
    bool wide = *p == 0xd1;
    if (end - p < (wide ? 9 : 3)) return "message-annotations are cut short";
    uint32_t count = wide ? scan_u32(p + 5) : p[2];
    if (count % 2) return "message-annotations have an odd number of items";
    scan_cursor items = { p + (wide ? 9 : 3), end };
    c->user_from = (uint32_t) (items.at - start);
    for (uint32_t i = 0; i < count; i += 2) {
        size_t key_size, size;
        const uint8_t *key = scan_field(&items, &key_size);
        if (!key || !scan_field(&items, &size)) return "message-annotations are cut short";
        enum annotations_key what = annotations_key_of(key, key_size);
        if (what == KEY_USER) {
            user_bytes += (uint32_t) (key_size + size);
            c->user_count += 2;
            mixed |= ours > 0;
            continue;
        }
        if (seen & 1u << what) return "message-annotations have a router key twice";
        seen |= 1u << what;
        entry[ours++] = (annotations_entry) { what, start + (key - start), key_size, key_size + size };
    }
    if (items.at != end) return "message-annotations are longer than their count says";
    c->user_to = c->user_from + user_bytes;
    if (!ours) return NULL;
    if (mixed) { annotations_sort(entry, ours, end); *moved = true; }
    if (!heed) { c->routed |= ROUTED_IGNORED; return NULL; }
    const char *why = NULL;
    for (uint32_t i = 0; i < ours && !why; i++) why = annotations_heed(c, start, &entry[i], found);
    c->annotations = ANNOTATIONS_MAP;
    return why;
}

/* ---- both ---- */

static inline enum scan_result annotations_bad(scan_found *found, const char *why)
{
    found->condition = annotations_invalid;
    return scan_bad(found, why);
}

/* DONE, or BAD with `why` and `condition`.  `start`: where the message begins, as far as it was scanned. */
static inline enum scan_result annotations_read(arena_content *c, uint8_t *start, scan_found *found, uint8_t heeded, bool *moved)
{
    const char *why = NULL;
    bool map = heeded & annotations_form_bit(ANNOTATIONS_MAP);
    if (found->section_end) {
        c->section_end = found->section_end;
        if (heeded & 1u << found->section) {
            why = annotations_section(c, start, found);
            map = false;                                                   /* one voice is enough */
        } else if (found->section == ANNOTATIONS_SECTION) {
            why = "router annotations may come from routers only";
            found->condition = annotations_refused;
            return scan_bad(found, why);
        } else {
            c->routed |= ROUTED_IGNORED;
        }
    }
    if (!why && found->message_annotations != SCAN_ABSENT) why = annotations_map(c, start, found, map, moved);
    return why ? annotations_bad(found, why) : SCAN_DONE;
}

/* After a scan that is DONE: nothing to do for most messages. */
static inline enum scan_result annotations_check(arena_content *c, uint8_t *start, scan_found *found, uint8_t heeded, enum scan_result result, bool *moved)
{
    if (result != SCAN_DONE || (found->message_annotations == SCAN_ABSENT && !found->section_end)) return result;
    return annotations_read(c, start, found, heeded, moved);
}

#endif
