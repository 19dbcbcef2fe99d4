/* The message log (message_log.py): Python gets the beginning of each message of a connection with logged messages.
 * Other connections cost a check of one flag per message.
 */
#include <string.h>

#include "workers/amqp/amqp.h"

/* The octets of the sections that are there as a whole.  An array may claim thousands of elements that have no octets:
 * Python would make an object of each, and text of it. */
static uint32_t message_sound(const message_seen *m)
{
    uint32_t at = 0;
    for (size_t n; (n = lane_value_sound(m->bytes + at, m->bytes + m->length)) != AMQP_WRONG; at += (uint32_t) n) { }
    return at;
}

/* Copies the beginning of a chain's message, as far as it has arrived. */
static void message_tell(pump *p, worker_link *k, const arena_view *v, uint32_t head, bool sent)
{
    message_seen m = { .sent = sent };
    const arena_content *c = arena_content_of(v, head);
    uint64_t limit = c ? chain_length(c) : 0;
    arena_reader r;
    uint32_t n;
    const uint8_t *from;
    if (limit > MESSAGE_SEEN_BYTES) limit = MESSAGE_SEEN_BYTES;
    chain_open(&r, head);
    while ((from = chain_read(v, &r, limit, &n)) && n) {
        memcpy(m.bytes + m.length, from, n);
        m.length += n;
        chain_advance(&r, n);
    }
    m.length = message_sound(&m);
    p->on_event(p->self, EV_MESSAGE, k->conn, k, &m, NULL);
}

/* Passes the beginning of a received or sent message to Python. */
PRIVATE inline void message_log(pump *p, worker_link *k, const arena_view *v, uint32_t head, bool sent)
{
    if (__builtin_expect(k->conn->messages_logged, 0)) message_tell(p, k, v, head, sent);
}
