/* The message a load client sends, and the latency stamps it carries.
 *
 * A message has properties (with `to`) and one data section of `size` bytes.  The last eight bytes of the body are the
 * stamp: CLOCK_MONOTONIC in ns when the engine got the message, or 0 for a message that is not sampled.  Both clients
 * run on one machine, so they share the clock.  The stamp is at the end because a router may put sections before the
 * body, but never after it.
 */
#ifndef BENCH_MESSAGE_H
#define BENCH_MESSAGE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shm/codec/amqp.h"
#include "shm/codec/sections.h"

enum { STAMP_SIZE = 8, SAMPLE_EVERY = 16 };

struct message {
    char *bytes;
    size_t length;
    size_t size;  /* of the body */
};

struct samples {
    uint64_t *ns;
    size_t n, capacity;
};

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* `address` is at most 200 bytes, so that one-byte lengths suffice for the properties. */
static inline void message_init(struct message *m, const char *address, size_t size)
{
    uint32_t to = (uint32_t)strlen(address);
    uint8_t *start = malloc(size + to + 32), *p = amqp_put_descriptor(start, SECTION_PROPERTIES);
    p = amqp_put_items_head(p, AMQP_LIST8, 2 + amqp_octets_size(to), 3);
    p = amqp_put(p, AMQP_NULL, 0);  /* message-id */
    p = amqp_put(p, AMQP_NULL, 0);  /* user-id */
    p = amqp_put_octets(p, AMQP_STRING8, address, to);
    p = amqp_put_head(amqp_put_descriptor(p, SECTION_DATA), AMQP_BINARY32, (uint32_t)size);
    memset(p, 'x', size);
    *m = (struct message){.bytes = (char *)start, .length = (size_t)(p - start) + size, .size = size};
}

static inline void message_stamp(struct message *m, uint64_t ns)
{
    if (m->size >= STAMP_SIZE) memcpy(m->bytes + m->length - STAMP_SIZE, &ns, STAMP_SIZE);
}

/* Returns the stamp of an encoded message, 0 if its sender took none. */
static inline uint64_t message_stamp_of(const char *bytes, size_t length, size_t size)
{
    uint64_t ns = 0;
    if (size >= STAMP_SIZE && length >= STAMP_SIZE) memcpy(&ns, bytes + length - STAMP_SIZE, STAMP_SIZE);
    return ns;
}

static inline void samples_init(struct samples *s, size_t capacity)
{
    *s = (struct samples){.ns = malloc((capacity + 1) * sizeof *s->ns), .capacity = capacity};
}

static inline void samples_add(struct samples *s, uint64_t stamp)
{
    if (stamp && s->n < s->capacity) s->ns[s->n++] = clock_ns(CLOCK_MONOTONIC) - stamp;
}

#endif
