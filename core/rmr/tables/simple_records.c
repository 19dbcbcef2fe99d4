/* The simple records of route tables:
 *
 *   mse | type[,sender...] | subscription | groups [# comment]
 *   rte | type[,sender...] | groups [# comment]
 *
 * in ASCII and without errors.  records_take() stops at any other record, which parser.py parses; that file has all
 * rules and errors, and would parse a simple record to the same result.
 *
 *   text --record_read--> fields --record_enter--> a row of numbers; texts have numbers, too (record_names.c)
 */
#include <stdlib.h>
#include <string.h>

#include "core/rmr/tables/simple_records.h"

#define RECORD_GROUPS 64u          /* the limits of fields.py */
#define RECORD_MEMBERS 32u
#define RECORD_SENDERS 127u
#define RECORD_RESERVED 100        /* types from 0 to below this one get a warning */
#define RECORD_DIGITS 10           /* of a number that may fit into 32 bits */
#define RECORD_NAME 260            /* the limits of decoding.py: octets of a name, and of a record */
#define RECORD_LENGTH (1 << 20)
#define RECORD_ANY (-1)            /* the subscription of rte */

typedef struct {
    const uint8_t *at;
    uint32_t length;
} record_field;

typedef struct {
    int32_t type, subscription;
    record_field senders, groups;              /* senders: length 0 for none */
} record_fields;

static inline bool record_blank(uint8_t c) { return c == ' ' || c == '\t'; }

static inline const uint8_t *record_skip(const uint8_t *p, const uint8_t *end)
{
    while (p < end && record_blank(*p)) p++;
    return p;
}

/* ---- fields ---- */

/* Reads a number of 32 bits, and returns what follows it; NULL: this is no simple number. */
static inline const uint8_t *record_number(const uint8_t *p, const uint8_t *end, int32_t *number)
{
    bool minus = p < end && *p == '-';
    const uint8_t *first = p += minus;
    int64_t value = 0;
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        if (p - first == RECORD_DIGITS) return NULL;
        value = value * 10 + (*p - '0');
    }
    if (minus) value = -value;
    if (p == first || value < INT32_MIN || value > INT32_MAX) return NULL;
    *number = (int32_t) value;
    return p;
}

static inline bool record_host(uint8_t c)
{
    return c > ' ' && c < 0x7f && c != ':' && c != ',' && c != ';' && c != '|' && c != '#' && c != '[' && c != ']';
}

static inline bool record_address(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == ':' || c == '.';
}

/* Returns what follows host:port or [address]:port; NULL: this is neither. */
static inline const uint8_t *record_endpoint(const uint8_t *p, const uint8_t *end)
{
    const uint8_t *first = p;
    if (p < end && *p == '[') {
        for (p++; p < end && record_address(*p);) p++;
        if (p == end || *p++ != ']' || p - first == 2) return NULL;
    } else {
        while (p < end && record_host(*p)) p++;
        if (p == first) return NULL;
    }
    if (p == end || *p++ != ':') return NULL;
    uint32_t port = 0;
    for (first = p; p < end && p - first < 5 && *p >= '0' && *p <= '9'; p++) port = port * 10 + (uint32_t) (*p - '0');
    return port && port < 65536 ? p : NULL;
}

/* Returns a list's next name, sets `stop` to its end, and moves `p` behind blanks after it; NULL: it is not simple, or
 * too long. */
static inline const uint8_t *record_name(const record_table *t, const uint8_t **p, const uint8_t *end,
                                         const uint8_t **stop)
{
    const uint8_t *name = t->compatible ? *p : record_skip(*p, end);
    *stop = record_endpoint(name, end);
    if (!*stop || *stop - name > RECORD_NAME) return NULL;
    *p = t->compatible ? *stop : record_skip(*stop, end);
    return name;
}

/* Returns whether a field is a list of names in at most so many groups, each with at most so many members. */
static bool record_simple_list(const record_table *t, record_field f, uint32_t most_groups, uint32_t most_members)
{
    const uint8_t *p = f.at, *end = f.at + f.length, *stop;
    uint32_t groups = 1, members = 1;
    while (record_name(t, &p, end, &stop)) {
        if (p == end) return true;
        if (*p == ',') members++;
        else if (*p == ';') groups++, members = 1;
        else return false;
        if (groups > most_groups || members > most_members) return false;
        p++;
    }
    return false;
}

/* ---- a record ---- */

/* Returns the first octet behind blanks, a bar and blanks; NULL: there is no bar. */
static inline const uint8_t *record_bar(const uint8_t *p, const uint8_t *end)
{
    p = record_skip(p, end);
    return p < end && *p == '|' ? record_skip(p + 1, end) : NULL;
}

/* Reads a field up to a bar, a comment or the end of the record, and returns its end; NULL: it has another octet. */
static inline const uint8_t *record_rest(const uint8_t *p, const uint8_t *end, record_field *f)
{
    const uint8_t *first = p;
    while (p < end && *p != '|' && *p != '#' && ((*p >= ' ' && *p < 0x7f) || *p == '\t')) p++;
    if (p == end || (*p == '#' && (p == first || !record_blank(p[-1])))) return NULL;
    const uint8_t *last = p;
    while (last > first && record_blank(last[-1])) last--;
    *f = (record_field) {first, (uint32_t) (last - first)};
    return p;
}

/* Returns what follows the end of a record and of its comment; NULL: the record may continue behind this text, another
 * field follows, or the comment has a bar and those end comments. */
static inline const uint8_t *record_end(const uint8_t *p, const uint8_t *end, bool compatible)
{
    if (p < end && *p == '#')
        while (p < end && *p != '\n' && *p != '\r' && !(compatible && *p == '|')) p++;
    if (p == end) return NULL;
    if (*p == '\n') return p + 1;
    if (*p != '\r' || p + 1 == end) return NULL;
    return p[1] == '\n' ? p + 2 : p + 1;
}

/* Returns what follows a record that is simple except for its groups and senders; NULL: this is none. */
static inline const uint8_t *record_read(const uint8_t *p, const uint8_t *end, bool compatible, record_fields *r)
{
    p = record_skip(p, end);
    if (end - p < 4) return NULL;
    bool mse = !memcmp(p, "mse", 3);
    if (!mse && memcmp(p, "rte", 3)) return NULL;
    if (!(p = record_bar(p + 3, end)) || !(p = record_number(p, end, &r->type))) return NULL;
    if (r->type >= 0 && r->type < RECORD_RESERVED) return NULL;
    p = record_skip(p, end);
    r->senders = (record_field) {p, 0};
    if (p < end && *p == ',' && (!(p = record_rest(p + 1, end, &r->senders)) || !r->senders.length)) return NULL;
    r->subscription = RECORD_ANY;
    if (mse && (!(p = record_bar(p, end)) || !(p = record_number(p, end, &r->subscription)))) return NULL;
    if (!(p = record_bar(p, end)) || !(p = record_rest(p, end, &r->groups)) || !r->groups.length) return NULL;
    return record_end(p, end, compatible);
}

/* ---- a row ---- */

/* Returns the number of a new list without groups, or NAME_NONE without memory. */
GLUE inline uint32_t record_new_list(record_lists *l)
{
    return column_add(&l->place, l->word.count) ? l->place.count - 1 : NAME_NONE;
}

static bool record_by_meid(record_field f) { return f.length == 5 && !memcmp(f.at, "%meid", 5); }

static bool record_add_groups(const record_table *t, record_lists *l, record_field f)
{
    const uint8_t *p = f.at, *end = f.at + f.length, *stop, *name;
    if (record_by_meid(f)) return column_add(&l->word, 0);
    uint32_t groups = l->word.count, members = groups + 1;
    if (!column_room(&l->word, 2)) return false;
    l->word.at[groups] = 1;
    l->word.at[members] = 0;
    l->word.count += 2;
    while ((name = record_name(t, &p, end, &stop))) {
        uint32_t number = name_add(&l->name, name, (uint32_t) (stop - name));
        if (number == NAME_NONE || !column_add(&l->word, number)) return false;
        l->word.at[members]++;
        if (p == end) break;
        if (*p++ == ',') continue;
        members = l->word.count;
        if (!column_add(&l->word, 0)) return false;
        l->word.at[groups]++;
    }
    return true;
}

/* Returns the number of the list that a field holds; NAME_NONE: it is not simple, or there is no memory. */
static inline uint32_t record_list(record_table *t, record_lists *l, record_field f)
{
    bool senders = l == &t->senders;
    uint32_t slot, known = name_find(&l->text, f.at, f.length, &slot);
    if (known != NAME_NONE) return l->of_text.at[known];
    if (!record_simple_list(t, f, senders ? 1 : RECORD_GROUPS, senders ? RECORD_SENDERS : RECORD_MEMBERS)
        && (senders || !record_by_meid(f))) return NAME_NONE;
    uint32_t number = record_new_list(l);
    t->failed = number == NAME_NONE || !record_add_groups(t, l, f) || !column_add(&l->of_text, number)
                || name_add(&l->text, f.at, f.length) == NAME_NONE;
    return t->failed ? NAME_NONE : number;
}

GLUE inline bool record_row(record_table *t, int32_t type, int32_t subscription, uint32_t target, uint32_t line)
{
    return column_add(&t->type, (uint32_t) type) && column_add(&t->subscription, (uint32_t) subscription) &&
           column_add(&t->target, target) && column_add(&t->line, line);
}

/* Adds a row; false: the record is not simple and no row was added, or there is no memory. */
static inline bool record_enter(record_table *t, const record_fields *r, uint32_t line)
{
    uint32_t list = NAME_NONE;
    if (r->senders.length && (list = record_list(t, &t->senders, r->senders)) == NAME_NONE) return false;
    uint32_t target = record_list(t, &t->groups, r->groups);
    if (target == NAME_NONE) return false;
    if (list != NAME_NONE && !(column_add(&t->sender_row, t->type.count) && column_add(&t->sender_list, list)))
        t->failed = true;
    if (!record_row(t, r->type, r->subscription, target, line)) t->failed = true;
    return !t->failed;
}

/* Takes records from text[at] on, the first of them in `line`, and returns where the first one begins that is not
 * simple. */
GLUE size_t records_take(record_table *t, const uint8_t *text, size_t length, size_t at, uint32_t line)
{
    const uint8_t *end = text + length, *p = text + at, *next;
    record_fields r;
    while ((next = record_read(p, end, t->compatible, &r)) && next - p <= RECORD_LENGTH && record_enter(t, &r, line)) {
        p = next;
        line++;
    }
    return (size_t) (p - text);
}

static void record_lists_free(record_lists *l)
{
    names_free(&l->text);
    names_free(&l->name);
    free(l->of_text.at);
    free(l->place.at);
    free(l->word.at);
}

GLUE void records_free(record_table *t)
{
    record_column *columns[] = {&t->type, &t->subscription, &t->target, &t->line, &t->sender_row, &t->sender_list};
    for (uint32_t i = 0; i < sizeof columns / sizeof *columns; i++) free(columns[i]->at);
    record_lists_free(&t->groups);
    record_lists_free(&t->senders);
}
