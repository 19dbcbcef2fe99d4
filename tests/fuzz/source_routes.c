/* Any bytes as a message with a source route: whatever the workers make of it, nothing is read or written where nothing
 * is, no memory stays, and what leaves is no longer than what came and a limit.  The same of frames of Ockam nodes, in
 * and out.
 *
 *   program TABLE ROUNDS MESSAGE...   changes the messages at random, ROUNDS times each, always in the same way
 */
#define ROUTERD_UNITY

#include <stdio.h>

#include "workers/amqp/annotations_in.c"
#include "workers/amqp/annotations_put.c"
#include "workers/ockam/frame.c"
#include "workers/source_routes/body.c"
#include "workers/source_routes/meta.c"
#include "workers/source_routes/read.c"
#include "workers/source_routes/run.c"
#include "workers/source_routes/step.c"
#include "workers/source_routes/table.c"
#include "workers/source_routes/take.c"
#include "workers/source_routes/write.c"

#define ROOM (1u << 20)
#define GROWTH (300u << 10)            /* annotations, and properties, of as many wrappers as there may be */

static route_engine engine;
static uint64_t state = 1;

static uint32_t next(uint32_t below)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t) (state >> 33) % below;
}

static size_t load(const char *name, uint8_t *to)
{
    FILE *f = fopen(name, "rb");
    if (!f) exit(2);
    size_t size = fread(to, 1, ROOM, f);
    fclose(f);
    return size;
}

static size_t change(uint8_t *b, size_t size)
{
    static const uint8_t odd[] = { 0, 1, AMQP_NULL, AMQP_LIST0, AMQP_STRING8, AMQP_SYMBOL8, AMQP_STRING32,
                                   AMQP_LIST8, AMQP_MAP8, AMQP_LIST32, AMQP_MAP32, AMQP_ARRAY8, AMQP_ARRAY32, 0x7f,
                                   0x80, 0xff };
    for (uint32_t n = 1 + next(4); n-- && size; ) {
        uint32_t at = next((uint32_t) size), more = next(8);
        switch (next(5)) {
        case 0: b[at] = odd[next(sizeof odd)]; break;
        case 1: b[at] ^= (uint8_t) (1u << next(8)); break;
        case 2: size -= at ? next(at) : 0; break;
        case 3:
            memmove(b + at, b + at + (more < size - at ? more : 0), size - at - (more < size - at ? more : 0));
            size -= more < size - at ? more : 0;
            break;
        default: if (size + more < ROOM) { memmove(b + at + more, b + at, size - at); size += more; }
        }
    }
    return size;
}

/* In memory of its own length, so that a byte too far is seen. */
static void one(const uint8_t *bytes, size_t size, bool complete, uint32_t how)
{
    uint8_t *copy = (uint8_t *) malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    arena_content c = { .key_block = UINT32_MAX };
    scan_found found;
    bool moved = false;
    route_sender sender = { .anonymous = !(how & 1), .inter_router = how & 2,
        .entry = how % engine.table->entry_count };
    if (annotations_check(&c, copy, &found, 0, scan_message(copy, size, complete, &found), &moved) == SCAN_DONE) {
        enum route_result result = route_take(&engine, &sender, &c, copy, size, complete, &found);
        if (result == ROUTE_REFUSED && (engine.run.reason >= ROUTE_REASONS || !*engine.run.detail)) abort();
        for (const route_run *r = &engine.run; result == ROUTE_DONE && r; r = r->copies) {
            if (!engine.anew && r == &engine.run) continue;
            if (!route_compose(&engine, r, copy, &found)) abort();
            if (engine.out.used + r->rest_size > size + GROWTH) abort();
            if (engine.first.offset + engine.first.length > engine.out.used) abort();
        }
        route_body body = { .opened = engine.run.opened, .layers = engine.run.layers };
        memcpy(body.sections, engine.run.sections, sizeof body.sections);
        if (result == ROUTE_DONE && !complete) route_body_take(&body, copy, size);
        if (result != ROUTE_MORE) route_count(&engine);
    }
    route_engine_clean(&engine);
    free(copy);
}

/* The content of a frame: what can be read of it can be written again, and is the same. */
static void frame(const uint8_t *bytes, size_t size, uint8_t framing)
{
    static uint8_t head[16384], tail[8192];
    static const route_stop own = { (const uint8_t *) "own", 3, 0 };
    const scan_found none = { .message_annotations = SCAN_ABSENT };
    route_sender sender = { .anonymous = true };
    uint8_t *copy = (uint8_t *) malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    enum route_result result = ockam_read(&engine, &sender, framing, copy, (uint32_t) size, &own);
    if (result == ROUTE_DONE) {
        route_level *l = &engine.level[0];
        path_pop(&l->returning);
        uint32_t behind = ockam_tail(l, framing, tail, sizeof tail),
            front = ockam_head(l, framing, (uint32_t) engine.run.rest_size, behind, head, sizeof head);
        uint32_t width = ockam_width(framing);
        if (!front || ockam_length(framing, head) != front - width + engine.run.rest_size + behind) abort();
        /* it had no tail, or the other version */
        bool short_one = framing == OCKAM_CBOR ? copy[0] == 0x83 : copy[0] == 2 && !l->tracing;
        if (!short_one && (front - width + engine.run.rest_size + behind != size
                           || memcmp(head + width, copy, front - width))) abort();
        path_push(&l->returning, &own);
        if (route_chain(&engine.run, NULL) == ROUTE_DONE && route_tails(&engine.run)
            && !route_compose(&engine, &engine.run, copy, &none)) abort();
    } else if (result == ROUTE_REFUSED && !*engine.run.detail) {
        abort();
    }
    route_engine_clean(&engine);
    free(copy);
}

static void frames(int rounds)
{
    static const char *const seeds[2] = {
        "\x84\x82\x82\x00\x41" "f\x82\x18\x40\x42" "B2\x82\x82\x01\x4e" "127.0.0.1:3000\x82\x00\x42" "A1\x44ping\x67"
            "context",
        "\x02\x02\x00\x01" "f\x40\x02" "B2\x02\x01\x0e" "127.0.0.1:3000\x00\x02" "A1\x04ping\x01\x07" "context"
    };
    static const size_t sizes[2] = { 48, 44 };
    uint8_t changed[128];
    for (uint8_t framing = 0; framing < 2; framing++) {
        for (int n = 0; n < rounds; n++) {
            memcpy(changed, seeds[framing], sizes[framing]);
            size_t size = n ? change(changed, sizes[framing]) : sizes[framing];
            frame(changed, size, framing);
        }
    }
}

int main(int count, char **names)
{
    static uint8_t table[ROOM], message[ROOM], changed[ROOM];
    if (count < 4 || !route_engine_open(&engine)) return 2;
    size_t size = load(names[1], table);
    route_table *t = route_table_load(table, size);
    if (!t) return 3;
    route_engine_set(&engine, t);
    for (int i = 3; i < count; i++) {
        size_t whole = load(names[i], message);
        for (int n = atoi(names[2]); n--; ) {
            memcpy(changed, message, whole);
            one(changed, n % 7 ? change(changed, whole) : whole, n % 3, (uint32_t) n);
        }
    }
    frames(atoi(names[2]));
    for (uint32_t n = 0; n < 20000; n++) {                     /* tables that lie */
        memcpy(changed, table, size);
        uint8_t *copy = (uint8_t *) malloc(size + 64);
        size_t now = change(changed, size);
        memcpy(copy, changed, now);
        route_table_free(route_table_load(copy, now));
        free(copy);
    }
    route_engine_close(&engine);
    return 0;
}
