/* Polls of links: a receiver's waiting deliveries, credit, and the time without credit; windows that are shut.  They
 * run between turns, so no message pays for them. */
#include <string.h>

#include "workers/loop/loop.h"
#include "workers/amqp/amqp.h"

#define POLL_BLOCKED_NS 10000000000ull /* without credit for longer: blocked */
#define POLL_GONE (-1)

typedef struct {               /* shm.contract.payloads.SEEN_LINK */
    uint32_t queued;           /* deliveries not sent yet */
    int32_t credit;            /* POLL_GONE: there is no such link */
    uint64_t dry_since;        /* nanoseconds; 0: it has credit */
    uint64_t shut;             /* poll_shut() */
} link_poll;

static void poll_credit(worker_link *k, uint64_t now)
{
    if (!k->outgoing || !k->open || !k->engine) return;
    if (link_credit(k) > 0) k->dry_since = 0;
    else if (!k->dry_since) k->dry_since = now;
}

/* A receiver that has begun no delivery since the last poll takes none at present, despite its credit. */
static void poll_for_standstill(pump *p, worker_link *k)
{
    if (k->queued_settled && k->seen_tag == k->tag) out_waits(p, k);
    k->seen_tag = k->tag;
}

/* Polls every link, counts the blocked ones, and gives memory back. */
GLUE void poll_all_links(pump *p, uint64_t now)
{
    uint64_t blocked = 0;
    for (uint32_t i = 0; i < p->links.high; i++) {
        worker_link *k = (worker_link *) pool_at(&p->links, i);
        if (k->slot.next_free != SLOT_USED) continue;
        poll_credit(k, now);
        poll_for_standstill(p, k);
        blocked += k->dry_since && now > k->dry_since + POLL_BLOCKED_NS;
    }
    stats_set(p->stats, N_LINKS_BLOCKED, blocked);
    memory_poll(p);
    publish_actions(p);
}

/* Whether a session's window holds the link up: the peer's a receiver's deliveries, ours a sender. */
static bool poll_shut(const worker_link *k)
{
    const worker_session *s = k->session;
    return s && (k->outgoing ? k->waiting && !s->lane.out_window : !s->lane.in_window);
}

static link_poll poll_link(pump *p, uint32_t link, uint32_t generation, uint64_t now)
{
    worker_link *k = (worker_link *) pool_find2(&p->links, link, generation);
    if (!k || !k->engine) return (link_poll) { .credit = POLL_GONE };
    bool shut = poll_shut(k);
    if (!k->outgoing) return (link_poll) { .shut = shut };
    poll_credit(k, now);
    int credit = link_credit(k);
    return (link_poll) { .queued = k->queued, .credit = credit > 0 ? credit : 0, .dry_since = k->dry_since,
                         .shut = shut };
}

/* Links as they are now: of each its index and generation, and a link_poll. */
GLUE void poll_links(pump *p, const char *asked, size_t count, uint64_t now, char *seen)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t name[2];
        memcpy(name, asked + i * sizeof name, sizeof name);
        link_poll found = poll_link(p, name[0], name[1], now);
        memcpy(seen + i * sizeof found, &found, sizeof found);
    }
}
