/* RMR's octets: frames of its transport, tokens in them, and frames as AMQP messages. */
#ifndef ROUTERD_WORKERS_RMR_WIRE_H
#define ROUTERD_WORKERS_RMR_WIRE_H

#include "shm/codec/rmr_key.h"
#include "shm/unity.h"

#define SIPHASH_KEY 16u

#define RMR_TRANSPORT 50u
#define RMR_HEADER 280u                /* as it is written: version 3 */
#define RMR_HEADER_OLD 216u            /* version 2 ends before the source's address */
#define RMR_HEAD_MAX 8192u             /* header, trace data, d1 and d2 together */
#define RMR_CALL 0x04u                 /* flag: a blocking call waits for the answer */

enum rmr_offset {
    RMR_MT = 0, RMR_PAYLOAD = 4, RMR_VER = 8, RMR_XACT = 12, RMR_SID = 44, RMR_SOURCE = 76, RMR_MEID = 140,
    RMR_FLAGS = 192, RMR_LEN0 = 196, RMR_LEN1 = 200, RMR_LEN2 = 204, RMR_LEN3 = 208, RMR_SUBID = 212, RMR_ADDRESS = 216
};

enum rmr_size { RMR_XACT_BYTES = 32, RMR_SID_BYTES = 32, RMR_SOURCE_BYTES = 64, RMR_MEID_BYTES = 32 };

typedef struct {
    uint32_t head;                     /* bytes between the transport's header and the payload */
    uint32_t payload;
    int32_t mt, sid;
} rmr_parts;

enum rmr_token_kind { TOKEN_NONE = 0, TOKEN_CONNECTION = 1, TOKEN_ENDPOINT = 2, TOKEN_ASKED = 3 };

typedef struct {
    uint8_t kind;                      /* enum rmr_token_kind */
    uint32_t number, saved;            /* of the connection; of its sid */
    const uint8_t *text;               /* of the endpoint */
    uint32_t length;
} rmr_token;

#define RMR_CALL_BYTES 112u            /* magic, type, subscription, call, transaction, sid, MEID */
/* The same as letters, two for an octet, because not every client returns a binary id. */
#define RMR_CALL_TEXT (2 * RMR_CALL_BYTES)

typedef struct {                       /* where an answer goes; both stand in the message, or in a frame's trace data */
    const uint8_t *text, *id;
    uint32_t length, id_length;        /* 0: none */
} rmr_asked;

#define RMR_ADDRESS_MAX 1024u          /* octets of an address of ours: of a table, with what goes on there */
#define RMR_FRONT_MAX (RMR_HEAD_MAX + 4 * RMR_ADDRESS_MAX + 1536u)     /* octets of a message in front of its payload */

typedef struct {
    const char *text;
    uint32_t length;                   /* 0: none */
} rmr_address;

typedef struct {                       /* what the message is to say beside its frame */
    rmr_address to, reply_to, conn;
    const uint8_t *call;               /* message-id, RMR_CALL_TEXT long; NULL: none */
    const uint8_t *id;                 /* correlation-id, as AMQP encodes it */
    uint32_t id_length;                /* 0: none */
} rmr_wanted;

enum rmr_made { RMR_MADE, RMR_PIECES, RMR_NO_TYPE, RMR_NO_BODY, RMR_NO_MESSAGE };

typedef struct {                       /* a frame in the making */
    uint8_t head[RMR_HEAD_MAX];        /* from the header up to the payload; its length field is filled in */
    uint32_t head_length;
    uint32_t payload, payload_length;  /* in the message */
    bool annotated;                    /* it has the header that it came with */
    bool asks;                         /* trace data say where its answer goes */
} rmr_frame;

/* siphash.c */
PRIVATE uint64_t siphash(const uint8_t key[SIPHASH_KEY], const uint8_t *bytes, size_t size);

/* frame.c */
PRIVATE uint32_t rmr_length(const uint8_t *frame);
PRIVATE bool rmr_length_good(uint32_t length, uint32_t most);
PRIVATE bool rmr_measure(const uint8_t *header, uint32_t room, rmr_parts *parts);
PRIVATE uint32_t rmr_text(const uint8_t *field, uint32_t size);
PRIVATE void rmr_put_text(uint8_t *field, uint32_t size, const uint8_t *text, uint32_t length);
PRIVATE bool rmr_control(int32_t mt);
PRIVATE uint8_t rmr_call(const uint8_t *header);
PRIVATE bool rmr_answers_call(const uint8_t *header);
PRIVATE void rmr_put_transport(uint8_t *frame, uint32_t rest);
PRIVATE uint32_t rmr_new_header(uint8_t *header);
PRIVATE void rmr_token_connection(uint8_t *sid, uint64_t nonce, uint32_t number, uint32_t saved);
PRIVATE bool rmr_token_endpoint(uint8_t *sid, uint64_t nonce, const uint8_t *text, uint32_t length);
PRIVATE void rmr_token_asked(uint8_t *sid, uint64_t nonce);
PRIVATE rmr_token rmr_token_read(const uint8_t *sid, uint64_t nonce);

/* ask.c */
PRIVATE void rmr_ask_fields(amqp_value list, amqp_value field[6]);
PRIVATE rmr_asked rmr_ask_read(const amqp_value field[6]);
PRIVATE uint32_t rmr_ask_put(uint8_t *trace, const rmr_asked *asked);
PRIVATE void rmr_ask_sign(const uint8_t key[SIPHASH_KEY], uint8_t *trace, uint32_t size);
PRIVATE rmr_asked rmr_ask_answered(const uint8_t key[SIPHASH_KEY], const uint8_t *header);
PRIVATE void rmr_call_put(uint8_t text[RMR_CALL_TEXT], const uint8_t *header);
PRIVATE bool rmr_call_take(uint8_t *header, uint32_t head, amqp_value correlation);

/* amqp.c */
PRIVATE uint32_t rmr_compose(uint8_t *start, const uint8_t *header, const rmr_parts *parts, const uint8_t *source,
    const rmr_wanted *want, scan_found *found, rmr_key *key);
PRIVATE enum rmr_made rmr_make(const uint8_t *start, size_t size, uint64_t length, rmr_frame *frame);
PRIVATE bool rmr_join(uint8_t *start, uint32_t size, rmr_frame *frame);

#endif
