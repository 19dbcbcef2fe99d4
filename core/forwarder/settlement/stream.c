/* Messages that go to another router while they are still coming in: each on a link of its own, so that none holds up
 * others.
 *
 *   idle --a stream begins--> carrying --it is over--> idle
 *
 * When no link is idle the stream's copy stands on `waiting`, which is a link to nobody: what is posted to it is lost.
 * The link that comes next begins with the oldest copy there, as it is by then.
 */
#include "core/forwarder/settlement/settlement.h"

/* Returns the link for a stream on a connection that has links for streams; NULL: it has none. */
PRIVATE inline core_link *stream_link(core_router *c, uint64_t streams)
{
    core_streams *s = (core_streams *) pool_find(&c->streams, streams);
    if (!s) return NULL;
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

/* Keeps what the W_SEND of a copy says, which may be posted later. */
PRIVATE inline void stream_note(core_out *out, uint8_t priority, uint32_t state)
{
    out->flags |= OUT_STREAM;
    out->priority = priority;
    out->routed = (uint8_t) state;
}

static void stream_begin(core_router *c, core_out *out, core_link *l)
{
    const core_in *in = out->in;
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
}

/* Gives a free link to the stream that has waited longest, or keeps it for the next one. */
PRIVATE void stream_idle(core_router *c, core_link *l)
{
    core_streams *k = (core_streams *) pool_find(&c->streams, l->streams);
    if (!k) return;
    while (k->waiting->outs) {
        core_out *out = k->waiting->outs;
        if (!(out->in->flags & IN_ABORTED)) {
            stream_begin(c, out, l);
            return;
        }
        out_finish(c, out, &OUTCOME_NONE);
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

/* NULL: memory is used up. */
GLUE core_streams *stream_open(core_router *c)
{
    core_streams *k = (core_streams *) pool_take(&c->streams);
    if (!k) return NULL;
    k->waiting = (core_link *) calloc(1, sizeof *k->waiting);
    if (!k->waiting) {
        pool_give(&c->streams, k);
        return NULL;
    }
    *k->waiting = (core_link) {
        .link = ROUTERD_NIL, .worker = (uint8_t) (c->workers + 1), .outgoing = true, .kind = LINK_STREAM,
        .leaving = true, .capacity = UINT32_MAX,
    };
    return k;
}

/* Releases what still waits for a link when the connection is gone. */
GLUE void stream_close(core_router *c, core_streams *k)
{
    while (k->waiting->outs) out_finish(c, k->waiting->outs, &OUTCOME_RELEASED);
    free(k->waiting);
    pool_give(&c->streams, k);
}
