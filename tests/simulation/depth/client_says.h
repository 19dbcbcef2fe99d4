/* What a client says: frames. */
#ifndef ROUTERD_TESTS_SIMULATION_CLIENT_SAYS_H
#define ROUTERD_TESTS_SIMULATION_CLIENT_SAYS_H

static bool may_say(const client *k)
{
    const wire *w = &wires[k->wire];
    return !k->closing && w->open_there && w->in.end - w->in.at < WIRE_ROOM / 4 && !w->out.closed;
}

static void say(client *k, const void *octets, size_t size) { wire_say(k->wire, octets, (uint32_t) size); }

static void say_list(client *k, uint8_t *frame, const list_writer *w)
{
    say(k, frame, lane_put_size(frame, list_end(frame, w, true)));
}

static void say_begin(client *k, const lane_begin *answered)
{
    uint8_t frame[64];
    uint32_t first = one_in(2) ? 0xfffffff0u + below(32) : below(1000), window = 2 + below(one_in(2) ? 6 : 200);
    lane_session_open(&k->s, window);
    k->s.next_out = k->s.id_out = first;
    list_writer w = list_begin(frame, 0, LANE_BEGIN, true);
    if (answered) list_put(&w, amqp_put(w.at, AMQP_USHORT, 0));
    else list_null(&w);
    list_uint(&w, first);
    list_uint(&w, window);
    list_uint(&w, 0x7fffffff);
    say_list(k, frame, &w);
    if (!answered) return;
    lane_session_begun(&k->s, answered);
    k->begun = true;
}

static void say_open(client *k)
{
    static const uint8_t header[] = { 'A', 'M', 'Q', 'P', 0, 1, 0, 0 };
    static const uint32_t frames[] = { 512, 1000, 4096 };
    uint8_t frame[128];
    list_writer w = list_begin(frame, 0, LANE_OPEN, true);
    if (k->router) list_put(&w, amqp_put_octets(w.at, AMQP_STRING8, router_text(k->router), ROUTER_OCTETS));
    else list_put(&w, amqp_put_octets(w.at, AMQP_STRING8, k->broker ? BROKER : "client", 6));
    list_null(&w);
    list_uint(&w, k->max_frame = frames[below(3)]);
    list_put(&w, amqp_put(w.at, AMQP_USHORT, k->broker ? 0 : 8));
    say(k, header, sizeof header);
    say_list(k, frame, &w);
    if (!k->broker) say_begin(k, NULL);
}

static void put_terminus(list_writer *w, uint8_t descriptor, uint8_t address)
{
    uint8_t *at = amqp_put_descriptor(w->at, descriptor), *items = at + 9;
    uint8_t *end = address == ANONYMOUS ? amqp_put(items, AMQP_NULL, 0)
        : amqp_put_octets(items, AMQP_STRING8, address_text(address), ADDRESS_OCTETS);
    amqp_put_items_head(at, AMQP_LIST32, (uint32_t) (end - items), 1);
    list_put(w, end);
}

static void say_end(client *k, uint32_t handle, uint8_t performative)
{
    uint8_t frame[64];
    list_writer w = list_begin(frame, 0, performative, true);
    if (performative == LANE_DETACH) { list_uint(&w, handle); list_boolean(&w, true); }
    say_list(k, frame, &w);
}

/* `none`: without a terminus (AMQP 1.0 part 2.6.3) */
static void say_link(client *k, uint32_t handle, amqp_octets name, bool none)
{
    peer_link *l = &k->links[handle];
    uint8_t frame[256];
    list_writer w = list_begin(frame, 0, LANE_ATTACH, true);
    list_put(&w, amqp_put_octets(w.at, AMQP_STRING8, name.at, name.size));
    list_uint(&w, handle);
    list_boolean(&w, l->receives);
    list_put(&w, amqp_put(w.at, AMQP_UBYTE, l->sender_mode));
    list_put(&w, amqp_put(w.at, AMQP_UBYTE, l->second));
    if (none) {
        list_null(&w);
        list_null(&w);
    } else {
        put_terminus(&w, 0x28, l->address == ANONYMOUS ? 0 : l->address);
        put_terminus(&w, 0x29, l->address);
    }
    list_null(&w);
    list_null(&w);
    if (!l->receives) list_uint(&w, l->lane.count);
    say_list(k, frame, &w);
    total.links++;
}

static void say_attach(client *k, uint32_t handle)
{
    peer_link *l = &k->links[handle];
    uint8_t text[24];
    *l = (peer_link) { .owner = (uint8_t) (k - clients), .state = ASKED, .receives = one_in(2), .name = ++names,
                       .address = (uint8_t) below(ADDRESSES),
                       .sender_mode = (uint8_t) below(3), .second = one_in(4) };
    if (!l->receives && one_in(3)) l->address = ANONYMOUS;
    if (l->address == UNAVAILABLE && !one_in(4)) l->address = BALANCED;
    if (brokers && one_in(3)) l->address = ROUTED;
    if (tables.on && l->address != ROUTED && !one_in(4))
        l->address = l->receives ? ENDPOINT + (uint8_t) below(ENDPOINTS) : one_in(3) ? ANONYMOUS : TABLE;
    if (l->receives) l->sender_mode = l->address == SETTLING && one_in(3) ? PN_SND_SETTLED : PN_SND_MIXED;
    l->sends_settled = l->sender_mode == PN_SND_SETTLED;
    l->lane = (lane_link) { .handle = handle, .outgoing = !l->receives };
    if (!l->receives) l->lane.count = one_in(2) ? 0xfffffff8u : 0;
    size_t size = (size_t) sprintf((char *) text, "%u.%u", handle, l->name);
    say_link(k, handle, (amqp_octets) { text, size }, false);
}

static void say_flow(client *k, peer_link *l)
{
    uint8_t frame[LANE_FLOW_MAX];
    lane_flow flow;
    lane_say(&k->s, l ? &l->lane : NULL, &flow);
    if (l && one_in(8)) flow.echo = true;
    say(k, frame, lane_put_flow(frame, 0, &flow));
}

static void say_disposition(client *k, bool receiver, bool settled, uint32_t id, uint8_t code)
{
    const uint8_t state[] = { AMQP_DESCRIBED, AMQP_SMALLULONG, code, AMQP_LIST0 };
    uint8_t frame[LANE_DISPOSITION_MAX + sizeof state];
    lane_disposition d = { .first = id, .last = id, .receiver = receiver, .settled = settled };
    if (code) d.state = (amqp_value) { state, sizeof state };
    say(k, frame, lane_put_disposition(frame, 0, &d));
}

#endif
