/* How a table of route workers grows: what it costs to load one of n, and to look up an address. */
#ifndef ROUTERD_TESTS_GROWTH_ROUTES_H
#define ROUTERD_TESTS_GROWTH_ROUTES_H

#include "tests/native/growth_world.h"

static uint8_t *put_route_stop(uint8_t *at, uint32_t number)
{
    char name[16];
    const uint8_t size = (uint8_t) snprintf(name, sizeof name, "stop-%u", number * 7919u);
    *at++ = 64;
    *at++ = size;
    *at++ = 0;
    memcpy(at, name, size);
    return at + size;
}

/* A table of n route workers that forward is loaded, and addresses are looked up in it: theirs, and others. */
static void route_workers(uint32_t n)
{
    enum { LIMITS = 12, WORKER = 8, SOURCES = 8 * ROUTE_SOURCE_WORDS };
    uint8_t *bytes = (uint8_t *) calloc(n + 1, 256), *at = bytes + LIMITS + 2;
    *at++ = (uint8_t) n;
    *at++ = (uint8_t) (n >> 8);
    for (uint32_t i = 0; i < n; i++) {
        at += WORKER;
        *at++ = 0xff;                                          /* no rule names it as a source */
        *at++ = 0xff;
        at = put_route_stop(put_route_stop(at, i), i);
        at += 2 + SOURCES + 2 + 4 * 2 + SOURCES + 1;           /* no access, inner address, trace, lists, uplinks */
    }
    counting = true;
    route_table *t = route_table_load(bytes, (size_t) (at - bytes));
    report("route_worker_is_loaded", n);
    CHECK(t && t->worker_count == n, "no table");
    for (uint32_t other = 0; other < 2; other++) {
        counting = true;
        for (uint32_t i = 0; i < n; i++) {
            uint8_t name[64];
            put_route_stop(name, other ? n + i : i);
            const route_stop s = { name + 3, name[1], name[0] };
            CHECK((route_find(t, &s) == NULL) == (other == 1), "stop %u", i);
        }
        report(other ? "no_route_worker_is_found" : "route_worker_is_found", n);
    }
    route_table_free(t);
    free(bytes);
}

#endif
