/* Workers of source routes as functions that a test can call. */
#define ROUTERD_UNITY

#include "workers/amqp/annotations_in.c"
#include "workers/amqp/annotations_put.c"
#include "workers/source_routes/body.c"
#include "workers/source_routes/meta.c"
#include "workers/source_routes/read.c"
#include "workers/source_routes/run.c"
#include "workers/source_routes/step.c"
#include "workers/source_routes/table.c"
#include "workers/source_routes/take.c"
#include "workers/source_routes/write.c"

static route_engine engine;
static uint8_t out[4 << 20];

typedef struct {
    int result;                            /* enum route_result; -1: the message is malformed; -2: no memory */
    uint32_t reason, copies, visits, origin;
    const char *detail;
    const uint8_t *bytes;
    size_t size, first, first_length;
    uint32_t opened, layers;
    uint64_t need;
} routed;

int load(const uint8_t *table, size_t size);
void route(const uint8_t *bytes, size_t size, int complete, const route_sender *sender, routed *r);
int copy(uint32_t which, const uint8_t *bytes, size_t size, routed *r);
int64_t piece(const uint8_t *bytes, size_t size, routed *r);
int counts(uint32_t worker, uint64_t *found);

static route_body body;

int load(const uint8_t *table, size_t size)
{
    if (!engine.level && !route_engine_open(&engine)) return -1;
    route_table *t = route_table_load(table, size);
    if (!t) return -1;
    route_engine_set(&engine, t);
    return (int) t->entry_count;
}

static scan_found found;

static void put(const route_run *run, const uint8_t *bytes, routed *r)
{
    if (!route_compose(&engine, run, bytes, &found) || engine.out.used + run->rest_size > sizeof out) {
        r->result = -2;
        return;
    }
    memcpy(out, out_start(&engine.out), engine.out.used);
    memcpy(out + engine.out.used, run->rest, run->rest_size);
    r->bytes = out;
    r->size = engine.out.used + run->rest_size;
    r->first = engine.first.offset;
    r->first_length = engine.first.length;
}

/* `bytes` stay as they are until all copies were asked for. */
void route(const uint8_t *bytes, size_t size, int complete, const route_sender *sender, routed *r)
{
    arena_content c = { .key_block = UINT32_MAX };
    bool moved = false;
    memset(r, 0, sizeof *r);
    route_engine_clean(&engine);
    if (annotations_check(&c, (uint8_t *) (uintptr_t) bytes, &found, 0, scan_message(bytes, size, complete, &found),
                          &moved) != SCAN_DONE) {
        r->result = -1;
        return;
    }
    r->result = route_take(&engine, sender, &c, bytes, size, complete, &found);
    r->reason = engine.run.reason;
    r->detail = engine.run.detail;
    r->visits = engine.visit_count;
    r->copies = engine.run.copy_count;
    r->opened = engine.run.opened;
    r->layers = engine.run.layers;
    r->need = engine.run.need;
    if (r->result == ROUTE_REFUSED || r->result == ROUTE_DONE) route_count(&engine);
    if (r->result != ROUTE_DONE) return;
    body = (route_body) { .opened = engine.run.opened, .layers = engine.run.layers };
    memcpy(body.sections, engine.run.sections, sizeof body.sections);
    if (engine.anew) { put(&engine.run, bytes, r); return; }
    r->bytes = bytes;
    r->size = size;
    r->first = engine.first.offset;
    r->first_length = engine.first.length;
}

int copy(uint32_t which, const uint8_t *bytes, size_t size, routed *r)
{
    (void) size;
    route_run *one = engine.run.copies;
    while (one && which--) one = one->copies;
    if (!one) return 0;
    memset(r, 0, sizeof *r);
    put(one, bytes, r);
    return r->result == 0;
}

/* The next piece of the message that was routed last, as it leaves; -1: it makes no sense, -2 at its end: it is cut
 * short. */
int64_t piece(const uint8_t *bytes, size_t size, routed *r)
{
    if (!size) return route_body_over(&body) ? 0 : -2;
    memcpy(out + 4096, bytes, size);
    int64_t n = route_body_take(&body, out + 4096, size);
    if (n <= 0) return n;
    uint8_t heads[ROUTE_DEPTH * ROUTE_DATA_HEAD];
    uint32_t front = route_body_heads(&body, (size_t) n, heads);
    memcpy(out + 4096 - front, heads, front);
    r->bytes = out + 4096 - front;
    return n + front;
}

int counts(uint32_t worker, uint64_t *numbers)
{
    route_worker *w = &engine.table->worker[worker];
    numbers[0] = w->in;
    numbers[1] = w->out;
    numbers[2] = 0;
    for (int i = 0; i < ROUTE_REASONS; i++) numbers[2] += w->refused[i];
    return 0;
}
