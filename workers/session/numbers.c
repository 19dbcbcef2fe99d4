/* Sessions of ours by their numbers, and those that are kept without links (loop/dial.c). */
#include "workers/session/session.h"

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
    }
    s->number = number;
    if (number == IDLE_SESSION) {
        s->idle_next = l->idle_first;
        l->idle_first = s;
        l->idle_count++;
    } else if (number && number != ENDED_SESSION) {
        if (!lane_map_put(&l->by_number, (uint32_t) (number - 1), value_of(s))) abort();
    }
}
