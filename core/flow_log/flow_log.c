/* The flow log's records and the spans of traces (shm/memory/telemetry.h), made as deliveries end.
 *
 *   a message has come  --flow_note--> what its record will say of it, if it is among those recorded
 *   a copy is over      --flow_copy--> a record
 *   it went to nobody   --flow_drop--> a record
 *
 * While both are off there is no core_flow, and that is all anybody looks at.  What came before they were switched on
 * is not recorded.  Texts are interned: a record holds their numbers (names, `pins`: who must keep one).
 */
#include <stdio.h>

#include "core/flow_log/flow_log.h"
#include "core/forwarder/tables/planes.h"
#include "shm/codec/outcome.h"
#include "shm/memory/telemetry.h"

#define FLOW_AHEAD 3u                  /* records ahead of which a message's extract is prefetched */
#define FLOW_LATER 6u                  /* and behind this one, the place of one to be written */

/* ---- names ---- */

static uint32_t flow_place(uint32_t id) { return id & 0xffffu; }

/* Returns the next id of a place, which is used again; never 0. */
static uint32_t flow_next_id(uint32_t place, uint32_t before)
{
    uint32_t uses = ((before >> 16) + 1) & 0xffffu;
    return place | (uses ? uses : 1) << 16;
}

static void flow_unchain(core_flow *f, uint32_t place)
{
    core_name *n = &f->name[place];
    for (uint32_t *at = &f->bucket[n->hash & (FLOW_BUCKETS - 1)]; *at; at = &f->name[*at - 1].next) {
        if (*at - 1 != place) continue;
        *at = n->next;
        return;
    }
}

/* Returns the number of a text, which it takes in if it is new; 0: all places are pinned. */
GLUE uint32_t flow_name(core_flow *f, const uint8_t *text, uint32_t length)
{
    uint64_t hash = alias_hash(f->seed, text, length);
    uint8_t cut[TELEMETRY_TEXT];
    if (__builtin_expect(length > TELEMETRY_TEXT, 0)) {
        char end[18];
        snprintf(end, sizeof end, "~%016llx", (unsigned long long) alias_hash(0, text, length));
        memcpy(cut, text, TELEMETRY_TEXT - 17);
        memcpy(cut + TELEMETRY_TEXT - 17, end, 17);
        text = cut;
        length = TELEMETRY_TEXT;
    }
    uint32_t *bucket = &f->bucket[hash & (FLOW_BUCKETS - 1)];
    for (uint32_t at = *bucket; at; at = f->name[at - 1].next) {
        telemetry_name *known = &f->view.name[at - 1];
        if (f->name[at - 1].hash == hash && known->length == length && !memcmp(known->text, text, length))
            return atomic_load_explicit(&known->id, memory_order_relaxed);
    }
    uint32_t place = f->name_turn, tries = TELEMETRY_NAMES;
    while (tries && f->name[place].pins) {
        place = (place + 1) & (TELEMETRY_NAMES - 1);
        tries--;
    }
    if (!tries) return 0;
    f->name_turn = (place + 1) & (TELEMETRY_NAMES - 1);
    flow_unchain(f, place);
    f->name[place].hash = hash;
    f->name[place].next = *bucket;
    *bucket = place + 1;
    telemetry_name *n = &f->view.name[place];
    uint32_t id = flow_next_id(place, atomic_load_explicit(&n->id, memory_order_relaxed));
    telemetry_write_name(n, id, text, length);
    return id;
}

GLUE void flow_pin(core_flow *f, uint32_t id, int by)
{
    if (!id) return;
    uint32_t *pins = &f->name[flow_place(id)].pins, before = *pins;
    *pins += (uint32_t) by;
    f->pinned += (*pins != 0) - (before != 0);
}

/* As flow_name, and pins the text; 0 also if as many are pinned as may be: messages' texts find a place soon. */
GLUE uint32_t flow_keep(core_flow *f, const uint8_t *text, uint32_t length)
{
    uint32_t id = flow_name(f, text, length);
    if (id && !f->name[flow_place(id)].pins && f->pinned >= FLOW_PINNED) return 0;
    flow_pin(f, id, 1);
    return id;
}

/* Returns a number for a link, which is as `of`; 0: all are taken. */
GLUE uint32_t flow_link(core_flow *f, const telemetry_link *of, uint32_t address)
{
    uint32_t place = f->link_turn, tries = TELEMETRY_LINKS;
    while (tries && f->link[place].taken) {
        place = (place + 1) & (TELEMETRY_LINKS - 1);
        tries--;
    }
    if (!tries) return 0;
    f->link_turn = (place + 1) & (TELEMETRY_LINKS - 1);
    f->link[place] = (core_flow_link) {.taken = true, .address = address};
    telemetry_link *l = &f->view.link[place];
    uint32_t id = flow_next_id(place, atomic_load_explicit(&l->id, memory_order_relaxed));
    telemetry_write_link(l, id, of);
    return id;
}

GLUE void flow_drop_link(core_flow *f, uint32_t id) { if (id) f->link[flow_place(id)].taken = false; }

/* ---- made and removed ---- */

GLUE void flow_open(core_flow *f, void *base, const uint8_t *router, uint32_t length, uint32_t generation,
                    uint64_t seed)
{
    f->view = telemetry_at(base);
    f->generation = generation;
    f->seed = seed;
    f->every = f->asked = 1;
    telemetry_produce(&f->ring, &f->view);
    atomic_store_explicit(&f->view.header->dropped, 0, memory_order_relaxed);
    /* the places that records of the former core name are overwritten last */
    f->name_turn = (generation * (TELEMETRY_NAMES / 4)) & (TELEMETRY_NAMES - 1);
    f->link_turn = (generation * (TELEMETRY_LINKS / 4)) & (TELEMETRY_LINKS - 1);
    f->id_length = length < sizeof f->id ? length : (uint32_t) sizeof f->id;
    memcpy(f->id, router, f->id_length);
    f->me = flow_keep(f, f->id, f->id_length);
    f->local = flow_link(f, &(telemetry_link) {.kind = FLOW_LOCAL}, 0);
}

/* Shows the recorder what has been recorded.  The less room it leaves, the fewer deliveries are recorded, and the more
 * each record stands for. */
GLUE inline void flow_publish(core_flow *f)
{
    telemetry_publish(&f->ring);
    uint64_t eighths = telemetry_behind(&f->ring) / (TELEMETRY_RECORDS / 8);
    f->every = f->asked << (eighths < 4 ? 0 : eighths < 6 ? 2 : eighths < 7 ? 4 : 6);
}

GLUE void flow_close(core_flow *f)
{
    free(f->note);
    free(f);
}

/* ---- what a record will say ---- */

static inline uint8_t flow_class(const core_link *l, const core_address *a)
{
    static const uint8_t classes[] = {[T_CLOSEST] = FLOW_ANYCAST, [T_BALANCED] = FLOW_BALANCED,
        [T_MULTICAST] = FLOW_MC};
    if (l->kind == LINK_ROUTED) return FLOW_LINK;
    return a && a->treatment <= T_MULTICAST ? classes[a->treatment] : FLOW_NO_CLASS;
}

/* Returns the name of the path of what carries no trace: this router, or none for what comes over a link route from
 * another router. */
static inline uint32_t flow_untraced(const core_router *c, const core_flow *f, const core_link *l)
{
    if (__builtin_expect(l->kind != LINK_ROUTED, 1) || !l->flow) return f->me;
    uint8_t from = f->view.link[flow_place(l->flow)].kind;
    return from == FLOW_INTER_ROUTER || (from == FLOW_EDGE && c->exit) ? 0 : f->me;
}

static inline void flow_note_begin(const core_router *c, const core_flow *f, core_note *note, uint64_t handle,
                                   uint32_t address, const core_link *l, uint8_t priority)
{
    note->of = (telemetry_message) {
        .delivery = handle, .from_link = l->flow, .address = address, .path = flow_untraced(c, f, l),
        .generation = f->generation,
        .mtype = -1, .sub_id = -1, .pieces = 1, .worker = l->worker, .priority = priority,
    };
}

/* Prefetches the extract of a later message of this worker: its worker has just written that memory. */
static inline void flow_ahead(const core_router *c, const core_link *l)
{
    const routerd_consumer *k = &c->worker[l->worker].actions;
    uint64_t at = k->next + FLOW_AHEAD;
    if (!k->ring || at >= k->head_seen) return;
    const routerd_record *r = &k->ring->slot[at & (k->capacity - 1)];
    if (r->type != A_DELIVER || !(r->flags & F_EXTRACT)) return;
    const arena_content *content = arena_content_of(&c->arena[l->worker], r->block);
    if (content) __builtin_prefetch(&content->extract);
}

/* The routers in a message's trace, and this one: `R1>R2>R3`. */
__attribute__((noinline)) static void flow_path(core_router *c, core_flow *f, const core_in *in, core_note *note)
{
    const arena_content *content = arena_content_of(&c->arena[in->arena], in->block);
    if (!content || content->annotations == ANNOTATIONS_NONE || !content->trace_length) return;
    uint8_t bytes[FLOW_PATH], path[FLOW_PATH + sizeof f->id];
    uint32_t size = content->trace_length, length = 0;
    note->of.path = 0;
    note->of.hops = content->trace_count < 255 ? (uint8_t) content->trace_count : 255;
    if (size > FLOW_PATH || !content_copy(&c->arena[in->arena], in->block, content->trace, bytes, size, CONTENT_HOPS))
        return;
    amqp_cursor entries = {bytes, bytes + size};
    for (amqp_octets id; (id = amqp_string(amqp_next(&entries))).at;) {
        if (id.size > 2 && id.at[0] == '0' && id.at[1] == '/') id.at += 2, id.size -= 2;      /* the area */
        memcpy(path + length, id.at, id.size); /* each is shorter than what stands in `bytes`, its head included */
        length += id.size;
        path[length++] = '>';
    }
    memcpy(path + length, f->id, f->id_length);
    note->of.path = flow_name(f, path, length + f->id_length);
}

/* A message to a route table: its key.  `where`: where the text of its MEID stands in the message | its length <<
 * 32. */
__attribute__((noinline)) static void flow_key(core_router *c, core_flow *f, const core_in *in, core_note *note,
                                               int32_t mtype, int32_t sub_id, uint64_t where)
{
    uint8_t meid[TELEMETRY_TEXT];
    uint32_t length = (uint32_t) (where >> 32);
    note->of.treatment = FLOW_UC;
    note->of.mtype = mtype;
    note->of.sub_id = sub_id;
    if (!length || length > sizeof meid || !content_copy(&c->arena[in->arena], in->block, (uint32_t) where, meid,
                                                         length, CONTENT_HOPS)) return;
    note->of.meid = flow_name(f, meid, length);
}

/* Notes that a message has come; `a`: the address it is sent to, NULL: unknown. */
__attribute__((noinline)) PRIVATE void flow_note(core_router *c, const core_link *l, const core_in *in,
                                                 const core_address *a, uint8_t priority, const routerd_record *r)
{
    core_flow *f = c->flow;
    if (in->node.index >= f->note_room
        && !pool_beside(&c->ins, (void **) &f->note, &f->note_room, sizeof *f->note)) return;
    core_note *note = &f->note[in->node.index];
    uint64_t handle = pool_handle(in), hash = (handle ^ pool_handle(l)) * 0x9e3779b97f4a7c15ull >> 32;
    bool logged = l->kind != LINK_CONTROL && l->worker != c->workers;
    bool taken = logged && f->every && !(hash * f->every >> 32);
    note->of.delivery = 0;
    if (!taken) {
        if (__builtin_expect(f->every != f->asked, 0) && logged && !(hash * f->asked >> 32))
            stats_add(c->stats, N_FLOW_THINNED, 1);
        if (!f->spans || !logged || !(r->flags & F_EXTRACT)) return;
    }
    flow_note_begin(c, f, note, handle, a ? a->flow : l->flow ? f->link[flow_place(l->flow)].address : 0, l, priority);
    note->of.treatment = flow_class(l, a);
    note->of.weight = taken ? f->every : 0;
    flow_ahead(c, l);
    flow_note_report(c, f, in, note, r);
    if (!taken && !(note->of.known & KNOWN_SPAN)) {
        note->of.delivery = 0;
        return;
    }
    if (l->annotated) flow_path(c, f, in, note);
    if (r->state == KEY_FOUND) flow_key(c, f, in, note, (int32_t) r->delivery, (int32_t) (r->delivery >> 32), r->extra);
}

static inline core_note *flow_noted(const core_flow *f, const core_in *in)
{
    core_note *note = in->node.index < f->note_room ? &f->note[in->node.index] : NULL;
    return note && note->of.delivery == pool_handle(in) ? note : NULL;
}

/* Counts another piece of a message. */
__attribute__((noinline)) PRIVATE void flow_piece(core_flow *f, const core_in *in)
{
    core_note *note = flow_noted(f, in);
    if (note && note->of.pieces < UINT16_MAX) note->of.pieces++;
}

/* Notes that a route table says who gets copies; `owner`: by the owner of the managed entity.  The worker may not have
 * reported the key. */
__attribute__((noinline)) PRIVATE void flow_by_table(core_router *c, const core_in *in, int32_t mtype, int32_t sub_id,
                                                     uint64_t meid, bool owner)
{
    core_note *note = flow_noted(c->flow, in);
    if (!note) return;
    if (note->of.mtype < 0) flow_key(c, c->flow, in, note, mtype, sub_id, meid);
    if (owner) note->of.known |= KNOWN_OWNER;
}

/* ---- records ---- */

/* The place of the next record in the ring; NULL: there is no room. */
static telemetry_record *flow_slot(core_router *c, core_flow *f)
{
    telemetry_record *place = telemetry_slot(&f->ring);
    if (__builtin_expect(!place, 0)) {
        stats_add(c->stats, N_FLOW_DROPPED, 1);
        atomic_fetch_add_explicit(&f->view.header->dropped, 1, memory_order_relaxed);
        return NULL;
    }
    stats_add(c->stats, N_FLOW_RECORDS, 1);
    f->ring.next++;
    const telemetry_record *later = &f->ring.record[(f->ring.next + FLOW_LATER) & (TELEMETRY_RECORDS - 1)];
    ring_fetch(&later->said);  /* the ring is larger than the caches: a line to write comes from memory */
    ring_fetch(&later->said.number);
    return place;
}

/* The next record, filled in as far as it is about the message; NULL: there is no room for it. */
static telemetry_said *flow_record(core_router *c, core_flow *f, core_note *note, const core_in *in, uint8_t kind)
{
    uint64_t number = note->of.weight ? ++f->number[note->of.worker] : 0;
    telemetry_record *place = note->of.weight ? flow_slot(c, f) : NULL;
    if (__builtin_expect(!place, 0)) {
        if (!(note->of.known & KNOWN_SPAN)) return NULL;
        place = &f->unlogged;
    }
    if (__builtin_expect(note->of.known & KNOWN_MORE, 0)) place->more = note->more;
    telemetry_said *r = &place->said;
    r->of = note->of;
    note->of.marks |= place == &f->unlogged ? 0 : MARK_FURTHER;
    r->of.kind = kind;
    if (in->flags & IN_PRESETTLED) r->of.marks |= MARK_PRESETTLED;
    r->number = number;        /* each by itself: a whole line of zeros before that takes longer than all else here */
    r->arrived = in->arrived;
    r->bytes = in->length;
    r->settled = r->sent = r->queued = r->starved = 0;
    r->condition = 0;
    return r;
}

/* The condition of a rejection, whose payload is its state as octets. */
__attribute__((noinline, cold)) static uint32_t flow_condition(core_router *c, core_flow *f, uint8_t arena,
                                                               uint32_t block)
{
    uint8_t state[TELEMETRY_TEXT + OUTCOME_HEAD_MAX];
    const arena_view *v = &c->arena[arena];
    const arena_content *content = arena_content_of(v, block);
    uint64_t size = content ? chain_length(content) : 0;
    if (size > sizeof state) size = sizeof state;
    if (!size || !content_copy(v, block, 0, state, (uint32_t) size, CONTENT_HOPS)) return 0;
    amqp_octets condition = outcome_condition(state, (size_t) size);
    return condition.size && condition.size <= TELEMETRY_TEXT ? flow_name(f, condition.at, condition.size) : 0;
}

/* Makes a span of a record that is complete, if its trace is sampled. */
static inline void flow_span(const core_flow *f, const telemetry_said *r)
{
    if (__builtin_expect(r->of.known & KNOWN_SPAN, 0)) telemetry_write_span(&f->view, (const telemetry_record *) r);
}

static inline uint8_t flow_outcome(const core_out *out, uint32_t state, bool done, bool dropped)
{
    const core_in *in = out->in;
    bool presettled = in->flags & IN_PRESETTLED, asked = out->link->settles && !presettled;
    if (in->flags & IN_ABORTED && !out->state) return FLOW_ABORTED;
    if (done && dropped) return asked ? FLOW_RELEASED : FLOW_DROPPED;
    if (done) return asked ? FLOW_ACCEPTED : FLOW_PRESETTLED;
    if (presettled) return FLOW_DROPPED;
    switch (state) {
    case S_REJECTED: return FLOW_REJECTED;
    case S_RELEASED: return FLOW_RELEASED;
    case S_MODIFIED: return FLOW_MODIFIED;
    case S_NONE: return FLOW_PRESETTLED;
    default: return FLOW_ACCEPTED;
    }
}

/* Each process reads the clock once a turn, so a later event may have an earlier time. */
static inline uint64_t flow_later(uint64_t time, uint64_t than) { return time > than ? time : than; }

/* Records that a copy is over. */
__attribute__((noinline)) PRIVATE void flow_copy(core_router *c, const core_out *out, uint32_t state, uint8_t arena,
                                                 uint32_t detail)
{
    core_flow *f = c->flow;
    const core_in *in = out->in;
    core_note *note = flow_noted(f, in);
    telemetry_said *r = note ? flow_record(c, f, note, in, FLOW_DELIVERY) : NULL;
    if (!r) return;
    r->to_link = out->link->worker == c->workers ? f->local : out->link->flow;
    bool heard = f->heard == pool_handle(out);
    uint64_t sent = heard && f->sent ? flow_later(f->sent, in->arrived) : 0;
    uint8_t outcome = flow_outcome(out, state, heard && f->done, f->dropped);
    r->of.outcome = outcome;
    if (out->link->settles) r->of.marks |= MARK_PRESETTLED;
    r->sent = sent;
    if (outcome <= FLOW_MODIFIED) r->settled = flow_later(c->now, sent > in->arrived ? sent : in->arrived);
    if (outcome == FLOW_REJECTED && detail != ROUTERD_NIL) r->condition = flow_condition(c, f, arena, detail);
    if (heard) {
        if (f->sent > in->arrived + f->writing) r->queued = f->sent - in->arrived - f->writing;
        r->starved = f->starved;
    }
    flow_span(f, r);
}

/* Records that a message goes to nobody; `to`: the receiver that is too far behind, NULL: there is none. */
__attribute__((noinline, cold)) PRIVATE void flow_drop(core_router *c, const core_in *in, const core_link *to,
                                                       uint8_t outcome, uint32_t detail)
{
    core_flow *f = c->flow;
    core_note *note = flow_noted(f, in);
    if (!note || (note->of.kind == FLOW_DROP && !to)) return;
    note->of.kind = FLOW_DROP;
    telemetry_said *r = flow_record(c, f, note, in, FLOW_DROP);
    if (!r) return;
    r->to_link = to ? to->flow : 0;
    r->of.outcome = outcome;
    if (!(in->flags & IN_PRESETTLED)) r->settled = flow_later(c->now, in->arrived);
    if (detail != ROUTERD_NIL) r->condition = flow_condition(c, f, (uint8_t) c->workers, detail);
    flow_span(f, r);
}

/* Keeps what a worker reports in its last record of a copy. */
PRIVATE inline void flow_heard(core_flow *f, const routerd_record *r)
{
    f->heard = r->delivery;
    f->done = r->type == A_DONE;
    f->dropped = r->flags & F_DROPPED;
    f->sent = r->time;
    f->writing = (uint64_t) r->credit * 1000;
    f->starved = r->time ? r->length : 0;
}
