/* The codec of AMQP values as functions that a test can call. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "shm/codec/amqp.h"

typedef struct { char *at, *end; } out;

int tell(const uint8_t *bytes, size_t size, char *to, size_t room);
size_t number(uint8_t *to, uint8_t code, uint64_t bits);
size_t octets(uint8_t *to, uint8_t code, const uint8_t *bytes, uint32_t size);
size_t items(uint8_t *to, uint8_t code, const uint8_t *bytes, uint32_t size, uint32_t count);
size_t described(uint8_t *to, uint8_t descriptor);

static void say(out *o, const char *form, ...)
{
    va_list given;
    va_start(given, form);
    int n = vsnprintf(o->at, (size_t) (o->end - o->at), form, given);
    va_end(given);
    o->at = n < o->end - o->at ? o->at + n : o->end - 1;
}

static void say_octets(out *o, const char *kind, amqp_octets octets)
{
    say(o, "%s:", kind);
    for (uint32_t i = 0; i < octets.size; i++) say(o, "%02x", octets.at[i]);
}

static void say_value(out *o, amqp_value v);

static void say_items(out *o, const char *kind, amqp_cursor items, uint32_t count)
{
    say(o, "%s(", kind);
    while (count--) {
        amqp_value item = amqp_next(&items);
        if (!item.at) { say(o, "none"); break; }
        say_value(o, item);
        if (count) say(o, " ");
    }
    say(o, items.at == items.end ? ")" : " and more)");
}

static void say_array(out *o, amqp_cursor elements, uint32_t count, uint8_t code)
{
    say(o, "array(%02x", code);
    while (count--) {
        amqp_octets one = amqp_element(&elements, code);
        say_octets(o, one.at ? " " : " none", one);
    }
    say(o, elements.at == elements.end ? ")" : " and more)");
}

static void say_value(out *o, amqp_value v)
{
    amqp_cursor items;
    uint32_t count;
    uint8_t code;
    int64_t whole;
    bool truth;
    if (*v.at == AMQP_DESCRIBED) {
        amqp_value descriptor = amqp_take(v.at + 1, v.at + v.size, AMQP_DEPTH);
        say(o, "described(");
        say_value(o, descriptor);
        say(o, " ");
        say_value(o, amqp_take(descriptor.at + descriptor.size, v.at + v.size, AMQP_DEPTH));
        say(o, ")");
    } else if (*v.at == AMQP_NULL) {
        say(o, "null");
    } else if (amqp_boolean(v, &truth)) {
        say(o, truth ? "true" : "false");
    } else if (amqp_integer(v, &whole)) {
        say(o, "%" PRId64, whole);
    } else if (amqp_is_fixed(*v.at) && *v.at != AMQP_LIST0) {
        say_octets(o, "bits", (amqp_octets) { v.at + 1, (uint32_t) v.size - 1 });
    } else if (amqp_string(v).at) {
        say_octets(o, "string", amqp_string(v));
    } else if (amqp_symbol(v).at) {
        say_octets(o, "symbol", amqp_symbol(v));
    } else if (amqp_binary(v).at) {
        say_octets(o, "binary", amqp_binary(v));
    } else if (amqp_list(v, &items, &count)) {
        say_items(o, "list", items, count);
    } else if (amqp_map(v, &items, &count)) {
        say_items(o, "map", items, count);
    } else if (amqp_array(v, &items, &count, &code)) {
        say_array(o, items, count, code);
    } else {
        say(o, "nothing");
    }
}

/* What the octets say, in words; 0: they are no value, or not one alone. */
int tell(const uint8_t *bytes, size_t size, char *to, size_t room)
{
    out o = { to, to + room };
    amqp_value v = amqp_take(bytes, bytes + size, AMQP_DEPTH);
    if (!v.at || v.size != size) return 0;
    say_value(&o, v);
    return 1;
}

size_t number(uint8_t *to, uint8_t code, uint64_t bits) { return (size_t) (amqp_put(to, code, bits) - to); }

size_t octets(uint8_t *to, uint8_t code, const uint8_t *bytes, uint32_t size)
{
    return (size_t) (amqp_put_octets(to, code, bytes, size) - to);
}

size_t items(uint8_t *to, uint8_t code, const uint8_t *bytes, uint32_t size, uint32_t count)
{
    uint8_t *end = amqp_put_items_head(to, code, size, count);
    memcpy(end, bytes, size);
    return (size_t) (end - to) + size;
}

size_t described(uint8_t *to, uint8_t descriptor) { return (size_t) (amqp_put_descriptor(to, descriptor) - to); }
