/* The cost of router annotations for a worker on each message: reading them, and writing new ones.
 *
 * The program has the worker's own bodies, and an engine that only takes the bytes.  A message is in one block, as most
 * are; between rounds nothing is copied or freed.  The arguments are the number of rounds, then pairs of a form (enum
 * content_annotations) and the number of routers that it has passed.  The program prints a line for each pair: form,
 * routers, bytes of annotations, ns to read, ns to write.
 */
#define ROUTERD_UNITY

#include <stdio.h>

#include "workers/amqp/annotations_in.c"
#include "workers/amqp/annotations_out.c"
#include "workers/amqp/annotations_put.c"
#include "workers/amqp/content_header.c"
#include "workers/amqp/rewrite.c"
#include "workers/transport/security.c"

enum { ROOM = 16384, TURNS = 20 };

static uint8_t written[ROOM];
static size_t used;

PRIVATE void link_send(worker_link *link, const uint8_t *bytes, size_t size)
{
    (void) link;
    if (used + size <= sizeof written) memcpy(written + used, bytes, size);
    used += size;
}

/* properties.to, and 100 bytes */
static size_t plain_message(uint8_t *to)
{
    uint8_t *p = amqp_put_items_head(amqp_put_descriptor(to, SECTION_PROPERTIES), AMQP_LIST8, 14, 3);
    p = amqp_put(amqp_put(p, AMQP_NULL, 0), AMQP_NULL, 0);
    p = amqp_put_octets(p, AMQP_STRING8, "a/queue/12", 10);
    p = amqp_put_head(amqp_put_descriptor(p, SECTION_DATA), AMQP_BINARY8, 100);
    memset(p, 'x', 100);
    return (size_t) (p - to) + 100;
}

static enum scan_result take(pump *p, uint32_t head, size_t size, const worker_connection *conn)
{
    arena_content *c = arena_content_of(&p->arena.view, head);
    scan_found found;
    bool moved = false;
    c->annotations = c->routed = c->phase = 0;
    c->section_end = c->user_from = c->user_to = c->user_count = c->ingress_length = c->trace_length = c->trace_count =
        c->tail_length = 0;
    enum scan_result result = content_check(conn, c, (uint8_t *) (c + 1), &found,
                                            scan_message((uint8_t *) (c + 1), size, true, &found), &moved);
    content_header_fill(c, &found);
    return result;
}

static void pass_on(pump *p, uint32_t head, size_t size, worker_link *k)
{
    out_delivery o = { .link = k };
    chain_open(&o.reader, head);
    used = 0;
    if (rewrite_due(k, arena_content_of(&p->arena.view, head)) && !rewrite_begin(p, k, &o, size)) abort();
}

static double better(double best, uint64_t since, long rounds)
{
    double now = (double) (clock_ns() - since) / (double) rounds;
    return best == 0 || now < best ? now : best;
}

static void measure(pump *p, uint32_t head, uint8_t form, long routers, long rounds)
{
    uint8_t *bytes = (uint8_t *) (arena_content_of(&p->arena.view, head) + 1);
    arena_content *c = arena_content_of(&p->arena.view, head);
    worker_connection conn = { .trusted = annotations_form_bit((enum content_annotations) form), .annotations = form };
    worker_link link = { .conn = &conn };
    size_t plain = plain_message(bytes), size = plain;
    for (long i = 0; i < routers; i++) {
        atomic_store(&c->length, size);
        if (take(p, head, size, &conn) != SCAN_DONE) abort();
        pass_on(p, head, size, &link);
        uint8_t rest[ROOM];
        size_t kept = c->section_end;  /* these messages have nothing before the replaced sections */
        if (c->user_to != c->annotations_end) kept = c->annotations_end;
        memcpy(rest, bytes + kept, size - kept);
        memcpy(bytes, written, used);
        memcpy(bytes + used, rest, size - kept);
        size += used - kept;
    }
    atomic_store(&c->length, size);
    double read = 0, write = 0;
    rounds = rounds / TURNS + 1;
    for (int turn = 0; turn < TURNS; turn++) {                 /* the best turn is the one without disturbance */
        uint64_t since = clock_ns();
        for (long i = 0; i < rounds; i++) if (take(p, head, size, &conn) != SCAN_DONE) abort();
        read = better(read, since, rounds);
        since = clock_ns();
        for (long i = 0; i < rounds; i++) pass_on(p, head, size, &link);
        write = better(write, since, rounds);
    }
    printf("%u %ld %zu %.1f %.1f\n", form, routers, size - plain, read, write);
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    pump *p = (pump *) calloc(1, sizeof *p);
    size_t bytes = arena_bytes(4, 4);
    void *memory = calloc(1, bytes);
    if (!p || !memory) return 1;
    arena_format(memory, 4, 4);
    if (!arena_attach(&p->views[0], memory, bytes) || !arena_own(&p->arena, &p->views[0])) return 1;
    p->workers = 1;
    p->identity = &(annotations_self) { .id = "0/router-1", .length = 10 };
    uint32_t head = arena_alloc_head(&p->arena, ARENA_LARGE);
    for (int i = 2; i + 1 < argc; i += 2) measure(p, head, (uint8_t) atoi(argv[i]), atol(argv[i + 1]), atol(argv[1]));
    return 0;
}
