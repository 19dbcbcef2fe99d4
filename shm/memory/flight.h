/* The flight recorder's ring: what the core was given and what it made of it, in a segment that outlives the core
 * (docs/replay.md).
 *
 *   | header, 4096 bytes | lines of 64 bytes, a power of two of them: line n stands at n modulo their number |
 *
 * The core alone writes, and never waits: new lines replace the oldest.  A line begins with its type:
 *
 *   below FLIGHT_BATCH   an action of a worker, as it was read (record.h): part of the batch that the last
 *                        FLIGHT_BATCH began.  Or work for a worker, of as many lines as the last FLIGHT_WORK says
 *   the others           enum flight_type
 *
 * A line is written before what it tells of is done, so the last line before a death names its cause.  The octets of a
 * call or an entry stand in its line and in FLIGHT_MORE lines behind it.
 *
 * A checkpoint is all that the core's tables hold: FLIGHT_CHECKPOINT, FLIGHT_ENTRY lines, FLIGHT_CHECKPOINT_END.  The
 * header says where the last whole one begins.
 */
#ifndef ROUTERD_SHM_FLIGHT_H
#define ROUTERD_SHM_FLIGHT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "shm/memory/record.h"
#include "shm/unity.h"

#define FLIGHT_MAGIC 0x31746867696c66ull       /* "flight1" */
#define FLIGHT_VERSION 1u
#define FLIGHT_HEADER_BYTES 4096u
#define FLIGHT_LINE_BYTES 64u
#define FLIGHT_LEAST 1024u             /* lines */
#define FLIGHT_MOST (1u << 24)
#define FLIGHT_INLINE 40u              /* octets of a call or an entry in its own line */
#define FLIGHT_MORE_OCTETS 63u         /* and in each of those behind it */
#define FLIGHT_OCTETS_MOST (1u << 20)  /* of one call or entry */
#define FLIGHT_UNKNOWN_ACTION 127u     /* stands for every type of action from FLIGHT_BATCH on: the core knows none */

enum flight_type {
    FLIGHT_BATCH = 128,        /* `worker`, `now`: actions of this worker follow */
    FLIGHT_WORK = 129,         /* `worker`, `count`: so many records of work for it follow */
    FLIGHT_FANS = 130,         /* `now`: copies of multicast messages are made and told, a portion (fan.c, tell.c) */
    FLIGHT_PARKED = 131,       /* `now`, `count`: parked links have their turns (park.c).  `count` is 2 x the records
                                  since the last address was asked for, plus 1 if the core is idle */
    FLIGHT_CALL = 132,         /* `kind`: the number of a call of the control plane, `now`, `length` octets */
    FLIGHT_TEXT = 133,         /* `worker`, `block`, `length`, `hash`: the core reads the `to` of a message */
    FLIGHT_ROUTED = 134,       /* `worker`, `block` and `detail`: it reads what the header says of routers (flight.c) */
    FLIGHT_STATE = 135,        /* `worker`, `block`, `count`: it reads the state of a message (enum content_state) */
    FLIGHT_FORGOTTEN = 136,    /* `hash`, `block` (a scope): an address as a sender spells it is forgotten */
    FLIGHT_KEY = 137,          /* `worker`, `block`, `count`: it reads of a message what a route table asks for (enum
                                  flight_key); type and subscription in `detail` */
    FLIGHT_HOPS = 138,         /* `block` and `length`: the handle of an exchange's address, which a message passes.  In
                                  `detail` bits for hops from `hash` on that it matches; `count` 1: its first line */
    FLIGHT_CHECKPOINT = 144,   /* `now` */
    FLIGHT_ENTRY = 145,        /* `kind`: enum flight_entry, `length` octets */
    FLIGHT_CHECKPOINT_END = 146,
    FLIGHT_MORE = 255          /* octets that belong to the line before */
};

enum flight_key {              /* bits of what stands in the line; what a message says without them changes nothing */
    FLIGHT_KEY_READ = 1,       /* the core reads the key itself, so the message's record has none */
    FLIGHT_KEY_FOUND = 2,      /* and there is one */
    FLIGHT_KEY_SOURCE = 4,     /* `hash`: that of the source's name */
    FLIGHT_KEY_OWNER = 8       /* `length`: the number of the endpoint that owns the managed entity */
};

enum flight_entry {            /* what stands in a checkpoint; octets are those of the structures of
                                  core/forwarder/recording/image.h */
    ENTRY_CORE = 1, ENTRY_POOL = 2, ENTRY_FREE = 3, ENTRY_ADDRESS = 4, ENTRY_LINK = 5, ENTRY_IN = 6, ENTRY_OUT = 7,
    ENTRY_LIST = 8, ENTRY_ALIAS = 9, ENTRY_PAYLOADS = 10, ENTRY_BLOCKS = 11,
    ENTRY_STREAMS = 12, ENTRY_FAR = 13, ENTRY_BETWEEN = 14, ENTRY_ROUTER = 15, ENTRY_NEIGHBOUR = 16,
    ENTRY_TRANSIT = 17,        /* behind the copy that it is of */
    /* a route table: those from ENTRY_TABLE to ENTRY_ENDPOINTS in this order, also as calls when it comes into use */
    ENTRY_ROUTES = 18, ENTRY_TABLE = 19, ENTRY_SLOTS = 20, ENTRY_SPECIALS = 21, ENTRY_SENDERS = 22, ENTRY_WORDS = 23,
    ENTRY_ENDPOINTS = 24, ENTRY_OWNERS = 25,
    ENTRY_EXCHANGE = 26, ENTRY_HOPS = 27
};

typedef struct {
    uint8_t type, worker;
    uint16_t kind;
    uint32_t count;
    uint64_t now;
    union {
        struct { uint32_t length, block; uint64_t hash; uint8_t detail[FLIGHT_INLINE - 8]; };
        struct { uint32_t octets, first; uint8_t inlined[FLIGHT_INLINE]; };
    };
} flight_line;

_Static_assert(sizeof(flight_line) == FLIGHT_LINE_BYTES, "a line is as long as a record");

typedef struct {               /* written once for each core, but for the atomic ones */
    uint64_t magic;
    uint32_t version, layout;  /* `layout`: LAYOUT_VERSION of the records */
    uint64_t lines;
    uint32_t places, workers;
    uint32_t generation, pid;  /* of the core; 0: none has begun */
    uint64_t began, wall;      /* when it began: nanoseconds of CLOCK_MONOTONIC, and since 1970 */
    uint64_t image;            /* what its tables' entries look like: image.h */
    uint64_t arena_bytes, core_arena_bytes;
    uint32_t texts;            /* addresses stand in it */
    uint32_t unused;
    _Alignas(64) _Atomic uint64_t head;        /* lines ever written */
    _Atomic uint64_t checkpoint;       /* the line of the last whole checkpoint, plus 1; 0: there is none */
    _Atomic uint64_t checkpoints, skipped;     /* made; not made, because the tables are too large or not known */
    _Atomic uint32_t blind;            /* a call was made that replay does not know */
} flight_header;

_Static_assert(sizeof(flight_header) <= FLIGHT_HEADER_BYTES, "the header has its page");

static inline size_t flight_bytes(uint64_t lines) { return FLIGHT_HEADER_BYTES + (size_t) lines * FLIGHT_LINE_BYTES; }

static inline bool flight_lines_valid(uint64_t lines)
{
    return lines >= FLIGHT_LEAST && lines <= FLIGHT_MOST && !(lines & (lines - 1));
}

typedef struct core_flight {   /* the core's side */
    uint8_t *slots;
    uint64_t next, mask;
    flight_header *header;
    uint64_t due;              /* the line from which on a checkpoint is due */
} core_flight;

/* Copies a line past the caches: nobody reads it soon. */
static INLINED void flight_copy(uint8_t *to, const void *from)
{
#ifdef __SSE2__
    const __m128i *x = (const __m128i *) from;
    const __m128i a = _mm_loadu_si128(x), b = _mm_loadu_si128(x + 1), c = _mm_loadu_si128(x + 2),
        d = _mm_loadu_si128(x + 3);
    _mm_stream_si128((__m128i *) to, a);
    _mm_stream_si128((__m128i *) to + 1, b);
    _mm_stream_si128((__m128i *) to + 2, c);
    _mm_stream_si128((__m128i *) to + 3, d);
#else
    memcpy(to, from, FLIGHT_LINE_BYTES);
#endif
}

static INLINED void flight_put(core_flight *f, const void *line)
{
    flight_copy(f->slots + ((f->next & f->mask) << 6), line);
    f->next++;
    /* after a death the supervisor reads up to here */
    atomic_store_explicit(&f->header->head, f->next, memory_order_release);
}

/* Writes octets into a line of their own and as many behind it as they need.  More than a reader takes, or half of the
 * ring has room for, are left out, and what follows cannot be replayed. */
static inline void flight_octets(core_flight *f, uint8_t type, uint16_t kind, uint64_t now, const void *octets,
                                 uint32_t length)
{
    if (length > FLIGHT_OCTETS_MOST || length / FLIGHT_MORE_OCTETS >= f->mask / 2) {
        atomic_store_explicit(&f->header->blind, 1, memory_order_relaxed);
        return;
    }
    flight_line line = {.type = type, .kind = kind, .now = now, .octets = length};
    uint32_t at = length < FLIGHT_INLINE ? length : FLIGHT_INLINE;
    memcpy(line.inlined, octets, at);
    flight_put(f, &line);
    while (at < length) {
        _Alignas(16) uint8_t more[FLIGHT_LINE_BYTES] = {FLIGHT_MORE};
        const uint32_t part = length - at < FLIGHT_MORE_OCTETS ? length - at : FLIGHT_MORE_OCTETS;
        memcpy(more + 1, (const uint8_t *) octets + at, part);
        flight_put(f, more);
        at += part;
    }
}

/* Begins a ring for a core.  False: the memory has no such ring. */
static inline bool flight_open(core_flight *f, void *memory, size_t bytes, const flight_header *about)
{
    flight_header *h = (flight_header *) memory;
    if (bytes < FLIGHT_HEADER_BYTES) return false;
    const uint64_t lines = (bytes - FLIGHT_HEADER_BYTES) / FLIGHT_LINE_BYTES;
    if (!flight_lines_valid(lines) || flight_bytes(lines) != bytes) return false;
    *h = *about;
    h->magic = FLIGHT_MAGIC;
    h->version = FLIGHT_VERSION;
    h->lines = lines;
    *f = (core_flight) {.slots = (uint8_t *) memory + FLIGHT_HEADER_BYTES, .mask = lines - 1, .header = h,
        .due = lines / 4};
    return true;
}

#endif
