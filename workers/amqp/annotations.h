/* Router annotations: what routers write on messages for each other, and the limits of what is believed.
 *
 *   form      where                                                          who reads it
 *   MAP       message-annotations, keys x-opt-qd.* behind the user's own     qdrouterd, clients that are to see them
 *   SECTION   list in front of the header, 0xFFFFFFFF:0x00002000, version 1  our own routers
 *   SKUPPER   list in front of the header, SKPR--RA, version 2               skrouterd
 *
 * A form is chosen for each connection.  What comes in it stays where it is in the message and is named by offsets in the
 * content header (annotations_in.h); what goes is written anew in front of the bytes that stay (annotations_out.h).
 */
#ifndef ROUTERD_WORKERS_ANNOTATIONS_H
#define ROUTERD_WORKERS_ANNOTATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shm/amqp.h"
#include "shm/content.h"

#define ANNOTATIONS_ID_MAX 255u            /* bytes of a router's id, `area/id`: what str8 holds */
#define ANNOTATIONS_TRACE_MAX 1024u        /* entries of a trace: eight times the routers a network can have */
#define ANNOTATIONS_TRACE_BYTES 32768u     /* their encoding: 128 ids of the longest kind take 17 KiB */
#define ANNOTATIONS_TO_MAX 4096u           /* bytes of a to-override; the core takes no longer address */
#define ANNOTATIONS_END_MAX (1u << 20)     /* bytes of all sections up to message-annotations (pump.h, SCAN_LIMIT) */
#define ANNOTATIONS_KEYS 7u                /* router keys that a map can have, each once */

#define ANNOTATIONS_BROKEN UINT32_MAX      /* no offset: the message cannot be written */
#define ANNOTATIONS_STREAMING 1u           /* the bit of a section's flags */
#define ANNOTATIONS_PHASE_BYTES 9u         /* of a section's symbol that says the phase */

static const uint8_t annotations_section_phase[] = { AMQP_SYMBOL8, 7, 'p', 'h', 'a', 's', 'e', '=' };      /* and a digit */

enum annotations_key { KEY_USER, KEY_PHASE, KEY_STREAM, KEY_TO, KEY_INGRESS, KEY_TRACE, KEY_CLASS, KEY_PADDING };

/* Whose router annotations are heeded: a mask with a bit for each form. */
static inline uint8_t annotations_form_bit(enum content_annotations form) { return form ? (uint8_t) (1u << form) : 0; }

/* Does this router have to touch a message that goes out in `form`? */
static inline bool annotations_touch(const arena_content *c, uint8_t form) { return form | c->annotations | (c->routed & ROUTED_IGNORED); }

typedef struct {                           /* this router, as it signs */
    char id[ANNOTATIONS_ID_MAX];           /* `area/id` */
    uint8_t length;                        /* 0: it does not sign, as edge routers do not (facts 3.1) */
} annotations_self;

#endif
