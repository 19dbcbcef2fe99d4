/* The content header: the description of a message in a chain of blocks (arena.h).
 *
 * The receiving worker writes it; the core and the sending workers read it.  Readers check lengths and offsets.
 */
#ifndef ROUTERD_SHM_CONTENT_H
#define ROUTERD_SHM_CONTENT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shm/memory/record.h"

#define ARENA_NO_OFFSET UINT32_MAX

/* STALLED: as RECEIVING, but its owner has no blocks for more until its readers have told what they have read. */
enum content_state { CONTENT_RECEIVING = 0, CONTENT_COMPLETE = 1, CONTENT_ABORTED = 2, CONTENT_STALLED = 3 };

typedef struct {               /* the flow extract, valid if the message's record has F_EXTRACT; offset 0: absent */
    uint64_t message;          /* hash of the message-id (workers/amqp/flow_extract.c); 0: there is none */
    uint32_t body;             /* offset of the first body section; 0: it has not arrived yet */
    uint32_t trace;            /* text of a W3C traceparent */
    uint32_t transaction;      /* the 32 octets of RMR's transaction id */
    uint32_t onward, back;     /* onward and return route, as lists */
    uint16_t delivery_count;   /* of the header, at most INT16_MAX */
    uint8_t state;             /* of the return route: ROUTE_STATES of the flow log's schema.py, from 1; 0: none */
    uint8_t reserved;
} content_extract;

typedef struct {               /* of a head block: the message's first byte is behind it */
    /* What few messages have.  Valid if the message's record has F_EXTRACT: */
    content_extract extract;
    /* The router annotations, as offsets from the start of the message.  Valid where `annotations` is not NONE. */
    uint32_t ingress, ingress_length;          /* text of the ingress router's id, `area/id`; length 0: absent */
    uint32_t trace, trace_length, trace_count; /* encoded entries of the trace list */
    uint32_t tail, tail_length, tail_count;    /* encoded fields of a section after the known ones */
    uint32_t section_flags;    /* all flags of a router-annotations section; unknown ones are forwarded */
    /* Valid where there are message annotations: their encoded entries that are not the routers', and the number of
     * values. */
    uint32_t user_from, user_to, user_count;
    /* The cache line that all messages have, and that is all that a sender of a message without annotations reads. */
    uint32_t block[4];         /* the block's own header: an arena_block */
    _Atomic uint64_t length;   /* bytes published */
    _Atomic uint32_t state;    /* enum content_state */
    uint32_t key_block;        /* an extra one-block chain holding `to` when it straddles blocks, else ROUTERD_NIL */
    uint32_t to_offset;        /* of properties.to: from the start of the message, or of key_block's bytes;
                                  ARENA_NO_OFFSET: none */
    uint32_t to_length;
    uint32_t message_annotations, properties;  /* offsets of these sections, ARENA_NO_OFFSET where absent */
    uint32_t annotations_end;  /* the place of new annotations: the offset after header, delivery- and
                                  message-annotations */
    uint32_t body;             /* offset of the first section after properties (or of the message's end) */
    uint32_t section_end;      /* bytes of a router-annotations section before all others, 0: none */
    uint8_t annotations;       /* enum content_annotations: the form of the received router annotations */
    uint8_t phase;             /* of the address, 0..9 */
    uint8_t routed;            /* enum content_routed */
    uint8_t reserved;
} arena_content;

#define CONTENT_FRONT ((uint32_t) offsetof(arena_content, block))      /* octets before the block's own header */

enum content_annotations { ANNOTATIONS_NONE = 0, ANNOTATIONS_MAP = 1, ANNOTATIONS_SECTION = 2,
                           ANNOTATIONS_SKUPPER = 3 };

enum content_routed {
    ROUTED_STREAM = 1,         /* marked as streaming by an earlier router */
    ROUTED_OVERRIDE = 2,       /* to_offset and to_length name the to-override, which wins over properties.to; the
                                  address of a link with a target wins over both, but not over one that a route worker
                                  has set (record.h, enum deliver_origin) */
    ROUTED_IGNORED = 4         /* this sender may not set router annotations: readers ignore and remove them */
};

/* Makes the header say nothing of a message: every field that all messages have but `length` and `state`, which the
 * writer of the bytes publishes.  Blocks are used again, and a field that is left would name octets of an earlier
 * message. */
static inline void content_reset(arena_content *c)
{
    const size_t from = offsetof(arena_content, key_block);
    memset((uint8_t *) c + from, 0, sizeof *c - from);
    c->key_block = ROUTERD_NIL;
    c->to_offset = c->message_annotations = c->properties = ARENA_NO_OFFSET;
}

/* Makes the header say that there are no annotations: before they are read. */
static inline void content_reset_annotations(arena_content *c)
{
    const size_t from = offsetof(arena_content, ingress);
    memset((uint8_t *) c + from, 0, CONTENT_FRONT - from);
}

#endif
