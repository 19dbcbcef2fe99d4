/* The effect of each kind of route worker on a message (tests/model/source_routes/rules.py is the same in Python, and
 * tests compare the two): one route worker after the other, until the next address is not of this router.
 *
 *   ROUTE_DONE      the message goes to the first onward address
 *   ROUTE_MORE      a route worker needs more of the message; it passes all of them again when that has come
 *   ROUTE_REFUSED   reason and detail say why
 */
#include <stdlib.h>
#include <string.h>

#include "workers/source_routes/source_routes.h"

static const route_stop route_marker = { (const uint8_t *) "_scope", 6, 0 };

static route_level *run_level(route_run *r) { return &r->level[r->depth]; }

/* Who sends it now. */
PRIVATE inline void run_came_from(route_run *r, const route_worker *w)
{
    memset(&r->source, 0, sizeof r->source);
    if (w->source >= 0) r->source.names.bits[w->source / 64] |= 1ull << (w->source % 64);
    r->sender = w->number;
}

static enum route_result route_next(route_run *r, uint32_t count)
{
    return count ? ROUTE_DONE
           : route_refuse(r, ROUTE_NO_NEXT, NULL, "the onward route ends at a worker that only passes messages on");
}

/* On to the next address, over the border of a scope if the worker is one; `traced` NULL: it does not trace. */
static enum route_result route_moved(route_run *r, const route_worker *w, const route_stop *traced)
{
    route_level *l = run_level(r);
    if (route_next(r, l->onward.count) == ROUTE_REFUSED) return ROUTE_REFUSED;
    if (w->crosses) {
        if (!traced && l->state == ROUTE_COMPLETE) l->state = ROUTE_PARTIAL;
        level_leave(l);
    }
    if (traced) path_push(&l->returning, traced);
    return ROUTE_DONE;
}

static const route_stop *route_traced(const route_worker *w) { return w->traces ? &w->traced : NULL; }

/* ---- cutting off what other scopes have traced ---- */

/* The digits at the end of a name, or what Python finds.  False: it has no scope. */
static bool route_scope_of(route_run *r, route_scope scope, const route_worker *w, const route_stop *s, uint8_t *text,
                           route_stop *found)
{
    if (w->tells_scopes) {
        int n = scope ? scope(r->self, w->number, s, text, UINT8_MAX) : -1;
        *found = (route_stop) { text, (uint16_t) (n < 0 ? 0 : n), 0 };
        return n >= 0;
    }
    uint16_t from = s->length;
    while (from && s->at[from - 1] >= '0' && s->at[from - 1] <= '9') from--;
    *found = (route_stop) { s->at + from, (uint16_t) (s->length - from), 0 };
    return from < s->length;
}

static void route_cut(route_run *r, const route_worker *w, route_scope scope)
{
    route_path *path = &run_level(r)->returning;
    bool found = true;
    uint32_t cut = 0;
    if (w->strip == ROUTE_STRIP_COUNT) {
        found = path->count >= w->strip_count;
        cut = found ? w->strip_count : path->count;
    } else if (w->strip == ROUTE_STRIP_MARKER) {
        while (cut < path->count && !route_same(&path->stop[path->count - 1 - cut], &route_marker)) cut++;
        found = cut < path->count;
        cut = found ? cut + 1 : 0;
    } else {
        uint8_t text[UINT8_MAX];
        route_stop one;
        while (cut < path->count && route_scope_of(r, scope, w, &path->stop[path->count - 1 - cut], text, &one)
               && !route_listed(&w->scopes, &one))
            cut++;
    }
    while (cut--) path_pop(path);
    if (run_level(r)->state == ROUTE_COMPLETE && !(found && path->count)) run_level(r)->state = ROUTE_PARTIAL;
}

/* ---- wrapping ---- */

/* The message becomes the payload of a new one, which goes to `to`. */
static enum route_result route_seal(route_run *r, const route_worker *w, const route_list *to, const route_list *back)
{
    route_level *in = run_level(r), *out = in + 1;
    if (route_next(r, in->onward.count) == ROUTE_REFUSED || route_next(r, to->count) == ROUTE_REFUSED)
        return ROUTE_REFUSED;
    if (r->layers == ROUTE_DEPTH || r->depth == ROUTE_DEPTH)
        return route_over(r, ROUTE_NESTING, NULL, "more than %u wrappers are put around it here; %u are allowed",
                          ROUTE_DEPTH, ROUTE_DEPTH);
    if (w->form == ROUTE_BARE) {
        route_sections s;
        enum route_result done = body_whole(r);
        if (done == ROUTE_DONE && !r->layers && !r->bare_data) done = body_gather(r, true, &s);
        if (done != ROUTE_DONE) return done;
        r->bare_data |= !r->layers;
    }
    level_copy(out, in);
    level_leave(in);
    r->layer[r->layers++] = (route_layer) { w->form, r->depth++, 0 };
    out->onward.count = out->onward.octets = out->returning.count = out->returning.octets = 0;
    path_prepend(&out->onward, to);
    if (back) path_prepend(&out->returning, back);
    out->state = out->returning.count ? ROUTE_COMPLETE : ROUTE_NONE;
    out->nesting++;
    out->user = NULL;
    out->user_size = out->user_count = 0;
    out->tracing = NULL;
    out->tracing_size = 0;
    level_outside(out, w);
    return ROUTE_DONE;
}

/* One that was put around it here: nothing has been written yet. */
static enum route_result route_unseal(route_run *r, uint8_t form)
{
    if (r->layer[r->layers - 1].form != form) return route_wrong(r, "it is wrapped in another format");
    r->layers--;
    r->depth--;
    route_level *in = run_level(r);
    if (form != ROUTE_BARE) return ROUTE_DONE;
    /* BARE holds no more than routes and payload */
    in->state = in->returning.count ? ROUTE_COMPLETE : ROUTE_NONE;
    in->hops = 0;
    in->meta_count = in->meta_octets = in->trace = in->added_count = 0;
    in->user = NULL;
    in->user_size = in->user_count = 0;
    return ROUTE_DONE;
}

/* The message inside.  Of the one around it count hops, nesting and metadata, and no route. */
static enum route_result route_open(route_run *r, uint8_t form, bool merge)
{
    route_level *out = run_level(r), *in;
    uint16_t hops = out->hops, nesting = out->nesting;
    enum route_result done;
    if (out->onward.count)
        return route_refuse(r, ROUTE_SURPLUS, NULL, "addresses follow the worker that unwraps; it must be the last");
    if (r->layers) {
        in = out - 1;
        done = route_unseal(r, form);
    } else {
        in = out + 1;
        done = body_open(r, form, in);
    }
    if (done != ROUTE_DONE || (done = level_merge(r, in, out, merge)) != ROUTE_DONE) return done;
    if (in > out) level_copy(out, in);
    in = run_level(r);
    if (in->hops < hops) in->hops = hops;
    in->nesting = nesting ? nesting - 1 : 0;
    return ROUTE_DONE;
}

/* ---- the kinds ---- */

static enum route_result step_proxy(route_run *r, const route_worker *w, const route_entry *at)
{
    route_level *l = run_level(r);
    const route_entry *other = at->inner ? at - 1 : at + 1;
    if (at->inner) {
        if (l->returning.count) path_pop(&l->returning);
    } else {
        path_prepend(&l->onward, &w->route);
    }
    return route_moved(r, w, &other->address);
}

static enum route_result step_extend(route_run *r, const route_worker *w)
{
    path_prepend(&run_level(r)->onward, &w->route);
    if (route_moved(r, w, route_traced(w)) == ROUTE_REFUSED) return ROUTE_REFUSED;
    if (w->marks) path_push(&run_level(r)->returning, &route_marker);
    return ROUTE_DONE;
}

static enum route_result step_payload(route_run *r, const route_worker *w)
{
    enum route_result done = ROUTE_DONE;
    if (w->kind == ROUTE_PAYLOAD_WRAP) path_prepend(&run_level(r)->onward, &w->route);
    if (route_moved(r, w, route_traced(w)) == ROUTE_REFUSED) return ROUTE_REFUSED;
    if (w->kind == ROUTE_PAYLOAD_WRAP) {
        if (r->layers == ROUTE_DEPTH)
            return route_over(r, ROUTE_NESTING, NULL, "more than %u wrappers are put around it here; %u are allowed",
                              ROUTE_DEPTH, ROUTE_DEPTH);
        if ((done = body_whole(r)) == ROUTE_DONE) r->layer[r->layers++] = (route_layer) { ROUTE_PAYLOAD, 0, 0 };
    } else if (r->layers) {
        if (r->layer[r->layers - 1].form != ROUTE_PAYLOAD) return route_wrong(r, "it is no wrapped payload");
        r->layers--;
    } else {
        done = body_open_payload(r);
    }
    return done;
}

static bool route_incoming(const route_run *r, const route_worker *w, const route_entry *at)
{
    return at->inner || route_meet(&r->source.names, &w->uplinks);
}

static enum route_result step_discovery(route_run *r, const route_worker *w, const route_entry *at, route_scope scope)
{
    route_level *l = run_level(r);
    if (route_incoming(r, w, at)) {
        if (w->strip) route_cut(r, w, scope);
        else {
            enum route_result done = route_open(r, w->form, false);
            if (done != ROUTE_DONE) return done;
        }
        return route_moved(r, w, &w->address);
    }
    if (!w->strip) return route_seal(r, w, &w->route, NULL);
    if (route_next(r, l->onward.count) == ROUTE_REFUSED) return ROUTE_REFUSED;
    path_prepend(&l->onward, &w->route);
    level_leave(l);
    if (w->strip == ROUTE_STRIP_MARKER) path_push(&l->returning, &route_marker);
    return ROUTE_DONE;
}

/* The data of the body becomes what a function makes of it; everything else of the message stays. */
static enum route_result step_transform(route_run *r, const route_worker *w)
{
    const uint8_t *body = r->rest;
    bool bare = r->bare_data;
    route_sections s;
    if (r->layers)
        return route_refuse(r, ROUTE_NOT_IMPLEMENTED, NULL, "a transform cannot follow a wrapper of the same router");
    enum route_result done = body_whole(r);
    if (done == ROUTE_DONE && !bare) done = body_begin(r, &body, r->rest + r->rest_size, false);
    if (done != ROUTE_DONE) return done;
    const uint8_t *front = r->rest;
    if ((done = body_gather(r, false, &s)) != ROUTE_DONE) return done;
    size_t before = bare ? 0 : (size_t) (body - front), size = 0;
    uint8_t *changed = r->change ? r->change(r->self, w->number, r->rest, r->rest_size, &size) : NULL;
    uint8_t *to = changed && size <= ROUTE_CHANGED_MOST ? route_room(r, before + ROUTE_DATA_HEAD + size) : NULL;
    if (to) {
        if (before) memcpy(to, front, before);
        route_data_head(to + before, (uint32_t) size);
        if (size) memcpy(to + before + ROUTE_DATA_HEAD, changed, size);
        r->rest = to;
        r->rest_size = before + ROUTE_DATA_HEAD + size;
    }
    free(changed);
    return to ? route_moved(r, w, route_traced(w))
           : route_refuse(r, ROUTE_TRANSFORM_FAILED, NULL, "the transform failed; the router's log says why");
}

/* A copy has half of the hops that are left, so copies of copies end before they are many.  False: there is none. */
static bool run_copy(route_run *r, const route_worker *w)
{
    route_run *root = r->root, *copy = root->copy_count < ROUTE_COPIES ? (route_run *) malloc(sizeof *copy) : NULL;
    route_level *level = copy ? (route_level *) malloc((ROUTE_DEPTH + 1) * sizeof *level) : NULL;
    if (!level) { free(copy); return false; }
    *copy = *r;
    copy->level = level;
    copy->copies = NULL;
    for (uint32_t i = 0; i <= r->depth; i++) level_copy(&level[i], &r->level[i]);
    route_level *l = run_level(copy);
    l->onward.count = l->onward.octets = l->returning.count = l->returning.octets = 0;
    path_prepend(&l->onward, &w->route);
    l->state = ROUTE_NONE;
    l->hops = (uint16_t) ((l->hops + r->table->limits.hops + 1) / 2);
    l->meta_count = l->meta_octets = l->trace = l->added_count = 0;
    run_came_from(copy, w);
    while (root->copies) root = root->copies;
    root->copies = copy;
    r->root->copy_count++;
    return true;
}

static enum route_result step_tee(route_run *r, const route_worker *w)
{
    enum route_result done = body_whole(r);
    if (done == ROUTE_MORE) return ROUTE_MORE;
    if (route_moved(r, w, route_traced(w)) == ROUTE_REFUSED) return ROUTE_REFUSED;
    if (done == ROUTE_REFUSED || !run_copy(r, w)) r->root->copies_lost++;
    return ROUTE_DONE;
}

static enum route_result step_kind(route_run *r, const route_worker *w, const route_entry *at, route_scope scope)
{
    route_level *l = run_level(r);
    enum route_result done;
    switch (w->kind) {
    case ROUTE_STATIC: path_prepend(&l->onward, &w->route); return route_moved(r, w, NULL);
    case ROUTE_PROXY: return step_proxy(r, w, at);
    case ROUTE_EXTEND: return step_extend(r, w);
    case ROUTE_COLLAPSE: route_cut(r, w, scope); break;
    case ROUTE_PAYLOAD_WRAP: case ROUTE_PAYLOAD_UNWRAP: return step_payload(r, w);
    case ROUTE_WRAP: return route_seal(r, w, &w->route, &w->returning);
    case ROUTE_UNWRAP:
        if ((done = route_open(r, w->form, w->metadata == ROUTE_META_MERGE)) != ROUTE_DONE) return done;
        break;
    case ROUTE_TEE: return step_tee(r, w);
    case ROUTE_TRANSFORM: return step_transform(r, w);
    case ROUTE_DISCOVERY: return step_discovery(r, w, at, scope);
    default: break;
    }
    return route_moved(r, w, route_traced(w));
}

/* ---- one worker after the other ---- */

static enum route_result route_allowed(route_run *r, const route_entry *to, const route_stop *at)
{
    if (to && !route_admits(&to->access, &r->source))
        return route_refuse(r, ROUTE_ACCESS, NULL, "its sender may not send here");
    const route_worker *from = r->sender == ROUTE_NOBODY ? NULL : &r->table->worker[r->sender];
    if (from && from->limited && !route_listed(&from->send_to, at))
        return route_refuse(r, ROUTE_ACCESS, NULL, "the worker before may not send here");
    return ROUTE_DONE;
}

static enum route_result route_pass(route_run *r, const route_entry *at, route_scope scope)
{
    route_worker *w = &r->table->worker[at->worker];
    route_level *l = run_level(r);
    const route_limits *limits = &r->table->limits;
    if (l->hops >= limits->hops)
        return route_over(r, ROUTE_TOO_MANY_HOPS, NULL, "the message has passed %u workers; %u are allowed", l->hops,
                          limits->hops);
    path_pop(&l->onward);
    l->hops++;
    level_collect(l, &at->text);
    enum route_result done = step_kind(r, w, at, scope);
    if (done == ROUTE_DONE) done = level_check(r, run_level(r), NULL);
    return done;
}

/* Through the worker at hand, `e`; without one, the message may go to `at`. */
PRIVATE inline enum route_result route_one(route_run *r, const route_entry *e, const route_stop *at, route_scope scope)
{
    enum route_result done = route_allowed(r, e, at);
    if (done == ROUTE_DONE && e && (done = route_pass(r, e, scope)) == ROUTE_DONE)
        run_came_from(r, &r->table->worker[e->worker]);
    return done;
}

PRIVATE inline enum route_result route_chain(route_run *r, route_scope scope)
{
    for (;;) {
        route_stop at = *path_first(&run_level(r)->onward);
        const route_entry *e = route_find(r->table, &at);
        if (*r->visit_count == ROUTE_VISITS)
            return route_refuse(r, ROUTE_TOO_MANY_HOPS, &at,
                                "the message and its copies have passed too many workers here");
        if (e) r->visit[(*r->visit_count)++] = (route_visit) { e->worker, ROUTE_PASSED };
        enum route_result done = route_one(r, e, &at, scope);
        if (done == ROUTE_DONE && e) continue;
        if (done == ROUTE_REFUSED) {
            char text[ROUTE_DETAIL];
            memcpy(text, r->detail, sizeof text);
            route_refuse(r, r->reason, e ? &e->text : &at, text);
        }
        if (done != ROUTE_DONE && *r->visit_count) r->visit[*r->visit_count - 1].reason = r->reason;
        return done;
    }
}
