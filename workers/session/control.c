/* What the engine's frames say, both ways: channels and handles of sessions and links. */
#include <stdlib.h>
#include <string.h>

#include "workers/session/session.h"

static worker_session *session_new(lane_connection *l)
{
    worker_session *s = (worker_session *) memory_clear(sizeof *s);
    s->connection = l;
    lane_session_open(&s->lane, l->c->window);
    s->next = l->sessions;
    if (s->next) s->next->previous = s;
    l->sessions = s;
    return s;
}

PRIVATE void session_free(worker_session *s)
{
    lane_connection *l = s->connection;
    if (s->previous) s->previous->next = s->next;
    else l->sessions = s->next;
    if (s->next) s->next->previous = s->previous;
    if (s->due) {
        worker_session **at = &l->due_first;
        while (*at != s) at = &(*at)->due_next;
        *at = s->due_next;
    }
    lane_session_end(&s->lane);
    lane_map_end(&s->handles);
    free(s);
}

/* Forgets a session that both sides have ended. */
static void session_reap(worker_session *s)
{
    if (s->ended_here && s->ended_there && !s->engine) session_free(s);
}

/* Learns from a frame before the engine reads it.  False: the engine must not see it. */
PRIVATE bool control_in(lane_connection *l, const lane_frame *f)
{
    worker_session *s = session_of(lane_map_get(&l->by_remote, f->channel));
    lane_begin b;
    uint32_t handle;
    l->attaching.session = NULL;
    l->ending = NULL;
    switch (f->performative) {
    case LANE_BEGIN:
        if (lane_begin_read(f, &b)) return true;
        s = b.answers ? session_of(lane_map_get(&l->by_local, b.remote_channel)) : NULL;
        if (!s) {
            s = session_new(l);
            if (l->opening_last) l->opening_last->opening_next = s;
            else l->opening_first = s;
            l->opening_last = s;
        }
        s->remote = f->channel;
        s->begun_there = true;
        lane_session_begun(&s->lane, &b);
        lane_map_put(&l->by_remote, f->channel, value_of(s));
        return true;
    case LANE_ATTACH:
        if (!s || lane_attach_read(f, &l->attaching.attach)) return true;
        if (lane_map_get(&s->handles, l->attaching.attach.handle)) {
            fault_raise(l, s, NULL, LANE_IN_USE);
            return false;
        }
        l->attaching.session = s;
        lane_map_put(&s->handles, l->attaching.attach.handle, HANDLE_IGNORED);
        return true;
    case LANE_DETACH:
        if (s && !lane_detach_read(f, &handle)) {
            uint64_t there = lane_map_take(&s->handles, handle);
            if (there > HANDLE_IGNORED) ((worker_link *) (uintptr_t) there)->remote_attached = false;
        }
        return true;
    case LANE_END:
        if (!s) return true;
        s->ended_there = true;
        l->ending = s;
        lane_map_take(&l->by_remote, f->channel);
        return true;
    case LANE_CLOSE: l->closed_in = true; return true;
    default: return true;
    }
}

/* ---- links whose ATTACH the engine has not written ---- */

static void unattached_add(worker_link *k)
{
    worker_session *s = k->session;
    k->unattached = true;
    k->attach_previous = s->unattached_last;
    if (k->attach_previous) k->attach_previous->attach_next = k;
    else s->unattached_first = k;
    s->unattached_last = k;
}

static void unattached_remove(worker_link *k)
{
    worker_session *s = k->session;
    if (!k->unattached) return;
    k->unattached = false;
    if (k->attach_previous) k->attach_previous->attach_next = k->attach_next;
    else s->unattached_first = k->attach_next;
    if (k->attach_next) k->attach_next->attach_previous = k->attach_previous;
    else s->unattached_last = k->attach_previous;
    k->attach_next = k->attach_previous = NULL;
}

/* The engine writes them in the order of their begin, so the first is meant, but for those that it refuses. */
static worker_link *unattached_find(const worker_session *s, const lane_attach *a)
{
    size_t size = strnlen((const char *) a->name.at, a->name.size);    /* the engine's names end at a NUL */
    for (worker_link *k = s->unattached_first; k; k = k->attach_next) {
        const char *name = pn_link_name(k->engine);
        if (k->outgoing != a->receiver && strlen(name) == size && !memcmp(name, a->name.at, size)) return k;
    }
    return NULL;
}

/* ---- links ---- */

static void link_ready(lane_connection *l, worker_link *k)
{
    if (!k->attached) return;
    if (k->outgoing && k->open) egress_flow(l->p, k);
    mark_dirty(l->p, l->c);
}

static void link_bind(lane_connection *l, worker_link *k)
{
    worker_session *s = l->attaching.session;
    if (!s) return;
    k->session = s;
    k->remote_handle = l->attaching.attach.handle;
    k->remote_attached = true;
    if (!k->outgoing) k->lane.count = l->attaching.attach.count;
    lane_map_put(&s->handles, k->remote_handle, value_of(k));
}

static worker_session *session_find(lane_connection *l, const pn_session_t *engine)
{
    worker_session *s = l->sessions;
    while (s && s->engine != engine) s = s->next;
    return s;
}

/* A link of ours, or of the peer whose ATTACH is being read. */
PRIVATE void lane_link_new(worker_link *k)
{
    lane_connection *l = k->conn->lane;
    k->lane.outgoing = k->outgoing;
    if (!l) return;
    if (l->attaching.session) link_bind(l, k);
    else k->session = session_find(l, pn_link_session(k->engine));
    if (k->session) unattached_add(k);
}

/* The peer has answered a link of ours. */
PRIVATE void lane_link_answered(worker_link *k)
{
    lane_connection *l = k->conn->lane;
    if (l && !k->remote_attached) link_bind(l, k);
    link_ready(l, k);
}

/* Forgets a link's deliveries.  Frames that the peer still sends on its handle count for the window. */
PRIVATE void lane_link_free(worker_link *k)
{
    worker_session *s = k->session;
    if (!s) return;
    lane_connection *l = s->connection;
    if (l->open && l->open->link == k) frame_close(l, true);
    if (k->remote_attached) lane_map_put(&s->handles, k->remote_handle, HANDLE_IGNORED);
    unattached_remove(k);
    tell_remove(k);
    while (k->deliveries) delivery_drop(k->deliveries);
}

/* The engine has a session that the peer began; it has them in their order. */
PRIVATE void lane_session_opened(pn_session_t *session)
{
    worker_connection *c = (worker_connection *) pn_connection_get_context(pn_session_connection(session));
    worker_session *s = c && c->lane ? c->lane->opening_first : NULL;
    if (!s) return;
    s->engine = session;
    c->lane->opening_first = s->opening_next;
    if (!s->opening_next) c->lane->opening_last = NULL;
}

/* The engine's session goes: the peer has ended it, and so does this side. */
PRIVATE void lane_session_gone(pn_session_t *session)
{
    worker_connection *c = (worker_connection *) pn_connection_get_context(pn_session_connection(session));
    worker_session *s = c && c->lane ? c->lane->ending : NULL;
    if (!s || s->engine != session) return;
    s->engine = NULL;
    c->lane->ending = NULL;
    session_reap(s);
}

/* A session of ours, before the engine writes its BEGIN. */
PRIVATE void lane_session_begin(worker_connection *c, pn_session_t *session)
{
    session_new(c->lane)->engine = session;
}

/* Learns from a frame of the engine that is being written. */
PRIVATE void control_out(lane_connection *l, const lane_frame *f)
{
    worker_session *s = session_of(lane_map_get(&l->by_local, f->channel));
    lane_begin b;
    lane_attach a;
    worker_link *k;
    switch (f->performative) {
    case LANE_BEGIN:
        if (lane_begin_read(f, &b)) return;
        if (b.answers) s = session_of(lane_map_get(&l->by_remote, b.remote_channel));
        else {                                                 /* the oldest of ours: the engine keeps their order */
            s = NULL;
            for (worker_session *one = l->sessions; one; one = one->next)
                if (!one->begun_here && !one->begun_there) s = one;
        }
        if (!s) return;
        s->local = f->channel;
        s->begun_here = true;
        s->lane.in_window = s->lane.in_most = b.in_window;
        lane_map_put(&l->by_local, f->channel, value_of(s));
        return;
    case LANE_ATTACH:
        if (!s || lane_attach_read(f, &a)) return;
        k = unattached_find(s, &a);
        if (!k) return;                                        /* refused: its DETACH follows */
        unattached_remove(k);
        k->lane.handle = a.handle;
        k->attached = true;
        link_ready(l, k);
        return;
    case LANE_END:
        if (!s) return;
        s->ended_here = true;
        lane_map_take(&l->by_local, f->channel);
        session_reap(s);
        return;
    case LANE_CLOSE: l->closed_out = true; return;
    default: return;
    }
}
