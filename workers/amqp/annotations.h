/* Router annotations: the forms in which routers annotate messages for each other, and the limits of accepted ones.
 *
 *   form      place                                                          readers
 *   MAP       message-annotations, keys x-opt-qd.* after the user's own      qpid-dispatch, clients that may see them
 *   SECTION   list before the header, 0xFFFFFFFF:0x00002000, version 1       routerd
 *   SKUPPER   list before the header, SKPR--RA, version 2                    skupper-router
 *
 * Each connection has one form.  Received annotations stay in the message, where the content header names them by
 * offsets (annotations_in.c); sent ones are written before the bytes that stay (annotations_out.c).
 */
#ifndef ROUTERD_WORKERS_ANNOTATIONS_H
#define ROUTERD_WORKERS_ANNOTATIONS_H

#include <string.h>

#include "shm/memory/arena.h"
#include "shm/codec/scan.h"
#include "shm/unity.h"

#define ANNOTATIONS_ID_MAX 255u            /* bytes of a router's id, `area/id`: what str8 holds */
#define ANNOTATIONS_TRACE_MAX 1024u        /* entries of a trace: eight times the routers a network can have */
#define ANNOTATIONS_TRACE_BYTES 32768u     /* their encoding: 128 ids of the longest kind take 17 KiB */
#define ANNOTATIONS_TO_MAX 4096u           /* bytes of a to-override; the core takes no longer address */
#define ANNOTATIONS_END_MAX (1u << 20)     /* bytes of all sections up to message-annotations (amqp.h, SCAN_LIMIT) */

#define ANNOTATIONS_BROKEN UINT32_MAX      /* no offset: the message cannot be written */
#define ANNOTATIONS_STREAMING 1u           /* the bit of a section's flags */
#define ANNOTATIONS_PHASE_BYTES 9u         /* of a section's symbol with the phase */

/* The digit of the phase follows these octets. */
static const uint8_t annotations_section_phase[] = { AMQP_SYMBOL8, 7, 'p', 'h', 'a', 's', 'e', '=' };

enum annotations_key { KEY_USER, KEY_PHASE, KEY_STREAM, KEY_TO, KEY_INGRESS, KEY_TRACE, KEY_CLASS, KEY_PADDING,
    KEY_END };

#define ANNOTATIONS_KEYS (KEY_END - 1u)    /* router keys that a map can have, each once */

/* The bit of a form in the mask of trusted forms. */
static inline uint8_t annotations_form_bit(enum content_annotations form) { return form ? (uint8_t) (1u << form) : 0; }

/* Whether this router has to rewrite a message that it sends in `form`. */
static inline bool annotations_touch(const arena_content *c, uint8_t form)
{
    return form | c->annotations | (c->routed & ROUTED_IGNORED);
}

typedef struct annotations_self {          /* this router's identity in messages */
    char id[ANNOTATIONS_ID_MAX];           /* `area/id` */
    uint8_t length;                        /* 0: an edge router, which adds no identity */
} annotations_self;

#define ANNOTATIONS_AT_ONCE 512u           /* bytes given on together: what most messages need, in one piece */

typedef struct {                           /* where a message is read from, and where its new beginning goes */
    const arena_view *view;
    uint32_t head;
    arena_content content;                 /* a copy, which nobody changes */
    uint64_t length;                       /* published */
    void (*give)(void *to, const uint8_t *bytes, size_t size);
    void *to;
    bool broken;                           /* the content header names a place that is not there */
    uint32_t used;
    uint8_t bytes[ANNOTATIONS_AT_ONCE];
} annotations_writer;

typedef struct {                           /* what the message is to say from here on */
    uint8_t form;                          /* enum content_annotations */
    uint8_t phase;                         /* of the address; 0 is not written */
    bool stream, afresh;                   /* afresh: ingress and trace begin here */
    const annotations_self *self;
    const uint8_t *to;                     /* the to-override set by the core; NULL: what came stays */
    uint32_t to_length;
} annotations_wanted;

/* annotations_put.c */
PRIVATE void annotations_open(annotations_writer *w, const arena_view *view, uint32_t head, uint64_t length);
PRIVATE void annotations_flush(annotations_writer *w);
PRIVATE void put_bytes(annotations_writer *w, const void *bytes, uint32_t size);
PRIVATE uint8_t *put_room(annotations_writer *w, uint32_t size);
PRIVATE void put_to(annotations_writer *w, const uint8_t *end);
PRIVATE void put_range(annotations_writer *w, uint32_t from, uint32_t size);
PRIVATE void message_copy(annotations_writer *w, uint32_t from, uint32_t size, uint8_t *to);
PRIVATE void put_address(annotations_writer *w, uint32_t size);
PRIVATE void put_value(annotations_writer *w, uint8_t code, uint64_t bits);
PRIVATE void put_string_head(annotations_writer *w, uint32_t size);
PRIVATE void put_items_head(annotations_writer *w, uint8_t code, uint32_t size, uint32_t count);
PRIVATE void put_shortest_items_head(annotations_writer *w, uint8_t short_code, uint32_t size, uint32_t count);

/* annotations_in.c */
PRIVATE enum annotations_key annotations_key_of(amqp_value v);
PRIVATE enum scan_result annotations_check(arena_content *c, uint8_t *start, scan_found *found, uint8_t trusted,
    enum scan_result result, bool *moved);

/* annotations_out.c */
PRIVATE uint32_t annotations_write(annotations_writer *w, const annotations_wanted *want);

#endif
