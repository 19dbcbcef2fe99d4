/* A check for strict UTF-8: no surrogates, overlong forms, or code points above U+10FFFF (RFC 3629).
 *
 * AMQP strings have to be UTF-8 (AMQP 1.0 part 1.6.20); other octets are sent as binary.  The loop takes eight ASCII
 * characters at a time.
 */
#ifndef ROUTERD_SHM_UTF8_H
#define ROUTERD_SHM_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool utf8_valid(const uint8_t *p, size_t size)
{
    const uint8_t *end = p + size;
    while (p < end) {
        uint64_t eight = UINT64_MAX;
        if (end - p >= 8) memcpy(&eight, p, 8);
        if (!(eight & 0x8080808080808080u)) { p += 8; continue; }
        uint8_t lead = *p++;
        if (lead < 0x80) continue;
        int more = lead >= 0xc2 && lead < 0xe0 ? 1 : lead >= 0xe0 && lead < 0xf0 ? 2 : lead >= 0xf0 && lead < 0xf5 ? 3
                   : 0;
        if (!more || end - p < more) return false;
        if ((lead == 0xe0 && *p < 0xa0) || (lead == 0xed && *p > 0x9f) || (lead == 0xf0 && *p < 0x90)
            || (lead == 0xf4 && *p > 0x8f))
            return false;
        while (more--) if ((*p++ & 0xc0) != 0x80) return false;
    }
    return true;
}

/* The octets of a text's beginning, at most `most`, that end where a character does. */
static inline size_t utf8_first(const uint8_t *text, size_t size, size_t most)
{
    if (size <= most) return size;
    while (most && (text[most] & 0xc0) == 0x80) most--;
    return most;
}

#endif
