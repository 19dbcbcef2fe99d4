/* Parked links: a message to a text that nobody has looked up yet costs the control plane as much as hundreds of others
 * cost the core.  So its link stands aside, with all that comes on it, and those behind it in the worker's ring go on.
 *
 *   its message names an unknown text --> parked --its turn--> the text is asked for --> its records are handled
 *       --> in no list, or at the next unknown text parked again behind the others
 *
 * Connections take turns, and in those of one its links do: more links give none of them more of the core.  What a link
 * sends keeps its order.  A sender has no credit back for what is parked, which bounds its messages; that more has come
 * of the last one is one record, and states of deliveries are few at a time (workers/session/turns.c).
 *
 * Prohibited: handling a record of a parked link before those that stand aside.
 */
#include "core/forwarder/delivery/delivery.h"

#define PARK_FIRST 4u                  /* places for records in the beginning */
#define PARK_MORE 4096u                /* records beside four times the capacity: its worker has lost its mind */

/* Where the parked links of a link's connection are found; NULL: this one is alone. */
static core_parked **park_place(core_router *c, const core_link *l)
{
    core_parked ***all = &c->parked[l->worker];
    if (l->address || !l->connection || l->connection > CORE_MAX_CONNECTIONS) return NULL;
    if (!*all && !(*all = (core_parked **) calloc(CORE_MAX_CONNECTIONS, sizeof **all))) abort();
    return &(*all)[l->connection - 1];
}

static void parked_append(core_router *c, core_parked *g)
{
    g->next = NULL;
    g->prev = c->park_last;
    *(c->park_last ? &c->park_last->next : &c->park_first) = g;
    c->park_last = g;
}

static void parked_unlink(core_router *c, const core_parked *g)
{
    *(g->prev ? &g->prev->next : &c->park_first) = g->next;
    *(g->next ? &g->next->prev : &c->park_last) = g->prev;
}

static void parked_add(core_parked *g, core_link *l)
{
    core_park *p = l->park;
    p->with = g;
    p->next = NULL;
    p->prev = g->last;
    *(g->last ? &g->last->park->next : &g->first) = l;
    g->last = l;
}

static void parked_remove(core_parked *g, const core_link *l)
{
    core_link *next = l->park->next, *prev = l->park->prev;
    *(prev ? &prev->park->next : &g->first) = next;
    *(next ? &next->park->prev : &g->last) = prev;
}

/* Puts a link behind the others of its connection, and one that is alone there behind the other connections. */
static void park_append(core_router *c, core_link *l)
{
    core_parked **place = park_place(c, l), *g = place ? *place : NULL;
    if (!g) {
        if (!(g = (core_parked *) calloc(1, sizeof *g))) abort();
        g->place = place;
        if (place) *place = g;
        parked_append(c, g);
    }
    parked_add(g, l);
    c->park_count++;
}

/* Takes a link out of the list. */
PRIVATE void park_unlink(core_router *c, core_link *l)
{
    core_parked *g = l->park->with;
    parked_remove(g, l);
    c->park_count--;
    if (g->first) return;
    parked_unlink(c, g);
    if (g->place) *g->place = NULL;
    free(g);
}

/* A link has had its turn: its connection's next one comes after the other connections. */
PRIVATE void park_rotate(core_router *c, core_link *l)
{
    core_parked *g = l->park->with;
    parked_remove(g, l);
    parked_add(g, l);
    parked_unlink(c, g);
    parked_append(c, g);
}

/* The link whose turn is next. */
PRIVATE core_link *park_next(const core_router *c) { return c->park_first->first; }

/* Lets a record of a link stand aside. */
__attribute__((noinline, cold)) PRIVATE void park_put(core_router *c, core_link *l, const routerd_record *r)
{
    core_park *p = l->park;
    if (!p) {
        if (!(p = l->park = (core_park *) calloc(1, sizeof *p))) abort();  /* as for a delivery */
        park_append(c, l);
    }
    if (p->head && p->head >= p->count / 2) {
        p->count -= p->head;
        memmove(p->record, p->record + p->head, p->count * sizeof *p->record);
        p->head = 0;
    }
    if (p->count == p->room) {
        const uint32_t room = p->room ? p->room * 2 : PARK_FIRST;
        routerd_record *grown = (routerd_record *) realloc(p->record, room * sizeof *grown);
        if (!grown) abort();
        p->record = grown;
        p->room = room;
    }
    p->record[p->count++] = *r;
}

/* More has come of a message of which as much stands aside: its last record says so.  False: that is another. */
static bool park_grown(core_park *p, const routerd_record *r)
{
    routerd_record *last = &p->record[p->count - 1];
    if (r->type != A_CONTINUE || p->head == p->count || last->type != A_CONTINUE || last->peer != r->peer
        || last->flags & (F_COMPLETE | F_ABORTED)) return false;
    last->flags |= r->flags;
    if (r->length > last->length) last->length = r->length;
    return true;
}

/* The blocks of a message that is not complete stay its worker's, which still writes into them. */
static void park_refuse(core_router *c, core_link *l, const routerd_record *r)
{
    if (r->type != A_DELIVER || r->arena != l->worker || r->block >= arena_blocks(&c->arena[l->worker])) return;
    count_lost(c, r);
    if (!(r->flags & F_COMPLETE)) return;
    core_release(c, l->worker, r->block, NULL, 0);
}

/* Whether a worker's record is about what stands aside, and has gone there, too.  One about an earlier delivery must
 * not wait, also if it names it by its worker's handle: the worker gives the handle's place to another one. */
__attribute__((noinline, cold)) PRIVATE bool park_follows(core_router *c, uint32_t w, const routerd_record *r)
{
    const bool later = r->type == A_CONTINUE || (r->type == A_UPDATE && r->flags & F_IN);
    if (r->type != A_DELIVER && !(later && !r->delivery)) return false;
    core_link *l = link_find(c, w, r->link, r->link_gen);
    if (!l || l->outgoing || l->kind == LINK_ROUTED || !l->park) return false;
    if (later && by_peer_find(c, l, r->peer)) return false;
    if (park_grown(l->park, r)) return true;
    if (l->park->count - l->park->head < PARK_MORE + 4ull * l->capacity) {
        park_put(c, l, r);
    } else {
        count_bad(c);
        park_refuse(c, l, r);
    }
    return true;
}

/* All that stood aside is handled: the link, which is in no list, goes on. */
PRIVATE void park_end(core_link *l)
{
    free(l->park->record);
    free(l->park);
    l->park = NULL;
}

/* A link goes; what has not been handled is lost. */
PRIVATE void park_drop(core_router *c, core_link *l)
{
    if (l->outgoing || l->kind == LINK_ROUTED || !l->park) return;
    park_unlink(c, l);
    for (core_park *p = l->park; p->head < p->count; p->head++) park_refuse(c, l, &p->record[p->head]);
    park_end(l);
}
