/* The scan of messages, alone: whatever the bytes, it stays inside them and never takes a word back.
 *
 * Checked for every prefix of every input, each in an allocation of its own size, so that AddressSanitizer sees a step
 * outside:
 *   - offsets it reports lie inside the prefix
 *   - once DONE or BAD, always so for longer prefixes, and what was found stays the same
 *   - a message that is in order is never BAD: MORE up to some prefix, DONE from there on
 * Inputs: messages in order, the same with damaged bytes, and any octets.
 */
#include "tests/fuzz/parts/input.h"
#include "shm/codec/scan.h"

#define LONGEST 1200u

typedef struct { uint8_t byte[LONGEST]; size_t size; } text;

/* ---- making messages ---- */

static void put(text *t, uint8_t byte)
{
    CHECK(t->size < LONGEST, "the test's own message is too long");
    t->byte[t->size++] = byte;
}

static void put_u32(text *t, uint32_t value)
{
    uint8_t bytes[4];
    be32_put(bytes, value);
    for (int i = 0; i < 4; i++) put(t, bytes[i]);
}

/* A binary, string or symbol, in its short or long form. */
static void put_bytes(text *t, uint8_t code, uint32_t size)
{
    bool wide = below(2);
    put(t, (uint8_t) (wide ? code | AMQP_WIDE : code));
    if (wide) put_u32(t, size);
    else put(t, (uint8_t) size);
    while (size--) put(t, (uint8_t) ('a' + below(26)));
}

static void put_scalar(text *t)
{
    static const uint8_t sizes[] = {0, 1, 2, 4, 8, 16};
    uint32_t width = below(6);
    put(t, (uint8_t) (AMQP_NULL + 16 * width));
    for (uint32_t i = 0; i < sizes[width]; i++) put(t, (uint8_t) below(256));
}

static void put_value(text *t)
{
    switch (below(5)) {
    case 0: put_bytes(t, AMQP_STRING8, below(20)); return;
    case 1: put(t, AMQP_DESCRIBED); put_bytes(t, AMQP_SYMBOL8, below(9)); put_scalar(t); return;
    case 2: put_bytes(t, AMQP_LIST8, below(9)); return;       /* a list; nobody looks inside */
    default: put_scalar(t);
    }
}

static void put_descriptor(text *t, uint8_t section)
{
    static const char *names[] = { "amqp:header:list", "amqp:delivery-annotations:map", "amqp:message-annotations:map",
        "amqp:properties:list",
                                   "amqp:application-properties:map", "amqp:data:binary", "amqp:amqp-sequence:list",
                                   "amqp:amqp-value:*", "amqp:footer:map" };
    put(t, AMQP_DESCRIBED);
    if (below(2)) { put(t, AMQP_SMALLULONG); put(t, section); return; }
    if (below(2)) {
        const char *name = names[section - SECTION_HEADER];
        bool wide = below(2);
        put(t, wide ? AMQP_SYMBOL32 : AMQP_SYMBOL8);
        if (wide) put_u32(t, (uint32_t) strlen(name));
        else put(t, (uint8_t) strlen(name));
        while (*name) put(t, (uint8_t) *name++);
        return;
    }
    put(t, AMQP_ULONG);
    put_u32(t, 0);
    put_u32(t, section);
}

/* A list or map around encoded fields. */
static void put_compound(text *t, bool map, const text *fields, uint32_t count)
{
    if (!count && !map && below(2)) { put(t, AMQP_LIST0); return; }
    bool wide = fields->size > 250 || below(2);
    put(t, (uint8_t) ((wide ? AMQP_LIST32 : AMQP_LIST8) | map));
    if (wide) { put_u32(t, (uint32_t) fields->size + 4); put_u32(t, count); }
    else { put(t, (uint8_t) (fields->size + 1)); put(t, (uint8_t) count); }
    for (size_t i = 0; i < fields->size; i++) put(t, fields->byte[i]);
}

static void put_map(text *t, uint8_t section)
{
    text fields = { .size = 0 };
    uint32_t pairs = below(4);
    for (uint32_t i = 0; i < pairs; i++) { put_bytes(&fields, AMQP_SYMBOL8, below(12)); put_value(&fields); }
    put_descriptor(t, section);
    put_compound(t, true, &fields, 2 * pairs);
}

static void put_header(text *t)
{
    text fields = { .size = 0 };
    uint32_t count = below(6);
    if (count > 0) put(&fields, below(2) ? AMQP_TRUE : AMQP_NULL);
    if (count > 1 && below(2)) put(&fields, AMQP_NULL);
    else if (count > 1) { put(&fields, AMQP_UBYTE); put(&fields, (uint8_t) below(256)); }
    for (uint32_t i = 2; i < count; i++) put_scalar(&fields);
    put_descriptor(t, SECTION_HEADER);
    put_compound(t, false, &fields, count);
}

static void put_properties(text *t)
{
    text fields = { .size = 0 };
    uint32_t count = below(8);
    if (count > 0) put_value(&fields);
    if (count > 1) put_value(&fields);
    if (count > 2) { if (below(4)) put_bytes(&fields, AMQP_STRING8, below(60)); else put(&fields, AMQP_NULL); }
    for (uint32_t i = 3; i < count; i++) put_value(&fields);
    put_descriptor(t, SECTION_PROPERTIES);
    put_compound(t, false, &fields, count);
}

static text some_message(void)
{
    text t = { .size = 0 };
    if (below(2)) put_header(&t);
    if (below(3) == 0) put_map(&t, SECTION_DELIVERY_ANNOTATIONS);
    if (below(3) == 0) put_map(&t, SECTION_MESSAGE_ANNOTATIONS);
    if (below(3)) put_properties(&t);
    if (below(3) == 0) put_map(&t, SECTION_APPLICATION_PROPERTIES);
    put_descriptor(&t, SECTION_VALUE);
    put_bytes(&t, AMQP_STRING8, below(40));
    return t;
}

static void damage(text *t)
{
    for (uint32_t n = 1 + below(3); n; n--) {
        size_t at = below((uint32_t) t->size);
        if (below(2)) t->byte[at] = (uint8_t) below(256);
        else t->byte[at] ^= (uint8_t) (1u << below(8));
    }
}

/* ---- checking ---- */

static enum scan_result scan_alone(const uint8_t *bytes, size_t size, bool complete, scan_found *found)
{
    uint8_t *copy = (uint8_t *) malloc(size);
    CHECK(copy || !size, "no memory");
    if (size) memcpy(copy, bytes, size);
    enum scan_result result = scan_message(copy, size, complete, found);
    if (result == SCAN_DONE) {
        CHECK(found->annotations_end <= size && found->body <= size && found->annotations_end <= found->body,
              "of %zu bytes: annotations %u, body %u", size, found->annotations_end, found->body);
        if (found->to != SCAN_ABSENT)
            CHECK((uint64_t) found->to + found->to_length <= size, "to: %u + %u of %zu", found->to, found->to_length,
                  size);
        CHECK(found->priority <= 9, "priority %u", found->priority);
    }
    CHECK((result == SCAN_BAD) == (found->why != NULL), "what is wrong is said");
    CHECK(!complete || result != SCAN_MORE, "there will be no more");
    free(copy);
    return result;
}

static bool same(const scan_found *a, const scan_found *b)
{
    return a->message_annotations == b->message_annotations && a->properties == b->properties
        && a->annotations_end == b->annotations_end && a->body == b->body && a->to == b->to
        && a->to_length == b->to_length && a->priority == b->priority
        && a->application_properties == b->application_properties;
}

static void check_prefixes(const text *t, bool in_order)
{
    enum scan_result before = SCAN_MORE, now = SCAN_MORE;
    scan_found found, first = { .why = NULL };
    for (size_t size = 0; size <= t->size; size++) {
        now = scan_alone(t->byte, size, false, &found);
        CHECK(before == SCAN_MORE || now == before, "%d became %d with byte %zu", before, now, size);
        if (before == SCAN_MORE) first = found;
        CHECK(now != SCAN_DONE || same(&found, &first), "something else was found with byte %zu", size);
        CHECK(!in_order || now != SCAN_BAD, "%s (byte %zu of %zu)", found.why, size, t->size);
        before = now;
        enum scan_result cut = scan_alone(t->byte, size, true, &found);
        CHECK(now == SCAN_MORE || cut == now, "%d but %d when complete", now, cut);
    }
    CHECK(!in_order || now == SCAN_DONE, "a whole message is not enough");
}

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t size)
{
    text t = { .size = size - 1 };
    input_open(octets, size);
    if (!size || t.size > LONGEST) return 0;
    if (below(2)) {
        memcpy(t.byte, octets + 1, t.size);
        check_prefixes(&t, false);
        return 0;
    }
    t = some_message();
    check_prefixes(&t, true);
    damage(&t);
    check_prefixes(&t, false);
    return 0;
}
