/* Any octets as those of a WebSocket: its frames' payload is the same in one piece and in many, nothing outside of the
 * octets is read, and what it answers is a control frame.
 */
#define ROUTERD_UNITY

#include "tests/fuzz/parts/input.h"

#include "workers/transport/websocket.c"

enum { ROOM = 64, LONGEST = 1 << 16 };

typedef struct { uint8_t octets[LONGEST], room[ROOM]; size_t size, capacity; bool closed; } taker;

static taker *of(pn_transport_t *t) { return (taker *) t; }

/* The engine's functions that are called: its buffer is small, and full at any time. */
ssize_t pn_transport_capacity(pn_transport_t *t) { return (ssize_t) of(t)->capacity; }
char *pn_transport_tail(pn_transport_t *t) { return (char *) of(t)->room; }
int pn_transport_close_tail(pn_transport_t *t) { of(t)->closed = true; return 0; }

int pn_transport_process(pn_transport_t *t, size_t size)
{
    taker *k = of(t);
    CHECK(size <= k->capacity && k->size + size <= LONGEST, "more than there is room for");
    memcpy(k->octets + k->size, k->room, size);
    k->size += size;
    return 0;
}

static void check_answer(const websocket *s)
{
    if (!s->answer_size) return;
    CHECK(s->answer_size >= 2 && s->answer[0] >> 4 == 8 && s->answer[0] & 8, "an answer that is no control frame");
    CHECK(s->answer_size == 2u + s->answer[1] && s->answer[1] <= WEBSOCKET_CONTROL, "an answer of another size");
}

static void take(websocket *s, taker *k, const uint8_t *octets, size_t size)
{
    uint8_t *copy = copy_of(octets, size);
    websocket_take(s, (pn_transport_t *) k, copy, size);
    free(copy);
    check_answer(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t octet_count)
{
    static taker whole, pieces;
    websocket one = { .over = false }, other = { .over = false };
    if (octet_count > LONGEST) return 0;
    input_open(octets, octet_count);
    uint64_t state = mix(choose(1)) | 1;
    size_t size = choices_left();
    whole.size = pieces.size = 0;
    whole.capacity = ROOM;
    take(&one, &whole, input.at, size);
    for (size_t at = 0; at < size && !other.over;) {
        size_t n = 1 + random_below(&state, 20);
        if (n > size - at) n = size - at;
        pieces.capacity = 1 + random_below(&state, ROOM);
        take(&other, &pieces, input.at + at, n);
        at += n;
    }
    CHECK(whole.size == pieces.size && !memcmp(whole.octets, pieces.octets, whole.size), "another payload in pieces");
    CHECK(one.over == other.over && one.answer_size == other.answer_size
          && !memcmp(one.answer, other.answer, one.answer_size), "another answer in pieces");
    return 0;
}
