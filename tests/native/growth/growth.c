/* How the work of the core grows with what a peer may make many: the steps (growth.h) of one operation with n links,
 * deliveries, spellings and so on.
 *
 * Argument: n.  Output: a line for each scenario, with its name and the steps of one operation.
 */
#define _GNU_SOURCE
#include "tests/native/growth/growth.h"

#include "core/forwarder/unity.c"

#define ARENA_BYTES (1u << 20)
#define SENDERS 0u                     /* worker */
#define RECEIVERS 1u

static void *segment(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, bytes)) exit(2);
    memset(memory, 0, bytes);
    return memory;
}

/* A core whose workers never read their work. */
static core_router *router(void)
{
    core_router *c = (core_router *) calloc(1, sizeof *c);
    uint8_t *control = (uint8_t *) segment(layout_control_bytes(2)),
        *rings = (uint8_t *) segment(layout_rings_bytes(2));
    layout_format_control(control, 2, ARENA_BYTES);
    for (uint32_t i = 0; i <= 2; i++) {
        void *memory = segment(ARENA_BYTES);
        layout_format_arena(memory, ARENA_BYTES);
        if (!arena_attach(&c->arena[i], memory, ARENA_BYTES)) exit(2);
    }
    for (uint32_t w = 0; w < 2; w++) {
        ring_format((routerd_ring *) (rings + layout_action_ring(w)), 64);
        ring_format((routerd_ring *) (rings + layout_work_ring(w)), 64);
        if (setup_worker(c, w, control, rings, -1)) exit(2);
    }
    if (core_open(c, 2, control, 7)) exit(2);
    c->worker[0].gone = c->worker[1].gone = true;
    return c;
}

static core_address *address(core_router *c, enum core_treatment treatment)
{
    core_address *a = (core_address *) pool_take(&c->addresses);
    a->treatment = (uint8_t) treatment;
    a->priority = -1;
    return a;
}

static core_link *link_to(core_router *c, core_address *a, uint32_t number, bool outgoing)
{
    core_link t = {.outgoing = outgoing, .address = a, .capacity = 1u << 20};
    return link_add(c, outgoing ? RECEIVERS : SENDERS, number, 1, &t);
}

static void message_with(core_router *c, const core_link *from, uint64_t peer, uint8_t flags, uint32_t block)
{
    routerd_record r = {.type = A_DELIVER, .flags = flags, .link = from->link, .link_gen = 1, .block = block,
        .peer = peer, .length = 100, .time = 1};
    core_action(c, SENDERS, &r);
}

static void message(core_router *c, const core_link *from, uint64_t peer)
{
    message_with(c, from, peer, F_COMPLETE, 0);
}

static void settle(core_router *c, core_out *out)
{
    routerd_record r = {.type = A_UPDATE, .flags = F_SETTLED, .state = S_ACCEPTED, .delivery = pool_handle(out)};
    core_action(c, RECEIVERS, &r);
}

#include "tests/native/growth/growth_turns.h"

static void links(core_router *c, uint32_t n, enum core_treatment treatment, const char *const names[2])
{
    core_address *a = address(c, treatment);
    counting = true;
    for (uint32_t i = 0; i < n; i++) link_to(c, a, i, true);
    report(names[0], n);
    counting = true;
    for (uint32_t i = 0; i < n; i++) link_remove(c, c->worker[RECEIVERS].link[i], false);
    report(names[1], n);
}

static void senders(core_router *c, uint32_t n)
{
    core_address *a = address(c, T_BALANCED);
    counting = true;
    for (uint32_t i = 0; i < n; i++) link_to(c, a, i, false);
    report("attach_sender", n);
    counting = true;
    for (uint32_t i = 0; i < n; i++) link_remove(c, c->worker[SENDERS].link[i], false);
    report("detach_sender", n);
}

/* Messages to one of n receivers that all are busy. */
static void choices(core_router *c, uint32_t n, enum core_treatment treatment, const char *name)
{
    core_address *a = address(c, treatment);
    core_link *from = link_to(c, a, 0, false);
    for (uint32_t i = 0; i < n; i++) link_to(c, a, i, true);
    for (uint32_t i = 0; i < 2 * n; i++) message(c, from, i + 1);
    counting = true;
    for (uint32_t i = 0; i < n; i++) {
        settle(c, c->worker[RECEIVERS].link[i * 7919 % n]->outs);
        message(c, from, 3 * n + i);
    }
    report(name, n);
}

static void multicast(core_router *c, uint32_t n)
{
    core_address *a = address(c, T_MULTICAST);
    core_link *from = link_to(c, a, 0, false);
    for (uint32_t i = 0; i < n; i++) link_to(c, a, i, true);
    for (uint32_t streaming = 0; streaming < 2; streaming++) {
        counting = true;
        message_with(c, from, 1, streaming ? 0 : F_COMPLETE, 0);
        core_step(c, 1);
        if (streaming) report("begin_stream_per_copy", n);
        for (uint32_t round = 1; streaming && round <= 4; round++) {
            counting = true;
            for (uint32_t i = 0; i < n; i++) {
                routerd_record r = {.type = A_PROGRESS, .length = (round * 128u << 10) + i % 4096 * 32,
                    .delivery = pool_handle(c->worker[RECEIVERS].link[i]->outs)};
                core_action(c, RECEIVERS, &r);
            }
        }
        if (streaming) report("progress_of_a_copy", 4 * n);
        counting = true;
        for (uint32_t i = 0; i < n; i++) settle(c, c->worker[RECEIVERS].link[i * 7919 % n]->outs);
        report(streaming ? "settle_a_copy_of_a_stream" : "multicast_per_copy", n);
    }
}

/* n deliveries of one link, settled by the newest first, also by their sender, who names them by its own handles; and n
 * abandoned by it. */
static void deliveries(core_router *c, uint32_t n)
{
    core_address *a = address(c, T_BALANCED);
    core_link *from = link_to(c, a, 0, false), *to = link_to(c, a, 0, true);
    counting = true;
    for (uint32_t i = 0; i < n; i++) message(c, from, i + 1);
    report("deliver", n);
    counting = true;
    for (uint32_t i = 0; i < n; i++) settle(c, to->outs_tail);
    report("settle_newest_first", n);
    for (uint32_t i = 0; i < n; i++) message(c, from, i + 1);
    counting = true;
    for (uint32_t i = n; i; i--) {
        routerd_record r = {.type = A_UPDATE, .flags = F_IN | F_SETTLED, .link = from->link, .link_gen = 1, .peer = i};
        core_action(c, SENDERS, &r);
    }
    report("sender_settles_newest_first", n);
    for (uint32_t i = 0; i < n; i++) settle(c, to->outs_tail);
    if (c->ins.live) exit(2);
    for (uint32_t i = 0; i < n; i++) message(c, from, i + 1);
    counting = true;
    link_remove(c, from, false);
    report("sender_goes_per_delivery", n);
    counting = true;
    link_remove(c, to, false);
    report("receiver_goes_per_delivery", n);
}

/* The worker of n senders dies. */
static void death(core_router *c, uint32_t n)
{
    core_address *a = address(c, T_BALANCED);
    for (uint32_t i = 0; i < n; i++) link_to(c, a, i, false);
    counting = true;
    core_reclaim(c, SENDERS);
    report("worker_dies_per_link", n);
}

static uint32_t spell(uint8_t *text, uint32_t i) { return (uint32_t) sprintf((char *) text, "spelling.%u", i); }

static void spellings(core_router *c, uint32_t n)
{
    uint8_t text[32];
    core_address *a = address(c, T_BALANCED), *idle;
    counting = true;
    for (uint32_t i = 0; i < n; i++) alias_insert(c, 0, text, spell(text, i), a, false);
    report("new_spelling", n);
    counting = true;
    for (uint32_t i = 0; i < n; i++)
        if (!alias_find(&c->aliases, 0, text, spell(text, i * 7919 % n))) exit(2);
    report("find_spelling", n);
    c->aliases.bytes += ALIAS_BYTES;   /* as if they were many more */
    counting = true;
    for (uint32_t i = 0; i < n / 2; i++) alias_evict(c, &idle);
    report("evict_spelling", n / 2);
    c->aliases.bytes -= ALIAS_BYTES;
    core_address *found[ALIAS_IDLE_ROOM];
    uint64_t pause;
    alias_thin(c, found, &pause);
    c->now += 200000000000ull;
    counting = true;
    alias_thin(c, found, &pause);
    report("search_for_idle_spellings", 1);
    counting = true;
    alias_drop_all(c, a);
    report("address_goes_per_spelling", n - n / 2);
}

/* n anonymous senders whose first message names a text that is not known: they go. */
static void parked(core_router *c, uint32_t n)
{
    arena_owner own;
    uint8_t text[32];
    if (!arena_own(&own, &c->arena[SENDERS])) exit(2);
    arena_writer writer;
    const uint32_t length = spell(text, 0);
    if (!chain_begin(&own, &writer, ARENA_SMALL) || !chain_write(&own, &writer, ARENA_SMALL, text, length)) exit(2);
    chain_publish(&own, &writer, CONTENT_COMPLETE);
    arena_content *content = arena_content_of(&c->arena[SENDERS], writer.head);
    content->to_offset = 0;
    content->to_length = length;
    for (uint32_t i = 0; i < n; i++) link_to(c, NULL, i, false);
    counting = true;
    for (uint32_t i = 0; i < n; i++) {
        routerd_record r = {.type = A_DELIVER, .flags = F_COMPLETE, .link = i, .link_gen = 1, .block = writer.head,
            .peer = 1, .length = 10};
        if (core_action(c, SENDERS, &r) != STOP_UNKNOWN) exit(2);
        park_put(c, c->worker[SENDERS].link[i], &r);
    }
    report("park_a_link", n);
    counting = true;
    for (uint32_t i = n; i--;) link_remove(c, c->worker[SENDERS].link[i], false);
    report("parked_link_goes", n);
}

static void pairs(core_router *c, uint32_t n)
{
    counting = true;
    for (uint32_t i = 0; i < n; i++) {
        core_link *in = link_add_routed(c, SENDERS, i, 1, false, false),
            *out = link_add_routed(c, RECEIVERS, i, 1, true, false);
        in->pair = out;
        out->pair = in;
    }
    report("link_route_pair", n);
    counting = true;
    for (uint32_t i = 0; i < n; i++) message(c, c->worker[SENDERS].link[i * 7919 % n], i + 1);
    report("deliver_to_a_pair", n);
    counting = true;
    for (uint32_t i = 0; i < n; i++) {
        link_remove(c, c->worker[SENDERS].link[i], false);
        link_remove(c, c->worker[RECEIVERS].link[i], false);
    }
    report("link_route_pair_goes", n);
}

static void tables(uint32_t n)
{
    int32_t *type = (int32_t *) calloc(n, sizeof *type), *subscription = (int32_t *) calloc(n, sizeof *subscription);
    uint32_t *target = (uint32_t *) calloc(n, sizeof *target), place[] = {0}, word[] = {1, 1, 0}, start[] = {0};
    for (uint32_t i = 0; i < n; i++) {
        type[i] = (int32_t) (100 + i / 4);
        subscription[i] = (int32_t) (i % 4) - 1;
    }
    route_columns columns = {.type = type, .subscription = subscription, .target = target, .rows = n, .place = place,
        .word = word, .sender_start = start};
    counting = true;
    route_table *t = route_build(&columns, 1);
    report("build_table_per_row", n);
    uint64_t turn;
    counting = true;
    for (uint32_t i = 0; i < n; i++)
        if (route_find_target(t, type[i], subscription[i], 0, &turn) == ROUTE_GONE) exit(2);
    report("find_in_table", n);
    counting = true;
    for (uint32_t i = 0; i < n; i++) route_find_target(t, (int32_t) (1000000 + i), 1, 0, &turn);
    report("miss_in_table", n);
    route_table_free(t);
}

/* A table of one key, of which each of n senders has an entry of its own. */
static void entries_for_senders(uint32_t n)
{
    int32_t *same = (int32_t *) calloc(n, sizeof *same);
    uint32_t *number = (uint32_t *) calloc(n + 1, sizeof *number), *target = (uint32_t *) calloc(n, sizeof *target);
    uint64_t *sender = (uint64_t *) calloc(n, sizeof *sender);
    const uint32_t place = 0, word[3] = {1, 1, 0};
    for (uint32_t i = 0; i <= n; i++) number[i] = i;
    for (uint32_t i = 0; i < n; i++) sender[i] = i + 1;
    const route_columns columns = {.type = same, .subscription = same, .target = target, .rows = n, .place = &place,
        .word = word, .sender_row = number, .sender_start = number, .sender_rows = n, .sender = sender, .words = 3,
        .senders = n};
    counting = true;
    route_table *t = route_build(&columns, 1);
    report("build_entry_for_a_sender", n);
    uint64_t turn = 1;
    for (uint32_t i = 0; i < n; i++)
        if (!t || route_find_target(t, 0, 0, i + 1, &turn) != 0 || turn) exit(2);
    route_table *next = route_build(&columns, 1);
    counting = true;
    for (uint32_t at = 0; at <= t->mask;) at = route_inherit(next, t, at, 1);
    report("inherit_entry_for_a_sender", n);
    for (uint32_t i = 0; i < n; i++)
        if (next->special[i].turn != 1) exit(2);
    route_table_free(t);
    route_table_free(next);
}

static void owners(uint32_t n)
{
    uint8_t *text = (uint8_t *) malloc(32ull * n);
    uint32_t *start = (uint32_t *) calloc(n + 1, sizeof *start), *owner = (uint32_t *) calloc(n, sizeof *owner);
    for (uint32_t i = 0; i < n; i++) start[i + 1] = start[i] + spell(text + start[i], i);
    counting = true;
    route_owners *o = route_owners_build(7, text, start, owner, n, 1);
    report("build_map_per_owner", n);
    counting = true;
    for (uint32_t i = 0; i < n; i++)
        if (!route_owner_of(o, 7, text + start[i], start[i + 1] - start[i])) exit(2);
    report("find_owner", n);
    route_owners_free(o);
}

/* A checkpoint with n free entries, each in a list of its own. */
static void restored(core_router *c, uint32_t n)
{
    const image_pool pool = {.pool = 1, .chunks = (n + POOL_CHUNK - 1) / POOL_CHUNK};
    if (checkpoint_restore(c, ENTRY_POOL, (const uint8_t *) &pool, sizeof pool)) exit(2);
    counting = true;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t numbers[] = {1, 0, i, 1};
        if (checkpoint_restore(c, ENTRY_FREE, (const uint8_t *) numbers, sizeof numbers)) exit(2);
    }
    report("restore_free", n);
}

int main(int argc, char **argv)
{
    const uint32_t n = argc > 1 ? (uint32_t) atoi(argv[1]) : 1000;
    links(router(), n, T_BALANCED, (const char *const[2]) {"attach_receiver", "detach_receiver"});
    links(router(), n, T_MULTICAST, (const char *const[2]) {"attach_to_multicast", "detach_from_multicast"});
    senders(router(), n);
    choices(router(), n, T_BALANCED, "choose_balanced");
    choices(router(), n, T_CLOSEST, "choose_closest");
    multicast(router(), n);
    turns_of_many(router(), 10 * n);   /* more than a portion, also with few */
    turn_of_the_last_piece(router(), 10 * n);
    deliveries(router(), n);
    death(router(), n);
    spellings(router(), n);
    parked(router(), n);
    pairs(router(), n);
    tables(n);
    entries_for_senders(n);
    owners(n);
    restored(router(), n);
    return 0;
}
