/* Sockets of clients' connections.  Octets keep their order; a reader gets a part of what is there. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "tests/simulation/depth/simulation.h"

wire wires[WIRES];

int wire_new(int worker)
{
    for (int i = 0; i < WIRES; i++) {
        wire *w = &wires[i];
        if (w->used) continue;
        w->used = w->open_there = true;
        w->worker = worker;
        w->watched = 0;
        w->in_epoll = false;
        w->in.at = w->in.end = w->out.at = w->out.end = 0;
        w->in.closed = w->out.closed = false;
        return i;
    }
    return -1;
}

static uint32_t way_room(wire_way *y)
{
    if (y->at == y->end) y->at = y->end = 0;
    if (y->at > WIRE_ROOM / 2) {
        memmove(y->octets, y->octets + y->at, y->end - y->at);
        y->end -= y->at;
        y->at = 0;
    }
    return WIRE_ROOM - y->end;
}

void wire_say(int number, const void *octets, uint32_t size)
{
    wire_way *y = &wires[number].in;
    HOLDS(way_room(y) >= size, "wire %d has no room", number);
    memcpy(y->octets + y->end, octets, size);
    y->end += size;
}

/* A connection goes when both have closed it. */
static void wire_over(wire *w) { if (!w->open_there && w->in.closed) w->used = false; }

void wire_hang_up(int number)
{
    wire *w = &wires[number];
    w->in.closed = true;
    wire_over(w);
}

int wire_close(int number)
{
    wire *w = &wires[number];
    HOLDS(w->used && w->open_there, "wire %d is closed twice", number);
    w->open_there = false;
    w->out.closed = true;
    wire_over(w);
    return 0;
}

int wire_shutdown(int number)
{
    wires[number].out.closed = true;
    return 0;
}

void wires_lost(int worker)
{
    for (int i = 0; i < WIRES; i++) if (wires[i].used && wires[i].open_there && wires[i].worker == worker)
          wire_close(i);
}

int wire_watch(int worker, int operation, int number, void *event)
{
    struct epoll_event *e = (struct epoll_event *) event;
    if (number < 0 || number >= WIRES) return 0;
    wire *w = &wires[number];
    HOLDS(w->used && w->worker == worker, "wire %d is not worker %d's", number, worker);
    w->in_epoll = operation != EPOLL_CTL_DEL;
    w->watched = w->in_epoll ? e->events : 0;
    if (w->in_epoll) w->name = e->data.u64;
    return 0;
}

enum { SOCKET_ROOM = WIRE_ROOM / 4 };  /* octets that it takes of the worker, again when half of them are read */

/* The worker's events. */
bool wire_events(const wire *w, uint32_t *events)
{
    *events = 0;
    if (!w->used || !w->open_there || !w->in_epoll) return false;
    if (w->watched & EPOLLIN && (w->in.end > w->in.at || w->in.closed)) *events |= EPOLLIN;
    if (w->watched & EPOLLOUT && w->out.end - w->out.at < SOCKET_ROOM / 2) *events |= EPOLLOUT;
    if (w->in.closed && w->out.closed) *events |= EPOLLHUP;
    return *events != 0;
}

/* In pieces of any size. */
ssize_t wire_read(int number, void *to, size_t size)
{
    wire_way *y = &wires[number].in;
    uint32_t there = y->end - y->at;
    if (!there && y->closed) return 0;
    if (!there) { errno = EAGAIN; return -1; }
    if (one_in(2)) there = 1 + below(there);
    if (there > size) there = (uint32_t) size;
    memcpy(to, y->octets + y->at, there);
    y->at += there;
    return there;
}

ssize_t wire_write(int number, const void *from, size_t size)
{
    wire *w = &wires[number];
    wire_way *y = &w->out;
    if (w->in.closed) { errno = EPIPE; return -1; }
    uint32_t room = way_room(y), used = y->end - y->at;
    room = used >= SOCKET_ROOM ? 0 : room < SOCKET_ROOM - used ? room : SOCKET_ROOM - used;
    if (!room) { errno = EAGAIN; return -1; }
    if (size > room) size = room;
    if (size > 1 && one_in(16)) size = 1 + below((uint32_t) size);
    memcpy(y->octets + y->end, from, size);
    y->end += (uint32_t) size;
    return (ssize_t) size;
}
