/* A tag of some octets that only the owner of the key can make: SipHash-2-4. */
#include "shm/codec/siphash.h"
#include "workers/rmr/wire.h"

PRIVATE inline uint64_t siphash(const uint8_t key[SIPHASH_KEY], const uint8_t *bytes, size_t size)
{
    uint64_t k[2];
    memcpy(k, key, sizeof k);
    return sip_hash(k[0], k[1], bytes, size, 2, 4);
}
