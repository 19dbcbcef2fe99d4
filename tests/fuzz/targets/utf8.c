/* The check for text says of any octets what a plain reading of RFC 3629 says. */
#include "tests/fuzz/parts/input.h"

#include "shm/codec/utf8.h"

/* Section 3: a character's octets carry its code point, in as few of them as it needs. */
static bool plain(const uint8_t *p, const uint8_t *end)
{
    static const uint32_t least[] = { 0, 0x80, 0x800, 0x10000 };
    while (p < end) {
        uint32_t lead = *p++;
        uint32_t more = lead < 0x80 ? 0 : lead >> 5 == 6 ? 1 : lead >> 4 == 14 ? 2 : lead >> 3 == 30 ? 3 : 4;
        if (more == 4 || (uint32_t) (end - p) < more) return false;
        uint32_t point = more ? lead & (0x3fu >> more) : lead;
        for (uint32_t i = 0; i < more; i++, p++) {
            if (*p >> 6 != 2) return false;
            point = point << 6 | (*p & 0x3f);
        }
        if (point < least[more] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return false;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t size)
{
    CHECK(utf8_valid(octets, size) == plain(octets, octets + size), "another opinion of %zu octets", size);
    return 0;
}
