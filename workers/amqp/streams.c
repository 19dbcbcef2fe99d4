/* Streams: messages of which more is to come, the blocks that they may have, and what the core is told of them.
 *
 * They have three parts of the large blocks:
 *
 *   half        each may always be STREAM_SURE ahead of its readers: there may be so many streams
 *   a quarter   none: these are for messages that are complete
 *   the rest    and of the half what no stream can need: for those that are further ahead
 *
 * A connection has of streams, and of the rest, what it leaves to others.  A message that would be one stream too many
 * waits before its beginning.  A stream without blocks for more is stalled: its readers report what they have read at
 * once, and not only in large steps, so each goes on by the blocks that come back.
 *
 * No block comes back of a message before it is posted: its sections are long, or a route worker needs it whole.  Many
 * of them could use up the rest, and none would end.  So only as many are gathered, beyond what each is sure of, as the
 * rest has room for at their longest; the others wait until one of these is posted or gone.  Again a connection leaves
 * some to others.
 *
 * Many connections could still hold all of these, with messages that never end.  So while others wait for more than
 * their own ones, one is refused of which the core has not heard for UNPOSTED_MS: its sections have not come.
 */
#include "workers/amqp/amqp.h"

#define GATHERED_BLOCKS (SCAN_LIMIT / ARENA_LARGE_BYTES + 2)   /* of a message: with more it is posted, or refused */

#define UNPOSTED_MS 5000               /* for the sections of a message to come, while others wait */

static const char unposted[] = "its sections have not come within 5 s, and other messages wait for their turn";

_Static_assert(ROUTE_WHOLE <= SCAN_LIMIT, "neither a scan nor a route worker waits for more");

/* Whether one more than `all` may be in use, of `most`, by who pays for a link and has `own` of them.  Who has used up
 * its part, and more than others have, waits for its own ones. */
static bool turn_fits(pump *p, const worker_link *k, uint32_t own, uint32_t all, uint32_t most)
{
    if (all < most && own <= part_of(k) * (most - all - 1)) return true;
    p->stream_wanted |= all >= most || own <= all / 2;
    return false;
}

/* Whether who pays for a link may have one more stream. */
PRIVATE bool stream_fits(pump *p, const worker_link *k)
{
    return turn_fits(p, k, k->payer->streams, p->streams, p->arena.view.large_count / 2 / STREAM_BLOCKS);
}

/* Whether a message that is not posted yet may have more than it is sure of; if so, it is gathered from now on. */
static bool stream_gathers(pump *p, in_delivery *s)
{
    block_use *use = s->link->payer;
    const uint32_t room = p->arena.view.large_count / 4 / GATHERED_BLOCKS;
    if (s->gathered) return true;
    if (!turn_fits(p, s->link, use->gathered, p->gathered, room ? room : 1)) return false;
    s->gathered = true;
    use->gathered++;
    p->gathered++;
    return true;
}

static void unposted_add(pump *p, worker_link *k)
{
    k->unposted_since = p->now_ms;
    k->unposted_next = NULL;
    k->unposted_previous = p->unposted_last;
    *(p->unposted_last ? &p->unposted_last->unposted_next : &p->unposted_first) = k;
    p->unposted_last = k;
}

static void unposted_remove(pump *p, worker_link *k)
{
    if (!k->unposted_since) return;
    k->unposted_since = 0;
    *(k->unposted_previous ? &k->unposted_previous->unposted_next : &p->unposted_first) = k->unposted_next;
    *(k->unposted_next ? &k->unposted_next->unposted_previous : &p->unposted_last) = k->unposted_previous;
}

/* It is posted, or gone: another one may be gathered. */
PRIVATE void stream_gathered(pump *p, in_delivery *s)
{
    unposted_remove(p, s->link);
    if (!s->gathered) return;
    s->gathered = false;
    s->link->payer->gathered--;
    p->gathered--;
    p->freed = true;
}

/* How many bytes a stream may take now, as far as blocks are concerned; 0: none. */
PRIVATE uint64_t stream_room(pump *p, in_delivery *s)
{
    const uint32_t *left = p->arena.free_count, *kept = s->link->payer->kept, part = part_of(s->link);
    const uint32_t complete = p->arena.view.large_count / 4, others = complete + STREAM_BLOCKS * p->streams;
    const uint64_t ahead = s->writer.written - (s->posted ? s->read_to : 0);
    if (!s->posted && ahead >= STREAM_SURE)
        return left[ARENA_LARGE] > complete && stream_gathers(p, s) ? UINT64_MAX : 0;
    if (s->posted && left[ARENA_LARGE] > others && kept[ARENA_LARGE] <= part * (left[ARENA_LARGE] - others))
        return UINT64_MAX;
    if (ahead >= STREAM_SURE) return 0;
    return left[ARENA_LARGE] || left[ARENA_SMALL] > p->arena.view.small_count / 2 ? STREAM_SURE - ahead : 0;
}

PRIVATE void stream_begin(pump *p, in_delivery *s)
{
    s->stream = true;
    s->link->payer->streams++;
    p->streams++;
    unposted_add(p, s->link);
}

/* No more of a message is to come, or nobody needs it: another one may be a stream. */
PRIVATE inline void stream_over(pump *p, in_delivery *s)
{
    if (!s->stream) return;
    stream_gathered(p, s);
    s->stream = false;
    s->link->payer->streams--;
    p->streams--;
    p->freed = true;
}

/* Ends a message of which the core has not heard, and reads on. */
static void unposted_refuse(pump *p, worker_link *k)
{
    in_delivery *s = k->current;
    const uint32_t before[2] = { p->arena.free_count[0], p->arena.free_count[1] };
    if (s->writer.head != ROUTERD_NIL) arena_free_chain(&p->arena, s->writer.head);
    intake_refuse(p, k, s->delivery, unposted, "amqp:resource-limit-exceeded");
    intake_discard(p, s, true);
    kept_change(p, k, before);
    intake_resume(p, k);
}

/* Whether a connection may not be read because of what waits of its other links. */
static bool others_fill(const worker_link *k)
{
    const lane_connection *l = k->conn->lane;
    return l && l->held - k->held_octets > l->held_most / 2;
}

/* Refuses a message that has kept others waiting.  To be called from time to time: while others wait, it looks at all
 * streams that have not been posted.  The time during which the router has no room for a sender does not count.  That
 * counts in which the sender is not read because it does not read itself. */
PRIVATE void streams_check(pump *p)
{
    if (p->stalled_first == ROUTERD_NIL) p->stream_wanted = false;
    if (!p->stream_wanted) return;
    for (worker_link *k = p->unposted_first; k; k = k->unposted_next) {
        const bool unread = !k->conn->reading && (p->paused || others_fill(k));
        if (k->stalled || unread || p->resting) { k->unposted_since = p->now_ms; continue; }
        if (p->now_ms < k->unposted_since + UNPOSTED_MS) continue;
        p->stream_wanted = false;
        unposted_refuse(p, k);
        return;
    }
}

PRIVATE inline void post_continue(pump *p, in_delivery *s, uint8_t flags)
{
    routerd_record *r = post_link(p, A_CONTINUE, s->link);
    r->delivery = s->core;
    r->peer = pool_handle(&p->ins, s);
    r->length = s->writer.written;
    r->flags = flags;
    s->grown = false;
}

/* Tell the core what has grown, once for all that arrived in this turn. */
PRIVATE inline void intake_flush(pump *p)
{
    for (uint32_t i = 0; i < p->grown_count; i++) {
        in_delivery *s = (in_delivery *) pool_find(&p->ins, p->grown[i]);
        if (s && s->grown) post_continue(p, s, 0);
    }
    p->grown_count = 0;
}

PRIVATE inline void intake_grown(pump *p, in_delivery *s)
{
    if (s->grown) return;
    if (p->grown_count == GROWN_BATCH) intake_flush(p);
    s->grown = true;
    p->grown[p->grown_count++] = pool_handle(&p->ins, s);
}

/* Tells the core, and those who read it, that a message has no blocks for more: what they have read is told at once. */
PRIVATE void stream_stalled(pump *p, in_delivery *s)
{
    if (chain_state(arena_content_of(&p->arena.view, s->writer.head)) == CONTENT_STALLED) return;
    chain_publish(&p->arena, &s->writer, CONTENT_STALLED);
    post_continue(p, s, F_STALLED);
}
