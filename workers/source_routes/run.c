/* A message on its way through workers: its routes and what else its annotations say, as pointers to where it stands.
 *
 * A route is kept last stop first, so that the worker at hand is at its end: to take it off, or to put one in front, moves
 * nothing.  A level is one message; a wrapper makes another one around it (route_body.h).
 */
#ifndef ROUTERD_WORKERS_ROUTE_RUN_H
#define ROUTERD_WORKERS_ROUTE_RUN_H

#include <stdio.h>

#include "workers/source_routes/table.c"
#include "shm/scan.h"

#define ROUTE_STOPS 512u               /* twice what a limit can be: one route in front of another */
#define ROUTE_DEPTH 16u                /* wrappers that one chain may put around each other, or take off */
#define ROUTE_VISITS 512u              /* workers that one message and its copies may pass here */
#define ROUTE_COPIES 32u
#define ROUTE_WHOLE (1u << 20)         /* octets of a message that must be there as a whole */
#define ROUTE_CHANGED_MOST (16u << 20) /* octets that a transform may make of a payload */
#define ROUTE_DATA_HEAD 8u             /* octets in front of each data section */
#define ROUTE_DETAIL 384u
#define ROUTE_TRACING_MOST 4096u       /* octets of a tracing context */
#define ROUTE_PASSED UINT8_MAX

enum route_result { ROUTE_PASS, ROUTE_DONE, ROUTE_MORE, ROUTE_REFUSED };
enum route_state { ROUTE_COMPLETE, ROUTE_PARTIAL, ROUTE_NONE };

typedef struct { route_stop stop[ROUTE_STOPS]; uint32_t count, octets; } route_way;

typedef struct {                       /* one key of the metadata, as it is encoded */
    const uint8_t *key, *name, *value;
    uint32_t key_size, name_size, value_size;
    uint32_t octets;                   /* as the limit counts */
    uint8_t class;
    const uint8_t *items;              /* of a list: its values; NULL: it is none */
    uint32_t items_size, items_count;
} route_meta;

typedef struct {
    route_way onward, returning;       /* last stop first */
    uint8_t state;
    uint16_t hops, nesting;
    uint32_t meta_count, meta_octets;
    route_meta meta[256];
    const uint8_t *tracing;            /* a context that is carried and not looked at; NULL: there is none */
    uint32_t tracing_size;
    uint32_t trace;                    /* which of them collects addresses, plus 1 */
    uint32_t added_count;              /* addresses collected here */
    const route_stop *added[256];
    const uint8_t *user;               /* the annotations map: what of it is not ours passes on; NULL: there is none */
    uint32_t user_size, user_count;
} route_level;

typedef struct {                       /* what stands around the payload */
    uint8_t form;
    uint32_t level;                    /* the message inside; of ROUTE_PAYLOAD: none */
    uint32_t tail;                     /* octets of it behind the payload (route_tails) */
} route_layer;

typedef struct {                       /* data sections being put together, also over pieces of a message (route_body.h) */
    uint64_t left;                     /* octets of the section at hand that are to come */
    uint32_t have;                     /* octets of the next one's beginning that are there */
    uint8_t head[SCAN_DESCRIPTOR_MAX + 5];
} route_sections;

typedef struct route_pile {            /* memory of one run, freed with it */
    struct route_pile *next;
    uint8_t bytes[];
} route_pile;

typedef struct { uint32_t worker; uint8_t reason; } route_visit;           /* reason: ROUTE_PASSED, or why it was refused there */

typedef struct route_run {
    route_table *table;
    void *self;                        /* who tells scopes and runs transforms */
    uint8_t *(*change)(void *self, uint32_t worker, const uint8_t *data, size_t size, size_t *changed);    /* memory for free(); NULL: it failed */
    route_level *level;                /* ROUTE_DEPTH + 1; the one at hand is number `depth` */
    uint32_t depth, layers;
    route_layer layer[ROUTE_DEPTH];    /* put around it here, the innermost first */
    uint32_t opened;                   /* wrappers taken off that came with it */
    route_sections sections[ROUTE_DEPTH];
    const uint8_t *rest;               /* of the payload: behind what was opened */
    uint64_t rest_size;
    bool bare_data;                    /* `rest` is data without a section around it */
    bool complete;                     /* there will be no more of it */
    uint64_t whole;                    /* octets of the message that are there */
    bool wants_whole;                  /* MORE: nothing is known before all of it is there */
    route_source source;
    uint32_t sender;                   /* the worker it comes from; ROUTE_NOBODY: none yet */
    bool by_text;                      /* its onward route stands in no annotation */
    struct route_run *root, *copies;   /* the message itself; the next of its copies */
    uint32_t copy_count, copies_lost;  /* of the root: how many there are, how many there could not be */
    route_pile **pile;
    uint32_t *visit_count;
    route_visit *visit;
    uint8_t reason;
    char detail[ROUTE_DETAIL];
} route_run;

/* Python's answer: the scope of an address; its length, -1: none. */
typedef int (*route_scope)(void *self, uint32_t worker, const route_stop *s, uint8_t *scope, uint32_t room);

static const char *const route_condition[ROUTE_REASONS] = {
    "amqp:invalid-field", "amqp:invalid-field", "amqp:invalid-field", "amqp:invalid-field", "amqp:invalid-field", "amqp:decode-error",
    "amqp:decode-error", "amqp:resource-limit-exceeded", "amqp:resource-limit-exceeded", "amqp:resource-limit-exceeded",
    "amqp:resource-limit-exceeded", "amqp:resource-limit-exceeded", "amqp:resource-limit-exceeded", "amqp:resource-limit-exceeded",
    "amqp:resource-limit-exceeded", "amqp:unauthorized-access", "amqp:not-implemented", "amqp:precondition-failed", "amqp:not-allowed"
};

/* What the log is told of each reason, once in a while. */
static const char *const route_why[ROUTE_REASONS] = {
    "its onward route is empty", "its onward route does not begin with the worker it came to", "its onward route ends at a worker",
    "its onward route goes on behind an unwrapper", "an address of its routes makes no sense", "an annotation of its routes makes no sense",
    "what a worker should unwrap makes no sense", "it has passed more workers than allowed", "its onward route is too long",
    "its return route is too long", "an address of its routes is too long", "its routes have too many octets",
    "there are too many wrappers around it", "it has too much metadata", "it is too long for a worker that needs the whole of it",
    "it may not go where its route leads", "a worker cannot wrap such a message", "it is a reply over a return route that is not complete",
    "a transform failed"
};

/* ---- refusing ---- */

static inline int route_shown(const route_stop *s) { return s->length < 80 ? s->length : 80; }

static inline enum route_result route_refuse(route_run *r, uint8_t reason, const route_stop *at, const char *text)
{
    r->reason = reason;
    if (!at) snprintf(r->detail, sizeof r->detail, "%s", text);
    else if (at->type) snprintf(r->detail, sizeof r->detail, "%u#%.*s: %.240s", at->type, route_shown(at), (const char *) at->at, text);
    else snprintf(r->detail, sizeof r->detail, "%.*s: %.240s", route_shown(at), (const char *) at->at, text);
    for (char *c = r->detail; *c; c++) if ((uint8_t) *c < 0x20 || (uint8_t) *c > 0x7e) *c = '?';
    return ROUTE_REFUSED;
}

static inline enum route_result route_over(route_run *r, uint8_t reason, const route_stop *at, const char *what, uint32_t is, uint32_t most)
{
    char text[160];
    snprintf(text, sizeof text, what, is, most);
    return route_refuse(r, reason, at, text);
}

/* ---- memory ---- */

static inline uint8_t *route_room(route_run *r, size_t size)
{
    route_pile *pile = (route_pile *) malloc(sizeof *pile + size + 1);
    if (!pile) return NULL;
    pile->next = *r->pile;
    *r->pile = pile;
    return pile->bytes;
}

/* ---- routes ---- */

static inline void way_push(route_way *w, const route_stop *s)
{
    w->stop[w->count++] = *s;
    w->octets += s->length;
}

static inline void way_pop(route_way *w) { w->octets -= w->stop[--w->count].length; }
static inline const route_stop *way_first(const route_way *w) { return &w->stop[w->count - 1]; }

/* A list in front. */
static inline void way_prepend(route_way *w, const route_list *list)
{
    for (uint32_t i = list->count; i-- > 0;) way_push(w, &list->stop[i]);
}

static inline void way_copy(route_way *to, const route_way *from)
{
    to->count = from->count;
    to->octets = from->octets;
    memcpy(to->stop, from->stop, from->count * sizeof *from->stop);
}

static inline void level_copy(route_level *to, const route_level *from)
{
    way_copy(&to->onward, &from->onward);
    way_copy(&to->returning, &from->returning);
    to->state = from->state;
    to->hops = from->hops;
    to->nesting = from->nesting;
    to->meta_count = from->meta_count;
    to->meta_octets = from->meta_octets;
    memcpy(to->meta, from->meta, from->meta_count * sizeof *from->meta);
    to->tracing = from->tracing;
    to->tracing_size = from->tracing_size;
    to->trace = from->trace;
    to->added_count = from->added_count;
    memcpy(to->added, from->added, from->added_count * sizeof *from->added);
    to->user = from->user;
    to->user_size = from->user_size;
    to->user_count = from->user_count;
}

static inline void level_clear(route_level *l)
{
    l->onward.count = l->onward.octets = l->returning.count = l->returning.octets = 0;
    l->state = ROUTE_NONE;
    l->hops = l->nesting = 0;
    l->meta_count = l->meta_octets = l->trace = l->added_count = 0;
    l->tracing = NULL;
    l->tracing_size = 0;
    l->user = NULL;
    l->user_size = l->user_count = 0;
}

static inline enum route_result way_check(route_run *r, const route_way *w, const route_stop *at, bool onward)
{
    const route_limits *l = &r->table->limits;
    uint32_t most = onward ? l->onward : l->returning;
    if (w->count > most)
        return onward ? route_over(r, ROUTE_LONG_ONWARD, at, "the onward route has %u addresses; %u are allowed", w->count, most)
                      : route_over(r, ROUTE_LONG_RETURN, at, "the return route has %u addresses; %u are allowed", w->count, most);
    for (uint32_t i = 0; i < w->count; i++)
        if (w->stop[i].length > l->address_octets)
            return route_over(r, ROUTE_LONG_ADDRESS, at, "a route has an address of %u octets; %u are allowed", w->stop[i].length, l->address_octets);
    if (w->octets > l->route_octets)
        return route_over(r, ROUTE_LONG_ROUTE, at, "a route has %u octets; %u are allowed", w->octets, l->route_octets);
    return ROUTE_DONE;
}

/* What every message keeps. */
static inline enum route_result level_check(route_run *r, const route_level *m, const route_stop *at)
{
    const route_limits *l = &r->table->limits;
    if (way_check(r, &m->onward, at, true) == ROUTE_REFUSED || way_check(r, &m->returning, at, false) == ROUTE_REFUSED) return ROUTE_REFUSED;
    if (m->hops > l->hops) return route_over(r, ROUTE_TOO_MANY_HOPS, at, "there are %u worker traversals; %u are allowed", m->hops, l->hops);
    if (m->nesting > l->nesting) return route_over(r, ROUTE_NESTING, at, "there are %u wrappers around each other; %u are allowed", m->nesting, l->nesting);
    if (m->meta_count > l->meta_keys) return route_over(r, ROUTE_METADATA, at, "there are %u metadata keys; %u are allowed", m->meta_count, l->meta_keys);
    if (m->meta_octets > l->meta_octets)
        return route_over(r, ROUTE_METADATA, at, "there are %u octets of metadata; %u are allowed", m->meta_octets, l->meta_octets);
    return ROUTE_DONE;
}

#endif
