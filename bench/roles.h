/* The roles of a load client: the state of a run, and one function per role and event.
 *
 * The loop that calls these is in load.h.
 */
#ifndef BENCH_ROLES_H
#define BENCH_ROLES_H

#include <sys/epoll.h>

#include "bench/endpoint.h"
#include "bench/message.h"

enum load_mode { LOAD_SEND, LOAD_RECV, LOAD_PINGPONG, LOAD_ECHO };
enum load_goal { LOAD_ATTACHED, LOAD_COMMAND, LOAD_DONE, LOAD_CLOSED };

enum {
    LOAD_LINKS_MAX = 64,
    LOAD_BURST = 256,            /* messages given to the engine between two writes */
    LOAD_OUTGOING_MAX = 4 << 20, /* with more bytes in the engine for the socket no message is added */
    LOAD_QUIET_S = 3,            /* after which a presettled receiver no longer waits for dropped messages */
    LOAD_CLOSE_S = 2,
    LOAD_KEY_LISTENER = -1,
    LOAD_KEY_COMMAND = -2,
};

struct load_options {
    enum load_mode mode;
    bool listen, presettled;
    const char *host, *port, *address;
    const char *far;    /* pingpong: the receiver's port */
    uint64_t count;     /* messages per link */
    size_t size;        /* bytes of a body */
    int credit, links;
    unsigned pause_us;  /* recv: sleep before accepting each message */
    pn_ssl_domain_t *tls;  /* NULL: without; not with `listen` */
};

struct load {
    struct load_options opt;
    int poller, listener;
    struct endpoint *endpoints;
    int n;
    struct message message;
    struct samples samples;
    bool running;
    uint64_t bad;                  /* not accepted, cut short or aborted */
    uint64_t owed, owed_stamp;     /* echo: messages still to be sent back */
    uint64_t first_ns, last_ns, cpu_first_ns, cpu_last_ns, ticked_ns;
    char error[256];
};

static inline uint64_t load_total(const struct load *l, uint64_t (*of)(const struct endpoint *))
{
    uint64_t sum = 0;
    for (int i = 0; i < l->n; i++) sum += of(&l->endpoints[i]);
    return sum;
}
static inline uint64_t endpoint_sent(const struct endpoint *e) { return e->sent; }
static inline uint64_t endpoint_received(const struct endpoint *e) { return e->received; }

static inline void load_fail(struct load *l, const char *what, pn_condition_t *condition)
{
    if (l->error[0]) return;
    const char *name = condition ? pn_condition_get_name(condition) : NULL;
    const char *text = condition ? pn_condition_get_description(condition) : NULL;
    if (!name) name = "no condition given";
    snprintf(l->error, sizeof l->error, "%s: %s %s", what, name, text ? text : "");
}

static inline void load_mark_first(struct load *l)
{
    if (l->first_ns) return;
    l->cpu_first_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    l->first_ns = clock_ns(CLOCK_MONOTONIC);
}

static inline void load_watch(struct load *l, int fd, int key, uint32_t events, int op)
{
    struct epoll_event e = {.events = events, .data.fd = key};
    epoll_ctl(l->poller, op, fd, &e);
}

/* ---- links ---- */

static inline void load_attach(struct load *l, struct endpoint *e, bool sender, int index)
{
    char name[32], address[256];
    snprintf(name, sizeof name, "bench-%d-%d", (int)getpid(), index);
    if (l->opt.links > 1 && l->opt.mode != LOAD_PINGPONG)
        snprintf(address, sizeof address, "%s.%d", l->opt.address, index);
    else
        snprintf(address, sizeof address, "%s", l->opt.address);
    e->link = sender ? pn_sender(e->session, name) : pn_receiver(e->session, name);
    pn_terminus_set_address(sender ? pn_link_target(e->link) : pn_link_source(e->link), address);
    if (l->opt.presettled) pn_link_set_snd_settle_mode(e->link, PN_SND_SETTLED);
    pn_link_open(e->link);
    if (!sender) pn_link_flow(e->link, l->opt.credit);
}

static inline void load_accept_link(struct load *l, struct endpoint *e, pn_link_t *link)
{
    e->link = link;
    pn_terminus_copy(pn_link_source(link), pn_link_remote_source(link));
    pn_terminus_copy(pn_link_target(link), pn_link_remote_target(link));
    pn_link_open(link);
    if (!pn_link_is_sender(link)) pn_link_flow(link, l->opt.credit);
    e->attached = true;
}

static inline void load_link_opened(struct load *l, struct endpoint *e, pn_link_t *link)
{
    if (l->opt.listen) {
        load_accept_link(l, e, link);
        return;
    }
    pn_terminus_t *t = pn_link_is_sender(link) ? pn_link_remote_target(link) : pn_link_remote_source(link);
    e->attached = pn_terminus_get_type(t) != PN_UNSPECIFIED;  /* else refused: a detach says why */
}

/* ---- messages ---- */

static inline void load_send_one(struct load *l, struct endpoint *e, uint64_t stamp)
{
    message_stamp(&l->message, stamp);
    pn_delivery_t *d = pn_delivery(e->link, (pn_bytes_t){sizeof e->sent, (const char *)&e->sent});
    pn_link_send(e->link, l->message.bytes, l->message.length);
    pn_link_advance(e->link);
    if (l->opt.presettled) pn_delivery_settle(d);
    e->sent++;
}

static inline bool load_can_send(const struct endpoint *e)
{
    return pn_link_credit(e->link) > 0 && pn_session_outgoing_bytes(e->session) < LOAD_OUTGOING_MAX;
}

static inline void load_pump(struct load *l, struct endpoint *e)
{
    for (int burst = 0; burst < LOAD_BURST && e->sent < l->opt.count && load_can_send(e); burst++) {
        load_mark_first(l);
        load_send_one(l, e, e->sent % SAMPLE_EVERY ? 0 : clock_ns(CLOCK_MONOTONIC));
    }
}

static inline void load_ping(struct load *l)
{
    struct endpoint *tx = &l->endpoints[0], *rx = &l->endpoints[1];
    if (tx->sent != rx->received || tx->sent == l->opt.count || !load_can_send(tx)) return;
    load_mark_first(l);
    load_send_one(l, tx, clock_ns(CLOCK_MONOTONIC));
}

static inline void load_echo(struct load *l, struct endpoint *e)
{
    for (; l->owed && load_can_send(e); l->owed--) load_send_one(l, e, l->owed_stamp);
}

static inline void load_produce(struct load *l, struct endpoint *e)
{
    if (!l->running || !e->attached || !pn_link_is_sender(e->link)) return;
    if (l->opt.mode == LOAD_SEND) load_pump(l, e);
    if (l->opt.mode == LOAD_PINGPONG) load_ping(l);
    if (l->opt.mode == LOAD_ECHO) load_echo(l, e);
}

/* Returns whether the next message can go without an event on the socket. */
static inline bool load_has_more(const struct load *l, const struct endpoint *e)
{
    if (!l->running || l->opt.mode != LOAD_SEND || !e->attached || e->blocked) return false;
    return e->sent < l->opt.count && load_can_send(e);
}

static inline void load_on_outcome(struct load *l, struct endpoint *e, pn_delivery_t *d)
{
    uint64_t state = pn_delivery_remote_state(d);
    if (!pn_delivery_settled(d) && state < PN_ACCEPTED) return;  /* `received` is not final */
    if (state != PN_ACCEPTED) l->bad++;
    pn_delivery_settle(d);
    e->settled++;
}

static inline void load_on_message(struct load *l, struct endpoint *e, pn_delivery_t *d)
{
    uint64_t stamp = message_stamp_of(e->inbox, e->filled, l->message.size);
    if (e->filled < l->message.size || pn_delivery_aborted(d)) l->bad++;
    e->filled = 0;
    e->received++;
    samples_add(&l->samples, stamp);
    if (l->opt.pause_us) usleep(l->opt.pause_us);
    pn_link_advance(e->link);
    if (!pn_delivery_settled(d)) pn_delivery_update(d, PN_ACCEPTED);
    pn_delivery_settle(d);
    if (l->opt.mode == LOAD_ECHO) {
        l->owed++;
        l->owed_stamp = stamp;
    }
    int credit = pn_link_credit(e->link);
    if (credit <= l->opt.credit / 2) pn_link_flow(e->link, l->opt.credit - credit);
}

static inline void load_on_arrival(struct load *l, struct endpoint *e, pn_delivery_t *d)
{
    ssize_t n;
    if (!pn_delivery_readable(d)) return;
    load_mark_first(l);
    while ((n = pn_link_recv(e->link, e->inbox + e->filled, e->inbox_size - e->filled)) > 0)
        e->filled += (size_t)n;
    if (e->filled == e->inbox_size) load_fail(l, "a message arrived that is longer than --size", NULL);
    if (!pn_delivery_partial(d)) load_on_message(l, e, d);
}

#endif
