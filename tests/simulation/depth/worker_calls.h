/* A worker's system calls, on wires. */
#ifndef ROUTERD_TESTS_SIMULATION_WORKER_CALLS_H
#define ROUTERD_TESTS_SIMULATION_WORKER_CALLS_H

static ssize_t worker_readv(int fd, const struct iovec *to, int pieces)
{
    ssize_t done = 0;
    for (int i = 0; i < pieces; i++) {
        ssize_t n = wire_read(fd, to[i].iov_base, to[i].iov_len);
        if (n < 0) return done ? done : n;
        done += n;
        if ((size_t) n < to[i].iov_len) break;
    }
    return done;
}

static ssize_t worker_send(int fd, const void *from, size_t size, int flags)
{
    (void) flags;
    return wire_write(fd, from, size);
}

static ssize_t worker_sendmsg(int fd, const struct msghdr *message, int flags)
{
    (void) flags;
    ssize_t done = 0;
    for (size_t i = 0; i < message->msg_iovlen; i++) {
        const struct iovec *v = &message->msg_iov[i];
        ssize_t n = v->iov_len ? wire_write(fd, v->iov_base, v->iov_len) : 0;
        if (n < 0) return done ? done : n;
        done += n;
        if ((size_t) n < v->iov_len) break;
    }
    return done;
}

static int worker_polls(struct pollfd *socket, nfds_t count, int timeout)
{
    (void) count, (void) timeout;
    socket->revents = wires[socket->fd].in.closed ? POLLRDHUP : 0;
    return socket->revents != 0;
}

static int worker_watches(int epoll, int operation, int fd, struct epoll_event *event)
{
    (void) epoll;
    return wire_watch(running, operation, fd, event);
}

static int worker_shuts(int fd, int how)
{
    (void) how;
    return wire_shutdown(fd);
}

static int worker_sets(int fd, int level, int name, const void *value, socklen_t size)
{
    (void) fd, (void) level, (void) name, (void) value, (void) size;
    return 0;
}

static int worker_posts(sem_t *whose)
{
    (void) whose;
    shared.semaphore++;
    return 0;
}

static int events_of(int worker, struct epoll_event *events, int most, bool some)
{
    int n = 0;
    if (shared.wake[worker]) events[n++] = (struct epoll_event) { .events = EPOLLIN, .data.u64 = (uint64_t)
          EPOLL_WAKE << 60 };
    if (shared.bell[worker]) events[n++] = (struct epoll_event) { .events = EPOLLIN, .data.u64 = (uint64_t)
          EPOLL_DOORBELL << 60 };
    shared.bell[worker] = false;
    uint32_t from = below(WIRES);
    for (uint32_t i = 0; i < WIRES && n < most; i++) {
        const wire *w = &wires[(from + i) % WIRES];
        uint32_t there;
        if (w->worker != worker || !wire_events(w, &there) || (some && one_in(4))) continue;
        events[n++] = (struct epoll_event) { .events = there, .data.u64 = w->name };
    }
    return n;
}

bool worker_wakes(uint32_t worker)
{
    uint32_t events;
    if (shared.wake[worker] || shared.bell[worker]) return true;
    for (uint32_t i = 0; i < WIRES; i++) if (wires[i].worker == (int) worker && wire_events(&wires[i], &events))
          return true;
    return false;
}

static int worker_waits(int epoll, struct epoll_event *events, int most, int timeout)
{
    (void) epoll;
    int n = events_of(running, events, most, true);
    if (n || !timeout) return n;
    if (!worker_wakes((uint32_t) running)) process_sleep(virtual_now + (uint64_t) timeout * 1000000);
    return events_of(running, events, most, false);
}

#endif
