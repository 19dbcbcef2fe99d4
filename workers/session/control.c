/* What the engine's frames say, both ways: channels and handles of sessions and links. */
#include <stdlib.h>
#include <string.h>

#include "workers/session/session.h"
#include "workers/transport/transport.h"

enum { CROWD = 256 };                  /* handles of a session that has many */
enum {                                 /* what may wait of a connection before it is read no more: the larger of both */
    HELD_OCTETS = 128 << 20, HELD_SESSIONS = 8                 /* octets; sessions whose windows are used up */
};

static worker_session *session_new(lane_connection *l)
{
    worker_session *s = (worker_session *) memory_clear(sizeof *s);
    s->connection = l;
    s->handles.unordered = true;
    lane_session_open(&s->lane, l->c->window);
    s->next = l->sessions;
    if (s->next) s->next->previous = s;
    l->sessions = s;
    l->session_count++;
    return s;
}

PRIVATE void session_free(worker_session *s)
{
    lane_connection *l = s->connection;
    session_name(s, 0);
    channel_give(s);
    names_end(s);
    if (s->previous) s->previous->next = s->next;
    else l->sessions = s->next;
    if (s->next) s->next->previous = s->previous;
    if (s->due) session_undue(s);
    if (l->failing == s) l->failing = NULL;
    if (s->engine) pn_session_set_context(s->engine, NULL);
    for (worker_link *k = s->links; k; k = k->session_next) k->session = NULL;
    for (attach_due *a = s->attach_first, *next; a; a = next) { next = a->next; free(a); }
    if (s->wide) l->wide = false;
    lane_session_end(&s->lane);
    lane_map_end(&s->handles);
    l->handle_count -= s->handle_count;
    l->attach_octets -= s->attach_octets;
    l->session_count--;
    free(s);
}

/* Forgets a session that both sides have ended. */
static void session_reap(worker_session *s)
{
    if (s->ended_here && s->ended_there && !s->engine) session_free(s);
}

static void session_wait(worker_session **first, worker_session **last, worker_session *s)
{
    s->waiting_next = NULL;
    if (*last) (*last)->waiting_next = s;
    else *first = s;
    *last = s;
}

/* The first of those that wait; NULL: none. */
static worker_session *session_served(worker_session **first, worker_session **last)
{
    worker_session *s = *first;
    if (!s) return NULL;
    *first = s->waiting_next;
    if (!*first) *last = NULL;
    return s;
}

/* ---- frames that come ---- */

/* The engine has as many sessions: those that the peer has ended and it has not answered are more than the channels. */
static bool begin_in(lane_connection *l, worker_session *s, const lane_frame *f)
{
    lane_begin b;
    uint32_t channels = pn_transport_get_channel_max(l->transport) + 1u;
    enum lane_fault fault = lane_begin_read(f, &b);
    if (!fault && s) fault = LANE_BEGUN;
    if (!fault && !b.answers && l->session_count > 2 * channels) fault = LANE_MANY;
    if (!fault && b.answers) {
        s = session_of(lane_map_get(&l->by_local, b.remote_channel));
        if (!s || s->begun_there) fault = LANE_CHANNEL;
    }
    if (fault) { fault_raise(l, NULL, NULL, fault); return false; }
    if (!b.answers) {
        s = session_new(l);
        session_wait(&l->opening.first, &l->opening.last, s);
    }
    s->remote = f->channel;
    s->begun_there = true;
    s->handle_most = b.handle_most;
    lane_session_begun(&s->lane, &b);
    lane_map_put(&l->by_remote, f->channel, value_of(s));
    return true;
}

static bool attach_in(lane_connection *l, worker_session *s, const lane_frame *f, uint32_t size, lane_no_text *no)
{
    lane_attach a;
    enum lane_fault fault = lane_attach_read(f, &a);
    if (!fault && lane_map_get(&s->handles, a.handle)) fault = LANE_IN_USE;
    if (!fault && (l->handle_count >= MOST_HANDLES || l->attach_octets + size > ATTACH_OCTETS)) fault = LANE_MANY;
    if (!fault && !name_fits(l, a.name.size)) fault = LANE_NAME;
    if (fault) { fault_raise(l, s, NULL, fault); return false; }
    bool text = lane_texts(f, no);
    if (!text && no->name) { fault_name(l, s, no); return false; }
    l->attaching.no_text = text ? NULL : no;
    l->attaching.session = s;
    l->attaching.attach = a;
    lane_map_put(&s->handles, a.handle, HANDLE_IGNORED(size));
    s->handle_count++;
    l->handle_count++;
    s->attach_octets += size;
    l->attach_octets += size;
    l->attaching.octets = size;
    return true;
}

/* Forgets a handle, which had this value. */
static void handle_leave(worker_session *s, uint64_t value)
{
    worker_link *k = HANDLE_LINK(value);
    size_t octets = k ? k->attach_octets : value >> 1;
    if (k) k->remote_attached = false;
    s->handle_count--;
    s->connection->handle_count--;
    s->attach_octets -= octets;
    s->connection->attach_octets -= octets;
}

static bool detach_in(lane_connection *l, worker_session *s, const lane_frame *f)
{
    uint32_t handle;
    enum lane_fault fault = lane_detach_read(f, &handle);
    uint64_t there = fault ? 0 : lane_map_take(&s->handles, handle);
    if (!fault && !there) fault = LANE_UNATTACHED;
    if (fault) { fault_raise(l, s, NULL, fault); return false; }
    handle_leave(s, there);
    return true;
}

/* Whether a session has so many handles that their links go one by one before it ends: what the engine frees with a
 * session, it frees at once, and each link moves all others in a list. */
PRIVATE bool session_crowded(const worker_session *s) { return s->engine && s->handle_count > CROWD; }

/* Ends a link of such a session, and lets the engine read a DETACH of it.  False: its deliveries are still ending. */
PRIVATE bool session_thin(worker_session *s)
{
    lane_connection *l = s->connection;
    uint8_t detach[LANE_DETACH_MAX];
    uint32_t handle = lane_map_some(&s->handles);
    worker_link *k = HANDLE_LINK(lane_map_get(&s->handles, handle));
    if (k && !link_ends(l->p, k)) return false;
    if (k) link_lost(l->p, k, EV_LINK_LOST);
    handle_leave(s, lane_map_take(&s->handles, handle));
    layers_give(l, detach, lane_put_detach(detach, s->remote, handle));
    events_drain(l->p);
    return true;
}

/* Learns from a frame before the engine reads it.  False: the engine must not see it.  `no` is for what an ATTACH says
 * as text and is none, until the engine's event of it has been handled. */
PRIVATE bool control_in(lane_connection *l, const lane_frame *f, size_t size, lane_no_text *no)
{
    worker_session *s = session_of(lane_map_get(&l->by_remote, f->channel));
    uint8_t what = f->performative;
    if (l->opened == (what == LANE_OPEN)) { fault_raise(l, NULL, NULL, LANE_ORDER); return false; }
    switch (what) {
    case LANE_OPEN: return l->opened = !fault_open(l, f);
    case LANE_BEGIN: return begin_in(l, s, f);
    case LANE_CLOSE: l->closed_in = true; return true;
    default: break;
    }
    if (!s) { fault_raise(l, NULL, NULL, LANE_CHANNEL); return false; }
    if (what == LANE_END) {
        s->ended_there = true;
        l->ending = s;
        lane_map_take(&l->by_remote, f->channel);
        return true;
    }
    if (s->closed_here) return false;
    return what == LANE_ATTACH ? attach_in(l, s, f, (uint32_t) size, no) : detach_in(l, s, f);
}

/* ---- links ---- */

static void link_ready(lane_connection *l, worker_link *k)
{
    if (!k->attached) return;
    if (k->outgoing && k->open) egress_flow(l->p, k);
    mark_dirty(l->p, l->c);
}

static void session_adds(worker_session *s, worker_link *k)
{
    if (!s || k->session == s) return;
    k->session = s;
    k->session_next = s->links;
    if (s->links) s->links->session_previous = k;
    s->links = k;
    seams_add(s, k);
}

static void session_removes(worker_session *s, const worker_link *k)
{
    seams_remove(s, k);
    *(k->session_previous ? &k->session_previous->session_next : &s->links) = k->session_next;
    if (k->session_next) k->session_next->session_previous = k->session_previous;
}

/* The ATTACH that is being read is this link's. */
static void link_bind(lane_connection *l, worker_link *k)
{
    worker_session *s = l->attaching.session;
    if (!s) return;
    l->attaching.session = NULL;
    session_adds(s, k);
    k->remote_handle = l->attaching.attach.handle;
    k->remote_attached = true;
    k->attach_octets = l->attaching.octets;
    if (!k->outgoing) k->lane.count = l->attaching.attach.count;
    lane_map_put(&s->handles, k->remote_handle, value_of(k));
}

/* A link of ours, or of the peer whose ATTACH is being read. */
PRIVATE void lane_link_new(worker_link *k)
{
    lane_connection *l = k->conn->lane;
    k->lane.outgoing = k->outgoing;
    if (!l) return;
    link_bind(l, k);
    if (!k->session) session_adds(session_here(pn_link_session(k->engine)), k);
    if (!k->session || pn_link_state(k->engine) & PN_REMOTE_UNINIT) return;
    share_take(k, 0, false, k->attach_octets);
    attach_wait(k);
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
    if (s) {
        frame_end(k);
        if (k->remote_attached) lane_map_put(&s->handles, k->remote_handle, HANDLE_IGNORED(k->attach_octets));
        attach_gone(k);
        tell_remove(k);
        session_removes(s, k);
        while (k->deliveries) delivery_drop(k->deliveries);
    }
    if (k->share_octets) share_give(k);
}

/* ---- sessions ---- */

/* The engine has a session that the peer began; it has them in their order. */
PRIVATE void lane_session_opened(pn_session_t *session)
{
    worker_connection *c = (worker_connection *) pn_connection_get_context(pn_session_connection(session));
    worker_session *s = c && c->lane ? session_served(&c->lane->opening.first, &c->lane->opening.last) : NULL;
    if (!s) return;
    s->engine = session;
    pn_session_set_context(session, s);
}

/* The engine's session goes: the peer has ended it, and so does this side. */
PRIVATE void lane_session_gone(pn_session_t *session)
{
    worker_connection *c = (worker_connection *) pn_connection_get_context(pn_session_connection(session));
    worker_session *s = c && c->lane ? c->lane->ending : NULL;
    if (!s || s->engine != session) return;
    s->engine = NULL;
    pn_session_set_context(session, NULL);
    s->closed_here = true;
    c->lane->ending = NULL;
    session_reap(s);
}

/* The first session of a connection has a wide window, others have one as soon as that has gone. */
static void window_choose(worker_session *s)
{
    lane_connection *l = s->connection;
    uint32_t window = l->c->window;
    if (!l->wide) {
        l->wide = s->wide = true;
        window = l->c->widest;
    }
    pn_session_set_incoming_window_and_lwm(s->engine, window, 0);
}

/* Opens a session of ours, or answers the peer's (number 0).  The engine writes BEGINs in this order. */
PRIVATE void lane_session_begin(worker_connection *c, pn_session_t *session, uint64_t number)
{
    worker_session *s = session_here(session);
    if (!s) {
        s = session_new(c->lane);
        s->engine = session;
        session_name(s, number);
        pn_session_set_context(session, s);
    }
    channel_take(s);
    session_wait(&c->lane->beginning.first, &c->lane->beginning.last, s);
    window_choose(s);
    pn_session_open(session);
}

/* Ends a session; whatever comes of it until the peer's END is forgotten. */
PRIVATE void lane_session_close(worker_connection *c, pn_session_t *session)
{
    worker_session *s = c->lane ? session_here(session) : NULL;
    if (s) s->closed_here = true;
    pn_session_close(session);
}

/* ---- frames that go ---- */

static void held_limit(lane_connection *l)
{
    size_t most = (size_t) HELD_SESSIONS * l->c->window * pn_transport_get_max_frame(l->transport);
    l->held_most = most > HELD_OCTETS ? most : HELD_OCTETS;
}

static void begin_out(lane_connection *l, const lane_frame *f)
{
    lane_begin b;
    worker_session *s = session_served(&l->beginning.first, &l->beginning.last);
    if (!s || lane_begin_read(f, &b)) return;
    s->local = f->channel;
    s->begun_here = true;
    s->lane.in_window = s->lane.in_most = b.in_window;
    held_limit(l);
    lane_map_put(&l->by_local, f->channel, value_of(s));
}

static void attach_out(lane_connection *l, worker_session *s, const lane_frame *f)
{
    lane_attach a;
    worker_link *k = lane_attach_read(f, &a) ? NULL : attach_served(s, &a);
    if (!k) return;
    k->lane.handle = a.handle;
    k->attached = true;
    link_ready(l, k);
}

/* Learns from a frame of the engine that is being written. */
PRIVATE void control_out(lane_connection *l, const lane_frame *f)
{
    worker_session *s = session_of(lane_map_get(&l->by_local, f->channel));
    switch (f->performative) {
    case LANE_OPEN: l->open_out = true; return;
    case LANE_BEGIN: begin_out(l, f); return;
    case LANE_ATTACH:
        if (s) attach_out(l, s, f);
        return;
    case LANE_DETACH:
        if (s && s->handles_taken) s->handles_taken--;
        return;
    case LANE_END:
        if (!s) return;
        s->ended_here = s->closed_here = true;
        channel_give(s);
        s->lane.out_window = 0;
        lane_map_take(&l->by_local, f->channel);
        session_reap(s);
        return;
    case LANE_CLOSE:
        l->closed_out = true;
        for (s = l->sessions; s; s = s->next) s->lane.out_window = 0;
        return;
    default: return;
    }
}
