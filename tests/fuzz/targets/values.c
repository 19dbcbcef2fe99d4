/* Whatever the octets, the codec stays inside them, passes over a value as far as it reads it, and writes what it has
 * read as the same octets; whatever it writes, in either form, it reads as it was.
 *
 * An input is octets to read, or choices of a value to write and to read again.
 */
#include "shm/codec/amqp.h"
#include "tests/fuzz/parts/input.h"

enum { LONGEST = 600, LEVELS = 6 };

typedef struct { uint8_t byte[LONGEST]; size_t size; } text;

/* ---- any octets ---- */

static bool inside(amqp_octets o, amqp_value v) { return o.at >= v.at && o.at + o.size <= v.at + v.size; }

static void same(const uint8_t *written, const uint8_t *end, amqp_value v, const char *what)
{
    CHECK((size_t) (end - written) == v.size && !memcmp(written, v.at, v.size), "%s of code %02x is written as another",
          what, *v.at);
}

static void check_fixed(amqp_value v)
{
    uint8_t again[9];
    uint64_t bits = 0;
    int64_t whole;
    uint32_t number;
    bool truth;
    for (size_t i = 1; i < v.size; i++) bits = bits * 256 + v.at[i];
    if (v.size <= sizeof again) same(again, amqp_put(again, *v.at, bits), v, "a value");
    if (amqp_integer(v, &whole)) {
        uint64_t mask = v.size == 9 ? UINT64_MAX : (UINT64_C(1) << 8 * (v.size - 1)) - 1;
        CHECK(((uint64_t) whole & mask) == bits, "another number");
    }
    if (amqp_uint(v, &number)) CHECK(amqp_integer(v, &whole) && whole == number, "two readings of one number");
    if (amqp_boolean(v, &truth))
        CHECK(!amqp_integer(v, &whole) && amqp_is_boolean(*v.at), "a truth value that is a number");
}

static void check_octets(amqp_value v)
{
    uint8_t again[LONGEST + 8];
    amqp_octets o = amqp_any_octets(v), text = amqp_text(v);
    CHECK(inside(o, v) && o.at + o.size == v.at + v.size, "octets that do not end with their value");
    CHECK(!text.at == !(amqp_string(v).at || amqp_symbol(v).at) && !text.at == !!amqp_binary(v).at,
          "of two types, or of none");
    same(again, amqp_put_octets(again, *v.at, o.at, o.size), v, "text");
    uint8_t *end = amqp_put_shortest(again, amqp_short_code(*v.at), o.at, o.size);
    CHECK((uint32_t) (end - again) == amqp_octets_size(o.size), "another size than was said");
    amqp_octets shortest = amqp_any_octets(amqp_take(again, end, 0));
    CHECK(shortest.size == o.size && !memcmp(shortest.at, o.at, o.size), "other octets in the shortest form");
}

static void check_value(amqp_value v, int level);

static void check_items(amqp_value v, amqp_cursor items, uint32_t count, int level)
{
    uint8_t again[LONGEST + 16];
    const uint8_t *from = items.at;
    CHECK(items.at >= v.at && items.end == v.at + v.size && items.at <= items.end, "items outside of their value");
    uint32_t read = 0;
    for (amqp_value item; read < count && (item = amqp_next(&items)).at; read++) {
        CHECK(item.at + item.size == items.at && items.at <= items.end,
              "an item that is not passed over as it is read");
        check_value(item, level + 1);
    }
    if (read < count) { CHECK(!amqp_next(&items).at, "an item behind the last"); return; }
    if (items.at != items.end || *v.at == AMQP_LIST0) return;
    uint32_t size = (uint32_t) (items.end - from);
    uint8_t *end = amqp_put_items_head(again, *v.at, size, count);
    memcpy(end, from, size);
    same(again, end + size, v, "a compound");
    end = amqp_put_shortest_items_head(again, amqp_short_code(*v.at), size, count);
    memcpy(end, from, size);
    CHECK((uint32_t) (end + size - again) == amqp_items_size(size, count), "another size than was said");
    amqp_cursor shortest;
    uint32_t said;
    CHECK(amqp_items(amqp_take(again, end + size, 0), amqp_short_code(*v.at), &shortest, &said) && said == count,
          "another count");
    CHECK((uint32_t) (shortest.end - shortest.at) == size && !memcmp(shortest.at, from, size),
          "other items in the shortest form");
}

static void check_array(amqp_value v)
{
    amqp_cursor elements;
    uint32_t count;
    uint8_t code;
    if (!amqp_array(v, &elements, &count, &code)) return;
    for (uint32_t i = 0; i < count && i < LONGEST; i++) {
        amqp_octets one = amqp_element(&elements, code);
        if (!one.at) return;
        CHECK(inside(one, v) && one.at + one.size == elements.at && elements.at <= elements.end,
              "an element outside of its array");
    }
}

static void check_value(amqp_value v, int level)
{
    amqp_cursor items;
    uint32_t count;
    if (level > LEVELS) return;
    if (amqp_is_fixed(*v.at)) check_fixed(v);
    if (amqp_is_octets(*v.at)) check_octets(v);
    CHECK(amqp_is_octets(*v.at) == !!amqp_any_octets(v).at, "octets of another type");
    if (amqp_list(v, &items, &count)) check_items(v, items, count, level);
    if (amqp_map(v, &items, &count)) check_items(v, items, count, level);
    check_array(v);
    if (*v.at != AMQP_DESCRIBED) return;
    amqp_value descriptor = amqp_take(v.at + 1, v.at + v.size, AMQP_DEPTH);
    amqp_value value = amqp_take(descriptor.at + descriptor.size, v.at + v.size, AMQP_DEPTH);
    CHECK(descriptor.at && value.at && 1 + descriptor.size + value.size == v.size,
          "a described value that is not its parts");
    check_value(descriptor, level + 1);
    check_value(value, level + 1);
}

static void check(const text *t)
{
    uint8_t *copy = copy_of(t->byte, t->size);
    for (int depth = 0; depth <= AMQP_DEPTH; depth++) {
        size_t size = amqp_size(copy, copy + t->size, depth);
        amqp_value v = amqp_take(copy, copy + t->size, depth);
        CHECK(!!v.at == (size && size != AMQP_WRONG && size <= t->size), "taken, but not measured");
        if (!v.at) continue;
        CHECK(v.size == size, "taken as another size");
        for (size_t cut = 0; cut < size; cut += cut < 16 || cut + 16 > size ? 1 : 16) {
            size_t now = amqp_size(copy, copy + cut, depth);
            CHECK((now == 0 || now == size) && !amqp_take(copy, copy + cut, depth).at, "%zu of %zu octets measure %zu",
                  cut, size, now);
        }
        check_value(v, 0);
    }
    free(copy);
}

/* ---- what is written ---- */

static uint8_t *write_some(uint8_t *to, const uint8_t *end, int level);

static uint8_t *write_items(uint8_t *to, const uint8_t *end, int level)
{
    static const uint8_t codes[] = { AMQP_LIST8, AMQP_LIST32, AMQP_MAP8, AMQP_MAP32 };
    uint8_t items[LONGEST], *at = items, code = codes[below(4)];
    const uint8_t *most = items + (end - to) - AMQP_HEAD_MAX;
    uint32_t count = 0;
    for (uint32_t wanted = 2 * below(4); count < wanted && most - at > 40; count++)
        at = write_some(at, most, level + 1);
    if (count & 1) at = amqp_put(at, AMQP_NULL, 0), count++;
    uint32_t size = (uint32_t) (at - items);
    if (!amqp_items_short(size, count)) code |= AMQP_WIDE;
    to = amqp_put_items_head(to, code, size, count);
    memcpy(to, items, size);
    return to + size;
}

/* A value of any type, in at most 40 octets unless it holds others. */
static uint8_t *write_some(uint8_t *to, const uint8_t *end, int level)
{
    static const uint8_t fixed[] = {
        AMQP_NULL, AMQP_TRUE, AMQP_FALSE, AMQP_UINT0, AMQP_ULONG0, AMQP_LIST0, AMQP_UBYTE, AMQP_BYTE, AMQP_SMALLUINT,
        AMQP_SMALLULONG, AMQP_SMALLINT, AMQP_SMALLLONG, AMQP_BOOLEAN, AMQP_USHORT, AMQP_SHORT, AMQP_UINT, AMQP_INT,
        AMQP_FLOAT, AMQP_CHAR, AMQP_DECIMAL32, AMQP_ULONG, AMQP_LONG, AMQP_DOUBLE, AMQP_TIMESTAMP, AMQP_DECIMAL64 };
    static const uint8_t octets[] = { AMQP_BINARY8, AMQP_STRING8, AMQP_SYMBOL8, AMQP_BINARY32, AMQP_STRING32,
        AMQP_SYMBOL32 };
    static const char content[] = "some octets, as many as are wanted";
    switch (below(level < 3 && end - to > 100 ? 5 : 3)) {
    case 0: case 1: return amqp_put(to, fixed[below(sizeof fixed)], any());
    case 2: return amqp_put_octets(to, octets[below(sizeof octets)], content, below(30));
    case 3: return write_some(amqp_put_descriptor(to, (uint8_t) below(256)), end, level + 1);
    default: return write_items(to, end, level);
    }
}

static text written(void)
{
    text t = { .size = 0 };
    t.size = (size_t) (write_some(t.byte, t.byte + LONGEST, 0) - t.byte);
    CHECK(t.size <= LONGEST, "the test's own value is too long");
    amqp_value v = amqp_take(t.byte, t.byte + t.size, LEVELS);
    CHECK(v.at && v.size == t.size, "what was written measures %zu, not %zu", v.size, t.size);
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t size)
{
    text t = { .size = size - 1 };
    input_open(octets, size);
    if (!size || t.size > LONGEST) return 0;
    memcpy(t.byte, octets + 1, t.size);
    if (below(2)) t = written();
    check(&t);
    return 0;
}
