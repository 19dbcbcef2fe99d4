/* Simple records: whatever the text, reading stays inside it, what was taken are whole records, and every
 * number in a column is one of the table it is an index of.
 *
 * Texts of the words of tables and of noise, in allocations of their own size for AddressSanitizer, taken from
 * anywhere.  Arguments: seed, rounds.
 */
#include <string.h>

#include "tests/native/check.h"
#include "core/rmr/tables/unity.c"

#define LONGEST 4096u

static const char *const words[] = {"mse|", "mse|", "mse |", "rte|", "del|", "1|", "2|", "-7", "99999999999",
    "2147483648", "a:1", "b:22",
                                    "[::1]:9", "%meid", ",", ";", ",x:1|", "|", "#", " # c", " ", "\t", "\n", "\n",
                                    "\n", "\r\n", "\r",
                                    "mse|1|2|a:1,b:2;c:3\n", "mse|5,s:1,t:2|-1|%meid\n", "rte|3|d:4\r\n",
                                    "mse|1|2|a:1, b:2 ; c:3 # x\n"};

static uint64_t state;

static uint32_t below(uint32_t limit) { return (uint32_t) random_below(&state, limit); }

static size_t noise(uint8_t *text)
{
    size_t size = 0, wanted = below(LONGEST - 64);
    while (size < wanted) {
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

int main(int argc, char **argv)
{
    CHECK(argc == 3, "seed, rounds");
    state = strtoull(argv[1], NULL, 10) + 1;
    uint32_t rounds = (uint32_t) strtoul(argv[2], NULL, 10), rows = 0;
    static uint8_t made[LONGEST];
    while (rounds--) {
        record_table t = {.compatible = below(2)};
        for (int pieces = 3; pieces--;) {
            size_t size = noise(made);
            uint8_t *text = (uint8_t *) malloc(size ? size : 1);
            memcpy(text, made, size);
            take_all(&t, text, size);
            free(text);
        }
        check_table(&t);
        rows += t.type.count;
        records_free(&t);
    }
    CHECK(rows, "no record was plain");
    return 0;
}
