/* Connections without an engine: frames of another protocol, which a protocol's own table of operations knows. */
#ifndef ROUTERD_WORKERS_FRAMED_H
#define ROUTERD_WORKERS_FRAMED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/counters.h"
#include "shm/record.h"
#include "shm/unity.h"
#include "workers/state/pump.h"

 /* bytes read ahead of a connection, if its protocol needs no more of them at once */
#define PLAIN_BUFFER (64u << 10)
#define PLAIN_READ_MIN (16u << 10)     /* room that a read is worth making */
#define PLAIN_HEAD_MAX 16384u          /* octets of a frame around its payload */

enum plain_step { PLAIN_ON, PLAIN_MORE, PLAIN_WAIT };
enum plain_made { PLAIN_MADE, PLAIN_PIECES, PLAIN_UNFIT };

typedef struct {                       /* a frame in the making: where its payload stands in the message, what goes
                                          around that */
    uint32_t head, tail, payload, payload_length;
    const char *why;                   /* the message makes no frame */
} plain_frame;

typedef struct {                       /* a message that a frame is to be made of: the first `size` of its `length`
                                          bytes stand at `start` */
    const uint8_t *start;
    size_t size;
    uint64_t length;
    uint8_t *whole;                    /* gathered: the same bytes, which may be moved about; or NULL */
} plain_message;

typedef struct plain_protocol {
    uint8_t number;                    /* whom Python asks: RmrTransport, OckamTransport */
    enum counter frames_in, frames_out, undelivered, unfit;
    const char *unfit_name;            /* of the error that the sender of such a message is told */
    /* takes the frame at the front of the buffer; WAIT: not now */
    enum plain_step (*next)(pump *p, wconn *c);
    /* Finds out what a message is as a frame.  PIECES: gather it and come again, with `whole`. */
    enum plain_made (*make)(pump *p, wconn *c, wout *o, const plain_message *m, plain_frame *f);
    /* head and tail of what was made last */
    void (*put)(pump *p, wconn *c, wout *o, const plain_frame *f, uint8_t *to);
} plain_protocol;

typedef struct plain_terms {           /* of a listener, or of the connections that this side makes: a protocol's own
                                          begin with it */
    const plain_protocol *speaks;
    uint32_t most;                     /* longest frame */
} plain_terms;

typedef struct plain_conn {
    const plain_protocol *speaks;
    wlink *data, *other;               /* in: to its route table, or NULL; to where each message says */
    wlink *out, *back;                 /* out: to the endpoint that we have connected to, or NULL; to this connection */
    uint32_t number;
    bool connecting, ended, waiting, watched;   /* waiting: what has been read waits for credit, blocks, readers;
                                                   watched: by epoll */
    bool greeted;                      /* what the peer says once has come */
    const char *why;                   /* it is closed; NULL: the peer has */
    uint8_t *in;                       /* bytes read: [first, end) */
    uint32_t first, end, room;
    uint64_t left, skip;               /* of the frame being received: payload still to come; bytes still to pass
                                          over */
    wlink *into;                       /* whose `current` that frame is */
    uint8_t *rest;                     /* what the socket had no room for of a frame: [rest_first, rest_size) */
    size_t rest_first, rest_size;
    uint64_t rest_of;                  /* handle of the delivery; gone: nobody asks any more */
    uint64_t gathered_of;              /* the same of the message that is being gathered; 0: none */
    uint8_t *gathered;
    uint64_t gathered_size;
    struct rmr_sid *sids;
    uint32_t sids_kept;
    uint8_t *name;                     /* its address in routes, for whom it has one (ockam.h) */
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
