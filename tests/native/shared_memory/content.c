/* A content header that was used before says nothing of the message that it was used for. */
#include "tests/native/check.h"

#include "shm/memory/arena.h"

enum { SMALL = 1 };

/* The header of a head block whose memory was full of `octet`. */
static arena_content taken(int octet)
{
    arena_view view;
    arena_owner owner;
    void *base = aligned_alloc(4096, 4096 * (arena_bytes(SMALL, 0) / 4096 + 1));
    CHECK(base, "no memory");
    memset(base, 0, arena_bytes(SMALL, 0));
    arena_format(base, SMALL, 0);
    CHECK(arena_attach(&view, base, arena_bytes(SMALL, 0)) && arena_own(&owner, &view), "attach");
    memset(arena_content_of(&view, 0), octet, ARENA_SMALL_BYTES);
    CHECK(!arena_alloc_head(&owner, ARENA_SMALL), "the only block");
    arena_content found = *arena_content_of(&view, 0);
    arena_disown(&owner);
    free(base);
    return found;
}

int main(void)
{
    const size_t described = offsetof(arena_content, key_block), annotations = offsetof(arena_content, ingress);
    arena_content one = taken(0x5a), other = taken(0xa5);
    for (size_t i = offsetof(arena_content, length); i < sizeof one; i++)
        CHECK(((uint8_t *) &one)[i] == ((uint8_t *) &other)[i], "octet %zu of a new header is the former message's", i);
    CHECK(one.key_block == ROUTERD_NIL && one.to_offset == ARENA_NO_OFFSET && one.properties == ARENA_NO_OFFSET
          && one.message_annotations == ARENA_NO_OFFSET && !one.annotations, "a new header says nothing");
    memset(&one, 0x5a, sizeof one);
    memset(&other, 0xa5, sizeof other);
    content_reset(&one);
    content_reset(&other);
    content_reset_annotations(&one);
    content_reset_annotations(&other);
    for (size_t i = described; i < sizeof one; i++)
        CHECK(((uint8_t *) &one)[i] == ((uint8_t *) &other)[i], "octet %zu outlives a reset", i);
    for (size_t i = annotations; i < CONTENT_FRONT; i++)
        CHECK(!((uint8_t *) &one)[i] && !((uint8_t *) &other)[i], "octet %zu outlives a reset of the annotations", i);
    CHECK(one.state == 0x5a5a5a5a && other.state == 0xa5a5a5a5, "what is published stays");
    return 0;
}
