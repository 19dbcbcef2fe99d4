/* Frames of the RMR library's SI95 transport: the places of their parts, and checks of their lengths.
 *
 *   0    length, little-endian; 4: the same, big-endian; 8: '$'; up to 50: nothing
 *   50   RMR's header; its parts' lengths follow; then trace data, d1, d2 and the payload
 *
 * Offsets below count from the header.  The first length is decisive, with or without the marker.
 */
#include <string.h>

#include "workers/rmr/wire.h"
#include "shm/codec/utf8.h"

#define RMR_VERSION 3

enum rmr_type { RMR_TABLE_DATA = 20, RMR_TABLE_REQUEST = 21, RMR_TABLE_STATE = 22 };

/* The length that a frame's first four bytes tell. */
PRIVATE inline uint32_t rmr_length(const uint8_t *frame)
{
    return (uint32_t) frame[0] | (uint32_t) frame[1] << 8 | (uint32_t) frame[2] << 16 | (uint32_t) frame[3] << 24;
}

PRIVATE inline bool rmr_length_good(uint32_t length, uint32_t most)
{
    return length >= RMR_TRANSPORT + RMR_HEADER_OLD && length <= most;
}

/* Where the payload begins and how long it is, in `room` bytes from the header on. At least RMR_HEADER_OLD of them are
 * at hand. False: a part would lie outside. */
PRIVATE inline bool rmr_measure(const uint8_t *header, uint32_t room, rmr_parts *parts)
{
    uint64_t head = 0;
    uint32_t payload = be32(header + RMR_PAYLOAD), own = be32(header + RMR_LEN0);
    /* a negative one is far too large */
    for (uint32_t at = RMR_LEN0; at <= RMR_LEN3; at += 4) head += be32(header + at);
    if (own < RMR_HEADER_OLD || head > RMR_HEAD_MAX || head + payload > room) return false;
    *parts = (rmr_parts) { (uint32_t) head, payload, (int32_t) be32(header + RMR_MT),
                           (int32_t) be32(header + RMR_SUBID) };
    return true;
}

/* Of a text field: what stands before its first zero. */
PRIVATE inline uint32_t rmr_text(const uint8_t *field, uint32_t size)
{
    const uint8_t *end = (const uint8_t *) memchr(field, 0, size);
    return end ? (uint32_t) (end - field) : size - 1;
}

PRIVATE inline void rmr_put_text(uint8_t *field, uint32_t size, const uint8_t *text, uint32_t length)
{
    if (length > size - 1) length = size - 1;
    memset(field, 0, size);
    memcpy(field, text, length);
}

/* Types that only RMR itself uses, in tables and about them. */
PRIVATE inline bool rmr_control(int32_t mt) { return mt >= RMR_TABLE_DATA && mt <= RMR_TABLE_STATE; }

/* The call that a frame belongs to; 0: none. */
PRIVATE inline uint8_t rmr_call(const uint8_t *header)
{
    uint32_t before = be32(header + RMR_LEN0) + be32(header + RMR_LEN1);
    return be32(header + RMR_LEN2) ? header[before] : 0;
}

PRIVATE inline bool rmr_answers_call(const uint8_t *header)
{
    return !(header[RMR_FLAGS] & RMR_CALL) && rmr_call(header);
}

/* The transport's header of a frame with `rest` bytes behind it. */
PRIVATE inline void rmr_put_transport(uint8_t *frame, uint32_t rest)
{
    uint32_t length = RMR_TRANSPORT + rest;
    memset(frame, 0, RMR_TRANSPORT);
    frame[0] = (uint8_t) length; frame[1] = (uint8_t) (length >> 8); frame[2] = (uint8_t) (length >> 16);
    frame[3] = (uint8_t) (length >> 24);
    be32_put(frame + 4, length);
    frame[8] = '$';
}

/* A header as a sender without one of its own has it; the rest is for the caller to fill in. */
PRIVATE inline uint32_t rmr_new_header(uint8_t *header)
{
    memset(header, 0, RMR_HEADER + 4);
    be32_put(header + RMR_VER, RMR_VERSION);
    be32_put(header + RMR_LEN0, RMR_HEADER);
    be32_put(header + RMR_LEN2, 4);
    be32_put(header + RMR_SUBID, UINT32_MAX);
    return RMR_HEADER + 4;
}

/* ---- tokens: in the sid, which comes back unchanged with a reply ----
 *
 *   of a connection   magic, 1, number of its saved sid + 1 (0: it was empty), nonce, number of the connection
 *   of an endpoint    magic, 2, length, two octets of the nonce, host:port (what it says of itself)
 *   of a question     magic, 3, nonce; the rest is in the trace data (ask.c)
 */

#define RMR_TOKEN_TEXT 24u

static const uint8_t rmr_token_magic[4] = { 0xf5, 'r', 't', 'd' };

PRIVATE inline void rmr_token_connection(uint8_t *sid, uint64_t nonce, uint32_t number, uint32_t saved)
{
    memset(sid, 0, RMR_SID_BYTES);
    memcpy(sid, rmr_token_magic, 4);
    sid[4] = TOKEN_CONNECTION;
    be32_put(sid + 8, number);
    be32_put(sid + 12, saved);
    memcpy(sid + 16, &nonce, 8);
}

/* False: its name is too long, or no text, which the address of an answer must be. */
PRIVATE inline bool rmr_token_endpoint(uint8_t *sid, uint64_t nonce, const uint8_t *text, uint32_t length)
{
    if (!length || length > RMR_TOKEN_TEXT || !utf8_valid(text, length)) return false;
    memset(sid, 0, RMR_SID_BYTES);
    memcpy(sid, rmr_token_magic, 4);
    sid[4] = TOKEN_ENDPOINT;
    sid[5] = (uint8_t) length;
    memcpy(sid + 6, &nonce, 2);
    memcpy(sid + 8, text, length);
    return true;
}

PRIVATE inline void rmr_token_asked(uint8_t *sid, uint64_t nonce)
{
    memset(sid, 0, RMR_SID_BYTES);
    memcpy(sid, rmr_token_magic, 4);
    sid[4] = TOKEN_ASKED;
    memcpy(sid + 16, &nonce, 8);
}

/* What a sid says; NONE: it is no token of this router. */
PRIVATE inline rmr_token rmr_token_read(const uint8_t *sid, uint64_t nonce)
{
    rmr_token token = { .kind = TOKEN_NONE };
    if (memcmp(sid, rmr_token_magic, 4)) return token;
    if (sid[4] == TOKEN_CONNECTION && !memcmp(sid + 16, &nonce, 8)) {
        token.kind = TOKEN_CONNECTION;
        token.number = be32(sid + 8);
        token.saved = be32(sid + 12);
    } else if (sid[4] == TOKEN_ENDPOINT && !memcmp(sid + 6, &nonce, 2) && sid[5] && sid[5] <= RMR_TOKEN_TEXT
        && utf8_valid(sid + 8, sid[5])) {
        token.kind = TOKEN_ENDPOINT;
        token.text = sid + 8;
        token.length = sid[5];
    } else if (sid[4] == TOKEN_ASKED && !memcmp(sid + 16, &nonce, 8)) {
        token.kind = TOKEN_ASKED;
    }
    return token;
}
