/* A core that is given again what a recording says (shm/memory/flight.h): actions one at a time, what the first core
 * read of messages, and the turns of what waited.  Calls of the control plane are made by Python, as the first time.
 *
 * The segments are the replay's own: rings with one record in them, and arenas in which only what the core reads of
 * messages is written.
 */
#include "core/forwarder/turns/turns.h"
#include "shm/codec/amqp.h"
#include "shm/codec/sections.h"

/* What a table link's message says is where the replay has written it, or nowhere. */
static routerd_record replay_reported(const core_router *c, uint32_t w, const routerd_record *r, const replay_key *k)
{
    routerd_record one = *r;
    const core_link *l = r->type == A_DELIVER ? link_find(c, w, r->link, r->link_gen) : NULL;
    if (!l || !l->to_table) return one;
    const uint32_t what = k->worker == w && k->block == r->block ? k->what : 0;
    one.extra = what & FLIGHT_KEY_OWNER ? k->meid_at | (uint64_t) sizeof k->owner << 32 : 0;
    one.credit = what & FLIGHT_KEY_SOURCE ? k->source_at : 0;
    return one;
}

/* Handles an action of a worker.  The work made is published at once. */
GLUE enum core_stop replay_action(core_router *c, uint32_t w, const routerd_record *r, uint64_t now,
                                  const replay_key *k)
{
    routerd_producer actions;
    uint32_t handled = 0;
    if (!ring_produce(&actions, c->worker[w].actions.ring)) return STOP_NOTHING;
    routerd_record *slot = ring_slot(&actions);
    if (!slot) return STOP_NOTHING;
    *slot = replay_reported(c, w, r, k);
    ring_push(&actions);
    ring_publish(&actions);
    c->now = now;
    return core_batch(c, w, 1, &handled);
}

/* The next work for a worker.  False: there is no more. */
GLUE bool replay_work(core_router *c, uint32_t w, routerd_record *r)
{
    routerd_consumer work;
    core_worker *k = &c->worker[w];
    if (!ring_consume(&work, k->work.ring)) return false;
    const routerd_record *found = ring_peek(&work);
    if (!found && k->overflow.count) {
        core_flush(c, w);
        core_publish(c);
        found = ring_peek(&work);
    }
    if (!found) return false;
    *r = *found;
    ring_advance(&work);
    ring_return(&work);
    return true;
}

/* Octets in front of a block for what stands for `to`; then what stands for the key, the ingress router and the
 * trace. */
#define REPLAY_KEY 32u
#define REPLAY_INGRESS 128u
#define REPLAY_TRACE 130u
#define REPLAY_OCTETS 350u             /* of a message: a small block has room for them */

static arena_content *replay_content(core_router *c, uint32_t w, uint32_t block)
{
    return w < c->workers ? arena_content_of(&c->arena[w], block) : NULL;
}

/* Writes what stands for the `to` that the core will look for; nothing for length 0.  `what`: enum flight_text. */
GLUE bool replay_text(core_router *c, uint32_t w, uint32_t block, uint32_t length, uint32_t what, uint64_t hash)
{
    arena_content *content = replay_content(c, w, block);
    if (!content) return false;
    uint8_t *text = (uint8_t *) (content + 1);
    const uint32_t stands = flight_stand_in(hash, what & FLIGHT_TEXT_ABOUT, text);
    if (!(what & FLIGHT_TEXT_VALID)) memset(text, 0xff, stands);
    content->key_block = ROUTERD_NIL;
    content->to_offset = length ? 0 : ARENA_NO_OFFSET;
    content->to_length = !length || length > CORE_MAX_TEXT ? length : stands;
    atomic_store_explicit(&content->length, REPLAY_OCTETS, memory_order_relaxed);
    return true;
}

/* An octet stands for a router's id, its bit plus 1; two stand for a router that is not known. */
static void replay_provenance(arena_content *content, int origin, const core_mask *trace)
{
    uint8_t *bytes = (uint8_t *) (content + 1), *at = bytes + REPLAY_TRACE;
    bytes[REPLAY_INGRESS] = bytes[REPLAY_INGRESS + 1] = origin < 0 ? 0 : (uint8_t) (origin + 1);
    content->ingress = REPLAY_INGRESS;
    content->ingress_length = origin < 0 ? 2 : origin > 0;
    for (uint32_t bit = mask_next(trace, 0); bit < NODES; bit = mask_next(trace, bit + 1)) {
        if (at + 3 > bytes + REPLAY_OCTETS) break;
        *at++ = AMQP_STRING8;
        *at++ = 1;
        *at++ = (uint8_t) (bit + 1);
    }
    content->trace = REPLAY_TRACE;
    content->trace_length = (uint32_t) (at - bytes) - REPLAY_TRACE;
    atomic_store_explicit(&content->length, REPLAY_OCTETS, memory_order_relaxed);
}

GLUE bool replay_routed(core_router *c, uint32_t w, uint32_t block, const uint8_t *detail)
{
    core_mask trace;
    arena_content *content = replay_content(c, w, block);
    if (!content) return false;
    content->annotations = detail[0];
    content->routed = detail[1];
    content->phase = detail[2];
    memcpy(&content->trace_count, detail + 4, 4);
    memcpy(&content->section_end, detail + 8, 4);
    memcpy(&trace, detail + 12, sizeof trace);
    replay_provenance(content, (int8_t) detail[3], &trace);
    return true;
}

/* Application properties with the key: hash and number stand for the source's name and for the managed entity. */
static void replay_properties(uint8_t *bytes, replay_key *k, bool found)
{
    char source[17];
    uint32_t count = 4;
    uint8_t *map = amqp_put_descriptor(bytes + REPLAY_KEY, found ? SECTION_APPLICATION_PROPERTIES : SECTION_DATA);
    uint8_t *items = map + 3, *at = amqp_put_octets(items, AMQP_STRING8, "rmr.mt", 6);
    at = amqp_put_octets(amqp_put(at, AMQP_INT, (uint32_t) k->type), AMQP_STRING8, "rmr.sub-id", 10);
    at = amqp_put(at, AMQP_INT, (uint32_t) k->subscription);
    if (k->what & FLIGHT_KEY_OWNER) {
        at = amqp_put_octets(at, AMQP_STRING8, "rmr.meid", 8);
        k->meid_at = (uint32_t) (at - bytes) + 2;
        at = amqp_put_octets(at, AMQP_BINARY8, &k->owner, sizeof k->owner);
        count += 2;
    }
    if (k->what & FLIGHT_KEY_SOURCE) {
        snprintf(source, sizeof source, "%016llx", (unsigned long long) k->source);
        at = amqp_put_octets(at, AMQP_STRING8, "rmr.source", 10);
        k->source_at = (uint32_t) (at - bytes) + 2;
        at = amqp_put_octets(at, AMQP_STRING8, source, 16);
        count += 2;
    }
    amqp_put_items_head(map, AMQP_MAP8, (uint32_t) (at - items), count);
}

/* Writes what a route table asks for; `more` belongs to what `k` has of the same message. */
GLUE bool replay_keyed(core_router *c, replay_key *k, const replay_key *more)
{
    arena_content *content = replay_content(c, more->worker, more->block);
    if (!content) return false;
    const bool same = k->what && k->worker == more->worker && k->block == more->block;
    if (!same || more->what & FLIGHT_KEY_READ) *k = *more;
    if (more->what & FLIGHT_KEY_SOURCE) k->source = more->source;
    if (more->what & FLIGHT_KEY_OWNER) k->owner = more->owner;
    k->what |= more->what;
    replay_properties((uint8_t *) (content + 1), k, k->what & FLIGHT_KEY_FOUND || !(k->what & FLIGHT_KEY_READ));
    content->message_annotations = ARENA_NO_OFFSET;
    content->body = REPLAY_KEY;
    atomic_store_explicit(&content->length, REPLAY_OCTETS, memory_order_relaxed);
    return true;
}

GLUE bool replay_state(core_router *c, uint32_t w, uint32_t block, uint32_t state)
{
    arena_content *content = replay_content(c, w, block);
    if (content) atomic_store_explicit(&content->state, state, memory_order_relaxed);
    return content != NULL;
}
