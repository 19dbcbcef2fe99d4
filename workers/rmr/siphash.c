/* SipHash-2-4 (Aumasson and Bernstein, 2012): a tag of some octets that only the owner of the key can make. */
#include <string.h>

#include "workers/rmr/wire.h"

static uint64_t siphash_turn(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static void siphash_round(uint64_t v[4])
{
    v[0] += v[1]; v[1] = siphash_turn(v[1], 13) ^ v[0]; v[0] = siphash_turn(v[0], 32);
    v[2] += v[3]; v[3] = siphash_turn(v[3], 16) ^ v[2];
    v[0] += v[3]; v[3] = siphash_turn(v[3], 21) ^ v[0];
    v[2] += v[1]; v[1] = siphash_turn(v[1], 17) ^ v[2]; v[2] = siphash_turn(v[2], 32);
}

PRIVATE inline uint64_t siphash(const uint8_t key[SIPHASH_KEY], const uint8_t *bytes, size_t size)
{
    uint64_t k[2], word, last = (uint64_t) size << 56;
    memcpy(k, key, sizeof k);
    uint64_t v[4] = { k[0] ^ 0x736f6d6570736575ull, k[1] ^ 0x646f72616e646f6dull, k[0] ^ 0x6c7967656e657261ull,
                      k[1] ^ 0x7465646279746573ull };
    for (; size >= 8; bytes += 8, size -= 8) {
        memcpy(&word, bytes, 8);
        v[3] ^= word;
        siphash_round(v);
        siphash_round(v);
        v[0] ^= word;
    }
    for (size_t i = 0; i < size; i++) last |= (uint64_t) bytes[i] << 8 * i;
    v[3] ^= last;
    siphash_round(v);
    siphash_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++) siphash_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
