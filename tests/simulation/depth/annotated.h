/* Router annotations, as neighbours write and read them (workers/amqp/annotations.h).
 *
 * A *prelude* is what a message has more between routers than at its sender: it stands before the message, or behind
 * its header.
 */
#ifndef ROUTERD_TESTS_SIMULATION_ANNOTATED_H
#define ROUTERD_TESTS_SIMULATION_ANNOTATED_H

#include "tests/simulation/depth/ledger.h"

enum { PRELUDE = 256, PRELUDE_ROOM = 512, HEADER_OCTETS = 9 };

typedef struct { uint32_t size; uint8_t octets[PRELUDE_ROOM]; } prelude;

static uint32_t prelude_place(uint8_t form) { return form == ANNOTATIONS_MAP ? HEADER_OCTETS : 0; }

static uint8_t *put_router(uint8_t *to, uint8_t router)
{
    return amqp_put_octets(to, AMQP_STRING8, router_text(router), ROUTER_OCTETS);
}

static uint8_t *put_trace_of(uint8_t *to, const annotated *said)
{
    uint8_t *items = to + 3, *end = items;
    for (uint32_t i = 0; i < said->length; i++) end = put_router(end, said->trace[i]);
    amqp_put_items_head(to, AMQP_LIST8, (uint32_t) (end - items), said->length);
    return end;
}

static uint8_t *put_symbol(uint8_t *to, const char *name)
{
    return amqp_put_octets(to, AMQP_SYMBOL8, name, (uint32_t) strlen(name));
}

static void prelude_map(prelude *p, const annotated *said, uint8_t address)
{
    uint8_t *head = amqp_put_descriptor(p->octets, SECTION_MESSAGE_ANNOTATIONS), *items = head + 9, *end = items;
    uint32_t count = 2;
    if (said->ingress != NO_INGRESS) {
        end = put_router(put_symbol(end, "x-opt-qd.ingress"), said->ingress);
        count += 2;
    }
    if (said->to) {
        end = amqp_put_octets(put_symbol(end, "x-opt-qd.to"), AMQP_STRING8, address_text(address), ADDRESS_OCTETS);
        count += 2;
    }
    end = put_trace_of(put_symbol(end, "x-opt-qd.trace"), said);
    amqp_put_items_head(head, AMQP_MAP32, (uint32_t) (end - items), count);
    p->size = (uint32_t) (end - p->octets);
}

static void prelude_section(prelude *p, const annotated *said, uint8_t address, bool skupper)
{
    memcpy(p->octets, skupper ? scan_section_skupper : scan_section_ours, SCAN_ROUTERS_DESCRIPTOR);
    uint8_t *head = p->octets + SCAN_ROUTERS_DESCRIPTOR, *items = head + 9, *end = items;
    end = skupper ? amqp_put(end, AMQP_UINT0, 0) : amqp_put(end, AMQP_UBYTE, 0);
    end = said->to ? amqp_put_octets(end, AMQP_STRING8, address_text(address), ADDRESS_OCTETS)
        : amqp_put(end, AMQP_NULL, 0);
    end = said->ingress != NO_INGRESS ? put_router(end, said->ingress) : amqp_put(end, AMQP_NULL, 0);
    end = put_trace_of(end, said);
    amqp_put_items_head(head, AMQP_LIST32, (uint32_t) (end - items), 4);
    p->size = (uint32_t) (end - p->octets);
}

static void prelude_make(prelude *p, uint8_t form, const annotated *said, uint8_t address)
{
    p->size = 0;
    if (said->nothing) return;
    if (form == ANNOTATIONS_MAP) prelude_map(p, said, address);
    else prelude_section(p, said, address, form == ANNOTATIONS_SKUPPER);
}

/* Octets of a message as a neighbour sends it. */
static void annotated_write(const prelude *p, uint8_t form, uint32_t number, uint32_t from, uint32_t size, uint8_t *to)
{
    const uint32_t place = prelude_place(form), ends[] = { place, place + p->size, UINT32_MAX };
    for (uint32_t part = 0; size; part++) {
        if (from >= ends[part]) continue;
        const uint32_t n = size < ends[part] - from ? size : ends[part] - from;
        if (part == 1) memcpy(to, p->octets + (from - place), n);
        else message_write(number, part ? from - p->size : from, n, to);
        from += n;
        to += n;
        size -= n;
    }
}

/* ---- what a neighbour reads ---- */

static uint8_t router_named(amqp_octets name)
{
    for (uint8_t i = 0; i <= NOBODY; i++)
        if (name.size == ROUTER_OCTETS && !memcmp(name.at, router_text(i), ROUTER_OCTETS)) return i;
    HOLDS(false, "the router names %.*s", (int) name.size, (const char *) name.at);
}

static void trace_read(annotated *said, amqp_value v)
{
    amqp_cursor entries;
    uint32_t count;
    HOLDS(amqp_list(v, &entries, &count) && count <= sizeof said->trace, "a trace makes no sense");
    for (said->length = 0; said->length < count; said->length++)
        said->trace[said->length] = router_named(amqp_string(amqp_next(&entries)));
    HOLDS(entries.at == entries.end, "a trace has more than it counts");
}

static bool to_read(amqp_value v, uint8_t to[ADDRESS_OCTETS])
{
    const amqp_octets text = amqp_string(v);
    if (!text.at) return false;
    HOLDS(text.size == ADDRESS_OCTETS, "a message goes to %.*s", (int) text.size, (const char *) text.at);
    memcpy(to, text.at, ADDRESS_OCTETS);
    return true;
}

/* Reads a prelude once it is there as a whole; returns the octets of it, 0: more must come. */
static uint32_t prelude_read(const uint8_t *octets, uint32_t size, uint8_t form, annotated *said,
                             uint8_t to[ADDRESS_OCTETS])
{
    const bool map = form == ANNOTATIONS_MAP;
    const uint32_t head = map ? 3 : SCAN_ROUTERS_DESCRIPTOR;
    const uint8_t *end = octets + size, *value = octets + head;
    static const uint8_t annotations[] = { AMQP_DESCRIBED, AMQP_SMALLULONG, SECTION_MESSAGE_ANNOTATIONS };
    amqp_cursor items;
    uint32_t count;
    if (size <= head) return 0;
    HOLDS(!memcmp(octets, map ? annotations : form == ANNOTATIONS_SECTION ? scan_section_ours : scan_section_skupper,
                  head), "a message between routers has no annotations");
    const size_t n = amqp_size(value, end, 0);
    if (!n || n > (size_t) (end - value)) return 0;
    *said = (annotated) { .ingress = NO_INGRESS };
    if (map) {
        HOLDS(amqp_map((amqp_value) { value, n }, &items, &count), "annotations make no sense");
        for (uint32_t i = 0; i < count; i += 2) {
            const amqp_octets key = amqp_symbol(amqp_next(&items));
            const amqp_value v = amqp_next(&items);
            HOLDS(key.size > 9 && v.at, "an annotation makes no sense");
            if (key.at[9] == 'i') said->ingress = router_named(amqp_string(v));
            else if (key.size == 11) said->to = to_read(v, to);
            else if (key.at[10] == 'r') trace_read(said, v);
        }
    } else {
        HOLDS(amqp_list((amqp_value) { value, n }, &items, &count) && count >= 4, "annotations make no sense");
        (void) amqp_next(&items);
        said->to = to_read(amqp_next(&items), to);
        const amqp_octets ingress = amqp_string(amqp_next(&items));
        if (ingress.at) said->ingress = router_named(ingress);
        trace_read(said, amqp_next(&items));
    }
    return head + (uint32_t) n;
}

#endif
