/* Columns of numbers, and numbered texts, which take records while they are parsed.
 *
 * Functions return false or NAME_NONE when memory is exhausted or a limit is reached.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "core/forwarder/tables/hash.h"
#include "core/rmr/tables/simple_records.h"

#define NAME_LIMIT (1u << 31)      /* octets of all texts, and numbers in a column */
#define NAME_MOVES 4u              /* texts that move to a larger table with each new one */

/* Makes room for more numbers. */
PRIVATE inline bool column_room(record_column *c, uint32_t more)
{
    if (c->room - c->count >= more) return true;
    uint64_t wanted = (uint64_t) c->count + more, room = c->room ? c->room * 2ull : 256;
    while (room < wanted) room *= 2;
    uint32_t *grown = wanted < NAME_LIMIT ? (uint32_t *) realloc(c->at, room * sizeof *grown) : NULL;
    if (!grown) return false;
    c->at = grown;
    c->room = (uint32_t) room;
    return true;
}

GLUE inline bool column_add(record_column *c, uint32_t value)
{
    if (!column_room(c, 1)) return false;
    c->at[c->count++] = value;
    return true;
}

GLUE inline uint32_t name_start(const record_names *n, uint32_t number) { return number ? n->stop.at[number - 1] : 0; }

GLUE inline uint32_t name_length(const record_names *n, uint32_t number)
{
    return n->stop.at[number] - name_start(n, number);
}

static void names_enter(record_names *n, uint32_t number)
{
    uint32_t i = (uint32_t) alias_hash(n->seed, n->text + name_start(n, number),
                                       name_length(n, number)) & (n->slots - 1);
    while (n->slot[i]) i = (i + 1) & (n->slots - 1);
    n->slot[i] = number + 1;
}

/* Moves some texts to the present table.  All at once would stall the core: a million of them take half a second. */
static void names_move(record_names *n)
{
    for (uint32_t i = 0; i < NAME_MOVES && n->moved < n->former_count; i++) names_enter(n, n->moved++);
    if (n->moved < n->former_count) return;
    free(n->former);
    n->former = NULL;
}

/* The former table is half full, so each of its texts has moved when the present one is. */
static bool names_grow(record_names *n)
{
    uint32_t slots = n->slots ? n->slots * 2 : 512;
    uint32_t *slot = (uint32_t *) calloc(slots, sizeof *slot);
    if (!slot) return false;
    n->former = n->slot;
    n->former_slots = n->slots;
    n->former_count = n->stop.count;
    n->moved = 0;
    n->slot = slot;
    n->slots = slots;
    return true;
}

static bool names_text_room(record_names *n, uint32_t length)
{
    if (n->room - n->size >= length) return true;
    uint64_t wanted = (uint64_t) n->size + length, room = n->room ? n->room * 2ull : 4096;
    while (room < wanted) room *= 2;
    uint8_t *grown = wanted < NAME_LIMIT ? (uint8_t *) realloc(n->text, room) : NULL;
    if (!grown) return false;
    n->text = grown;
    n->room = (uint32_t) room;
    return true;
}

static inline uint32_t names_look(const record_names *n, const uint32_t *slot, uint32_t *i, uint32_t mask,
                                  const uint8_t *text, uint32_t length)
{
    for (*i &= mask; slot[*i]; *i = (*i + 1) & mask) {
        uint32_t number = slot[*i] - 1;
        if (name_length(n, number) == length && !memcmp(n->text + name_start(n, number), text, length)) return number;
    }
    return NAME_NONE;
}

/* Returns the number of a text; NAME_NONE: it has none, and `slot` is set to its place. */
PRIVATE inline uint32_t name_find(const record_names *n, const uint8_t *text, uint32_t length, uint32_t *slot)
{
    if (!n->slots) return NAME_NONE;
    uint32_t hash = (uint32_t) alias_hash(n->seed, text, length), before = hash;
    *slot = hash;
    uint32_t number = names_look(n, n->slot, slot, n->slots - 1, text, length);
    if (number != NAME_NONE || !n->former) return number;
    return names_look(n, n->former, &before, n->former_slots - 1, text, length);
}

/* Returns the number of a text.  A new text gets the next number. */
GLUE uint32_t name_add(record_names *n, const uint8_t *text, uint32_t length)
{
    uint32_t slot = 0;
    if (n->former) names_move(n);
    if (n->stop.count * 2 >= n->slots && !names_grow(n)) return NAME_NONE;
    uint32_t number = name_find(n, text, length, &slot);
    if (number != NAME_NONE) return number;
    if (!names_text_room(n, length) || !column_room(&n->stop, 1)) return NAME_NONE;
    memcpy(n->text + n->size, text, length);
    n->size += length;
    n->stop.at[n->stop.count++] = n->size;
    n->slot[slot] = n->stop.count;
    return n->stop.count - 1;
}

PRIVATE void names_free(record_names *n)
{
    free(n->text);
    free(n->stop.at);
    free(n->slot);
    free(n->former);
}
