/* The share of a turn that each socket has for its input.
 *
 * What octets cost depends on what they say: 64 KiB are 4 messages, or 8,192 empty frames.  So the time that a
 * connection's reads took says how many octets its next read may bring, and all that can be read in a turn costs about
 * READS_OF_ALL.  A socket that is read alone has all of it.
 */
#include "workers/loop/loop.h"
#include "workers/framed/framed.h"
#include "workers/transport/transport.h"

#define READS_OF_ALL 1000000u          /* nanoseconds of a turn for the input of all sockets */
#define READS_OF_ONE 50000u            /* the same for each, however many they are */
#define READ_LEAST 4096u               /* octets of a read, however much they cost */

/* A turn begins, with so many events.  `now`: on the clock; 0: unknown. */
PRIVATE void reads_begin(pump *p, int events, uint64_t now)
{
    p->share = events > 1 ? READS_OF_ALL / (uint32_t) events : READS_OF_ALL;
    if (p->share < READS_OF_ONE) p->share = READS_OF_ONE;
    p->looked = now;
}

/* Reads what a connection's peer has sent, as far as its share goes. */
PRIVATE void reads_serve(pump *p, worker_connection *c)
{
    uint64_t began = p->looked ? p->looked : clock_ns(), before = stats_get(p->stats, N_BYTES_IN), took = 0;
    for (int i = 0; i < READ_TURNS && took < p->share; i++) {
        bool more = c->framed ? framed_read(p, c) : conn_read(p, c);
        if (!c->framed) events_drain(p);
        p->looked = clock_ns();
        took = p->looked - began;
        if (!more) break;
    }
    uint64_t octets = stats_get(p->stats, N_BYTES_IN) - before;
    if (octets < READ_LEAST || !took) return;
    uint64_t most = octets * p->share / took;
    c->read_most = most < READ_LEAST ? READ_LEAST : most < READ_AT_ONCE ? (uint32_t) most : 0;
}
