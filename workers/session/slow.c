/* Links of clients that take nothing of what a broker sends them, and hold up others.
 *
 * AMQP has a window of a session and none of a link, and a socket has none of a session.  So what waits for one client
 * shuts the window of a session that others share, and in many sessions it stops the reading of the connection.  None
 * of it can be refused: the links for which it waits end, those of the client for whom the most waits first.
 *
 * What waits says how much it is, not whose fault that is: a receiver of one message longer than the window fills it as
 * well, and so does every receiver while there is no core.  So a link is slow only when it alone has not moved, and the
 * router has let it.
 *
 * Its client gets no other receiver there for a while: one that comes again at once would hold up others nearly all the
 * time.
 *
 *   octets of a link wait  --its receiver takes or settles something of it-->  it has moved
 *                          --SLOW_MS later, and others wait for it-->          it is slow, and ends
 *
 * Prohibited: looking for slow links when nothing has changed and no time is over (relieve_at).
 */
#include "workers/session/session.h"
#include "workers/transport/transport.h"

enum { SLOW_MS = 10000 };              /* in which a link that holds up others moves, or ends */
enum { SLOW_LOOK_MS = 1000 };          /* between two looks, while others wait */
enum { PAUSE_MS = 60000 };             /* in which a client that has lost links gets no other one from there */
enum { LATE_MS = 1000 };               /* if a sweep is so late, the worker has not run, and links may have moved */

static const char slow_why[] = "the receiver has given credit and takes nothing, and what waits for it holds up other "
                               "clients of the same broker; read on, settle, or give less credit";

/* ---- what moves ---- */

static bool holding(const lane_connection *l, const worker_link *k)
{
    return k->holding_previous || l->holding_first == k;
}

static void holding_add(lane_connection *l, worker_link *k)
{
    k->holding_next = NULL;
    k->holding_previous = l->holding_last;
    *(l->holding_last ? &l->holding_last->holding_next : &l->holding_first) = k;
    l->holding_last = k;
}

static void holding_remove(lane_connection *l, worker_link *k)
{
    *(k->holding_previous ? &k->holding_previous->holding_next : &l->holding_first) = k->holding_next;
    *(k->holding_next ? &k->holding_next->holding_previous : &l->holding_last) = k->holding_previous;
    k->holding_next = k->holding_previous = NULL;
}

/* Whether what waits has shut a session's window: no FLOW opens it before some is taken (lane/session.c). */
static bool session_stands(const worker_session *s)
{
    const uint32_t least = s->lane.in_most < 8 ? 1 : s->lane.in_most / 8;
    return s->lane.held + least > s->lane.in_most;
}

/* Whether so much waits that a connection is not read. */
static bool lane_filled(const lane_connection *l)
{
    return l->held > (l->c->reading ? l->held_most : l->held_most / 2);
}

/* A session has one more link, or more of one waits: others may wait for slow links from now on. */
PRIVATE void slow_due(worker_session *s)
{
    lane_connection *l = s->connection;
    if (lane_filled(l) || (s->seams && session_stands(s))) l->relieve_at = l->p->now_ms;
}

/* More of a link waits. */
PRIVATE void slow_waits(worker_link *k)
{
    lane_connection *l = k->session->connection;
    if (k->share && !holding(l, k)) {
        k->moved = l->p->now_ms;
        holding_add(l, k);
    }
    slow_due(k->session);
}

/* A receiver has taken or settled something of a link. */
PRIVATE void slow_moves(worker_link *k)
{
    if (__builtin_expect(!k->share, 1)) return;
    lane_connection *l = k->conn->lane;
    k->moved = k->share->moved = l->p->now_ms;
    if (!holding(l, k)) return;
    holding_remove(l, k);
    if (k->held_octets) holding_add(l, k);
}

/* To be called with each sweep, before the next one is due: notes whether the router itself holds up messages. */
PRIVATE void slow_hindrance(pump *p)
{
    bool hinders = p->resting || p->paused || p->withhold || !blocks_left(p) || p->now_ms - p->next_sweep > LATE_MS;
    if (!p->detached) {
        const uint64_t read = atomic_load_explicit(&p->actions.ring.ring->tail, memory_order_relaxed);
        hinders |= p->actions.waiting || (read == p->core_read && read != p->actions.ring.next);
        p->core_read = read;
    }
    if (hinders) p->hindered = p->now_ms;
}

/* ---- who is slow ---- */

static int64_t moved_at(const pump *p, const worker_link *k) { return k->moved > p->hindered ? k->moved : p->hindered; }

/* Whether others wait for a link; `over`: so much waits that its connection is not read. */
static bool link_hinders(const worker_link *k, bool over)
{
    const worker_connection *c = k->conn;
    if (!client_pays(k)) return false;
    if (over && (k->share->trusted || k->share->links < c->links_in + c->links_out)) return true;
    return k->session->seams && session_stands(k->session);
}

/* Whether a link keeps too many blocks by itself, and most of its client's. */
static bool link_hoards(const pump *p, const worker_link *k)
{
    for (uint32_t c = 0; c < 2; c++)
        if (k->kept[c] >= FEW_KEPT && k->kept[c] > p->arena.free_count[c] / 2
            && k->kept[c] > k->share->use.kept[c] / 2) return true;
    return false;
}

/* Whether it is the receiver of a link that has not moved who takes nothing: the rest of a message, or so many messages
 * that its client may keep no more.  If other links keep most of these, the client may be about to settle others'. */
static bool link_slow(const pump *p, const worker_link *k)
{
    const in_delivery *s = k->current;
    if (s) return s->posted && s->writer.written > s->read_to;
    if (!k->stalled || (!over_share(p, k) && !k->share->use.streams)) return false;
    return link_hoards(p, k) || k->share->moved <= p->now_ms - SLOW_MS;
}

/* The client for whom the most waits of slow links, up to this one, for which others still wait; NULL: there are
 * none. */
static const link_share *slow_most(const lane_connection *l, const worker_link *end)
{
    const bool over = lane_filled(l);
    const link_share *most = NULL;
    for (const worker_link *k = l->holding_first; k != end; k = k->holding_next) k->share->tally = 0;
    for (const worker_link *k = l->holding_first; k != end; k = k->holding_next) {
        if (!k->slow || !link_hinders(k, over)) continue;
        k->share->tally += over ? k->held_octets : k->held_frames;
        if (!most || k->share->tally > most->tally) most = k->share;
    }
    return most;
}

/* Whether a client has lost links, and gets no other one yet. */
static bool slow_pauses(const lane_connection *l, uint32_t client)
{
    for (uint32_t i = 0; l->slow && i < SLOW_CLIENTS; i++)
        if (l->slow[i].client == client && l->slow[i].until > l->p->now_ms) return true;
    return false;
}

/* Whether a client gets no link over which it would be sent messages.  The text says why. */
GLUE bool slow_refused(const worker_connection *c, uint32_t client, char why[REFUSAL_ROOM])
{
    if (!slow_pauses(c->lane, client)) return false;
    snprintf(why, REFUSAL_ROOM, "this client has lost links from %s that held up others, because it gave credit and "
             "took nothing; it gets no other link from there for a minute", peer_called(c->lane));
    return true;
}

static void slow_pause(lane_connection *l, uint32_t client)
{
    if (!l->slow) l->slow = (slow_client *) memory_clear(SLOW_CLIENTS * sizeof *l->slow);
    l->slow[l->slow_next++ % SLOW_CLIENTS] = (slow_client) { client, l->p->now_ms + PAUSE_MS };
}

/* Ends the slow links of a client, up to this one.  False: there are more than this turn has time for. */
static bool slow_end(lane_connection *l, const link_share *most, const worker_link *end, uint64_t began)
{
    uint32_t n = 0;
    if (!most->trusted && !slow_pauses(l, most->client)) slow_pause(l, most->client);
    for (worker_link *k = l->holding_first, *next; k != end; k = next) {
        next = k->holding_next;
        if (!k->slow || k->share != most) continue;
        pn_condition_t *error = pn_link_condition(k->engine);
        pn_condition_set_name(error, "amqp:resource-limit-exceeded");
        pn_condition_set_description(error, slow_why);
        link_give_up(l->p, k);
        if (!(++n % PORTION) && (!turn_lasts(l, began) || core_crowded(l->p))) return false;
    }
    return turn_lasts(l, began) && !core_crowded(l->p);
}

/* Lets others go on where slow links hold them up.  To be called with each sweep. */
PRIVATE void slow_relieve(lane_connection *l)
{
    const pump *p = l->p;
    if (!l->relieve_at || p->now_ms < l->relieve_at || l->c->leaving) return;
    const uint64_t began = turn_begin(l);
    const bool over = lane_filled(l);
    const link_share *most;
    bool others = false;
    worker_link *end = l->holding_first;
    for (; end && moved_at(p, end) <= p->now_ms - SLOW_MS; end = end->holding_next) {
        end->slow = link_hinders(end, over);
        others |= end->slow;
        end->slow = end->slow && link_slow(p, end);
    }
    while ((most = slow_most(l, end)) && slow_end(l, most, end, began)) {}
    turn_count(l, began);
    l->relieve_at = most ? p->now_ms : others ? p->now_ms + SLOW_LOOK_MS : end ? moved_at(p, end) + SLOW_MS : 0;
}
