/* A peer's violation ends its link, its session or its connection, with the condition that says which (lane_faults). */
#include "workers/session/session.h"
#include "workers/transport/transport.h"

/* Sessions that one connection may lose so.  The next one costs the connection: each END of ours costs the engine a
 * walk through all its sessions and links. */
#define SESSION_FAULTS 256u

static void condition_say(pn_condition_t *condition, const struct lane_fault_terms *f)
{
    pn_condition_set_name(condition, f->condition);
    pn_condition_set_description(condition, f->description);
}

/* Whether the terminus of a link-route pair's end is to outlive its connection, as the client has asked (payloads.py,
 * Terminus.lasts). */
static bool link_outlives(const worker_link *k)
{
    if (!k->routed) return false;
    pn_terminus_t *t = k->router_initiated ? k->outgoing ? pn_link_target(k->engine) : pn_link_source(k->engine)
                     : k->outgoing ? pn_link_remote_source(k->engine) : pn_link_remote_target(k->engine);
    return pn_terminus_get_timeout(t)
           || (pn_terminus_has_expiry_policy(t) && pn_terminus_get_expiry_policy(t) == PN_EXPIRE_NEVER);
}

/* Closes a link that this side gives up, with the condition that it has, or only detaches it. */
GLUE void link_give_up(pump *p, worker_link *k)
{
    pn_link_t *engine = k->engine;
    const bool stays = link_outlives(k);
    mark_dirty(p, k->conn);
    link_lost(p, k, EV_LINK_LOST);
    if (stays) pn_link_detach(engine);
    else pn_link_close(engine);
}

/* Ends the links of a session that a violation ends, and then the session.  False: there are more links than this turn
 * has time for.  The connection is behind, and reads nothing else before they are gone. */
PRIVATE bool fault_go_on(lane_connection *l)
{
    worker_session *s = l->failing;
    if (!s) return true;
    uint64_t began = turn_begin(l);
    l->behind = s->engine && !session_lost(l->p, s, false);
    turn_count(l, began);
    if (l->behind) return false;
    l->failing = NULL;
    if (s->engine) lane_session_close(l->c, s->engine);
    mark_dirty(l->p, l->c);
    return true;
}

/* Ends as little as the terms say: the link, the session, or the connection. */
PRIVATE void fault_end(lane_connection *l, worker_session *s, worker_link *k, const struct lane_fault_terms *f)
{
    mark_dirty(l->p, l->c);
    if (s && !s->engine) events_drain(l->p);                   /* its BEGIN came in the same read */
    if (f->scope == LANE_LINK && k) {
        condition_say(pn_link_condition(k->engine), f);
        link_give_up(l->p, k);
    } else if (f->scope == LANE_SESSION && s && s->engine && l->session_faults++ < SESSION_FAULTS) {
        condition_say(pn_session_condition(s->engine), f);
        s->closed_here = true;
        l->failing = s;
        if (session_crowded(s)) l->behind = true;              /* the engine's events make them go: this may be one */
        else (void) fault_go_on(l);
        if (l->behind) turn_await(l);
    } else {
        l->closed_in = true;
        layers_fail(l, f->condition, f->description);
    }
}

PRIVATE void fault_raise(lane_connection *l, worker_session *s, worker_link *k, enum lane_fault fault)
{
    fault_end(l, s, k, &lane_faults[fault]);
}

/* Ends the connection or session of a peer who names itself or a link by what is no text: no answer could repeat it. */
PRIVATE void fault_name(lane_connection *l, worker_session *s, const lane_no_text *no)
{
    fault_end(l, s, NULL, &(struct lane_fault_terms) { s ? LANE_SESSION : LANE_CONNECTION, no->condition,
                                                       no->description });
}

/* Refuses a connection whose OPEN, or whose user, says as text what is none.  False: all of it is text. */
PRIVATE bool fault_open(lane_connection *l, const lane_frame *f)
{
    lane_no_text no;
    const char *user = pn_transport_get_user(l->transport);
    if (lane_texts(f, &no) && (!user || lane_user_text(user, &no))) return false;
    fault_name(l, NULL, &no);
    return true;
}

/* Refuses a link whose ATTACH, which the engine has read, says as text what is none (AMQP 1.0 part 2.6.3); `k` is ours,
 * or NULL.  False: all of it is text. */
PRIVATE bool fault_attach(lane_connection *l, worker_link *k, pn_link_t *engine)
{
    const lane_no_text *no = l->attaching.no_text;
    if (!no) return false;
    const struct lane_fault_terms terms = { LANE_LINK, no->condition, no->description };
    if (k) { fault_end(l, k->session, k, &terms); return true; }
    if (!(pn_link_state(engine) & PN_LOCAL_UNINIT)) return true;
    pn_link_open(engine);
    condition_say(pn_link_condition(engine), &terms);
    pn_link_close(engine);
    mark_dirty(l->p, l->c);
    return true;
}
