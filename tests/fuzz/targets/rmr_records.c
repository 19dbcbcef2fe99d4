/* Simple records: whatever the text, reading stays inside it, what was taken are whole records, and every
 * number in a column is one of the table it is an index of.
 *
 * Texts of the words of tables and of noise, in allocations of their own size for AddressSanitizer, taken from
 * anywhere.
 */
#include "tests/fuzz/parts/input.h"
#include "core/rmr/tables/unity.c"

#define LONGEST 4096u

static const char *const words[] = {"mse|", "mse|", "mse |", "rte|", "del|", "1|", "2|", "-7", "99999999999",
    "2147483648", "a:1", "b:22",
                                    "[::1]:9", "%meid", ",", ";", ",x:1|", "|", "#", " # c", " ", "\t", "\n", "\n",
                                    "\n", "\r\n", "\r",
                                    "mse|1|2|a:1,b:2;c:3\n", "mse|5,s:1,t:2|-1|%meid\n", "rte|3|d:4\r\n",
                                    "mse|1|2|a:1, b:2 ; c:3 # x\n"};

static uint64_t rows;

static size_t noise(uint8_t *text)
{
    size_t size = 0, wanted = below(LONGEST - 64);
    while (size < wanted && choices_left()) {
        const char *word = words[below(sizeof words / sizeof *words)];
        memcpy(text + size, word, strlen(word));
        size += strlen(word);
        if (!below(60)) text[below((uint32_t) size)] = (uint8_t) below(128);
    }
    return size;
}

/* The words of a target, or of a list, end where others begin, or at the end. */
static void check_words(const record_lists *l, uint32_t most)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < l->place.count; i++) {
        CHECK(l->place.at[i] == at, "a target begins elsewhere");
        uint32_t groups = l->word.at[at++];
        CHECK(most != RECORD_SENDERS || groups == 1, "senders in groups");
        while (groups--) {
            uint32_t members = l->word.at[at++];
            CHECK(members && members <= most, "too many, or nobody");
            while (members--) CHECK(l->word.at[at++] < l->name.stop.count, "no name of that number");
        }
    }
    CHECK(at == l->word.count, "words that are nobody's");
}

static void check_table(const record_table *t)
{
    uint32_t rows = t->type.count;
    CHECK(!t->failed && rows == t->subscription.count && rows == t->target.count && rows == t->line.count,
          "columns of one length");
    for (uint32_t row = 0; row < rows; row++) CHECK(t->target.at[row] < t->groups.place.count, "no such target");
    CHECK(t->sender_row.count == t->sender_list.count, "columns of one length");
    for (uint32_t i = 0; i < t->sender_row.count; i++) {
        CHECK(t->sender_row.at[i] < rows && (!i || t->sender_row.at[i] > t->sender_row.at[i - 1]),
              "rows in their order");
        CHECK(t->sender_list.at[i] < t->senders.place.count, "no such list");
    }
    check_words(&t->groups, RECORD_MEMBERS);
    check_words(&t->senders, RECORD_SENDERS);
}

static void take_all(record_table *t, const uint8_t *text, size_t size)
{
    for (size_t at = 0; at < size; at++) {             /* and past whatever is not simple */
        uint32_t before = t->type.count;
        size_t next = records_take(t, text, size, at, 1);
        CHECK(next >= at && next <= size, "outside of the text");
        CHECK(next == at || text[next - 1] == '\n' || text[next - 1] == '\r', "half a record");
        CHECK((next == at) == (t->type.count == before), "a row for each record");
        at = next;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t octet_count)
{
    static uint8_t made[LONGEST];
    input_open(octets, octet_count);
    bool words_of_tables = below(2);
    record_table t = {.compatible = below(2)};
    for (int pieces = words_of_tables ? 3 : 1; pieces--;) {
        size_t size = words_of_tables ? noise(made) : choices_left();
        uint8_t *text = copy_of(words_of_tables ? made : input.at, size);
        take_all(&t, text, size);
        free(text);
    }
    check_table(&t);
    rows += t.type.count;
    records_free(&t);
    return 0;
}

const char *fuzz_missing(void) { return rows ? NULL : "a simple record"; }
