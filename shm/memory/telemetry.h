/* Telemetry: the core's records of deliveries for the recorder, which writes them to the flow log, and for the
 * exporter, which sends those of sampled traces as spans.
 *
 *   | header | ring of records of 192 bytes: core -> recorder | names: texts that records refer to | links | spans |
 *
 * The ring follows the rules of ring.h, with one difference: the core drops and counts a record that finds it full.
 * Each record has a number, so a dropped one leaves a gap.
 *
 *   role      writes                      reads
 *   core      all but tail                tail
 *   recorder  tail                        records, head, names, links
 *   exporter  nothing                     spans, names, links
 *
 * The recorder moves the tail after its spool has the records (spool.py), so the ring keeps what a killed recorder has
 * not written.
 *
 * The id of a name or link is its place and the number of earlier uses of that place: id = place | uses << 16.  A place
 * is reused only after all others, so an id in a record stays valid for long. A reader that finds another id knows that
 * the name is gone.  Prohibited: changing a text while its id is valid; the core waiting for the recorder.
 *
 * Span n stands at place n - 1, modulo TELEMETRY_SPANS, under its number.  The core overwrites the oldest one whether
 * the exporter has read it or not; the exporter knows from the numbers what it has missed.
 */
#ifndef ROUTERD_SHM_TELEMETRY_H
#define ROUTERD_SHM_TELEMETRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TELEMETRY_MAGIC 0x776f6c66u
#define TELEMETRY_RECORDS (1u << 17)   /* a second of 130,000 deliveries: 24 MiB, touched when the flow log is on */
#define TELEMETRY_NAMES (1u << 16)
#define TELEMETRY_LINKS (1u << 16)
#define TELEMETRY_SPANS (1u << 14)     /* 4 MiB, touched when spans are made */
#define TELEMETRY_TEXT 248u            /* octets of a name; a longer name is cut and ends in a hash of the whole */

enum telemetry_kind { FLOW_DELIVERY = 0, FLOW_DROP = 2 };      /* KINDS of shm/contract/flow_log/schema.py */
enum telemetry_outcome {                                       /* OUTCOMES of shm/contract/flow_log/schema.py */
    FLOW_ACCEPTED = 0, FLOW_REJECTED = 1, FLOW_RELEASED = 2, FLOW_MODIFIED = 3, FLOW_PRESETTLED = 4,
    FLOW_UNDELIVERABLE = 5,
    FLOW_ABORTED = 6, FLOW_DROPPED = 7
};
enum telemetry_link_kind { FLOW_NORMAL = 0, FLOW_INTER_ROUTER = 1, FLOW_EDGE = 2, FLOW_ROUTE_CONTAINER = 3,
                           FLOW_LOCAL = 4 };
enum telemetry_class { FLOW_MC = 0, FLOW_UC = 1, FLOW_BALANCED = 2, FLOW_ANYCAST = 3, FLOW_LINK = 4,
                       FLOW_NO_CLASS = 5 };

typedef struct {               /* known when a message arrives: a cache line with which the records of all its copies
                                  begin */
    uint64_t delivery;         /* one number for all copies of a message */
    uint64_t message;          /* hash of the message-id; 0: there is none */
    uint32_t from_link, address, path, meid;   /* a link and names; 0: none */
    uint32_t generation;       /* of the core */
    uint32_t weight;           /* one of so many is recorded */
    int32_t mtype, sub_id;
    uint32_t front;            /* bytes before its body */
    uint16_t delivery_count;
    uint16_t pieces;           /* the pieces in which it arrived, at most UINT16_MAX */
    uint8_t worker, treatment, priority, hops;
    uint8_t known;             /* mask of enum telemetry_known */
    uint8_t kind, outcome;     /* these two are set only in the record */
    uint8_t marks;             /* mask of enum telemetry_marks */
} telemetry_message;

typedef struct {               /* times are nanoseconds of CLOCK_MONOTONIC; 0: it did not happen, or is unknown */
    telemetry_message of;
    uint64_t number;           /* the record's number in its receiving worker, from 1 */
    uint64_t arrived, settled, sent;
    uint64_t queued;           /* nanoseconds from arrival until its first byte was sent */
    uint64_t starved;          /* nanoseconds of these without credit */
    uint64_t bytes;
    uint32_t to_link, condition;   /* a link and a name; 0: none */
} telemetry_said;

typedef struct {               /* values that few messages have, in a cache line that other records do not touch */
    uint8_t trace[16], span[8];
    uint8_t transaction[32];   /* padded with zeros */
    uint32_t onward, back;     /* names */
} telemetry_more;

typedef struct {
    telemetry_said said;
    telemetry_more more;
} telemetry_record;

enum telemetry_known {         /* the optional values of a record that are valid */
    KNOWN_EXTRACT = 1,         /* message, delivery_count */
    KNOWN_BODY = 2,            /* front */
    KNOWN_TRACE = 4,           /* in `more`: trace and span */
    KNOWN_TRANSACTION = 8,
    KNOWN_ROUTE = 16,          /* onward and back */
    KNOWN_OWNER = 32,          /* a route table chose its receiver by the managed entity's owner */
    KNOWN_SPAN = 64            /* its trace is sampled: a span is made of it */
};

#define KNOWN_MORE (KNOWN_TRACE | KNOWN_TRANSACTION | KNOWN_ROUTE)

enum telemetry_marks {
    MARK_PRESETTLED = 1,       /* set only in the record */
    MARK_FURTHER = 2,          /* the message has an earlier record */
    MARK_STATE = 4 | 8         /* of its return route: ROUTE_STATES of shm/contract/flow_log/schema.py, from 1, times
                                  MARK_STATE_1; 0: unknown */
};

#define MARK_STATE_1 4u

typedef struct {
    _Alignas(64) _Atomic uint64_t number;      /* from 1; 0: there is none, or it is being replaced */
    telemetry_record of;
} telemetry_span;

typedef struct {
    _Atomic uint32_t id;       /* 0: there is none, or it is being replaced */
    uint32_t length;
    uint8_t text[TELEMETRY_TEXT];
} telemetry_name;

typedef struct {
    _Atomic uint32_t id;
    uint32_t connection;
    uint64_t number;
    uint32_t container, user, host;            /* names of its peer; 0: not known, or not to be recorded */
    uint8_t kind;              /* enum telemetry_link_kind */
    uint8_t reserved[3];
} telemetry_link;

typedef struct {
    uint32_t magic, records, names, links;
    uint64_t started;          /* the router's start, nanoseconds since 1970: identifies its life */
    _Alignas(64) _Atomic uint64_t head;
    _Alignas(64) _Atomic uint64_t tail;
    _Alignas(64) _Atomic uint64_t dropped;     /* records of the current core without room */
    uint64_t padding[7];
    _Atomic uint64_t spans;    /* the number of the last one */
    uint8_t rest[4096 - 4 * 64 - 8];
} telemetry_header;

_Static_assert(sizeof(telemetry_message) == 64 && sizeof(telemetry_said) == 128 && sizeof(telemetry_record) == 192,
               "a record is three cache lines, of which most need two");
_Static_assert(sizeof(telemetry_name) == 256 && sizeof(telemetry_span) == 256, "a name is four, and so is a span");
_Static_assert(sizeof(telemetry_link) == 32, "two links are one");
_Static_assert(sizeof(telemetry_header) == 4096, "the ring begins at a page");

typedef struct {               /* where the parts stand */
    telemetry_header *header;
    telemetry_record *record;
    telemetry_name *name;
    telemetry_link *link;
    telemetry_span *span;
} telemetry_view;

static inline size_t telemetry_bytes(void)
{
    return sizeof(telemetry_header) + (size_t) TELEMETRY_RECORDS * sizeof(telemetry_record)
           + (size_t) TELEMETRY_NAMES * sizeof(telemetry_name)
        + (size_t) TELEMETRY_LINKS * sizeof(telemetry_link) + (size_t) TELEMETRY_SPANS * sizeof(telemetry_span);
}

static inline telemetry_view telemetry_at(void *base)
{
    telemetry_view v = {.header = (telemetry_header *) base};
    v.record = (telemetry_record *) (v.header + 1);
    v.name = (telemetry_name *) (v.record + TELEMETRY_RECORDS);
    v.link = (telemetry_link *) (v.name + TELEMETRY_NAMES);
    v.span = (telemetry_span *) (v.link + TELEMETRY_LINKS);
    return v;
}

static inline void telemetry_format(void *base, uint64_t started)
{
    telemetry_header *h = (telemetry_header *) base;
    h->records = TELEMETRY_RECORDS;
    h->names = TELEMETRY_NAMES;
    h->links = TELEMETRY_LINKS;
    h->started = started;
    h->magic = TELEMETRY_MAGIC;
}

/* What is wrong with a segment, or NULL. */
static inline const char *telemetry_check(const void *base, size_t bytes)
{
    const telemetry_header *h = (const telemetry_header *) base;
    if (bytes != telemetry_bytes()) return "it has another size than telemetry has";
    if (h->magic != TELEMETRY_MAGIC) return "it is no telemetry";
    if (h->records != TELEMETRY_RECORDS || h->names != TELEMETRY_NAMES || h->links != TELEMETRY_LINKS)
        return "its parts have other sizes";
    return NULL;
}

/* ---- the core writes ---- */

typedef struct {
    telemetry_header *header;
    telemetry_record *record;
    uint64_t next, tail_seen, published;
} telemetry_producer;

/* A new core continues where the previous one has published. */
static inline void telemetry_produce(telemetry_producer *p, const telemetry_view *v)
{
    p->header = v->header;
    p->record = v->record;
    p->next = p->published = atomic_load_explicit(&v->header->head, memory_order_acquire);
    p->tail_seen = atomic_load_explicit(&v->header->tail, memory_order_acquire);
    /* full, until the recorder moves the tail */
    if (p->next - p->tail_seen > TELEMETRY_RECORDS) p->tail_seen = p->next - TELEMETRY_RECORDS;
}

/* The place of the next record, or NULL if there is no room. */
static inline telemetry_record *telemetry_slot(telemetry_producer *p)
{
    if (p->next - p->tail_seen >= TELEMETRY_RECORDS) {
        /* partner: the release store in telemetry_return */
        uint64_t tail = atomic_load_explicit(&p->header->tail, memory_order_acquire);
        if (p->next - tail >= TELEMETRY_RECORDS) return NULL;      /* also for an invalid tail */
        p->tail_seen = tail;
    }
    return &p->record[p->next & (TELEMETRY_RECORDS - 1)];
}

/* An upper bound of the records that the recorder has not read; it is exact above half of the ring. */
static inline uint64_t telemetry_behind(telemetry_producer *p)
{
    if (p->next - p->tail_seen > TELEMETRY_RECORDS / 2) {
        /* partner: the release store in telemetry_return */
        uint64_t tail = atomic_load_explicit(&p->header->tail, memory_order_acquire);
        if (p->next - tail <= TELEMETRY_RECORDS) p->tail_seen = tail;
    }
    return p->next - p->tail_seen;
}

static inline void telemetry_publish(telemetry_producer *p)
{
    if (p->published == p->next) return;
    p->published = p->next;
    /* partner: the acquire load in telemetry_waiting */
    atomic_store_explicit(&p->header->head, p->next, memory_order_release);
}

static inline void telemetry_write_name(telemetry_name *n, uint32_t id, const uint8_t *text, uint32_t length)
{
    atomic_store_explicit(&n->id, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);     /* nobody sees the new text under the old id: partner
                                                      telemetry_read_name */
    n->length = length;
    memcpy(n->text, text, length);
    atomic_store_explicit(&n->id, id, memory_order_release);
}

static inline void telemetry_copy_link(telemetry_link *to, const telemetry_link *of)
{
    to->connection = of->connection;
    to->number = of->number;
    to->container = of->container;
    to->user = of->user;
    to->host = of->host;
    to->kind = of->kind;
}

/* Copies all of `of` but its id. */
static inline void telemetry_write_link(telemetry_link *l, uint32_t id, const telemetry_link *of)
{
    atomic_store_explicit(&l->id, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);     /* as above: partner telemetry_read_link */
    telemetry_copy_link(l, of);
    atomic_store_explicit(&l->id, id, memory_order_release);
}

static inline void telemetry_write_span(const telemetry_view *v, const telemetry_record *of)
{
    uint64_t number = atomic_load_explicit(&v->header->spans, memory_order_relaxed) + 1;
    telemetry_span *s = &v->span[(number - 1) & (TELEMETRY_SPANS - 1)];
    atomic_store_explicit(&s->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);     /* as above: partner telemetry_read_span */
    s->of = *of;
    atomic_store_explicit(&s->number, number, memory_order_release);
    atomic_store_explicit(&v->header->spans, number, memory_order_release);
}

/* ---- the recorder and the exporter read ---- */

typedef struct {
    telemetry_view view;
    uint64_t next;
} telemetry_consumer;

static inline void telemetry_consume(telemetry_consumer *c, const telemetry_view *v)
{
    c->view = *v;
    c->next = atomic_load_explicit(&v->header->tail, memory_order_acquire);
}

/* The number of records that can be read; 0 also for invalid indices. */
static inline uint64_t telemetry_waiting(const telemetry_consumer *c)
{
    uint64_t ahead = atomic_load_explicit(&c->view.header->head, memory_order_acquire) - c->next;
    return ahead <= TELEMETRY_RECORDS ? ahead : 0;
}

/* Gives the room of the records read so far back to the core. */
static inline void telemetry_return(telemetry_consumer *c)
{
    /* partner: the acquire load in telemetry_slot */
    atomic_store_explicit(&c->view.header->tail, c->next, memory_order_release);
}

/* Publishes records that were copied after those that wait, in memory that no core has. */
static inline void telemetry_replayed(const telemetry_consumer *c, uint64_t count)
{
    _Atomic uint64_t *head = &c->view.header->head;
    atomic_store_explicit(head, atomic_load_explicit(head, memory_order_relaxed) + count, memory_order_release);
}

/* Copies a name and returns its length; -1: it is gone. */
static inline int telemetry_read_name(const telemetry_view *v, uint32_t id, uint8_t *text)
{
    uint32_t place = id & 0xffffu;
    if (!id || place >= TELEMETRY_NAMES) return -1;
    telemetry_name *n = &v->name[place];
    if (atomic_load_explicit(&n->id, memory_order_acquire) != id) return -1;
    uint32_t length = n->length;
    if (length > TELEMETRY_TEXT) return -1;
    memcpy(text, n->text, length);
    atomic_thread_fence(memory_order_acquire);     /* the text was read before the id is read again */
    return atomic_load_explicit(&n->id, memory_order_relaxed) == id ? (int) length : -1;
}

static inline bool telemetry_read_link(const telemetry_view *v, uint32_t id, telemetry_link *to)
{
    uint32_t place = id & 0xffffu;
    if (!id) return false;
    telemetry_link *l = &v->link[place];
    if (atomic_load_explicit(&l->id, memory_order_acquire) != id) return false;
    telemetry_copy_link(to, l);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&l->id, memory_order_relaxed) == id && to->kind <= FLOW_LOCAL;
}

/* Copies a span; false: another one has its place. */
static inline bool telemetry_read_span(const telemetry_view *v, uint64_t number, telemetry_record *to)
{
    const telemetry_span *s = &v->span[(number - 1) & (TELEMETRY_SPANS - 1)];
    if (atomic_load_explicit(&s->number, memory_order_acquire) != number) return false;
    *to = s->of;
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&s->number, memory_order_relaxed) == number
           && to->said.of.kind <= FLOW_DROP && to->said.of.outcome <= FLOW_DROPPED;
}

#endif
