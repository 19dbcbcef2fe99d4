/* SipHash (Aumasson and Bernstein, 2012): a keyed hash of some octets.  Who does not know the key can neither foresee
 * it nor find two texts with the same one.
 *
 *   2-4   the cautious form, for tags that others see
 *   1-3   the fast one, for tables, whose hashes nobody sees
 */
#ifndef ROUTERD_SHM_SIPHASH_H
#define ROUTERD_SHM_SIPHASH_H

#include <stdint.h>
#include <string.h>

#define SIP_INLINED __attribute__((always_inline)) inline  /* its rounds are constants */

typedef struct { uint64_t v[4]; } sip_state;

static SIP_INLINED uint64_t sip_turn(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static SIP_INLINED void sip_rounds(sip_state *s, int rounds)
{
    uint64_t *v = s->v;
    while (rounds--) {
        v[0] += v[1]; v[1] = sip_turn(v[1], 13) ^ v[0]; v[0] = sip_turn(v[0], 32);
        v[2] += v[3]; v[3] = sip_turn(v[3], 16) ^ v[2];
        v[0] += v[3]; v[3] = sip_turn(v[3], 21) ^ v[0];
        v[2] += v[1]; v[1] = sip_turn(v[1], 17) ^ v[2]; v[2] = sip_turn(v[2], 32);
    }
}

static SIP_INLINED sip_state sip_begin(uint64_t first, uint64_t second)
{
    return (sip_state) {{ first ^ 0x736f6d6570736575ull, second ^ 0x646f72616e646f6dull,
                          first ^ 0x6c7967656e657261ull, second ^ 0x7465646279746573ull }};
}

static SIP_INLINED void sip_word(sip_state *s, uint64_t word, int rounds)
{
    s->v[3] ^= word;
    sip_rounds(s, rounds);
    s->v[0] ^= word;
}

/* Up to 7 octets as the low ones of a number: in pieces that overlap, because a copy of unknown size is a call. */
static SIP_INLINED uint64_t sip_rest(const uint8_t *octets, size_t size)
{
    if (!size) return 0;
    const size_t middle = size / 2, end = size - 1;
    if (size < 4) return octets[0] | (uint64_t) octets[middle] << middle * 8 | (uint64_t) octets[end] << end * 8;
    uint32_t first, last;
    memcpy(&first, octets, 4);
    memcpy(&last, octets + size - 4, 4);
    return first | (uint64_t) last << (size - 4) * 8;
}

/* SipHash-`each`-`final` with a key of two words. */
static SIP_INLINED uint64_t sip_hash(uint64_t first, uint64_t second, const uint8_t *octets, size_t size, int each,
                                     int final)
{
    sip_state s = sip_begin(first, second);
    const uint64_t length = (uint64_t) size << 56;
    for (; size >= 8; octets += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, octets, 8);
        sip_word(&s, word, each);
    }
    sip_word(&s, length | sip_rest(octets, size), each);
    s.v[2] ^= 0xff;
    sip_rounds(&s, final);
    return s.v[0] ^ s.v[1] ^ s.v[2] ^ s.v[3];
}

#endif
