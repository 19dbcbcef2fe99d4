/* Posting work: into the worker's ring, or behind it into a private queue when the ring is full.
 *
 * Once something waits in the queue everything later goes behind it: a worker sees its work in the order it was posted.
 * core_publish() makes the work of a batch visible at once and wakes those who sleep.
 */
#include <unistd.h>

#include "core/forwarder/settlement/settlement.h"
#include "core/forwarder/tables/planes.h"

PRIVATE void queue_close(core_queue *q)
{
    for (; q->count; q->head++, q->count--) {
        routerd_record *r = &q->slot[q->head & (q->room - 1)];
        if (r->type == W_CONTROL && r->block == ROUTERD_NIL) free((void *) (uintptr_t) r->delivery);
    }
    free(q->slot);
    memset(q, 0, sizeof *q);
}

static routerd_record *queue_push(core_queue *q)
{
    if (q->count == q->room) {
        uint32_t room = q->room ? q->room * 2 : 256;
        routerd_record *grown = (routerd_record *) malloc(sizeof *grown * room);
        if (!grown) abort();   /* losing work would lose deliveries: die, and let the supervisor start over */
        for (uint32_t i = 0; i < q->count; i++) grown[i] = q->slot[(q->head + i) & (q->room - 1)];
        free(q->slot);
        q->slot = grown;
        q->room = room;
        q->head = 0;
    }
    return &q->slot[(q->head + q->count++) & (q->room - 1)];
}

/* Where a record goes that does not go into its worker's ring. */
__attribute__((noinline, cold)) static routerd_record *core_post_aside(core_router *c, uint32_t w)
{
    core_worker *k = &c->worker[w];
    if (k->gone) return w == c->workers ? queue_push(&k->overflow) : &c->scratch;
    return queue_push(&k->overflow);
}

/* The next work record of a worker, about a link of it, zeroed for the rest, already counted: fill it in before
 * core_publish(). */
static INLINED routerd_record *core_post(core_router *c, uint32_t w, uint8_t type, uint32_t link, uint32_t link_gen)
{
    core_worker *k = &c->worker[w];
    routerd_record *r = NULL;
    if (__builtin_expect(!(k->gone | k->overflow.count), 1) && (r = ring_slot(&k->work))) {
        ring_push(&k->work);
        c->dirty |= k->bit;
    } else {
        r = core_post_aside(c, w);
    }
    memset(r, 0, sizeof *r);
    r->type = type;
    r->link = link;
    r->link_gen = link_gen;
    r->block = ROUTERD_NIL;
    return r;
}

PRIVATE INLINED routerd_record *core_post_link(core_router *c, const core_link *l, uint8_t type)
{
    return core_post(c, l->worker, type, l->link, l->link_gen);
}

/* Writes a control payload that waited into a block of our arena.  False: there is still none. */
static bool control_place(core_router *c, uint32_t w, routerd_record *r)
{
    uint8_t *bytes = (uint8_t *) (uintptr_t) r->delivery;
    uint32_t block = payload_write(c, bytes, (uint32_t) r->length);
    if (block == ROUTERD_NIL) return false;
    free(bytes);
    r->delivery = 0;
    r->block = block;
    payload_track(c, (uint8_t) c->workers, block, (uint8_t) w);
    return true;
}

PRIVATE void core_flush(core_router *c, uint32_t w)
{
    core_worker *k = &c->worker[w];
    core_queue *q = &k->overflow;
    while (q->count) {
        routerd_record *from = &q->slot[q->head & (q->room - 1)];
        if (from->type == W_CONTROL && from->block == ROUTERD_NIL && !control_place(c, w, from)) break;
        routerd_record *to = ring_slot(&k->work);
        if (!to) break;
        *to = *from;
        ring_push(&k->work);
        q->head++;
        q->count--;
        c->dirty |= k->bit;
    }
}

GLUE uint64_t core_overflow(const core_router *c)
{
    uint64_t waiting = 0;
    for (uint32_t w = 0; w < c->active; w++) waiting += c->worker[w].overflow.count;
    return waiting;
}

GLUE inline void core_publish(core_router *c)
{
    /* the record of a delivery comes before anybody hears of it */
    if (__builtin_expect(c->flow != NULL, 0)) flow_publish(c->flow);
    uint64_t dirty = c->dirty, told = 0;
    c->dirty = 0;
    for (; dirty; dirty &= dirty - 1) {
        uint64_t bit = dirty & -dirty;
        const uint32_t w = (uint32_t) __builtin_ctzll(bit);
        if (__builtin_expect(c->flight != NULL, 0)) flight_work(c, w, &c->worker[w].work);
        if (ring_publish(&c->worker[w].work)) told |= bit;
    }
    if (!told) return;
    doorbell_published();
    for (; told; told &= told - 1) {
        core_worker *k = &c->worker[__builtin_ctzll(told)];
        if (doorbell_left(k->bell) && k->eventfd >= 0) {
            uint64_t one = 1;
            if (write(k->eventfd, &one, sizeof one) < 0) continue;   /* a full eventfd is already readable */
        }
    }
}

/* Returns content that nobody reads any more to its owner; with a link, `credit` replenishes it.  Without a block the
 * record is about the credit alone. */
GLUE inline void core_release(core_router *c, uint8_t arena, uint32_t block, const core_link *l, uint32_t credit)
{
    routerd_record *r = l ? core_post_link(c, l, W_RELEASE) : core_post(c, arena, W_RELEASE, ROUTERD_NIL, 0);
    r->arena = arena;
    r->block = block;
    r->credit = credit;
}

/* Returns a detail payload that is not passed on, or whose reader is done. */
PRIVATE inline void core_release_payload(core_router *c, uint8_t arena, uint32_t block)
{
    if (block == ROUTERD_NIL) return;
    if (arena < c->workers) core_release(c, arena, block, NULL, 0);
    else if (!core_constant(c, block)) arena_free_chain(&c->own, block);
}

/* Posts a control record.  A payload that finds no block waits in the queue, and everything behind it waits, too.
 * False: memory is used up. */
GLUE bool core_post_control(core_router *c, uint32_t w, uint32_t kind, const uint8_t *bytes, uint32_t size)
{
    core_worker *k = &c->worker[w];
    if (k->gone) return true;
    uint32_t block = k->overflow.count ? ROUTERD_NIL : payload_write(c, bytes, size);
    routerd_record *r;
    if (block != ROUTERD_NIL) {
        r = core_post(c, w, W_CONTROL, ROUTERD_NIL, 0);
        r->block = block;
        payload_track(c, (uint8_t) c->workers, block, (uint8_t) w);
    } else {
        uint8_t *copy = (uint8_t *) malloc(size ? size : 1);
        if (!copy) return false;
        memcpy(copy, bytes, size);
        r = queue_push(&k->overflow);
        memset(r, 0, sizeof *r);
        r->type = W_CONTROL;
        r->link = ROUTERD_NIL;
        r->block = ROUTERD_NIL;
        r->delivery = (uint64_t) (uintptr_t) copy;
        r->length = size;
    }
    r->arena = (uint8_t) c->workers;
    r->state = kind;
    r->length = size;
    return true;
}
