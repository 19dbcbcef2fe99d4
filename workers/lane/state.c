/* States of deliveries as octets (AMQP 1.0 part 3.4, part 4.5). */
#include "workers/lane/lane.h"

#define STATE_DEPTH 12                 /* values in values, which others read */
#define VALUE_DEPTH 64                 /* the same of a value that is described, and not passed on */
#define HOLLOW_MOST 256u               /* elements without octets of an array, whose count alone costs its reader */

/* The number that a descriptor by name stands for. */
__attribute__((cold)) static uint32_t state_named(amqp_octets name)
{
    static const struct { const char *name; uint32_t code; } known[] = {
        { "amqp:received:list", LANE_RECEIVED }, { "amqp:accepted:list", LANE_ACCEPTED },
        { "amqp:rejected:list", LANE_REJECTED }, { "amqp:released:list", LANE_RELEASED },
        { "amqp:modified:list", LANE_MODIFIED }, { "amqp:declared:list", LANE_DECLARED },
        { "amqp:transactional-state:list", LANE_TRANSACTIONAL },
        { "amqp:error:list", LANE_ERROR },
    };
    for (size_t i = 0; name.at && i < sizeof known / sizeof *known; i++)
        if (name.size == strlen(known[i].name) && !memcmp(name.at, known[i].name, name.size)) return known[i].code;
    return LANE_OTHER;
}

/* What kind of state this is, by its descriptor; 0: it is none. */
PRIVATE inline uint32_t lane_state_code(amqp_value state)
{
    int64_t number;
    if (!state.at || *state.at != AMQP_DESCRIBED) return 0;
    amqp_value code = amqp_take(state.at + 1, state.at + state.size, 0);
    bool whole = amqp_code_of(code) == AMQP_SMALLULONG || amqp_code_of(code) == AMQP_ULONG;
    if (whole && amqp_integer(code, &number) && number > 0 && number <= UINT32_MAX) return (uint32_t) number;
    return state_named(amqp_symbol(code));
}

/* ---- soundness: each of these returns the octets, AMQP_WRONG where they are malformed ---- */

static size_t value_sound(const uint8_t *p, const uint8_t *end, int depth);
static size_t content_sound(uint8_t code, const uint8_t *p, const uint8_t *end, int depth);

/* Whether the standard has a type for a constructor (AMQP 1.0 part 1.6). */
static bool constructor_known(uint8_t code)
{
    switch (code) {
    case AMQP_NULL ... AMQP_LIST0:
    case AMQP_UBYTE ... AMQP_BOOLEAN:
    case AMQP_USHORT ... AMQP_SHORT:
    case AMQP_UINT ... AMQP_DECIMAL32:
    case AMQP_ULONG ... AMQP_DECIMAL64:
    case AMQP_DECIMAL128:
    case AMQP_UUID: return true;
    default: return code >= AMQP_BINARY8;                      /* inside_sound and amqp_is_octets know these */
    }
}

/* Whether the content of a fixed width is one that its type has. */
static bool fixed_sound(uint8_t code, const uint8_t *p)
{
    if (code == AMQP_BOOLEAN) return *p <= 1;
    if (code != AMQP_CHAR) return true;
    uint32_t character = be32(p);
    return character < 0xd800 || (character > 0xdfff && character <= 0x10ffff);
}

/* Behind the count of a list or map: exactly that many values. */
static bool items_sound(const uint8_t *p, const uint8_t *end, uint32_t count, int depth)
{
    while (count--) {
        size_t n = value_sound(p, end, depth);
        if (n == AMQP_WRONG) return false;
        p += n;
    }
    return p == end;
}

/* Behind the count of an array: a constructor, and as many contents. */
static bool elements_sound(const uint8_t *p, const uint8_t *end, uint32_t count, int depth)
{
    while (p < end && *p == AMQP_DESCRIBED) {
        size_t n = value_sound(p + 1, end, depth - 1);
        if (n == AMQP_WRONG) return false;
        p += 1 + n;
        depth--;
    }
    if (p >= end) return false;
    uint8_t code = *p++;
    if (!constructor_known(code)) return false;
    const uint32_t width = amqp_width[code >> 4];
    if (amqp_is_fixed(code) && !width) return count <= HOLLOW_MOST && p == end;
    if (amqp_is_fixed(code) && code != AMQP_BOOLEAN && code != AMQP_CHAR)
        return (uint64_t) count * width == (uint64_t) (end - p);
    while (count--) {
        size_t n = content_sound(code, p, end, depth);
        if (n == AMQP_WRONG) return false;
        p += n;
    }
    return p == end;
}

static bool inside_sound(uint8_t code, const uint8_t *p, const uint8_t *end, int depth)
{
    uint32_t width = code & AMQP_WIDE ? 4 : 1, count;
    if (amqp_is_octets(code)) return true;
    if (depth <= 0 || end - p < width) return false;
    count = (uint32_t) be_of(p, width);
    switch (amqp_short_code(code)) {
    case AMQP_MAP8: return !(count & 1) && items_sound(p + width, end, count, depth - 1);
    case AMQP_LIST8: return items_sound(p + width, end, count, depth - 1);
    case AMQP_ARRAY8: return elements_sound(p + width, end, count, depth - 1);
    default: return false;
    }
}

static size_t content_sound(uint8_t code, const uint8_t *p, const uint8_t *end, int depth)
{
    size_t left = (size_t) (end - p), head = code & AMQP_WIDE ? 4 : 1;
    if (amqp_is_fixed(code)) {
        size_t width = amqp_width[code >> 4];
        return constructor_known(code) && width <= left && fixed_sound(code, p) ? width : AMQP_WRONG;
    }
    if (code < AMQP_BINARY8 || left < head) return AMQP_WRONG;
    size_t size = (size_t) be_of(p, (uint32_t) head);
    if (size > left - head || !inside_sound(code, p + head, p + head + size, depth)) return AMQP_WRONG;
    return head + size;
}

static size_t value_sound(const uint8_t *p, const uint8_t *end, int depth)
{
    if (p >= end) return AMQP_WRONG;
    if (*p == AMQP_DESCRIBED) {
        if (depth <= 0) return AMQP_WRONG;
        size_t d = value_sound(p + 1, end, depth - 1);
        size_t v = d == AMQP_WRONG ? d : value_sound(p + 1 + d, end, depth - 1);
        return v == AMQP_WRONG ? v : 1 + d + v;
    }
    size_t n = content_sound(*p, p + 1, end, depth);
    return n == AMQP_WRONG ? n : 1 + n;
}

/* The octets of a described value, which all are what they claim to be; AMQP_WRONG: they are not. */
PRIVATE size_t lane_value_sound(const uint8_t *at, const uint8_t *end)
{
    return at < end && *at == AMQP_DESCRIBED ? value_sound(at, end, VALUE_DEPTH) : AMQP_WRONG;
}

/* Whether a state may be passed on: all of it is what it claims to be, and no deeper than others read. */
PRIVATE inline bool lane_state_sound(amqp_value state)
{
    static const uint8_t plain[] = { AMQP_DESCRIBED, AMQP_SMALLULONG, LANE_ACCEPTED, AMQP_LIST0 };
    if (__builtin_expect(state.size == sizeof plain && !memcmp(state.at, plain, sizeof plain), 1)) return true;
    if (!state.at || *state.at != AMQP_DESCRIBED) return false;
    return value_sound(state.at, state.at + state.size, STATE_DEPTH) == state.size;
}

/* ---- fields of the states that the standard has ---- */

/* A letter for the type of each field; of an unknown state nothing is said. */
static const struct { uint32_t code; uint8_t must; const char *types; } state_types[] = {
    { LANE_RECEIVED, 2, "IL" }, { LANE_ACCEPTED, 0, "" }, { LANE_REJECTED, 0, "e" }, { LANE_RELEASED, 0, "" },
    { LANE_MODIFIED, 0, "bbm" }, { LANE_DECLARED, 1, "x" }, { LANE_TRANSACTIONAL, 1, "xo" }, { LANE_ERROR, 1, "ysm" },
};

static bool list_typed(amqp_value v, uint32_t code);

static bool field_typed(amqp_value v, char type)
{
    const uint8_t code = amqp_code_of(v);
    switch (type) {
    case 'I': return code == AMQP_UINT0 || code == AMQP_SMALLUINT || code == AMQP_UINT;
    case 'L': return code == AMQP_ULONG0 || code == AMQP_SMALLULONG || code == AMQP_ULONG;
    case 'b': return amqp_is_boolean(code);
    case 'm': return amqp_is_map(code);
    case 'x': return amqp_is_binary(code);
    case 'y': return amqp_is_symbol(code);
    case 's': return amqp_is_string(code);
    case 'e': return lane_state_code(v) == LANE_ERROR && list_typed(v, LANE_ERROR);
    default: return lane_state_code(v) && list_typed(v, lane_state_code(v));
    }
}

/* Whether a described list has the fields of its code.  Fields behind the known ones are for others to judge. */
static bool list_typed(amqp_value v, uint32_t code)
{
    uint32_t which = 0, known = sizeof state_types / sizeof *state_types, count;
    amqp_cursor items;
    while (which < known && state_types[which].code != code) which++;
    if (which == known) return true;
    amqp_value name = amqp_take(v.at + 1, v.at + v.size, AMQP_DEPTH);
    if (!amqp_list(amqp_take(name.at + name.size, v.at + v.size, 0), &items, &count)) return false;
    if (count < state_types[which].must) return false;
    for (uint32_t i = 0; i < count && state_types[which].types[i]; i++) {
        amqp_value one = amqp_next(&items);
        if (!one.at) return false;
        if (*one.at == AMQP_NULL ? i < state_types[which].must : !field_typed(one, state_types[which].types[i]))
            return false;
    }
    return true;
}

/* Whether a sound state is one that each peer can read: its fields have their types, and its texts are text. */
PRIVATE bool lane_state_typed(amqp_value state)
{
    return list_typed(state, lane_state_code(state)) && lane_values_text(state);
}

/* ---- shorter ones, for peers with small frames ---- */

/* The items of the described list in v, whose number is `code`. */
static bool state_items(amqp_value v, uint32_t code, amqp_cursor *items, uint32_t *count)
{
    if (lane_state_code(v) != code) return false;
    amqp_value number = amqp_take(v.at + 1, v.at + v.size, 0);
    return amqp_list(amqp_take(number.at + number.size, v.at + v.size, 0), items, count);
}

/* A described list of `size` octets of items; its size, 0: there is no room. */
static uint32_t state_list(uint8_t *to, uint32_t room, uint8_t code, const uint8_t *items, uint32_t size,
                           uint32_t count)
{
    if (3 + amqp_items_size(size, count) > room) return 0;
    uint8_t *at = amqp_put_shortest_items_head(amqp_put_descriptor(to, code), AMQP_LIST8, size, count);
    if (size) memcpy(at, items, size);
    return (uint32_t) (at + size - to);
}

/* The first `most` items of a described list around which `outside` octets must fit as well; none if they do not. */
static uint32_t state_first_items(amqp_value v, uint32_t code, uint32_t most, uint32_t room, const uint8_t **from,
                            uint32_t *count)
{
    amqp_cursor items;
    *count = 0;
    *from = NULL;
    if (!state_items(v, code, &items, count)) return 0;
    if (*count > most) *count = most;
    *from = items.at;
    uint32_t there = 0;
    while (there < *count) {
        amqp_value one = amqp_next(&items);
        if (!one.at || (size_t) (items.at - *from) > room) { items.at = one.at ? one.at : items.at; break; }
        there++;
    }
    *count = there;
    return (uint32_t) (items.at - *from);
}

/* The same outcome in at most `room` octets, which `to` has: an error loses its info, then its description; a modified
 * delivery its annotations.  The size; 0: this state cannot be shortened to that. */
PRIVATE inline uint32_t lane_state_shorten(amqp_value state, uint8_t *to, uint32_t room)
{
    const uint32_t heads = 3 + AMQP_HEAD_MAX;
    const uint8_t *from;
    uint32_t count, code = lane_state_code(state);
    amqp_cursor items;
    if (code == LANE_MODIFIED && room > heads) {
        uint32_t size = state_first_items(state, code, 2, room - heads, &from, &count);
        return state_list(to, room, LANE_MODIFIED, from, size, count);
    }
    if (code != LANE_REJECTED || room < 2 * heads) return 0;
    if (!state_items(state, code, &items, &count)) return 0;
    amqp_value error = count ? amqp_next(&items) : (amqp_value) { NULL, 0 };
    uint32_t size = state_first_items(error, LANE_ERROR, 2, room - 2 * heads, &from, &count);
    if (!count) return state_list(to, room, LANE_REJECTED, NULL, 0, 0);
    uint8_t *inner = to + heads;                /* the outer head is as long at most */
    size = state_list(inner, room - heads, LANE_ERROR, from, size, count);
    uint32_t head = amqp_items_short(size, 1) ? 6 : 12;
    memmove(to + head, inner, size);
    amqp_put_shortest_items_head(amqp_put_descriptor(to, LANE_REJECTED), AMQP_LIST8, size, 1);
    return head + size;
}
