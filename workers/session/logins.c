/* What a client says before the answer to its login is out, as clients do that do not wait: it stays here, and goes
 * through the layers below the lane afterwards.
 */
#include <stdlib.h>

#include "workers/session/session.h"
#include "workers/transport/transport.h"

/* Keeps octets that came before the answer to a login was out; one that is decided goes out in the next turn. */
PRIVATE ssize_t lane_hold(lane_connection *l, const uint8_t *octets, size_t size)
{
    rest_add(l, octets, size);
    l->behind = true;
    l->asking = relay_asking(l->c);
    turn_await(l);
    return (ssize_t) size;
}

/* Gives the layers below the lane what waited for that answer; what they leave waits for more.  What a client said who
 * is refused is forgotten.  Negative: they read no more. */
static ssize_t login_read(lane_connection *l)
{
    uint8_t *octets = l->rest;
    size_t there = l->rest_size, done = 0;
    bool refused = layers_refused(l);
    ssize_t n = 0;
    l->rest = NULL;                                            /* they keep some themselves at the next login */
    l->rest_size = l->rest_room = 0;
    while (!refused && done < there && (n = layers_in(l, octets + done, there - done)) > 0) done += (size_t) n;
    if (!refused && !n && done < there) rest_add(l, octets + done, there - done);
    free(octets);
    return n < 0 ? n : 0;
}

/* Gives them octets behind those that wait for more; an answer that is not out yet goes first (login_go_on). */
PRIVATE ssize_t lane_joined(lane_connection *l, const uint8_t *octets, size_t size)
{
    rest_add(l, octets, size);
    ssize_t n = l->asking || l->behind ? 0 : login_read(l);
    return n < 0 ? n : (ssize_t) size;
}

/* The login is answered: the answer goes out first, whose place an error of those layers would take. */
PRIVATE ssize_t login_go_on(lane_connection *l)
{
    (void) conn_write(l->p, l->c);
    return login_read(l);
}
