/* Credit of incoming links that the core has given back, until a FLOW gives it to the sender. */
#include "workers/amqp/amqp.h"

enum { LITTLE_CREDIT = 32 };           /* a capacity of links whose senders get each credit back at once */

PRIVATE inline void credit_owed(pump *p, worker_link *k, uint32_t credit)
{
    if (__builtin_expect(k->framed, 0)) {
        k->credit += (int32_t) credit;
        mark_dirty(p, k->conn);
        return;
    }
    k->owed += credit;
    /* one FLOW for a quarter of the link's credit; little credit, and that of a routed pair's far receiver, at once */
    uint32_t threshold = k->routed || k->capacity < LITTLE_CREDIT ? 1 : k->capacity / 4;
    if (k->owed && k->owed >= threshold && k->open && !p->withhold && !p->resting) {
        link_flow(k, k->owed);
        k->owed = 0;
        mark_dirty(p, k->conn);
    }
}
