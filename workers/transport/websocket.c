/* AMQP over WebSockets (RFC 6455): what the engine reads and writes is the payload of binary frames.
 *
 * The exporter answers the HTTP request and hands the connection over through a socket that all workers watch like a
 * listening one: the worker that takes the next packet gets the connection and its peer's address with it.
 *
 *   in    header --whole--> payload --its end--> header; a control frame may stand between two parts of a message
 *   out   idle --the engine has something--> header --> payload --> idle; an answer to a ping or close goes when idle
 *
 * AMQP ignores where frames begin and end. Prohibited: an unmasked frame of a client, reserved bits, text, a control
 * frame in parts or of more than 125 bytes, half a status in a close or one that nobody may send, a reason that is no
 * text, a continuation of no message, and a message inside another one (RFC 6455, 5.4, 5.5.1 and 7.4); the connection
 * then ends with the status for it.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shm/codec/utf8.h"
#include "workers/transport/transport.h"

enum websocket_opcode { WEBSOCKET_CONTINUED = 0, WEBSOCKET_TEXT = 1, WEBSOCKET_BINARY = 2, WEBSOCKET_CLOSE = 8,
                        WEBSOCKET_PING = 9, WEBSOCKET_PONG = 10 };

/* ---- what comes ---- */

/* A control frame goes next, behind the rest of one that has begun, and in the place of one that has not: of several
 * pings the last one is answered (RFC 6455, 5.5.3). */
static void websocket_answer(websocket *s, uint8_t opcode, const uint8_t *payload, uint32_t size)
{
    uint8_t *at = s->answer + s->answer_begun;
    at[0] = (uint8_t) (0x80 | opcode);
    at[1] = (uint8_t) size;
    if (size) memcpy(at + 2, payload, size);
    s->answer_size = s->answer_begun + 2 + size;
}

PRIVATE inline void websocket_end(websocket *s, uint32_t status)
{
    uint8_t payload[2];
    be16_put(payload, (uint16_t) status);
    s->over = true;
    websocket_answer(s, WEBSOCKET_CLOSE, payload, 2);
}

static uint32_t websocket_header_size(const websocket *s)
{
    if (s->header_size < 2) return 2;
    uint8_t length = s->header[1] & 0x7f;
    return 2u + (length == 126 ? 2 : length == 127 ? 8 : 0) + 4;
}

/* A header is there whole.  0, or the status that the connection ends with. */
static uint32_t websocket_header(websocket *s)
{
    uint8_t opcode = s->header[0] & 0x0f, length = s->header[1] & 0x7f;
    bool control = opcode & 8;
    if (s->header[0] & 0x70 || !(s->header[1] & 0x80)) return WEBSOCKET_WRONG;
    if (opcode == WEBSOCKET_TEXT) return WEBSOCKET_NO_TEXT;
    if (opcode > WEBSOCKET_PONG || (opcode > WEBSOCKET_BINARY && !control)) return WEBSOCKET_WRONG;
    bool last = s->header[0] & 0x80;
    if (control && (length > WEBSOCKET_CONTROL || !last)) return WEBSOCKET_WRONG;
    if (opcode == WEBSOCKET_CLOSE && length == 1) return WEBSOCKET_WRONG;
    if (!control && s->begun != (opcode == WEBSOCKET_CONTINUED)) return WEBSOCKET_WRONG;
    if (!control) s->begun = !last;
    s->left = length;
    uint32_t more = length == 126 ? 2 : length == 127 ? 8 : 0;
    if (more) s->left = be_of(s->header + 2, more);
    if (s->left >> 63) return WEBSOCKET_WRONG;
    s->inside = true;
    s->masked = s->control_size = 0;
    return 0;
}

static void websocket_unmask(websocket *s, uint8_t *to, const uint8_t *from, size_t size)
{
    const uint8_t *mask = s->header + s->header_size - 4;
    for (size_t i = 0; i < size; i++) to[i] = from[i] ^ mask[(s->masked + i) & 3];
    s->masked += (uint32_t) size;
    s->left -= size;
}

/* May a close say this?  1004 to 1006 and 1015 stand for what no frame says, 1012 to 1014 are IANA's. */
static bool websocket_sayable(uint32_t status)
{
    if (status >= 3000) return status < 5000;
    return status >= 1000 && status <= 1014 && (status < 1004 || status > 1006);
}

/* The client closes: our close repeats its status (RFC 6455, 5.5.1), unless there is something wrong with it. */
static void websocket_closed(websocket *s)
{
    s->over = true;
    if (s->control_size < 2) websocket_answer(s, WEBSOCKET_CLOSE, NULL, 0);
    else if (!websocket_sayable(be16(s->control))) websocket_end(s, WEBSOCKET_WRONG);
    else if (!utf8_valid(s->control + 2, s->control_size - 2)) websocket_end(s, WEBSOCKET_MANGLED);
    else websocket_answer(s, WEBSOCKET_CLOSE, s->control, 2);
}

/* A frame has come whole. */
static void websocket_frame(websocket *s)
{
    uint8_t opcode = s->header[0] & 0x0f;
    s->inside = false;
    s->header_size = 0;
    if (opcode == WEBSOCKET_PING) {
        websocket_answer(s, WEBSOCKET_PONG, s->control, s->control_size);
    } else if (opcode == WEBSOCKET_CLOSE) {
        websocket_closed(s);
    }
}

/* Bytes of the socket into the engine.  False: the engine, or this side of the WebSocket, has ended. */
static bool websocket_take(websocket *s, pn_transport_t *t, const uint8_t *from, size_t size)
{
    while (size && !s->over) {
        if (!s->inside) {
            s->header[s->header_size++] = *from++;
            size--;
            if (s->header_size < websocket_header_size(s)) continue;
            uint32_t wrong = websocket_header(s);
            if (wrong) { websocket_end(s, wrong); break; }
        } else {
            size_t n = s->left < size ? (size_t) s->left : size;
            if (s->header[0] & 8) {
                websocket_unmask(s, s->control + s->control_size, from, n);
                s->control_size += (uint32_t) n;
            } else {
                ssize_t room = pn_transport_capacity(t);
                if (room <= 0) return false;
                if (n > (size_t) room) n = (size_t) room;
                websocket_unmask(s, (uint8_t *) pn_transport_tail(t), from, n);
                pn_transport_process(t, n);
            }
            from += n;
            size -= n;
        }
        if (s->inside && !s->left) websocket_frame(s);
    }
    return !s->over;
}

/* As read(2) into the engine: how much came from the socket, 0 at the end, -1 with errno. */
PRIVATE inline ssize_t websocket_read(websocket *s, int fd, pn_transport_t *t)
{
    uint8_t bytes[WEBSOCKET_READ];
    if (s->over) return 0;
    ssize_t n = read(fd, bytes, sizeof bytes);
    if (n > 0 && !websocket_take(s, t, bytes, (size_t) n)) pn_transport_close_tail(t);
    return n;
}

/* ---- what goes ---- */

static bool websocket_idle(const websocket *s) { return s->begin_at == s->begin_size && !s->payload; }

static void websocket_begin_frame(websocket *s, uint64_t size)
{
    s->begin[0] = 0x80 | WEBSOCKET_BINARY;
    s->begin_at = 0;
    s->payload = size;
    if (size < 126) {
        s->begin[1] = (uint8_t) size;
        s->begin_size = 2;
        return;
    }
    uint32_t more = size < 65536 ? 2 : 8;
    s->begin[1] = more == 2 ? 126 : 127;
    be_put(s->begin + 2, size, more);
    s->begin_size = 2 + more;
}

/* An answer that waits goes out between two frames.  False: the socket takes no more, errno says why. */
PRIVATE inline bool websocket_flush(websocket *s, int fd)
{
    while (s->answer_size && websocket_idle(s)) {
        ssize_t n = send(fd, s->answer, s->answer_size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        const uint32_t sent = (uint32_t) n;
        memmove(s->answer, s->answer + sent, s->answer_size - sent);
        s->answer_size -= sent;
        s->answer_begun = sent > s->answer_begun ? s->answer_size : s->answer_begun - sent;
    }
    return true;
}

/* As send(2), of bytes of the engine: how many of them went, -1 with errno. */
PRIVATE inline ssize_t websocket_send(websocket *s, int fd, const char *bytes, size_t size)
{
    for (;;) {
        if (websocket_idle(s)) {
            if (!websocket_flush(s, fd)) return -1;
            websocket_begin_frame(s, size);
        }
        uint32_t header = s->begin_size - s->begin_at;
        struct iovec parts[2] = { { s->begin + s->begin_at, header },
                                  { (void *) (uintptr_t) bytes, s->payload < size ? (size_t) s->payload : size } };
        struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
        ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (n < 0) return -1;
        if ((size_t) n <= header) {
            s->begin_at += (uint32_t) n;
            if ((size_t) n < header) continue;
            errno = EAGAIN;
            return -1;
        }
        s->begin_at = s->begin_size;
        s->payload -= (uint64_t) n - header;
        return n - (ssize_t) header;
    }
}

/* ---- handing over ---- */

/* Does this socket hand connections over, or does it listen? */
GLUE bool websocket_door(int fd)
{
    int type = 0;
    socklen_t size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

/* As accept(2): the next connection that is handed over; -1 with errno. */
PRIVATE inline int websocket_accept(int fd, struct sockaddr_in6 *peer)
{
    union { char room[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } rights;
    struct iovec part = { peer, sizeof *peer };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = rights.room,
                              .msg_controllen = sizeof rights.room };
    if (recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0) return -1;
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    int got;
    errno = message.msg_flags & MSG_CTRUNC ? EMFILE : EAGAIN;
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof got))
        return -1;
    memcpy(&got, CMSG_DATA(c), sizeof got);
    return got;
}
