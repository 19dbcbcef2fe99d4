/* Telling the many copies of a message, in portions, that more of it has come and what its sender has said of it.
 *
 *   tell_more, tell_state, tell_over --> in the list --tell_turn: a portion--> ... --> all are told
 *     --more, or another state, came meanwhile--> from the start again --else--> in no list
 *
 * So a sender of small pieces makes no more records than its receivers' workers read: whatever came since the last time
 * is told in one.  A copy's worker sees how much is there when it reads, and may be ahead of what it is told.  A copy
 * hears that there is more before it hears that its sender has settled.  Only copies for other routers that are still
 * short do not wait for their turn once their message is complete: the sender's next message would overtake them.
 *
 * While copies are told of the end, that counts as one copy of the message that is open and has read nothing: it holds
 * the incoming delivery, which the last copy's end would free.  A copy that is made meanwhile knows of the end.
 */
#include "core/forwarder/settlement/settlement.h"

#define TELL_TURN 2048u                /* copies told in a turn */

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

/* Whether what a sender does is told in portions.  Those who hear of the end hear of nothing else in another way. */
PRIVATE inline bool tell_wanted(const core_in *in)
{
    return in->copy_count > MANY_COPIES || (in->tell && in->tell->said);
}

static core_tell *tell_begin(core_router *c, core_in *in)
{
    core_tell *t = in->tell;
    if (t) return t;
    t = in->tell = (core_tell *) pool_take(&c->tells);
    if (!t) abort();           /* a copy that is not told would wait for ever */
    t->in = in;
    tell_append(c, t);
    return t;
}

/* A message is complete: its copies that were short go on.  They stand behind all others, and each is for another
 * connection to a router. */
static void tell_growing(core_router *c, core_in *in)
{
    in->flags &= (uint16_t) ~IN_GROWING;
    for (core_out *out = in->copies ? in->copies->sibling_prev : NULL, *before; out; out = before) {
        const bool last = out == in->copies || !(out->sibling_prev->flags & OUT_STREAM);
        before = last ? NULL : out->sibling_prev;
        if (out->flags & OUT_GROWING) stream_grown(c, out, false);
    }
}

/* Has all copies told that more has come; `stalled`: and that the sender takes its time. */
PRIVATE void tell_more(core_router *c, core_in *in, bool stalled)
{
    if (in->flags & IN_GROWING && in->flags & IN_COMPLETE) tell_growing(c, in);
    core_tell *t = tell_begin(c, in);
    if (t->at) t->again = true;
    else t->at = in->copies;
    t->stalled |= stalled;
}

/* Has all copies told a state that the sender has said, the last one if it says several.  While copies are being made
 * it is kept: those of the next portions are to hear it, too. */
PRIVATE void tell_state(core_router *c, core_in *in, uint32_t state, uint8_t extra)
{
    core_tell *t = tell_begin(c, in);
    if (t->said == SAID_END) return;
    t->state = state;
    t->extra = extra;
    t->said = SAID_STATE;
    if (t->to || in->fans) t->said_again = true;
    else t->to = in->copies;
}

/* Has all copies told that the sender has settled, aborted or gone. */
PRIVATE void tell_over(core_router *c, core_in *in, uint32_t state, uint8_t extra, bool quiet, bool aborted)
{
    core_tell *t = tell_begin(c, in);
    if (t->said != SAID_END) {
        in->copy_count++;
        in->open++;
        t->said = SAID_END;
        t->said_again = false;
        t->state = state;
        t->extra = extra;
        t->quiet = quiet;
        t->aborted = aborted;
        t->to = in->copies;
    } else {
        t->quiet &= quiet;
        if (aborted && !t->aborted) t->to = in->copies;
        t->aborted |= aborted;
    }
    if (!t->aborted) return;
    t->at = NULL;
    t->again = false;
}

/* A copy has left its message: it is not the next one any more. */
PRIVATE void tell_leave(const core_out *out)
{
    core_tell *t = out->in->tell;
    if (t->at == out) t->at = out->sibling;
    if (t->to == out) t->to = out->sibling;
}

PRIVATE inline void tell_copy(core_router *c, core_out *out, bool stalled)
{
    if (out->flags & OUT_GROWING) stream_grown(c, out, stalled);
    else out_post_continue(c, out, out->in->flags & IN_COMPLETE ? F_COMPLETE : 0);
}

static void tell_said(core_router *c, const core_tell *t, core_out *out)
{
    core_outcome o = outcome_plain(t->state, t->extra);
    if (t->said == SAID_STATE) {
        out_post_update(c, out, &o, 0);
        return;
    }
    if (t->aborted) out_abort(c, out);
    out_sender_settled(c, out, &o, t->quiet);
}

/* What has come meanwhile begins again. */
static void tell_again(core_tell *t)
{
    if (!t->at && t->again) {
        t->at = t->in->copies;
        t->again = false;
    }
    if (!t->to && t->said_again && !t->in->fans) {
        t->to = t->in->copies;
        t->said_again = false;
    }
}

/* Tells some copies of one message; returns how many, 0: a worker has to catch up, or copies are still being made. */
static uint32_t tell_portion(core_router *c, core_tell *t, uint32_t most)
{
    uint32_t told = 0;
    tell_again(t);
    for (core_out *out; told < most && (out = t->at ? t->at : t->to); told++) {
        if (worker_behind(c, out->link->worker)) break;
        if (t->at) {
            t->at = out->sibling;
            tell_copy(c, out, t->stalled);
        } else {
            t->to = out->sibling;
            tell_said(c, t, out);
        }
    }
    return told;
}

/* Where all has been told, the list loses the message. */
static void tell_next(core_router *c, core_tell *t)
{
    core_in *in = t->in;
    if (!t->to && !t->said_again && t->said == SAID_STATE) t->said = SAID_NOTHING;
    if (t->at || t->to || t->again || t->said_again) return;
    const bool over = t->said == SAID_END;
    tell_end(c, in);
    if (over) in_fanned(c, in);
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
        tell_next(c, t);
        if (round) break;
    }
    return TELL_TURN - left;
}
