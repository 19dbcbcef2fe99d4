/* The order of a message's sections (AMQP 1.0 part 3.2), to its last octet, in whatever pieces it arrives.
 *
 * The scan (scan.h) stops behind properties, since what follows is for receivers.  Some receivers take the last
 * properties section that they find, wherever it stands: where a policy judges a message's properties there may be no
 * others.  So each section stands in its place, and only body sections are repeated.
 */
#ifndef ROUTERD_SHM_SECTION_WALK_H
#define ROUTERD_SHM_SECTION_WALK_H

#include "shm/codec/scan.h"

#define SECTION_HEAD_MOST 256u         /* octets before which a section's size is known; more are refused */

typedef struct section_walk {
    uint64_t left;                     /* octets of the section that are still to come */
    uint32_t have;                     /* octets of the next one in `head` */
    uint8_t previous;                  /* its code; 0: none */
    uint8_t head[SECTION_HEAD_MOST];
} section_walk;

static inline void section_walk_begin(section_walk *w)
{
    w->left = 0;
    w->have = 0;
    w->previous = 0;
}

/* Whether a section may stand behind the previous one.  Router annotations come first, if at all. */
static inline bool section_follows(section_walk *w, uint8_t code)
{
    bool routers = (code == SECTION_ROUTERS && amqp_is_symbol(w->head[1]))
        || !memcmp(w->head, scan_section_ours, SCAN_ROUTERS_DESCRIPTOR)
        || !memcmp(w->head, scan_section_skupper, SCAN_ROUTERS_DESCRIPTOR);
    bool body = code >= SECTION_DATA && code < SECTION_FOOTER;
    if (routers) return !w->previous && (w->previous = SECTION_ROUTERS);
    if (code < SECTION_HEADER || code > SECTION_FOOTER || code < w->previous) return false;
    if (code == w->previous && !body) return false;
    w->previous = code;
    return true;
}

/* The next octets.  False: a section stands where none may, or is no section. */
static inline bool section_walk_on(section_walk *w, const uint8_t *p, size_t n)
{
    while (n) {
        if (w->left) {
            size_t part = n < w->left ? n : (size_t) w->left;
            w->left -= part;
            p += part;
            n -= part;
            continue;
        }
        if (w->have == SECTION_HEAD_MOST) return false;
        w->head[w->have++] = *p++;
        n--;
        uint32_t length = 0;
        const uint8_t *end = w->head + w->have;
        uint8_t code = scan_descriptor(w->head, end, &length);
        if (code && !length) return false;                     /* it begins no section */
        if (!code || w->have <= length) continue;
        size_t size = amqp_size(w->head + length, end, AMQP_DEPTH);
        if (!size) continue;
        if (size == AMQP_WRONG || !section_follows(w, code)) return false;
        w->left = length + size - w->have;
        w->have = 0;
    }
    return true;
}

#endif
