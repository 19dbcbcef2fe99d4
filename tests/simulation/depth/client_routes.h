/* Source routes, as clients write and read them. */
#ifndef ROUTERD_TESTS_SIMULATION_CLIENT_ROUTES_H
#define ROUTERD_TESTS_SIMULATION_CLIENT_ROUTES_H

static void route_begins(const client *k, const peer_link *l, uint32_t number)
{
    message *m = &ledger.all[number];
    prelude *p = prelude_of(l);
    m->sourced = sourced_new((uint32_t) wires[k->wire].worker, m->address);
    p->size = sourced_put(&m->sourced, p->octets);
    total.by_route++;
}

static void stops_read(stops *s, amqp_value v)
{
    amqp_cursor entries;
    uint32_t count;
    HOLDS(amqp_list(v, &entries, &count) && count <= ROUTE_LONGEST, "a route makes no sense");
    for (s->count = 0; s->count < count; s->count++) {
        const amqp_octets text = amqp_string(amqp_next(&entries));
        uint8_t i = 0;
        while (i < NAMED && (text.size != ADDRESS_OCTETS || memcmp(text.at, address_text(i), ADDRESS_OCTETS))) i++;
        HOLDS(i < NAMED, "a route leads to %.*s", (int) text.size, (const char *) text.at);
        s->stop[s->count] = i;
    }
}

/* The octets up to the end of the annotations of a message that comes, once these are there; 0: they are not. */
static uint32_t routes_over(peer_link *l)
{
    static const uint8_t descriptor[] = { AMQP_DESCRIBED, AMQP_SMALLULONG, SECTION_MESSAGE_ANNOTATIONS };
    const prelude *p = prelude_of(l);
    const uint8_t *at = p->octets + HEADER_OCTETS + sizeof descriptor, *end = p->octets + p->size;
    amqp_cursor items;
    uint32_t count;
    if (at >= end) return 0;
    if (memcmp(p->octets + HEADER_OCTETS, descriptor, sizeof descriptor)) return HEADER_OCTETS;
    const size_t n = amqp_size(at, end, 0);
    if (!n || n > (size_t) (end - at)) return 0;
    HOLDS(amqp_map((amqp_value) { at, n }, &items, &count), "annotations make no sense");
    for (uint32_t i = 0; i < count; i += 2) {
        const amqp_octets key = amqp_symbol(amqp_next(&items));
        const amqp_value v = amqp_next(&items);
        l->wrapped |= key.size == 19 && !memcmp(key.at, "x-opt-route.nesting", 19);
        if (key.size != 18 || memcmp(key.at, "x-opt-route.", 12)) continue;
        if (!memcmp(key.at + 12, "onward", 6)) stops_read(&l->onward, v);
        if (!memcmp(key.at + 12, "return", 6)) stops_read(&l->back, v);
    }
    return (uint32_t) (at + n - p->octets);
}

#endif
