/* Any bytes as a message with a source route: whatever the workers make of it, nothing is read or written where nothing
 * is, no memory stays, and what leaves is no longer than what came and a limit.  The same of frames of Ockam nodes, in
 * and out.
 *
 * FUZZ_MATERIAL, in the environment, is a folder with the table of some route workers, `table`.
 */
#define ROUTERD_UNITY

#include "tests/fuzz/parts/input.h"

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
static void one(const uint8_t *bytes, size_t size, bool complete, uint32_t how)
{
    uint8_t *copy = copy_of(bytes, size);
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
    uint8_t *copy = copy_of(bytes, size);
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

/* A table that lies. */
static void table(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = copy_of(bytes, size);
    route_table_free(route_table_load(copy, size));
    free(copy);
}

static void open_engine(void)
{
    static uint8_t octets[ROOM];
    char name[4096];
    const char *folder = getenv("FUZZ_MATERIAL");
    CHECK(folder && route_engine_open(&engine), "FUZZ_MATERIAL names no folder");
    snprintf(name, sizeof name, "%s/table", folder);
    FILE *f = fopen(name, "rb");
    CHECK(f, "%s: cannot be read", name);
    size_t size = fread(octets, 1, ROOM, f);
    fclose(f);
    route_table *t = route_table_load(octets, size);
    CHECK(t, "%s: is no table", name);
    route_engine_set(&engine, t);
}

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t size)
{
    if (!engine.table) open_engine();
    input_open(octets, size);
    uint32_t kind = below(4), how = below(256);
    switch (kind) {
    case 0: frame(input.at, choices_left(), how & 1); break;
    case 1: table(input.at, choices_left()); break;
    default: one(input.at, choices_left(), kind == 2, how);
    }
    return 0;
}
