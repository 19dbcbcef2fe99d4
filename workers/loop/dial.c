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

#define ROUTED_SESSIONS (1u << 30)    /* the first number of sessions for link-route pairs */
#define IDLE_SESSIONS 16              /* of one connection, at most */

/* A session of ours that has not ended; NULL: it has, and goes by no number any more. */
static worker_session *session_there(worker_session *s)
{
    if (!s || (s->engine && pn_session_state(s->engine) & PN_LOCAL_ACTIVE)) return s;
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

/* Any session of a link-route pair; NULL: there is none. */
static worker_session *session_routed(const lane_connection *l)
{
    for (worker_session *s = l->sessions; s; s = s->next)
        if (s->number > ROUTED_SESSIONS && s->number < ENDED_SESSION && session_there(s)) return s;
    return NULL;
}

/* The session for a link of this number; NULL: it is to begin one. A link-route pair takes a session that has no link
 * any more before it begins one: RabbitMQ mixes the frames of a new session with those of one that it has not ended yet
 * on the same channel. Link-route pairs share a session if the peer has no channel left. */
static worker_session *session_for(const worker_connection *c, uint32_t number)
{
    lane_connection *l = c->lane;
    worker_session *s = session_there((worker_session *) (uintptr_t) lane_map_get(&l->by_number, number));
    if (s || number < ROUTED_SESSIONS || (s = session_idle(l))) return s;
    return l->session_count < pn_transport_get_channel_max(c->transport) ? NULL : session_routed(l);
}

/* The engine's session of this number, which begins if there is none. */
static pn_session_t *dial_session(worker_connection *c, uint32_t number)
{
    const uint64_t name = (uint64_t) number + 1;
    worker_session *s = session_for(c, number);
    if (s && s->number == IDLE_SESSION) session_name(s, name);
    if (s) return s->engine;
    pn_session_t *session = pn_session(c->engine);
    if (!session) return NULL;
    lane_session_begin(c, session, name);
    return session;
}

/* Whether another link still has this name: one that is attached, or one whose detach the peer has not answered. The
 * engine sends ATTACH before DETACH in any case, and takes the answer for that of the earlier link. */
GLUE enum name_state dial_taken(worker_connection *c, const char *name, bool outgoing)
{
    return name_taken(c->lane, name, outgoing);
}

/* A link of ours in the session of this number.  NULL: there is no room, or no session any more. */
GLUE worker_link *dial_link(pump *p, worker_connection *c, uint32_t number, const char *name, bool outgoing)
{
    pn_session_t *session = dial_session(c, number);
    pn_link_t *engine = !session ? NULL : outgoing ? pn_sender(session, name) : pn_receiver(session, name);
    worker_link *k = engine ? link_new(p, c, engine) : NULL;
    if (!k) return NULL;
    k->router_initiated = true;
    name_begin(k);
    return k;
}

/* Reports a link of ours lost whose ATTACH the engine has not been told to write. */
GLUE void dial_forget(pump *p, worker_link *k)
{
    pn_link_t *engine = k->engine;
    attach_forget(k);
    link_lost(p, k, EV_LINK_LOST);
    name_end(engine);
    pn_link_free(engine);
}

/* Whether a session without links is kept for later link-route pairs. */
static bool dial_kept(const worker_session *s)
{
    if (s->number <= ROUTED_SESSIONS || s->number == ENDED_SESSION) return false;
    return !(pn_session_state(s->engine) & PN_REMOTE_CLOSED) && s->connection->idle_count < IDLE_SESSIONS;
}

/* Ends or keeps the session of a lost router-initiated link, if that was its last link.  One whose BEGIN the peer has
 * not answered ends then: its answer is for a session that is there (AMQP 1.0 part 2.5.5). */
PRIVATE inline void dial_done(worker_connection *c, pn_session_t *session)
{
    worker_session *s = session_here(session);
    if (s && s->links) return;
    if (s && dial_kept(s)) session_name(s, IDLE_SESSION);
    else if (s && !s->begun_there) session_name(s, ENDED_SESSION);
    else lane_session_close(c, session);
}

/* The peer has answered the BEGIN of a session of ours. */
PRIVATE inline void dial_answered(pn_session_t *session)
{
    const worker_session *s = session_here(session);
    if (s->number == ENDED_SESSION) lane_session_close(s->connection->c, session);
}
