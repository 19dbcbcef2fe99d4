/* Credit of incoming links that the core has given back, until a FLOW gives it to the sender. */
#include "workers/amqp/amqp.h"

PRIVATE inline void credit_owed(pump *p, worker_link *k, uint32_t credit)
{
    if (__builtin_expect(k->framed, 0)) {
        k->credit += (int32_t) credit;
        mark_dirty(p, k->conn);
        return;
    }
    k->owed += credit;
    /* little credit is returned one by one */
    uint32_t threshold = k->routed || k->capacity < 32 ? 1 : k->capacity < 256 ? k->capacity / 8 : 32;
    if (k->owed && k->owed >= threshold && k->open && !p->withhold && !p->resting) {
        link_flow(k, k->owed);
        k->owed = 0;
        mark_dirty(p, k->conn);
    }
}
