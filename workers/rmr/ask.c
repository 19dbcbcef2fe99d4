/* Questions and answers between AMQP clients and RMR applications, each in the words of its own protocol.
 *
 *   a client asks an application    its reply-to and correlation-id (else its message-id) go along as the frame's trace
 *                                   data, which comes back with the reply; the router keeps nothing. A tag that only
 *                                   this router can make prevents that an application sends to any address.
 *   an application's call comes     the fields that the answer's header needs are the message's message-id, which a
 *   to a client                     client returns as correlation-id
 */
#include <string.h>

#include "workers/rmr/wire.h"
#include "shm/codec/utf8.h"

#define RMR_ASKED_TEXT 1000u           /* octets of a reply-to */
#define RMR_ASKED_ID 512u              /* octets of an id, as AMQP encodes it */
#define RMR_ASKED_HEAD 16u             /* magic, two lengths, tag */
#define RMR_ASKED_MAX (RMR_ASKED_HEAD + RMR_ASKED_TEXT + RMR_ASKED_ID)

static const uint8_t rmr_asked_magic[4] = { 0xf5, 'r', 't', 'q' };
static const uint8_t rmr_call_magic[4] = { 0xf5, 'r', 't', 'c' };

/* Fields 0 to 5 of a message's properties, `at` NULL where there are none. */
PRIVATE inline void rmr_ask_fields(amqp_value list, amqp_value field[6])
{
    amqp_cursor fields;
    uint32_t count;
    for (int i = 0; i < 6; i++) field[i] = (amqp_value) { NULL, 0 };
    if (!amqp_list(list, &fields, &count)) return;
    for (uint32_t i = 0; i < count && i < 6; i++) {
        if (!(field[i] = amqp_next(&fields)).at) return;
        if (*field[i].at == AMQP_NULL) field[i].at = NULL;
    }
}

/* Whom a message wants its answer to go to; length 0: nobody, or more than can go along, or no text, which a `to` must
 * be. */
PRIVATE inline rmr_asked rmr_ask_read(const amqp_value field[6])
{
    rmr_asked asked = { .length = 0 };
    amqp_value id = field[5].at ? field[5] : field[0];
    if (!field[4].at) return asked;
    amqp_octets to = amqp_string(field[4]);
    if (!to.size || to.size > RMR_ASKED_TEXT || !utf8_valid(to.at, to.size) || (id.at && id.size > RMR_ASKED_ID))
        return asked;
    asked.text = to.at;
    asked.length = to.size;
    asked.id = id.at;
    asked.id_length = id.at ? (uint32_t) id.size : 0;
    return asked;
}

/* As trace data, but for the tag; its length. */
PRIVATE inline uint32_t rmr_ask_put(uint8_t *trace, const rmr_asked *asked)
{
    memcpy(trace, rmr_asked_magic, 4);
    be16_put(trace + 4, (uint16_t) asked->length);
    be16_put(trace + 6, (uint16_t) asked->id_length);
    memset(trace + 8, 0, RMR_ASKED_HEAD - 8);                  /* the tag: not all frames get one */
    memcpy(trace + RMR_ASKED_HEAD, asked->text, asked->length);
    if (asked->id_length) memcpy(trace + RMR_ASKED_HEAD + asked->length, asked->id, asked->id_length);
    return RMR_ASKED_HEAD + asked->length + asked->id_length;
}

static uint64_t rmr_ask_tag(const uint8_t key[SIPHASH_KEY], const uint8_t *trace, uint32_t size)
{
    uint8_t without[RMR_ASKED_MAX];
    memcpy(without, trace, size);
    memset(without + 8, 0, 8);
    return siphash(key, without, size);
}

PRIVATE inline void rmr_ask_sign(const uint8_t key[SIPHASH_KEY], uint8_t *trace, uint32_t size)
{
    uint64_t tag = rmr_ask_tag(key, trace, size);
    memcpy(trace + 8, &tag, 8);
}

/* Where the answer goes that a frame is.  Length 0: it is none, or not to a question that came this way. */
PRIVATE inline rmr_asked rmr_ask_answered(const uint8_t key[SIPHASH_KEY], const uint8_t *header)
{
    rmr_asked asked = { .length = 0 };
    const uint8_t *trace = header + be32(header + RMR_LEN0);
    uint32_t size = be32(header + RMR_LEN1), text, id;
    uint64_t tag;
    if (size < RMR_ASKED_HEAD || size > RMR_ASKED_MAX || memcmp(trace, rmr_asked_magic, 4)) return asked;
    text = be16(trace + 4);
    id = be16(trace + 6);
    memcpy(&tag, trace + 8, 8);
    if (RMR_ASKED_HEAD + text + id != size || tag != rmr_ask_tag(key, trace, size)) return asked;
    return (rmr_asked) { trace + RMR_ASKED_HEAD, trace + RMR_ASKED_HEAD + text, text, id };
}

/* A blocking call as an id. */
PRIVATE inline void rmr_call_put(uint8_t text[RMR_CALL_TEXT], const uint8_t *header)
{
    uint8_t id[RMR_CALL_BYTES] = { 0 };
    memcpy(id, rmr_call_magic, 4);
    memcpy(id + 4, header + RMR_MT, 4);
    memcpy(id + 8, header + RMR_SUBID, 4);
    id[12] = rmr_call(header);
    memcpy(id + 16, header + RMR_XACT, RMR_XACT_BYTES);
    memcpy(id + 48, header + RMR_SID, RMR_SID_BYTES);
    memcpy(id + 80, header + RMR_MEID, RMR_MEID_BYTES);
    for (uint32_t i = 0; i < RMR_CALL_BYTES; i++) {
        text[2 * i] = (uint8_t) ('a' + (id[i] >> 4));
        text[2 * i + 1] = (uint8_t) ('a' + (id[i] & 15));
    }
}

/* Fills a new header in with what an answer to the call needs that a correlation-id names.  False: it names none. */
PRIVATE inline bool rmr_call_take(uint8_t *header, uint32_t head, amqp_value correlation)
{
    uint8_t id[RMR_CALL_BYTES];
    amqp_octets text = amqp_string(correlation);
    if (text.size != RMR_CALL_TEXT) return false;
    for (uint32_t i = 0; i < RMR_CALL_BYTES; i++)
        id[i] = (uint8_t) ((text.at[2 * i] - 'a') << 4 | (text.at[2 * i + 1] - 'a'));
    if (memcmp(id, rmr_call_magic, 4)) return false;
    memcpy(header + RMR_MT, id + 4, 4);
    memcpy(header + RMR_SUBID, id + 8, 4);
    header[head - 4] = id[12];
    memcpy(header + RMR_XACT, id + 16, RMR_XACT_BYTES);
    memcpy(header + RMR_SID, id + 48, RMR_SID_BYTES);
    memcpy(header + RMR_MEID, id + 80, RMR_MEID_BYTES);
    return true;
}
