/* The core's turns: read every worker's ring a batch at a time, publish, wake who sleeps, sleep.
 *
 * core_turn() is the state machine's step: time is given, nothing waits.  core_run() drives it with a clock and the
 * semaphore until Python is needed or the time is up.
 */
#include <sched.h>
#include <time.h>

#include "core/forwarder/turns/turns.h"

#define CORE_BATCH 128u                /* actions of one worker before the next one has its turn */
/* under load the core polls the semaphore this often: somebody may want Python */
#define CORE_SLICE_NS 10000000ull
#ifndef CORE_BRIEF_NS
#define CORE_BRIEF_NS 1000000ull       /* the same, while Python has more to do and waits only to let messages pass */
#endif
/* and runs Python at least this often: a turn of Python costs as much as hundreds of messages */
#define CORE_LONGEST_NS 50000000ull
#define CORE_RETRY_NS 1000000ull       /* the longest sleep while work waits for room in a ring */
#define PARK_AFTER 512u                /* records of others between two addresses that are asked for: about 60 us */
#define CORE_AHEAD 4u                  /* records between two steps of prefetching */
/* with fewer deliveries and links, what records are about is in a near cache: 1 MB at most */
#define CORE_NEAR 2048u
#define WAY_PAUSE_NS 20000             /* between two looks of a thread that lets the core's Python go first */
#define WAY_PAUSES 10                  /* about a millisecond: the system may stretch each pause by 50 us */
#define CORE_CROWD 16u                 /* with so many records since the last sleep, more are expected at once */

/* Prefetches two cache lines: what each message needs of a link, and most of an address.  Nothing happens for NULL. */
static INLINED void core_fetch(const void *entry)
{
    __builtin_prefetch(entry, 1);
    __builtin_prefetch((const void *) ((uintptr_t) entry + 64), 1);
}

/* Prefetches what later records are about, and what that leads to, each step CORE_AHEAD records before the next: the
 * link of a message and its address; of an outcome the outgoing delivery, the incoming one, and the sender's link.
 * Where there are many of them they are in no near cache.  What a record says is loaded once: its worker may change
 * it. */
static INLINED void core_ahead(const core_router *c, const core_worker *k)
{
    const routerd_consumer *actions = &k->actions;
    const uint64_t mask = actions->capacity - 1;
    for (uint32_t step = 1; step <= 3; step++) {
        const uint64_t at = actions->next + step * CORE_AHEAD;
        if (at >= actions->head_seen) return;
        const routerd_record *r = &actions->ring->slot[at & mask];
        if (r->type == A_DELIVER) {
            const uint32_t link = __atomic_load_n(&r->link, __ATOMIC_RELAXED);
            const core_link *l = link < k->link_room ? k->link[link] : NULL;
            if (step == 2 && l) core_fetch(l);
            if (step == 1 && l && l->address) core_fetch(l->address);
            continue;
        }
        const uint32_t index = routerd_handle_index(__atomic_load_n(&r->delivery, __ATOMIC_RELAXED));
        if (index >= pool_size(&c->outs)) continue;
        const core_out *out = (const core_out *) pool_at_of(&c->outs, index, sizeof *out);
        if (POOL_WATCHED && !pool_live(&out->node)) continue;  /* else what a free one leads to is memory, too */
        if (step == 3) {
            core_fetch(out);
        } else if (step == 2) {
            core_fetch(out->in);
            core_fetch(out->link);
        } else if (out->in) {
            core_fetch(out->in->link);
        }
    }
}

/* Lets a link whose message names an unknown text stand aside. */
__attribute__((noinline, cold)) static enum core_stop park_link(core_router *c, uint32_t w, const routerd_record *r)
{
    park_put(c, link_find(c, w, r->link, r->link_gen), r);
    return STOP_NOTHING;
}

/* Handles records of one worker in order, and returns their slots at once. */
static INLINED enum core_stop core_read(core_router *c, uint32_t w, uint32_t limit, uint32_t *handled)
{
    core_worker *k = &c->worker[w];
    enum core_stop stop = STOP_NOTHING;
    bool parked = c->park_first != NULL, begun = false;
    const bool far = c->outs.live + c->links.live > CORE_NEAR;
    core_flight *f = c->flight;
    while (limit-- && stop == STOP_NOTHING) {
        const routerd_record *shared = ring_peek(&k->actions);
        if (!shared) break;
        if (far) core_ahead(c, k);
        routerd_record r = *shared;    /* a copy: what was checked must be what is used */
        if (__builtin_expect(f != NULL, 0)) {
            if (!begun) flight_put(f, &(flight_line) {.type = FLIGHT_BATCH, .worker = (uint8_t) w, .now = c->now});
            begun = true;
            if (__builtin_expect(r.type >= FLIGHT_BATCH, 0)) r.type = FLIGHT_UNKNOWN_ACTION;   /* no line of ours */
            flight_put(f, &r);
        }
        if (__builtin_expect(!parked, 1) || !park_follows(c, w, &r)) stop = action_take(c, w, &r);
        if (__builtin_expect(stop == STOP_UNKNOWN, 0)) {
            stop = park_link(c, w, &r);
            parked = true;
        }
        ring_advance(&k->actions);
        ++*handled;
    }
    ring_return(&k->actions);
    if (stop != STOP_NOTHING) c->stop_worker = w;
    return stop;
}

/* The same, and publishes the work made. */
GLUE enum core_stop core_batch(core_router *c, uint32_t w, uint32_t limit, uint32_t *handled)
{
    enum core_stop stop = core_read(c, w, limit, handled);
    core_publish(c);
    return stop;
}

static void core_flush_all(core_router *c)
{
    for (uint32_t w = 0; w < c->active; w++)
        if (c->worker[w].overflow.count) core_flush(c, w);
    core_publish(c);
}

static void core_gauges(core_router *c)
{
    count_totals(c);
    stats_set(c->stats, N_OVERFLOW, core_overflow(c));
    stats_set(c->stats, N_LIVE_DELIVERIES, (uint64_t) c->ins.live + c->outs.live);
    stats_set(c->stats, N_ADDRESSES, c->addresses.live);
}

/* Handles what stands aside of a link, up to an address that is not known.  False: there is one. */
static bool park_resume(core_router *c, core_link *l, uint32_t *handled)
{
    for (core_park *p = l->park; p->head < p->count; p->head++, ++*handled)
        if (action_take(c, l->worker, &p->record[p->head]) == STOP_UNKNOWN) return false;
    return true;
}

/* Handles what stands aside of a link, which goes.  STOP_UNKNOWN: an address has to be found first. */
GLUE enum core_stop park_finish(core_router *c, core_link *l)
{
    uint32_t handled = 0;
    const bool done = l->outgoing || l->kind == LINK_ROUTED || !l->park || park_resume(c, l, &handled);
    return done ? STOP_NOTHING : STOP_UNKNOWN;
}

/* Records that what waits aside of the rings has its turn. */
static void flight_portion(core_router *c, enum flight_type type, uint32_t count)
{
    if (!c->flight) return;
    flight_line line = flight_about(c, type, 0);
    line.count = count;
    flight_put(c->flight, &line);
}

/* Gives parked links their turns, each up to the next address that is not known.  One such address is asked for after
 * so many records of others, or when there are none (`idle`). */
__attribute__((noinline, cold)) static enum core_stop park_turn(core_router *c, uint32_t *handled, bool idle)
{
    flight_portion(c, FLIGHT_PARKED, c->park_since << 1 | idle);
    for (uint32_t n = c->park_count; n; n--) {
        core_link *l = park_next(c);
        if (park_resume(c, l, handled)) {
            park_unlink(c, l);
            park_end(l);
            continue;
        }
        if (!l->park->asked) {
            if (!idle && c->park_since < PARK_AFTER) break;
            c->park_since = 0;
            l->park->asked = true;
            return STOP_UNKNOWN;
        }
        l->park->asked = false;
        park_rotate(c, l);
    }
    core_publish(c);
    return STOP_NOTHING;
}

static inline bool park_due(const core_router *c)
{
    return c->park_first && (park_next(c)->park->asked || c->park_since >= PARK_AFTER);
}

/* Handles one batch of each worker; the next turn starts with another worker.  Work is published for CORE_BATCH records
 * together, of whichever workers: each publication moves the rings' heads between CPUs and waits for the stores before
 * it, which is much for the few records that each of many workers has. */
static enum core_stop core_turn(core_router *c, uint32_t *handled)
{
    enum core_stop stop = STOP_NOTHING;
    uint32_t published = *handled;
    core_flush_all(c);
    if (__builtin_expect(checkpoint_due(c), 0)) checkpoint_write(c);
    if (__builtin_expect(park_due(c), 0)) stop = park_turn(c, handled, false);
    uint32_t w = c->turn;
    for (uint32_t i = 0; i < c->active && stop == STOP_NOTHING; i++) {
        if (__builtin_expect(!(c->held >> w & 1), 1)) stop = core_read(c, w, CORE_BATCH, handled);
        w = w + 1 < c->active ? w + 1 : 0;
        if (*handled - published < CORE_BATCH) continue;
        core_publish(c);
        published = *handled;
    }
    core_publish(c);
    if (__builtin_expect(c->park_first != NULL, 0)) {
        if (stop == STOP_NOTHING && !*handled) stop = park_turn(c, handled, true);
        c->park_since += stop == STOP_CONTROL ? PARK_AFTER / 4 : *handled;
    }
    if (__builtin_expect(c->fan_first != NULL || c->tell_first != NULL, 0)) {
        flight_portion(c, FLIGHT_FANS, 0);
        *handled += fan_turn(c) + tell_turn(c);
        core_publish(c);
    }
    c->turn = stop != STOP_NOTHING ? w : c->turn + 1 < c->active ? c->turn + 1 : 0;
    if (stop == STOP_NOTHING && (c->worker[c->workers].overflow.count || c->network.thirsty)) stop = STOP_LOCAL;
    if (stop == STOP_NOTHING && c->held) stop = STOP_HELD;
    stats_add(c->stats, N_LOOPS, 1);
    return stop;
}

/* What a recording says of such a turn, for a replay. */
GLUE void core_portion(core_router *c, bool parked, uint32_t count)
{
    uint32_t handled = 0;
    c->park_since = count >> 1;
    if (parked && c->park_first) park_turn(c, &handled, count & 1);
    else if (!parked) fan_turn(c), tell_turn(c);
    core_flush_all(c);
}

/* Takes turns until one handles nothing. */
GLUE enum core_stop core_step(core_router *c, uint64_t now)
{
    c->now = now;
    for (;;) {
        uint32_t handled = 0;
        enum core_stop stop = core_turn(c, &handled);
        if (stop != STOP_NOTHING || !handled) {
            core_gauges(c);
            return stop;
        }
    }
}

static bool core_pending(const core_router *c)
{
    for (uint32_t w = 0; w < c->active; w++)
        if (ring_pending(&c->worker[w].actions)) return true;
    return false;
}

GLUE uint64_t clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000ull + (uint64_t) t.tv_nsec;
}

/* Polls until there is something to read (true), or `until`. */
static bool core_poll(core_router *c, uint64_t until)
{
    do {
        for (int i = 0; i < 64; i++) {
            if (core_pending(c)) return true;
            cpu_relax();
        }
    } while (clock_now() < until);
    return false;
}

/* Blocks until a producer rings, the supervisor posts, or `until`.  False: there was something to read already.
 * `crowd`: let the workers on this CPU go first, their actions come in one batch then.  Where messages come one by one
 * there is no batch, and whoever else is on this CPU, and computes, would keep it until the scheduler's next tick: 4
 * ms. */
static bool core_sleep(core_router *c, uint64_t until, bool crowd)
{
    struct timespec t = {.tv_sec = (time_t) (until / 1000000000ull), .tv_nsec = (long) (until % 1000000000ull)};
    if (crowd) sched_yield();
    if (core_pending(c)) return false;
    doorbell_sleep(c->bell);
    if (!core_pending(c)) {            /* the second check: see doorbell.h */
        stats_add(c->stats, N_SLEEPS, 1);
        sem_clockwait(c->sem, CLOCK_MONOTONIC, &t);
    }
    doorbell_wake(c->bell);
    return true;
}

/* Whether the semaphore was posted while nobody slept on it.  A worker may have posted it for records that have been
 * read since. */
static bool core_asked(core_router *c)
{
    bool asked = false;
    while (!sem_trywait(c->sem)) asked = true;
    return asked;
}

/* Forwards until Python is needed, the semaphore was posted without a record to read, or nothing has happened until
 * `deadline`.  Under load the semaphore is looked at after each slice of time, and Python has its turn when it wants it
 * (`deadline`), but not more often than that, nor less often than it ever has to.  A deadline that is over lets what
 * waits pass, for CORE_BRIEF_NS. */
GLUE enum core_stop core_run(core_router *c, uint64_t deadline, uint64_t busy)
{
    uint64_t longest = stats_get(c->stats, N_LONGEST_TURN_NS);
    __atomic_store_n(&c->python, 0, __ATOMIC_RELEASE);
    bool slept = false;
    uint64_t since = 0;                /* records since the last sleep */
    c->now = clock_now();
    if (c->left) stats_observe(c->stats, HIST_PYTHON_NS, c->now - c->left);
    const uint64_t piece = deadline > c->now ? CORE_SLICE_NS : CORE_BRIEF_NS;
    uint64_t slice = c->now + piece, latest = c->now + CORE_LONGEST_NS;
    if (deadline < latest) latest = deadline;
    for (;;) {
        uint32_t handled = 0;
        uint64_t began = c->now;
        enum core_stop stop = core_turn(c, &handled);
        stats_beat(c->stats);
        c->now = clock_now();
        if (c->now - began > longest) stats_set(c->stats, N_LONGEST_TURN_NS, longest = c->now - began);
        bool over = c->now >= (handled ? slice : deadline);
        if (over && handled && c->now < latest && !core_asked(c)) {
            slice = c->now + piece;
            over = false;
        }
        if (stop != STOP_NOTHING || over || (slept && !handled)) {
            core_gauges(c);
            c->left = c->now;
            __atomic_store_n(&c->python, 1, __ATOMIC_RELEASE);
            return stop;
        }
        slept = false;
        since += handled;
        if (handled || (busy && core_poll(c, c->now + busy))) continue;
        core_gauges(c);
        bool waiting = core_overflow(c) > 0;
        if (core_sleep(c, waiting && deadline - c->now > CORE_RETRY_NS ? c->now + CORE_RETRY_NS : deadline,
                       since >= CORE_CROWD)) since = 0;
        c->now = clock_now();
        slept = !waiting;
    }
}

/* Whether the core's own thread has the interpreter lock, or waits for it. */
GLUE bool core_in_python(const core_router *c) { return __atomic_load_n(&c->python, __ATOMIC_ACQUIRE); }

/* Lets the core's own thread have the interpreter lock, which the caller has given up.  Nobody has to wake the caller,
 * so that no turn of the core makes a system call for it; the limit keeps a core that is busy with Python from holding
 * it up for ever. */
GLUE void core_give_way(const core_router *c)
{
    const struct timespec pause = {.tv_nsec = WAY_PAUSE_NS};
    for (int i = 0; i < WAY_PAUSES && core_in_python(c); i++) clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}
