/* Checkpoints: all that the forwarder's tables hold, so that a replay can begin in the middle of a core's life.
 *
 * One is written each time a quarter of the ring is full, between two turns, and may take an eighth of the ring, so the
 * ring always holds a whole one, and its cost is a small part of what was recorded since the last.  Messages wait
 * meanwhile, so it never takes more than LINES_MOST.  Tables that are larger have none: a replay then begins with the
 * core, as long as its first line is in the ring.
 */
#include "core/forwarder/recording/image.h"
#include "core/forwarder/recording/recording.h"

/* ---- whether there can be one ---- */

static bool queues_empty(const core_router *c)
{
    for (uint32_t w = 0; w <= c->workers; w++)
        if (c->worker[w].overflow.count) return false;
    return true;
}

/* Whether nothing is under way that a checkpoint does not describe, though the next turns may end it. */
static bool tables_rest(const core_router *c)
{
    return !c->fan_first && !c->tell_first && !c->park_first && !c->dirty && !c->ins.sweep && !c->outs.sweep
           && !c->links.sweep && !c->addresses.sweep && !c->streams.sweep && !c->held && queues_empty(c);
}

static bool address_known(const core_address *a)
{
    return (!a->routes || routes_fit(a->routes)) && a->out_room < 1u << 16;
}

/* Whether no route table's counts are on their way to the next one's. */
static bool routes_all_rest(const core_router *c)
{
    uint32_t at = 0;
    for (const core_address *a; (a = (const core_address *) pool_next(&c->addresses, &at));)
        if (a->routes && !routes_rest(a->routes)) return false;
    return true;
}

/* Whether the tables hold nothing that a checkpoint cannot describe. */
static bool tables_known(const core_router *c)
{
    uint32_t at = 0;
    for (const core_address *a; (a = (const core_address *) pool_next(&c->addresses, &at));)
        if (!address_known(a)) return false;
    return true;
}

/* Whether a checkpoint of the pools can be read again. */
static bool pools_fit(const core_router *c)
{
    const core_pool *const all[IMAGE_POOLS] = {&c->ins, &c->outs, &c->links, &c->addresses, &c->streams};
    for (uint32_t i = 0; i < IMAGE_POOLS; i++)
        if (all[i]->chunks > IMAGE_CHUNKS_MOST) return false;
    return true;
}

/* Lines that a checkpoint takes at most. */
static uint64_t lines_wanted(const core_router *c)
{
    const core_pool *const all[IMAGE_POOLS] = {&c->ins, &c->outs, &c->links, &c->addresses, &c->streams};
    uint64_t lines = 64 + 4ull * (c->ins.live + c->outs.live + c->links.live + c->addresses.live) + c->aliases.count;
    for (uint32_t i = 0; i < IMAGE_POOLS; i++) lines += pool_size(all[i]) / 7;
    for (uint32_t arena = 0; arena <= c->workers; arena++)
        if (c->payloads.reader[arena]) lines += 1 + c->payloads.count / 5;
    uint32_t at = 0;
    for (const core_address *a; (a = (const core_address *) pool_next(&c->addresses, &at));)
        lines += (a->routes ? routes_lines(a->routes) : 0) + (a->exchange ? exchange_lines(a->exchange) : 0);
    return lines + network_lines(c) + arena_blocks(&c->own.view) / 7;
}

/* ---- its parts ---- */

#define PART 4096u                     /* numbers of a list in one entry */

typedef struct { uint32_t count, number[PART + 2]; } list;

/* Adds a number to a list, which begins with two that say what it is; puts it if it is full. */
static inline void list_add(core_router *c, enum flight_entry kind, list *l, uint32_t one)
{
    if (l->count == PART + 2) {
        image_put(c, kind, l->number, l->count * sizeof *l->number);
        l->count = 2;
    }
    l->number[l->count++] = one;
}

static inline void list_begin(list *l, uint32_t what, uint32_t of)
{
    l->number[0] = what;
    l->number[1] = of;
    l->count = 2;
}

static inline void list_end(core_router *c, enum flight_entry kind, const list *l)
{
    if (l->count > 2) image_put(c, kind, l->number, l->count * sizeof *l->number);
}

static void put_core(core_router *c)
{
    image_core image = {.held = c->held, .active = c->active, .turn = c->turn,
        .agent = image_number(c->agent), .exit = image_number(c->exit),
        .radius = c->network.radius, .border = image_number(c->network.border)};
    for (uint32_t w = 0; w < ROUTERD_MAX_WORKERS + 2; w++) image.gone[w] = c->worker[w].gone;
    image_put(c, ENTRY_CORE, &image, sizeof image);
}

static void put_pool(core_router *c, uint32_t which, const core_pool *p)
{
    list l;
    const image_pool image = {.pool = which, .chunks = p->chunks, .floor = p->floor, .bare = p->bare,
        .futile = p->futile, .slack = p->slack};
    image_put(c, ENTRY_POOL, &image, sizeof image);
    list_begin(&l, which, 1);
    for (uint32_t i = 0; i < p->bare; i++) list_add(c, ENTRY_FREE, &l, p->bare_at[i]);
    list_end(c, ENTRY_FREE, &l);
    list_begin(&l, which, 0);
    for (const pool_node *n = p->free; n; n = n->next_free) {
        list_add(c, ENTRY_FREE, &l, n->index);
        list_add(c, ENTRY_FREE, &l, n->generation);
    }
    list_end(c, ENTRY_FREE, &l);
}

static void put_address(core_router *c, const core_address *a)
{
    const image_address image = {.node = image_node_of(a), .deliveries = a->deliveries, .rotate = a->rotate,
        .fallback = image_number(a->fallback), .holds = a->holds, .out_room = a->out_room, .priority = a->priority,
        .treatment = a->treatment, .phase = a->phase, .unlisted = a->unlisted, .redirects = a->redirects};
    image_put(c, ENTRY_ADDRESS, &image, sizeof image);
}

static uint16_t link_flags(const core_link *l)
{
    const bool flags[] = {l->outgoing, l->settles, l->draining, l->annotated, l->container, l->fallback, l->bounded,
        l->far, l->by_peer, l->to_table};
    uint16_t all = 0;
    for (uint32_t i = 0; i < sizeof flags; i++) all |= (uint16_t) (flags[i] << i);
    return all;
}

static void put_link(core_router *c, const core_link *l)
{
    const bool in = !l->outgoing;
    const image_link image = {.node = image_node_of(l), .granted = l->granted, .deliveries = l->deliveries,
        .link = l->link, .link_gen = l->link_gen, .address = image_number(l->address), .capacity = l->capacity,
        .withheld = in ? l->withheld : 0, .owed = l->owed, .scope = in ? l->scope : 0,
        .connection = in && !l->address ? l->connection : 0, .pair = l->kind == LINK_ROUTED ? image_number(l->pair) : 0,
        .tick = l->counts.tick, .cycle = l->counts.cycle, .flags = link_flags(l), .worker = l->worker,
        .kind = l->kind, .growth = l->growth};
    image_put(c, ENTRY_LINK, &image, sizeof image);
}

/* An address's receivers, its senders from the last on, and its receivers by how busy they are. */
static void put_lists(core_router *c, const core_address *a)
{
    list l;
    list_begin(&l, LIST_RECEIVERS, image_number(a));
    for (uint32_t i = 0; i < a->out_count; i++) list_add(c, ENTRY_LIST, &l, image_number(a->out[i]));
    list_end(c, ENTRY_LIST, &l);
    list_begin(&l, LIST_SENDERS, image_number(a));
    const core_link *from = a->in_links;
    while (from && from->next) from = from->next;
    for (; from; from = from->prev) list_add(c, ENTRY_LIST, &l, image_number(from));
    list_end(c, ENTRY_LIST, &l);
    if (!a->ranks) return;
    list_begin(&l, LIST_RANKED, image_number(a));
    for (uint32_t end = 0; end < 2; end++)
        for (uint32_t r = a->ranks->at[end].next; r != end; r = a->ranks->at[r].next)
            for (const core_link *to = a->ranks->at[r].first; to; to = to->next)
                list_add(c, ENTRY_LIST, &l, image_number(to));
    list_end(c, ENTRY_LIST, &l);
}

/* Idle links for streams, the next one first. */
static void put_idle(core_router *c)
{
    uint32_t at = 0;
    list l;
    for (const core_streams *k; (k = (const core_streams *) pool_next(&c->streams, &at));) {
        list_begin(&l, LIST_IDLE, image_number(k));
        for (const core_link *one = k->idle; one; one = one->next) list_add(c, ENTRY_LIST, &l, image_number(one));
        list_end(c, ENTRY_LIST, &l);
    }
}

static void put_in(core_router *c, const core_in *in)
{
    const image_in image = {.node = image_node_of(in), .peer = in->peer, .length = in->length, .consumed = in->consumed,
        .near = in->near, .arrived = in->arrived, .link = image_number(in->link), .block = in->block,
        .ahead = in->ahead, .open = in->open, .state = in->state, .detail = in->detail, .flags = in->flags,
        .arena = in->arena, .detail_arena = in->detail_arena, .extra = in->extra};
    image_put(c, ENTRY_IN, &image, sizeof image);
}

/* `aside`: it waits on a link to nobody. */
static void put_out(core_router *c, const core_out *out, enum image_aside aside)
{
    const void *on = aside ? pool_find(&c->streams, out->link->streams) : (const void *) out->link;
    const image_out image = {.node = image_node_of(out), .peer = out->peer, .progress = out->progress,
        .in = image_number(out->in), .link = image_number(on), .state = out->state, .flags = out->flags,
        .priority = out->priority, .routed = out->routed, .aside = (uint8_t) aside};
    image_put(c, ENTRY_OUT, &image, sizeof image);
    network_put_out(c, out);
}

/* Deliveries in the order of their links' lists, those without a link last; copies of one message
 * from the last on. */
static void put_deliveries(core_router *c)
{
    list l;
    uint32_t at = 0;
    for (const core_link *k; (k = (const core_link *) pool_next(&c->links, &at));)
        if (!k->outgoing) for (const core_in *in = k->ins; in; in = in->next) put_in(c, in);
    at = 0;
    for (const core_in *in; (in = (const core_in *) pool_next(&c->ins, &at));)
        if (!in->link) put_in(c, in);
    at = 0;
    for (const core_link *k; (k = (const core_link *) pool_next(&c->links, &at));)
        if (k->outgoing) for (const core_out *out = k->outs; out; out = out->next) put_out(c, out, 0);
    at = 0;
    for (const core_streams *k; (k = (const core_streams *) pool_next(&c->streams, &at));) {
        for (const core_out *out = k->waiting->outs; out; out = out->next) put_out(c, out, IMAGE_WAITING);
        for (const core_out *out = k->growing->outs; out; out = out->next) put_out(c, out, IMAGE_GROWING);
    }
    at = 0;
    for (const core_in *in; (in = (const core_in *) pool_next(&c->ins, &at));) {
        if (in->copy_count < 2) continue;
        list_begin(&l, LIST_COPIES, image_number(in));
        const core_out *out = in->copies;
        do list_add(c, ENTRY_LIST, &l, image_number(out = out->sibling_prev)); while (out != in->copies);
        list_end(c, ENTRY_LIST, &l);
    }
}

static void put_aliases(core_router *c)
{
    const core_alias_table *t = &c->aliases;
    for (uint32_t i = 0; i < t->room + t->split; i++)
        for (const core_alias *a = t->bucket[i]; a; a = a->chain) {
            const image_alias image = {.hash = a->hash, .scope = a->scope, .address = image_number(a->address),
                .agent = a->agent, .about = text_about_addresses(a->text, a->length)};
            image_put(c, ENTRY_ALIAS, &image, sizeof image);
        }
}

static void put_routes(core_router *c)
{
    uint8_t octets[ROUTES_PART];
    uint32_t at = 0, kind, length;
    for (const core_address *a; (a = (const core_address *) pool_next(&c->addresses, &at));) {
        routes_cursor k = {0};
        while (a->routes && (kind = routes_part(a->routes, &k, octets, &length)))
            image_put(c, (enum flight_entry) kind, octets, length);
    }
}

/* Payloads under way, and the blocks of the core's own arena: the free ones, and the one behind each of the others. */
static void put_blocks(core_router *c)
{
    list l;
    for (uint32_t arena = 0; arena <= c->workers; arena++) {
        const uint8_t *readers = c->payloads.reader[arena];
        list_begin(&l, arena, 0);
        for (uint32_t block = 0; readers && block < arena_blocks(&c->arena[arena]); block++) {
            if (!readers[block]) continue;
            list_add(c, ENTRY_PAYLOADS, &l, block);
            list_add(c, ENTRY_PAYLOADS, &l, readers[block]);
        }
        list_end(c, ENTRY_PAYLOADS, &l);
    }
    for (uint32_t large = 0; large < 2; large++) {
        list_begin(&l, large, 0);
        for (uint32_t i = 0; i < c->own.free_count[large]; i++)
            list_add(c, ENTRY_BLOCKS, &l, c->own.free_list[large][i]);
        list_end(c, ENTRY_BLOCKS, &l);
    }
    list_begin(&l, 2, 0);
    for (uint32_t block = 0; block < arena_blocks(&c->own.view); block++) {
        if (c->own.is_free[block]) continue;
        list_add(c, ENTRY_BLOCKS, &l, block);
        list_add(c, ENTRY_BLOCKS, &l, atomic_load_explicit(&arena_at(&c->own.view, block)->next, memory_order_relaxed));
    }
    list_end(c, ENTRY_BLOCKS, &l);
}

/* Writes a checkpoint if the tables rest and are known; a turn without one costs a comparison. */
__attribute__((noinline, cold)) PRIVATE void checkpoint_write(core_router *c)
{
    core_flight *f = c->flight;
    flight_header *h = f->header;
    const uint64_t lines = f->mask + 1;
    if (!tables_rest(c) || !routes_all_rest(c)) return;
    if (atomic_load_explicit(&h->blind, memory_order_relaxed) || !pools_fit(c) || lines_wanted(c) > checkpoint_room(f)
        || !tables_known(c)) {
        atomic_fetch_add_explicit(&h->skipped, 1, memory_order_relaxed);
        f->due = f->next + lines / 4;
        return;
    }
    const uint64_t first = f->next;
    flight_put(f, &(flight_line) {.type = FLIGHT_CHECKPOINT, .now = c->now});
    put_core(c);
    put_pool(c, 0, &c->ins);
    put_pool(c, 1, &c->outs);
    put_pool(c, 2, &c->links);
    put_pool(c, 3, &c->addresses);
    put_pool(c, 4, &c->streams);
    uint32_t at = 0;
    for (const core_address *a; (a = (const core_address *) pool_next(&c->addresses, &at));) put_address(c, a);
    at = 0;
    for (const core_link *l; (l = (const core_link *) pool_next(&c->links, &at));) put_link(c, l);
    network_put(c);
    put_deliveries(c);
    at = 0;
    for (const core_address *a; (a = (const core_address *) pool_next(&c->addresses, &at));) put_lists(c, a);
    put_idle(c);
    put_routes(c);
    put_aliases(c);
    put_blocks(c);
    flight_put(f, &(flight_line) {.type = FLIGHT_CHECKPOINT_END, .now = c->now});
    atomic_store_explicit(&h->checkpoint, first + 1, memory_order_release);
    atomic_fetch_add_explicit(&h->checkpoints, 1, memory_order_relaxed);
    f->due = f->next + lines / 4;
}
