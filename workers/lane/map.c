/* What has a number: channels, handles, unsettled deliveries by delivery-id.
 *
 * Numbers that follow each other share a page, so deliveries in their order cost no allocation: the page that becomes
 * empty is the next one to be filled.  The number of an old delivery among new ones keeps its page alone.  Pages are
 * found by open addressing, and stand in the order of their numbers; that order wraps as serial numbers do (RFC 1982).
 */
#include <stdlib.h>

#include "workers/lane/lane.h"

#define MAP_SLOTS 8u
#define MAP_SPARES 32u                 /* pages for 1024 deliveries, which settle together */

static inline uint32_t slot_of(const lane_map *m, uint32_t number) { return (number * 0x9e3779b1u >> 8) & m->mask; }

/* Of page numbers, which have as many bits less as a page has keys: whether a comes before b. */
static inline bool page_before(uint32_t a, uint32_t b) { return (int32_t) ((a - b) * LANE_PAGE) < 0; }

__attribute__((noinline)) static lane_page *page_find(lane_map *m, uint32_t number)
{
    if (!m->pages) return NULL;
    for (uint32_t i = slot_of(m, number); m->slots[i]; i = (i + 1) & m->mask)
        if (m->slots[i]->number == number) return m->recent = m->slots[i];
    return NULL;
}

static inline lane_page *page_of(lane_map *m, uint32_t number)
{
    return __builtin_expect(m->recent && m->recent->number == number, 1) ? m->recent : page_find(m, number);
}

static void slot_put(lane_map *m, lane_page *page)
{
    uint32_t i = slot_of(m, page->number);
    while (m->slots[i]) i = (i + 1) & m->mask;
    m->slots[i] = page;
}

static bool slots_grow(lane_map *m)
{
    if (m->slots && (m->pages + 1) * 2 <= m->mask + 1) return true;
    uint32_t size = m->slots ? (m->mask + 1) * 2 : MAP_SLOTS;
    lane_page **slots = (lane_page **) calloc(size, sizeof *slots);
    if (!slots) return false;
    free(m->slots);
    m->slots = slots;
    m->mask = size - 1;
    for (lane_page *page = m->first; page; page = page->next) slot_put(m, page);
    return true;
}

/* Closes the gap, so that a search need not pass deleted slots. */
static void slot_remove(lane_map *m, const lane_page *page)
{
    uint32_t i = slot_of(m, page->number);
    while (m->slots[i] != page) i = (i + 1) & m->mask;
    for (uint32_t j = (i + 1) & m->mask; m->slots[j]; j = (j + 1) & m->mask) {
        if (((j - slot_of(m, m->slots[j]->number)) & m->mask) < ((j - i) & m->mask)) continue;
        m->slots[i] = m->slots[j];
        i = j;
    }
    m->slots[i] = NULL;
}

__attribute__((noinline)) static lane_page *page_new(lane_map *m, uint32_t number)
{
    if (!slots_grow(m)) return NULL;
    lane_page *page = m->spare, *after = m->last;
    if (page) {
        m->spare = page->next;
        m->spares--;
    } else if (!(page = (lane_page *) calloc(1, sizeof *page))) {
        return NULL;
    }
    while (!m->unordered && after && page_before(number, after->number)) after = after->previous;
    page->number = number;
    page->previous = after;
    page->next = after ? after->next : m->first;
    *(page->next ? &page->next->previous : &m->last) = page;
    *(after ? &after->next : &m->first) = page;
    slot_put(m, page);
    m->pages++;
    return m->recent = page;
}

__attribute__((noinline)) static void page_free(lane_map *m, lane_page *page)
{
    slot_remove(m, page);
    *(page->next ? &page->next->previous : &m->last) = page->previous;
    *(page->previous ? &page->previous->next : &m->first) = page->next;
    m->pages--;
    m->recent = NULL;
    if (m->spares == MAP_SPARES) { free(page); return; }
    m->spares++;
    page->next = m->spare;
    m->spare = page;                   /* all of its values are 0 */
}

/* Gives the number a value other than 0, in place of the one it may have.  False: there is no memory. */
__attribute__((always_inline)) PRIVATE inline bool lane_map_put(lane_map *m, uint32_t key, uint64_t value)
{
    lane_page *page = page_of(m, key / LANE_PAGE);
    if (__builtin_expect(!page, 0) && !(page = page_new(m, key / LANE_PAGE))) return false;
    uint64_t *at = &page->value[key % LANE_PAGE];
    page->used += !*at;
    *at = value;
    return true;
}

/* The number's value; 0: it has none. */
PRIVATE inline uint64_t lane_map_get(lane_map *m, uint32_t key)
{
    const lane_page *page = page_of(m, key / LANE_PAGE);
    return page ? page->value[key % LANE_PAGE] : 0;
}

/* The same, and the number has none from now on. */
PRIVATE inline uint64_t lane_map_take(lane_map *m, uint32_t key)
{
    lane_page *page = page_of(m, key / LANE_PAGE);
    if (!page) return 0;
    uint64_t value = page->value[key % LANE_PAGE];
    page->value[key % LANE_PAGE] = 0;
    if (value && !--page->used) page_free(m, page);
    return value;
}

/* A number that has a value; there has to be one. */
PRIVATE uint32_t lane_map_some(const lane_map *m)
{
    uint32_t i = 0;
    while (!m->first->value[i]) i++;
    return m->first->number * LANE_PAGE + i;
}

/* The first page at that number or behind it. */
static lane_page *page_from(lane_map *m, uint32_t number)
{
    lane_page *page = page_of(m, number);
    if (page || !m->first || !page_before(m->first->number, number)) return page ? page : m->first;
    for (page = m->last; page && page_before(number, page->number) && page->previous
         && !page_before(page->previous->number, number); m->passed++) page = page->previous;
    return page && page_before(page->number, number) ? NULL : page;
}

/* The value of the first number from *key to `last` that has one; *key becomes that number.  0: there is none.  Numbers
 * without a page cost nothing, so a range may be as long as a peer says: a call passes each page once at most. */
PRIVATE inline uint64_t lane_map_next(lane_map *m, uint32_t *key, uint32_t last)
{
    for (const lane_page *page = page_from(m, *key / LANE_PAGE); page; page = page->next) {
        uint32_t begin = page->number * LANE_PAGE;
        if ((int32_t) (begin - *key) > 0) *key = begin;
        for (; *key - begin < LANE_PAGE; ++*key) {
            if ((int32_t) (last - *key) < 0) return 0;
            if (page->value[*key - begin]) return page->value[*key - begin];
        }
    }
    return 0;
}

static void pages_free(lane_page *page)
{
    for (lane_page *next; page; page = next) {
        next = page->next;
        free(page);
    }
}

/* Gives back what is kept for the next numbers. */
PRIVATE void lane_map_rest(lane_map *m)
{
    if (!m->pages) { lane_map_end(m); return; }
    pages_free(m->spare);
    m->spare = NULL;
    m->spares = 0;
}

PRIVATE inline void lane_map_end(lane_map *m)
{
    pages_free(m->first);
    pages_free(m->spare);
    free(m->slots);
    *m = (lane_map) { 0 };
}
