/* A WebSocket's answers to control frames, through a socket that takes some octets of them at a time.
 *
 * The program ends with a line for the first mistake.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static uint8_t wire[1024];
static size_t wired, room;                     /* octets that the peer has; that the socket still takes */

static ssize_t some_sent(int fd, const void *octets, size_t size, int flags)
{
    (void) fd, (void) flags;
    if (!room) { errno = EAGAIN; return -1; }
    if (size > room) size = room;
    memcpy(wire + wired, octets, size);
    wired += size;
    room -= size;
    return (ssize_t) size;
}
#define send some_sent

#include "workers/transport/websocket.c"
#include "tests/native/check.h"

static void comes(websocket *s, uint8_t opcode, const char *text)
{
    uint8_t frame[6 + WEBSOCKET_CONTROL] = { (uint8_t) (0x80 | opcode), (uint8_t) (0x80 | strlen(text)) };
    memcpy(frame + 6, text, strlen(text));
    (void) websocket_take(s, NULL, frame, 6 + strlen(text));
}

static void takes(websocket *s, size_t octets)
{
    room = octets;
    (void) websocket_flush(s, 0);
}

/* The peer's next frame, from here on, is this one. Returns where it ends. */
static size_t heard(size_t at, uint8_t opcode, const char *text)
{
    const size_t size = strlen(text);
    CHECK(at + 2 + size <= wired, "%zu octets do not reach for the frame behind %zu", wired, at);
    CHECK(wire[at] == (0x80 | opcode) && wire[at + 1] == size && !memcmp(wire + at + 2, text, size),
          "the frame behind %zu octets is not %u %s", at, opcode, text);
    return at + 2 + size;
}

/* The socket takes `first` octets, and `second` of what is left after two other PINGs; then a last frame comes. */
static void goes(size_t first, size_t second, uint8_t last, const char *text)
{
    static const char *const one = "the first", *const two = "the second one", *const three = "3";
    const uint8_t answer = last == WEBSOCKET_PING ? WEBSOCKET_PONG : WEBSOCKET_CLOSE;
    const size_t ones = 2 + strlen(one), threes = 2 + strlen(three);
    websocket s = { .over = false };
    wired = 0;
    comes(&s, WEBSOCKET_PING, one);
    takes(&s, first);
    comes(&s, WEBSOCKET_PING, two);
    comes(&s, WEBSOCKET_PING, three);
    takes(&s, second);
    comes(&s, last, text);
    takes(&s, sizeof wire - wired);
    size_t at = first ? heard(0, WEBSOCKET_PONG, one) : 0, rest = first ? ones - first : 0;
    if (second > rest) at = heard(at, WEBSOCKET_PONG, three);
    CHECK(second <= rest + threes, "no more than that waits");
    at = heard(at, answer, text);
    CHECK(at == wired && !s.answer_size, "%zu octets too many", wired - at);
}

int main(void)
{
    for (size_t first = 0; first <= 11; first++)
        for (size_t second = 0; second <= (first ? 14 - first : 3); second++) {
            goes(first, second, WEBSOCKET_PING, "a last one");
            goes(first, second, WEBSOCKET_CLOSE, "\3\350");
        }
    char most[WEBSOCKET_CONTROL + 1] = { 0 };
    memset(most, 'm', WEBSOCKET_CONTROL);
    goes(1, 1, WEBSOCKET_PING, most);
    return 0;
}
