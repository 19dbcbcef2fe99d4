/* What is posted to an outbox comes out of its ring: everything, once, in order, however seldom the consumer reads. */
#include "tests/native/check.h"

#include "shm/memory/outbox.h"

enum { CAPACITY = 8, ITEMS = 200000 };

int main(void)
{
    routerd_ring *ring = (routerd_ring *) aligned_alloc(64, ring_bytes(CAPACITY));
    routerd_outbox out;
    routerd_consumer in;
    uint64_t seed = 44, posted = 0, read = 0, most = 0;
    CHECK(ring && ring_format(ring, CAPACITY) && outbox_attach(&out, ring) && ring_consume(&in, ring), "attach");
    alarm(500);
    while (read < ITEMS) {
        bool slow = posted / 5000 % 2 == 0;                 /* times of growth and times of relief */
        for (uint64_t n = random_below(&seed, slow ? 12 : 5); n && posted < ITEMS; n--) {
            routerd_record *r = outbox_post(&out);
            CHECK(!r->length && !r->extra, "a record is zero before it is filled in");
            r->type = 1;
            r->length = posted++;
            r->extra = mix(r->length);
        }
        if (out.waiting > most) most = out.waiting;
        if (random_below(&seed, 3)) outbox_publish(&out);
        const routerd_record *r;
        for (uint64_t n = random_below(&seed, slow ? 5 : 12); n && (r = ring_peek(&in)); n--) {
            CHECK(r->length == read && r->extra == mix(read), "record %lu came where %lu was due",
                  (unsigned long) r->length,
                  (unsigned long) read);
            read++;
            ring_advance(&in);
        }
        ring_return(&in);
    }
    CHECK(!out.failed && !out.waiting && posted == read, "something is left");
    CHECK(most > 1000, "the queue was never long");
    outbox_detach(&out);
    free(ring);
    printf("%lu waited at most\n", (unsigned long) most);
    return 0;
}
