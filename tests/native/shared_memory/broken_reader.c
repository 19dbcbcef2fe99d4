/* A reader that trusts `next`: AddressSanitizer must object, or the damage tests prove nothing. */
#include "tests/native/check.h"

#include "shm/memory/arena.h"

int main(void)
{
    size_t bytes = arena_bytes(4, 0);
    uint8_t *base = (uint8_t *) aligned_alloc(4096, bytes);
    CHECK(base, "no memory");
    memset(base, 0, bytes);
    arena_format(base, 4, 0);
    arena_view v;
    CHECK(arena_attach(&v, base, bytes), "attach");
    atomic_store(&arena_at(&v, 0)->next, 4);
    uint32_t next = atomic_load(&arena_at(&v, 0)->next);
    printf("%u\n", base[v.small_offset + (size_t) next * ARENA_SMALL_BYTES]);
    free(base);
    return 0;
}
