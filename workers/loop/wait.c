/* The worker's wait for sockets and for the core: it polls, then yields the CPU, and sleeps last. */
#include <sched.h>
#include <sys/epoll.h>

#include "workers/loop/loop.h"

#define CROWD 16u              /* records in and out since the last idle turn, from which on others get the CPU first */

/* Spins for a while before sleeping (busyPoll), because a wake-up costs more than a poll.  -1: nothing has come. */
static int busy_poll(pump *p, struct epoll_event *events)
{
    uint64_t end = clock_ns() + p->busy_poll_ns;
    do {
        for (int i = 0; i < 64 && !work_pending(p); i++) cpu_relax();
        int n = epoll_wait(p->epoll_fd, events, EPOLL_BATCH, 0);
        if (n || work_pending(p)) return n;
    } while (clock_ns() < end);
    return -1;
}

PRIVATE inline int turn_wait(pump *p, struct epoll_event *events, int timeout)
{
    if (timeout == 0) return epoll_wait(p->epoll_fd, events, EPOLL_BATCH, 0);
    if (p->busy_poll_ns) {
        int found = busy_poll(p, events);
        if (found >= 0) return found;
    }
    /* Let whoever shares this CPU go first: what it has for us then comes in one batch, and nobody has to wake us.
       Where messages come one by one there is no batch, and whoever computes would keep the CPU until the scheduler's
       next tick. */
    uint64_t moved = p->work.next + p->actions.ring.next;
    if (moved - p->moved >= CROWD) sched_yield();
    int n = epoll_wait(p->epoll_fd, events, EPOLL_BATCH, 0);
    if (n || work_pending(p)) return n;
    p->moved = moved;
    doorbell_sleep(p->own_bell);
    if (work_pending(p)) timeout = 0;                    /* the second look: see doorbell.h */
    else stats_add(p->stats, N_SLEEPS, 1);
    n = epoll_wait(p->epoll_fd, events, EPOLL_BATCH, timeout);
    doorbell_wake(p->own_bell);
    return n;
}
