/* A hop as functions that a test can call. */
#include "tests/native/hop.h"

static hop *one;

typedef struct {
    const char *why, *condition;
    const uint8_t *bytes;
    size_t size;
    uint32_t annotations, routed, phase, flags, ingress_length, trace_count, user_count;
} passed;

int pass(const hop_terms *terms, const uint8_t *bytes, size_t size, passed *p);

int pass(const hop_terms *terms, const uint8_t *bytes, size_t size, passed *p)
{
    if (!one) one = hop_new();
    uint32_t before = one->p.arena.free_count[0] + one->p.arena.free_count[1];
    bool done = hop_pass(one, terms, bytes, size);
    if (one->p.arena.free_count[0] + one->p.arena.free_count[1] != before) return -1;
    const arena_content *c = &one->content;
    *p = (passed) { one->why, one->condition, one->out.bytes, one->out.used, c->annotations, c->routed, c->phase,
        c->annotations ? c->section_flags : 0, c->annotations ? c->ingress_length : 0, hop_traced(c), hop_users(c) };
    return done;
}
