/* Rejections as octets (AMQP 1.0 part 3.4.3): those of the router itself, and the condition of others. */
#ifndef ROUTERD_SHM_OUTCOME_H
#define ROUTERD_SHM_OUTCOME_H

#include "shm/codec/amqp.h"

#define OUTCOME_REJECTED 0x25
#define OUTCOME_ERROR 0x1d             /* AMQP 1.0 part 2.8.14 */
#define OUTCOME_NAME_MAX 255u          /* octets of a condition; a longer one is cut */
#define OUTCOME_TEXT_MAX 600u          /* octets of a description; a longer one is cut */
#define OUTCOME_HEAD_MAX 48u           /* octets in front of a condition: two descriptors, two lists, its own head */
#define OUTCOME_MAX (2 * (3 + AMQP_HEAD_MAX) + 2 * 5 + OUTCOME_NAME_MAX + OUTCOME_TEXT_MAX)

/* Writes a rejected state with a condition and a description; `to` has room for OUTCOME_MAX octets.  Its size. */
static inline uint32_t outcome_rejected(uint8_t *to, const char *name, const char *text)
{
    uint32_t name_size = (uint32_t) strnlen(name, OUTCOME_NAME_MAX);
    uint32_t text_size = (uint32_t) strnlen(text, OUTCOME_TEXT_MAX);
    uint32_t error = amqp_octets_size(name_size) + amqp_octets_size(text_size);
    uint8_t *at = amqp_put_descriptor(to, OUTCOME_REJECTED);
    at = amqp_put_shortest_items_head(at, AMQP_LIST8, 3 + amqp_items_size(error, 2), 1);
    at = amqp_put_shortest_items_head(amqp_put_descriptor(at, OUTCOME_ERROR), AMQP_LIST8, error, 2);
    at = amqp_put_shortest(at, AMQP_SYMBOL8, name, name_size);
    return (uint32_t) (amqp_put_shortest(at, AMQP_STRING8, text, text_size) - to);
}

/* The place of the first item of a described list, of which only the beginning may be there; NULL: there is none. */
static inline const uint8_t *outcome_item(const uint8_t *at, const uint8_t *end)
{
    if (!at || at >= end || *at != AMQP_DESCRIBED) return NULL;
    amqp_value code = amqp_take(at + 1, end, 0);
    if (!code.at || (at = code.at + code.size) >= end || amqp_short_code(*at) != AMQP_LIST8) return NULL;
    uint32_t head = *at & AMQP_WIDE ? 9 : 3;
    return (size_t) (end - at) > head ? at + head : NULL;
}

/* The condition of a rejected state, of which only the beginning may be there; `at` NULL: there is none. */
static inline amqp_octets outcome_condition(const uint8_t *state, size_t size)
{
    const uint8_t *end = state + size, *at = outcome_item(outcome_item(state, end), end);
    return amqp_text(at ? amqp_take(at, end, 0) : (amqp_value) { NULL, 0 });
}

#endif
