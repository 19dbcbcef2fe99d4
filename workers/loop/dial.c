/* Router-initiated connections and links, for connectors and for link requests of the core.
 *
 *   a connection    dialled --socket writable--> the engine speaks --peer's OPEN--> opened, like an accepted one
 *   a link          asked --peer's attach--> open, like an attached one
 *                         --peer's detach, or the connection's end--> refused
 *
 * The sessions of such links have a number; those of peers have 0.
 */
#include <string.h>
#include <sys/socket.h>

#include "workers/loop/loop.h"
#include "workers/transport/transport.h"

/* Makes a place for the connections of a connector; NULL: none is left. */
GLUE worker_listener *dial_place(pump *p)
{
    worker_listener *l = listener_new(p);
    if (!l) return NULL;
    l->fd = -1;
    l->dials = true;
    return l;
}

/* Makes a connection on a connecting socket; NULL: no room.  The caller writes OPEN. */
GLUE worker_connection *dial(pump *p, int fd, uint16_t place, const char *hostname, const char *user,
                             const char *password)
{
    p->now_ms = (int64_t) (clock_ns() / 1000000u);       /* the last turn may be long ago */
    worker_connection *c = conn_begin(p, fd, place);
    if (!c) return NULL;
    c->dialled = true;
    pn_connection_set_hostname(c->engine, hostname);
    if (*user) pn_connection_set_user(c->engine, user);
    if (*password) pn_connection_set_password(c->engine, password);
    bool secured = security_begin(&p->listeners[place], c);
    lane_begin_connection(p, c);
    conn_begun(p, c, secured, true);
    return c;
}

/* Puts the reason of a failed connect into the transport's condition. */
PRIVATE inline void dial_failed(worker_connection *c)
{
    int why = 0;
    socklen_t size = sizeof why;
    pn_condition_t *error = pn_transport_condition(c->transport);
    if (!c->dialled || c->opened || getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &why, &size) != 0 || !why) return;
    pn_condition_set_name(error, "proton:io");
    pn_condition_set_description(error, strerror(why));
}

/* A session's number plus 1; 0: it is the peer's. */
static uint64_t session_number(pn_session_t *session)
{
    const worker_session *s = session_here(session);
    return s ? s->number : 0;
}

PRIVATE inline bool session_router_initiated(pn_session_t *session) { return session_number(session) != 0; }

#define IDLE_SESSIONS 16              /* of one connection, at most */
#define SHARED_LOOKS 16u              /* sessions that one link looks at for one to share */
#define KEPT_PART 4u                  /* link routes begin sessions while more than this part of the channels is left */

/* A session of ours that has not ended, nor loses its links before it does; NULL: it goes by no number any more. */
static worker_session *session_there(worker_session *s)
{
    if (!s || (s->engine && !s->closed_here && pn_session_state(s->engine) & PN_LOCAL_ACTIVE)) return s;
    session_name(s, ENDED_SESSION);
    return NULL;
}

static worker_session *session_idle(lane_connection *l)
{
    while (l->idle_first) {
        worker_session *s = session_there(l->idle_first);
        if (s) return s;
    }
    return NULL;
}

/* A session of ours that has a handle left, for a link that has no channel of its own; NULL: none of the first ones. */
static worker_session *session_shared(lane_connection *l, enum session_kind kind)
{
    worker_session *s = l->ours_first[kind], *next;
    for (uint32_t looks = 0; s && looks < SHARED_LOOKS; looks++, s = next) {
        next = s->ours_next;
        if (!session_there(s)) continue;
        if (attach_room(s)) return s;
        session_turn(s);
    }
    return NULL;
}

/* A client's session for one more link of it: the next one with a handle, or, of the first ones, none of which has any,
 * one.  NULL: it has no session. */
static worker_session *session_owned(const link_share *share)
{
    worker_session *s = share->sessions_first, *next;
    for (uint32_t looks = 0; s && looks < SHARED_LOOKS; looks++, s = next) {
        next = s->owned_next;
        if (!session_there(s)) continue;
        if (attach_room(s)) return s;
        session_turn(s);
    }
    return session_there(share->sessions_first);
}

/* Who shares a session with whom if no channel is left: a link of each kind, with these in this order.  Streams and
 * link routes may stand still as long as a receiver wants, so the router's other links are the last that they join. */
static const enum session_kind session_sharers[SESSION_KINDS][SESSION_KINDS] = {
    [SESSION_FIXED] = { SESSION_FIXED, SESSION_STREAM, SESSION_ROUTED },
    [SESSION_STREAM] = { SESSION_STREAM, SESSION_ROUTED, SESSION_FIXED },
    [SESSION_ROUTED] = { SESSION_ROUTED, SESSION_STREAM, SESSION_FIXED },
};

/* The session for a link of this number; NULL: it is to begin one, if a channel is left.  A link-route pair takes a
 * session that has no link any more before it begins one: RabbitMQ mixes the frames of a new session with those of one
 * that it has not ended yet on the same channel. Sessions of link-route pairs leave a part of the channels to the
 * router's own links and to the peer, and each client as many to others as it has: its further ones share these. */
static worker_session *session_for(const worker_connection *c, uint32_t number, uint32_t client)
{
    lane_connection *l = c->lane;
    const enum session_kind kind = session_kind_of(number);
    const uint32_t left = channels_left(l), channels = pn_transport_get_channel_max(c->transport) + 1u;
    const uint32_t kept = kind == SESSION_ROUTED ? (channels + KEPT_PART - 1) / KEPT_PART : 0;
    const uint32_t more = left > kept ? left - kept : 0;
    worker_session *s = session_there((worker_session *) (uintptr_t) lane_map_get(&l->by_number, number));
    if (s) return s;
    if (kind == SESSION_ROUTED) {
        const link_share *share = share_find(l, client);
        if (share && share->session_count >= more + l->idle_count && (s = session_owned(share))) return s;
        if ((s = session_idle(l))) return s;
    }
    if (more) return NULL;
    for (uint32_t i = 0; i < SESSION_KINDS && !s; i++)
        if (!left || session_sharers[kind][i] == SESSION_ROUTED) s = session_shared(l, session_sharers[kind][i]);
    return s;
}

/* The engine's session of this number, which begins if there is none; NULL: no channel or no handle is left. */
static pn_session_t *dial_session(worker_connection *c, uint32_t number, uint32_t client)
{
    const uint64_t name = (uint64_t) number + 1;
    worker_session *s = session_for(c, number, client);
    if (s ? !attach_room(s) : !channels_left(c->lane)) return NULL;
    if (s && s->number == IDLE_SESSION) session_name(s, name);
    else if (s && s->number != name) session_turn(s);
    if (s) return s->engine;
    pn_session_t *session = pn_session(c->engine);
    if (!session) return NULL;
    lane_session_begin(c, session, name);
    return session;
}

/* Whether the peer's limits leave no place for a link in the session of this number; the text says which. */
GLUE bool dial_refused(const worker_connection *c, uint32_t number, uint32_t client, char why[REFUSAL_ROOM])
{
    const worker_session *s = session_for(c, number, client);
    if (s ? attach_room(s) : channels_left(c->lane)) return false;
    attach_refusal(c->lane, s, why);
    return true;
}

/* Whether another link still has this name: one that is attached, or one whose detach the peer has not answered. The
 * engine sends ATTACH before DETACH in any case, and takes the answer for that of the earlier link. */
GLUE enum name_state dial_taken(worker_connection *c, const char *name, bool outgoing)
{
    return name_taken(c->lane, name, outgoing);
}

/* A link of ours for a client, in the session of this number; dial_attach or dial_forget follows.  NULL: there is no
 * room, here or at the peer. */
GLUE worker_link *dial_link(pump *p, worker_connection *c, uint32_t number, uint32_t client, const char *name,
                            bool outgoing)
{
    pn_session_t *session = dial_session(c, number, client);
    pn_link_t *engine = !session ? NULL : outgoing ? pn_sender(session, name) : pn_receiver(session, name);
    worker_link *k = engine ? link_new(p, c, engine) : NULL;
    if (!k) return NULL;
    k->router_initiated = true;
    k->asked_session = number;
    name_begin(k);
    return k;
}

/* Reports a link of ours lost whose ATTACH the engine has not been told to write, so that it goes at once. */
GLUE void dial_forget(pump *p, worker_link *k)
{
    pn_link_t *engine = k->engine;
    link_lost(p, k, EV_LINK_LOST);
    name_end(engine);
    pn_link_free(engine);
}

/* Attaches a link of ours, whose termini are set. */
GLUE void dial_attach(pump *p, worker_link *k)
{
    attach_ask(k);
    mark_dirty(p, k->conn);
}

/* Closes a link of ours that nobody asks for any more. */
GLUE void dial_unask(pump *p, worker_link *k)
{
    pn_link_t *engine = k->engine;
    k->known = false;                                           /* so nobody is told */
    if (attach_unbegun(k)) { dial_forget(p, k); return; }
    mark_dirty(p, k->conn);
    link_lost(p, k, EV_LINK_LOST);
    pn_link_close(engine);
}

/* Whether a session without links is kept for later link-route pairs. */
static bool dial_kept(const worker_session *s)
{
    return session_routed(s) && !(pn_session_state(s->engine) & PN_REMOTE_CLOSED)
           && s->connection->idle_count < IDLE_SESSIONS;
}

/* Ends or keeps the session of a lost router-initiated link, if that was its last link.  One whose BEGIN the peer has
 * not answered ends then: its answer is for a session that is there (AMQP 1.0 part 2.5.5). */
PRIVATE inline void dial_done(worker_connection *c, pn_session_t *session)
{
    worker_session *s = session_here(session);
    if (s && s->links) return;
    if (s) session_disown(s);
    if (s && dial_kept(s)) session_name(s, IDLE_SESSION);
    else if (s && !s->begun_there) session_name(s, ENDED_SESSION);
    else lane_session_close(c, session);
}

/* The peer has answered the BEGIN of a session of ours. */
PRIVATE inline void dial_answered(pn_session_t *session)
{
    worker_session *s = session_here(session);
    if (s->number == ENDED_SESSION) lane_session_close(s->connection->c, session);
    else attach_answered(s);
}
