/* The times of sent deliveries and of links without credit, for the flow log. */
#include "workers/loop/loop.h"
#include "shm/record.h"
#include "workers/state/pump.h"

/* The nanoseconds that a link with waiting deliveries has had no credit, up to now. */
PRIVATE inline uint64_t link_starved(const pump *p, const worker_link *k)
{
    return k->starved + (k->starved_since ? p->now_ns - k->starved_since : 0);
}

/* Notes that the first byte of a delivery is sent, so its link has credit. */
PRIVATE inline void out_begun(const pump *p, worker_link *k, out_delivery *o)
{
    if (__builtin_expect(k->starved_since != 0, 0)) {
        k->starved = link_starved(p, k);
        k->starved_since = 0;
    }
    o->starved = k->starved - o->starved;
    o->began = p->now_ns;
}

/* Writes into a record the time of a delivery's last byte, the time of writing, and the time without credit. */
PRIVATE inline void out_times(const out_delivery *o, routerd_record *r)
{
    uint64_t writing = (o->finished - o->began) / 1000;
    r->time = o->finished;
    r->credit = writing < UINT32_MAX ? (uint32_t) writing : UINT32_MAX;
    r->length = o->starved;
}
