/* Telemetry: what became of each delivery, from the core to the recorder, which makes the flow log of it (flow.py).
 *
 *   | header | ring of records of 192 bytes: core -> recorder | names: texts that records refer to | links |
 *
 * The ring keeps the rules of ring.h, with one difference: a full one makes the core drop the record and count it. Each
 * record has a number, so what was dropped shows as a gap.
 *
 *   role      writes                      reads
 *   core      records, head, names, links tail
 *   recorder  tail                        all else
 *
 * The recorder moves the tail when what it has read is in its spool (spool.py): what a killed one has not written is
 * still here.
 *
 * A name or link is known by its place and how often that place was used before: id = place | uses << 16. A place is
 * used again when all others have been, so an id that a record holds stays good for long; what is read with another id
 * is gone, never wrong. Prohibited: changing a text while its id stands; the core waiting for the recorder.
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
#define TELEMETRY_NAMES (1u << 15)
#define TELEMETRY_LINKS (1u << 16)
#define TELEMETRY_TEXT 248u            /* octets of a name; of a longer one the beginning and a hash of all of it */

enum telemetry_kind { FLOW_DELIVERY = 0, FLOW_DROP = 2 };      /* KINDS of flow.py */
enum telemetry_outcome {                                       /* OUTCOMES of flow.py */
    FLOW_ACCEPTED = 0, FLOW_REJECTED = 1, FLOW_RELEASED = 2, FLOW_MODIFIED = 3, FLOW_PRESETTLED = 4,
    FLOW_UNDELIVERABLE = 5,
    FLOW_ABORTED = 6, FLOW_DROPPED = 7
};
enum telemetry_link_kind { FLOW_NORMAL = 0, FLOW_INTER_ROUTER = 1, FLOW_EDGE = 2, FLOW_ROUTE_CONTAINER = 3,
                           FLOW_LOCAL = 4 };
enum telemetry_class { FLOW_MC = 0, FLOW_UC = 1, FLOW_BALANCED = 2, FLOW_ANYCAST = 3, FLOW_LINK = 4,
                       FLOW_NO_CLASS = 5 };

typedef struct {               /* what is known once a message has come: a cache line, which all records of its copies
                                  begin as */
    uint64_t delivery;         /* one number for all copies of a message */
    uint64_t message;          /* hash of the message-id; 0: it has none */
    uint32_t from_link, address, path, meid;   /* a link and names; 0: none */
    uint32_t generation;       /* of the core */
    uint32_t weight;           /* one of so many is recorded */
    int32_t mtype, sub_id;
    uint32_t front;            /* bytes in front of its body */
    uint16_t delivery_count;
    uint16_t pieces;           /* that it came in, at most UINT16_MAX */
    uint8_t worker, treatment, priority, hops;
    uint8_t known;             /* mask of enum telemetry_known */
    uint8_t kind, outcome, presettled;     /* of these three only the record knows */
} telemetry_message;

typedef struct {               /* times are nanoseconds of CLOCK_MONOTONIC; 0: it did not happen, or nobody knows */
    telemetry_message of;
    uint64_t number;           /* of the worker that it came to, from 1 */
    uint64_t arrived, settled, sent;
    uint64_t queued;           /* nanoseconds from arrival until its first byte went out */
    uint64_t starved;          /* of these without credit */
    uint64_t bytes;
    uint32_t to_link, condition;   /* a link and a name; 0: none */
} telemetry_said;

typedef struct {               /* what few messages have; a line of its own, which the others leave alone */
    uint8_t trace[16], span[8];
    uint8_t transaction[32];   /* with zeros behind */
    uint32_t onward, back;     /* names */
} telemetry_more;

typedef struct {
    telemetry_said said;
    telemetry_more more;
} telemetry_record;

enum telemetry_known {         /* what a record says beside what every one does */
    KNOWN_DIGEST = 1,          /* message, delivery_count */
    KNOWN_BODY = 2,            /* front */
    KNOWN_TRACE = 4,           /* in `more`: trace and span */
    KNOWN_TRANSACTION = 8,
    KNOWN_ROUTE = 16,          /* onward and back */
    KNOWN_OWNER = 32           /* a route table chose its receiver by the managed entity's owner */
};

#define KNOWN_MORE (KNOWN_TRACE | KNOWN_TRANSACTION | KNOWN_ROUTE)

typedef struct {
    _Atomic uint32_t id;       /* 0: there is none, or it is just being replaced */
    uint32_t length;
    uint8_t text[TELEMETRY_TEXT];
} telemetry_name;

typedef struct {
    _Atomic uint32_t id;
    uint32_t connection;
    uint64_t number;
    uint32_t container;        /* a name */
    uint8_t kind;              /* enum telemetry_link_kind */
    uint8_t reserved[11];
} telemetry_link;

typedef struct {
    uint32_t magic, records, names, links;
    uint64_t started;          /* of the router, nanoseconds since 1970: tells its lives apart */
    _Alignas(64) _Atomic uint64_t head;
    _Alignas(64) _Atomic uint64_t tail;
    _Alignas(64) _Atomic uint64_t dropped;     /* by the living core: it had no room */
    uint64_t padding[7];
    uint8_t rest[4096 - 4 * 64];
} telemetry_header;

_Static_assert(sizeof(telemetry_message) == 64 && sizeof(telemetry_said) == 128 && sizeof(telemetry_record) == 192,
               "a record is three cache lines, of which most need two");
_Static_assert(sizeof(telemetry_name) == 256, "a name is four");
_Static_assert(sizeof(telemetry_link) == 32, "two links are one");
_Static_assert(sizeof(telemetry_header) == 4096, "the ring begins at a page");

typedef struct {               /* where the parts stand */
    telemetry_header *header;
    telemetry_record *record;
    telemetry_name *name;
    telemetry_link *link;
} telemetry_view;

static inline size_t telemetry_bytes(void)
{
    return sizeof(telemetry_header) + (size_t) TELEMETRY_RECORDS * sizeof(telemetry_record)
           + (size_t) TELEMETRY_NAMES * sizeof(telemetry_name)
        + (size_t) TELEMETRY_LINKS * sizeof(telemetry_link);
}

static inline telemetry_view telemetry_at(void *base)
{
    telemetry_view v = {.header = (telemetry_header *) base};
    v.record = (telemetry_record *) (v.header + 1);
    v.name = (telemetry_name *) (v.record + TELEMETRY_RECORDS);
    v.link = (telemetry_link *) (v.name + TELEMETRY_NAMES);
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

/* A new core goes on where the one before it has published. */
static inline void telemetry_produce(telemetry_producer *p, const telemetry_view *v)
{
    p->header = v->header;
    p->record = v->record;
    p->next = p->published = atomic_load_explicit(&v->header->head, memory_order_acquire);
    p->tail_seen = atomic_load_explicit(&v->header->tail, memory_order_acquire);
    /* full, until the recorder says otherwise */
    if (p->next - p->tail_seen > TELEMETRY_RECORDS) p->tail_seen = p->next - TELEMETRY_RECORDS;
}

/* The place of the next record, or NULL: there is no room. */
static inline telemetry_record *telemetry_slot(telemetry_producer *p)
{
    if (p->next - p->tail_seen >= TELEMETRY_RECORDS) {
        /* partner: the release store in telemetry_return */
        uint64_t tail = atomic_load_explicit(&p->header->tail, memory_order_acquire);
        if (p->next - tail >= TELEMETRY_RECORDS) return NULL;      /* also: it makes no sense */
        p->tail_seen = tail;
    }
    return &p->record[p->next & (TELEMETRY_RECORDS - 1)];
}

/* Records that the recorder has not read, at most: the number is right where it is more than half of the ring. */
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

static inline void telemetry_write_link(telemetry_link *l, uint32_t id, uint32_t connection, uint64_t number,
                                        uint32_t container, uint8_t kind)
{
    atomic_store_explicit(&l->id, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);     /* as above: partner telemetry_read_link */
    l->connection = connection;
    l->number = number;
    l->container = container;
    l->kind = kind;
    atomic_store_explicit(&l->id, id, memory_order_release);
}

/* ---- the recorder reads ---- */

typedef struct {
    telemetry_view view;
    uint64_t next;
} telemetry_consumer;

static inline void telemetry_consume(telemetry_consumer *c, const telemetry_view *v)
{
    c->view = *v;
    c->next = atomic_load_explicit(&v->header->tail, memory_order_acquire);
}

/* Records that can be read; 0 also where the indices make no sense. */
static inline uint64_t telemetry_waiting(const telemetry_consumer *c)
{
    uint64_t ahead = atomic_load_explicit(&c->view.header->head, memory_order_acquire) - c->next;
    return ahead <= TELEMETRY_RECORDS ? ahead : 0;
}

/* Nothing of what waits is read: for a recorder that begins behind records of an earlier flow log. */
static inline void telemetry_return(telemetry_consumer *c)
{
    /* partner: the acquire load in telemetry_slot */
    atomic_store_explicit(&c->view.header->tail, c->next, memory_order_release);
}

/* Records were copied behind those that wait, in memory that no core has. */
static inline void telemetry_replayed(const telemetry_consumer *c, uint64_t count)
{
    _Atomic uint64_t *head = &c->view.header->head;
    atomic_store_explicit(head, atomic_load_explicit(head, memory_order_relaxed) + count, memory_order_release);
}

/* Copies a name; its length, or -1: it is gone. */
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
    to->connection = l->connection;
    to->number = l->number;
    to->container = l->container;
    to->kind = l->kind;
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&l->id, memory_order_relaxed) == id && to->kind <= FLOW_LOCAL;
}

#endif
