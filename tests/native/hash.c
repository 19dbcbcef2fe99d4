/* The hash of texts: it is SipHash, and texts that differ in a pattern that undid itself in a weaker hash do not
 * collide, whatever the seed.  Argument: rounds. */
#include <stdlib.h>

#include "core/forwarder/tables/hash.h"
#include "tests/native/check.h"

static uint64_t any(void)
{
    static uint64_t state = 1;
    return random_next(&state);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "argument: rounds");
    uint8_t fifteen[15];
    for (uint8_t i = 0; i < sizeof fifteen; i++) fifteen[i] = i;
    const uint64_t first = 0x0706050403020100ull, second = 0x0f0e0d0c0b0a0908ull;
    CHECK(sip_hash(first, second, fifteen, 15, 2, 4) == 0xa129ca6149be45e5ull, "not the example of the paper");
    CHECK(sip_hash(first, second, fifteen, 0, 1, 3) == 0xabac0158050fc4dcull, "not the example of Rust's library");
    for (long round = atol(argv[1]); round; round--) {
        const uint64_t seed = any();
        for (uint32_t length = 0; length < 40; length++) {
            uint8_t text[40], other[40];
            for (uint32_t i = 0; i < length; i++) text[i] = (uint8_t) any();
            for (uint32_t word = 0; word + 16 <= length; word += 8) {
                memcpy(other, text, length);
                other[word + 7] ^= 0x80;       /* bit 63 of a word, and 63 and 31 of the next */
                other[word + 15] ^= 0x80;
                other[word + 11] ^= 0x80;
                CHECK(alias_hash(seed, text, length) != alias_hash(seed, other, length), "two texts collide");
            }
            if (!length) continue;
            memcpy(other, text, length);
            other[any() % length] ^= (uint8_t) (1 + any() % 255);
            CHECK(alias_hash(seed, text, length) != alias_hash(seed, other, length), "two texts collide");
            CHECK(alias_hash(seed, text, length) != alias_hash(seed, text, length - 1), "a text and its beginning");
            CHECK(alias_hash(seed, text, length) != alias_hash(seed + 1, text, length), "the seed does not count");
        }
    }
    return 0;
}
