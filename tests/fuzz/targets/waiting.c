/* Octets that wait come out as they went in, in whatever pieces: those that are held, some of them where they were
 * read, and those of blocks that are lent to an output.  What is lent or read stands in an allocation of its own that
 * is freed as soon as it may be, for AddressSanitizer.
 */
#define ROUTERD_UNITY
#include "tests/fuzz/parts/input.h"

#include "workers/session/held.c"
#include "workers/session/borrowed.c"

enum { STEPS = 300, LONGEST = 9000, BLOCKS = LENT_MOST };

static uint32_t buffers;

static uint8_t octet_at(uint64_t position) { return (uint8_t) mix(position); }

/* Mostly a few octets, so that most of an input's time is in what is tried. */
static uint32_t some_size(void) { return 1 + below(below(8) ? 60 : LONGEST); }

static void fill(uint8_t *to, uint64_t from, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++) to[i] = octet_at(from + i);
}

static void check(const uint8_t *is, uint64_t from, size_t size)
{
    for (size_t i = 0; i < size; i++) CHECK(is[i] == octet_at(from + i), "octet %lu", (unsigned long) (from + i));
}

static void turn_unchoke(lane_connection *l) { (void) l; }

static void read_buffer_left(read_buffer *buffer)
{
    if (--buffer->pieces) return;
    buffers--;
    free(buffer);
}

static void hold_some(held_octets *h, uint64_t *in)
{
    uint32_t size = some_size();
    read_buffer *buffer = (read_buffer *) malloc(sizeof *buffer);
    CHECK(buffer, "memory");
    buffer->pieces = 1;
    buffers++;
    for (uint32_t at = 0; at + size <= READ_AT_ONCE && below(4); at += size) {
        fill(buffer->octets + at, *in, size);
        held_add(h, buffer->octets + at, size, 1, below(2) ? buffer : NULL);
        *in += size;
    }
    read_buffer_left(buffer);
}

static void held_round(void)
{
    held_octets h = { 0 };
    uint64_t in = 0, out = 0;
    uint32_t frames = 0, added = 0;
    for (int step = 0; step < STEPS && choices_left(); step++) {
        uint64_t before = in;
        if (below(2)) hold_some(&h, &in);
        added += in != before;
        size_t there;
        const uint8_t *from;
        for (uint32_t n = below(6); n && (from = held_front(&h, &there)); n--) {
            size_t size = 1 + below((uint32_t) there);
            check(from, out, size);
            out += size;
            frames += held_take(&h, size);
        }
        CHECK(h.size == in - out, "what waits is counted");
    }
    uint64_t left = h.size;
    frames += held_forget(&h);
    CHECK(out + left == in && frames >= added && !h.first && !buffers, "nothing is left");
}

typedef struct { uint8_t *octets; } block;

static void output_add(lane_connection *l, block *blocks, uint64_t *in)
{
    uint32_t size = some_size();
    if (below(2) && l->lent_count < LENT_MOST) {
        uint32_t i = 0;
        while (blocks[i].octets) i++;
        blocks[i].octets = (uint8_t *) memory_for(NULL, size);
        fill(blocks[i].octets, *in, size);
        lane_lend(l, blocks[i].octets, size);
    } else {
        fill(out_grow(l, size), *in, size);
        l->out_end += size;
    }
    *in += size;
}

/* As output.c does. */
static uint8_t *out_grow(lane_connection *l, size_t size)
{
    if (l->out_at > LONGEST) {
        memmove(l->out, l->out + l->out_at, l->out_end - l->out_at);
        lent_move(l, l->out_at);
        l->out_end -= l->out_at;
        l->out_at = 0;
    }
    l->out_room = l->out_end + size;
    l->out = (uint8_t *) memory_for(l->out, l->out_room);
    return l->out + l->out_end;
}

static void socket_takes(lane_connection *l, uint64_t *out)
{
    struct iovec pieces[LANE_PIECES];
    int count = lane_pieces(l, pieces);
    size_t taken = 0, most = below(4) ? below(6 * LONGEST) : SIZE_MAX;
    for (int i = 0; i < count && taken < most; i++) {
        size_t n = pieces[i].iov_len < most - taken ? pieces[i].iov_len : most - taken;
        CHECK(pieces[i].iov_len, "no piece is empty");
        check((const uint8_t *) pieces[i].iov_base, *out + taken, n);
        taken += n;
    }
    lane_sent(l, taken);
    *out += taken;
}

static void lent_round(void)
{
    pump *p = (pump *) memory_clear(sizeof *p);
    lane_connection l = { .p = p };
    block blocks[BLOCKS] = { 0 };
    uint64_t in = 0, out = 0;
    for (int step = 0; step < STEPS && choices_left(); step++) {
        for (uint32_t n = below(20); n; n--) output_add(&l, blocks, &in);
        for (uint32_t n = below(3); n; n--) socket_takes(&l, &out);
        lane_own(&l);
        CHECK(!l.lent_count && !l.lent_size && l.out_end - l.out_at == in - out, "all that is left is its own");
        for (int i = 0; i < BLOCKS; i++) { free(blocks[i].octets); blocks[i].octets = NULL; }
    }
    if (l.out) check(l.out + l.out_at, out, l.out_end - l.out_at);
    free(l.out);
    free(p->lent);
    free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t size)
{
    input_open(octets, size);
    if (below(2)) held_round();
    else lent_round();
    return 0;
}
