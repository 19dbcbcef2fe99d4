/* Which addresses are the busiest: counted in passes over all of them, a chunk at a time between two turns of the loop.
 *
 * No message pays for it.  A pass adds what each address has forwarded since the pass before to its score, which halves
 * in about five passes: an address that was busy yesterday makes room for one that is busy now.  Every delivery belongs
 * to a row, or to the rest while its address had none; neither number ever shrinks.
 *
 *   idle --busiest_begin--> passing --busiest_step: more to look at--> passing --busiest_step: end--> idle
 *
 * Prohibited: keeping a pointer to an address between two steps; it may be freed.  A row has the handle.
 */
#include "core/forwarder/inspection/inspection.h"
#include "core/forwarder/settlement/settlement.h"

#define BUSIEST_CHUNK 1024u            /* addresses looked at in one step: about 50 us */
#define BUSIEST_DECAY 8u               /* a score loses this part of itself with every pass */

GLUE void busiest_open(const core_router *c, core_busiest *b)
{
    *b = (core_busiest) {.begin = count_forwarded(c)};
}

GLUE void busiest_begin(core_busiest *b)
{
    b->count = b->least = b->at = 0;
    b->passing = true;
}

static void busiest_find_least(core_busiest *b)
{
    b->least = 0;
    for (uint32_t i = 1; i < b->count; i++)
        if (b->row[i].score < b->row[b->least].score) b->least = i;
}

static void busiest_poll(core_busiest *b, core_address *a)
{
    uint64_t delta = a->deliveries - a->counted;
    a->counted = a->deliveries;
    a->score += (delta * BUSIEST_DECAY) - a->score / BUSIEST_DECAY;
    if (a->unlisted) return;
    if (b->count < BUSIEST_ROWS) b->least = b->count++;
    else if (a->score <= b->row[b->least].score) return;
    b->row[b->least] = (core_busiest_row) {pool_handle(a), a->score, delta};
    if (b->count == BUSIEST_ROWS) busiest_find_least(b);
}

/* What becomes of an address's copies counts for its row, or for the rest. */
static void busiest_mark(const core_router *c, const core_busiest *b, bool listed)
{
    for (uint32_t i = 0; i < b->shown_count; i++) {
        core_address *a = (core_address *) pool_find(&c->addresses, b->shown[i]);
        if (a) a->listed = listed;
    }
}

static void busiest_show(const core_router *c, core_busiest *b)
{
    busiest_mark(c, b, false);
    b->shown_count = b->count;
    for (uint32_t i = 0; i < b->count; i++) b->shown[i] = b->row[i].handle;
    busiest_mark(c, b, true);
}

/* True: the pass is over, and the rows are those of now. */
GLUE bool busiest_step(const core_router *c, core_busiest *b)
{
    for (uint32_t n = 0; n < BUSIEST_CHUNK && b->at < pool_size(&c->addresses); n++) {
        pool_node *node = pool_at(&c->addresses, b->at++);
        if (pool_live(node)) busiest_poll(b, (core_address *) node);
    }
    if (b->at < pool_size(&c->addresses)) return false;
    for (uint32_t i = 0; i < b->count; i++) b->in_rows += b->row[i].delta;
    /* what was forwarded while the pass was under way is in the sum and not yet in a row: it may seem to be less than
     * last time, and is not */
    uint64_t all = count_forwarded(c) - b->begin;
    if (all > b->in_rows && all - b->in_rows > b->rest) b->rest = all - b->in_rows;
    b->passing = false;
    busiest_show(c, b);
    return true;
}
