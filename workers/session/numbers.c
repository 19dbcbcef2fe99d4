/* Sessions of ours by their numbers, and those that are kept without links (loop/dial.c); the channels of ours that all
 * sessions take.
 *
 * The engine falls silent for good if it has to write a BEGIN and no channel is left.  So a session takes a channel
 * before the engine hears that it begins, ours or the peer's, and gives it back when its END is written.
 */
#include "workers/session/session.h"

static void ours_add(worker_session *s)
{
    lane_connection *l = s->connection;
    const enum session_kind kind = session_kind_of((uint32_t) (s->number - 1));
    s->ours_next = NULL;
    s->ours_previous = l->ours_last[kind];
    *(s->ours_previous ? &s->ours_previous->ours_next : &l->ours_first[kind]) = s;
    l->ours_last[kind] = s;
}

static void ours_remove(worker_session *s)
{
    lane_connection *l = s->connection;
    const enum session_kind kind = session_kind_of((uint32_t) (s->number - 1));
    *(s->ours_previous ? &s->ours_previous->ours_next : &l->ours_first[kind]) = s->ours_next;
    *(s->ours_next ? &s->ours_next->ours_previous : &l->ours_last[kind]) = s->ours_previous;
}

/* Gives a session another number, by which dialling finds it. */
PRIVATE void session_name(worker_session *s, uint64_t number)
{
    lane_connection *l = s->connection;
    if (s->number == IDLE_SESSION) {
        worker_session **at = &l->idle_first;
        while (*at != s) at = &(*at)->idle_next;
        *at = s->idle_next;
        l->idle_count--;
    } else if (s->number && s->number != ENDED_SESSION) {
        lane_map_take(&l->by_number, (uint32_t) (s->number - 1));
        session_disown(s);
        ours_remove(s);
    }
    s->number = number;
    if (number == IDLE_SESSION) {
        s->idle_next = l->idle_first;
        l->idle_first = s;
        l->idle_count++;
    } else if (number && number != ENDED_SESSION) {
        if (!lane_map_put(&l->by_number, (uint32_t) (number - 1), value_of(s))) abort();
        ours_add(s);
    }
}

/* Lets a session with a number share its links last of its kind, and of its client's. */
PRIVATE void session_turn(worker_session *s)
{
    ours_remove(s);
    ours_add(s);
    session_owned_turn(s);
}

/* Whether a session of ours is for link-route pairs, and has some or waits for its first. */
PRIVATE bool session_routed(const worker_session *s)
{
    return s->number > ROUTED_SESSIONS && s->number < ENDED_SESSION;
}

PRIVATE void channel_take(worker_session *s)
{
    s->channel = true;
    s->connection->channels_taken++;
}

PRIVATE void channel_give(worker_session *s)
{
    s->connection->channels_taken -= s->channel;
    s->channel = false;
}

/* How many more sessions both sides may begin. */
PRIVATE uint32_t channels_left(const lane_connection *l)
{
    const uint32_t channels = pn_transport_get_channel_max(l->transport) + 1u;
    return channels > l->channels_taken ? channels - l->channels_taken : 0;
}
