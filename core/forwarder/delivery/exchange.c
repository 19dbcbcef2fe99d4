/* Exchanges: which addresses a message goes to, by the subject in its properties.
 *
 * The keys of an exchange's bindings are a tree of tokens: itself, any one token, or any number of them.  A subject is
 * read token by token, with all places of the tree that it may have got to so far: the time is bounded by tokens times
 * places, however keys are made, and nothing is allocated.  Senders choose the subject and the core reads it for each
 * message, so a step, one token at one place, is counted: after EXCHANGE_STEPS the subject is one without tokens.
 */
#include "core/forwarder/delivery/delivery.h"
#include "shm/codec/scan.h"

#define EXCHANGE_PEEK 10u              /* octets of a descriptor with a number, or in front of a content */

/* ---- made and removed: slow ---- */

PRIVATE void exchange_free(core_router *c, core_exchange *x)
{
    for (uint32_t i = 0; i < x->hop_count; i++) {
        if (x->hop[i].address) x->hop[i].address->holds--;
        text_disown(c, x->hop[i].text);
    }
    free(x->node);
    free(x->slot);
    free(x->active[0]);
    free(x->active[1]);
    free(x->tokens);
    free(x->binding);
    free(x->hop);
    free(x->given);
    free(x);
}

/* Room for so many of each; NULL: memory is used up. */
GLUE core_exchange *exchange_new(core_router *c, uint8_t separator, uint32_t nodes, uint32_t bindings, uint32_t hops,
                                 uint32_t token_bytes)
{
    core_exchange *x = (core_exchange *) calloc(1, sizeof *x);
    if (!x) return NULL;
    uint32_t room = 16;
    while (room < nodes * 2) room *= 2;
    x->separator = separator;
    x->alternate = EXCHANGE_NONE;
    x->seed = c->aliases.seed;
    x->slot_mask = room - 1;
    x->node = (core_exchange_node *) calloc(nodes + 1, sizeof *x->node);
    x->slot = (uint32_t *) malloc(room * sizeof *x->slot);
    for (int i = 0; i < 2; i++) x->active[i] = (uint32_t *) malloc((nodes + 1) * sizeof *x->active[i]);
    x->tokens = (uint8_t *) malloc(token_bytes + 1);
    x->binding = (core_binding *) calloc(bindings + 1, sizeof *x->binding);
    x->hop = (core_hop *) calloc(hops + 1, sizeof *x->hop);
    if (!x->node || !x->slot || !x->active[0] || !x->active[1] || !x->tokens || !x->binding || !x->hop) {
        exchange_free(c, x);
        return NULL;
    }
    memset(x->slot, 0xff, room * sizeof *x->slot);
    return x;
}

/* `hash`: alias_hash of the token, which is the same at each place. */
static inline uint32_t exchange_slot(const core_exchange *x, uint32_t parent, uint64_t hash)
{
    return (uint32_t) alias_hash_with(hash, parent) & x->slot_mask;
}

/* Nodes come in order, parents first; the root is the first one.  `token` is copied to `at` in `tokens`. */
GLUE void exchange_add_node(core_exchange *x, uint32_t parent, enum exchange_token kind, const uint8_t *token,
                            uint32_t length, uint32_t at)
{
    uint32_t number = x->node_count++;
    core_exchange_node *n = &x->node[number];
    n->parent = parent;
    n->one = n->any = n->bindings = n->next_slot = EXCHANGE_NONE;
    n->stays = kind == TOKEN_ANY;
    if (!number) return;
    if (kind == TOKEN_ONE) x->node[parent].one = number;
    else if (kind == TOKEN_ANY) x->node[parent].any = number;
    if (kind != TOKEN_ITSELF) return;
    memcpy(x->tokens + at, token, length);
    n->token = at;
    n->token_length = length;
    uint32_t slot = exchange_slot(x, parent, alias_hash(x->seed, token, length));
    n->next_slot = x->slot[slot];
    x->slot[slot] = number;
}

GLUE void exchange_add_binding(core_exchange *x, uint32_t node, uint32_t hop, uint64_t matched)
{
    uint32_t number = x->binding_count++;
    x->binding[number] = (core_binding) {.next = x->node[node].bindings, .hop = hop, .matched = matched};
    x->node[node].bindings = number;
}

GLUE void exchange_add_hop(core_exchange *x, core_address *address, const uint8_t *text, uint32_t length)
{
    x->hop[x->hop_count++] = (core_hop) {.address = address, .text = length ? text_new(text, length) : NULL};
    address->holds++;
}

/* An exchange that is changed goes on counting. */
GLUE void exchange_take_counts(core_exchange *x, const core_address *a)
{
    if (!a->exchange) return;
    x->received = a->exchange->received;
    x->forwarded = a->exchange->forwarded;
    x->diverted = a->exchange->diverted;
    x->dropped = a->exchange->dropped;
}

/* ---- matching ---- */

static inline uint32_t exchange_reach(core_exchange *x, uint32_t *active, uint32_t count, uint32_t node)
{
    /* any number: also none at all */
    for (; node != EXCHANGE_NONE && x->node[node].mark != x->step; node = x->node[node].any) {
        x->node[node].mark = x->step;
        active[count++] = node;
    }
    return count;
}

static inline uint32_t exchange_child(const core_exchange *x, uint32_t parent, const uint8_t *token, uint32_t length,
                                      uint64_t hash)
{
    for (uint32_t i = x->slot[exchange_slot(x, parent, hash)]; i != EXCHANGE_NONE; i = x->node[i].next_slot) {
        const core_exchange_node *n = &x->node[i];
        if (n->parent == parent && n->token_length == length && !memcmp(x->tokens + n->token, token, length)) return i;
    }
    return EXCHANGE_NONE;
}

/* Marks the hops of all bindings whose key matches with x->message; false: none does.  No subject is one without
 * tokens. */
PRIVATE bool exchange_match(core_exchange *x, const uint8_t *subject, uint32_t length)
{
    uint32_t *now = x->active[0], *then = x->active[1], steps = 0;
    x->step++;
    uint32_t count = exchange_reach(x, now, 0, 0);
    for (uint32_t at = 0; length && at <= length && count;) {
        steps += count;
        if (__builtin_expect(steps > EXCHANGE_STEPS, 0)) return exchange_match(x, subject, 0);
        const uint8_t *token = subject + at, *end = (const uint8_t *) memchr(token, x->separator, length - at);
        uint32_t size = end ? (uint32_t) (end - token) : length - at, next = 0;
        uint64_t hash = alias_hash(x->seed, token, size);
        x->step++;
        for (uint32_t i = 0; i < count; i++) {
            const core_exchange_node *n = &x->node[now[i]];
            if (n->stays) next = exchange_reach(x, then, next, now[i]);
            next = exchange_reach(x, then, next, exchange_child(x, now[i], token, size, hash));
            next = exchange_reach(x, then, next, n->one);
        }
        uint32_t *swap = now;
        now = then;
        then = swap;
        count = next;
        at += size + 1;
    }
    x->message++;
    bool found = false;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t b = x->node[now[i]].bindings; b != EXCHANGE_NONE; b = x->binding[b].next) {
            x->binding[b].matched++;
            x->hop[x->binding[b].hop].mark = x->message;
            found = true;
        }
    return found;
}

/* ---- as a recording says ---- */

/* Shows the flight recorder which hops a message matches: its subject is not recorded. */
__attribute__((noinline, cold)) PRIVATE void exchange_record(core_router *c, const core_address *a)
{
    const core_exchange *x = a->exchange;
    for (uint32_t base = 0; !base || base < x->hop_count; base += 256) {
        flight_line line = flight_about(c, FLIGHT_HOPS, 0);
        uint8_t any = 0;
        for (uint32_t i = base; i < x->hop_count && i < base + 256; i++)
            if (x->hop[i].mark == x->message) any = 1, line.detail[(i - base) / 8] |= (uint8_t) (1u << (i & 7));
        line.count = !base;
        line.hash = base;
        line.length = a->node.generation;
        if (any || !base) flight_read(c, line, a->node.index);
    }
}

/* A hop that the next message matches, or EXCHANGE_NONE: the next message begins.  False: there is no memory. */
GLUE bool exchange_give(core_exchange *x, uint32_t hop)
{
    if (!(x->state & EXCHANGE_GIVEN) || (hop != EXCHANGE_NONE && hop >= x->hop_count)) return true;
    if (x->given_count == x->given_room) {
        const uint32_t room = x->given_room ? x->given_room * 2 : 64;
        uint32_t *grown = (uint32_t *) realloc(x->given, room * sizeof *grown);
        if (!grown) return false;
        x->given = grown;
        x->given_room = room;
    }
    x->given[x->given_count++] = hop;
    return true;
}

/* What is left of it belongs to no message. */
GLUE void exchange_given_over(core_exchange *x) { x->given_count = x->given_at = 0; }

/* Marks the hops of the next message as exchange_match() does. */
PRIVATE bool exchange_given(core_exchange *x)
{
    const uint32_t *given = x->given;
    uint32_t i = x->given_at;
    bool found = false;
    x->message++;
    if (i < x->given_count)
        for (i++; i < x->given_count && given[i] != EXCHANGE_NONE; i++, found = true)
            x->hop[given[i]].mark = x->message;
    x->given_at = i;
    return found;
}

/* ---- the subject ---- */

/* At most EXCHANGE_PEEK octets from `offset` on, zeros behind the end of what there is. */
static bool exchange_peek(const arena_view *v, uint32_t head, uint64_t offset, uint8_t bytes[EXCHANGE_PEEK])
{
    uint64_t length = chain_length(arena_content_of(v, head));
    if (offset >= length) return false;
    memset(bytes, 0, EXCHANGE_PEEK);
    return content_copy(v, head, offset, bytes, length - offset < EXCHANGE_PEEK ? (uint32_t) (length - offset)
                        : EXCHANGE_PEEK, CONTENT_HOPS);
}

/* The subject in a message's properties (AMQP 3.2.4: the fourth field), copied; its length, 0: there is none, or too
 * much of it.  The worker has checked the section; what it points at is not trusted. */
PRIVATE uint32_t exchange_subject(const arena_view *v, uint32_t head, uint8_t *subject)
{
    const arena_content *content = arena_content_of(v, head);
    uint64_t at = content->properties;
    uint8_t bytes[EXCHANGE_PEEK];
    amqp_cursor fields;
    uint32_t count;
    if (content->properties == ARENA_NO_OFFSET || !exchange_peek(v, head, at, bytes) || bytes[0] != AMQP_DESCRIBED)
        return 0;
    at += (uint64_t) (scan_value(bytes) - bytes);
    if (!exchange_peek(v, head, at, bytes) || !amqp_list((amqp_value) { bytes, EXCHANGE_PEEK }, &fields, &count)
        || count < 4) return 0;
    at += (uint64_t) (fields.at - bytes);
    for (int field = 0;; field++) {
        if (!exchange_peek(v, head, at, bytes)) return 0;
        size_t size = amqp_size(bytes, bytes + EXCHANGE_PEEK, 0);
        if (size == AMQP_WRONG) return 0;
        at += size;
        if (field < 3) continue;
        uint64_t length = size - amqp_head(bytes[0]);
        if (!amqp_is_string(bytes[0]) || length > EXCHANGE_SUBJECT) return 0;
        return content_copy(v, head, at - length, subject, (uint32_t) length, CONTENT_HOPS) ? (uint32_t) length : 0;
    }
}
