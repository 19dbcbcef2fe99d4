/* The data lane: TRANSFER, FLOW and DISPOSITION without the engine (AMQP 1.0 part 2.5 to 2.7).
 *
 *   frame.c     what a frame says, from its octets
 *   write.c     TRANSFER, FLOW and DISPOSITION as frames, and others that have to be shorter
 *   state.c     delivery states as octets: whether they are sound, and shorter ones
 *   map.c       what has a number: channels, handles, unsettled deliveries
 *   text.c      what peers say as text, and is none
 *   session.c   windows, delivery-ids, credit and drain of a session and its links
 *
 * A state of a delivery is kept and passed on as its own octets, so nothing of it is lost on its way.
 *
 * Nothing here reads a socket, keeps time or knows the engine.  Functions per frame allocate nothing; a map allocates
 * a page for LANE_PAGE numbers that follow each other, and keeps pages that became empty for the next numbers.
 *
 * Prohibited: interpreting a frame that lane_frame_size has not found to be there as a whole, unless
 * lane_transfer_head has found all of it but its payload; passing on a state that
 * lane_state_sound has not accepted (one peer's malformed octets would end another peer's connection).
 */
#ifndef ROUTERD_WORKERS_LANE_H
#define ROUTERD_WORKERS_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/codec/amqp.h"
#include "shm/unity.h"

#define LANE_FRAME_HEAD 8u             /* octets: size, data offset, type, channel */
#define LANE_SHORT_HEAD 64u            /* octets in front of a payload: those of more TRANSFERs than one may be alike */
#define LANE_TAG_MAX 32u               /* AMQP 1.0 part 2.8.7 */
#define LANE_TRANSFER_MAX 80u          /* octets in front of a TRANSFER's payload, and its state besides */
#define LANE_DETACH_MAX 24u            /* octets of a DETACH without an error */
#define LANE_ATTACH_MAX 80u            /* octets of an ATTACH without termini and properties, and its name besides */
#define LANE_FLOW_MAX 64u              /* octets of a FLOW */
#define LANE_DISPOSITION_MAX 40u       /* octets of a DISPOSITION, and its state besides */
#define LANE_STATE_MERGED 24u          /* longer states have a DISPOSITION for each delivery */
#define LANE_PAGE 32u                  /* numbers of a map's page */

enum lane_performative {
    LANE_OPEN = 0x10, LANE_BEGIN, LANE_ATTACH, LANE_FLOW, LANE_TRANSFER, LANE_DISPOSITION, LANE_DETACH, LANE_END,
    LANE_CLOSE
};

enum lane_sasl {
    LANE_SASL = 1,                     /* the type of such frames */
    LANE_SASL_MECHANISMS = 0x40, LANE_SASL_INIT, LANE_SASL_CHALLENGE, LANE_SASL_RESPONSE, LANE_SASL_OUTCOME
};

enum lane_state_code {
    LANE_ERROR = 0x1d,                 /* not a state: the error of rejected (AMQP 1.0 part 2.8.14) */
    LANE_RECEIVED = 0x23, LANE_ACCEPTED, LANE_REJECTED, LANE_RELEASED, LANE_MODIFIED,
    LANE_DECLARED = 0x33, LANE_TRANSACTIONAL
};
#define LANE_OTHER UINT32_MAX          /* its descriptor is no number of 32 bits, and no name of the above */

enum lane_settle_mode { LANE_AS_LINK, LANE_FIRST, LANE_SECOND };       /* as the link has it; or other than that */

/* What is wrong with a frame; lane_faults says whose end that is. */
enum lane_fault {
    LANE_FINE,
    LANE_FRAMING,                      /* its size or data offset */
    LANE_TYPE,                         /* its type */
    LANE_DECODE,                       /* its performative */
    LANE_ORDER,                        /* it stands before OPEN, or is another OPEN */
    LANE_CHANNEL,                      /* no session begins on its channel */
    LANE_BEGUN,                        /* a BEGIN on the channel of another session */
    LANE_UNATTACHED,                   /* no link has its handle, or one of the other role */
    LANE_IN_USE,                       /* an ATTACH names the handle of another link */
    LANE_WINDOW,                       /* more TRANSFERs than the session's window */
    LANE_LIMIT,                        /* more deliveries than credit */
    LANE_FIELD,                        /* a delivery-id out of order, or first after last */
    LANE_STATE,                        /* a state of a transaction that its receiver could not read */
    LANE_MANY,                         /* more sessions or links than a connection may have */
    LANE_NAME,                         /* a link's name that no answer could repeat */
    LANE_HANDLES                       /* more links than the peer's own handle-max leaves an answer for */
};

enum lane_scope { LANE_NOBODY, LANE_LINK, LANE_SESSION, LANE_CONNECTION };

extern GLUE const struct lane_fault_terms {
    enum lane_scope scope;
    const char *condition, *description;
} lane_faults[];

/* ---- frames ---- */

typedef struct {
    amqp_cursor items;
    uint32_t count;                    /* items that are still to be read */
    bool bad;                          /* an item was not what its place demands */
} lane_fields;

typedef struct {
    uint16_t channel;
    uint8_t type;                      /* 0: AMQP; of others nothing else is known */
    uint8_t performative;              /* 0: the frame is empty */
    lane_fields fields;
    const uint8_t *payload;            /* behind the performative */
    uint32_t payload_size;
} lane_frame;

typedef struct {
    uint32_t handle, id, format;
    amqp_octets tag;                   /* `at` NULL: none, as in all but the first TRANSFER of a delivery */
    amqp_value state;                  /* `at` NULL: none */
    bool has_id, has_format, has_settled, settled, more, resume, aborted;
    uint8_t settle_mode;               /* enum lane_settle_mode: rcv-settle-mode */
} lane_transfer;

typedef struct {
    uint32_t next_in, in_window, next_out, out_window, handle, count, credit, available;
    bool has_next_in, has_handle, has_count, has_credit, has_available, drain, echo;
} lane_flow;

typedef struct {
    uint32_t first, last;
    amqp_value state;                  /* `at` NULL: none */
    bool receiver, settled;
} lane_disposition;

typedef struct {
    uint16_t remote_channel;
    bool answers;                      /* it names the channel of a BEGIN of ours */
    uint32_t next_out, in_window;
    uint32_t handle_most;              /* the highest handle that its sender takes */
} lane_begin;

typedef struct {
    amqp_octets name;
    uint32_t handle, count;            /* count: the sender's initial delivery-count, 0 of a receiver */
    bool receiver;                     /* the role of who attaches */
} lane_attach;

typedef struct {                       /* a DETACH, END or CLOSE */
    uint32_t handle;                   /* of a DETACH, as `closed` */
    bool closed, failed;               /* failed: it has an error */
    amqp_octets condition, description;    /* that error; `at` NULL: none */
} lane_ending;

/* frame.c */
PRIVATE size_t lane_frame_size(const uint8_t *octets, size_t there, uint32_t most);
PRIVATE uint32_t lane_transfer_head(const uint8_t *octets, size_t there);
PRIVATE enum lane_fault lane_frame_read(const uint8_t *octets, size_t size, lane_frame *f);
PRIVATE enum lane_fault lane_sasl_read(const uint8_t *octets, size_t size, lane_frame *f);
PRIVATE enum lane_fault lane_transfer_read(const lane_frame *f, lane_transfer *t);
PRIVATE enum lane_fault lane_flow_read(const lane_frame *f, lane_flow *flow);
PRIVATE enum lane_fault lane_disposition_read(const lane_frame *f, lane_disposition *d);
PRIVATE enum lane_fault lane_begin_read(const lane_frame *f, lane_begin *b);
PRIVATE enum lane_fault lane_attach_read(const lane_frame *f, lane_attach *a);
PRIVATE enum lane_fault lane_detach_read(const lane_frame *f, uint32_t *handle);
PRIVATE enum lane_fault lane_ending_read(const lane_frame *f, lane_ending *e);

#define LANE_HEAD_TAG 8u               /* octets of a delivery tag of ours */

typedef struct {                       /* how a link's deliveries of one TRANSFER each begin: up to the handle */
    uint8_t size;                      /* 0: it has not been made */
    uint8_t octets[24];
} lane_head;

/* write.c */
PRIVATE void lane_head_begin(lane_head *h, uint16_t channel, uint32_t handle);
PRIVATE uint8_t *lane_put_head(uint8_t *to, const lane_head *h, uint32_t id, const uint8_t *tag, bool settled);
PRIVATE uint8_t *lane_put_transfer(uint8_t *to, uint16_t channel, const lane_transfer *t);
PRIVATE uint32_t lane_put_detach(uint8_t *to, uint16_t channel, uint32_t handle);
PRIVATE uint32_t lane_put_flow(uint8_t *to, uint16_t channel, const lane_flow *flow);
PRIVATE uint32_t lane_put_disposition(uint8_t *to, uint16_t channel, const lane_disposition *d);
PRIVATE uint32_t lane_put_size(uint8_t *frame, const uint8_t *end);
PRIVATE uint32_t lane_put_ending(uint8_t *to, uint32_t room, const lane_frame *f, const lane_ending *e);
PRIVATE uint32_t lane_put_first(uint8_t *to, uint32_t room, const lane_frame *f);

/* ---- states of deliveries ---- */

PRIVATE uint32_t lane_state_code(amqp_value state);
PRIVATE size_t lane_value_sound(const uint8_t *at, const uint8_t *end);
PRIVATE bool lane_state_sound(amqp_value state);
PRIVATE bool lane_state_typed(amqp_value state);
PRIVATE uint32_t lane_state_shorten(amqp_value state, uint8_t *to, uint32_t room);

/* ---- texts ---- */

typedef struct {
    bool name;                         /* it is a link's name, which an answer would repeat */
    const char *condition;
    char description[384];
} lane_no_text;

/* text.c */
PRIVATE bool lane_texts(const lane_frame *f, lane_no_text *no);
PRIVATE bool lane_values_text(amqp_value v);
PRIVATE bool lane_user_text(const char *user, lane_no_text *no);

/* ---- maps ---- */

typedef struct lane_page {
    struct lane_page *previous, *next; /* in the order of their numbers */
    uint32_t number, used;             /* number: its first key divided by LANE_PAGE */
    uint64_t value[LANE_PAGE];         /* 0: none */
} lane_page;

typedef struct {
    lane_page **slots;                 /* open addressing by page number; NULL: nothing was ever put */
    uint32_t mask, pages, spares;
    lane_page *first, *last, *recent;
    lane_page *spare;                  /* empty ones, by `next` */
    bool unordered;                    /* pages stand as they came: nobody asks for the next number */
    uint32_t passed;                   /* pages that searches for the next number have passed; the caller counts them */
} lane_map;

PRIVATE bool lane_map_put(lane_map *m, uint32_t key, uint64_t value);
PRIVATE uint64_t lane_map_get(lane_map *m, uint32_t key);
PRIVATE uint64_t lane_map_take(lane_map *m, uint32_t key);
PRIVATE uint32_t lane_map_some(const lane_map *m);
PRIVATE uint64_t lane_map_next(lane_map *m, uint32_t *key, uint32_t last);
PRIVATE void lane_map_rest(lane_map *m);
PRIVATE void lane_map_end(lane_map *m);

/* ---- sessions and links ---- */

typedef struct {                       /* deliveries with the same state, whose DISPOSITION is still to be written */
    uint32_t first, last;
    uint8_t size, state[LANE_STATE_MERGED];
    bool open, receiver, settled;
} lane_range;

typedef struct {
    uint32_t next_in, in_window;       /* in_window: what the peer may still send, as it was told */
    uint32_t in_most;                  /* its highest value */
    uint32_t held;                     /* TRANSFERs whose content the router has not taken yet */
    uint32_t next_out, out_window;
    uint32_t id_in, id_out;            /* the next delivery-ids */
    bool id_known;                     /* the peer's first delivery has said id_in */
    bool tell;                         /* a FLOW is due */
    lane_range range;
    lane_range heard;                  /* deliveries of ours that all had this state when the peer last said it */
    uint32_t heard_at;                 /* id_out then: if it is another now, some may have none */
    lane_map in, out;                  /* unsettled deliveries by delivery-id */
} lane_session;

typedef struct {
    uint32_t handle;                   /* ours */
    uint32_t count, credit;            /* delivery-count and link-credit */
    uint32_t withdrawn;                /* in: credit taken back, which the sender may have used before it hears so */
    uint32_t overrun;                  /* in: credit taken back that had been used: the next credit makes up for it */
    uint32_t id;                       /* of the delivery that is on its way */
    bool outgoing;
    bool begun;                        /* a delivery is on its way: more of it will follow */
    bool settled;                      /* that delivery */
    bool drain;                        /* out: the peer wants all credit used; in: so do we */
    bool tell;                         /* a FLOW is due */
} lane_link;

typedef struct {
    bool first, last, aborted, settled;    /* of the delivery to which a TRANSFER belongs */
} lane_piece;

typedef struct {
    bool window;                       /* the session's window has opened */
    bool credit;                       /* an outgoing link has credit */
    uint32_t returned;                 /* credit that an incoming link's sender has given back */
} lane_heard;

/* session.c */
PRIVATE void lane_session_open(lane_session *s, uint32_t window);
PRIVATE void lane_session_begun(lane_session *s, const lane_begin *b);
PRIVATE void lane_session_end(lane_session *s);
PRIVATE enum lane_fault lane_receive(lane_session *s, lane_link *k, const lane_transfer *t, lane_piece *piece);
PRIVATE void lane_release(lane_session *s, uint32_t transfers);
PRIVATE lane_heard lane_hear(lane_session *s, lane_link *k, const lane_flow *flow);
PRIVATE void lane_send(lane_session *s, lane_link *k, lane_transfer *t);
PRIVATE void lane_grant(lane_link *k, uint32_t credit);
PRIVATE void lane_withdraw(lane_link *k, uint32_t credit);
PRIVATE void lane_drained(lane_link *k);
PRIVATE void lane_say(lane_session *s, lane_link *k, lane_flow *flow);
PRIVATE bool lane_range_add(lane_range *r, bool receiver, bool settled, uint32_t id, amqp_value state);
PRIVATE bool lane_range_take(lane_range *r, lane_disposition *d);
PRIVATE void lane_range_hear(lane_range *r, const lane_disposition *d);
PRIVATE bool lane_range_heard(const lane_range *r, const lane_disposition *d);

#endif
