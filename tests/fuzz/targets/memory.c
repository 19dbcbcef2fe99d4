/* Whatever stands in shared memory, reading it stays inside the segment and ends.
 *
 * Built with AddressSanitizer and UndefinedBehaviorSanitizer; every segment is its own allocation, so a step outside is
 * reported. */
#include "tests/fuzz/parts/input.h"
#include "shm/memory/layout.h"

enum { SMALL_BLOCKS = 24, LARGE_BLOCKS = 3, BLOCKS = SMALL_BLOCKS + LARGE_BLOCKS };

static void *segment(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) & ~(size_t) 63);
    CHECK(p, "no memory");
    memset(p, 0, bytes);
    return p;
}

/* Values that hurt more often than uniform ones do. */
static uint32_t nasty(void)
{
    static const uint32_t values[] = { 0, 1, SMALL_BLOCKS - 1, SMALL_BLOCKS, BLOCKS - 1, BLOCKS, BLOCKS + 1, INT32_MAX,
        UINT32_MAX - 1, UINT32_MAX };
    uint32_t i = below(2 * sizeof values / sizeof *values);
    return i < sizeof values / sizeof *values ? values[i] : below(BLOCKS);
}

static uint64_t nasty_length(void)
{
    static const uint64_t values[] = { 0, 1, 399, 400, 401, 60000, 1ull << 32, 1ull << 63, UINT64_MAX };
    return values[below(sizeof values / sizeof *values)];
}

static void read_everything(const arena_view *v, uint32_t head, uint64_t limit)
{
    arena_reader r;
    uint32_t size;
    uint64_t sum = 0, read = 0;
    const uint8_t *run;
    chain_open(&r, head);
    while ((run = chain_read(v, &r, limit, &size))) {
        CHECK(size && run >= v->base && run + size <= v->base + arena_bytes(v->small_count, v->large_count), "outside");
        sum += run[0] + run[size - 1];
        uint32_t step = one_in(4) ? 1 + below(size) : size;   /* behind the end of the input: all of it */
        CHECK((read += step) <= arena_data_bytes(v), "reading block %u does not end", head);
        chain_advance(&r, step);
    }
    CHECK(r.position <= limit && sum != UINT64_MAX, "read beyond the limit");
}

static void damage_blocks(const arena_view *v)
{
    for (int i = 0; i < 12; i++) {
        uint32_t index = below(BLOCKS);
        arena_block *b = arena_at(v, index);
        arena_content *c = arena_content_of(v, index);
        switch (below(4)) {
        case 0: atomic_store(&b->next, nasty()); break;
        case 1: atomic_store(&c->length, nasty_length()); break;
        case 2: c->key_block = nasty(); break;
        default: scribble(b, sizeof *b + sizeof *c); break;
        }
    }
}

static void check_free_lists(const arena_owner *o)
{
    uint8_t seen[BLOCKS] = { 0 };
    for (int c = 0; c < 2; c++)
        for (uint32_t i = 0; i < o->free_count[c]; i++) {
            uint32_t index = o->free_list[c][i];
            CHECK(index < BLOCKS && arena_is_large(&o->view, index) == (c == 1), "block %u in the free list", index);
            CHECK(!seen[index]++, "block %u is free twice", index);
        }
}

static void damaged_arena(void)
{
    size_t bytes = arena_bytes(SMALL_BLOCKS, LARGE_BLOCKS);
    void *base = segment(bytes);
    arena_view v;
    arena_owner o;
    uint32_t heads[6];
    uint8_t content[1900];    /* six of them fit in the arena */
    scribble(content, sizeof content);
    arena_format(base, SMALL_BLOCKS, LARGE_BLOCKS);
    CHECK(arena_attach(&v, base, bytes) && arena_own(&o, &v), "attach");
    arena_writer w = { .head = 0 };
    for (int i = 0; i < 6; i++) {
        CHECK(chain_begin(&o, &w, ARENA_SMALL), "block");
        chain_write(&o, &w, ARENA_SMALL, content, below(sizeof content));
        chain_publish(&o, &w, CONTENT_COMPLETE);
        heads[i] = w.head;
    }
    damage_blocks(&v);
    for (int i = 0; i < 6; i++) {
        uint32_t head = below(3) ? heads[i] : nasty();
        const arena_content *c = arena_content_of(&v, head);
        read_everything(&v, head, c ? chain_length(c) : nasty_length());
        read_everything(&v, head, nasty_length());
        if (!below(2)) scribble(arena_in_use(&v), BLOCKS);
        CHECK(arena_mark_chain(&v, head) <= BLOCKS, "more marked than there is");
        if (i < 2) chain_trim(&o, &w, nasty_length());
        arena_free_chain(&o, head);
        check_free_lists(&o);
    }
    arena_disown(&o);
    scribble(arena_in_use(&v), BLOCKS);
    CHECK(arena_own(&o, &v), "own");
    check_free_lists(&o);
    while (arena_alloc_head(&o, below(2) ? ARENA_LARGE : ARENA_SMALL) != ROUTERD_NIL) { }
    arena_disown(&o);
    free(base);
}

static void random_arena(void)
{
    size_t bytes = below(40000);
    uint8_t *base = (uint8_t *) segment(bytes);
    arena_header h = { .magic = below(8) ? ARENA_MAGIC : 0, .small_count = nasty(),
        .large_count = nasty() };
    arena_view v;
    arena_owner o;
    scribble(base, bytes);
    memcpy(base, &h, bytes < sizeof h ? bytes : sizeof h);
    if (arena_attach(&v, base, bytes)) {
        for (uint32_t i = 0; i < 4; i++) {
            read_everything(&v, i, nasty_length());
            arena_mark_chain(&v, nasty());
        }
        CHECK(arena_own(&o, &v), "own");
        arena_free_chain(&o, nasty());
        arena_disown(&o);
        arena_mark_none(&v);
    }
    free(base);
}

static void damaged_ring(void)
{
    enum { CAPACITY = 8 };
    routerd_ring *ring = (routerd_ring *) segment(ring_bytes(CAPACITY));
    routerd_producer p;
    routerd_consumer c;
    scribble(ring->slot, CAPACITY * sizeof *ring->slot);
    CHECK(ring_format(ring, CAPACITY), "format");
    atomic_store(&ring->head, below(2) ? any() : below(20));
    atomic_store(&ring->tail, below(2) ? any() : below(20));
    bool produces = ring_produce(&p, ring), consumes = ring_consume(&c, ring);
    for (int i = 0; i < 40; i++) {
        const routerd_record *r = consumes ? ring_peek(&c) : NULL;
        routerd_record *w = produces ? ring_slot(&p) : NULL;
        CHECK(!r || (r >= ring->slot && r < ring->slot + CAPACITY), "read outside");
        CHECK(!w || (w >= ring->slot && w < ring->slot + CAPACITY), "written outside");
        CHECK(!consumes || r || !ring_pending(&c), "nothing to read, and yet something is pending: nobody could sleep");
        if (r) ring_advance(&c);
        if (w) { memset(w, 1, sizeof *w); ring_push(&p); }
        if (consumes) ring_return(&c);
        if (produces) ring_publish(&p);
        if (!below(3)) atomic_store(&ring->head, any());
        if (!below(3)) atomic_store(&ring->tail, any());
        if (!below(3)) ring->capacity = any();
    }
    free(ring);
}

static void damaged_control(void)
{
    uint32_t workers = 1 + below(3);
    size_t bytes = layout_control_bytes(workers);
    uint8_t *base = (uint8_t *) segment(bytes);
    layout_format_control(base, workers, 1024u * 1024u);
    CHECK(!layout_check_control(base, bytes), "%s", layout_check_control(base, bytes));
    if (below(2)) ((layout_control *) (void *) base)->places = nasty();
    else scribble(base + below(bytes), 1);
    layout_check_control(base, bytes);
    layout_check_control(base, below(bytes));
    scribble(base, bytes);
    CHECK(layout_check_control(base, bytes), "noise taken for a control segment");
    layout_check_rings(base, bytes, nasty() % 66);
    free(base);
}

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t size)
{
    input_open(octets, size);
    switch (below(4)) {
    case 0: damaged_arena(); break;
    case 1: random_arena(); break;
    case 2: damaged_ring(); break;
    default: damaged_control();
    }
    return 0;
}
