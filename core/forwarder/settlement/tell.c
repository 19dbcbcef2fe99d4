/* Telling the many copies of a message that more of it has come, in portions.
 *
 *   tell_more --> in the list --tell_turn: a portion--> ... --> all are told --more came meanwhile--> from the start
 *                                                                      again --else--> in no list
 *
 * So a sender of small pieces makes no more records than its receivers' workers read: whatever came since the last time
 * is told in one.  A copy's worker sees how much is there when it reads, and may be ahead of what it is told.
 */
#include "core/forwarder/settlement/settlement.h"

#define TELL_TURN 2048u                /* copies told in a turn */
#define TELL_PORTION 512u              /* of one message before the next has its turn */

static void tell_append(core_router *c, core_tell *t)
{
    t->next = NULL;
    t->prev = c->tell_last;
    if (c->tell_last) c->tell_last->next = t; else c->tell_first = t;
    c->tell_last = t;
}

static void tell_unlink(core_router *c, core_tell *t)
{
    if (t->prev) t->prev->next = t->next; else c->tell_first = t->next;
    if (t->next) t->next->prev = t->prev; else c->tell_last = t->prev;
}

/* Nobody is to be told any more. */
PRIVATE void tell_end(core_router *c, core_in *in)
{
    if (!in->tell) return;
    tell_unlink(c, in->tell);
    pool_give(&c->tells, in->tell);
    in->tell = NULL;
}

/* Has all copies told that more has come; `stalled`: and that the sender takes its time. */
PRIVATE void tell_more(core_router *c, core_in *in, bool stalled)
{
    core_tell *t = in->tell;
    if (!t) {
        t = in->tell = (core_tell *) pool_take(&c->tells);
        if (!t) abort();       /* a copy that is not told would wait for ever */
        t->in = in;
        t->at = in->copies;
        tell_append(c, t);
    } else {
        t->again = true;
    }
    t->stalled |= stalled;
}

/* A copy has left its message: it is not the next one any more. */
PRIVATE void tell_leave(const core_out *out)
{
    core_tell *t = out->in->tell;
    if (t->at == out) t->at = out->sibling;
}

PRIVATE inline void tell_copy(core_router *c, core_out *out, bool stalled)
{
    if (out->flags & OUT_GROWING) stream_grown(c, out, stalled);
    else out_post_continue(c, out, out->in->flags & IN_COMPLETE ? F_COMPLETE : 0);
}

/* Tells some copies of one message; returns how many, 0: a worker has to catch up. */
static uint32_t tell_portion(core_router *c, core_tell *t, uint32_t most)
{
    uint32_t told = 0;
    for (; told < most && t->at; told++) {
        core_out *out = t->at;
        if (worker_behind(c, out->link->worker)) break;
        t->at = out->sibling;
        tell_copy(c, out, t->stalled);
    }
    return told;
}

/* Tells the copies of a turn; returns how many. */
PRIVATE uint32_t tell_turn(core_router *c)
{
    uint32_t left = TELL_TURN;
    for (core_tell *last = c->tell_last, *t; (t = c->tell_first) && left;) {
        const bool round = t == last;
        uint32_t told = tell_portion(c, t, left < TELL_PORTION ? left : TELL_PORTION);
        left -= told;
        tell_unlink(c, t);
        tell_append(c, t);
        if (!t->at && t->again) {
            t->at = t->in->copies;
            t->again = false;
        } else if (!t->at) {
            tell_end(c, t->in);
        }
        if (round) break;
    }
    return TELL_TURN - left;
}
