/* A message through one route worker at a time: its octets are read before each step and written behind it. */
#include <stdlib.h>
#include <string.h>

#include "workers/amqp/annotations.h"
#include "workers/source_routes/single.h"

GLUE route_level *single_new(route_engine *e, scan_found *found)
{
    static const uint8_t data[] = { AMQP_DESCRIBED, AMQP_SMALLULONG, SECTION_DATA, AMQP_BINARY8, 0 };
    const route_sender nobody = { .anonymous = true };
    *found = (scan_found) { .message_annotations = SCAN_ABSENT };
    route_begin(e, &nobody, data, sizeof data, true, found);
    level_clear(&e->level[0]);
    return &e->level[0];
}

GLUE void single_push(route_path *w, const route_stop *s) { path_push(w, s); }

GLUE enum route_result single_sent(route_engine *e)
{
    route_level *l = &e->level[0];
    if (!l->onward.count)
        return route_refuse(&e->run, ROUTE_EMPTY, NULL, "the onward route is empty; give at least one address");
    l->state = l->returning.count ? ROUTE_COMPLETE : ROUTE_NONE;
    return level_check(&e->run, l, NULL);
}

GLUE enum route_result single_step(route_engine *e, const route_sender *s, uint32_t from, const uint8_t *bytes,
    size_t size, scan_found *found)
{
    route_run *r = &e->run;
    arena_content c = { .key_block = UINT32_MAX };
    bool moved = false;
    enum scan_result scanned = scan_message(bytes, size, true, found);
    scanned = annotations_check(&c, (uint8_t *) (uintptr_t) bytes, found, 0, scanned, &moved);
    if (scanned != SCAN_DONE) return route_refuse(r, ROUTE_BAD_ENCODING, NULL, "the message is no AMQP");
    route_begin(e, s, bytes, size, true, found);
    enum route_result done = route_read(e, s, &c, bytes, found);
    if (done != ROUTE_DONE) return done;
    if (from != ROUTE_NOBODY) run_came_from(r, &r->table->worker[from]);
    route_stop at = *path_first(&e->level[0].onward);
    const route_entry *entry = route_find(e->table, &at);
    done = route_one(r, entry, &at, e->scope);
    if (done == ROUTE_DONE && !entry) return ROUTE_PASS;
    if (done == ROUTE_DONE && !route_tails(r))
        return route_refuse(r, ROUTE_LONG_MESSAGE, NULL, "there is no memory for it");
    return done;
}

GLUE const uint8_t *single_write(route_engine *e, const route_run *r, const uint8_t *start, const scan_found *found)
{
    return route_compose(e, r, start, found) ? out_start(&e->out) : NULL;
}

GLUE const route_level *single_inside(const route_run *r) { return r->depth ? &r->level[r->depth - 1] : NULL; }

GLUE uint8_t *single_unchanged(void *self, uint32_t worker, const uint8_t *data, size_t size, size_t *changed)
{
    (void) self;
    (void) worker;
    uint8_t *same = (uint8_t *) malloc(size + 1);
    if (same && size) memcpy(same, data, size);
    *changed = size;
    return same;
}

GLUE void single_clean(route_engine *e) { route_engine_clean(e); }
