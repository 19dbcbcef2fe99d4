/* Reads flow extracts, which workers found in messages (record.h, content.h, workers/amqp/flow_extract.c).  Nothing in
 * them is trusted. */
#include <stdio.h>

#include "core/flow_log/flow_log.h"
#include "core/forwarder/tables/planes.h"
#include "shm/codec/amqp.h"

#define TRACEPARENT 55u                /* octets: 00-TRACE-SPAN-FLAGS */

static inline int flow_nibble(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads lower-case hexadecimal digits.  False: some are none, or all are zero. */
static inline bool flow_hex(const uint8_t *text, uint8_t *to, uint32_t size)
{
    uint8_t any = 0;
    for (uint32_t i = 0; i < size; i++) {
        int high = flow_nibble(text[2 * i]), low = flow_nibble(text[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        any |= to[i] = (uint8_t) (high << 4 | low);
    }
    return any;
}

static bool flow_trace(const uint8_t *text, telemetry_more *to)
{
    /* Version ff is invalid (W3C Trace Context 3.2.2.1). */
    if (flow_nibble(text[0]) < 0 || flow_nibble(text[1]) < 0 || (text[0] == 'f' && text[1] == 'f')) return false;
    if (text[2] != '-' || text[35] != '-' || text[52] != '-') return false;
    return flow_hex(text + 3, to->trace, sizeof to->trace) && flow_hex(text + 36, to->span, sizeof to->span);
}

/* Whether a span is made of a message with this traceparent: its sampled flag (W3C Trace Context 3.2.2.5.1), and the
 * low octets of its trace-id, as OpenTelemetry's TraceIdRatioBased samples. */
static bool flow_sampled(const core_flow *f, const uint8_t *text, const telemetry_more *of)
{
    int high = flow_nibble(text[53]), low = flow_nibble(text[54]);
    return f->spans && high >= 0 && low >= 0 && (low & 1 || f->unflagged) && be64(of->trace + 8) <= f->spans;
}

/* Writes an address as text or as `TYPE#NAME`: it is a string or symbol, or a list of a type, 0 to 255, and a binary
 * name.  Returns the length; -1: it is no address. */
static int64_t flow_address(amqp_value address, uint8_t *to)
{
    amqp_octets text = amqp_text(address);
    amqp_cursor pair;
    uint32_t count, digits = 0;
    int64_t type = 0;
    if (!text.at) {
        if (!amqp_list(address, &pair, &count) || count != 2) return -1;
        amqp_value kind = amqp_next(&pair), name = amqp_next(&pair);
        if (!name.at || !amqp_integer(kind, &type) || type < 0 || type > 255 || !(text = amqp_binary(name)).at)
            return -1;
        digits = (uint32_t) snprintf((char *) to, 5, "%u#", (unsigned) type);
    }
    memcpy(to + digits, text.at, text.size);
    return digits + text.size;
}

/* Writes the addresses of a list as `A=>2#B`, up to the first that is invalid.  Returns the length. */
static uint32_t flow_addresses(amqp_cursor *items, uint8_t *to)
{
    uint8_t *start = to;
    for (amqp_value address; (address = amqp_next(items)).at;) {
        uint32_t arrow = to == start ? 0 : 2;
        int64_t length = flow_address(address, to + arrow);
        if (length < 0) break;
        if (arrow) memcpy(to, "=>", arrow);
        to += arrow + length;
    }
    return (uint32_t) (to - start);
}

/* Returns the name of a route, which is a list in the message; 0: there is none, or it is too long. */
static uint32_t flow_route(core_router *c, core_flow *f, const core_in *in, uint32_t offset)
{
    const arena_view *v = &c->arena[in->arena];
    /* An address is no longer than its encoding; one octet more holds the NUL of snprintf. */
    uint8_t list[FLOW_PATH], text[FLOW_PATH + 1];
    amqp_cursor items;
    uint32_t count;
    if (!offset || !content_copy(v, in->block, offset, list, 1, CONTENT_HOPS) || !amqp_is_list(*list)
        || *list == AMQP_LIST0) return 0;
    uint32_t head = amqp_head(*list);
    if (!content_copy(v, in->block, offset, list, head, CONTENT_HOPS)) return 0;
    size_t size = amqp_size(list, list + head, 0);
    if (size > sizeof list || !content_copy(v, in->block, offset, list, (uint32_t) size, CONTENT_HOPS)) return 0;
    if (!amqp_list((amqp_value) { list, size }, &items, &count)) return 0;
    uint32_t length = flow_addresses(&items, text);
    return length ? flow_name(f, text, length) : 0;
}

__attribute__((noinline)) static void flow_note_extract(core_router *c, core_flow *f, const core_in *in,
                                                        core_note *note)
{
    const arena_view *v = &c->arena[in->arena];
    const arena_content *content = arena_content_of(v, in->block);
    uint8_t trace[TRACEPARENT];
    if (!content) return;
    const content_extract d = content->extract;
    note->of.known = (uint8_t) (KNOWN_EXTRACT | (d.body ? KNOWN_BODY : 0));
    note->of.message = d.message;
    note->of.front = d.body;
    note->of.delivery_count = d.delivery_count;
    if (__builtin_expect(!(d.trace | d.transaction | d.onward | d.back), 1)) return;
    if (d.trace && content_copy(v, in->block, d.trace, trace, TRACEPARENT, CONTENT_HOPS)
        && flow_trace(trace, &note->more)) {
        note->of.known |= KNOWN_TRACE;
        if (flow_sampled(f, trace, &note->more)) note->of.known |= KNOWN_SPAN;
    }
    if (d.transaction && content_copy(v, in->block, d.transaction, note->more.transaction,
                                      sizeof note->more.transaction, CONTENT_HOPS)) note->of.known |= KNOWN_TRANSACTION;
    if (!(d.onward | d.back)) return;
    note->more.onward = flow_route(c, f, in, d.onward);
    note->more.back = flow_route(c, f, in, d.back);
    note->of.known |= KNOWN_ROUTE;
    note->of.marks = (uint8_t) (d.state <= MARK_STATE / MARK_STATE_1 ? d.state * MARK_STATE_1 : 0);
}

/* Notes what the worker found in a message.  Most records say all of it, and the message itself is not read. */
PRIVATE inline void flow_note_report(core_router *c, core_flow *f, const core_in *in, core_note *note,
                                     const routerd_record *r)
{
    if (__builtin_expect(r->flags & F_BRIEF, F_BRIEF)) {
        note->of.known = (uint8_t) (KNOWN_EXTRACT | (r->credit ? KNOWN_BODY : 0));
        note->of.message = r->delivery;
        note->of.front = r->credit;
        note->of.delivery_count = (uint16_t) r->extra;
    } else if (r->flags & F_EXTRACT) {
        flow_note_extract(c, f, in, note);
    }
}
