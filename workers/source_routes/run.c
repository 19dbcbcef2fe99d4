/* A message on its way through route workers: its routes and other annotations, as pointers into the message.
 *
 * A route is kept last stop first, so that the current route worker is at its end: removing or prepending a stop moves
 * nothing. A level is one message; a wrapper makes another one around it (body.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workers/source_routes/source_routes.h"

GLUE const char *const route_condition[ROUTE_REASONS] = {
    "amqp:invalid-field", "amqp:invalid-field", "amqp:invalid-field", "amqp:invalid-field", "amqp:invalid-field",
    "amqp:decode-error",
    "amqp:decode-error", "amqp:resource-limit-exceeded", "amqp:resource-limit-exceeded", "amqp:resource-limit-exceeded",
    "amqp:resource-limit-exceeded", "amqp:resource-limit-exceeded", "amqp:resource-limit-exceeded",
    "amqp:resource-limit-exceeded",
    "amqp:resource-limit-exceeded", "amqp:unauthorized-access", "amqp:not-implemented", "amqp:precondition-failed",
    "amqp:not-allowed"
};

/* The log's line for each reason; each is repeated only now and then. */
GLUE const char *const route_why[ROUTE_REASONS] = {
    "its onward route is empty", "its onward route does not begin with the worker it came to",
    "its onward route ends at a worker",
    "its onward route goes on behind an unwrapper", "an address of its routes is malformed",
    "an annotation of its routes is malformed",
    "what a worker should unwrap is malformed", "it has passed more workers than allowed",
    "its onward route is too long",
    "its return route is too long", "an address of its routes is too long", "its routes have too many octets",
    "there are too many wrappers around it", "it has too much metadata",
    "it is too long for a worker that needs the whole of it",
    "it may not go where its route leads", "a worker cannot wrap such a message",
    "it is a reply over a return route that is not complete",
    "a transform failed"
};

/* ---- refusing ---- */

static int route_shown(const route_stop *s) { return s->length < 80 ? s->length : 80; }

PRIVATE inline enum route_result route_refuse(route_run *r, uint8_t reason, const route_stop *at, const char *text)
{
    r->reason = reason;
    if (!at) snprintf(r->detail, sizeof r->detail, "%s", text);
    else if (at->type)
        snprintf(r->detail, sizeof r->detail, "%u#%.*s: %.240s", at->type, route_shown(at), (const char *) at->at,
                 text);
    else snprintf(r->detail, sizeof r->detail, "%.*s: %.240s", route_shown(at), (const char *) at->at, text);
    for (char *c = r->detail; *c; c++) if ((uint8_t) *c < 0x20 || (uint8_t) *c > 0x7e) *c = '?';
    return ROUTE_REFUSED;
}

PRIVATE inline enum route_result route_over(route_run *r, uint8_t reason, const route_stop *at, const char *what,
                                            uint32_t is,
                                     uint32_t most)
{
    char text[160];
    snprintf(text, sizeof text, what, is, most);
    return route_refuse(r, reason, at, text);
}

/* ---- memory ---- */

PRIVATE inline uint8_t *route_room(route_run *r, size_t size)
{
    route_pile *pile = (route_pile *) malloc(sizeof *pile + size + 1);
    if (!pile) return NULL;
    pile->next = *r->pile;
    *r->pile = pile;
    return pile->bytes;
}

/* ---- routes ---- */

PRIVATE inline void path_push(route_path *w, const route_stop *s)
{
    w->stop[w->count++] = *s;
    w->octets += s->length;
}

PRIVATE inline void path_pop(route_path *w) { w->octets -= w->stop[--w->count].length; }
PRIVATE inline const route_stop *path_first(const route_path *w) { return &w->stop[w->count - 1]; }

/* Puts a list in front of a path. */
PRIVATE inline void path_prepend(route_path *w, const route_list *list)
{
    for (uint32_t i = list->count; i-- > 0;) path_push(w, &list->stop[i]);
}

static void path_copy(route_path *to, const route_path *from)
{
    to->count = from->count;
    to->octets = from->octets;
    memcpy(to->stop, from->stop, from->count * sizeof *from->stop);
}

PRIVATE inline void level_copy(route_level *to, const route_level *from)
{
    path_copy(&to->onward, &from->onward);
    path_copy(&to->returning, &from->returning);
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

PRIVATE inline void level_clear(route_level *l)
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

static enum route_result path_check(route_run *r, const route_path *w, const route_stop *at, bool onward)
{
    const route_limits *l = &r->table->limits;
    uint32_t most = onward ? l->onward : l->returning;
    if (w->count > most)
        return onward
               ? route_over(r, ROUTE_LONG_ONWARD, at, "the onward route has %u addresses; %u are allowed", w->count,
                            most)
                      : route_over(r, ROUTE_LONG_RETURN, at, "the return route has %u addresses; %u are allowed",
                                   w->count, most);
    for (uint32_t i = 0; i < w->count; i++)
        if (w->stop[i].length > l->address_octets)
            return route_over(r, ROUTE_LONG_ADDRESS, at, "a route has an address of %u octets; %u are allowed",
                              w->stop[i].length, l->address_octets);
    if (w->octets > l->route_octets)
        return route_over(r, ROUTE_LONG_ROUTE, at, "a route has %u octets; %u are allowed", w->octets, l->route_octets);
    return ROUTE_DONE;
}

/* Checks the limits that hold for every message. */
PRIVATE inline enum route_result level_check(route_run *r, const route_level *m, const route_stop *at)
{
    const route_limits *l = &r->table->limits;
    if (path_check(r, &m->onward, at, true) == ROUTE_REFUSED
        || path_check(r, &m->returning, at, false) == ROUTE_REFUSED)
        return ROUTE_REFUSED;
    if (m->hops > l->hops)
        return route_over(r, ROUTE_TOO_MANY_HOPS, at, "there are %u worker traversals; %u are allowed", m->hops,
                          l->hops);
    if (m->nesting > l->nesting)
        return route_over(r, ROUTE_NESTING, at, "there are %u wrappers around each other; %u are allowed", m->nesting,
                          l->nesting);
    if (m->meta_count > l->meta_keys)
        return route_over(r, ROUTE_METADATA, at, "there are %u metadata keys; %u are allowed", m->meta_count,
                          l->meta_keys);
    if (m->meta_octets > l->meta_octets)
        return route_over(r, ROUTE_METADATA, at, "there are %u octets of metadata; %u are allowed", m->meta_octets,
                          l->meta_octets);
    return ROUTE_DONE;
}
