/* What has become of each message: what its sender was told, what its receivers got and said. */
#ifndef ROUTERD_TESTS_SIMULATION_LEDGER_H
#define ROUTERD_TESTS_SIMULATION_LEDGER_H

#include "tests/simulation/depth/sourced.h"
#include "tests/simulation/depth/tables.h"

/* Receivers of this address may want all settled: then a message is accepted as soon as it is written. */
enum { SETTLING = 7 };
enum { MESSAGES = 1 << 17, BODY_MOST = 60000, HEAD_OCTETS = 43, NUMBER_AT = 16 };

enum { PRESETTLED = 1, ALIVE = 2,      /* its sender waits for an outcome */
       SETTLED = 4, ABORTED = 8, WHOLE = 16, OF_SENDER = 32 /* its sender settled it first */ };

enum { MUCH = 4 << 20 };               /* octets of an arena: no message is refused because there is no room */
enum { NO_INGRESS = 255, TRACE_MOST = 8 };

typedef struct {                       /* what a message says of routers */
    uint8_t ingress, length, trace[TRACE_MOST + 1];   /* by their bits; NO_INGRESS: nothing */
    bool to, nothing;                  /* to: its address is repeated; nothing: it has no annotations */
} annotated;

typedef struct {
    uint32_t sender, length;           /* a number of each attached link; octets */
    uint8_t address, flags, copies, priority;
    uint8_t said, told;                /* by receivers, to the sender: bits of states, from `received` on */
    uint8_t whole;                     /* copies that are complete */
    uint8_t hops, wanted;              /* bits of the neighbours that have got it, and that were to when it began */
    bool targeted, from_router;        /* its sender's link has an address; or is a neighbour's */
    annotated came;                    /* from a router */
    uint8_t properties;                /* octets of those for a route table; 0: its address is no table's */
    table_way way;
    sourced_way sourced;
} message;

static struct {
    message all[MESSAGES];             /* by their numbers, from 1 */
    uint32_t count, calm;              /* calm: those before this one may have met with something */
    uint32_t moved;                    /* those before this one may go another way */
    uint32_t rested;                   /* those up to this one are over */
    uint32_t senders;
    uint8_t pattern[256 + BODY_MOST];
} ledger;

static inline uint8_t state_bit(uint32_t state) { return state - 0x23u < 5 ? (uint8_t) (1u << (state - 0x23u)) : 0; }

static inline bool disturbed(uint32_t number) { return number < ledger.calm; }
static inline bool multicast(const message *m) { return address_treatment(m->address) == MULTICAST; }

/* `keyed`: its link leads to a route table */
static uint32_t message_new(uint32_t sender, uint8_t address, uint32_t body, bool presettled, bool keyed)
{
    HOLDS(ledger.count + 1 < MESSAGES, "too many messages in a life");
    message *m = &ledger.all[++ledger.count];
    *m = (message) { .sender = sender, .length = HEAD_OCTETS + body, .address = address,
                     .priority = (uint8_t) below(10),
                     .flags = presettled ? PRESETTLED : ALIVE };
    if (address == TABLE) {
        uint8_t properties[PROPERTIES_MOST];
        m->way = tables_way(keyed);
        m->properties = (uint8_t) key_put(&m->way.key, properties);
        m->length += m->properties;
        total.by_table++;
    }
    total.messages++;
    total.presettled += presettled;
    return ledger.count;
}

/* Octets of a message: a header, properties with its number and its address, a body. */
static void message_write(uint32_t number, uint32_t from, uint32_t size, uint8_t *to)
{
    const message *m = &ledger.all[number];
    const uint32_t all = HEAD_OCTETS + m->properties, body = m->length - all;
    if (from < all) {
        uint8_t head[HEAD_OCTETS + PROPERTIES_MOST] = { AMQP_DESCRIBED, AMQP_SMALLULONG, SECTION_HEADER,
                                      AMQP_LIST8, 4, 2, AMQP_FALSE, AMQP_UBYTE, m->priority, AMQP_DESCRIBED,
                                      AMQP_SMALLULONG, SECTION_PROPERTIES, AMQP_LIST8, 21, 3, AMQP_ULONG };
        const uint8_t data[] = { AMQP_DESCRIBED, AMQP_SMALLULONG, SECTION_DATA, AMQP_BINARY32 };
        be32_put(head + NUMBER_AT + 4, number);
        head[24] = AMQP_NULL;
        amqp_put_octets(head + 25, AMQP_STRING8, address_text(m->address), ADDRESS_OCTETS);
        if (m->properties) key_put(&m->way.key, head + 35);
        memcpy(head + all - 8, data, sizeof data);
        be32_put(head + all - 4, body);
        uint32_t n = size < all - from ? size : all - from;
        memcpy(to, head + from, n);
        from += n;
        to += n;
        size -= n;
    }
    if (size) memcpy(to, ledger.pattern + (number & 255) + (from - all), size);
}

/* A sender is told an outcome, or that it is over. */
static void message_told(uint32_t number, uint32_t state, bool settled)
{
    message *m = &ledger.all[number];
    if (state) m->told |= state_bit(state);
    if (m->properties) tables_heard(&m->way);
    if (settled) {
        HOLDS(!(m->flags & SETTLED), "message %u is settled twice", number);
        m->flags = (uint8_t) ((m->flags | SETTLED) & ~ALIVE);
        total.settled++;
        total.accepted += state == S_ACCEPTED;
    }
    if (state == S_ACCEPTED && m->address != SETTLING) {
        HOLDS(m->said & state_bit(S_ACCEPTED), "message %u is accepted, but nobody has accepted it", number);
        HOLDS(m->whole, "message %u is accepted, but nobody has all of it", number);
    }
    if (!state || state == S_RECEIVED || multicast(m) || disturbed(number)) return;
    const uint8_t outcomes = m->said & (uint8_t) ~state_bit(S_RECEIVED);
    HOLDS(!outcomes || outcomes & state_bit(state), "message %u: its sender is told %#x, its receiver said %#x", number,
          state, outcomes);
}

/* A receiver gets the beginning of a message. */
static void message_comes(uint32_t number)
{
    HOLDS(number && number <= ledger.count, "message %u does not exist", number);
    message *m = &ledger.all[number];
    m->copies++;
    total.received++;
    HOLDS(multicast(m) || m->sourced.on || m->copies == 1, "message %u comes %u times", number, m->copies);
}

/* A copy of a message to a route table comes to an endpoint: together they are what one table wants. */
static void message_at_endpoint(uint32_t number, uint32_t address)
{
    message *m = &ledger.all[number];
    char text[200];
    HOLDS(address >= ENDPOINT && address < NODE, "message %u to a route table comes to address %u", number, address);
    tables_heard(&m->way);
    m->way.got[address - ENDPOINT]++;
    tables_way_text(&m->way, text, sizeof text);
    HOLDS(tables_allow(&m->way, m->way.until, 0), "no table sends message %u so: %s", number, text);
}

/* A message with a source route comes, or a copy of a tee does. */
static void message_by_route(uint32_t number, uint32_t address, const stops *onward, const stops *back,
                             bool settled)
{
    message *m = &ledger.all[number];
    char text[240];
    const enum sourced_copy which = sourced_comes(&m->sourced, (uint8_t) address, onward, back);
    sourced_text(&m->sourced, onward, back, text, sizeof text);
    HOLDS(which == COPY_MAIN || (which == COPY_OF_TEE && settled), "no route takes message %u to %u: %s", number,
          address, text);
    m->sourced.copies += !settled;         /* what comes settled may be a tee's */
    total.detours += back->count > m->sourced.back.count;
    HOLDS(multicast(m) || m->sourced.copies < 2, "message %u comes twice by its route: %s", number, text);
}

static void route_rests(uint32_t number)
{
    const message *m = &ledger.all[number];
    char text[240];
    sourced_text(&m->sourced, &m->sourced.onward, &m->sourced.back, text, sizeof text);
    HOLDS(m->sourced.copies || sourced_rests(&m->sourced, m->told & state_bit(S_REJECTED) ? S_REJECTED : S_RELEASED),
          "message %u has not come by its route, told %#x: %s", number, m->told, text);
}

/* Nothing is on its way: it has all copies that one table wants, and its sender heard the worst outcome of them. */
static void way_rests(uint32_t number)
{
    static const uint8_t worst[] = { S_REJECTED, S_ACCEPTED, S_MODIFIED, S_RELEASED };
    const message *m = &ledger.all[number];
    char text[200];
    uint32_t told = 0, said = 0;
    for (uint32_t i = 4; i--;) {
        if (m->told & state_bit(worst[i])) told = worst[i];
        if (m->said & state_bit(worst[i])) said = worst[i];
    }
    tables_way_text(&m->way, text, sizeof text);
    HOLDS(!said || told == said || tables_left(&m->way), "message %u: its receivers said %#x, its sender is told %#x",
          number, m->said, m->told);
    HOLDS(tables_allow(&m->way, m->way.until, told), "no table leaves message %u so, told %#x: %s", number, m->told,
          text);
}

/* It has all of it. */
static void message_complete(uint32_t number, bool settled)
{
    message *m = &ledger.all[number];
    m->whole++;
    HOLDS(settled || !(m->flags & PRESETTLED), "message %u was settled, and comes unsettled", number);
    HOLDS(m->flags & WHOLE, "message %u comes whole, but its sender has not said all of it", number);
}

static void message_said(uint32_t number, uint32_t state)
{
    message *m = &ledger.all[number];
    m->said |= state_bit(state);
}

static void turns_rest(void)
{
    if (!tables.on) return;
    turn_begins();
    for (uint32_t i = ledger.rested + 1; i <= ledger.count; i++) {
        const message *m = &ledger.all[i];
        if (!m->properties || (m->way.until && m->way.until < tables.states)) continue;
        turn_taken(&m->way);
    }
    turns_check();
}

/* Nothing is on its way: whoever waited has been told. */
static void ledger_rests(void)
{
    turns_rest();
    for (uint32_t i = ledger.rested + 1; i <= ledger.count; i++) {
        const message *m = &ledger.all[i];
        HOLDS(!(m->flags & ALIVE),
              "message %u (of sender %u to %s, %u octets, told %#x, said %#x, copies %u) is never settled",
              i, m->sender, (const char *) address_text(m->address), m->length, m->told, m->said, m->copies);
        if (disturbed(i) || i < ledger.moved || m->flags & (PRESETTLED | ABORTED | OF_SENDER)) continue;
        if (m->properties && m->way.until) way_rests(i);
        if (m->sourced.on && shared.arena_bytes >= MUCH) route_rests(i);
        HOLDS(!(m->wanted & ~m->hops), "message %u has come to routers %#x of %#x", i, m->hops, m->wanted);
    }
    ledger.rested = ledger.count;
}

#endif
