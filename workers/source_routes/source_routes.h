/* Source routes: the table of route workers, and a message on its way through them. */
#ifndef ROUTERD_WORKERS_SOURCE_ROUTES_H
#define ROUTERD_WORKERS_SOURCE_ROUTES_H

#include "shm/codec/scan.h"
#include "shm/unity.h"

#define ROUTE_SOURCE_WORDS 4u          /* bits for names of sources: 256 of them */
#define ROUTE_NOBODY UINT32_MAX

enum route_kind {
    ROUTE_FORWARD, ROUTE_STATIC, ROUTE_PROXY, ROUTE_EXTEND, ROUTE_COLLAPSE, ROUTE_PAYLOAD_WRAP, ROUTE_PAYLOAD_UNWRAP,
    ROUTE_WRAP,
    ROUTE_UNWRAP, ROUTE_TEE, ROUTE_DISCOVERY, ROUTE_TRANSFORM, ROUTE_KINDS
};

enum route_form { ROUTE_AMQP, ROUTE_BARE, ROUTE_PAYLOAD, ROUTE_FORMS };
enum route_strip { ROUTE_STRIP_NOTHING, ROUTE_STRIP_COUNT, ROUTE_STRIP_SCOPES, ROUTE_STRIP_MARKER, ROUTE_STRIPS };
enum route_metadata { ROUTE_META_HIDE, ROUTE_META_COPY, ROUTE_META_KEYS, ROUTE_META_MERGE, ROUTE_METAS };
enum route_class { ROUTE_CARRY, ROUTE_APPEND, ROUTE_LOCAL, ROUTE_SEALED, ROUTE_CLASSES };

enum route_reason {                    /* shm/contract/source_routes.py names them in this order */
    ROUTE_EMPTY, ROUTE_NOT_MINE, ROUTE_NO_NEXT, ROUTE_SURPLUS, ROUTE_BAD_ADDRESS, ROUTE_BAD_ANNOTATION,
    ROUTE_BAD_ENCODING,
    ROUTE_TOO_MANY_HOPS, ROUTE_LONG_ONWARD, ROUTE_LONG_RETURN, ROUTE_LONG_ADDRESS, ROUTE_LONG_ROUTE, ROUTE_NESTING,
    ROUTE_METADATA,
    ROUTE_LONG_MESSAGE, ROUTE_ACCESS, ROUTE_NOT_IMPLEMENTED, ROUTE_UNUSABLE_RETURN, ROUTE_TRANSFORM_FAILED,
    ROUTE_REASONS
};

typedef struct { const uint8_t *at; uint16_t length; uint8_t type; } route_stop;
typedef struct { const route_stop *stop; uint32_t count; } route_list;
typedef struct { uint64_t bits[ROUTE_SOURCE_WORDS]; } route_sources;

typedef struct {                       /* who may send to an address */
    bool listed, local;                /* not listed: all but uplinks; local: these, too */
    route_sources from;
} route_access;

typedef struct {
    uint8_t kind, form, strip, strip_count, metadata;
    bool crosses;
    bool marks;                        /* it inserts a marker */
    bool tells_scopes;                 /* Python knows the scopes; they are not the digits at the end of an address */
    bool traces;
    bool limited;                      /* it may send to `send_to` only */
    uint32_t number;                   /* its place in the configuration, for Python */
    int16_t source;                    /* bit of `worker:` and its address; -1: nobody asks */
    route_stop address, traced;
    route_list route, returning, keys, scopes, send_to;
    route_sources uplinks;
    uint64_t in, out, refused[ROUTE_REASONS];
} route_worker;

typedef struct {                       /* an address of a worker */
    route_stop address;
    route_stop text;                   /* as it is written: `64#name` */
    uint32_t worker;
    bool inner;
    route_access access;
} route_entry;

typedef struct { uint8_t class; route_stop key; } route_key;

typedef struct {
    uint8_t hops, onward, returning, nesting, meta_keys;
    uint16_t address_octets, route_octets, meta_octets;
    bool lenient_tail;                 /* a zero octet may follow a BARE message of version 1 */
} route_limits;

typedef struct route_table {
    route_limits limits;
    uint32_t worker_count, entry_count, key_count, stop_count, slots;    /* slots: a power of two */
    route_worker *worker;
    route_entry *entry;
    route_key *key;
    route_stop *stop;                  /* of all lists */
    uint32_t *slot;                    /* number of an entry plus 1; 0: none */
    uint8_t bytes[];
} route_table;

/* Who somebody is that the router saw: the bits of its names, and whether it is an uplink. */
typedef struct { route_sources names; bool foreign; } route_source;

#define ROUTE_STOPS 512u               /* twice what a limit can be: one route in front of another */
#define ROUTE_DEPTH 16u                /* wrappers that one chain may put around each other, or take off */
#define ROUTE_VISITS 512u              /* workers that one message and its copies may pass here */
#define ROUTE_COPIES 32u
#define ROUTE_WHOLE (1u << 20)         /* octets of a message that must be there as a whole */
#define ROUTE_CHANGED_MOST (16u << 20) /* octets that a transform may make of a payload */
#define ROUTE_DATA_HEAD 8u             /* octets in front of each data section */
#define ROUTE_DETAIL 384u
#define ROUTE_TRACING_MOST 4096u       /* octets of a tracing context */
#define ROUTE_PASSED UINT8_MAX

enum route_result { ROUTE_PASS, ROUTE_DONE, ROUTE_MORE, ROUTE_REFUSED };
enum route_state { ROUTE_COMPLETE, ROUTE_PARTIAL, ROUTE_NONE };
typedef struct { route_stop stop[ROUTE_STOPS]; uint32_t count, octets; } route_path;

typedef struct {                       /* one key of the metadata, as it is encoded */
    const uint8_t *key, *name, *value;
    uint32_t key_size, name_size, value_size;
    uint32_t octets;                   /* as the limit counts */
    uint8_t class;
    const uint8_t *items;              /* of a list: its values; NULL: it is none */
    uint32_t items_size, items_count;
} route_meta;

typedef struct {
    route_path onward, returning;       /* last stop first */
    uint8_t state;
    uint16_t hops, nesting;
    uint32_t meta_count, meta_octets;
    route_meta meta[256];
    const uint8_t *tracing;            /* a context that is carried and not looked at; NULL: there is none */
    uint32_t tracing_size;
    uint32_t trace;                    /* which of them collects addresses, plus 1 */
    uint32_t added_count;              /* addresses collected here */
    const route_stop *added[256];
    const uint8_t *user;               /* the annotations map: what of it is not ours passes on; NULL: there is none */
    uint32_t user_size, user_count;
} route_level;

typedef struct {                       /* what stands around the payload */
    uint8_t form;
    uint32_t level;                    /* the message inside; of ROUTE_PAYLOAD: none */
    uint32_t tail;                     /* octets of it behind the payload (route_tails) */
} route_layer;

typedef struct {                       /* data sections being joined, also over pieces of a message (body.c) */
    uint64_t left;                     /* octets of the section at hand that are to come */
    uint32_t have;                     /* octets of the next one's beginning that are there */
    uint8_t head[SCAN_DESCRIPTOR_MAX + 5];
} route_sections;

typedef struct route_pile {            /* memory of one run, freed with it */
    struct route_pile *next;
    uint8_t bytes[];
} route_pile;

typedef struct {
    uint32_t worker;
    uint8_t reason;                    /* ROUTE_PASSED, or why the worker refused the message */
} route_visit;

typedef struct route_run {
    route_table *table;
    void *self;                        /* who tells scopes and runs transforms */
    /* memory for free(); NULL: it failed */
    uint8_t *(*change)(void *self, uint32_t worker, const uint8_t *data, size_t size, size_t *changed);
    route_level *level;                /* ROUTE_DEPTH + 1; the one at hand is number `depth` */
    uint32_t depth, layers;
    route_layer layer[ROUTE_DEPTH];    /* put around it here, the innermost first */
    uint32_t opened;                   /* wrappers taken off that came with it */
    route_sections sections[ROUTE_DEPTH];
    const uint8_t *rest;               /* of the payload: behind what was opened */
    uint64_t rest_size;
    bool bare_data;                    /* `rest` is data without a section around it */
    bool complete;                     /* there will be no more of it */
    uint64_t whole;                    /* octets of the message that are there */
    bool wants_whole;                  /* MORE: nothing is known before all of it is there */
    uint64_t need;                     /* of MORE, else: with fewer octets nothing more is known */
    route_source source;
    uint32_t sender;                   /* the worker it comes from; ROUTE_NOBODY: none yet */
    bool by_text;                      /* its onward route stands in no annotation */
    struct route_run *root, *copies;   /* the message itself; the next of its copies */
    uint32_t copy_count, copies_lost;  /* of the root: how many there are, how many there could not be */
    route_pile **pile;
    uint32_t *visit_count;
    route_visit *visit;
    uint8_t reason;
    char detail[ROUTE_DETAIL];
} route_run;

/* Python's answer: the scope of an address; its length, -1: none. */
typedef int (*route_scope)(void *self, uint32_t worker, const route_stop *s, uint8_t *scope, uint32_t room);

enum route_annotation { ROUTE_KEY_OTHER, ROUTE_KEY_ONWARD, ROUTE_KEY_RETURN, ROUTE_KEY_HOPS, ROUTE_KEY_STATE,
                        ROUTE_KEY_META, ROUTE_KEY_NESTING,
                        ROUTE_KEY_TO, ROUTE_KEY_TRACING, ROUTE_KEY_REPLY };

typedef struct { bool onward, returning, state; uint32_t seen; } route_given;

typedef struct { const uint8_t *at, *end; const char *why; } route_bare;

typedef struct {                       /* grows to the front: what is written stands at the end of its room */
    uint8_t *bytes;
    size_t room, used;
    bool failed;
} route_out;

typedef struct { uint8_t *bytes; size_t room, used; bool failed; } route_text_out;     /* grows to the end */
typedef struct { size_t offset; uint32_t length; } route_first;            /* where the first address stands, as text */

typedef struct route_sender {         /* what is known of an incoming link, found out once for each table */
    uint32_t epoch;                    /* of the table; 0: nothing yet */
    bool off;                          /* its messages pass no worker */
    bool anonymous, inter_router;
    bool limited;                      /* policy says which addresses it may send to: `reach` */
    uint32_t entry;                    /* the worker's address that is its target */
    uint8_t *reach;                    /* for each address of a worker 0 or 1 */
    route_source source;
} route_sender;

typedef struct route_engine {
    route_table *table;
    uint32_t epoch;
    void *self;
    route_scope scope;
    uint8_t *(*change)(void *self, uint32_t worker, const uint8_t *data, size_t size, size_t *changed);
    route_level *level;
    route_out out;
    route_text_out text;
    route_pile *pile;
    route_visit visit[ROUTE_VISITS];
    uint32_t visit_count;
    route_run run;
    route_first first;                 /* in the message as it leaves */
    bool anew;                         /* it has to be written anew */
} route_engine;

typedef struct route_body {
    uint32_t opened, layers;
    route_sections sections[ROUTE_DEPTH];
} route_body;

/* table.c */
PRIVATE bool route_same(const route_stop *a, const route_stop *b);
GLUE const route_entry *route_find(const route_table *t, const route_stop *s);
PRIVATE bool route_listed(const route_list *list, const route_stop *s);
PRIVATE bool route_meet(const route_sources *a, const route_sources *b);
PRIVATE bool route_admits(const route_access *a, const route_source *who);
PRIVATE uint8_t route_class_of(const route_table *t, const uint8_t *key, size_t size);
PRIVATE void route_table_free(route_table *t);
GLUE route_table *route_table_load(const uint8_t *bytes, size_t size);

/* run.c */
extern GLUE const char *const route_condition[ROUTE_REASONS];
extern GLUE const char *const route_why[ROUTE_REASONS];
PRIVATE enum route_result route_refuse(route_run *r, uint8_t reason, const route_stop *at, const char *text);
PRIVATE enum route_result route_over(route_run *r, uint8_t reason, const route_stop *at, const char *what, uint32_t is,
    uint32_t most);
PRIVATE uint8_t *route_room(route_run *r, size_t size);
PRIVATE void path_push(route_path *w, const route_stop *s);
PRIVATE void path_pop(route_path *w);
PRIVATE const route_stop *path_first(const route_path *w);
PRIVATE void path_prepend(route_path *w, const route_list *list);
PRIVATE void level_copy(route_level *to, const route_level *from);
PRIVATE void level_clear(route_level *l);
PRIVATE enum route_result level_check(route_run *r, const route_level *m, const route_stop *at);

/* read.c */
PRIVATE void path_reverse(route_path *w);
PRIVATE bool route_is_scheme(const uint8_t *text, uint32_t size);
PRIVATE enum route_result route_read_text(route_run *r, route_path *w, const uint8_t *text, uint32_t size);
PRIVATE void level_add_meta(route_level *l, const route_meta *m);
PRIVATE route_meta *level_find_meta(route_level *l, const route_meta *like);
PRIVATE enum route_annotation route_key_of(amqp_value v);
PRIVATE enum route_result route_read_map(route_run *r, route_level *l, const uint8_t *at, uint32_t size,
    uint32_t count, route_given *given);

/* meta.c */
PRIVATE void level_collect(route_level *l, const route_stop *text);
PRIVATE void level_leave(route_level *l);
PRIVATE void level_outside(route_level *l, const route_worker *w);
PRIVATE enum route_result level_merge(route_run *r, route_level *in, route_level *out, bool merge);

/* body.c */
PRIVATE enum route_result route_wrong(route_run *r, const char *why);
PRIVATE int64_t sections_take(route_sections *s, const uint8_t *from, size_t size, uint8_t *to);
PRIVATE bool sections_over(const route_sections *s);
PRIVATE void route_data_head(uint8_t *to, uint32_t size);
PRIVATE enum route_result body_begin(route_run *r, const uint8_t **at, const uint8_t *end, bool plain);
PRIVATE enum route_result body_gather(route_run *r, bool plain, route_sections *s);
PRIVATE enum route_result body_whole(route_run *r);
PRIVATE enum route_result route_path_begin(route_run *r, const route_bare *b, route_path *w, uint64_t count,
                                           bool onward);
PRIVATE enum route_result route_path_add(route_run *r, route_bare *b, route_path *w, uint64_t type, amqp_octets name);
PRIVATE enum route_result route_tracing(route_run *r, route_level *l, amqp_octets text, const char **why);
PRIVATE enum route_result route_read_to_end(route_run *r, route_level *l, const route_bare *b, amqp_octets payload);
PRIVATE enum route_result bare_message(route_run *r, route_level *l);
PRIVATE enum route_result body_open(route_run *r, uint8_t form, route_level *l);
PRIVATE enum route_result body_open_payload(route_run *r);

/* step.c */
PRIVATE void run_came_from(route_run *r, const route_worker *w);
PRIVATE enum route_result route_one(route_run *r, const route_entry *e, const route_stop *at, route_scope scope);
PRIVATE enum route_result route_chain(route_run *r, route_scope scope);

/* write.c */
PRIVATE void front_bytes(route_out *o, const void *bytes, size_t size);
PRIVATE const uint8_t *out_start(const route_out *o);
PRIVATE bool route_plain(const route_stop *s);
PRIVATE uint32_t route_uint(uint8_t *to, uint64_t n);
PRIVATE bool route_tails(route_run *r);
PRIVATE void route_write(const route_run *r, route_out *o, route_text_out *t, route_first *first);

/* take.c */
GLUE bool route_engine_open(route_engine *e);
PRIVATE void route_engine_clean(route_engine *e);
GLUE void route_engine_close(route_engine *e);
GLUE void route_engine_set(route_engine *e, route_table *t);
PRIVATE void route_begin(route_engine *e, const route_sender *s, const uint8_t *start, size_t size, bool complete,
    const scan_found *found);
PRIVATE enum route_result route_read(route_engine *e, const route_sender *s, const arena_content *c,
    const uint8_t *start, const scan_found *found);
PRIVATE void route_copies(route_engine *e);
PRIVATE enum route_result route_take(route_engine *e, const route_sender *s, const arena_content *c,
    const uint8_t *start, size_t size, bool complete, const scan_found *found);
PRIVATE bool route_compose(route_engine *e, const route_run *r, const uint8_t *start, const scan_found *found);
PRIVATE void route_count(route_engine *e);
PRIVATE int64_t route_body_take(route_body *b, uint8_t *bytes, size_t size);
PRIVATE uint32_t route_body_heads(const route_body *b, size_t size, uint8_t *to);
PRIVATE bool route_body_over(const route_body *b);

#endif
