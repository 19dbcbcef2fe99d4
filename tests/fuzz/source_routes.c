/* Any bytes as a message with a source route: whatever the workers make of it, nothing is read or written where nothing is, no
 * memory stays, and what leaves is no longer than what came and a limit.
 *
 *   program TABLE ROUNDS MESSAGE...   changes the messages at random, ROUNDS times each, always in the same way
 */
#include <stdio.h>

#include "route_take.h"

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
    static const uint8_t odd[] = { 0, 1, 0x40, 0x45, 0xa1, 0xa3, 0xb1, 0xc0, 0xc1, 0xd0, 0xd1, 0xe0, 0xf0, 0x7f, 0x80, 0xff };
    for (uint32_t n = 1 + next(4); n-- && size; ) {
        uint32_t at = next((uint32_t) size), more = next(8);
        switch (next(5)) {
        case 0: b[at] = odd[next(sizeof odd)]; break;
        case 1: b[at] ^= (uint8_t) (1u << next(8)); break;
        case 2: size -= at ? next(at) : 0; break;
        case 3: memmove(b + at, b + at + (more < size - at ? more : 0), size - at - (more < size - at ? more : 0)); size -= more < size - at ? more : 0; break;
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
    route_sender sender = { .anonymous = !(how & 1), .trunk = how & 2, .entry = how % engine.table->entry_count };
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
