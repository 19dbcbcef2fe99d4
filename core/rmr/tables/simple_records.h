/* Route tables while their records are parsed (simple_records.c), and their numbered texts (record_names.c). */
#ifndef ROUTERD_CORE_SIMPLE_RECORDS_H
#define ROUTERD_CORE_SIMPLE_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "shm/unity.h"

#define NAME_NONE UINT32_MAX

typedef struct {
    uint32_t *at;
    uint32_t count, room;
} record_column;

typedef struct {
    uint8_t *text;             /* all texts without separators */
    uint32_t size, room;
    record_column stop;        /* where each one ends */
    uint32_t *slot;            /* open addressing, at most half full: number + 1 */
    uint32_t slots;
    uint32_t *former;          /* the table that `slot` replaces; NULL: none, or all of it has moved */
    uint32_t former_slots, former_count, moved;
    uint64_t seed;
} record_names;

PRIVATE bool column_room(record_column *c, uint32_t more);
GLUE bool column_add(record_column *c, uint32_t value);
GLUE uint32_t name_start(const record_names *n, uint32_t number);
GLUE uint32_t name_length(const record_names *n, uint32_t number);
PRIVATE uint32_t name_find(const record_names *n, const uint8_t *text, uint32_t length, uint32_t *slot);
GLUE uint32_t name_add(record_names *n, const uint8_t *text, uint32_t length);
PRIVATE void names_free(record_names *n);

typedef struct {               /* lists of names in groups; a list of senders is one group */
    record_names text;         /* fields that were read, by which their lists are found again */
    record_column of_text;     /* by text: the list's number */
    record_column place, word; /* by list (core/rmr/forwarding/table.h) */
    record_names name;
} record_lists;

typedef struct {
    record_column type, subscription, target, line;
    record_column sender_row, sender_list;     /* rows for certain senders, and the numbers of their lists */
    record_lists groups, senders;
    bool compatible;                           /* blanks around names get a warning */
    bool failed;                               /* memory was exhausted, and the table is invalid */
} record_table;

GLUE uint32_t record_new_list(record_lists *l);
GLUE bool record_row(record_table *t, int32_t type, int32_t subscription, uint32_t target, uint32_t line);
GLUE size_t records_take(record_table *t, const uint8_t *text, size_t length, size_t at, uint32_t line);
GLUE void records_free(record_table *t);

#endif
