/* The hash of a text, for tables in memory: SipHash-1-3.  `seed` is random and differs in each life of a process, so no
 * sender can choose texts that collide; its 64 bits are more than anybody can try. */
#ifndef ROUTERD_CORE_HASH_H
#define ROUTERD_CORE_HASH_H

#include "shm/codec/siphash.h"
#include "shm/unity.h"

static INLINED uint64_t alias_hash(uint64_t seed, const uint8_t *text, uint32_t length)
{
    return sip_hash(seed, seed * 0x9e3779b97f4a7c15ull + 1, text, length, 1, 3);
}

/* The hash of a text within something that has a number, from the text's own: a number more moves it by an odd step. */
static INLINED uint64_t alias_hash_with(uint64_t hash, uint32_t number)
{
    return hash + number * 0xc4ceb9fe1a85ec53ull;
}

static INLINED uint64_t alias_hash_in(uint64_t seed, uint32_t number, const uint8_t *text, uint32_t length)
{
    return alias_hash_with(alias_hash(seed, text, length), number);
}

#endif
