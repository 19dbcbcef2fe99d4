/* What holds of a core's tables and counters whatever its workers say.  A target includes it behind the core. */
#ifndef ROUTERD_FUZZ_PROMISES_H
#define ROUTERD_FUZZ_PROMISES_H

/* Each link that an address sends to is there, knows its place, and is this address's. */
static void promise_places(const core_router *c)
{
    uint32_t at = 0;
    for (const core_address *a; (a = (const core_address *) pool_next(&c->addresses, &at));)
        for (uint32_t i = 0; i < a->out_count; i++) {
            const core_link *l = a->out[i];
            CHECK(pool_live(&l->node) && l->outgoing && l->address == a && l->place == i, "a receiver is misplaced");
        }
}

static uint64_t promise_sum(const stats_page *p, const uint32_t *which, size_t count)
{
    uint64_t sum = 0;
    while (count--) sum += stats_get(p, which[count]);
    return sum;
}

#define PROMISE_SUM(...) \
    promise_sum(p, (const uint32_t[]) {__VA_ARGS__}, sizeof (const uint32_t[]) {__VA_ARGS__} / sizeof(uint32_t))

/* Each delivery, and each copy, has ended in one counter. */
static void promise_balance(const stats_page *p)
{
    CHECK(PROMISE_SUM(N_RECEIVED) == PROMISE_SUM(N_ACCEPTED, N_REJECTED, N_RELEASED, N_MODIFIED, N_NO_OUTCOME,
                                                 N_PRESETTLED, N_OWN_PRESETTLED), "a delivery has no end, or several");
    CHECK(PROMISE_SUM(N_FORWARDED) == PROMISE_SUM(N_EGRESS, N_TRANSIT, N_OWN_OUT, N_DROPPED_SLOW, N_DROPPED_GONE,
                                                  N_UNSENT, N_IN_DOUBT), "a copy has no end, or several");
}

#endif
