/* What is no text (AMQP 1.0 part 1.6.20, 1.6.21): the one place that decides it for what peers say in OPEN and ATTACH,
 * and in states of deliveries, which others read.
 *
 * A string is UTF-8, a symbol is ASCII.  What names somebody has no NUL besides, because the engine's names end there:
 * two peers, addresses or links would be one.  Texts of other frames, such as errors, name nobody; they are shown with
 * escapes (amqp/values.pxi).  What is malformed otherwise is for others to find.
 */
#include <stdio.h>

#include "shm/codec/utf8.h"
#include "workers/lane/lane.h"

#define TEXT_DEPTH 64                  /* values in values; what is deeper nobody reads */
#define TEXT_SHOWN 64u                 /* octets of a text in a description */

/* Fields by their place; NULL: it holds no text that is read. */
static const char *const open_fields[] = {
    "the container-id", "the hostname", NULL, NULL, NULL, "outgoing-locales", "incoming-locales",
    "offered-capabilities", "desired-capabilities", "properties"
};
static const char *const attach_fields[] = {
    "the name of a link", NULL, NULL, NULL, NULL, "source", "target", NULL, NULL, NULL, NULL, "offered-capabilities",
    "desired-capabilities", "properties"
};
static const char *const source_fields[] = {
    "the address", NULL, "expiry-policy", NULL, NULL, "dynamic-node-properties", "distribution-mode", "filter",
    "default-outcome", "outcomes", "capabilities"
};
static const char *const target_fields[] = {
    "the address", NULL, "expiry-policy", NULL, NULL, "dynamic-node-properties", "capabilities"
};

enum { ATTACH_NAME, ATTACH_SOURCE = 5, ATTACH_TARGET, TERMINUS_ADDRESS = 0, OPEN_HOSTNAME = 1 };

typedef struct { uint8_t code; amqp_octets octets; } wrong_text;
typedef struct { const char *const *names; uint32_t count; } known_fields;

#define KNOWN(array) ((known_fields) { array, sizeof (array) / sizeof *(array) })

static bool items_text(amqp_cursor items, int depth, wrong_text *wrong);

static bool ascii(amqp_octets text)
{
    for (uint32_t i = 0; i < text.size; i++) if (text.at[i] & 0x80) return false;
    return true;
}

static bool elements_text(amqp_cursor elements, int depth, wrong_text *wrong);

/* Whether all strings and symbols in a content are text. */
static bool content_text(uint8_t code, amqp_octets content, int depth, wrong_text *wrong)
{
    if (amqp_is_text(code)) {
        *wrong = (wrong_text) { code, content };
        return amqp_is_string(code) ? utf8_valid(content.at, content.size) : ascii(content);
    }
    uint32_t count = code & AMQP_WIDE ? 4 : 1;                 /* its octets */
    if (amqp_is_fixed(code) || amqp_is_binary(code) || content.size < count || depth <= 0) return true;
    amqp_cursor inside = { content.at + count, content.at + content.size };
    return amqp_short_code(code) == AMQP_ARRAY8 ? elements_text(inside, depth - 1, wrong)
           : items_text(inside, depth - 1, wrong);
}

/* Behind an array's count. */
static bool elements_text(amqp_cursor elements, int depth, wrong_text *wrong)
{
    while (elements.at < elements.end && *elements.at == AMQP_DESCRIBED) {
        elements.at++;
        amqp_value descriptor = amqp_next(&elements);
        if (!descriptor.at) return true;
        if (!items_text((amqp_cursor) { descriptor.at, elements.at }, depth, wrong)) return false;
    }
    if (elements.at == elements.end) return true;
    uint8_t code = *elements.at++;
    if (amqp_is_fixed(code)) return true;
    for (amqp_octets one; (one = amqp_element(&elements, code)).at;)
        if (!content_text(code, one, depth, wrong)) return false;
    return true;
}

static bool items_text(amqp_cursor items, int depth, wrong_text *wrong)
{
    for (amqp_value one; (one = amqp_next(&items)).at;) {
        const bool described = *one.at == AMQP_DESCRIBED;
        if (amqp_is_fixed(*one.at) || (described && depth <= 0)) continue;
        if (described ? !items_text((amqp_cursor) { one.at + 1, items.at }, depth - 1, wrong)
                      : !content_text(*one.at, amqp_content(one), depth, wrong))
            return false;
    }
    return true;
}

/* Whether all strings and symbols in a value are text. */
PRIVATE bool lane_values_text(amqp_value v)
{
    wrong_text wrong;
    return items_text((amqp_cursor) { v.at, v.at + v.size }, TEXT_DEPTH, &wrong);
}

/* Says which field of what has such a text, and its octets. */
static void text_say(lane_no_text *no, const char *field, const char *of, const char *why, amqp_octets text)
{
    char *to = no->description, *end = to + sizeof no->description;
    to += snprintf(to, sizeof no->description, "%s%s %s: \"", field, of, why);
    for (uint32_t i = 0; i < text.size && i < TEXT_SHOWN; i++) {
        uint8_t one = text.at[i];
        to += snprintf(to, (size_t) (end - to), one < 0x20 || one > 0x7e ? "\\x%02x" : one == '"' || one == '\\'
                       ? "\\%c" : "%c", one);
    }
    snprintf(to, (size_t) (end - to), "\"%s", text.size > TEXT_SHOWN ? "..." : "");
}

/* Checks a field; `names`: it names somebody. */
static bool field_text(amqp_value v, const char *field, const char *of, bool names, lane_no_text *no)
{
    wrong_text wrong;
    amqp_octets name = amqp_string(v);
    if (!items_text((amqp_cursor) { v.at, v.at + v.size }, TEXT_DEPTH, &wrong)) {
        no->condition = "amqp:decode-error";
        text_say(no, field, of, amqp_is_string(wrong.code) ? "is not UTF-8" : "is not ASCII", wrong.octets);
        return false;
    }
    if (!names || !name.at || !memchr(name.at, 0, name.size)) return true;
    no->condition = "amqp:invalid-field";
    text_say(no, field, of, "has a NUL", name);
    return false;
}

/* Whether the name of a user, by which the engine has let somebody in, is text. */
PRIVATE bool lane_user_text(const char *user, lane_no_text *no)
{
    const amqp_octets name = { (const uint8_t *) user, (uint32_t) strlen(user) };
    if (utf8_valid(name.at, name.size)) return true;
    *no = (lane_no_text) { .condition = "amqp:decode-error" };
    text_say(no, "the name of the user", "", "is not UTF-8", name);
    return false;
}

static bool terminus_text(amqp_value v, bool source, lane_no_text *no)
{
    known_fields known = source ? KNOWN(source_fields) : KNOWN(target_fields);
    amqp_cursor items;
    uint32_t count;
    if (*v.at != AMQP_DESCRIBED) return true;
    amqp_value code = amqp_take(v.at + 1, v.at + v.size, AMQP_DEPTH);
    if (!code.at || !amqp_list(amqp_take(code.at + code.size, v.at + v.size, 0), &items, &count)) return true;
    for (uint32_t i = 0; i < known.count; i++) {
        amqp_value one = amqp_next(&items);
        if (!one.at) return true;
        if (known.names[i] && !field_text(one, known.names[i], source ? " of the source" : " of the target",
                                          i == TERMINUS_ADDRESS, no))
            return false;
    }
    return true;
}

/* Whether all that an OPEN or ATTACH says as text is text; if not, `no` says what is not. */
PRIVATE bool lane_texts(const lane_frame *f, lane_no_text *no)
{
    const bool attach = f->performative == LANE_ATTACH;
    known_fields known = attach ? KNOWN(attach_fields) : KNOWN(open_fields);
    amqp_cursor fields = f->fields.items;
    *no = (lane_no_text) { 0 };
    for (uint32_t i = 0; i < known.count; i++) {
        amqp_value v = amqp_next(&fields);
        if (!v.at) break;
        if (!known.names[i]) continue;
        no->name = attach && i == ATTACH_NAME;
        if (attach && (i == ATTACH_SOURCE || i == ATTACH_TARGET)) {
            if (!terminus_text(v, i == ATTACH_SOURCE, no)) return false;
        } else if (!field_text(v, known.names[i], "", no->name || (!attach && i <= OPEN_HOSTNAME), no)) {
            return false;
        }
    }
    return true;
}
