/* Columns of telemetry records, from which the recorder builds Arrow arrays.
 *
 *   ring --64 at a time--> rows that make sense --a column at a time--> columns, ids as codes
 *
 * A column of ids holds codes: indices into the list of distinct ids in the order of their arrival, so that one lookup
 * per id serves all rows.  An id whose place was reused meanwhile is in the list again, at most once per row.
 */
#ifndef ROUTERD_SHM_FLOW_COLUMNS_H
#define ROUTERD_SHM_FLOW_COLUMNS_H

#include "shm/memory/record.h"
#include "shm/memory/telemetry.h"

#define FLOW_ROWS 64u                  /* rows taken at a time: they fit in the first-level cache */
#define FLOW_PLACES (1u << 16)         /* places of ids */

typedef struct {
    uint32_t id, code;         /* the last id with this place; its code plus 1, or 0 */
} flow_code;

typedef struct {
    int32_t *column;
    uint32_t *id;              /* by code, with room for one per row */
    flow_code *place;
    uint32_t count;
} flow_codes;

#define FLOW_CODED_COLUMNS(X) /* column of codes, its name, the id of row i, which has record r */ \
    X(FROM, "from", r->of.from_link) X(TO, "to", r->to_link) \
    X(ADDRESS, "address", r->of.address) X(PATH, "path", r->of.path) X(MEID, "meid", r->of.meid) \
    X(CONDITION, "condition", r->condition) X(ONWARD, "onward", rows->onward[i]) X(BACK, "back", rows->back[i])

#define FLOW_CODED_NUMBER(which, name, id) CODED_##which,
enum flow_coded { FLOW_CODED_COLUMNS(FLOW_CODED_NUMBER) FLOW_CODED };

#define FLOW_CODED_NAME(which, name, id) name,
static const char *const flow_coded_names[] = {FLOW_CODED_COLUMNS(FLOW_CODED_NAME)};

#define FLOW_NUMBERS(X) /* type, column, value of a row with record r about message m; -1: unknown */ \
    X(int64_t, ts, (int64_t) (r->arrived + offset) / 1000) \
    X(int64_t, seq, r->number & INT64_MAX) \
    X(int64_t, bytes, r->bytes) \
    X(int64_t, latency, flow_since(r->sent, r->arrived)) \
    X(int64_t, settle, flow_since(r->settled, r->arrived)) \
    X(int64_t, queue, r->sent ? (int64_t) r->queued : -1) \
    X(int64_t, starved, r->sent ? (int64_t) r->starved : -1) \
    X(int64_t, message, m->known & KNOWN_EXTRACT && m->message ? (int64_t) (m->message & INT64_MAX) : -1) \
    X(int64_t, body, m->known & KNOWN_BODY && r->bytes >= m->front ? (int64_t) (r->bytes - m->front) : -1) \
    X(int64_t, delivery, m->delivery & INT64_MAX) \
    X(int32_t, mtype, m->mtype) X(int32_t, sub_id, m->sub_id) X(int32_t, weight, m->weight) \
    X(int32_t, pieces, m->pieces) X(int16_t, worker, m->worker) X(int16_t, hops, m->hops) \
    X(int16_t, deliveries, m->known & KNOWN_EXTRACT ? m->delivery_count : -1) \
    X(int8_t, kind, m->kind) X(int8_t, outcome, m->outcome) X(int8_t, treatment, m->treatment) \
    X(int8_t, priority, m->priority) X(int8_t, known, m->known & INT8_MAX) \
    X(int8_t, settled, (m->marks & MARK_PRESETTLED) != 0) X(int8_t, further, (m->marks & MARK_FURTHER) != 0) \
    X(int8_t, state, (m->marks & MARK_STATE) / MARK_STATE_1)

#define FLOW_OCTETS(X) /* type, column, octets of a row, which are valid if `known` says so */ \
    X(uint8_t, trace, 16) X(uint8_t, span, 8) X(uint8_t, transaction, 32)

typedef struct {
#define FLOW_COLUMN(type, column, ...) type *column;
    FLOW_NUMBERS(FLOW_COLUMN)
    FLOW_OCTETS(FLOW_COLUMN)
    flow_codes codes[FLOW_CODED];
    /* `seq` by worker; highest 0: no rows */
    int64_t lowest[ROUTERD_MAX_WORKERS + 1], highest[ROUTERD_MAX_WORKERS + 1];
    uint32_t count, room;
} flow_columns;

typedef struct {
    const char *name;
    size_t at, bytes;          /* offset of the pointer in flow_columns; bytes of a row */
} flow_column_line;

#define FLOW_NUMBER_LINE(type, column, value) {#column, offsetof(flow_columns, column), sizeof(type)},
#define FLOW_OCTETS_LINE(type, column, octets) {#column, offsetof(flow_columns, column), octets},
static const flow_column_line flow_column_lines[] = {FLOW_NUMBERS(FLOW_NUMBER_LINE) FLOW_OCTETS(FLOW_OCTETS_LINE)};
#define FLOW_COLUMN_LINES (sizeof flow_column_lines / sizeof *flow_column_lines)

typedef struct {               /* rows that are being copied */
    telemetry_said said[FLOW_ROWS];
    uint32_t onward[FLOW_ROWS], back[FLOW_ROWS];
    uint32_t count;
} flow_rows;

static inline bool flow_sound(const telemetry_said *r)
{
    const telemetry_message *m = &r->of;
    return m->kind <= FLOW_DROP && m->outcome <= FLOW_DROPPED && m->treatment <= FLOW_NO_CLASS && m->priority <= 9
           && m->worker <= ROUTERD_MAX_WORKERS;
}

/* Keeps a valid record, which has been copied already; `more` are its optional values. */
static inline void flow_rows_keep(flow_rows *rows, flow_columns *c, const telemetry_more *more)
{
    uint32_t i = rows->count++, at = c->count + i, known = rows->said[i].of.known;
    rows->onward[i] = rows->back[i] = 0;
    if (__builtin_expect(!(known & KNOWN_MORE), 1)) return;
    const telemetry_more m = *more;
    memcpy(c->trace + sizeof m.trace * at, m.trace, sizeof m.trace);
    memcpy(c->span + sizeof m.span * at, m.span, sizeof m.span);
    memcpy(c->transaction + sizeof m.transaction * at, m.transaction, sizeof m.transaction);
    if (!(known & KNOWN_ROUTE)) return;
    rows->onward[i] = m.onward;
    rows->back[i] = m.back;
}

static inline int32_t flow_code_of(flow_codes *c, uint32_t id)
{
    flow_code *place = &c->place[id & (FLOW_PLACES - 1)];
    if (place->id != id || !place->code) {
        c->id[c->count] = id;
        *place = (flow_code) {id, ++c->count};
    }
    return (int32_t) place->code - 1;
}

static inline void flow_codes_fill(flow_codes *c, uint32_t at, const uint32_t *id, uint32_t count)
{
    int32_t code = count ? flow_code_of(c, *id) : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i && id[i] != id[i - 1]) code = flow_code_of(c, id[i]);
        c->column[at + i] = code;
    }
}

static inline void flow_codes_clear(flow_codes *c)
{
    while (c->count) c->place[c->id[--c->count] & (FLOW_PLACES - 1)].code = 0;
}

static inline int64_t flow_since(uint64_t time, uint64_t arrived)
{
    return time && time >= arrived ? (int64_t) (time - arrived) : -1;
}

/* Fills a column at a time: filling a row at a time would write to forty places that compete for cache lines. */
#define FLOW_FILL(type, column, value) do { \
        type *restrict to = c->column + c->count; \
        for (uint32_t i = 0; i < rows->count; i++) { \
            const telemetry_said *r = &rows->said[i]; \
            const telemetry_message *m = &r->of; \
            (void) m; \
            to[i] = (type) (value); \
        } \
    } while (0);

#define FLOW_FILL_CODES(which, name, value) do { \
        uint32_t id[FLOW_ROWS]; \
        for (uint32_t i = 0; i < rows->count; i++) { \
            const telemetry_said *r = &rows->said[i]; \
            (void) r; \
            id[i] = value; \
        } \
        flow_codes_fill(&c->codes[CODED_##which], c->count, id, rows->count); \
    } while (0);

/* `offset`: of the time of day from CLOCK_MONOTONIC, nanoseconds. */
static inline void flow_fill(flow_columns *c, const flow_rows *rows, uint64_t offset)
{
    FLOW_NUMBERS(FLOW_FILL)
    FLOW_CODED_COLUMNS(FLOW_FILL_CODES)
    for (uint32_t i = 0; i < rows->count; i++) {
        uint32_t worker = rows->said[i].of.worker;
        int64_t number = c->seq[c->count + i];
        if (!c->highest[worker] || number < c->lowest[worker]) c->lowest[worker] = number;
        if (number > c->highest[worker]) c->highest[worker] = number;
    }
    c->count += rows->count;
}

/* Appends up to FLOW_ROWS records of the core of `generation`, as far as there is room; returns the number of records
 * read and adds the number of malformed ones to `bad`. */
static inline uint32_t flow_take(flow_columns *c, telemetry_consumer *from, uint64_t waiting, uint32_t generation,
                                 uint64_t offset, uint64_t *bad)
{
    flow_rows rows;
    uint32_t most = c->room - c->count < FLOW_ROWS ? c->room - c->count : FLOW_ROWS, read = 0;
    rows.count = 0;
    for (; read < most && read < waiting; read++) {
        const telemetry_record *place = &from->view.record[(from->next + read) & (TELEMETRY_RECORDS - 1)];
        telemetry_said *said = &rows.said[rows.count];
        *said = place->said;                                    /* a copy, so that no writer changes it after the check
                                                                   */
        if (said->of.generation != generation) break;
        if (flow_sound(said)) flow_rows_keep(&rows, c, &place->more);
        else ++*bad;
    }
    from->next += read;
    flow_fill(c, &rows, offset);
    return read;
}

static inline void flow_columns_clear(flow_columns *c)
{
    for (uint32_t i = 0; i < FLOW_CODED; i++) flow_codes_clear(&c->codes[i]);
    memset(c->highest, 0, sizeof c->highest);
    c->count = 0;
}

#endif
