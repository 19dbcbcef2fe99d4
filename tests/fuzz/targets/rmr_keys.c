/* The scan for a route table's key: whatever the bytes, it stays inside them, and what it reports lies inside, too.
 *
 * Every prefix of messages in order and of damaged ones, each in an allocation of its own size for AddressSanitizer.
 * A message in order has the key that it was made with once its sections are there.
 */
#include "tests/fuzz/parts/input.h"
#include "shm/codec/rmr_key.h"

#define LONGEST 600u

typedef struct { uint8_t byte[LONGEST]; size_t size; } text;

static void put(text *t, uint8_t byte)
{
    CHECK(t->size < LONGEST, "the test's own message is too long");
    t->byte[t->size++] = byte;
}

static void put_all(text *t, const uint8_t *bytes, size_t size) { while (size--) put(t, *bytes++); }

static void put_u32(text *t, uint32_t value)
{
    uint8_t bytes[4];
    put_all(t, bytes, (size_t) (be32_put(bytes, value) - bytes));
}

static void put_text(text *t, uint8_t code, const char *prefix, const char *name)
{
    put(t, code);
    put(t, (uint8_t) (strlen(prefix) + strlen(name)));
    while (*prefix) put(t, (uint8_t) *prefix++);
    while (*name) put(t, (uint8_t) *name++);
}

static void put_number(text *t, int32_t value)
{
    if (value >= -128 && value < 128 && below(2)) { put(t, AMQP_SMALLINT); put(t, (uint8_t) value); return; }
    if (below(2)) { put(t, AMQP_INT); put_u32(t, (uint32_t) value); return; }
    put(t, AMQP_LONG);
    put_u32(t, value < 0 ? UINT32_MAX : 0);
    put_u32(t, (uint32_t) value);
}

/* A section with some of the keys, which go into `key` as the scan must find them. */
static void put_section(text *t, uint8_t code, const char *prefix, rmr_key *key)
{
    uint8_t name = below(2) ? AMQP_STRING8 : AMQP_SYMBOL8, count = 0;
    put(t, AMQP_DESCRIBED);
    if (below(2)) { put(t, AMQP_SMALLULONG); put(t, code); }
    else if (code == SECTION_APPLICATION_PROPERTIES) put_text(t, AMQP_SYMBOL8, "", "amqp:application-properties:map");
    else put_text(t, AMQP_SYMBOL8, "", "amqp:message-annotations:map");
    put(t, AMQP_MAP32);
    size_t at = t->size;
    put_u32(t, 0); put_u32(t, 0);
    if (below(2)) { put_text(t, name, "", "other"); put(t, AMQP_TRUE); count += 2; }
    if (below(4)) {
        key->mt = below(2) ? 100 + (int32_t) below(200) : -1 - (int32_t) below(300);
        key->found |= RMR_KEY_MT;
        put_text(t, name, prefix, "rmr.mt"); put_number(t, key->mt); count += 2;
    }
    if (below(2)) {
        key->sid = (int32_t) below(9) - 1;
        key->found |= RMR_KEY_SID;
        put_text(t, name, prefix, "rmr.sub-id");
        put_number(t, key->sid);
        count += 2;
    }
    if (below(2)) {
        put_text(t, name, prefix, "rmr.meid");
        key->meid = (uint32_t) t->size + 2; key->meid_length = 5; key->found |= RMR_KEY_MEID;
        put_text(t, AMQP_STRING8, "", "ran-1"); count += 2;
    }
    if (below(2)) {
        put_text(t, name, prefix, "rmr.source");
        key->source = (uint32_t) t->size + 2; key->source_length = 8; key->found |= RMR_KEY_SOURCE;
        put_text(t, AMQP_STRING8, "", "app:4560"); count += 2;
    }
    amqp_put_items_head(t->byte + at - 1, AMQP_MAP32, (uint32_t) (t->size - at - 8), count);
}

static void compose(text *t, rmr_key *key)
{
    static const uint8_t empty[] = { AMQP_DESCRIBED, AMQP_SMALLULONG, SECTION_PROPERTIES, AMQP_LIST0 };
    static const uint8_t data[] = { AMQP_DESCRIBED, AMQP_SMALLULONG, SECTION_DATA, AMQP_BINARY8, 2, 1, 2 };
    rmr_key application;
    t->size = 0;
    rmr_key_none(key);
    rmr_key_none(&application);
    if (below(2)) put_section(t, SECTION_MESSAGE_ANNOTATIONS, rmr_key_prefix, key);
    if (below(2)) put_all(t, empty, sizeof empty);
    if (below(4)) put_section(t, SECTION_APPLICATION_PROPERTIES, "", &application);
    if (application.found & ~key->found & RMR_KEY_MT) key->mt = application.mt;
    if (application.found & ~key->found & RMR_KEY_SID) key->sid = application.sid;
    if (application.found & ~key->found & RMR_KEY_MEID) {
        key->meid = application.meid;
        key->meid_length = application.meid_length;
    }
    if (application.found & ~key->found & RMR_KEY_SOURCE) {
        key->source = application.source;
        key->source_length = application.source_length;
    }
    key->found |= application.found;
    put_all(t, data, sizeof data);
}

static enum scan_result look(const text *t, size_t size, rmr_key *key)
{
    uint8_t *bytes = malloc(size ? size : 1);
    memcpy(bytes, t->byte, size);
    scan_found found;
    bool complete = size == t->size;
    enum scan_result result = scan_message(bytes, size, complete, &found);
    if (result == SCAN_DONE) result = rmr_key_there(bytes, size, complete, &found);
    if (result == SCAN_DONE) result = rmr_key_scan(bytes, size, &found, key);
    if (result == SCAN_DONE) {
        CHECK(!(key->found & RMR_KEY_MEID) || (uint64_t) key->meid + key->meid_length <= size, "the MEID lies outside");
        CHECK(!(key->found & RMR_KEY_SOURCE) || (uint64_t) key->source + key->source_length <= size,
              "the source lies outside");
        CHECK(!(key->found & RMR_KEY_SOURCE) || bytes[key->source - 1] == key->source_length,
              "the source's length is elsewhere");
    }
    free(bytes);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t octet_count)
{
    text t;
    rmr_key wanted, key;
    input_open(octets, octet_count);
    compose(&t, &wanted);
    for (size_t size = 0; size <= t.size; size++) {
        enum scan_result result = look(&t, size, &key);
        CHECK(result != SCAN_BAD, "a message in order, cut at %zu of %zu", size, t.size);
        CHECK(size < t.size || result == SCAN_DONE, "a whole message needs no more");
        if (result == SCAN_DONE)
            CHECK(!memcmp(&key, &wanted, sizeof key), "another key than it was made with, at %zu of %zu", size, t.size);
    }
    for (uint32_t damage = 1 + below(3); damage; damage--) t.byte[below((uint32_t) t.size)] = (uint8_t) below(256);
    for (size_t size = 0; size <= t.size; size++) look(&t, size, &key);
    return 0;
}
