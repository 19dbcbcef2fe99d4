/* Writes an outgoing delivery's first octets where they differ from those in the blocks: router annotations in the form
 * that its connection wants.
 *
 * Messages that leave as they came never get here (annotations_touch).
 */
#include <string.h>

#include "workers/amqp/amqp.h"
#include "workers/amqp/annotations.h"

static void rewrite_give(void *link, const uint8_t *bytes, size_t size)
{
    link_send((worker_link *) link, bytes, size);
}

/* Whether an outgoing message must be looked at. */
PRIVATE inline bool rewrite_due(const worker_link *k, const arena_content *c)
{
    return annotations_touch(c, k->conn->annotations);
}

/* The core writes its messages without a content header: find out where annotations go. False: no message that the
 * engine made. */
static bool rewrite_scan(annotations_writer *w)
{
    scan_found found;
    uint32_t room = arena_capacity(w->view, w->head, true);
    size_t size = w->length < room ? w->length : room;
    uint8_t *bytes = (uint8_t *) arena_content_of(w->view, w->head) + sizeof(arena_content);
    if (scan_message(bytes, size, size == w->length, &found) != SCAN_DONE || found.section_end) return false;
    w->content.message_annotations = ARENA_NO_OFFSET;
    w->content.annotations_end = found.annotations_end;
    return found.message_annotations == SCAN_ABSENT;
}

/* The text that the core wants as to-override: a payload in its own arena, whose reference is the delivery's. False:
 * there is none. */
static bool rewrite_override(const pump *p, const out_delivery *o, annotations_wanted *want, uint8_t *room)
{
    const arena_view *v = &p->views[p->workers];
    const arena_content *c = o->override ? arena_content_of(v, o->override - 1) : NULL;
    uint64_t length = c ? chain_length(c) : 0;
    arena_reader reader;
    if (!length || length > ANNOTATIONS_TO_MAX) return false;
    chain_open(&reader, o->override - 1);
    while (reader.position < length) {
        uint32_t n;
        const uint8_t *bytes = chain_read(v, &reader, length, &n);
        if (!bytes) return false;
        memcpy(room + reader.position, bytes, n);
        chain_advance(&reader, n);
    }
    want->to = room;
    want->to_length = (uint32_t) length;
    return true;
}

/* Writes the beginning and moves the delivery's reader behind what it replaces.  False: the delivery is malformed. */
PRIVATE inline bool rewrite_begin(const pump *p, worker_link *k, out_delivery *o, uint64_t length)
{
    const arena_view *v = &p->views[o->arena];
    annotations_writer w;
    uint8_t room[ANNOTATIONS_TO_MAX];
    annotations_open(&w, v, o->reader.head, length);
    w.give = rewrite_give;
    w.to = k;
    if (o->arena == p->workers && !rewrite_scan(&w)) return true;
    annotations_wanted want = { .form = k->conn->annotations, .phase = o->routed & SEND_PHASE,
                                .afresh = o->routed & SEND_AFRESH, .self = p->identity };
    want.stream = (o->routed & SEND_STREAM) || (w.content.annotations && (w.content.routed & ROUTED_STREAM));
    if (o->override && !rewrite_override(p, o, &want, room)) return false;
    uint32_t rest = annotations_write(&w, &want);
    while (o->reader.position < rest) {
        uint32_t n;
        if (rest > length || !chain_read(v, &o->reader, rest, &n)) return false;    /* or BROKEN */
        chain_advance(&o->reader, n);
    }
    return true;
}
