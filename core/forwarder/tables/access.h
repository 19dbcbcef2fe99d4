/* What the forwarder does with its tables: finds what a record names, links entries, reads what workers wrote. */
#ifndef ROUTERD_CORE_ACCESS_H
#define ROUTERD_CORE_ACCESS_H

#include "core/forwarder/tables/hash.h"
#include "core/forwarder/tables/tables.h"
#include "shm/memory/layout.h"
#include "shm/unity.h"

#ifndef ALIAS_BYTES
#define ALIAS_BYTES (128ull << 20)     /* what spellings may cost: some 200,000 of common length */
#endif
#ifndef WORKER_BEHIND
#define WORKER_BEHIND 4096u            /* records that wait for a worker beside its full ring */
#define MANY_COPIES 64u                /* beyond so many, what all get is made in portions */
#endif
#ifndef FAN_PORTION
#define FAN_TURN 2048u                 /* copies made in a turn, for all addresses: about 0.2 ms */
#define FAN_PORTION 512u               /* copies for one address, before the next has its turn */
#define TELL_PORTION 512u              /* copies of one message told of its end, before the next has its turn */
#define LEAVE_PORTION 2048u            /* deliveries of a link that goes, ended before others have their turn: 0.3 ms */
#endif
#define ALIAS_IDLE_ROOM 32u            /* addresses that one step of the search for idle spellings may find */
#define ALIAS_PHASES 0xfffffff0u       /* scopes that stand for the phases 1 to 9 of an address, behind this one */
#define CONTENT_HOPS 4096u             /* blocks walked to find `to`: 2 MiB of annotations in small blocks */
#define CONTENT_CONTROL_MAX (1u << 20) /* bytes of a control payload */

static inline bool core_constant(const core_router *c, uint32_t block)
{
    for (int why = ROUTE_NO_ADDRESS; why < CORE_ROUTES; why++)
        if (block == c->reason[why]) return true;
    return false;
}

/* Between interior routers, all of whose messages come over such links. */
static inline bool link_inter_router(const core_link *l) { return l->kind - 1u < 3u; }

/* Whether it is in no list any more, and its deliveries are being ended in portions (recover.c). */
static inline bool link_left(const core_link *l) { return l->leaving && l->kind != LINK_STREAM; }

/* ---- finding what a record names ---- */

static INLINED core_link *link_find(const core_router *c, uint32_t w, uint32_t link, uint32_t generation)
{
    const core_worker *k = &c->worker[w];
    core_link *l = link < k->link_room ? k->link[link] : NULL;
    return l && l->link_gen == generation ? l : NULL;
}

/* ---- receivers by how busy they are: rank.c ---- */

PRIVATE void rank_changed(core_link *l);
PRIVATE core_link *rank_least(const core_address *a, uint32_t shut);
PRIVATE void ranks_add(core_address *a, core_link *l);
PRIVATE bool ranks_restore(core_address *a, core_link *l);
PRIVATE void ranks_remove(core_address *a, core_link *l);
GLUE void ranks_settle(core_address *a);

/* Whether a worker is so far behind that its receivers of what many get have to wait. */
static inline bool worker_behind(const core_router *c, uint32_t w)
{
    return __builtin_expect(c->worker[w].overflow.count > WORKER_BEHIND, 0) && !c->worker[w].gone;
}

/* ---- the flight recorder (shm/memory/flight.h): flight.c ---- */

static inline flight_line flight_about(const core_router *c, enum flight_type type, uint32_t worker)
{
    return (flight_line) {.type = (uint8_t) type, .worker = (uint8_t) worker, .now = c->now};
}

/* Work for a worker that is about to be published.  The worker can write the ring: what it has done to the index or to
 * a record must not lead the recorder astray. */
static inline void flight_work(core_router *c, uint32_t w, const routerd_producer *work)
{
    core_flight *f = c->flight;
    uint64_t at = atomic_load_explicit(&work->ring->head, memory_order_relaxed);
    if (work->next - at > work->capacity) at = work->next - work->capacity;
    if (at == work->next) return;
    flight_line line = flight_about(c, FLIGHT_WORK, w);
    line.count = (uint32_t) (work->next - at);
    flight_put(f, &line);
    for (; at != work->next; at++) {
        routerd_record r = work->ring->slot[at & (work->capacity - 1)];
        if (__builtin_expect(r.type >= FLIGHT_BATCH, 0)) r.type = FLIGHT_UNKNOWN_ACTION;
        flight_put(f, &r);
    }
}

/* Whether a text is one at which routers tell each other of addresses.  Only that matters of a text where two dialects
 * meet (docs/network.md), so what stands for it in a recording ends in the same way. */
#define ABOUT_ADDRESSES "/qdrouter.ma"
#define ABOUT_ADDRESSES_LENGTH ((uint32_t) sizeof ABOUT_ADDRESSES - 1)

static inline bool text_about_addresses(const uint8_t *text, uint32_t length)
{
    return length >= ABOUT_ADDRESSES_LENGTH
           && !memcmp(text + length - ABOUT_ADDRESSES_LENGTH, ABOUT_ADDRESSES, ABOUT_ADDRESSES_LENGTH);
}

enum flight_text {             /* bits of `count` in a line about a text */
    FLIGHT_TEXT_VALID = 1,     /* it is an AMQP string */
    FLIGHT_TEXT_ABOUT = 2      /* text_about_addresses() */
};

#define STAND_IN_MOST (16u + ABOUT_ADDRESSES_LENGTH)

PRIVATE uint32_t flight_stand_in(uint64_t hash, bool about, uint8_t *text);
PRIVATE void flight_read(const core_router *c, flight_line line, uint32_t block);
PRIVATE void flight_text(const core_router *c, uint32_t w, uint32_t block, uint32_t length, uint64_t hash);
PRIVATE void flight_routed(const core_router *c, uint32_t w, uint32_t block, const arena_content *content, int origin,
                           const core_mask *trace);

/* ---- lists ---- */

static INLINED void link_add_in(core_link *l, core_in *in)
{
    in->link = l;
    in->prev = l->ins_tail;
    in->next = NULL;
    if (l->ins_tail) l->ins_tail->next = in; else l->ins = in;
    l->ins_tail = in;
    l->count++;
}

static INLINED void link_drop_in(core_in *in)
{
    core_link *l = in->link;
    if (!l) return;
    if (in->prev) in->prev->next = in->next; else l->ins = in->next;
    if (in->next) in->next->prev = in->prev; else l->ins_tail = in->prev;
    in->link = NULL;
    l->count--;
}

static INLINED void link_add_out(core_link *l, core_out *out)
{
    out->link = l;
    out->prev = l->outs_tail;
    out->next = NULL;
    if (l->outs_tail) l->outs_tail->next = out; else l->outs = out;
    l->outs_tail = out;
    l->count++;
    if (__builtin_expect(l->rank, 0)) rank_changed(l);
}

static INLINED void link_drop_out(core_out *out)
{
    core_link *l = out->link;
    if (out->prev) out->prev->next = out->next; else l->outs = out->next;
    if (out->next) out->next->prev = out->prev; else l->outs_tail = out->prev;
    l->count--;
    if (__builtin_expect(l->rank, 0)) rank_changed(l);
}

/* The first copy's `sibling_prev` is the last one. */
static INLINED void in_add_copy(core_in *in, core_out *out)
{
    core_out *first = in->copies;
    out->in = in;
    out->sibling = first;
    out->sibling_prev = first ? first->sibling_prev : out;
    if (first) first->sibling_prev = out;
    in->copies = out;
    in->copy_count++;
}

/* Puts the first copy behind all others. */
static inline void in_turn_copies(core_in *in)
{
    core_out *first = in->copies, *second = first->sibling;
    if (!second) return;
    in->copies = second;
    second->sibling_prev = first;
    first->sibling_prev->sibling = first;
    first->sibling = NULL;
}

/* None of a multicast's copies has a terminal state yet. */
static INLINED void in_copies_open(core_in *in) { in->open = in->copy_count; }

static INLINED void in_drop_copy(core_out *out)
{
    core_in *in = out->in;
    if (in->copies == out) in->copies = out->sibling; else out->sibling_prev->sibling = out->sibling;
    core_out *behind = out->sibling ? out->sibling : in->copies;
    if (behind) behind->sibling_prev = out->sibling_prev;
    in->copy_count--;
}

/* ---- spellings: alias.c ---- */

PRIVATE core_alias *alias_find(core_alias_table *t, uint32_t scope, const uint8_t *text, uint32_t length);
PRIVATE void alias_drop_all(core_router *c, core_address *address);
PRIVATE void alias_close(core_alias_table *t);
GLUE bool address_used(const core_address *a);
GLUE bool address_idle(const core_address *a);
GLUE bool alias_insert(core_router *c, uint32_t scope, const uint8_t *text, uint32_t length, core_address *address,
                       bool agent);
GLUE bool alias_evict(core_router *c, core_address **idle);
GLUE void alias_forgotten(core_router *c, uint32_t scope, const uint8_t *text, uint32_t length);
GLUE uint32_t alias_thin(core_router *c, core_address **idle, uint64_t *pause);

/* ---- override texts: text.c ---- */

PRIVATE bool text_use(core_router *c, core_text *t);
PRIVATE void text_done(core_router *c, core_text *t);
GLUE core_text *text_new(const uint8_t *bytes, uint32_t length);
GLUE void text_disown(core_router *c, core_text *t);

/* ---- deliveries by their workers' handles: by_peer.c ---- */

PRIVATE void by_peer_note(core_router *c, const core_in *in);
PRIVATE core_in *by_peer_find(core_router *c, core_link *l, uint64_t peer);

/* ---- payloads under way: payload.c ---- */

#define PAYLOAD_SMALL 256u             /* octets of a payload that is written into small blocks */

PRIVATE bool payload_lent(const core_router *c, uint8_t arena, uint32_t block, uint32_t reader);
PRIVATE void payload_track(core_router *c, uint8_t arena, uint32_t block, uint8_t reader);
PRIVATE void payload_forget(core_router *c, uint8_t arena, uint32_t block);
GLUE bool own_room(const core_router *c, uint64_t size);
PRIVATE uint32_t payload_write(core_router *c, const uint8_t *bytes, uint32_t size);

/* ---- reading a worker's arena: arena_read.c ---- */

GLUE bool content_copy(const arena_view *v, uint32_t head, uint64_t offset, uint8_t *to, uint32_t size, uint32_t hops);
GLUE uint32_t content_to(const arena_view *v, uint32_t head, uint8_t *text);

#endif
