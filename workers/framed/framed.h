/* Framed connections, which carry frames of another protocol than AMQP; a table of operations defines the protocol. */
#ifndef ROUTERD_WORKERS_FRAMED_H
#define ROUTERD_WORKERS_FRAMED_H

#include "shm/unity.h"
#include "workers/state/delivery.h"

#define FRAMED_BUFFER (64u << 10)       /* bytes of a connection's buffer, unless a frame needs more at once */
#define FRAMED_READ_MIN (16u << 10)     /* the minimum of free room for a read */
#define FRAMED_HEAD_MAX 16384u          /* octets of a frame around its payload */
#define FRAMED_SURE (256u << 10)        /* octets of a frame for which each connection may have memory (long.c) */

enum framed_step { FRAMED_ON, FRAMED_MORE, FRAMED_WAIT };
enum framed_way { FRAMED_IN, FRAMED_OUT };
enum framed_made { FRAMED_MADE, FRAMED_PIECES, FRAMED_UNFIT };

typedef struct {                       /* a frame to be sent */
    uint32_t head, tail;               /* octets before and behind its payload */
    uint32_t payload, payload_length;  /* the payload's place in the message */
    const char *why;                   /* why the message makes no frame */
} framed_frame;

typedef struct {                       /* a message to be sent: the first `size` of its `length` bytes are at `start` */
    const uint8_t *start;
    size_t size;
    uint64_t length;
    uint8_t *whole;                    /* the same bytes gathered, which may be moved; or NULL */
} framed_message;

typedef struct framed_protocol {
    uint8_t number;                    /* the index of its RmrTransport or OckamTransport in Python */
    enum counter frames_in, frames_out, undelivered, unfit;
    const char *unfit_name;            /* the error condition for the sender of a message that makes no frame */
    /* Takes the frame at the front of the buffer.  WAIT: not now. */
    enum framed_step (*next)(pump *p, worker_connection *c);
    /* Makes a frame of a message.  PIECES: gather the message and call again, with `whole`. */
    enum framed_made (*make)(pump *p, worker_connection *c, out_delivery *o, const framed_message *m, framed_frame *f);
    size_t made_size;                  /* bytes that `make` leaves for `put` at framed_made_last() */
    /* Writes head and tail of the frame that was made last. */
    void (*put)(pump *p, worker_connection *c, out_delivery *o, const framed_frame *f, uint8_t *to);
} framed_protocol;

typedef struct framed_terms {          /* the terms of a place; a protocol's own terms begin with it */
    const framed_protocol *speaks;
    uint32_t most;                     /* longest frame */
} framed_terms;

typedef struct framed_connection {
    const framed_protocol *speaks;
    worker_link *data, *other;         /* in: to its route table, or NULL; anonymous */
    worker_link *out, *back;           /* out: from its endpoint's address, or NULL; from its own address */
    uint32_t number;
    bool connecting, ended;
    bool waiting;                      /* frames that have been read wait for credit, blocks or readers */
    bool watched;                      /* by epoll */
    bool greeted;                      /* the peer's greeting has arrived */
    const char *why;                   /* the reason of its end; NULL: the peer has closed it */
    uint8_t *in;                       /* bytes read: [first, end) */
    uint32_t first, end, room;
    uint64_t left, skip;               /* of the frame being received: payload bytes to come; bytes to skip */
    worker_link *into;                 /* the link with that frame as its `current` */
    uint8_t *rest;                     /* the unsent rest of a frame: [rest_first, rest_size) */
    size_t rest_first, rest_size;
    uint64_t rest_of;                  /* the handle of its delivery, which may be gone */
    uint64_t gathered_of;              /* the handle of the delivery that is being gathered; 0: none */
    uint8_t *gathered;
    uint64_t gathered_size, gathered_room; /* octets that there is memory for, and that there may be */
    uint64_t lent[2];                  /* by framed_way: octets of a long frame that it may hold (long.c) */
    uint64_t moved[2];                 /* octets in and out of what it holds, since the last sweep */
    uint8_t slow[2];                   /* sweeps in which too few have moved */
    bool wants, queued;                /* it wants more; it waits, between these */
    worker_connection *queue_next, *queue_previous;
    struct rmr_sid *sids;
    uint32_t sids_kept;
    uint8_t *name;                     /* its address in routes, if it has one (ockam.c) */
    uint16_t name_length;
    uint8_t name_type;
} framed_connection;

/* framed.c */
PRIVATE const framed_terms *framed_terms_of(const pump *p, const worker_connection *c);
PRIVATE void framed_watch(pump *p, worker_connection *c);
GLUE void framed_close(pump *p, worker_connection *c, const char *why);
PRIVATE void framed_malformed(pump *p, worker_connection *c, enum counter counter, const char *why);
PRIVATE in_delivery *framed_in(pump *p, worker_link *k);
PRIVATE bool framed_may(pump *p, worker_link *k);
PRIVATE void framed_input(pump *p, worker_connection *c);
PRIVATE bool framed_read(pump *p, worker_connection *c);

/* out.c */
extern GLUE const char framed_long[];
PRIVATE void *framed_made_last(const pump *p);
PRIVATE bool framed_prepare(pump *p, const framed_protocol *speaks);
GLUE void framed_end(pump *p);
PRIVATE void framed_output(pump *p, worker_connection *c);
PRIVATE void framed_work(pump *p, const framed_connection *x);
PRIVATE bool framed_forgo(pump *p, worker_connection *c, const char *why);

/* long.c */
PRIVATE bool long_lend(pump *p, worker_connection *c, enum framed_way way, uint64_t size);
PRIVATE void long_give(pump *p, worker_connection *c, enum framed_way way, uint64_t held);
PRIVATE void long_unqueue(pump *p, worker_connection *c);
PRIVATE void long_sweep(pump *p, worker_connection *c);

/* connection.c */
PRIVATE void framed_free(pump *p, worker_connection *c);
GLUE worker_connection *framed_new(pump *p, int fd, uint16_t listener, bool dialled);
PRIVATE bool framed_event(pump *p, worker_connection *c, uint32_t events);
PRIVATE void framed_serve(pump *p, worker_connection *c);
PRIVATE void framed_sweep(pump *p, worker_connection *c);
GLUE worker_link *framed_link(pump *p, worker_connection *c, bool outgoing);
PRIVATE void framed_outcome(pump *p, in_delivery *s, const routerd_record *r);
PRIVATE void framed_flow(pump *p, worker_link *k, const routerd_record *r);
PRIVATE void framed_forgotten(pump *p, in_delivery *s);

#endif
