/* Router annotations, alone: whatever comes, nothing outside it is read, nothing is lost, and what goes on is a
 * message.
 *
 *   - a message is taken or refused with a reason, the same whether its bytes come at once or in pieces, in few blocks
 *     or many
 *   - what is taken can be sent on in every form, and a router reads in that form what the one before has written
 *   - a content header that lies makes no sense to the sender, or it sends something; it never reads outside the arena
 * Inputs: messages with annotations of every form, the same with damaged bytes.
 */
#include "tests/fuzz/parts/input.h"
#include "tests/native/hop.h"

#define LONGEST 40000u

typedef struct { uint8_t byte[LONGEST]; size_t size; } text;

static hop *h;

/* ---- making messages ---- */

static void add(text *t, const void *bytes, size_t size)
{
    CHECK(t->size + size <= LONGEST, "the test's own message is too long");
    memcpy(t->byte + t->size, bytes, size);
    t->size += size;
}

static void add_byte(text *t, uint32_t byte) { uint8_t b = (uint8_t) byte; add(t, &b, 1); }

static void add_u32(text *t, uint32_t n)
{
    uint8_t bytes[4];
    be32_put(bytes, n);
    add(t, bytes, 4);
}

static void add_descriptor(text *t, uint8_t section)
{
    uint8_t bytes[3];
    amqp_put_descriptor(bytes, section);
    add(t, bytes, 3);
}

static void add_string(text *t, uint8_t code, const char *bytes, uint32_t size)
{
    bool wide = size > 255 || !below(4);
    add_byte(t, wide ? code | (uint32_t) AMQP_WIDE : code);
    if (wide) add_u32(t, size);
    else add_byte(t, size);
    add(t, bytes, size);
}

static void add_some_string(text *t)
{
    static const char letters[4200] = { 0 };
    add_string(t, AMQP_STRING8, letters, below(20) ? below(40) : below(20) ? 250 + below(20) : 4000 + below(200));
}

static void add_compound(text *t, bool map, const text *fields, uint32_t count)
{
    bool wide = fields->size > 250 || count > 250 || below(2);
    if (!map && !count && below(2)) { add_byte(t, AMQP_LIST0); return; }
    add_byte(t, (wide ? AMQP_LIST32 : AMQP_LIST8) | map);
    if (wide) { add_u32(t, (uint32_t) fields->size + 4); add_u32(t, count); }
    else { add_byte(t, (uint32_t) fields->size + 1); add_byte(t, count); }
    add(t, fields->byte, fields->size);
}

static void add_trace(text *t)
{
    text ids = { .size = 0 };
    uint32_t count = below(30) ? below(5) : below(100);
    for (uint32_t i = 0; i < count; i++) add_string(&ids, AMQP_STRING8, "0/router-number-one", 3 + below(16));
    add_compound(t, false, &ids, count);
}

static void add_value(text *t)
{
    switch (below(6)) {
    case 0: add_trace(t); return;
    case 1: add_byte(t, AMQP_NULL); return;
    case 2: add_byte(t, AMQP_SMALLINT); add_byte(t, below(256)); return;
    case 3: add_byte(t, AMQP_UINT); add_u32(t, below(16)); return;
    default: add_some_string(t);
    }
}

static void add_section(text *t, enum content_annotations form)
{
    text fields = { .size = 0 };
    uint32_t more = below(3);
    if (form == ANNOTATIONS_SECTION && below(2)) {
        add_byte(t, AMQP_DESCRIBED);
        add_string(t, AMQP_SYMBOL8, "skupper:router-annotations", 26);
    } else add(t, form == ANNOTATIONS_SECTION ? scan_section_ours : scan_section_skupper, SCAN_ROUTERS_DESCRIPTOR);
    if (form == ANNOTATIONS_SECTION) add_byte(&fields, AMQP_UBYTE);
    else add_byte(&fields, AMQP_SMALLUINT);
    add_byte(&fields, below(256));
    if (below(2)) add_some_string(&fields); else add_byte(&fields, AMQP_NULL);
    if (below(2)) add_string(&fields, AMQP_STRING8, "0/first", 7); else add_byte(&fields, AMQP_NULL);
    add_trace(&fields);
    for (uint32_t i = 0; i < more; i++) add_value(&fields);
    add_compound(t, false, &fields, 4 + more);
}

static void add_map(text *t)
{
    static const char *keys[] = { "phase", "stream", "to", "ingress", "trace", "class", "" };
    text items = { .size = 0 };
    uint32_t pairs = below(9), used = 0;
    for (uint32_t i = 0; i < pairs; i++) {
        uint32_t k = below(14);
        char name[32];
        if (k < 7 && (!(used & 1u << k) || !below(10))) {
            used |= 1u << k;
            snprintf(name, sizeof name, "x-opt-qd.%s", keys[k]);
        } else {
            snprintf(name, sizeof name, "user-%u", i);
        }
        add_string(&items, AMQP_SYMBOL8, name, (uint32_t) strlen(name));
        if (k == 4 && below(4)) add_trace(&items);
        else if (k < 7 && below(4)) add_string(&items, AMQP_STRING8, "0/somebody", below(11));
        else add_value(&items);
        if (items.size > 2000) { pairs = i + 1; break; }
    }
    if (below(3)) add_descriptor(t, SECTION_MESSAGE_ANNOTATIONS);
    else { add_byte(t, AMQP_DESCRIBED); add_string(t, AMQP_SYMBOL8, "amqp:message-annotations:map", 28); }
    add_compound(t, true, &items, 2 * pairs);
}

static text some_message(void)
{
    static const uint8_t header[] = { AMQP_LIST8, 4, 2, AMQP_TRUE, AMQP_UBYTE, 7 }, none[] = { AMQP_MAP8, 1, 0 };
    static const uint8_t properties[] = { AMQP_LIST8, 7, 3, AMQP_NULL, AMQP_NULL, AMQP_STRING8, 2, 't', 'o' };
    static const uint8_t body[] = { AMQP_STRING8, 4, 'b', 'o', 'd', 'y' };
    text t = { .size = 0 };
    uint32_t front = below(3);
    if (front) add_section(&t, front == 1 ? ANNOTATIONS_SECTION : ANNOTATIONS_SKUPPER);
    if (below(2)) { add_descriptor(&t, SECTION_HEADER); add(&t, header, sizeof header); }
    if (below(4) == 0) { add_descriptor(&t, SECTION_DELIVERY_ANNOTATIONS); add(&t, none, sizeof none); }
    if (below(2)) add_map(&t);
    if (t.size && !below(8)) return t;                     /* annotations, and nothing that they are about */
    if (below(2)) { add_descriptor(&t, SECTION_PROPERTIES); add(&t, properties, sizeof properties); }
    add_descriptor(&t, SECTION_VALUE);
    add(&t, body, sizeof body);
    return t;
}

static void damage(text *t)
{
    for (uint32_t n = 1 + below(3); n; n--) {
        size_t at = below(below(2) || t->size < 40 ? (uint32_t) t->size : 40);
        if (below(2)) t->byte[at] = (uint8_t) below(256);
        else t->byte[at] ^= (uint8_t) (1u << below(8));
    }
    if (!below(4)) t->size = 1 + below((uint32_t) t->size);
}

/* ---- checking ---- */

static bool pass(const hop_terms *t, const text *m)
{
    uint8_t *exact = (uint8_t *) malloc(m->size);
    uint32_t before = h->p.arena.free_count[0] + h->p.arena.free_count[1];
    CHECK(exact, "no memory");
    memcpy(exact, m->byte, m->size);
    bool done = hop_pass(h, t, exact, m->size);
    free(exact);
    CHECK(done || h->why, "taken, but the content header made no sense");
    CHECK(done || h->condition, "refused without a condition");
    CHECK(h->p.arena.free_count[0] + h->p.arena.free_count[1] == before, "blocks are lost");
    return done;
}

static hop_terms some_terms(void)
{
    static const char *ids[] = { "0/A", "", "0/a-router-with-a-rather-long-name" };
    static const uint8_t to[300] = "somewhere/else";
    hop_terms t = { .trusted = (uint8_t) below(16), .form = (uint8_t) below(4), .state = (uint8_t) below(64),
        .id = ids[below(3)], .to = to };
    t.to_length = below(2) ? 0 : below(4) ? 14 : 300;
    return t;
}

/* In one piece or in many, the outcome is the same. */
static bool check_pieces(hop_terms t, const text *m, text *out)
{
    bool taken = pass(&t, m);
    out->size = 0;
    if (taken && h->out.used <= LONGEST) add(out, h->out.bytes, h->out.used);
    else taken = false;
    t.small = below(2);
    t.step = 1 + below(40);
    if (m->size / t.step > 200) t.step = m->size / 200;
    bool again = pass(&t, m);
    CHECK(again == taken || !out->size, "in pieces of %zu: %s", t.step, h->why ? h->why : "taken");
    CHECK(!taken || (out->size == h->out.used && !memcmp(out->byte, h->out.bytes, out->size)), "another message");
    return taken;
}

/* What one router writes, the next one takes, and says the same with the same keys. */
static void check_next(const hop_terms *t, const text *m)
{
    hop_terms next = *t;
    arena_content before = h->content;
    next.trusted = annotations_form_bit((enum content_annotations) t->form);
    next.to_length = 0;
    next.state = 0;
    CHECK(pass(&next, m), "form %u as we write it is refused: %s", t->form, h->why);
    const arena_content *c = &h->content;
    CHECK(!(c->routed & ROUTED_IGNORED), "something was left in it that is not trusted");
    if (t->form == ANNOTATIONS_NONE) { CHECK(c->annotations == ANNOTATIONS_NONE, "something was left"); return; }
    bool afresh = !before.annotations || (t->state & SEND_AFRESH);
    uint32_t traced = !*t->id ? 0 : 1 + (afresh ? 0 : before.trace_count);
    CHECK(hop_traced(c) == traced, "a trace of %u, not %u", hop_traced(c), traced);
    CHECK(hop_users(c) == hop_users(&before) && hop_user_bytes(c) == hop_user_bytes(&before),
          "the user's entries have changed");
    if (t->to_length) CHECK(c->routed & ROUTED_OVERRIDE && c->to_length == t->to_length,
                            "the override is not the core's");
    if (t->form == ANNOTATIONS_MAP || t->form == ANNOTATIONS_SECTION)
        CHECK(c->phase == ((t->state & SEND_PHASE) <= 9 ? (t->state & SEND_PHASE) : 0), "the phase");
}

/* The header is shared memory: a sender must bear anything in it. */
static void check_lies(const hop_terms *t, const text *m)
{
    static uint8_t bytes[LONGEST + 90000];                 /* with a body that a lie can point into */
    hop_terms in = *t;
    in.trusted = 0x0e;
    memcpy(bytes, m->byte, m->size);
    uint32_t head = hop_take(h, &in, bytes, m->size + (below(2) ? 90000 : 0));
    if (head == ROUTERD_NIL) return;
    arena_content *c = arena_content_of(&h->p.arena.view, head);
    arena_content honest = *c;
    uint32_t *fields[] = { &c->to_offset, &c->to_length, &c->message_annotations, &c->annotations_end, &c->section_end,
        &c->user_from, &c->user_to, &c->user_count,
                           &c->ingress, &c->ingress_length, &c->trace, &c->trace_length, &c->trace_count, &c->tail,
                           &c->tail_length, &c->tail_count, &c->section_flags };
    for (uint32_t n = 1 + below(3); n; n--) {
        static const uint32_t likely[] = { 0, 1, 10, 255, 256, 50000, UINT32_MAX - 3, UINT32_MAX };
        uint32_t *f = fields[below(sizeof fields / sizeof *fields)];
        *f = below(2) ? likely[below(8)] : below(2) ? *f + below(64) - 32 : below((uint32_t) m->size + 1);
    }
    if (!below(4)) c->annotations = (uint8_t) below(5);
    /* the last one ends with the arena */
    if (!below(4)) c->key_block = below(2) ? HOP_SMALL + HOP_LARGE - 1 : below(8000);
    hop_send(h, t, head, 0);
    *c = honest;
    CHECK(arena_free_chain(&h->p.arena, head), "lost");
}

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t size)
{
    if (!h) h = hop_new();
    input_open(octets, size);
    uint32_t how = below(8);
    hop_terms t = some_terms();
    text m = some_message(), out;
    if (how & 1) damage(&m);
    if (how & 2) check_lies(&t, &m);
    if (check_pieces(t, &m, &out) && (t.state & SEND_PHASE) <= 9) check_next(&t, &out);
    return 0;
}
