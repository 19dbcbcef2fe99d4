/* What a checkpoint has of a network: routers, connections to neighbours, links for streams, what addresses and links
 * have to do with them, and copies on their way to other routers.
 *
 * A text that other routers are told is named by its owner, an address or an incoming link; one whose owner is gone by
 * the first copy that names it.  Its octets are no part of a checkpoint: nothing but its length matters to a replay.
 */
#include "core/forwarder/recording/image.h"
#include "core/forwarder/recording/recording.h"

static image_text text_image_as(core_text *t, enum image_owner owner, uint32_t number)
{
    if (!t) return (image_text) {.block = ROUTERD_NIL};
    t->named = (uint32_t) owner << IMAGE_OWNER_SHIFT | number;
    return (image_text) {.there = 1, .length = t->length, .block = t->block};
}

static image_text text_image(core_text *t, enum image_owner owner, const void *entry)
{
    return text_image_as(t, owner, image_number(entry));
}

/* An exchange's hops; `before`: those of others.  Returns the number of both together. */
static uint32_t put_exchange(core_router *c, const core_address *a, uint32_t before)
{
    const core_exchange *x = a->exchange;
    image_hop part[IMAGE_HOPS];
    const image_exchange image = {.received = x->received, .forwarded = x->forwarded, .diverted = x->diverted,
        .dropped = x->dropped, .address = image_number(a), .hops = x->hop_count, .alternate = x->alternate};
    image_put(c, ENTRY_EXCHANGE, &image, sizeof image);
    for (uint32_t i = 0; i < x->hop_count;) {
        uint32_t count = 0;
        for (; i < x->hop_count && count < IMAGE_HOPS; i++)
            part[count++] = (image_hop) {.address = image_number(x->hop[i].address),
                .text = text_image_as(x->hop[i].text, OWNER_HOP, before + i + 1)};
        image_put(c, ENTRY_HOPS, part, count * sizeof *part);
    }
    return before + x->hop_count;
}

/* Lines that its entries take at most. */
PRIVATE uint64_t exchange_lines(const core_exchange *x)
{
    return 4 + x->hop_count / IMAGE_HOPS + x->hop_count * sizeof(image_hop) / FLIGHT_MORE_OCTETS;
}

static void put_far_address(core_router *c, const core_address *a)
{
    if (!a->text && !mask_any(&a->remotes)) return;
    const image_far image = {.address = image_number(a), .turn = a->turn, .remotes = a->remotes,
        .text = text_image(a->text, OWNER_ADDRESS, a)};
    image_put(c, ENTRY_FAR, &image, sizeof image);
}

static void put_between(core_router *c, const core_link *l)
{
    const bool text = !l->outgoing && l->text, streams = l->outgoing && l->streams;
    if (!link_inter_router(l) && !l->edge && !text && !streams) return;
    const image_between image = {.link = image_number(l), .edge = l->edge, .streams = streams ? l->streams : 0,
        .text = text_image(text ? l->text : NULL, OWNER_LINK, l), .neighbour = l->neighbour,
        .wants_override = l->wants_override};
    image_put(c, ENTRY_BETWEEN, &image, sizeof image);
}

static void put_routers(core_router *c)
{
    const core_network *n = &c->network;
    for (uint32_t bit = 0; bit < NODES; bit++) {
        const core_node *node = &n->node[bit];
        if (!node->known) continue;
        const image_router image = {.bit = bit, .cost = node->cost, .next_hop = node->next_hop,
            .neighbour = node->neighbour, .valid_origins = node->valid_origins};
        image_put(c, ENTRY_ROUTER, &image, sizeof image);
    }
    for (uint32_t place = 0; place < NEIGHBOURS; place++) {
        const core_neighbour *k = &n->neighbour[place];
        if (!k->taken) continue;
        image_neighbour image = {.place = place, .streams = k->streams, .control = image_number(k->control),
            .abroad = k->abroad};
        for (uint32_t p = 0; p < ROUTERD_PRIORITIES; p++) image.data[p] = image_number(k->data[p]);
        image_put(c, ENTRY_NEIGHBOUR, &image, sizeof image);
    }
}

/* Lines that the entries here take at most, beside those of links and addresses. */
PRIVATE uint64_t network_lines(const core_router *c)
{
    uint64_t lines = 2ull * c->streams.live + c->links.live / 16;
    for (uint32_t bit = 0; bit < NODES; bit++) lines += c->network.node[bit].known;
    for (uint32_t place = 0; place < NEIGHBOURS; place++) lines += c->network.neighbour[place].taken ? 2 : 0;
    return lines;
}

/* All but copies; links and addresses stand in front of it. */
PRIVATE void network_put(core_router *c)
{
    uint32_t at = 0, hops = 0;
    for (const core_address *a; (a = (core_address *) pool_next(&c->addresses, &at));)
        if (a->exchange) hops = put_exchange(c, a, hops);
    at = 0;
    for (const core_streams *k; (k = (core_streams *) pool_next(&c->streams, &at));) {
        const image_node image = image_node_of(k);
        image_put(c, ENTRY_STREAMS, &image, sizeof image);
    }
    at = 0;
    for (const core_address *a; (a = (core_address *) pool_next(&c->addresses, &at));) put_far_address(c, a);
    at = 0;
    for (const core_link *l; (l = (core_link *) pool_next(&c->links, &at));) put_between(c, l);
    put_routers(c);
    at = 0;
    for (core_out *out; (out = (core_out *) pool_next(&c->outs, &at));)
        if (out->text && !out->text->owned) out->text->named = 0;
}

/* What more there is of a copy than its own entry says. */
PRIVATE void network_put_out(core_router *c, const core_out *out)
{
    if (!out->hop && !out->text && !(out->flags & OUT_STREAM)) return;
    image_transit image = {.out = image_number(out), .hop = out->hop, .address = out->address,
        .ordinary = out->ordinary};
    core_text *t = out->text;
    if (t && !t->named) image.text = text_image(t, OWNER_COPY, out);
    if (t) image.named = t->named;
    image_put(c, ENTRY_TRANSIT, &image, sizeof image);
}
