/* Messages that go to another router while they are still coming in: each on a link of its own, so that none holds up
 * others.
 *
 *   short --complete--> it goes over the link of its priority, in its sender's order
 *     |
 *     +--long, or its worker has no blocks for the rest--> a stream
 *
 *   idle --a stream begins--> carrying --it is over--> idle
 *
 * Copies of messages that are still short stand on `growing`; when no link is idle, those of streams on `waiting`.
 * Both are links to nobody: what is posted to them is lost, but for what its sender says of a message with one copy.
 * The link that comes next begins with the oldest copy that waits, as it is by then.
 */
#include "core/forwarder/settlement/settlement.h"

/* Octets of an incomplete message that make it a stream.  Fewer may be the beginning of a message that came in two
 * reads.  Its worker goes on to read so many while nobody reads them. */
#define STREAM_LEAST (128u << 10)

static core_link *stream_free_link(core_router *c, core_streams *s)
{
    core_link *l = s->idle;
    if (!l) {
        c->network.thirsty = true;
        return s->waiting;
    }
    s->idle = l->next;
    s->idle_count--;
    l->next = NULL;
    return l;
}

/* Returns the link for a message that is still coming in, on a connection that has links for streams; NULL: it has
 * none.  `known`: an earlier router says that it is a stream. */
PRIVATE core_link *stream_link(core_router *c, uint64_t streams, const core_in *in, bool known)
{
    core_streams *s = (core_streams *) pool_find(&c->streams, streams);
    if (!s) return NULL;
    known |= in->flags & IN_COMPLETE || in->length >= STREAM_LEAST || in_stalled(c, in);
    return known ? stream_free_link(c, s) : s->growing;
}

/* Keeps what the W_SEND of a copy says, which may be posted later; `to`: its link if it is no stream. */
PRIVATE void stream_note(core_router *c, core_out *out, const core_link *to, uint8_t priority, uint32_t state)
{
    const core_streams *k = (core_streams *) pool_find(&c->streams, out->link->streams);
    const bool growing = k && out->link == k->growing;
    out->flags |= growing ? OUT_STREAM | OUT_GROWING : OUT_STREAM;
    if (growing) {
        out->in->flags |= IN_GROWING;
        in_turn_copies(out->in);
    }
    out->priority = priority;
    out->routed = (uint8_t) state;
    out->ordinary = pool_handle(to);
}

/* Takes what the sender has said of a message whose only copy waits. */
static core_outcome stream_take_said(core_in *in)
{
    core_outcome said = {.state = in->state, .extra = in->extra, .detail = in->detail, .arena = in->detail_arena};
    in->state = 0;
    in->detail = ROUTERD_NIL;
    return said;
}

/* Keeps what a sender says of a message whose only copy waits: the copy's first transfer says it, too.  False: there
 * are several copies, or it does not wait. */
PRIVATE bool stream_said(core_router *c, const core_out *out, const core_outcome *o)
{
    core_in *in = out->in;
    if (__builtin_expect(!stream_waits(out), 1) || in->flags & IN_MULTICAST) return false;
    if (!o->state) {
        core_release_payload(c, o->arena, o->detail);
        return true;
    }
    stream_forget(c, in);
    in->state = o->state;
    in->extra = o->extra;
    in->detail = o->detail;
    in->detail_arena = o->arena;
    return true;
}

/* A copy is over that may have waited. */
PRIVATE void stream_forget(core_router *c, core_in *in)
{
    if (in->flags & IN_MULTICAST) return;
    core_outcome said = stream_take_said(in);
    core_release_payload(c, said.arena, said.detail);
}

/* Sends a copy that no worker has heard of over a link. */
static void stream_begin(core_router *c, core_out *out, core_link *l)
{
    core_in *in = out->in;
    link_drop_out(out);
    link_add_out(l, out);
    l->deliveries++;
    l->counts.last = c->now;
    routerd_record *s = core_post_link(c, l, W_SEND);
    s->flags = (uint8_t) ((out->flags & OUT_SETTLED ? F_SETTLED : 0) | (in->flags & IN_COMPLETE ? F_COMPLETE : 0));
    s->priority = out->priority;
    s->arena = in->arena;
    s->block = in->block;
    s->peer = pool_handle(out);
    s->length = in->length;
    s->state = out->routed;
    if (out->text) s->extra = (uint64_t) out->text->block + 1;
    if (in->flags & IN_MULTICAST || !in->state) return;
    core_outcome said = stream_take_said(in);
    out_post_update(c, out, &said, 0);
}

/* More has come of a message that was short: it is complete, it is a stream now, or it stays as it is.  Its sender's
 * next message finds it on its way. */
PRIVATE void stream_grown(core_router *c, core_out *out, bool stalled)
{
    const core_in *in = out->in;
    bool complete = in->flags & IN_COMPLETE;
    core_streams *k = (core_streams *) pool_find(&c->streams, out->link->streams);
    if (!k || !(complete || stalled || in->length >= STREAM_LEAST)) return;
    out->flags &= (uint8_t) ~OUT_GROWING;
    core_link *to = complete ? (core_link *) pool_find(&c->links, out->ordinary) : NULL;
    if (to && !to->leaving) {
        out->flags &= (uint8_t) ~OUT_STREAM;
        out->routed &= (uint8_t) ~SEND_STREAM;
    } else {
        to = stream_free_link(c, k);
    }
    if (to != k->waiting) { stream_begin(c, out, to); return; }
    link_drop_out(out);
    link_add_out(to, out);
}

/* Gives a free link to the stream that has waited longest, or keeps it for the next one.  A stream that is aborted is
 * left to whoever ends its message's copies, and may be on its way through them. */
PRIVATE void stream_idle(core_router *c, core_link *l)
{
    core_streams *k = (core_streams *) pool_find(&c->streams, l->streams);
    if (!k) return;
    core_out *out = k->waiting->outs;
    while (out && out->in->flags & IN_ABORTED) out = out->next;
    if (out) {
        stream_begin(c, out, l);
        return;
    }
    l->next = k->idle;
    k->idle = l;
    k->idle_count++;
}

GLUE void stream_add_link(core_router *c, core_link *l, uint64_t streams)
{
    core_streams *k = (core_streams *) pool_find(&c->streams, streams);
    l->streams = streams;
    if (!k) return;
    k->count++;
    stream_idle(c, l);
}

PRIVATE void stream_drop_link(core_router *c, core_link *l)
{
    core_streams *k = (core_streams *) pool_find(&c->streams, l->streams);
    if (!k) return;
    k->count--;
    for (core_link **at = &k->idle; *at; at = &(*at)->next) {
        if (*at != l) continue;
        *at = l->next;
        k->idle_count--;
        return;
    }
}

/* Makes the links to nobody.  False: memory is used up. */
PRIVATE bool stream_begin_waiting(const core_router *c, core_streams *k)
{
    core_link *nobody = (core_link *) calloc(2, sizeof *nobody);
    if (!nobody) return false;
    k->waiting = &nobody[0];
    k->growing = &nobody[1];
    *k->waiting = *k->growing = (core_link) {
        .link = ROUTERD_NIL, .worker = (uint8_t) (c->workers + 1), .outgoing = true, .kind = LINK_STREAM,
        .leaving = true, .capacity = UINT32_MAX, .streams = pool_handle(k),
    };
    return true;
}

/* NULL: memory is used up. */
GLUE core_streams *stream_open(core_router *c)
{
    core_streams *k = (core_streams *) pool_take(&c->streams);
    if (!k || stream_begin_waiting(c, k)) return k;
    pool_give(&c->streams, k);
    return NULL;
}

static void stream_release(core_router *c, const core_link *nobody)
{
    while (nobody->outs) {
        nobody->outs->flags |= OUT_UNSENT;
        out_finish(c, nobody->outs, &OUTCOME_RELEASED);
    }
}

/* Releases what nobody has begun to send when the connection is gone. */
GLUE void stream_close(core_router *c, core_streams *k)
{
    stream_release(c, k->waiting);
    stream_release(c, k->growing);
    free(k->waiting);
    pool_give(&c->streams, k);
}
