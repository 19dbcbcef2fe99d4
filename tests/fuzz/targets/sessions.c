/* Two ends of a data lane's session that talk in pieces, without sockets: they agree on delivery-ids, delivery-counts,
 * credit and windows, and each delivery arrives once, with its octets, also where the numbers wrap.
 * Each frame stands in an allocation of its own size, for AddressSanitizer.
 */
#include "tests/fuzz/parts/lane.h"

enum { LINKS = 3, UNDERWAY = 1 << 16, LONGEST_MESSAGE = 900, FRAME_MOST = 256 };

typedef struct { uint32_t length, sent, id; bool settled, aborted; uint8_t seed; } message;

typedef struct {
    lane_session s;
    lane_link links[LINKS];
    uint8_t *wire;                     /* octets on their way to this end */
    uint32_t there, taken;
    message now[LINKS];                /* what goes or comes */
    uint32_t messages[LINKS], unsettled;
    bool stretched;                    /* a range took deliveries whose own DISPOSITION still comes */
} end;

static uint8_t octet_of(const message *m, uint32_t at) { return (uint8_t) (m->seed + at * 7); }

static uint8_t *wire_room(end *e)
{
    CHECK(e->there + FRAME_ROOM <= UNDERWAY, "the wire is full");
    return e->wire + e->there;
}

static void tell_flow(end *from, end *to, uint32_t link)
{
    lane_flow w;
    lane_say(&from->s, link < LINKS ? &from->links[link] : NULL, &w);
    w.echo = one_in(20) && link < LINKS && from->links[link].outgoing;
    to->there += lane_put_flow(wire_room(to), 1, &w);
}

static void tell_range(end *from, end *to)
{
    lane_disposition d;
    if (lane_range_take(&from->s.range, &d)) to->there += lane_put_disposition(wire_room(to), 1, &d);
}

/* One TRANSFER of a link, with a part of its message. */
static void send_one(end *a, end *b, uint32_t link)
{
    message *m = &a->now[link];
    lane_link *k = &a->links[link];
    lane_transfer t = { .has_settled = true };
    uint32_t tag = some_number();
    if (!k->begun) {
        *m = (message) { .length = below(LONGEST_MESSAGE), .settled = one_in(3), .seed = (uint8_t) below(256) };
        t.tag = (amqp_octets) { (const uint8_t *) &tag, sizeof tag };
        t.has_format = true;
        t.format = m->length;                                  /* the other end checks by it */
        t.settled = m->settled;
    } else if (one_in(9)) {
        t.aborted = m->aborted = true;
    }
    t.settled = m->settled;
    uint32_t n = choices_left() ? below(FRAME_MOST - LANE_TRANSFER_MAX) : FRAME_MOST - LANE_TRANSFER_MAX - 1;
    if (n > m->length - m->sent) n = m->length - m->sent;
    t.more = !t.aborted && m->sent + n < m->length;
    bool first = !k->begun;
    lane_send(&a->s, k, &t);
    m->id = t.id;
    if (first) a->messages[link]++;
    if (!m->settled && !t.aborted && !t.more) {
        CHECK(lane_map_put(&a->s.out, t.id, link + 1), "no memory");
        a->unsettled++;
    }
    uint8_t *frame = wire_room(b), *at = lane_put_transfer(frame, 1, &t);
    *at++ = m->seed;                                           /* of the first octet of this piece */
    at[-1] = octet_of(m, m->sent);
    for (uint32_t i = 1; i < n; i++) *at++ = octet_of(m, m->sent + i);
    if (!n) at--;
    m->sent += n;
    b->there += lane_put_size(frame, at);
}

static void transfer_heard(end *b, const lane_frame *f)
{
    lane_transfer t;
    lane_piece piece;
    CHECK(lane_transfer_read(f, &t) == LANE_FINE && t.handle < LINKS, "malformed");
    enum lane_fault fault = lane_receive(&b->s, &b->links[t.handle], &t, &piece);
    CHECK(!fault, "a fault: %s", lane_faults[fault].description);
    message *m = &b->now[t.handle];
    if (piece.first) {
        *m = (message) { .length = t.format };
        if (f->payload_size) m->seed = f->payload[0];
        b->messages[t.handle]++;
        CHECK(t.has_id && t.tag.at, "a first TRANSFER without its numbers");
    }
    for (uint32_t i = 0; i < f->payload_size && !piece.aborted; i++) {
        if (!m->sent) m->seed = f->payload[0];
        CHECK(f->payload[i] == octet_of(m, m->sent), "octet %u of a message is another one", m->sent);
        m->sent++;
    }
    if (one_in(2)) {                                           /* its content waits */
        b->s.held++;
    }
    if (!piece.last) return;
    CHECK(piece.aborted || m->sent == m->length, "a message of %u octets has %u", m->length, m->sent);
    if (piece.settled) return;
    CHECK(lane_map_put(&b->s.in, b->links[t.handle].id, t.handle + 1), "no memory");
    b->unsettled++;
}

static void flow_heard(end *e, const lane_frame *f)
{
    lane_flow w;
    CHECK(lane_flow_read(f, &w) == LANE_FINE, "malformed");
    lane_link *k = w.has_handle ? &e->links[w.handle] : NULL;
    lane_heard heard = lane_hear(&e->s, k, &w);
    if (k && k->outgoing && k->drain && !k->begun && one_in(2)) lane_drained(k);
    if (k && heard.returned) CHECK(!k->outgoing && k->drain, "credit came back without a drain");
    /* a sender that has not heard what was withdrawn may answer the drain with it */
    if (k && !k->outgoing && k->drain && !k->credit && !k->withdrawn) k->drain = false;
}

static void disposition_heard(end *e, const lane_frame *f)
{
    lane_disposition d;
    CHECK(lane_disposition_read(f, &d) == LANE_FINE && d.receiver && d.settled, "malformed");
    uint32_t expected = d.last - d.first + 1, n = 0;
    if (one_in(100)) {                                         /* more than there is */
        d.first -= 0x10000000;
        d.last += 0x10000000;
        e->stretched = true;
    }
    for (uint32_t id = d.first; lane_map_next(&e->s.out, &id, d.last); n++) {
        CHECK(lane_map_take(&e->s.out, id), "none");
        e->unsettled--;
        if (id++ == d.last) { n++; break; }
    }
    CHECK(e->stretched || n == expected, "%u deliveries for %u", n, expected);
}

/* Takes the whole frames among some of the octets that are on their way. */
static void hear(end *e, uint32_t arrived)
{
    for (;;) {
        lane_frame f;
        size_t size = lane_frame_size(e->wire + e->taken, arrived - e->taken, FRAME_MOST);
        CHECK(size != AMQP_WRONG, "no frame");
        if (!size || size > arrived - e->taken) break;
        uint8_t *frame = copy_of(e->wire + e->taken, size);
        CHECK(lane_frame_read(frame, size, &f) == LANE_FINE, "malformed");
        if (f.performative == LANE_TRANSFER) transfer_heard(e, &f);
        else if (f.performative == LANE_FLOW) flow_heard(e, &f);
        else disposition_heard(e, &f);
        free(frame);
        e->taken += (uint32_t) size;
    }
    if (e->taken != e->there) return;
    e->taken = e->there = 0;
}

static void settle_one(end *b, end *a)
{
    static const uint8_t accepted[] = { 0, AMQP_SMALLULONG, LANE_ACCEPTED, AMQP_LIST0 };
    uint32_t id = b->s.id_in - 0x40000000;
    for (uint32_t skip = below(4); lane_map_next(&b->s.in, &id, b->s.id_in); id++) {
        if (skip-- && b->unsettled > 4) continue;
        lane_map_take(&b->s.in, id);
        b->unsettled--;
        amqp_value state = one_in(9) ? (amqp_value) { NULL, 0 } : (amqp_value) { accepted, sizeof accepted };
        if (lane_range_add(&b->s.range, true, true, id, state)) return;
        tell_range(b, a);
        CHECK(lane_range_add(&b->s.range, true, true, id, state), "a short state is not merged");
        return;
    }
}

static void what_is_due(end *a, end *b)
{
    tell_range(a, b);
    for (uint32_t i = 0; i < LINKS; i++) if (a->links[i].tell) tell_flow(a, b, i);
    if (a->s.tell) tell_flow(a, b, LINKS);
}

/* A sender and a receiver, until they have had enough; then all is settled, and they agree. */
static void two_ends(void)
{
    static end a, b;
    uint32_t first = one_in(2) ? 0xffffff00 : some_number(), window = 4 + below(40);
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    a.wire = malloc(UNDERWAY);
    b.wire = malloc(UNDERWAY);
    lane_session_open(&a.s, 8);
    lane_session_open(&b.s, window);
    a.s.next_out = a.s.id_out = first;                         /* a client may begin anywhere */
    lane_session_begun(&a.s, &(lane_begin) { .next_out = 0, .in_window = window });
    lane_session_begun(&b.s, &(lane_begin) { .next_out = first, .in_window = 8 });
    for (uint32_t i = 0; i < LINKS; i++) {
        a.links[i] = (lane_link) { .handle = i, .outgoing = true, .count = first };
        b.links[i] = (lane_link) { .handle = i, .count = first };
    }
    for (uint32_t round = 0; round < 3000 && choices_left(); round++) {
        uint32_t i = below(LINKS);
        switch (below(9)) {
        case 0: case 1: case 2:
            if (round < 2500 && a.s.out_window && (a.links[i].begun || a.links[i].credit))
                send_one(&a, &b, i);
            else if (a.links[i].begun && a.s.out_window) send_one(&a, &b, i);
            break;
        case 3: if (b.links[i].credit < 30) lane_grant(&b.links[i], below(20)); break;
        case 4: if (one_in(10) && b.links[i].credit) b.links[i].drain = b.links[i].tell = true; break;
        case 5: if (b.s.held) lane_release(&b.s, 1 + below(b.s.held)); break;
        case 6: settle_one(&b, &a); break;
        case 7: if (one_in(4)) lane_withdraw(&b.links[i], below(20)); break;
        default: what_is_due(&b, &a); what_is_due(&a, &b);
        }
        if (a.links[i].drain && !a.links[i].begun) lane_drained(&a.links[i]);
        hear(&a, a.taken + below(a.there - a.taken + 1));
        hear(&b, b.taken + below(b.there - b.taken + 1));
    }
    for (uint32_t round = 0, busy = 1; busy && round < 2000; round++) {        /* to the end */
        busy = 0;
        if (b.s.held) lane_release(&b.s, b.s.held);
        for (uint32_t i = 0; i < LINKS; i++) {
            if (a.links[i].begun && a.s.out_window) send_one(&a, &b, i);
            if (a.links[i].drain && !a.links[i].begun) lane_drained(&a.links[i]);
        }
        busy |= b.unsettled;
        while (b.unsettled) settle_one(&b, &a);
        what_is_due(&a, &b);
        what_is_due(&b, &a);
        busy |= a.there != a.taken || b.there != b.taken;
        hear(&a, a.there);
        hear(&b, b.there);
    }
    CHECK(!a.unsettled && !b.unsettled && !a.s.out.pages && !b.s.in.pages, "%u and %u are unsettled", a.unsettled,
          b.unsettled);
    CHECK(a.s.next_out == b.s.next_in && a.s.id_out == (b.s.id_known ? b.s.id_in : first), "other numbers");
    for (uint32_t i = 0; i < LINKS; i++)
        CHECK(!a.links[i].begun && a.messages[i] == b.messages[i] && a.links[i].count == b.links[i].count
              && a.links[i].credit == b.links[i].credit, "link %u: counts %u and %u, credit %u and %u", i,
              a.links[i].count, b.links[i].count, a.links[i].credit, b.links[i].credit);
    lane_session_end(&a.s);
    lane_session_end(&b.s);
    free(a.wire);
    free(b.wire);
}

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t size)
{
    input_open(octets, size);
    two_ends();
    return 0;
}
