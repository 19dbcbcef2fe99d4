/* A hash of a text, for tables in memory.  `seed` differs in each life of a process, so that no sender can choose texts
 * that collide. */
#ifndef ROUTERD_CORE_HASH_H
#define ROUTERD_CORE_HASH_H

#include <stdint.h>
#include <string.h>

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
    uint64_t rest = 0;
    memcpy(&rest, text, length);
    h = (h ^ rest) * 0xc4ceb9fe1a85ec53ull;
    return h ^ h >> 29;
}

#endif
