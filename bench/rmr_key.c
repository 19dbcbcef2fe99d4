/* The cost of a route table for a message: `rmr_key ROUNDS ENTRIES` prints ns of CPU time for the scan of every
 * message, for the scan with its key, and for both with the lookup in a table of so many entries.
 *
 * As in a router, a batch of messages is scanned and then looked up, with the slot of the third next fetched ahead
 * (core/rmr/forwarding/delivery.c).
 */
#define ROUTERD_UNITY

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "workers/rmr/amqp.c"
#include "workers/rmr/ask.c"
#include "workers/rmr/frame.c"
#include "workers/rmr/siphash.c"
#include "core/forwarder/tables/rank.c"
#include "core/rmr/forwarding/table.c"

#define MESSAGES 4096u                 /* different messages with random keys */
#define BATCH 128u
#define AHEAD 3u

static double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

/* The key of an entry. */
static int32_t type_of(uint32_t entry) { return (int32_t) (1000 + entry % 1000); }
static int32_t subscription_of(uint32_t entry) { return (int32_t) (entry / 1000); }

/* Writes a message with a complete key; returns its length. */
static size_t compose(uint8_t *message, uint32_t entry)
{
    uint8_t *p = rmr_put_number(message + RMR_SECTION, "rmr.mt", 6, type_of(entry));
    p = rmr_put_number(p, "rmr.sub-id", 10, subscription_of(entry));
    p = amqp_put_octets(p, AMQP_STRING8, "rmr.meid", 8);
    p = amqp_put_octets(p, AMQP_STRING8, "ran-0001", 8);
    p = amqp_put_octets(p, AMQP_STRING8, "rmr.source", 10);
    p = amqp_put_octets(p, AMQP_STRING8, "app:4560", 8);
    rmr_section(message, SECTION_APPLICATION_PROPERTIES, AMQP_MAP32, p, 8);
    p = amqp_put_head(amqp_put_descriptor(p, SECTION_DATA), AMQP_BINARY8, 64);
    return (size_t) (p - message) + 64;
}

static route_table *table(uint32_t entries)
{
    static const uint32_t place[] = { 0 }, word[] = { 1, 1, 0 }, none[] = { 0 };
    int32_t *type = malloc(entries * sizeof *type), *subscription = malloc(entries * sizeof *subscription);
    uint32_t *target = calloc(entries, sizeof *target);
    if (!type || !subscription || !target) exit(1);
    for (uint32_t i = 0; i < entries; i++) {
        type[i] = type_of(i);
        subscription[i] = subscription_of(i);
    }
    route_columns columns = { .type = type, .subscription = subscription, .target = target, .rows = entries,
        .place = place, .word = word, .sender_row = none, .sender_start = none };
    route_table *t = route_build(&columns, 1);
    free(type);
    free(subscription);
    free(target);
    return t;
}

static void scanned(const uint8_t *message, size_t size, bool keyed, rmr_key *key)
{
    scan_found found;
    __asm__ volatile("" ::"r"(message) : "memory");
    if (scan_message(message, size, true, &found) != SCAN_DONE) exit(1);
    if (!keyed) return;
    if (rmr_key_there(message, size, true, &found) != SCAN_DONE
        || rmr_key_scan(message, size, &found, key) != SCAN_DONE) exit(1);
}

static void looked_up(route_table *t, const rmr_key *key)
{
    uint64_t turn;
    for (uint32_t i = 0; i < BATCH; i++) {
        if (i + AHEAD < BATCH) route_prefetch(t, key[i + AHEAD].mt, key[i + AHEAD].sid);
        if (route_find_target(t, key[i].mt, key[i].sid, 0, &turn) != 0) exit(1);
    }
}

int main(int argc, char **argv)
{
    static uint8_t message[MESSAGES][192];
    size_t size[MESSAGES];
    rmr_key key[BATCH];
    long rounds = argc == 3 ? atol(argv[1]) : 0, entries = argc == 3 ? atol(argv[2]) : 0;
    if (rounds <= 0 || entries <= 0 || entries > INT32_MAX) return 2;
    route_table *t = table((uint32_t) entries);
    if (!t) return 1;
    uint64_t random = 88172645463325252ull;
    double ns[3];
    for (int what = 0; what < 3; what++) {
        double spent = 0;
        for (long i = 0; i < rounds; i += MESSAGES) {
            for (uint32_t m = 0; m < MESSAGES; m++) {
                random ^= random << 13; random ^= random >> 7; random ^= random << 17;
                size[m] = compose(message[m], (uint32_t) (random % (uint64_t) entries));
            }
            double began = cpu_ns();
            for (uint32_t m = 0; m < MESSAGES; m += BATCH) {
                for (uint32_t n = 0; n < BATCH; n++) scanned(message[m + n], size[m + n], what > 0, &key[n]);
                if (what == 2) looked_up(t, key);
            }
            spent += cpu_ns() - began;
        }
        ns[what] = spent / (double) ((rounds + MESSAGES - 1) / MESSAGES * MESSAGES);
    }
    printf("%.1f %.1f %.1f\n", ns[0], ns[1], ns[2]);
    route_table_free(t);
    return 0;
}
