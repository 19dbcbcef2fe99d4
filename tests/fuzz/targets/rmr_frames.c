/* Frames of RMR's transport as AMQP messages and back: byte for byte for those in order, and never a step outside for
 * the others.
 *
 *   - whatever the bytes, a frame that is measured lies inside what it was measured in
 *   - a frame in order becomes a message in order, whose key is the frame's, and that message becomes the same frame
 *     again
 *   - all text in such a message is UTF-8, whatever stands in the frame
 *   - a message that is cut off or damaged becomes a frame inside of it, or none; which one does not depend on what was
 *     made before
 *   - what is read at fixed places is what a scan finds there
 * Each input stands in an allocation of its own size, for AddressSanitizer.
 */
#define ROUTERD_UNITY

#include "tests/fuzz/parts/input.h"
#include "workers/rmr/amqp.c"
#include "workers/rmr/ask.c"
#include "workers/rmr/frame.c"
#include "workers/rmr/siphash.c"

#define LONGEST 2000u

static void fill_text(uint8_t *field, uint32_t size)
{
    uint32_t n = below(size);
    for (uint32_t i = 0; i < n; i++) field[i] = (uint8_t) ('a' + below(26));
    if (!below(3)) for (uint32_t i = 0; i < n; i++) field[i] = (uint8_t) (1 + below(255));
}

static void check_text(const uint8_t *p, const uint8_t *end)
{
    while (p < end) {
        amqp_value v = amqp_take(p, end, 0);
        CHECK(v.at, "no value");
        amqp_octets text = amqp_text(v);
        amqp_cursor items;
        uint32_t count;
        CHECK(!text.at || utf8_valid(text.at, text.size), "a string that is no text");
        if (amqp_list(v, &items, &count) || amqp_map(v, &items, &count)) check_text(items.at, items.end);
        p += v.size;
    }
}

/* The strings of a message in order, up to its body. */
static void check_texts(const uint8_t *message, const uint8_t *body)
{
    while (message < body) {
        size_t n = amqp_size(message + 3, body, 0);
        check_text(message + 3, message + 3 + n);
        message += 3 + n;
    }
}

/* What stands behind the transport's header; its length. */
static uint32_t some_frame(uint8_t *at)
{
    uint32_t own = below(4) ? RMR_HEADER : below(2) ? RMR_HEADER_OLD : RMR_HEADER + below(100), trace = below(2)
        ? below(60) : 0, d1 = below(6), d2 = below(3) ? 0 : below(20), payload = below(300);
    memset(at, 0, LONGEST);
    be32_put(at + RMR_MT, 100 + below(1000));
    be32_put(at + RMR_PAYLOAD, payload);
    be32_put(at + RMR_VER, 3);
    scribble(at + RMR_XACT, RMR_XACT_BYTES + RMR_SID_BYTES);
    fill_text(at + RMR_SOURCE, RMR_SOURCE_BYTES);
    fill_text(at + RMR_MEID, RMR_MEID_BYTES);
    at[RMR_FLAGS] = (uint8_t) (below(2) ? RMR_CALL : 0);
    be32_put(at + RMR_LEN0, own);
    be32_put(at + RMR_LEN1, trace);
    be32_put(at + RMR_LEN2, d1);
    be32_put(at + RMR_LEN3, d2);
    be32_put(at + RMR_SUBID, below(3) ? below(100) : UINT32_MAX);
    uint32_t size = own + trace + d1 + d2 + payload;
    scribble(at + RMR_ADDRESS, size - RMR_ADDRESS);
    return size;
}

/* One that is measured lies inside. */
static bool measure(const uint8_t *frame, uint32_t size, rmr_parts *parts)
{
    uint8_t *copy = copy_of(frame, size);
    bool good = size >= RMR_HEADER_OLD && rmr_measure(copy, size, parts);
    if (good) {
        CHECK((uint64_t) parts->head + parts->payload <= size, "a part lies outside: %u and %u of %u", parts->head,
              parts->payload, size);
        rmr_answers_call(copy);
    }
    free(copy);
    return good;
}

static void wrong_lengths(const uint8_t *frame, uint32_t size)
{
    static const uint32_t wrong[] = { 0, 1, 215, 217, 0x7fffffff, 0x80000000, 0xffffffff, 0xffffff00 };
    uint8_t damaged[LONGEST];
    rmr_parts parts;
    for (uint32_t at = 0; at < size && at < 216; at += 4) {
        for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            memcpy(damaged, frame, size);
            be32_put(damaged + at, wrong[i]);
            if (at == RMR_PAYLOAD && wrong[i] > size)
                CHECK(!measure(damaged, size, &parts), "payload of %u in %u", wrong[i], size);
            if (at >= RMR_LEN0 && at <= RMR_LEN3 && wrong[i] > size)
                CHECK(!measure(damaged, size, &parts), "length %u at %u in %u", wrong[i], at, size);
            measure(damaged, size, &parts);
        }
    }
    for (uint32_t cut = 0; cut < size; cut++)
        CHECK(!measure(frame, cut, &parts), "a frame of %u octets is found in %u", size, cut);
}

/* A message from the frame, in `to`; its length. */
static uint32_t message_of(const uint8_t *frame, const rmr_parts *parts, uint8_t *to)
{
    static const char names[] = "table/$conn/router/17";
    const rmr_address none = { NULL, 0 }, some = { names, sizeof names - 1 };
    static const uint8_t id[] = { AMQP_STRING8, 2, 'i', 'd' };
    uint8_t call[RMR_CALL_TEXT];
    rmr_wanted want = { .to = below(2) ? some : none, .reply_to = below(2) ? some : none, .conn = below(3) ? none
        : some };
    rmr_call_put(call, frame);
    if (!below(3)) want.call = call;
    if (!below(3)) { want.id = id; want.id_length = sizeof id; }
    scan_found found, again;
    rmr_key key, other;
    uint8_t *front = malloc(RMR_FRONT_MAX);
    uint32_t length = rmr_compose(front, frame, parts, frame + RMR_SOURCE, &want, &found, &key);
    memcpy(to, front, length);
    free(front);
    memcpy(to + length, frame + parts->head, parts->payload);
    length += parts->payload;
    check_texts(to, to + length - parts->payload - 8);
    uint8_t *copy = copy_of(to, length);
    CHECK(scan_message(copy, length, true, &again) == SCAN_DONE
          && rmr_key_there(copy, length, true, &again) == SCAN_DONE, "%s", again.why);
    CHECK(rmr_key_scan(copy, length, &again, &other) == SCAN_DONE && !memcmp(&key, &other, sizeof key),
          "the key is another one");
    CHECK(again.annotations_end == found.annotations_end && again.properties == found.properties && again.to == found.to
          && again.to_length == found.to_length
          && again.application_properties == found.application_properties
          && again.message_annotations == found.message_annotations, "a section stands elsewhere");
    free(copy);
    return length;
}

/* What is read at the places where a frame's message has everything is what a scan of it finds, on whatever was made
 * last. */
static void same_by_scan(const uint8_t *message, uint32_t size, uint32_t length, const rmr_frame *made)
{
    static rmr_frame other;
    scan_found found;
    memset(&other, (int) below(256), sizeof other);
    enum rmr_made result = rmr_make_scanned(message, size, length, &other);
    if (result == RMR_PIECES && size < length) return;
    if (result != RMR_MADE) {
        CHECK(scan_message(message, size, size == length, &found) == SCAN_BAD && strstr(found.why, "properties"),
              "no frame by a scan: %s", found.why ? found.why : "in order");
        return;
    }
    CHECK(other.head_length == made->head_length && !memcmp(other.head, made->head, made->head_length),
          "another header by a scan");
    CHECK(other.payload == made->payload && other.payload_length == made->payload_length
          && other.annotated == made->annotated && other.asks == made->asks, "another payload by a scan");
}

static void make(const uint8_t *message, uint32_t size, uint32_t length, bool whole, const uint8_t *frame,
                 const rmr_parts *parts)
{
    static rmr_frame made;
    uint8_t *copy = copy_of(message, size);
    memset(&made, (int) below(256), sizeof made);
    enum rmr_made result = rmr_make(copy, size, length, &made);
    if (result == RMR_MADE) {
        CHECK((uint64_t) made.payload + made.payload_length <= length, "the payload lies outside");
        CHECK(be32(made.head + RMR_PAYLOAD) == made.payload_length, "the payload's length is another one");
        same_by_scan(copy, size, length, &made);
    }
    if (result == RMR_PIECES && size == length && rmr_join(copy, size, &made))
        CHECK((uint64_t) made.payload + made.payload_length <= size, "joined too much");
    if (whole && result != RMR_PIECES) {
        CHECK(result == RMR_MADE, "a frame's message makes none: %d", result);
        CHECK(rmr_recognise(copy, size, length, &made), "a frame's message is not recognised");
        CHECK(made.head_length == parts->head && !memcmp(made.head, frame, parts->head), "another header");
        CHECK(made.payload_length == parts->payload
              && !memcmp(message + made.payload, frame + parts->head, parts->payload), "another payload");
    }
    free(copy);
}

/* Damage where it matters: an octet anywhere, or of what is said about sections and their items, or an item that stands
 * there twice. */
static void damage(uint8_t *message, uint32_t length)
{
    uint32_t section = 0;
    for (uint32_t n = below(4), next; n; n--, section = next) {
        next = section + 8 + be32(message + section + 4);
        if (message[section + 3] == AMQP_BINARY32 || next + 12 > length) break;
    }
    uint8_t *items = message + section + RMR_SECTION;
    switch (below(6)) {
    case 0: message[section + below(12)] ^= (uint8_t) (1u << below(8)); return;
    case 1: message[section + 11] = (uint8_t) below(12); return;
    case 2: if (section + 60 < length) memcpy(items + 42, items, 9); return;                       /* rmr.mt */
    case 3: if (section + 60 < length) amqp_put_octets(items + 13, AMQP_STRING8, "rmr.sub-ie", 10); return;
    default: message[below(length)] = (uint8_t) below(256);
    }
}

static void tokens(void)
{
    uint8_t sid[RMR_SID_BYTES];
    uint64_t nonce = any();
    uint32_t number = below(UINT32_MAX), saved = below(UINT32_MAX);
    rmr_token_connection(sid, nonce, number, saved);
    rmr_token token = rmr_token_read(sid, nonce);
    CHECK(token.kind == TOKEN_CONNECTION && token.number == number && token.saved == saved, "another token");
    CHECK(rmr_token_read(sid, ~nonce).kind == TOKEN_NONE, "a token of another router counts");
    CHECK(rmr_token_endpoint(sid, nonce, (const uint8_t *) "app:4560", 8), "a short name does not fit");
    token = rmr_token_read(sid, nonce);
    CHECK(token.kind == TOKEN_ENDPOINT && token.length == 8 && !memcmp(token.text, "app:4560", 8), "another endpoint");
    for (uint32_t i = 0; i < RMR_SID_BYTES && choices_left(); i++) sid[i] = (uint8_t) below(256);
    rmr_token_read(sid, nonce);
}

/* A client's message with a reply-to as a frame, and that frame as its answer; with an octet changed it is none. */
static void questions(void)
{
    static const char text[] = "amqp:/_topo/0/router/temp.0123456789";
    static rmr_frame made;
    uint8_t key[SIPHASH_KEY], message[256], number = (uint8_t) below(256);
    rmr_parts parts;
    scribble(key, sizeof key);
    uint8_t *p = amqp_put(message + RMR_SECTION, AMQP_SMALLULONG, number);      /* message-id */
    for (int i = 0; i < 3; i++) p = amqp_put(p, AMQP_NULL, 0);
    p = amqp_put_octets(p, AMQP_STRING8, text, sizeof text - 1);
    rmr_section(message, SECTION_PROPERTIES, AMQP_LIST32, p, 5);
    uint8_t *section = p;
    p = rmr_put_number(section + RMR_SECTION, "rmr.mt", 6, 1000);
    rmr_section(section, SECTION_APPLICATION_PROPERTIES, AMQP_MAP32, p, 2);
    uint32_t size = (uint32_t) (p - message);
    CHECK(rmr_make(message, size, size, &made) == RMR_MADE && made.asks, "no question");
    uint32_t trace = be32(made.head + RMR_LEN1);
    rmr_ask_sign(key, made.head + RMR_HEADER, trace);
    CHECK(rmr_measure(made.head, made.head_length, &parts) && parts.head == made.head_length,
          "the head is not what it says");
    rmr_asked asked = rmr_ask_answered(key, made.head);
    CHECK(asked.length == sizeof text - 1 && !memcmp(asked.text, text, asked.length), "another reply-to");
    CHECK(asked.id_length == 2 && asked.id[0] == AMQP_SMALLULONG && asked.id[1] == number, "another id");
    made.head[RMR_HEADER + below(trace)] ^= (uint8_t) (1 + below(255));
    CHECK(!rmr_ask_answered(key, made.head).length, "a forged question is answered");
}

/* A client's answer to a blocking call, whose correlation-id stands there in either form: it has the transaction of the
 * call. */
static void answers(const uint8_t *frame)
{
    static rmr_frame made;
    uint8_t call[RMR_CALL_TEXT], message[512], *p = message + RMR_SECTION;
    rmr_call_put(call, frame);
    for (int i = 0; i < 5; i++) p = amqp_put(p, AMQP_NULL, 0);
    p = amqp_put_octets(p, below(2) ? AMQP_STRING8 : AMQP_STRING32, call, RMR_CALL_TEXT);
    rmr_section(message, SECTION_PROPERTIES, AMQP_LIST32, p, 6);
    uint32_t size = (uint32_t) (p - message);
    CHECK(rmr_make(message, size, size, &made) == RMR_MADE, "an answer without a type makes no frame");
    CHECK(!memcmp(made.head + RMR_XACT, frame + RMR_XACT, RMR_XACT_BYTES)
          && !memcmp(made.head + RMR_MT, frame + RMR_MT, 4), "another call");
}

static void octets_of_anything(void)
{
    rmr_parts parts;
    uint32_t size = (uint32_t) choices_left();
    if (measure(input.at, size, &parts)) CHECK(parts.head <= size, "a head that is longer than its frame");
}

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t octet_count)
{
    static uint8_t frame[LONGEST], message[2 * LONGEST];
    rmr_parts parts;
    input_open(octets, octet_count);
    if (!below(4)) { octets_of_anything(); return 0; }
    uint32_t size = some_frame(frame);
    CHECK(measure(frame, size, &parts) && parts.head + parts.payload == size, "a frame in order");
    if (!below(20)) wrong_lengths(frame, size);
    uint32_t length = message_of(frame, &parts, message);
    answers(frame);
    for (uint32_t cut = below(20); cut <= length; cut += 1 + below(20))
        make(message, cut, length, true, frame, &parts);
    make(message, length, length, true, frame, &parts);
    for (uint32_t n = 1 + below(3); n; n--) damage(message, length);
    for (uint32_t cut = below(20); cut <= length; cut += 1 + below(20))
        make(message, cut, length, false, frame, &parts);
    make(message, length, length, false, frame, &parts);
    tokens();
    questions();
    return 0;
}
