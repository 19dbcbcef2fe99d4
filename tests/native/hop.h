/* One router on a message's way, without its engine: the worker that takes it in, the core that says where to, the
 * worker that sends it on.  What the engine would be given is collected here. */
#ifndef ROUTERD_TESTS_HOP_H
#define ROUTERD_TESTS_HOP_H

#define ROUTERD_UNITY

#include <stdio.h>

#include "workers/amqp/annotations_in.c"
#include "workers/amqp/annotations_out.c"
#include "workers/amqp/annotations_put.c"
#include "workers/amqp/content_header.c"
#include "workers/amqp/rewrite.c"
#include "workers/transport/security.c"

enum { HOP_SMALL = 4096, HOP_LARGE = 96, HOP_CORE = 64, HOP_ROOM = 3 << 20 };

typedef struct { size_t used; uint8_t bytes[HOP_ROOM]; } hop_output;

typedef struct {                           /* how the routers on both sides are spoken with, and what the core says */
    uint8_t trusted, form, state;          /* masks and forms of annotations.h; enum send_routed and the phase */
    const char *id;                        /* of this router, `area/id`; empty: an edge router */
    const uint8_t *to;
    size_t to_length;                      /* 0: no override */
    bool small;                            /* blocks of 512 bytes, so that most messages lie across several */
    size_t step;                           /* bytes that arrive together; 0: all */
} hop_terms;

typedef struct {
    pump p;
    annotations_self identity;
    hop_output out;
    void *memory[2];
    const char *why, *condition;           /* of a message that is refused */
    arena_content content;                 /* of one that is taken */
} hop;

PRIVATE void link_send(worker_link *link, const uint8_t *bytes, size_t size)
{
    hop_output *out = (hop_output *) link->engine;
    if (size > HOP_ROOM - out->used) abort();
    memcpy(out->bytes + out->used, bytes, size);
    out->used += size;
}

/* What a reader of a content header takes from it: fields count where others say so. */
static inline uint32_t hop_traced(const arena_content *c) { return c->annotations ? c->trace_count : 0; }
static inline uint32_t hop_users(const arena_content *c)
{
    return c->message_annotations != ARENA_NO_OFFSET ? c->user_count : 0;
}
static inline uint32_t hop_user_bytes(const arena_content *c)
{
    return c->message_annotations != ARENA_NO_OFFSET ? c->user_to - c->user_from : 0;
}

static inline void *hop_arena(arena_view *v, arena_owner *o, uint32_t small, uint32_t large)
{
    size_t bytes = arena_bytes(small, large);
    void *memory = calloc(1, bytes);
    if (!memory) abort();
    arena_format(memory, small, large);
    if (!arena_attach(v, memory, bytes) || !arena_own(o, v)) abort();
    return memory;
}

static inline hop *hop_new(void)
{
    static arena_owner core;
    hop *h = (hop *) calloc(1, sizeof *h);
    if (!h) abort();
    h->p.workers = 1;
    h->memory[0] = hop_arena(&h->p.views[0], &h->p.arena, HOP_SMALL, HOP_LARGE);
    h->memory[1] = hop_arena(&h->p.views[1], &core, HOP_CORE, HOP_CORE);
    arena_disown(&core);
    return h;
}

static inline void hop_free(hop *h)
{
    arena_disown(&h->p.arena);
    free(h->memory[0]);
    free(h->memory[1]);
    free(h);
}

/* The chain of a message that is taken, or ROUTERD_NIL. */
static inline uint32_t hop_take(hop *h, const hop_terms *t, const uint8_t *bytes, size_t size)
{
    worker_connection conn = { .trusted = t->trusted };
    worker_link link = { .conn = &conn };
    in_delivery s = { .link = &link };
    scan_found found = { .why = NULL };
    enum scan_result result = SCAN_MORE;
    enum arena_class want = t->small ? ARENA_SMALL : ARENA_LARGE;
    size_t step = t->step ? t->step : size ? size : 1;
    chain_begin(&h->p.arena, &s.writer, want);
    for (size_t at = 0; at <= size && result == SCAN_MORE; at += step) {
        size_t n = size - at < step ? size - at : step;
        if (!chain_write(&h->p.arena, &s.writer, want, bytes + at, n)) abort();
        chain_publish(&h->p.arena, &s.writer, at + n == size ? CONTENT_COMPLETE : CONTENT_RECEIVING);
        rmr_key key;
        if (n || !size) result = intake_scan(&h->p, &s, at + n == size, &found, &key);
        if (result != SCAN_MORE && at + n < size) {           /* the rest arrives, too */
            if (!chain_write(&h->p.arena, &s.writer, want, bytes + at + n, size - at - n)) abort();
            chain_publish(&h->p.arena, &s.writer, CONTENT_COMPLETE);
        }
    }
    if (result != SCAN_DONE) {
        h->why = found.why;
        h->condition = found.condition ? found.condition : "amqp:decode-error";
        arena_free_chain(&h->p.arena, s.writer.head);
        return ROUTERD_NIL;
    }
    content_header_fill(arena_content_of(&h->p.arena.view, s.writer.head), &found);
    return s.writer.head;
}

/* Sends a chain on.  False: it made no sense. */
static inline bool hop_send(hop *h, const hop_terms *t, uint32_t head, uint32_t override)
{
    const arena_view *v = &h->p.views[0];
    const arena_content *c = arena_content_of(v, head);
    worker_connection conn = { .annotations = t->form };
    worker_link link = { .conn = &conn, .engine = (pn_link_t *) &h->out };
    out_delivery o = { .override = override, .routed = t->state };
    uint64_t length = chain_length(c);
    chain_open(&o.reader, head);
    h->identity.length = (uint8_t) strlen(t->id);
    memcpy(h->identity.id, t->id, h->identity.length);
    h->p.identity = &h->identity;
    h->out.used = 0;
    if (rewrite_due(&link, c) && !rewrite_begin(&h->p, &link, &o, length)) return false;
    while (o.reader.position < length) {
        uint32_t n;
        const uint8_t *from = chain_read(v, &o.reader, length, &n);
        if (!from) return false;
        link_send(&link, from, n);
        chain_advance(&o.reader, n);
    }
    return true;
}

/* A message on its way through.  False: it is refused (why, condition), or makes no sense (why NULL). */
static inline bool hop_pass(hop *h, const hop_terms *t, const uint8_t *bytes, size_t size)
{
    arena_owner core;
    arena_writer w = { .head = ROUTERD_NIL };
    h->why = h->condition = NULL;
    uint32_t head = hop_take(h, t, bytes, size), override = 0;
    if (head == ROUTERD_NIL) return false;
    h->content = *arena_content_of(&h->p.arena.view, head);
    if (t->to_length) {
        if (!arena_own(&core, &h->p.views[1]) || !chain_begin(&core, &w, ARENA_SMALL)) abort();
        if (!chain_write(&core, &w, ARENA_SMALL, t->to, t->to_length)) abort();
        chain_publish(&core, &w, CONTENT_COMPLETE);
        override = w.head + 1;
        arena_disown(&core);
    }
    bool sent = hop_send(h, t, head, override);
    arena_free_chain(&h->p.arena, head);
    return sent;
}

#endif
