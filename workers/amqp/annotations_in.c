/* Received router annotations: from an arriving message's bytes into its content header.
 *
 * The scan is DONE before, so the sections are complete and in one piece. `trusted` is the mask of the sender's trusted
 * forms. Annotations of another form are marked as ignored and removed, but a message with a section of routerd's own
 * form, which no client may send, is refused (docs/network.md, Two dialects, and the border between them).
 *
 * Router keys of a map stand after the user's, so that the rest is in one piece. If a sender has mixed them, its router
 * keys are moved to the end; both kinds keep their order.
 */
#include <string.h>

#include "workers/amqp/annotations.h"
#include "shm/codec/utf8.h"

static const char annotations_invalid[] = "amqp:invalid-field", annotations_refused[] = "amqp:not-allowed";

/* Returns the text of a string; `at` is NULL for another type or without UTF-8, because we write it as a string. */
__attribute__((always_inline)) static inline amqp_octets annotations_text(amqp_value v)
{
    amqp_octets text = amqp_string(v);
    return text.at && utf8_valid(text.at, text.size) ? text : (amqp_octets) { NULL, 0 };
}

static const char *annotations_ingress(arena_content *c, const uint8_t *start, amqp_value v)
{
    amqp_octets id = annotations_text(v);
    if (!id.at) return "the ingress router is no string";
    if (id.size > ANNOTATIONS_ID_MAX) return "the ingress router's id is longer than 255 octets";
    c->ingress = (uint32_t) (id.at - start);
    c->ingress_length = id.size;
    return NULL;
}

static const char *annotations_to(arena_content *c, const uint8_t *start, amqp_value v, scan_found *found)
{
    amqp_octets to = annotations_text(v);
    if (!to.at) return "the to-override is no string";
    if (to.size > ANNOTATIONS_TO_MAX) return "the to-override is longer than 4096 octets";
    if (!to.size) return NULL;
    found->to = (uint32_t) (to.at - start);
    found->to_length = to.size;
    c->routed |= ROUTED_OVERRIDE;
    return NULL;
}

static const char *annotations_trace(arena_content *c, const uint8_t *start, amqp_value v)
{
    amqp_cursor entries;
    uint32_t count;
    if (!amqp_list(v, &entries, &count)) return "the trace is no list";
    if (count > ANNOTATIONS_TRACE_MAX) return "the trace has more than 1024 entries";
    if (entries.end - entries.at > (ptrdiff_t) ANNOTATIONS_TRACE_BYTES) return "the trace is longer than 32 KiB";
    c->trace = (uint32_t) (entries.at - start);
    c->trace_length = (uint32_t) (entries.end - entries.at);
    c->trace_count = count;
    for (uint32_t i = 0; i < count; i++) {
        amqp_value entry = amqp_next(&entries);
        if (!entry.at) return "the trace is cut short";
        amqp_octets id = annotations_text(entry);
        if (!id.at || (*entry.at != AMQP_STRING8 && c->annotations == ANNOTATIONS_SECTION))
            return "the trace has an entry that is no string, or no short one";
        if (id.size > ANNOTATIONS_ID_MAX) return "the trace has a router id longer than 255 octets";
    }
    return entries.at == entries.end ? NULL : "the trace is longer than its count says";
}

/* ---- sections ---- */

/* Reads the flags: an ubyte in our own form, any uint in the other. */
static bool annotations_flags(arena_content *c, amqp_value v, enum content_annotations form)
{
    if (form != ANNOTATIONS_SECTION) return amqp_uint(v, &c->section_flags);
    if (*v.at != AMQP_UBYTE) return false;
    c->section_flags = v.at[1];
    return true;
}

/* Reads the phase of the address, which stands behind the form's fields, because other routers pass on unknown ones. */
static bool annotations_section_says(arena_content *c, amqp_cursor *fields)
{
    const uint8_t *p = fields->at, last = ANNOTATIONS_PHASE_BYTES - 1;
    if (fields->end - p < (ptrdiff_t) ANNOTATIONS_PHASE_BYTES || memcmp(p, annotations_section_phase, last))
        return false;
    if (p[last] < '1' || p[last] > '9') return false;
    c->phase = (uint8_t) (p[last] - '0');
    fields->at += ANNOTATIONS_PHASE_BYTES;
    return true;
}

static const char *annotations_section(arena_content *c, const uint8_t *start, scan_found *found)
{
    const uint8_t *p = scan_value(start);
    amqp_value field[4];
    const char *why;
    amqp_cursor fields;
    uint32_t count;
    if (!amqp_list((amqp_value) { p, found->section_end - (size_t) (p - start) }, &fields, &count))
        return "the router annotations are cut short";
    if (count < 4) return "the router annotations have fewer than four fields";
    for (uint32_t i = 0; i < 4; i++)
        if (!(field[i] = amqp_next(&fields)).at) return "the router annotations are cut short";
    if (found->section == ANNOTATIONS_SECTION && count > 4 && annotations_section_says(c, &fields)) count--;
    c->tail = (uint32_t) (fields.at - start);
    c->tail_length = (uint32_t) (fields.end - fields.at);
    c->tail_count = count - 4;
    for (uint32_t i = 4; i < count; i++) if (!amqp_next(&fields).at) return "the router annotations are cut short";
    if (fields.at != fields.end) return "the router annotations are longer than their count says";
    if (!annotations_flags(c, field[0], (enum content_annotations) found->section))
        return "the router annotations' flags are of a wrong type";
    if (*field[1].at != AMQP_NULL && (why = annotations_to(c, start, field[1], found))) return why;
    if (*field[2].at != AMQP_NULL && (why = annotations_ingress(c, start, field[2]))) return why;
    if (c->section_flags & ANNOTATIONS_STREAMING) c->routed |= ROUTED_STREAM;
    c->annotations = found->section;
    return annotations_trace(c, start, field[3]);
}

/* ---- the map ---- */

typedef struct {
    enum annotations_key key;
    uint8_t *at;
    size_t key_size, size;                 /* octets of the key; of key and value */
} annotations_entry;

PRIVATE inline enum annotations_key annotations_key_of(amqp_value v)
{
    static const struct { uint8_t length; char text[9]; enum annotations_key key; } known[] = {
        { 14, "phase", KEY_PHASE }, { 15, "stream", KEY_STREAM }, { 11, "to", KEY_TO }, { 16, "ingress", KEY_INGRESS },
        { 14, "trace", KEY_TRACE }, { 14, "class", KEY_CLASS }, { 9, "", KEY_PADDING } };
    _Static_assert(sizeof known / sizeof *known == ANNOTATIONS_KEYS, "each router key has its name");
    amqp_octets name = amqp_symbol(v);
    if (name.size < 9 || name.size > 16 || memcmp(name.at, "x-opt-qd.", 9)) return KEY_USER;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].length == name.size && !memcmp(name.at + 9, known[i].text, name.size - 9)) return known[i].key;
    return KEY_USER;
}

/* Moves [from, middle) behind [middle, to). */
static void annotations_reverse(uint8_t *from, uint8_t *to)
{
    while (from < to) { uint8_t byte = *from; *from++ = *--to; *to = byte; }
}

static void annotations_rotate(uint8_t *from, uint8_t *middle, uint8_t *to)
{
    annotations_reverse(from, middle);
    annotations_reverse(middle, to);
    annotations_reverse(from, to);
}

/* Moves router entries, in their order, behind all of the user's. */
static void annotations_sort(annotations_entry *entry, uint32_t count, uint8_t *end)
{
    while (count--) {
        uint8_t *at = entry[count].at;
        annotations_rotate(at, at + entry[count].size, end);
        entry[count].at = end -= entry[count].size;
    }
}

/* Reads a phase: a whole number of any type from 0 to 9; anything else is ignored. */
static uint8_t annotations_phase(amqp_value v)
{
    int64_t n = 0;
    return amqp_integer(v, &n) && n >= 0 && n <= 9 ? (uint8_t) n : 0;
}

static const char *annotations_trust(arena_content *c, const uint8_t *start, const annotations_entry *e,
                                    scan_found *found)
{
    amqp_value value = { e->at + e->key_size, e->size - e->key_size };
    switch (e->key) {
    case KEY_PHASE: c->phase = annotations_phase(value); return NULL;
    case KEY_STREAM: c->routed |= ROUTED_STREAM; return NULL;              /* that it is there is what counts */
    case KEY_TO: return annotations_to(c, start, value, found);
    case KEY_INGRESS: return annotations_ingress(c, start, value);
    case KEY_TRACE: return annotations_trace(c, start, value);
    default: return NULL;
    }
}

/* Reads the entries of a map; sets *moved if bytes of the section have changed places. */
static const char *annotations_map(arena_content *c, uint8_t *start, scan_found *found, bool trust, bool *moved)
{
    const uint8_t *p = scan_value(start + found->message_annotations);
    uint8_t *end = start + found->annotations_end;
    annotations_entry entry[ANNOTATIONS_KEYS];
    uint32_t ours = 0, seen = 0, user_bytes = 0;
    bool mixed = false;
    amqp_cursor items;
    uint32_t count;
    if (!amqp_map((amqp_value) { p, (size_t) (end - p) }, &items, &count)) return "message-annotations are cut short";
    if (count % 2) return "message-annotations have an odd number of items";
    c->user_from = (uint32_t) (items.at - start);
    for (uint32_t i = 0; i < count; i += 2) {
        amqp_value key = amqp_next(&items);
        size_t size = amqp_next(&items).size;
        if (!size) return "message-annotations are cut short";
        enum annotations_key what = annotations_key_of(key);
        if (what == KEY_USER) {
            user_bytes += (uint32_t) (key.size + size);
            c->user_count += 2;
            mixed |= ours > 0;
            continue;
        }
        if (seen & 1u << what) return "message-annotations have a router key twice";
        seen |= 1u << what;
        entry[ours++] = (annotations_entry) { what, start + (key.at - start), key.size, key.size + size };
    }
    if (items.at != end) return "message-annotations are longer than their count says";
    c->user_to = c->user_from + user_bytes;
    if (!ours) return NULL;
    if (mixed) { annotations_sort(entry, ours, end); *moved = true; }
    if (!trust) { c->routed |= ROUTED_IGNORED; return NULL; }
    const char *why = NULL;
    for (uint32_t i = 0; i < ours && !why; i++) why = annotations_trust(c, start, &entry[i], found);
    c->annotations = ANNOTATIONS_MAP;
    return why;
}

/* ---- both ---- */

static enum scan_result annotations_bad(scan_found *found, const char *why)
{
    found->condition = annotations_invalid;
    return scan_bad(found, why);
}

/* Returns DONE, or BAD with `why` and `condition`; `start` is the beginning of the scanned bytes. */
static enum scan_result annotations_read(arena_content *c, uint8_t *start, scan_found *found, uint8_t trusted,
                                         bool *moved)
{
    const char *why = NULL;
    bool map = trusted & annotations_form_bit(ANNOTATIONS_MAP);
    content_reset_annotations(c);
    if (found->section_end) {
        c->section_end = found->section_end;
        if (trusted & 1u << found->section) {
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

/* Reads router annotations after a scan that is DONE; most messages have none. */
PRIVATE inline enum scan_result annotations_check(arena_content *c, uint8_t *start, scan_found *found, uint8_t trusted,
                                                  enum scan_result result, bool *moved)
{
    if (result != SCAN_DONE || (found->message_annotations == SCAN_ABSENT && !found->section_end)) return result;
    return annotations_read(c, start, found, trusted, moved);
}
