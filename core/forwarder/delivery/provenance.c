/* Where a message has been: what routers on its way wrote into it, as bits of the node table.
 *
 * Nothing of it is trusted: it is text that a peer sent and a worker pointed at.  A link remembers what its last
 * message said, since the next one usually says the same.
 */
#include "core/forwarder/delivery/delivery.h"
#include "shm/codec/amqp.h"

static void provenance_parse(const core_network *n, const uint8_t *bytes, uint32_t ingress, uint32_t trace,
                             core_provenance *provenance)
{
    provenance->origin = ingress ? network_find(n, bytes, ingress) : 0;
    bytes += ingress;
    amqp_cursor entries = {bytes, bytes + trace};
    for (amqp_octets text; (text = amqp_string(amqp_next(&entries))).at;) {
        int bit = network_find(n, text.at, text.size);
        if (bit >= 0) mask_set(&provenance->trace, (uint32_t) bit);
    }
}

/* Reads origin and trace of a message that came over a link. */
PRIVATE void provenance_read(core_router *c, core_link *l, core_provenance *provenance)
{
    if (provenance->known) return;
    provenance->known = true;
    provenance->origin = -1;
    uint32_t from[2] = {provenance->content->ingress, provenance->content->trace};
    uint32_t size[2] = {provenance->content->ingress_length, provenance->content->trace_length};
    if (size[0] > PROVENANCE_BYTES || size[1] > PROVENANCE_BYTES - size[0]) return;
    uint8_t *bytes = c->buffer;
    for (int i = 0; i < 2; i++) {
        if (size[i] && !content_copy(&c->arena[l->worker], provenance->block, from[i], bytes, size[i], CONTENT_HOPS))
            return;
        bytes += size[i];
    }
    core_memo *m = l->memo;
    uint32_t all = size[0] + size[1];
    if (m && m->epoch == c->network.epoch && m->ingress_length == size[0] && m->trace_length == size[1]
        && all <= PROVENANCE_MEMO && !memcmp(m->bytes, c->buffer, all)) {
        provenance->origin = m->origin;
        provenance->trace = m->trace;
        return;
    }
    provenance_parse(&c->network, c->buffer, size[0], size[1], provenance);
    if (all > PROVENANCE_MEMO || !(m || (m = l->memo = (core_memo *) malloc(sizeof *m)))) return;
    *m = (core_memo) {.epoch = c->network.epoch, .ingress_length = size[0], .trace_length = size[1],
        .origin = provenance->origin, .trace = provenance->trace};
    memcpy(m->bytes, c->buffer, all);
}

/* Shows the flight recorder what a message says, which is read again when it is needed. */
__attribute__((noinline, cold)) PRIVATE void provenance_record(core_router *c, core_link *l, uint32_t block,
                                                               const arena_content *content)
{
    core_provenance read = {.known = content->annotations == ANNOTATIONS_NONE, .content = content, .block = block};
    provenance_read(c, l, &read);
    flight_routed(c, l->worker, block, content, read.origin, &read.trace);
}

/* Management is told where a receiver's deliveries came in; `origin` 0 or less: here, or not known. */
PRIVATE inline void origin_count(core_link *to, int origin)
{
    if (origin <= 0 || !(to->origins || (to->origins = (uint64_t *) calloc(NODES, sizeof *to->origins)))) return;
    to->origins[origin]++;
}

__attribute__((noinline)) PRIVATE void provenance_count(core_router *c, core_link *from, core_link *to,
                                                        const core_provenance *provenance)
{
    core_provenance read = *provenance;
    provenance_read(c, from, &read);
    origin_count(to, read.origin);
}
