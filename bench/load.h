/* The load client: one thread, one loop, one link per connection.
 *
 *   send      sends count messages on each link; an unsettled one is done when the peer has settled it
 *   recv      receives count messages on each link, accepts and settles each
 *   pingpong  has a sender and a receiver on one address, and one message in flight
 *   echo      returns what it receives; with `listen` it is pingpong's peer without a router
 *
 * With `listen` the client accepts connections instead of making them.  States: load_open() until links are attached
 * (and senders have credit), load_hold() until the runner says go, load_run() until done, load_hold() again,
 * load_close().  CPU and time count inside load_run() only, from the first message on, so the figures contain neither
 * start-up nor waiting.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include "bench/roles.h"

/* ---- events ---- */

static inline void load_on_gone(struct load *l, struct endpoint *e, const char *what, pn_condition_t *why)
{
    if (!e->closing && !l->opt.listen) load_fail(l, what, why);
}

static inline void load_on_event(struct load *l, struct endpoint *e, pn_event_t *event)
{
    switch (pn_event_type(event)) {
    case PN_DELIVERY:
        if (pn_link_is_sender(e->link))
            load_on_outcome(l, e, pn_event_delivery(event));
        else
            load_on_arrival(l, e, pn_event_delivery(event));
        break;
    case PN_CONNECTION_REMOTE_OPEN:
        if (l->opt.listen) pn_connection_open(e->connection);
        break;
    case PN_SESSION_REMOTE_OPEN:
        if (!l->opt.listen) break;
        e->session = pn_event_session(event);
        pn_session_open(e->session);
        break;
    case PN_LINK_REMOTE_OPEN:
        load_link_opened(l, e, pn_event_link(event));
        break;
    case PN_LINK_REMOTE_CLOSE:
    case PN_LINK_REMOTE_DETACH:
        load_on_gone(l, e, "the link was closed by the peer", pn_link_remote_condition(pn_event_link(event)));
        break;
    case PN_CONNECTION_REMOTE_CLOSE:
        load_on_gone(l, e, "the connection was closed by the peer",
                     pn_connection_remote_condition(e->connection));
        pn_connection_close(e->connection);
        break;
    case PN_TRANSPORT_ERROR:
        load_on_gone(l, e, "the connection was lost", pn_transport_condition(e->transport));
        break;
    default:
        break;
    }
}

static inline void load_events(struct load *l, struct endpoint *e)
{
    pn_event_t *event;
    while ((event = pn_collector_next(e->collector))) load_on_event(l, e, event);
}

/* ---- the loop ---- */

static inline bool endpoint_ready(const struct endpoint *e)
{
    return e->attached && (!pn_link_is_sender(e->link) || pn_link_credit(e->link) > 0);
}

static inline bool endpoint_done(const struct load *l, const struct endpoint *e)
{
    bool sender = e->link && pn_link_is_sender(e->link);
    if (l->opt.mode == LOAD_PINGPONG && sender) return true;  /* its receiver says when */
    if (!sender) return e->received >= l->opt.count;
    return e->sent == l->opt.count && !e->blocked && (l->opt.presettled || e->settled >= l->opt.count);
}

static inline bool load_reached(const struct load *l, enum load_goal goal)
{
    for (int i = 0; i < l->n; i++) {
        struct endpoint *e = &l->endpoints[i];
        if (goal == LOAD_ATTACHED && !endpoint_ready(e)) return false;
        if (goal == LOAD_DONE && !endpoint_done(l, e)) return false;
        if (goal == LOAD_CLOSED && !pn_transport_closed(e->transport)) return false;
    }
    return goal != LOAD_COMMAND && (l->n == l->opt.links || goal != LOAD_DONE);
}

static inline void load_add(struct load *l, int fd, bool server)
{
    struct endpoint *e = &l->endpoints[l->n];
    endpoint_init(e, fd, server, l->message.length + 4096, l->opt.tls);
    load_watch(l, fd, l->n++, EPOLLIN, EPOLL_CTL_ADD);
}

static inline void load_accept(struct load *l)
{
    int fd = accept4(l->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) return;
    if (l->n == l->opt.links) {
        close(fd);
        return;
    }
    socket_prepare(fd);
    load_add(l, fd, true);
}

/* Handles messages and output of one connection; returns true if it has more to send at once. */
static inline bool load_output(struct load *l, int index)
{
    struct endpoint *e = &l->endpoints[index];
    load_produce(l, e);
    bool blocked = !endpoint_write(e);
    if (pn_transport_closed(e->transport)) {
        if (!e->unwatched) load_watch(l, e->fd, index, 0, EPOLL_CTL_DEL);
        e->unwatched = true;
        return false;
    }
    if (blocked != e->blocked) {
        e->blocked = blocked;
        load_watch(l, e->fd, index, EPOLLIN | (blocked ? EPOLLOUT : 0), EPOLL_CTL_MOD);
    }
    return load_has_more(l, e);
}

static inline void load_tick(struct load *l, uint64_t now)
{
    if (now - l->ticked_ns < 1000000000u) return;
    l->ticked_ns = now;
    for (int i = 0; i < l->n; i++) pn_transport_tick(l->endpoints[i].transport, (int64_t)(now / 1000000u));
}

/* Turns the loop until `goal` is reached or `limit_s` seconds (0: no limit) have passed.  Returns 0, or -1 with
 * l->error set. */
static inline int load_until(struct load *l, enum load_goal goal, unsigned limit_s)
{
    struct epoll_event ready[LOAD_LINKS_MAX];
    uint64_t started = clock_ns(CLOCK_MONOTONIC), heard = started;
    uint64_t received = 0;
    for (;;) {
        bool more = false, command = false;
        for (int i = 0; i < l->n; i++) load_events(l, &l->endpoints[i]);  /* all, before any answer */
        for (int i = 0; i < l->n; i++) more |= load_output(l, i);
        if (load_reached(l, goal)) return 0;  /* comes first: a peer that is done may have closed already */
        if (l->error[0]) return -1;
        int n = epoll_wait(l->poller, ready, LOAD_LINKS_MAX, more ? 0 : 1000);
        for (int i = 0; i < n; i++) {
            int key = ready[i].data.fd;
            if (key >= 0) endpoint_read(&l->endpoints[key]);
            if (key == LOAD_KEY_LISTENER) load_accept(l);
            if (key == LOAD_KEY_COMMAND) command = true;
        }
        if (command && goal == LOAD_COMMAND) return 0;
        uint64_t now = clock_ns(CLOCK_MONOTONIC), so_far = load_total(l, endpoint_received);
        load_tick(l, now);
        if (limit_s && now - started > limit_s * 1000000000ull) return 0;
        if (so_far != received || !so_far) heard = now;
        received = so_far;
        if (l->opt.presettled && goal == LOAD_DONE && now - heard > LOAD_QUIET_S * 1000000000ull) return 0;
    }
}

/* ---- what the glue calls; each returns 0, or -1 with l->error set ---- */

static inline int load_open(struct load *l, const struct load_options *opt)
{
    uint64_t total = opt->count * (uint64_t)opt->links;
    *l = (struct load){.opt = *opt, .listener = -1, .poller = epoll_create1(EPOLL_CLOEXEC)};
    l->endpoints = calloc(LOAD_LINKS_MAX, sizeof *l->endpoints);
    message_init(&l->message, opt->address, opt->size);
    samples_init(&l->samples, opt->mode == LOAD_PINGPONG ? total : total / SAMPLE_EVERY + LOAD_LINKS_MAX);
    if (opt->listen) {
        l->listener = socket_open(opt->host, opt->port, true);
        if (l->listener >= 0) load_watch(l, l->listener, LOAD_KEY_LISTENER, EPOLLIN, EPOLL_CTL_ADD);
    }
    for (int i = 0; i < opt->links && !opt->listen; i++) {
        int fd = socket_open(opt->host, opt->mode == LOAD_PINGPONG && i ? opt->far : opt->port, false);
        if (fd < 0) break;
        load_add(l, fd, false);
        load_attach(l, &l->endpoints[i], opt->mode == LOAD_SEND || (opt->mode == LOAD_PINGPONG && i == 0), i);
    }
    if (opt->listen ? l->listener < 0 : l->n < opt->links) {
        snprintf(l->error, sizeof l->error, "%s:%s: %s", opt->host, opt->port, strerror(errno));
        return -1;
    }
    return opt->listen ? 0 : load_until(l, LOAD_ATTACHED, 0);
}

/* Serves the connections until standard input has something or ends, and reads that. */
static inline int load_hold(struct load *l)
{
    char line[64];
    load_watch(l, STDIN_FILENO, LOAD_KEY_COMMAND, EPOLLIN, EPOLL_CTL_ADD);
    int result = load_until(l, LOAD_COMMAND, 0);
    load_watch(l, STDIN_FILENO, 0, 0, EPOLL_CTL_DEL);
    if (result || read(STDIN_FILENO, line, sizeof line) >= 0) return result;
    load_fail(l, "standard input failed", NULL);
    return -1;
}

static inline int load_run(struct load *l)
{
    l->running = true;
    int result = load_until(l, LOAD_DONE, 0);
    l->last_ns = clock_ns(CLOCK_MONOTONIC);
    l->cpu_last_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    return result;
}

static inline void load_close(struct load *l)
{
    l->error[0] = 0;
    for (int i = 0; i < l->n; i++) {
        l->endpoints[i].closing = true;
        pn_connection_close(l->endpoints[i].connection);
    }
    load_until(l, LOAD_CLOSED, LOAD_CLOSE_S);
    for (int i = 0; i < l->n; i++) endpoint_free(&l->endpoints[i]);
    if (l->listener >= 0) close(l->listener);
    close(l->poller);
    free(l->endpoints);
    free(l->message.bytes);
    free(l->samples.ns);
    l->n = 0;
}

#endif
