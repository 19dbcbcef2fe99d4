/* What a neighbour says and hears besides what a client does: links between routers, and annotations. */
#ifndef ROUTERD_TESTS_SIMULATION_NEIGHBOURS_H
#define ROUTERD_TESTS_SIMULATION_NEIGHBOURS_H

enum { SET_LINKS = 2 + 2 * ROUTERD_PRIORITIES };       /* a control link in each direction, and a pair per priority */

static prelude *prelude_of(const peer_link *l)
{
    return l->kind ? &preludes[l->router - 1][l->lane.handle] : &annotations[l->owner][l->lane.handle];
}

static void put_between(list_writer *w, uint8_t descriptor, uint8_t kind)
{
    const uint32_t empty = descriptor == 0x28 ? 10 : 6;            /* fields in front of the capabilities */
    uint8_t *at = amqp_put_descriptor(w->at, descriptor), *items = at + 9, *end = items;
    for (uint32_t i = 0; i < empty; i++) end = amqp_put(end, AMQP_NULL, 0);
    end = put_symbol(end, capabilities[kind]);
    amqp_put_items_head(at, AMQP_LIST32, (uint32_t) (end - items), empty + 1);
    list_put(w, end);
}

/* Even handles send, odd ones receive; those behind the set are for streams. */
static void neighbour_attach(client *k, uint32_t handle)
{
    peer_link *l = &k->links[handle];
    uint8_t text[24], frame[256];
    *l = (peer_link) { .state = ASKED, .receives = handle & 1 || handle >= SET_LINKS, .name = ++names,
                       .router = k->router, .kind = handle < 2 ? CONTROL_KIND : DATA_KIND,
                       .address = ANONYMOUS, .sender_mode = PN_SND_MIXED };
    l->lane = (lane_link) { .handle = handle, .outgoing = !l->receives };
    list_writer w = list_begin(frame, 0, LANE_ATTACH, true);
    const uint32_t size = (uint32_t) sprintf((char *) text, "%u.%u", handle, l->name);
    list_put(&w, amqp_put_octets(w.at, AMQP_STRING8, text, size));
    list_uint(&w, handle);
    list_boolean(&w, l->receives);
    list_put(&w, amqp_put(w.at, AMQP_UBYTE, PN_SND_MIXED));
    list_put(&w, amqp_put(w.at, AMQP_UBYTE, 0));
    put_between(&w, 0x28, l->kind);
    put_between(&w, 0x29, l->kind);
    list_null(&w);
    list_null(&w);
    if (!l->receives) list_uint(&w, l->lane.count);
    say_list(k, frame, &w);
    total.links++;
}

static void neighbour_attaches(client *k)
{
    k->places = network.streams ? NEIGHBOURS_LINKS : SET_LINKS;
    for (uint32_t i = 0; i < k->places; i++) neighbour_attach(k, i);
}

/* A message from somewhere behind a neighbour: where it came in, and where it has been. */
static annotated came_from(uint8_t router)
{
    annotated a = { .ingress = router, .length = 1, .trace = { router }, .to = one_in(3) };
    switch (below(16)) {
    case 0: a.nothing = true; a.ingress = 0; a.length = 0; a.to = false; break;
    case 1: a.ingress = NOBODY; a.length = 2; a.trace[0] = NOBODY; a.trace[1] = router; break;
    case 2: a.ingress = NO_INGRESS; break;
    case 3: a.length = 2; a.trace[1] = 0; break;                   /* it has been here */
    case 4: a.length = TRACE_MOST; memset(a.trace, router, TRACE_MOST); break;     /* it goes in circles */
    case 5: case 6: case 7: a.ingress = BEYOND; a.length = 2; a.trace[0] = BEYOND; a.trace[1] = router; break;
    default: break;
    }
    return a;
}

static bool circles(const message *m) { return m->came.length == TRACE_MOST; }

static void neighbour_begins(const peer_link *l, uint32_t number)
{
    message *m = &ledger.all[number];
    m->came = came_from(l->router);
    m->way.closed = circles(m);
    total.from_routers++;
    prelude_make(prelude_of(l), network.form[l->router], &m->came, m->address);
}

/* The octets behind the prelude of a message that comes, once all of that is there; 0: it is not. */
static uint32_t prelude_over(peer_link *l)
{
    const uint8_t form = network.form[l->router];
    const uint32_t place = prelude_place(form);
    const prelude *p = prelude_of(l);
    uint8_t to[ADDRESS_OCTETS];
    if (p->size <= place) return 0;
    const uint32_t size = prelude_read(p->octets + place, p->size - place, form, &l->said, to);
    if (!size) return 0;
    if (l->said.to) memcpy(l->to, to, ADDRESS_OCTETS);
    return place + size;
}

/* A copy of a message to a route table has come: it begins here, and goes to an endpoint. */
static void neighbour_gets_by_table(const peer_link *l)
{
    const annotated *said = &l->said;
    uint32_t address = ENDPOINT;
    HOLDS(said->to, "message %u goes on by a table, and does not say where to", l->number);
    while (address < NODE && memcmp(l->to, address_text(address), ADDRESS_OCTETS)) address++;
    HOLDS(said->ingress == 0 && said->length == 1 && !said->trace[0], "message %u has not begun here", l->number);
    message_at_endpoint(l->number, address);
    HOLDS(network.lately[address], "message %u goes to routers that have no receivers", l->number);
}

/* A message has come here as its address, its sender and the network demand. */
static void neighbour_gets(const peer_link *l)
{
    message *m = &ledger.all[l->number];
    const annotated *said = &l->said, *was = &m->came;
    const bool from = m->from_router, named = from && !was->nothing && was->ingress != NO_INGRESS;
    total.to_routers++;
    if (m->properties) { neighbour_gets_by_table(l); return; }
    HOLDS(network.lately[m->address], "message %u goes to routers that have no receivers", l->number);
    HOLDS(!said->to || !memcmp(l->to, address_text(m->address), ADDRESS_OCTETS), "message %u goes to %.8s", l->number,
          (const char *) l->to);
    HOLDS(said->to || (from ? !was->to : !m->targeted), "message %u does not say where it goes", l->number);
    HOLDS(said->ingress == (named ? was->ingress : 0), "message %u came in at router %u, not at %u", l->number,
          was->ingress, said->ingress);
    const uint32_t length = from && !was->nothing ? was->length : 0;
    HOLDS(said->length == length + 1 && !memcmp(said->trace, was->trace, length) && !said->trace[length],
          "message %u has another trace", l->number);
    HOLDS(!circles(m), "message %u goes on in circles", l->number);
    if (address_treatment(m->address) != CLOSEST)
        HOLDS(said->ingress != NOBODY, "message %u of nobody knows who goes on to a router", l->number);
    if (!multicast(m)) return;
    HOLDS(!(m->hops >> l->router & 1), "router %u gets message %u twice", l->router, l->number);
    m->hops |= (uint8_t) (1u << l->router);
    for (uint32_t i = 0; i < length; i++)
        HOLDS(said->trace[i] != l->router, "message %u comes back to router %u", l->number, l->router);
}

#endif
