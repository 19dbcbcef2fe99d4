/* The flow log in the core: its state, and what the Cython module calls of it. */
#ifndef ROUTERD_CORE_FLOW_LOG_H
#define ROUTERD_CORE_FLOW_LOG_H

#include "core/forwarder/tables/tables.h"
#include "shm/codec/amqp.h"
#include "shm/memory/telemetry.h"
#include "shm/unity.h"

#define FLOW_PATH 4096u                /* octets of a path; of a longer one the name has the beginning and a hash */
#define FLOW_BUCKETS (TELEMETRY_NAMES * 2u)
#define FLOW_PINNED (TELEMETRY_NAMES / 4u * 3u)        /* names that links and addresses may pin */

typedef struct core_note {     /* what a record will say of an incoming delivery, by the index of its core_in */
    /* `delivery` is the handle of the core_in; another one: it is not recorded. `kind`: a drop has been recorded */
    telemetry_message of;
    telemetry_more more;       /* of this what `known` says */
} core_note;

typedef struct {               /* of a place for a name */
    uint64_t hash;
    uint32_t next, pins;       /* next: with the same bucket, plus 1 */
} core_name;

typedef struct {               /* of a place for a link */
    bool taken;
    uint32_t address;          /* name of where it leads if it has no address; 0: none */
} core_flow_link;

typedef struct core_flow {
    telemetry_view view;
    telemetry_producer ring;
    uint32_t every, generation;    /* one of `every` deliveries is recorded; 0: none */
    uint32_t asked;            /* `every` while the recorder keeps up */
    uint64_t spans;            /* spans are made of traces whose low octets are up to this; 0: of none */
    bool unflagged;            /* also of those that their sender does not sample */
    telemetry_record unlogged; /* the record of a span alone */
    core_note *note;           /* by the index of the core_in */
    uint32_t note_room;
    uint64_t number[ROUTERD_MAX_WORKERS + 1];
    uint64_t heard;            /* the copy that a worker reported last, and in that report: */
    bool done, dropped;        /* the worker is done with it; it was not sent */
    uint64_t sent, writing, starved;   /* when it was sent, how long that took, how long there was no credit */
    uint32_t me;               /* name of this router: the path of what came from a client */
    uint32_t local;            /* the number of all the core's own links */
    uint8_t id[256];
    uint32_t id_length;
    uint64_t seed;
    core_name name[TELEMETRY_NAMES];
    uint32_t bucket[FLOW_BUCKETS];     /* place of the first one, plus 1 */
    uint32_t name_turn, link_turn, pinned;     /* pinned: names with pins */
    core_flow_link link[TELEMETRY_LINKS];
} core_flow;

GLUE uint32_t flow_name(core_flow *f, const uint8_t *text, uint32_t length);
GLUE uint32_t flow_keep(core_flow *f, const uint8_t *text, uint32_t length);
GLUE void flow_pin(core_flow *f, uint32_t id, int by);
GLUE uint32_t flow_link(core_flow *f, const telemetry_link *of, uint32_t address);
GLUE void flow_drop_link(core_flow *f, uint32_t id);
GLUE void flow_open(core_flow *f, void *base, const uint8_t *router, uint32_t length, uint32_t generation,
                    uint64_t seed);
GLUE void flow_publish(core_flow *f);
GLUE void flow_close(core_flow *f);
PRIVATE void flow_note_report(core_router *c, core_flow *f, const core_in *in, core_note *note,
                              const routerd_record *r);

#endif
