/* A hash of a text, for tables in memory.  `seed` differs in each life of a process, so that no sender can choose texts
 * that collide. */
#ifndef ROUTERD_CORE_HASH_H
#define ROUTERD_CORE_HASH_H

#include <stdint.h>
#include <string.h>

/* Up to 7 octets as the low ones of a number: in pieces that overlap, because a copy of unknown size is a call. */
static inline uint64_t alias_rest(const uint8_t *text, uint32_t length)
{
    if (!length) return 0;
    const uint32_t middle = length / 2, end = length - 1;
    if (length < 4) return text[0] | (uint64_t) text[middle] << middle * 8 | (uint64_t) text[end] << end * 8;
    uint32_t first, last;
    memcpy(&first, text, 4);
    memcpy(&last, text + length - 4, 4);
    return first | (uint64_t) last << (length - 4) * 8;
}

static inline uint64_t alias_hash(uint64_t seed, const uint8_t *text, uint32_t length)
{
    uint64_t h = seed ^ length * 0x9e3779b97f4a7c15ull;
    while (length >= 8) {
        uint64_t word;
        memcpy(&word, text, 8);
        h = (h ^ word) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
        text += 8;
        length -= 8;
    }
    h = (h ^ alias_rest(text, length)) * 0xc4ceb9fe1a85ec53ull;
    return h ^ h >> 29;
}

#endif
