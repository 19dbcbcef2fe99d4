/* Parked links: a message to a text that nobody has looked up yet costs the control plane as much as hundreds of others
 * cost the core.  So its link stands aside, with all that comes on it, and those behind it in the worker's ring go on.
 *
 *   its message names an unknown text --> parked --its turn--> the text is asked for --> its records are handled
 *       --> in no list, or at the next unknown text parked again behind the others
 *
 * What a link sends keeps its order.  A sender has no credit back for what is parked, which bounds its messages; that
 * more has come of the last one is one record, and states of deliveries are few at a time (workers/session/turns.c).
 *
 * Prohibited: handling a record of a parked link before those that stand aside.
 */
#include "core/forwarder/delivery/delivery.h"

#define PARK_FIRST 4u                  /* places for records in the beginning */
#define PARK_MORE 4096u                /* records beside four times the capacity: its worker has lost its mind */

/* Puts a link behind the others. */
PRIVATE void park_append(core_router *c, core_link *l)
{
    l->park->next = NULL;
    l->park->prev = c->park_last;
    if (c->park_last) c->park_last->park->next = l; else c->park_first = l;
    c->park_last = l;
    c->park_count++;
}

/* Takes a link out of the list. */
PRIVATE void park_unlink(core_router *c, core_link *l)
{
    core_link *next = l->park->next, *prev = l->park->prev;
    if (prev) prev->park->next = next; else c->park_first = next;
    if (next) next->park->prev = prev; else c->park_last = prev;
    c->park_count--;
}

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

/* Whether a worker's record is about what stands aside, and has gone there, too.  Records about earlier deliveries name
 * them by the core's handle. */
__attribute__((noinline, cold)) PRIVATE bool park_follows(core_router *c, uint32_t w, const routerd_record *r)
{
    const bool later = r->type == A_CONTINUE || (r->type == A_UPDATE && r->flags & F_IN);
    if (r->type != A_DELIVER && !(later && !r->delivery)) return false;
    core_link *l = link_find(c, w, r->link, r->link_gen);
    if (!l || l->outgoing || l->kind == LINK_ROUTED || !l->park) return false;
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
