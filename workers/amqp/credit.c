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
    /* one FLOW for a quarter of the link's credit; that of the far receiver, in a routed pair, passes at once */
    if (k->owed && (k->routed || k->owed >= k->capacity / 4) && k->open && !p->withhold && !p->resting) {
        link_flow(k, k->owed);
        k->owed = 0;
        mark_dirty(p, k->conn);
    }
}
