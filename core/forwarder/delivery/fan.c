/* Fans: the copies of a message for an address with many receivers, made in portions, so that nobody waits for all of
 * them.
 *
 *   fan_begin --> behind the address's other fans --> first of its address --fan_turn: a portion--> ... --> over
 *
 * Messages of an address keep their order: while it has a fan, whatever comes for its receivers begins one behind it.
 * Addresses take turns.  A receiver that comes meanwhile has its place behind those still to be served.  A fan counts
 * as one copy of its message that is open and has read nothing: it holds the incoming delivery, its outcome and its
 * content.  A sender has its credit back when the last portion is made, as it would with few receivers.
 *
 * Prohibited: a second fan of an address that has begun; relying on the sender's link, which may be gone.
 */
#include "core/forwarder/delivery/delivery.h"
#include "core/forwarder/tables/planes.h"

#define FAN_AHEAD 6u                   /* receivers between the current one and the one that is fetched */

/* Whether an address's copies are made in portions. */
PRIVATE inline bool fan_wanted(const core_address *a) { return a->out_count > MANY_COPIES || a->fan; }

/* Makes a message's copies for the receivers here later.  `shut`: no copy for this edge connection; 0: none is shut. */
PRIVATE void fan_begin(core_router *c, core_in *in, core_address *a, uint8_t priority, uint32_t state, uint32_t shut,
                       core_provenance *provenance)
{
    core_text *text = NULL;
    /* an edge connection that comes later is as late for the message as one that comes when all copies are made */
    bool told = a->edges && transit_text(c, in->link, a, provenance, &text);
    if (link_inter_router(in->link)) provenance_read(c, in->link, provenance);
    core_fan *f = (core_fan *) pool_take(&c->fans);
    if (!f) abort();           /* as for a copy: forgetting one would lose it */
    f->in = in;
    f->text = text;
    f->state = state;
    f->shut = shut;
    f->priority = priority;
    f->origin = link_inter_router(in->link) ? provenance->origin : 0;
    f->own = provenance->own;
    f->untold = !told;
    in->fans++;
    in->copy_count++;
    if (a->fan) {
        a->fan_last->next = f;
        a->fan_last = f;
        return;
    }
    a->fan = a->fan_last = f;
    fan_append(c, a);
}

/* More copies of it are to be made, and some may be. */
__attribute__((noinline, cold)) PRIVATE void fan_leaves(core_router *c, core_in *in)
{
    if (in->copies) in->flags |= IN_SENT;
    if (!(in->flags & IN_COMPLETE) && in->peer) in_post(c, in, W_ACCEPTED);
}

/* The copies for one more address have been made; with the last one the delivery goes on as any does. */
static void fan_ends(core_router *c, core_in *in)
{
    core_link *l = in->link;
    if (!--in->fans) {
        if (!(in->flags & IN_SENT)) {
            deliver_failed(c, l, in);
            return;
        }
        if (l && l->kind != LINK_ENDPOINT) credit_due(c, l);
        in_forwarded(c, in);
    }
    in_fanned(c, in);
}

static void fan_copy(core_router *c, core_address *a, core_fan *f, core_link *to)
{
    core_in *in = f->in;
    core_out *out;
    if ((f->own && to->worker == c->workers) || (to->edge && (to->edge == f->shut || f->untold))) return;
    if (__builtin_expect(to->kind == LINK_EDGE, 0)) {
        core_provenance provenance = PROVENANCE_NONE;
        provenance.overridden = true;  /* what the message is told of its address is known already */
        provenance.text = f->text;
        out = deliver_between(c, in, a, to, f->priority, f->state, &provenance);
    } else {
        out = deliver_copy(c, in, to, f->priority, f->state, NULL);
        if (out && f->origin > 0) origin_count(to, f->origin);
    }
    if (!out) return;
    in->open++;
    f->made++;
}

/* All copies of the first fan of an address are made. */
static void fan_over(core_router *c, core_address *a)
{
    core_fan *f = a->fan;
    core_in *in = f->in;
    a->fan = f->next;
    a->deliveries += f->made;
    if (f->made) in->flags |= IN_SENT;
    if (f->text) text_done(c, f->text);
    pool_give(&c->fans, f);
    fan_ends(c, in);
}

/* Makes some copies for an address; returns how many receivers were served, 0: a worker has to catch up. */
static uint32_t fan_portion(core_router *c, core_address *a, uint32_t most)
{
    uint32_t served = 0;
    while (a->fan && served < most) {
        core_fan *f = a->fan;
        if (f->at >= a->out_count || f->in->flags & IN_ABORTED) {
            fan_over(c, a);
            served++;
            continue;
        }
        core_link *to = a->out[f->at];
        if (worker_behind(c, to->worker)) break;
        if (f->at + FAN_AHEAD < a->out_count) {
            __builtin_prefetch(a->out[f->at + FAN_AHEAD], 1);
            __builtin_prefetch((const uint8_t *) a->out[f->at + FAN_AHEAD] + 64, 1);
        }
        f->at++;
        served++;
        fan_copy(c, a, f, to);
    }
    return served;
}

PRIVATE void fan_append(core_router *c, core_address *a)
{
    a->fan_next = NULL;
    if (c->fan_last) c->fan_last->fan_next = a; else c->fan_first = a;
    c->fan_last = a;
    c->fan_count++;
}

static core_address *fan_take(core_router *c)
{
    core_address *a = c->fan_first;
    c->fan_first = a->fan_next;
    if (!c->fan_first) c->fan_last = NULL;
    c->fan_count--;
    return a;
}

/* Makes the copies of a turn; returns how many receivers were served. */
PRIVATE uint32_t fan_turn(core_router *c)
{
    uint32_t left = FAN_TURN;
    for (uint32_t addresses = c->fan_count; c->fan_first && left;) {
        core_address *a = fan_take(c);
        uint32_t served = fan_portion(c, a, left < FAN_PORTION ? left : FAN_PORTION);
        left -= served;
        if (a->fan) fan_append(c, a);
        if (!served && !--addresses) break;
    }
    return FAN_TURN - left;
}

/* A receiver that is already served leaves `place`: the last served one takes it, and the caller fills that one's.
 * Returns the place to fill. */
PRIVATE uint32_t fan_leave(core_address *a, uint32_t place)
{
    if (!a->fan || place >= a->fan->at) return place;
    uint32_t last = --a->fan->at;
    a->out[place] = a->out[last];
    a->out[place]->place = place;
    return last;
}

/* An address without receivers goes: so do its fans. */
PRIVATE void fan_drop(core_router *c, core_address *a)
{
    if (!a->fan) return;
    while (a->fan) fan_over(c, a);
    for (uint32_t n = c->fan_count; n; n--) {
        core_address *one = fan_take(c);
        if (one != a) fan_append(c, one);
    }
}
