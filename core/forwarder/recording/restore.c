/* The tables that a checkpoint describes, in a core that has none yet.
 *
 * A recording is a file from anywhere: every number in it is checked before it is used, no entry is placed twice, and
 * lists are built by what builds them in a running core.
 */
#include "core/forwarder/recording/image.h"
#include "core/forwarder/recording/recording.h"

/* ---- entries of pools ---- */

/* A place of a pool that nothing has taken yet; NULL: there is none of this number, or it is taken. */
static pool_node *place(const core_pool *p, image_node node)
{
    if (node.index >= pool_size(p) || !node.generation) return NULL;
    pool_node *n = pool_at(p, node.index);
    if (n->generation) return NULL;
    n->index = node.index;
    n->generation = node.generation;
    return n;
}

PRIVATE void *restored_place(core_pool *p, image_node node)
{
    pool_node *n = place(p, node);
    if (!n) return NULL;
    n->next_free = n;
    p->live++;
    return n;
}

static const char *take_pool(core_router *c, const image_pool *image)
{
    core_pool *p = restored_pool(c, image->pool);
    REFUSE(!p || p->chunks || image->chunks > IMAGE_CHUNKS_MOST || image->bare > image->chunks,
           "a pool has no such size");
    p->floor = image->floor ? image->floor : 1;
    p->futile = image->futile;
    p->slack = image->slack;
    p->chunk = (uint8_t **) calloc(image->chunks + 1u, sizeof *p->chunk);
    p->bare_at = (uint32_t *) calloc(image->chunks + 1u, sizeof *p->bare_at);
    REFUSE(!p->chunk || !p->bare_at, "there is no memory for its tables");
    p->room = image->chunks + 1;
    for (; p->chunks < image->chunks; p->chunks++) {
        void *fresh = NULL;
        REFUSE(posix_memalign(&fresh, 4096, (size_t) p->entry_bytes * POOL_CHUNK), "there is no memory for its tables");
        memset(fresh, 0, (size_t) p->entry_bytes * POOL_CHUNK);
        p->chunk[p->chunks] = (uint8_t *) fresh;
    }
    return NULL;
}

/* Free entries, the first one last until all are known (restored.c), or chunks without memory. */
static const char *take_free(core_router *c, const uint32_t *number, uint32_t count)
{
    core_pool *p = restored_pool(c, number[0]);
    REFUSE(!p, "free entries are of no pool");
    if (number[1]) {
        for (uint32_t i = 2; i < count; i++) {
            REFUSE(number[i] >= p->chunks || p->bare >= p->chunks, "a pool has no such chunk");
            p->bare_at[p->bare++] = number[i];
        }
        return NULL;
    }
    for (uint32_t i = 2; i + 1 < count; i += 2) {
        pool_node *n = place(p, (image_node) {number[i], number[i + 1]});
        REFUSE(!n, "an entry is there twice");
        n->next_free = p->free;
        p->free = n;
    }
    return NULL;
}

static const char *take_core(core_router *c, const image_core *image)
{
    REFUSE(!image->active || image->active > c->workers || image->turn >= image->active, "it has no such workers");
    c->held = image->held;
    c->active = image->active;
    c->turn = image->turn;
    c->network.radius = image->radius;
    for (uint32_t w = 0; w < c->workers; w++) c->worker[w].gone = image->gone[w] != 0;
    c->text_length = image->agent;     /* until the addresses are known: checkpoint_restored */
    c->text_scope = image->exit;
    c->scratch.link = image->border;
    return NULL;
}

static const char *take_address(core_router *c, const image_address *image)
{
    REFUSE(image->treatment > T_FLOOD || image->priority > 9 || image->priority < -1 || image->phase > 9
           || image->out_room >= 1u << 16, "an address makes no sense");
    core_address *a = (core_address *) restored_place(&c->addresses, image->node);
    REFUSE(!a, "an address is there twice");
    a->treatment = image->treatment;
    a->priority = image->priority;
    a->phase = image->phase;
    a->unlisted = image->unlisted;
    a->redirects = image->redirects;
    a->rotate = image->rotate;
    a->holds = image->holds;
    a->deliveries = image->deliveries;
    a->epoch = image->fallback;        /* until all addresses are known */
    a->out_room = image->out_room;
    a->out = (core_link **) calloc(a->out_room + 1u, sizeof *a->out);
    REFUSE(!a->out, "there is no memory for its tables");
    return NULL;
}

static void link_numbers(core_link *l, const image_link *image)
{
    l->granted = image->granted;
    l->deliveries = image->deliveries;
    l->capacity = image->capacity;
    l->owed = image->owed;
    l->counts.tick = image->tick;
    l->counts.cycle = image->cycle;
    l->growth = image->growth;
    l->settles = image->flags & IMAGE_SETTLES;
    l->draining = image->flags & IMAGE_DRAINING;
    l->annotated = image->flags & IMAGE_ANNOTATED;
    l->container = image->flags & IMAGE_CONTAINER;
    l->fallback = image->flags & IMAGE_FALLBACK;
    l->bounded = image->flags & IMAGE_BOUNDED;
    l->far = image->flags & IMAGE_FAR;
    l->by_peer = image->flags & IMAGE_BY_PEER ? UINT8_MAX : 0;
    l->to_table = image->flags & IMAGE_TO_TABLE;
    if (l->outgoing) return;
    l->withheld = image->withheld;
    l->scope = image->scope;
    if (!l->address) l->connection = image->connection;
}

static const char *take_link(core_router *c, const image_link *image)
{
    core_address *a = (core_address *) restored_entry(&c->addresses, image->address);
    const bool routed = image->kind == LINK_ROUTED, outgoing = image->flags & IMAGE_OUTGOING;
    const bool bare = routed || image->kind - 1u < 3u;      /* it has no address */
    REFUSE(image->worker > c->workers || image->growth > CREDIT_EBBS || image->kind > LINK_ROUTED
           || (image->address && !a) || (bare && a) || (!bare && outgoing && !a)
           || (outgoing && image->growth != CREDIT_FIXED)       /* `withheld` stands where `rank` does */
           || (image->flags & IMAGE_TO_TABLE && (outgoing || !a)), "a link makes no sense");
    REFUSE(image->growth != CREDIT_FIXED && image->capacity < ROUTERD_LINK_CREDIT, "a link has no such credit");
    core_worker *k = &c->worker[image->worker];
    REFUSE(image->link >= CORE_MAX_LINKS || link_find(c, image->worker, image->link, image->link_gen)
           || (image->link < k->link_room && k->link[image->link]), "a link is there twice");
    core_link *l = (core_link *) restored_place(&c->links, image->node);
    REFUSE(!l, "a link is there twice");
    if (image->link >= k->link_room) {
        uint32_t room = k->link_room ? k->link_room : 64;
        while (room <= image->link) room *= 2;
        core_link **grown = (core_link **) realloc(k->link, sizeof *grown * room);
        REFUSE(!grown, "there is no memory for its tables");
        memset(grown + k->link_room, 0, sizeof *grown * (room - k->link_room));
        k->link = grown;
        k->link_room = room;
    }
    k->link[image->link] = l;
    l->link = image->link;
    l->link_gen = image->link_gen;
    l->worker = image->worker;
    l->kind = image->kind;
    l->outgoing = outgoing;
    l->address = a;
    l->leaving = true;                 /* until it is in its address's list */
    if (routed) l->flow = image->pair; /* until all links are known */
    link_numbers(l, image);
    return NULL;
}

static bool block_known(const core_router *c, uint8_t arena, uint32_t block)
{
    return arena <= c->workers && block < arena_blocks(&c->arena[arena]);
}

static const char *take_in(core_router *c, const image_in *image)
{
    core_link *l = (core_link *) restored_entry(&c->links, image->link);
    REFUSE((image->link && (!l || l->outgoing)) || !block_known(c, image->arena, image->block)
           || (image->detail != ROUTERD_NIL && !block_known(c, image->detail_arena, image->detail)),
           "an incoming delivery makes no sense");
    core_in *in = (core_in *) restored_place(&c->ins, image->node);
    REFUSE(!in, "an incoming delivery is there twice");
    in->peer = image->peer;
    in->length = image->length;
    in->consumed = image->consumed;
    in->near = image->near;
    in->arrived = image->arrived;
    in->block = image->block;
    in->ahead = image->ahead;
    in->open = image->open;
    in->state = image->state;
    in->detail = image->detail;
    in->flags = image->flags;
    in->arena = image->arena;
    in->detail_arena = image->detail_arena;
    in->extra = image->extra;
    if (!l) return NULL;
    link_add_in(l, in);
    if (l->by_peer) by_peer_note(c, in);
    return NULL;
}

static const char *take_out(core_router *c, const image_out *image)
{
    core_in *in = (core_in *) restored_entry(&c->ins, image->in);
    core_link *l = image->aside ? restored_waiting(c, image->link, image->aside)
        : (core_link *) restored_entry(&c->links, image->link);
    REFUSE(!in || !l || !l->outgoing || (image->aside == IMAGE_GROWING) != ((image->flags & OUT_GROWING) != 0)
           || (image->aside && !(image->flags & OUT_STREAM)) || (image->state && !state_is_terminal(image->state)),
           "an outgoing delivery makes no sense");
    core_out *out = (core_out *) restored_place(&c->outs, image->node);
    REFUSE(!out, "an outgoing delivery is there twice");
    out->peer = image->peer;
    out->progress = image->progress;
    out->state = image->state;
    out->flags = image->flags;
    out->priority = image->priority;
    out->routed = image->routed;
    link_add_out(l, out);
    in_add_copy(in, out);
    return NULL;
}

/* ---- lists ---- */

static const char *take_receiver(core_address *a, core_link *l)
{
    REFUSE(!l || l->address != a || !l->outgoing || !l->leaving || a->out_count >= a->out_room,
           "a receiver is not its address's");
    l->leaving = false;
    l->place = a->out_count;
    a->out[a->out_count++] = l;
    a->edges += l->edge != 0;
    return NULL;
}

static const char *take_sender(core_address *a, core_link *l)
{
    REFUSE(!l || l->address != a || l->outgoing || !l->leaving, "a sender is not its address's");
    l->leaving = false;
    l->next = a->in_links;
    if (l->next) l->next->prev = l;
    a->in_links = l;
    a->in_count++;
    return NULL;
}

static const char *take_copy(const core_in *in, core_out *out)
{
    REFUSE(!out || out->in != in, "a copy is of another message");
    in_drop_copy(out);
    in_add_copy(out->in, out);
    return NULL;
}

static const char *take_list(core_router *c, const uint32_t *number, uint32_t count)
{
    const core_pool *const of = number[0] == LIST_COPIES ? &c->ins : number[0] == LIST_IDLE ? &c->streams
        : &c->addresses;
    void *const owner = restored_entry(of, number[1]);
    core_address *a = of == &c->addresses ? (core_address *) owner : NULL;
    const char *wrong = owner ? NULL : "a list is of nothing";
    for (uint32_t i = 2; i < count && !wrong; i++) {
        core_link *l = of == &c->ins ? NULL : (core_link *) restored_entry(&c->links, number[i]);
        switch (number[0]) {
        case LIST_RECEIVERS: wrong = take_receiver(a, l); break;
        case LIST_SENDERS: wrong = take_sender(a, l); break;
        case LIST_RANKED: wrong = l && l->address == a && l->outgoing && !l->leaving && ranks_restore(a, l) ? NULL
            : "a receiver has no rank"; break;
        case LIST_COPIES: wrong = take_copy((const core_in *) owner, (core_out *) restored_entry(&c->outs, number[i]));
            break;
        case LIST_IDLE: wrong = restored_idle((core_streams *) owner, l); break;
        default: wrong = "a list is of an unknown kind";
        }
    }
    return wrong;
}

/* ---- spellings, payloads and blocks ---- */

/* A recording has the hash of a text in its place. */
static const char *take_alias(core_router *c, const image_alias *image)
{
    uint8_t text[STAND_IN_MOST];
    const uint32_t length = flight_stand_in(image->hash, image->about, text);
    core_address *a = (core_address *) restored_entry(&c->addresses, image->address);
    REFUSE(image->address && !a, "a spelling is of no address");
    REFUSE(!alias_insert(c, image->scope, text, length, a, image->agent != 0),
           "there is no memory for its tables");
    return NULL;
}

static const char *take_payloads(core_router *c, const uint32_t *number, uint32_t count)
{
    for (uint32_t i = 2; i + 1 < count; i += 2) {
        const uint32_t block = number[i], reader = number[i + 1];
        REFUSE(number[0] > c->workers || !block_known(c, (uint8_t) number[0], block) || !reader
               || reader > c->workers + 1 || payload_lent(c, (uint8_t) number[0], block, reader - 1),
               "a payload makes no sense");
        payload_track(c, (uint8_t) number[0], block, (uint8_t) (reader - 1));
    }
    return NULL;
}

/* What the core's arena has free, in the order in which it is taken.  The first such entry empties it. */
static const char *take_blocks(core_router *c, const uint32_t *number, uint32_t count)
{
    arena_owner *o = &c->own;
    if (number[0] == 0 && !c->scratch.length) {
        c->scratch.length = 1;         /* it is empty: see checkpoint_restored */
        memset(o->is_free, 0, arena_blocks(&o->view));
        o->free_count[0] = o->free_count[1] = 0;
    }
    for (uint32_t i = 2; i < count; i += number[0] == 2 ? 2 : 1) {
        REFUSE(number[i] >= arena_blocks(&o->view), "the core's arena has no such block");
        if (number[0] == 2 && i + 1 < count)
            atomic_store_explicit(&arena_at(&o->view, number[i])->next, number[i + 1], memory_order_relaxed);
        else if (number[0] > 1 || arena_is_large(&o->view, number[i]) != (number[0] == 1) || o->is_free[number[i]])
            return "a block of the core's arena makes no sense";
        else arena_free_one(o, number[i]);
    }
    return NULL;
}

/* ---- the whole ---- */

/* Takes one entry of a checkpoint: enum flight_entry and its octets, at a multiple of 4.  NULL, or what is wrong. */
GLUE const char *checkpoint_restore(core_router *c, uint32_t kind, const uint8_t *octets, uint32_t length)
{
    const uint32_t *number = (const uint32_t *) (const void *) octets, count = length / 4;
    switch (kind) {
    case ENTRY_CORE: TAKE(image_core, take_core);
    case ENTRY_POOL: TAKE(image_pool, take_pool);
    case ENTRY_ADDRESS: TAKE(image_address, take_address);
    case ENTRY_LINK: TAKE(image_link, take_link);
    case ENTRY_IN: TAKE(image_in, take_in);
    case ENTRY_OUT: TAKE(image_out, take_out);
    case ENTRY_ALIAS: TAKE(image_alias, take_alias);
    case ENTRY_STREAMS: case ENTRY_FAR: case ENTRY_BETWEEN: case ENTRY_ROUTER: case ENTRY_NEIGHBOUR: case ENTRY_TRANSIT:
    case ENTRY_EXCHANGE: case ENTRY_HOPS:
        return network_restore(c, kind, octets, length);
    default: break;
    }
    REFUSE(length % 4 || count < 2, "a list is too short");
    switch (kind) {
    case ENTRY_FREE: return take_free(c, number, count);
    case ENTRY_LIST: return take_list(c, number, count);
    case ENTRY_PAYLOADS: return take_payloads(c, number, count);
    case ENTRY_BLOCKS: return take_blocks(c, number, count);
    default: return "an entry is of an unknown kind";
    }
}
