/* Links that get nowhere: what is on them for long, and senders without credit.  Looked for link by link between turns,
 * so that no message pays for it; what is told is as old as the last pass. */
#include "core/forwarder/inspection/inspection.h"

#define STALL_NS 10000000000ull        /* on a link for longer: stuck; without credit for longer: blocked */
#define STALL_LINKS 1024u              /* looked at in a step */
#define STALL_MOST 1000u               /* deliveries of one link that are counted */

/* What is still arriving is no older than its last part: an endless stream is not stuck. */
static bool in_stuck(const core_in *in) { return (in->flags & IN_COMPLETE) != 0; }

/* A delivery counts on the link on which it came; if that is gone, or the core's own, on the link of its first copy. */
static bool counts_here(const core_router *c, const core_out *o)
{
    const core_link *from = o->in->link;
    return o->in->copies == o && (!from || from->worker == c->workers);
}

static void outgoing_stuck(core_router *c, const core_link *l, core_stalled *k)
{
    for (const core_out *o = l->outs; o && k->stuck < STALL_MOST && c->now > o->in->arrived + STALL_NS; o = o->next) {
        if (!in_stuck(o->in)) continue;
        k->stuck++;
        c->stall->waiting_so_far += counts_here(c, o);
    }
}

static void incoming_stuck(core_router *c, const core_link *l, core_stalled *k)
{
    for (const core_in *i = l->ins; i && k->stuck < STALL_MOST && c->now > i->arrived + STALL_NS; i = i->next) {
        if (!in_stuck(i)) continue;
        const core_link *to = i->copies ? i->copies->link : NULL;
        if (!k->stuck && to) k->holder = to->node.index, k->holder_generation = to->node.generation;
        k->stuck++;
    }
    c->stall->waiting_so_far += k->stuck;
}

static bool link_blocked(const core_stalled *k, uint64_t now) { return k->dry_since && now > k->dry_since + STALL_NS; }

/* Looks at a link.  A receiver's credit is its worker's to know. */
static void stall_poll(core_router *c, const core_link *l)
{
    core_stall *s = c->stall;
    core_stalled *k = &s->link[l->node.index];
    if (!pool_live(&l->node) || l->worker == c->workers) return;
    if (k->generation != l->node.generation) *k = (core_stalled) {.generation = l->node.generation};
    outcomes_poll(c, l, k);
    k->stuck = k->holder_generation = 0;
    if (l->outgoing) outgoing_stuck(c, l, k);
    else incoming_stuck(c, l, k);
    s->stuck_so_far += k->stuck;
    if (l->outgoing || l->granted > 0) k->dry_since = 0;
    else if (!k->dry_since) k->dry_since = c->now;
    s->blocked_so_far += link_blocked(k, c->now);
}

/* Looks at some links; true when all have been seen once more, and the totals are new. */
GLUE bool stall_step(core_router *c)
{
    core_stall *s = c->stall;
    if (!s) {
        if (!(s = c->stall = (core_stall *) calloc(1, sizeof *s))) return false;
        s->polls = 1;
    }
    if (!pool_beside(&c->links, (void **) &s->link, &s->room, sizeof *s->link)) return false;
    uint32_t end = pool_size(&c->links), stop = s->next + STALL_LINKS < end ? s->next + STALL_LINKS : end;
    for (; s->next < stop; s->next++) stall_poll(c, (core_link *) pool_at(&c->links, s->next));
    if (s->next < end) return false;
    s->stuck = s->stuck_so_far;
    s->blocked = s->blocked_so_far;
    s->waiting = s->waiting_so_far;
    s->next = s->stuck_so_far = s->blocked_so_far = s->waiting_so_far = 0;
    s->polls++;
    return true;
}

/* What the last poll left of a link; NULL: there was none yet. */
PRIVATE core_stalled *stall_beside(const core_router *c, const core_link *l)
{
    const core_stall *s = c->stall;
    if (!s || l->node.index >= s->room || s->link[l->node.index].generation != l->node.generation) return NULL;
    return &s->link[l->node.index];
}

/* What the last poll found of a link; zeros: there was none yet. */
GLUE core_stalled stall_of(const core_router *c, const core_link *l)
{
    const core_stalled *k = stall_beside(c, l);
    return k ? *k : (core_stalled) {.stuck = 0};
}

/* The link that holds up the first stuck delivery of an incoming one; NULL: none does, or it is gone. */
GLUE core_link *stall_holder(const core_router *c, const core_link *l)
{
    const core_stalled *k = stall_beside(c, l);
    if (!k || !k->holder_generation || k->holder >= pool_size(&c->links)) return NULL;
    core_link *to = (core_link *) pool_at(&c->links, k->holder);
    return pool_live(&to->node) && to->node.generation == k->holder_generation ? to : NULL;
}

PRIVATE void stall_close(core_router *c)
{
    if (!c->stall) return;
    free(c->stall->link);
    free(c->stall);
}
