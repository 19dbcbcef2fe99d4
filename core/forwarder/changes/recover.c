/* Links made and removed, and what is left of a dead worker taken back. */
#include "core/forwarder/changes/changes.h"

#define OUT_KEPT 64u                   /* links for which an address keeps room */

/* ---- links ---- */

static bool link_table_grow(core_worker *k, uint32_t link)
{
    uint32_t room = k->link_room ? k->link_room : 64;
    while (room <= link) room *= 2;
    core_link **grown = (core_link **) realloc(k->link, sizeof *grown * room);
    if (!grown) return false;
    memset(grown + k->link_room, 0, sizeof *grown * (room - k->link_room));
    k->link = grown;
    k->link_room = room;
    return true;
}

static void address_out_less(core_address *a)
{
    core_link **less = (core_link **) realloc(a->out, sizeof *less * (a->out_room / 2));
    if (!less) return;
    a->out = less;
    a->out_room /= 2;
}

/* The last one takes its place, unless fan_leave has given it one already. */
static void address_drop_out(core_address *a, core_link *l)
{
    uint32_t at = fan_leave(a, l->place);
    core_link *last = a->out[--a->out_count];
    if (at < a->out_count) {
        a->out[at] = last;
        last->place = at;
    }
    a->edges -= l->edge != 0;
    ranks_remove(a, l);
    if (a->out_room > OUT_KEPT && a->out_count < a->out_room / 4) address_out_less(a);
}

static bool address_out_room(core_address *a)
{
    if (a->out_count < a->out_room) return true;
    uint32_t room = a->out_room ? a->out_room * 2 : 4;
    core_link **grown = (core_link **) realloc(a->out, sizeof *grown * room);
    if (!grown) return false;
    a->out = grown;
    a->out_room = room;
    return true;
}

static bool address_add_out(core_address *a, core_link *l)
{
    if (!address_out_room(a)) return false;
    l->place = a->out_count;
    a->out[a->out_count++] = l;
    a->edges += l->edge != 0;
    ranks_add(a, l);
    return true;
}

GLUE void address_free(core_router *c, core_address *a)
{
    fan_drop(c, a);
    if (a->fallback) a->fallback->fallback_for = NULL;
    if (a->fallback_for) address_set_fallback(c, a->fallback_for, NULL);
    free(a->out);
    free(a->ranks);
    free(a->outstanding);
    text_disown(c, a->text);
    a->out = NULL;
    a->ranks = NULL;
    pool_give(&c->addresses, a);
}

/* A link in its worker's table and in no list yet, with what `terms` say.  NULL: the index is taken or beyond all
 * bounds, or memory is used up. */
GLUE core_link *link_place(core_router *c, uint32_t w, uint32_t link, uint32_t generation, const core_link *terms)
{
    core_worker *k = &c->worker[w];
    if (link >= CORE_MAX_LINKS) return NULL;
    if (link >= k->link_room && !link_table_grow(k, link)) return NULL;
    if (k->link[link]) return NULL;
    core_link *l = (core_link *) pool_take(&c->links);
    if (!l) return NULL;
    const pool_node node = l->node;
    *l = *terms;
    l->node = node;
    l->link = link;
    l->link_gen = generation;
    l->worker = (uint8_t) w;
    if (l->outgoing) {
        l->rank = 0;
        l->growth = CREDIT_FIXED;      /* it has no `withheld`: `rank` stands there */
    }
    k->link[link] = l;
    return l;
}

static void link_unplace(core_router *c, core_link *l)
{
    c->worker[l->worker].link[l->link] = NULL;
    pool_give(&c->links, l);
}

/* Sets the credit of a new incoming link: what its sender has from an earlier core (below 0: it overran).  The rest is
 * granted at once if its messages lead anywhere. */
GLUE void link_credit(core_router *c, core_link *l, int64_t granted)
{
    credit_begin(l, granted);
    credit_grant(c, l);
}

/* NULL as of link_place(). */
GLUE core_link *link_add(core_router *c, uint32_t w, uint32_t link, uint32_t generation, const core_link *terms)
{
    core_address *a = terms->address;
    bool outgoing = terms->outgoing;
    core_link *l = outgoing && !a ? NULL : link_place(c, w, link, generation, terms);
    if (!l) return NULL;
    l->to_table = terms->to_table && a && a->routes && !outgoing;
    if (l->edge) l->kind = LINK_EDGE;
    if (outgoing && !address_add_out(a, l)) {
        link_unplace(c, l);
        return NULL;
    }
    if (outgoing) {
        if (a->out_count == 1) {
            credit_grant_all(c, a);
            address_way_changed(c, a);
        }
        return l;
    }
    if (a) {
        l->next = a->in_links;
        if (l->next) l->next->prev = l;
        a->in_links = l;
        a->in_count++;
    }
    link_credit(c, l, terms->granted);
    return l;
}

/* Lets an outgoing link receive from another address from now on.  False: memory is used up. */
GLUE bool link_move(core_router *c, core_link *l, core_address *a)
{
    core_address *old = l->address;
    if (old == a) return true;
    if (!address_out_room(a)) return false;
    address_drop_out(old, l);
    address_add_out(a, l);
    l->address = a;
    if (!old->out_count) address_way_changed(c, old);
    if (a->out_count == 1) {
        credit_grant_all(c, a);
        address_way_changed(c, a);
    }
    return true;
}

static void link_orphan_ins(core_router *c, core_link *l)
{
    core_outcome none = outcome_plain(0, 0);
    while (l->ins) {
        core_in *in = l->ins;
        link_drop_in(in);
        in->peer = 0;
        if (!(in->flags & (IN_COMPLETE | IN_ABORTED))) in_abort(c, in);
        in_sender_settled(c, in, none, true);
    }
}

/* `failed`: its worker died, and what was on its way may have been sent.  Otherwise the worker has answered for all it
 * had taken, and the rest was not sent.  An outcome that the receiver told stands. */
static void link_fail_outs(core_router *c, core_link *l, bool failed, uint32_t most)
{
    for (; most && l->outs; most--) {
        core_out *out = l->outs;
        core_outcome o = failed ? outcome_plain(S_MODIFIED, D_FAILED) : outcome_plain(S_RELEASED, 0);
        if (out->state) o = outcome_plain(out->state, D_TOLD);
        else out->flags |= failed ? OUT_IN_DOUBT : OUT_UNSENT;
        out_finish(c, out, &o);
    }
}

/* A link goes: nothing is sent to it any more. */
static void link_leaves(core_router *c, core_link *l)
{
    core_address *a = l->address;
    l->leaving = true;
    pair_part(l);
    park_drop(c, l);
    if (link_inter_router(l)) neighbour_drop_link(c, l);
    if (!l->outgoing || !a) return;
    address_drop_out(a, l);
    if (!a->out_count) address_way_changed(c, a);
}

/* Ends some deliveries of a receiver's link that its worker has lost.  False: link_remove() does that for those that
 * are left, and is to be the next thing that happens to it.  A link for streams has one, and `leaving` says something
 * else of it. */
GLUE bool link_thin(core_router *c, core_link *l)
{
    if (!l->outgoing || l->kind == LINK_STREAM || l->count <= LEAVE_PORTION) return false;
    if (!l->leaving) {
        link_leaves(c, l);
        if (l->address) l->address->holds++;
    }
    link_fail_outs(c, l, false, LEAVE_PORTION);
    return true;
}

GLUE void link_remove(core_router *c, core_link *l, bool failed)
{
    core_address *a = l->address;
    if (!link_left(l)) link_leaves(c, l);
    else if (a) a->holds--;
    if (l->outgoing) {
        link_fail_outs(c, l, failed, UINT32_MAX);
        outcomes_leave(c, l);
    } else {
        link_orphan_ins(c, l);
        if (a) {
            if (l->prev) l->prev->next = l->next; else a->in_links = l->next;
            if (l->next) l->next->prev = l->prev;
            a->in_count--;
        }
    }
    if (a && !a->out_count && !a->in_count && !mask_any(&a->remotes)) alias_drop_all(c, a);
    if (!l->outgoing) text_disown(c, l->text);
    free(l->memo);         /* or its origins */
    link_unplace(c, l);
}

/* One end of a link that is routed through; `far`: at another router.  NULL as of link_add(). */
GLUE core_link *link_add_routed(core_router *c, uint32_t w, uint32_t link, uint32_t generation, bool outgoing, bool far)
{
    return link_place(c, w, link, generation, &(core_link) {.outgoing = outgoing, .kind = LINK_ROUTED, .far = far});
}

/* ---- a dead worker ---- */

/* Gives back what a dead worker was given to read.  Payloads of its own are free with its arena. */
static void reclaim_payloads(core_router *c, uint32_t w)
{
    for (uint32_t arena = 0; arena <= c->workers; arena++) {
        const uint8_t *readers = c->payloads.reader[arena], *at = readers;
        if (!readers) continue;
        const uint8_t *end = readers + arena_blocks(&c->arena[arena]);
        for (; (at = (const uint8_t *) memchr(at, (int) w + 1, (size_t) (end - at))); at++) {
            payload_forget(c, (uint8_t) arena, (uint32_t) (at - readers));
            if (arena != w) core_release_payload(c, (uint8_t) arena, (uint32_t) (at - readers));
        }
    }
}

static void reclaim_mark(core_router *c, uint32_t w)
{
    const arena_view *v = &c->arena[w];
    arena_mark_none(v);
    uint32_t at = 0;
    for (core_in *in; (in = (core_in *) pool_next(&c->ins, &at));) {
        if (in->arena == w) arena_mark_chain(v, in->block);
        if (in->detail != ROUTERD_NIL && in->detail_arena == w) arena_mark_chain(v, in->detail);
    }
    const uint8_t *readers = c->payloads.reader[w];
    for (uint32_t block = 0; readers && block < arena_blocks(v); block++)
        if (readers[block]) arena_mark_chain(v, block);
}

/* A worker is dead and its action ring has been read to the end: remove its links, settle what was on its way to it,
 * mark the blocks that others still read, and leave empty rings to its successor. */
GLUE void core_reclaim(core_router *c, uint32_t w)
{
    core_worker *k = &c->worker[w];
    k->gone = true;
    for (uint32_t i = 0; i < k->link_room; i++)
        if (k->link[i]) link_remove(c, k->link[i], true);
    reclaim_payloads(c, w);
    queue_close(&k->overflow);
    c->dirty &= ~(1ull << w);
    ring_discard(&k->work);
    /* its producer is dead and may have spoiled the index: the successor starts behind what was read */
    atomic_store_explicit(&k->actions.ring->head, k->actions.next, memory_order_release);
    atomic_store_explicit(&k->actions.ring->tail, k->actions.next, memory_order_release);
    k->actions.head_seen = k->actions.next;
    reclaim_mark(c, w);
    k->gone = false;
}

/* ---- places ---- */

static void places_count(core_router *c)
{
    uint32_t active = c->workers;
    while (active && c->worker[active - 1].gone) active--;
    c->active = active;
    if (c->turn >= active) c->turn = 0;
}

/* Empties the place of a dead worker without a successor; what comes back to it is forgotten with its arena. */
GLUE void place_empty(core_router *c, uint32_t w)
{
    core_reclaim(c, w);
    c->worker[w].gone = true;
    places_count(c);
}

/* Prepares a place for a worker, which gets the blocks that nobody reads any more, as after a death. */
GLUE void place_fill(core_router *c, uint32_t w)
{
    core_reclaim(c, w);
    places_count(c);
}
