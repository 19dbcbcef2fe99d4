/* What a message says of itself for the flow log, from what its worker found (record.h, content.h, workers/amqp/flow_extract.c).  Nothing of it is trusted. */
#ifndef ROUTERD_CORE_FLOW_DIGEST_H
#define ROUTERD_CORE_FLOW_DIGEST_H

#include "core/flow_log/flow_log.h"

#define TRACEPARENT 55u                /* octets: 00-TRACE-SPAN-FLAGS */

static inline int flow_nibble(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Lower-case hexadecimal, as W3C has it; false: it is something else, or zero. */
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
    if (flow_nibble(text[0]) < 0 || flow_nibble(text[1]) < 0 || (text[0] == 'f' && text[1] == 'f')) return false;      /* the version */
    if (text[2] != '-' || text[35] != '-' || text[52] != '-') return false;
    return flow_hex(text + 3, to->trace, sizeof to->trace) && flow_hex(text + 36, to->span, sizeof to->span);
}

/* An address of another type than 0, as `TYPE#NAME`: a list of the type, an octet, and the name, octets. */
static uint32_t flow_typed(const uint8_t *list, uint32_t size, uint8_t *to)
{
    uint32_t front = *list == 0xc0 ? 3 : 9, head;
    if (size < front + 2 || list[front] != 0x50) return 0;
    const uint8_t *name = list + front + 2;
    uint32_t left = size - front - 2;
    if (left < 2 || (*name != 0xa0 && *name != 0xb0)) return 0;
    head = *name == 0xa0 ? 2 : 5;
    if (left < head) return 0;
    uint32_t digits = (uint32_t) snprintf((char *) to, 5, "%u#", list[front + 1]);
    memcpy(to + digits, name + head, left - head);
    return digits + left - head;
}

/* The addresses of a list, as `A=>2#B`; what follows one that makes no sense is left out. */
static uint32_t flow_addresses(const uint8_t *p, const uint8_t *end, uint8_t *to)
{
    uint8_t *start = to;
    while (end - p >= 2) {
        uint32_t head = *p == 0xa1 || *p == 0xc0 ? 2 : *p == 0xb1 || *p == 0xd0 ? 5 : 0;
        if (!head || (uint32_t) (end - p) < head) break;
        uint32_t size = head == 2 ? p[1] : (uint32_t) p[1] << 24 | (uint32_t) p[2] << 16 | (uint32_t) p[3] << 8 | p[4];
        if (size > (uint32_t) (end - p) - head) break;
        uint8_t *before = to;
        if (to != start) { *to++ = '='; *to++ = '>'; }
        if (*p == 0xa1 || *p == 0xb1) {
            memcpy(to, p + head, size);
            to += size;
        } else {
            uint32_t length = flow_typed(p, head + size, to);
            if (!length) { to = before; break; }
            to += length;
        }
        p += head + size;
    }
    return (uint32_t) (to - start);
}

/* A route that stands in a message as a list; 0: there is none, or it is longer than any may be. */
static uint32_t flow_route(core_router *c, core_flow *f, const core_in *in, uint32_t offset)
{
    const arena_view *v = &c->arena[in->arena];
    uint8_t list[FLOW_PATH], text[FLOW_PATH + 1];          /* no address is longer than its encoding; what ends the digits of a type */
    if (!offset || !content_copy(v, in->block, offset, list, 3, CONTENT_HOPS)) return 0;
    uint32_t front = *list == 0xc0 ? 3 : *list == 0xd0 ? 9 : 0, size;
    if (!front || !content_copy(v, in->block, offset, list, front, CONTENT_HOPS)) return 0;
    size = front == 3 ? 2u + list[1] : 5u + ((uint32_t) list[1] << 24 | (uint32_t) list[2] << 16 | (uint32_t) list[3] << 8 | list[4]);
    if (size < front || size > sizeof list || !content_copy(v, in->block, offset, list, size, CONTENT_HOPS)) return 0;
    size = flow_addresses(list + front, list + size, text);
    return size ? flow_name(f, text, size) : 0;
}

__attribute__((noinline)) static void flow_digest(core_router *c, core_flow *f, const core_in *in, core_note *note)
{
    const arena_view *v = &c->arena[in->arena];
    const arena_content *content = arena_content_of(v, in->block);
    uint8_t trace[TRACEPARENT];
    if (!content) return;
    const content_digest d = content->digest;
    note->of.known = (uint8_t) (KNOWN_DIGEST | (d.body ? KNOWN_BODY : 0));
    note->of.message = d.message;
    note->of.front = d.body;
    note->of.delivery_count = d.delivery_count;
    if (__builtin_expect(!(d.trace | d.transaction | d.onward | d.back), 1)) return;
    if (d.trace && content_copy(v, in->block, d.trace, trace, TRACEPARENT, CONTENT_HOPS) && flow_trace(trace, &note->more)) note->of.known |= KNOWN_TRACE;
    if (d.transaction && content_copy(v, in->block, d.transaction, note->more.transaction, sizeof note->more.transaction, CONTENT_HOPS)) note->of.known |= KNOWN_TRANSACTION;
    if (!(d.onward | d.back)) return;
    note->more.onward = flow_route(c, f, in, d.onward);
    note->more.back = flow_route(c, f, in, d.back);
    note->of.known |= KNOWN_ROUTE;
}

/* What a message's worker has found of it: most messages' records say all, so that nothing of the message is read. */
static inline void flow_told(core_router *c, core_flow *f, const core_in *in, core_note *note, const routerd_record *r)
{
    if (__builtin_expect(r->flags & F_BRIEF, F_BRIEF)) {
        note->of.known = (uint8_t) (KNOWN_DIGEST | (r->credit ? KNOWN_BODY : 0));
        note->of.message = r->delivery;
        note->of.front = r->credit;
        note->of.delivery_count = (uint16_t) r->extra;
    } else if (r->flags & F_DIGEST) {
        flow_digest(c, f, in, note);
    }
}

#endif
