/* Framed connections, which carry frames of another protocol than AMQP; a table of operations defines the protocol. */
#ifndef ROUTERD_WORKERS_FRAMED_H
#define ROUTERD_WORKERS_FRAMED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/counters.h"
#include "shm/record.h"
#include "shm/unity.h"
#include "workers/state/pump.h"

 /* bytes of a connection's buffer, unless a frame needs more at once */
#define PLAIN_BUFFER (64u << 10)
#define PLAIN_READ_MIN (16u << 10)     /* the minimum of free room for a read */
#define PLAIN_HEAD_MAX 16384u          /* octets of a frame around its payload */

enum plain_step { PLAIN_ON, PLAIN_MORE, PLAIN_WAIT };
enum plain_made { PLAIN_MADE, PLAIN_PIECES, PLAIN_UNFIT };

typedef struct {                       /* a frame to be sent: its payload's place in the message, and the octets around
                                          it */
    uint32_t head, tail, payload, payload_length;
    const char *why;                   /* the message makes no frame */
} plain_frame;

typedef struct {                       /* a message to be sent as a frame: the first `size` of its `length` bytes are at
                                          `start` */
    const uint8_t *start;
    size_t size;
    uint64_t length;
    uint8_t *whole;                    /* the same bytes gathered, which may be moved; or NULL */
} plain_message;

typedef struct plain_protocol {
    uint8_t number;                    /* the index of its RmrTransport or OckamTransport in Python */
    enum counter frames_in, frames_out, undelivered, unfit;
    const char *unfit_name;            /* the error condition for the sender of a message that makes no frame */
    /* takes the frame at the front of the buffer; WAIT: not now */
    enum plain_step (*next)(pump *p, wconn *c);
    /* Finds out what a message is as a frame.  PIECES: gather it and come again, with `whole`. */
    enum plain_made (*make)(pump *p, wconn *c, wout *o, const plain_message *m, plain_frame *f);
    size_t made_size;                  /* what make leaves for put, at plain_made_last() */
    /* head and tail of what was made last */
    void (*put)(pump *p, wconn *c, wout *o, const plain_frame *f, uint8_t *to);
} plain_protocol;

typedef struct plain_terms {           /* the terms of a place; a protocol's own terms begin with it */
    const plain_protocol *speaks;
    uint32_t most;                     /* longest frame */
} plain_terms;

typedef struct plain_conn {
    const plain_protocol *speaks;
    wlink *data, *other;               /* in: to its route table, or NULL; anonymous */
    wlink *out, *back;                 /* out: from its endpoint's address, or NULL; from its own address */
    uint32_t number;
    bool connecting, ended, waiting, watched;   /* waiting: read frames wait for credit, blocks or readers; watched: by
                                                   epoll */
    bool greeted;                      /* the peer's greeting has arrived */
    const char *why;                   /* the reason of its end; NULL: the peer has closed it */
    uint8_t *in;                       /* bytes read: [first, end) */
    uint32_t first, end, room;
    uint64_t left, skip;               /* of the frame being received: payload bytes to come; bytes to skip */
    wlink *into;                       /* the link with that frame as its `current` */
    uint8_t *rest;                     /* the unsent rest of a frame: [rest_first, rest_size) */
    size_t rest_first, rest_size;
    uint64_t rest_of;                  /* the handle of its delivery, which may be gone */
    uint64_t gathered_of;              /* the handle of the delivery that is being gathered; 0: none */
    uint8_t *gathered;
    uint64_t gathered_size;
    struct rmr_sid *sids;
    uint32_t sids_kept;
    uint8_t *name;                     /* its address in routes, if it has one (ockam.c) */
    uint16_t name_length;
    uint8_t name_type;
} plain_conn;

/* framed.c */
PRIVATE const plain_terms *plain_terms_of(const pump *p, const wconn *c);
PRIVATE void plain_watch(pump *p, wconn *c);
GLUE void plain_close(pump *p, wconn *c, const char *why);
PRIVATE void plain_malformed(pump *p, wconn *c, enum counter counter, const char *why);
PRIVATE win *plain_win(pump *p, wlink *k);
PRIVATE bool plain_may(pump *p, wlink *k);
PRIVATE void plain_input(pump *p, wconn *c);
PRIVATE bool plain_read(pump *p, wconn *c);

/* out.c */
extern GLUE const char plain_long[];
PRIVATE void *plain_made_last(const pump *p);
PRIVATE bool plain_prepare(pump *p, const plain_protocol *speaks);
GLUE void plain_end(pump *p);
PRIVATE void plain_output(pump *p, wconn *c);

/* connection.c */
PRIVATE void plain_free(plain_conn *x);
GLUE wconn *plain_new(pump *p, int fd, uint16_t listener, bool dialled);
PRIVATE void plain_event(pump *p, wconn *c, uint32_t events);
PRIVATE void plain_serve(pump *p, wconn *c);
PRIVATE void plain_sweep(pump *p, wconn *c);
GLUE wlink *plain_link(pump *p, wconn *c, bool outgoing);
PRIVATE void plain_outcome(pump *p, win *s, const routerd_record *r);
PRIVATE void plain_flow(pump *p, wlink *k, const routerd_record *r);
PRIVATE void plain_forgotten(pump *p, win *s);

#endif
