/* An arena's owner and a reader: messages of random length that are read while they are still being written.
 *
 * The owner announces a message as soon as its head exists, publishes it in pieces and gives blocks back behind the
 * reader; the arena is far smaller than the longest messages.  The reader checks every byte.  Some messages are
 * aborted, some have a key block.  In the end every block is free again. */
#include "tests/native/shared_memory/broken.h"

#include "tests/native/check.h"

#include <sched.h>

#include "shm/memory/arena.h"
#include "shm/memory/ring.h"

#ifndef MESSAGES
#define MESSAGES 1500u
#endif
#ifndef LONGEST
#define LONGEST 300000u
#endif

enum { SMALL_BLOCKS = 40, LARGE_BLOCKS = 5, CAPACITY = 64 };     /* fewer blocks than slots: announcing never waits */
enum { DONE = 1, PROGRESS = 2 };

typedef struct {
    void *arena;
    size_t arena_size;
    routerd_ring *there, *back;
    uint64_t written, read, starved, trimmed;
} shared_state;

static uint8_t byte_of(uint64_t message, uint64_t position)
{
    return (uint8_t) (mix(message) + position * 31 + (position >> 8));
}

typedef struct {
    shared_state *s;
    arena_owner o;
    routerd_producer out;
    routerd_consumer in;
    arena_writer w;            /* the message being written */
    bool writing;
    uint32_t unsettled;
} owner_side;

static bool handle_answers(owner_side *a)
{
    const routerd_record *r;
    bool any = false;
    while ((r = ring_peek(&a->in))) {
        any = true;
        if (r->type == DONE) {
            CHECK(arena_free_chain(&a->o, r->block) > 0, "block %u", r->block);
            a->unsettled--;
        } else if (a->writing && r->block == a->w.head) {
            a->s->trimmed += chain_trim(&a->o, &a->w, r->length);
        }
        ring_advance(&a->in);
    }
    ring_return(&a->in);
    return any;
}

static void post(routerd_producer *out, uint8_t type, uint32_t block, uint64_t length)
{
    routerd_record *r;
    while (!(r = ring_slot(out))) {
        ring_publish(out);
        sched_yield();
    }
    r->type = type;
    r->block = block;
    r->length = length;
    ring_push(out);
    ring_publish(out);
}

static void begin(owner_side *a, uint64_t message, enum arena_class want)
{
    while (!chain_begin(&a->o, &a->w, want))
        if (!handle_answers(a)) sched_yield();
    a->writing = true;
    a->unsettled++;
    if (message % 7 == 0) {
        uint32_t key = arena_alloc(&a->o, ARENA_SMALL);
        arena_content_of(&a->o.view, a->w.head)->key_block = key;
    }
    post(&a->out, DONE, a->w.head, message);
}

static void write_piece(owner_side *a, uint64_t message, enum arena_class want, uint64_t piece)
{
    while (piece) {
        uint32_t room;
        uint8_t *to = chain_room(&a->o, &a->w, want, &room);
        if (!to) {
            a->s->starved++;
            chain_publish(&a->o, &a->w, CONTENT_RECEIVING);
            if (!handle_answers(a)) sched_yield();
            continue;
        }
        uint32_t n = piece < room ? (uint32_t) piece : room;
        for (uint32_t i = 0; i < n; i++) to[i] = byte_of(message, a->w.written + i);
        chain_wrote(&a->w, n);
        piece -= n;
    }
}

static void *owner(void *arg)
{
    owner_side a = { .s = (shared_state *) arg };
    arena_view v;
    uint64_t seed = 33;
    CHECK(arena_attach(&v, a.s->arena, a.s->arena_size) && arena_own(&a.o, &v), "attach");
    CHECK(ring_produce(&a.out, a.s->there) && ring_consume(&a.in, a.s->back), "attach");
    for (uint64_t message = 0; message < MESSAGES; message++) {
        uint64_t size = random_below(&seed, 8) ? random_below(&seed, 1500) : random_below(&seed, LONGEST);
        enum arena_class want = size > 2000 ? ARENA_LARGE : ARENA_SMALL;
        begin(&a, message, want);
        while (a.w.written < size) {
            uint64_t piece = 1 + random_below(&seed, 9000), left = size - a.w.written;
            write_piece(&a, message, want, piece < left ? piece : left);
            chain_publish(&a.o, &a.w, CONTENT_RECEIVING);
            handle_answers(&a);
        }
        a.s->written += size;
        a.writing = false;
        chain_publish(&a.o, &a.w, message % 11 == 3 ? CONTENT_ABORTED : CONTENT_COMPLETE);
    }
    while (a.unsettled)
        if (!handle_answers(&a)) sched_yield();
    CHECK(a.o.free_count[0] == SMALL_BLOCKS && a.o.free_count[1] == LARGE_BLOCKS, "%u and %u blocks are free",
          a.o.free_count[0], a.o.free_count[1]);
    arena_disown(&a.o);
    return NULL;
}

static uint64_t read_message(const arena_view *v, routerd_producer *out, uint32_t head, uint64_t message,
                             uint32_t *state)
{
    const arena_content *c = arena_content_of(v, head);
    arena_reader r;
    chain_open(&r, head);
    for (;;) {
        *state = chain_state(c);                /* before the length: a final state makes this length the last one */
        uint64_t length = chain_length(c);
        const uint8_t *run;
        uint32_t size;
        while ((run = chain_read(v, &r, length, &size))) {
            for (uint32_t i = 0; i < size; i++)
                CHECK(run[i] == byte_of(message, r.position + i), "message %lu, byte %lu", (unsigned long) message,
                      (unsigned long) (r.position + i));
            chain_advance(&r, size);
        }
        CHECK(!size, "message %lu is broken at %lu", (unsigned long) message, (unsigned long) r.position);
        if (*state != CONTENT_RECEIVING) return r.position;
        post(out, PROGRESS, head, r.position);
        sched_yield();
    }
}

static void *reader(void *arg)
{
    shared_state *s = (shared_state *) arg;
    arena_view v;
    routerd_producer out;
    routerd_consumer in;
    uint64_t bytes = 0;
    CHECK(arena_attach(&v, s->arena, s->arena_size), "attach");
    CHECK(ring_produce(&out, s->back) && ring_consume(&in, s->there), "attach");
    for (uint64_t message = 0; message < MESSAGES;) {
        const routerd_record *r = ring_peek(&in);
        if (!r) {
            sched_yield();
            continue;
        }
        CHECK(r->length == message, "message %lu came where %lu was due", (unsigned long) r->length,
              (unsigned long) message);
        uint32_t head = r->block, state;
        ring_advance(&in);
        ring_return(&in);
        bytes += read_message(&v, &out, head, message, &state);
        CHECK((state == CONTENT_ABORTED) == (message % 11 == 3), "message %lu has state %u", (unsigned long) message,
              state);
        post(&out, DONE, head, 0);
        message++;
    }
    s->read = bytes;
    return NULL;
}

int main(void)
{
    shared_state *s = (shared_state *) shared_memory(sizeof *s);
    s->arena_size = arena_bytes(SMALL_BLOCKS, LARGE_BLOCKS);
    s->arena = shared_memory(s->arena_size);
    arena_format(s->arena, SMALL_BLOCKS, LARGE_BLOCKS);
    s->there = (routerd_ring *) shared_memory(ring_bytes(CAPACITY));
    s->back = (routerd_ring *) shared_memory(ring_bytes(CAPACITY));
    CHECK(ring_format(s->there, CAPACITY) && ring_format(s->back, CAPACITY), "format");
    run_pair(owner, reader, s);
    CHECK(s->written == s->read, "%lu bytes were written and %lu read", (unsigned long) s->written,
          (unsigned long) s->read);
    CHECK(s->starved && s->trimmed, "the arena never ran out of blocks (%lu) or was never trimmed (%lu)",
          (unsigned long) s->starved, (unsigned long) s->trimmed);
    printf("%u messages, out of blocks %lu times, %lu blocks given back early\n", MESSAGES, (unsigned long) s->starved,
           (unsigned long) s->trimmed);
    return 0;
}
