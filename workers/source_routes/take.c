/* The passage of an arriving message through route workers, if it is for one of them.
 *
 * A link whose target is a route worker's address brings messages for that route worker; messages to any other target
 * go there, regardless of their annotations. A message on an anonymous link goes by its onward route, or by `to` if it
 * has none; a message from another router goes where that router says.
 */
#include <stdlib.h>
#include <string.h>

#include "workers/source_routes/source_routes.h"

GLUE bool route_engine_open(route_engine *e)
{
    memset(e, 0, sizeof *e);
    e->level = (route_level *) malloc((ROUTE_DEPTH + 1) * sizeof *e->level);
    return e->level != NULL;
}

/* Frees the copies of a run and its memory. */
PRIVATE inline void route_engine_clean(route_engine *e)
{
    while (e->run.copies) {
        route_run *copy = e->run.copies;
        e->run.copies = copy->copies;
        free(copy->level);
        free(copy);
    }
    while (e->pile) {
        route_pile *pile = e->pile;
        e->pile = pile->next;
        free(pile);
    }
}

GLUE void route_engine_close(route_engine *e)
{
    route_engine_clean(e);
    route_table_free(e->table);
    free(e->level);
    free(e->out.bytes);
    free(e->text.bytes);
}

/* Replaces the table. Senders are looked up again with their next message. */
GLUE void route_engine_set(route_engine *e, route_table *t)
{
    for (uint32_t i = 0; e->table && i < e->table->entry_count; i++) {     /* counts go on where the address stays */
        const route_entry *now = route_find(t, &e->table->entry[i].address);
        route_worker *from = &e->table->worker[e->table->entry[i].worker], *to = now ? &t->worker[now->worker] : NULL;
        if (!to || e->table->entry[i].inner || now->inner) continue;
        to->in += from->in;
        to->out += from->out;
        for (uint32_t j = 0; j < ROUTE_REASONS; j++) to->refused[j] += from->refused[j];
    }
    route_table_free(e->table);
    e->table = t;
    if (!++e->epoch) e->epoch = 1;
}

/* ---- where it begins ---- */

/* The text of properties.reply-to; empty: there is none. */
static amqp_octets route_reply_to(const uint8_t *start, const scan_found *found)
{
    amqp_cursor fields;
    uint32_t count;
    amqp_octets none = { NULL, 0 };
    amqp_value field = { NULL, 0 };
    if (found->properties == SCAN_ABSENT) return none;
    const uint8_t *p = scan_value(start + found->properties);
    if (!amqp_list((amqp_value) { p, (size_t) (start + found->body - p) }, &fields, &count) || count < 5) return none;
    for (int i = 0; i < 5; i++) if (!(field = amqp_next(&fields)).at) return none;
    return amqp_text(field);
}

/* Finds the route worker that a link or another router names. NULL: the name is no route worker's. */
static const route_entry *route_named(const route_engine *e, const route_sender *s, const arena_content *c,
                                      const uint8_t *start, const scan_found *found)
{
    if (!s->anonymous) return s->entry < e->table->entry_count ? &e->table->entry[s->entry] : NULL;
    if (found->to == SCAN_ABSENT || found->to_length > UINT16_MAX || !(s->inter_router || c->routed & ROUTED_OVERRIDE))
        return NULL;
    return route_find(e->table, &(route_stop) { start + found->to, (uint16_t) found->to_length, 0 });
}

/* Reads the onward route of a message; without one, the name of its address is the route. */
static enum route_result route_onward(route_engine *e, const route_sender *s, const arena_content *c,
                                      const uint8_t *start, const scan_found *found, bool given)
{
    route_run *r = &e->run;
    route_level *l = &e->level[0];
    bool held = !s->anonymous || s->inter_router || c->routed & ROUTED_OVERRIDE;
    const route_entry *named = held ? route_named(e, s, c, start, found) : NULL;
    if (held && !named) return ROUTE_PASS;
    if (given && !l->onward.count)
        return route_refuse(r, ROUTE_EMPTY, named ? &named->text : NULL,
                            "the onward route is empty; give at least one address");
    if (named && !given) path_push(&l->onward, &named->address);
    if (named && !route_same(path_first(&l->onward), &named->address)) {
        r->visit[(*r->visit_count)++] = (route_visit) { named->worker, ROUTE_NOT_MINE };
        return route_refuse(r, ROUTE_NOT_MINE, &named->text,
                            "the onward route begins with another address than the one that the message was sent to");
    }
    if (named || given) return ROUTE_DONE;
    if (found->to == SCAN_ABSENT) return ROUTE_PASS;
    r->by_text = route_is_scheme(start + found->to, found->to_length);
    if (route_read_text(r, &l->onward, start + found->to, found->to_length) == ROUTE_REFUSED) return ROUTE_REFUSED;
    if (r->by_text && !l->onward.count)
        return route_refuse(r, ROUTE_EMPTY, NULL, "the onward route is empty; give at least one address");
    return r->by_text || (l->onward.count && route_find(e->table, path_first(&l->onward))) ? ROUTE_DONE : ROUTE_PASS;
}

PRIVATE inline enum route_result route_read(route_engine *e, const route_sender *s, const arena_content *c,
                                            const uint8_t *start, const scan_found *found)
{
    route_run *r = &e->run;
    route_level *l = &e->level[0];
    route_given given = { .seen = 0 };
    level_clear(l);
    if (found->message_annotations != SCAN_ABSENT &&
        route_read_map(r, l, start + c->user_from, c->user_to - c->user_from, c->user_count, &given)
        == ROUTE_REFUSED) return ROUTE_REFUSED;
    enum route_result done = route_onward(e, s, c, start, found, given.onward);
    if (done != ROUTE_DONE) return done;
    amqp_octets reply = given.returning ? (amqp_octets) { NULL, 0 } : route_reply_to(start, found);
    if (reply.size && route_read_text(r, &l->returning, reply.at, reply.size) == ROUTE_REFUSED) return ROUTE_REFUSED;
    if (!given.state) l->state = l->returning.count ? ROUTE_COMPLETE : ROUTE_NONE;
    return level_check(r, l, NULL);
}

/* ---- the whole way ---- */

PRIVATE inline void route_begin(route_engine *e, const route_sender *s, const uint8_t *start, size_t size,
                                bool complete,
                         const scan_found *found)
{
    route_run *r = &e->run;
    memset(r, 0, offsetof(route_run, detail));
    r->table = e->table;
    r->self = e->self;
    r->change = e->change;
    r->level = e->level;
    r->rest = start + found->annotations_end;
    r->rest_size = size - found->annotations_end;
    r->complete = complete;
    r->whole = size;
    r->source = s->source;
    r->sender = ROUTE_NOBODY;
    r->root = r;
    r->pile = &e->pile;
    r->visit = e->visit;
    r->visit_count = &e->visit_count;
    e->visit_count = 0;
    e->anew = false;
}

/* May a client whose policy names addresses send to this one?  The core sees only where it goes from there. */
static bool route_reaches(const route_engine *e, const route_sender *s, const route_stop *first)
{
    const route_entry *entry = s->limited ? route_find(e->table, first) : NULL;
    return !entry || (s->reach && s->reach[entry - e->table->entry]);
}

/* Takes the copies to where they go, which may make more of them.  One that is refused is counted, and gone. */
PRIVATE inline void route_copies(route_engine *e)
{
    for (route_run **at = &e->run.copies; *at;) {
        route_run *copy = *at;
        if (route_chain(copy, e->scope) == ROUTE_DONE && route_tails(copy)) { at = &copy->copies; continue; }
        *at = copy->copies;
        free(copy->level);
        free(copy);
    }
}

/* What becomes of a message whose beginning was scanned and found good.  PASS: nothing; else the run says what. */
PRIVATE inline enum route_result route_take(route_engine *e, const route_sender *s, const arena_content *c,
                                            const uint8_t *start, size_t size, bool complete,
                                            const scan_found *found)
{
    route_run *r = &e->run;
    route_begin(e, s, start, size, complete, found);
    enum route_result done = route_read(e, s, c, start, found);
    if (done != ROUTE_DONE) return done;
    const route_stop *first = path_first(&e->level[0].onward);
    if (!route_reaches(e, s, first))
        return route_refuse(r, ROUTE_ACCESS, first, "the policy does not let its sender send here");
    if ((done = route_chain(r, e->scope)) != ROUTE_DONE) return done;
    if (!route_tails(r)) return route_refuse(r, ROUTE_LONG_MESSAGE, NULL, "the router is out of memory");
    first = path_first(&e->level[0].onward);
    e->anew = e->visit_count || r->by_text || !route_plain(first);
    if (!e->anew) e->first = (route_first) { (size_t) (first->at - start), first->length };
    route_copies(e);
    return ROUTE_DONE;
}

/* The new beginning of a message or of a copy; what follows it is the run's `rest`.  False: out of memory. */
PRIVATE inline bool route_compose(route_engine *e, const route_run *r, const uint8_t *start, const scan_found *found)
{
    uint32_t before = found->message_annotations != SCAN_ABSENT ? found->message_annotations : found->annotations_end;
    e->out.used = 0;
    route_write(r, &e->out, &e->text, &e->first);
    e->first.offset += before - found->section_end;
    front_bytes(&e->out, start + found->section_end, before - found->section_end);
    bool failed = e->out.failed || e->text.failed;
    e->out.failed = e->text.failed = false;
    return !failed;
}

/* ---- counting ---- */

/* Adds a run's outcome, which is certain now, to the counters of its route workers. */
PRIVATE inline void route_count(route_engine *e)
{
    for (uint32_t i = 0; i < e->visit_count; i++) {
        route_worker *w = &e->table->worker[e->visit[i].worker];
        w->in++;
        if (e->visit[i].reason == ROUTE_PASSED) w->out++;
        else w->refused[e->visit[i].reason]++;
    }
}

/* ---- payloads that go on, piece by piece ---- */

/* Unwraps the next piece of a payload in place. Returns the octets left; -1: the payload is no data section. */
PRIVATE inline int64_t route_body_take(route_body *b, uint8_t *bytes, size_t size)
{
    int64_t n = (int64_t) size;
    for (uint32_t i = 0; i < b->opened && n > 0; i++) n = sections_take(&b->sections[i], bytes, (size_t) n, bytes);
    return n;
}

/* The beginnings of the sections around the next piece; how long they are. */
PRIVATE inline uint32_t route_body_heads(const route_body *b, size_t size, uint8_t *to)
{
    for (uint32_t i = 0; i < b->layers; i++)
        route_data_head(to + ROUTE_DATA_HEAD * i, (uint32_t) (size + ROUTE_DATA_HEAD * (b->layers - 1 - i)));
    return b->layers * ROUTE_DATA_HEAD;
}

PRIVATE inline bool route_body_over(const route_body *b)
{
    for (uint32_t i = 0; i < b->opened; i++) if (!sections_over(&b->sections[i])) return false;
    return true;
}
