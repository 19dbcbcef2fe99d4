/* The network that a checkpoint describes (network.c), in a core that has none yet. */
#include "core/forwarder/recording/image.h"
#include "core/forwarder/recording/recording.h"

/* A text of so many zeros; NULL: there is none, or no memory for it. */
static core_text *take_text(const core_router *c, const image_text *image, const char **wrong)
{
    static const uint8_t nothing[CORE_MAX_TEXT];
    if (!image->there || *wrong) return NULL;
    if (image->length > CORE_MAX_TEXT || (image->block != ROUTERD_NIL && image->block >= arena_blocks(&c->own.view))) {
        *wrong = "a text makes no sense";
        return NULL;
    }
    core_text *t = text_new(nothing, image->length);
    if (t) t->block = image->block;
    else *wrong = "there is no memory for its tables";
    return t;
}

static const char *take_streams(core_router *c, const image_node *image)
{
    core_streams *k = (core_streams *) restored_place(&c->streams, *image);
    REFUSE(!k, "links for streams are there twice");
    REFUSE(!stream_begin_waiting(c, k), "there is no memory for its tables");
    return NULL;
}

static const char *take_far(core_router *c, const image_far *image)
{
    const char *wrong = NULL;
    core_address *a = (core_address *) restored_entry(&c->addresses, image->address);
    REFUSE(!a || a->text || a->outstanding, "what routers know of an address makes no sense");
    a->text = take_text(c, &image->text, &wrong);
    a->turn = image->turn;
    a->remotes = image->remotes;
    a->outstanding = (uint32_t *) calloc(NODES, sizeof *a->outstanding);
    REFUSE(!a->outstanding, "there is no memory for its tables");
    return wrong;
}

static const char *take_between(core_router *c, const image_between *image)
{
    const char *wrong = NULL;
    core_link *l = (core_link *) restored_entry(&c->links, image->link);
    REFUSE(!l || l->edge || l->kind == LINK_ROUTED || (image->edge != 0) != (l->kind == LINK_EDGE)
           || (image->streams && !l->outgoing) || (image->text.there && l->outgoing)
           || (l->outgoing ? l->streams != 0 : l->text != NULL), "a link between routers makes no sense");
    l->edge = image->edge;
    l->neighbour = image->neighbour;
    l->wants_override = image->wants_override != 0;
    if (!l->outgoing) {
        l->text = take_text(c, &image->text, &wrong);
        return wrong;
    }
    l->streams = image->streams;
    core_streams *k = (core_streams *) pool_find(&c->streams, image->streams);
    if (k && l->kind == LINK_STREAM) k->count++;
    return NULL;
}

static const char *take_router(core_router *c, const image_router *image)
{
    REFUSE(image->bit >= NODES || image->next_hop < -1 || image->next_hop >= (int) NODES || image->neighbour < -1
           || image->neighbour >= (int) NEIGHBOURS || c->network.node[image->bit].known, "a router makes no sense");
    c->network.node[image->bit] = (core_node) {.known = true, .cost = image->cost, .next_hop = image->next_hop,
        .neighbour = image->neighbour, .valid_origins = image->valid_origins, .length = 1,
        .text = {(uint8_t) (image->bit + 1)}};
    return NULL;
}

/* The link of a neighbour; NULL: there is none. */
static core_link *take_hop(const core_router *c, uint32_t number, uint32_t place, enum core_link_kind kind,
                           const char **wrong)
{
    core_link *l = (core_link *) restored_entry(&c->links, number);
    if (number && (!l || !l->outgoing || l->kind != kind || l->neighbour != place))
        *wrong = "a neighbour's link makes no sense";
    return l;
}

static const char *take_neighbour(core_router *c, const image_neighbour *image)
{
    const char *wrong = NULL;
    REFUSE(image->place >= NEIGHBOURS || c->network.neighbour[image->place].taken, "a neighbour is there twice");
    core_neighbour *k = &c->network.neighbour[image->place];
    *k = (core_neighbour) {.taken = true, .streams = image->streams, .abroad = image->abroad != 0};
    c->network.abroad += k->abroad;
    k->control = take_hop(c, image->control, image->place, LINK_CONTROL, &wrong);
    for (uint32_t p = 0; p < ROUTERD_PRIORITIES; p++)
        k->data[p] = take_hop(c, image->data[p], image->place, LINK_DATA, &wrong);
    return wrong;
}

/* ---- exchanges: hops follow their exchange, and what matches is the recording's to say ---- */

static const char *take_exchange(core_router *c, const image_exchange *image)
{
    core_address *a = (core_address *) restored_entry(&c->addresses, image->address);
    REFUSE(!a || a->exchange || image->hops > FLIGHT_OCTETS_MOST
           || (image->alternate != EXCHANGE_NONE && image->alternate >= image->hops), "an exchange makes no sense");
    core_exchange *x = exchange_new(c, '.', 1, 0, image->hops, 0);
    REFUSE(!x, "there is no memory for its tables");
    a->exchange = x;
    x->state = EXCHANGE_GIVEN;
    x->alternate = image->alternate;
    x->received = image->received;
    x->forwarded = image->forwarded;
    x->diverted = image->diverted;
    x->dropped = image->dropped;
    x->given_room = image->hops;       /* of hops, until they are all there: exchanges_restored */
    c->stop_worker = image->address;
    return NULL;
}

/* Hops of the exchange that came last. */
static const char *take_hops(core_router *c, const uint8_t *octets, uint32_t length)
{
    const core_address *of = (const core_address *) restored_entry(&c->addresses, c->stop_worker);
    REFUSE(!of || !of->exchange || length % sizeof(image_hop), "a hop is of no exchange");
    core_exchange *x = of->exchange;
    for (; length; length -= (uint32_t) sizeof(image_hop), octets += sizeof(image_hop)) {
        const char *wrong = NULL;
        image_hop image;
        memcpy(&image, octets, sizeof image);
        core_address *a = (core_address *) restored_entry(&c->addresses, image.address);
        REFUSE(!a || x->hop_count >= x->given_room, "a hop leads nowhere");
        core_text *t = take_text(c, &image.text, &wrong);
        REFUSE(wrong, wrong);
        x->hop[x->hop_count++] = (core_hop) {.address = a, .text = t};
    }
    return NULL;
}

/* The text of a hop, by its number among those of all exchanges; NULL: there is none. */
static core_text *hop_text(const core_router *c, uint32_t number)
{
    uint32_t at = 0;
    for (const core_address *a; number && (a = (const core_address *) pool_next(&c->addresses, &at));) {
        if (!a->exchange) continue;
        if (number <= a->exchange->hop_count) return a->exchange->hop[number - 1].text;
        number -= a->exchange->hop_count;
    }
    return NULL;
}

/* Adds to the number of those who hold an address, or takes from it. */
static void exchanges_hold(core_router *c, uint32_t one)
{
    uint32_t at = 0;
    for (core_address *a; (a = (core_address *) pool_next(&c->addresses, &at));) {
        if (!a->exchange) continue;
        a->holds += one;
        for (uint32_t i = 0; i < a->exchange->hop_count; i++) a->exchange->hop[i].address->holds += one;
    }
}

/* Checks that exchanges have their hops, and hold their addresses. */
PRIVATE const char *exchanges_restored(core_router *c)
{
    uint32_t at = 0;
    for (const core_address *a; (a = (const core_address *) pool_next(&c->addresses, &at));) {
        REFUSE(a->exchange && a->exchange->hop_count != a->exchange->given_room, "an exchange has not all of its hops");
        if (a->exchange) a->exchange->given_room = 0;
    }
    bool held = false;
    exchanges_hold(c, UINT32_MAX);
    for (at = 0; !held;) {
        const core_address *a = (const core_address *) pool_next(&c->addresses, &at);
        if (!a) break;
        held = a->holds;
    }
    exchanges_hold(c, 1);
    return held ? "an address is held by nobody" : NULL;
}

/* ---- copies ---- */

/* The text that a copy names by its owner; NULL: there is none. */
static core_text *named_text(const core_router *c, uint32_t named)
{
    const uint32_t number = named & ((1u << IMAGE_OWNER_SHIFT) - 1);
    const core_address *a = (const core_address *) restored_entry(&c->addresses, number);
    const core_link *l = (const core_link *) restored_entry(&c->links, number);
    const core_out *out = (const core_out *) restored_entry(&c->outs, number);
    switch (named >> IMAGE_OWNER_SHIFT) {
    case OWNER_HOP: return hop_text(c, number);
    case OWNER_ADDRESS: return a ? a->text : NULL;
    case OWNER_LINK: return l && !l->outgoing && l->kind != LINK_ROUTED ? l->text : NULL;
    default: return out && out->text && !out->text->owned ? out->text : NULL;
    }
}

static const char *take_transit(core_router *c, const image_transit *image)
{
    const char *wrong = NULL;
    core_out *out = (core_out *) restored_entry(&c->outs, image->out);
    const core_link *ordinary = (const core_link *) pool_find(&c->links, image->ordinary);
    REFUSE(!out || out->hop || out->text || image->hop >= NODES || (ordinary && !ordinary->outgoing),
           "a copy for another router makes no sense");
    core_text *t = image->text.there ? take_text(c, &image->text, &wrong) : named_text(c, image->named);
    if (t && image->text.there) t->owned = false;
    out->text = t;
    if (t) t->uses++;
    REFUSE(image->named && !t, wrong ? wrong : "a text is nobody's");
    out->hop = image->hop;
    out->address = image->address;
    out->ordinary = image->ordinary;
    return wrong;
}

/* ---- links for streams ---- */

/* The link to nobody on which copies wait; NULL: there is none of this kind and number. */
PRIVATE core_link *restored_waiting(const core_router *c, uint32_t number, uint8_t aside)
{
    core_streams *k = (core_streams *) restored_entry(&c->streams, number);
    return !k ? NULL : aside == IMAGE_WAITING ? k->waiting : aside == IMAGE_GROWING ? k->growing : NULL;
}

/* Idle links come in the order in which they are used, and are turned in the end.  Until then one that is idle names
 * itself as the one before: its address, which it lacks, has no list that it could be in. */
PRIVATE const char *restored_idle(core_streams *k, core_link *l)
{
    REFUSE(!k || !l || !l->outgoing || l->kind != LINK_STREAM || l->streams != pool_handle(k) || l->prev || l->outs
           || k->idle_count >= k->count, "an idle link makes no sense");
    l->next = k->idle;
    l->prev = l;
    k->idle = l;
    k->idle_count++;
    return NULL;
}

/* ---- the end ---- */

static void turn_idle(core_streams *k)
{
    core_link *first = NULL;
    while (k->idle) {
        core_link *l = k->idle;
        k->idle = l->next;
        l->next = first;
        l->prev = NULL;
        first = l;
    }
    k->idle = first;
}

/* Works out what follows from all entries together.  NULL, or what is wrong. */
PRIVATE const char *network_restored(core_router *c)
{
    core_network *n = &c->network;
    core_streams *k;
    uint32_t at = 0;
    for (const core_link *l; (l = (const core_link *) pool_next(&c->links, &at));)
        REFUSE(l->kind == LINK_EDGE && !l->edge, "an edge router's link is of no connection");
    at = 0;
    for (const core_out *out; (out = (const core_out *) pool_next(&c->outs, &at));) {
        core_address *a = out->hop ? (core_address *) pool_find(&c->addresses, out->address) : NULL;
        if (a && a->outstanding && !(out->in->flags & IN_PRESETTLED)) a->outstanding[out->hop]++;
    }
    for (at = 0; (k = (core_streams *) pool_next(&c->streams, &at));) turn_idle(k);
    n->epoch = 1;                      /* every address has another one: it looks for its nearest routers again */
    n->reachable = network_within(n);
    at = 0;
    for (core_address *a; (a = (core_address *) pool_next(&c->addresses, &at));) {
        const core_mask within = mask_both(a->remotes, n->reachable);
        a->reached = mask_any(&within);
    }
    return NULL;
}

/* Takes an entry of kinds that are of a network.  NULL, or what is wrong. */
PRIVATE const char *network_restore(core_router *c, uint32_t kind, const uint8_t *octets, uint32_t length)
{
    switch (kind) {
    case ENTRY_STREAMS: TAKE(image_node, take_streams);
    case ENTRY_FAR: TAKE(image_far, take_far);
    case ENTRY_BETWEEN: TAKE(image_between, take_between);
    case ENTRY_ROUTER: TAKE(image_router, take_router);
    case ENTRY_NEIGHBOUR: TAKE(image_neighbour, take_neighbour);
    case ENTRY_EXCHANGE: TAKE(image_exchange, take_exchange);
    case ENTRY_HOPS: return take_hops(c, octets, length);
    default: TAKE(image_transit, take_transit);
    }
}
