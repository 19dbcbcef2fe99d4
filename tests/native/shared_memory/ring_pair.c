/* Two sides, two rings, two doorbells: 200,000 records there and an answer for each back.
 *
 * The rings are tiny, so they wrap, run full and run empty all the time; batches have random sizes; a side with nothing
 * to do blocks (left on an eventfd as a worker does, right on a semaphore as the core does).  Every record carries its
 * number and a checksum; both sides keep a ledger. */
#include "tests/native/shared_memory/broken.h"

#include "tests/native/check.h"

#include <errno.h>
#include <semaphore.h>
#include <sys/eventfd.h>

#include "shm/memory/doorbell.h"
#include "shm/memory/ring.h"

#ifndef ITEMS
#define ITEMS 200000u
#endif
#ifndef CAPACITY
#define CAPACITY 16u
#endif

typedef struct {
    routerd_doorbell left_bell, right_bell;
    sem_t right_wakes;
    int left_wakes;
    routerd_ring *there, *back;
    uint64_t left_slept, right_slept, full;
} shared_state;

static void fill(routerd_record *r, uint64_t number)
{
    r->type = (uint8_t) (1 + number % 8);
    r->link = (uint32_t) number;
    r->length = number;
    r->delivery = mix(number);
    r->extra = mix(number ^ r->delivery);
}

static void check(const routerd_record *r, uint64_t number)
{
    CHECK(r->length == number, "record %lu came where %lu was due", (unsigned long) r->length, (unsigned long) number);
    CHECK(r->link == (uint32_t) number && r->delivery == mix(number) && r->extra == mix(number ^ r->delivery),
          "record %lu is damaged", (unsigned long) number);
}

static void ring_left(shared_state *s)
{
    uint64_t one = 1;
    if (doorbell_should_ring(&s->left_bell)) CHECK(write(s->left_wakes, &one, sizeof one) == sizeof one, "eventfd");
}

static void ring_right(shared_state *s)
{
    if (doorbell_should_ring(&s->right_bell)) CHECK(sem_post(&s->right_wakes) == 0, "semaphore");
}

static void left_waits(shared_state *s, const routerd_consumer *in)
{
    uint64_t rung;
    doorbell_sleep(&s->left_bell);
    if (!ring_pending(in)) {
        s->left_slept++;
        CHECK(read(s->left_wakes, &rung, sizeof rung) == sizeof rung, "eventfd");
    }
    doorbell_wake(&s->left_bell);
}

static void right_waits(shared_state *s, const routerd_consumer *in)
{
    doorbell_sleep(&s->right_bell);
    if (!ring_pending(in)) {
        s->right_slept++;
        while (sem_wait(&s->right_wakes)) CHECK(errno == EINTR, "semaphore");
    }
    doorbell_wake(&s->right_bell);
}

static void *left(void *arg)
{
    shared_state *s = (shared_state *) arg;
    routerd_producer out;
    routerd_consumer in;
    uint64_t seed = 11, sent = 0, answered = 0;
    CHECK(ring_produce(&out, s->there) && ring_consume(&in, s->back), "attach");
    while (answered < ITEMS) {
        const routerd_record *answer;
        uint64_t batch = 1 + random_below(&seed, 2 * CAPACITY), before = answered;
        while ((answer = ring_peek(&in))) {
            check(answer, answered++);
            ring_advance(&in);
        }
        ring_return(&in);
        routerd_record *r = NULL;
        for (; batch && sent < ITEMS && (r = ring_slot(&out)); batch--) {
            fill(r, sent++);
            ring_push(&out);
        }
        if (sent < ITEMS && !r) s->full++;
        if (ring_publish(&out)) ring_right(s);
        else if (answered == before) left_waits(s, &in);
    }
    return NULL;
}

static void *right(void *arg)
{
    shared_state *s = (shared_state *) arg;
    routerd_producer out;
    routerd_consumer in;
    uint64_t seed = 22, received = 0;
    CHECK(ring_produce(&out, s->back) && ring_consume(&in, s->there), "attach");
    while (received < ITEMS) {
        uint64_t batch = 1 + random_below(&seed, CAPACITY);
        const routerd_record *r;
        for (; batch && (r = ring_peek(&in)); batch--) {
            routerd_record *answer;
            while (!(answer = ring_slot(&out))) {       /* left reads whenever it is rung */
                if (ring_publish(&out)) ring_left(s);
                usleep(10);
            }
            check(r, received++);
            *answer = *r;
            ring_push(&out);
            ring_advance(&in);
        }
        ring_return(&in);
        if (ring_publish(&out)) ring_left(s);
        else right_waits(s, &in);
    }
    return NULL;
}

int main(void)
{
    shared_state *s = (shared_state *) shared_memory(sizeof *s);
    s->there = (routerd_ring *) shared_memory(ring_bytes(CAPACITY));
    s->back = (routerd_ring *) shared_memory(ring_bytes(CAPACITY));
    CHECK(ring_format(s->there, CAPACITY) && ring_format(s->back, CAPACITY), "format");
    /* As if the router had run for centuries: the indices themselves wrap around in the middle of the test. */
    atomic_store(&s->there->head, UINT64_MAX - ITEMS / 2);
    atomic_store(&s->there->tail, UINT64_MAX - ITEMS / 2);
    s->left_wakes = eventfd(0, EFD_CLOEXEC);
    CHECK(s->left_wakes >= 0 && sem_init(&s->right_wakes, 1, 0) == 0, "wake-ups");
    run_pair(left, right, s);
    CHECK(s->left_slept && s->right_slept, "nobody ever slept: the doorbells were not tested");
    CHECK(s->full, "the ring was never full");
    printf("%u records, full %lu times, sleeps %lu and %lu\n", ITEMS, (unsigned long) s->full,
           (unsigned long) s->left_slept,
           (unsigned long) s->right_slept);
    return 0;
}
