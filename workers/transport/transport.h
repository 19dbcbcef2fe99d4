/* The transport of connections: sockets, WebSocket frames, TLS and SASL, and the log of frames. */
#ifndef ROUTERD_WORKERS_TRANSPORT_H
#define ROUTERD_WORKERS_TRANSPORT_H

#include <netinet/in.h>
#include <sys/uio.h>

#include "shm/codec/section_walk.h"
#include "shm/unity.h"
#include "workers/state/link.h"

enum trace_setting { TRACE_AS_LOGGED, TRACE_ON, TRACE_OFF };

#define LAST_WORD_MS 10000             /* for our CLOSE to be written, and for links to go and it to be read */

#define FRAME_SEEN_PAYLOAD 256u        /* octets of a payload in the trace */

typedef struct {                       /* a frame of a framed connection */
    bool sent;
    /* octets of the frame; of its part around the payload; of the known part of the payload */
    uint32_t length, head_length, payload_length;
    const uint8_t *head, *payload;
} frame_seen;

#define WEBSOCKET_READ 16384u
#define WEBSOCKET_CONTROL 125u

enum websocket_status { WEBSOCKET_NORMAL = 1000, WEBSOCKET_WRONG = 1002, WEBSOCKET_NO_TEXT = 1003,
                        WEBSOCKET_MANGLED = 1007 };

typedef struct websocket {
    uint8_t header[14];            /* the received part of the current frame's header */
    uint32_t header_size;
    bool inside;                   /* its payload is being read */
    bool begun;                    /* a message has begun whose last frame has not come */
    uint64_t left;                 /* octets of the payload still to be read */
    uint32_t masked;               /* octets of the payload so far: the position in the mask */
    uint8_t control[WEBSOCKET_CONTROL];    /* payload of a control frame */
    uint32_t control_size;
    bool over;                     /* no more is read */
    uint8_t begin[14];             /* header of the frame that is being written, and its unsent part */
    uint32_t begin_at, begin_size;
    uint64_t payload;              /* unsent octets of that frame's payload, which are in the engine */
    uint8_t answer[2 * (2 + WEBSOCKET_CONTROL)];   /* control frames that go next: the rest of one, and another one */
    uint32_t answer_begun, answer_size;    /* octets of that rest, and of both */
} websocket;

enum relay_state { RELAY_CONNECTING, RELAY_OFFERED, RELAY_ASKING, RELAY_ANSWERING, RELAY_OPENING, RELAY_DECIDED };
enum {
    RELAY_MECHANISMS = 256, RELAY_SAID_MAX = 65536,    /* bytes */
    SASL_FRAME_MOST = 512,         /* octets of a frame that is relayed (AMQP 1.0 part 5.3.1) */
    RELAY_MECHANISM_COUNT = 30     /* the engine has room for 32 */
};
typedef struct { char *start; size_t size; } relay_said;

typedef struct relay {
    pump *p;
    worker_connection *up, *down;  /* NULL: gone, or not begun */
    enum relay_state state;
    uint32_t engines;              /* transports that refer to it; the last one frees it */
    bool asked;                    /* Python knows of the client */
    bool early;                    /* the client's init came before the mechanisms, and waits in `client` */
    bool anonymous;                /* ANONYMOUS may be offered */
    bool local;                    /* Cyrus SASL decides, in a thread (logins.py) */
    char mechanisms[RELAY_MECHANISMS];   /* offered to the client, separated by spaces */
    char mechanism[64];            /* chosen by the client */
    size_t realm;                  /* octets of the hostname in the service's init */
    relay_said client, service;    /* each side's last SASL octets, from which the other's engine writes */
    char *user;                    /* the engine keeps this pointer */
    const char *why;               /* the reason of a failure; NULL: the service has refused the client, or unknown */
    bool faulty;                   /* the failure is the client's fault */
} relay;

enum epoll_kind { EPOLL_DOORBELL = 1, EPOLL_LISTENER, EPOLL_CONNECTION, EPOLL_WAKE };

#define BUFFER_RESTING 512u            /* octets of the engine's buffers, each way, while a connection needs no more */
#define LAYERS_HEAD_MAX 4096u          /* octets of our header, and of the OPEN and CLOSE of an early error */

/* layers.c */
GLUE bool layers_found(void);
PRIVATE void layers_install(struct lane_connection *l);
PRIVATE void layers_rest(struct lane_connection *l);
PRIVATE void layers_wake(struct lane_connection *l);
PRIVATE void layers_widen(pn_transport_t *t, size_t size);
PRIVATE bool layers_bare(const struct lane_connection *l);
PRIVATE bool layers_passed(struct lane_connection *l);
PRIVATE size_t layers_head(struct lane_connection *l, uint8_t to[LAYERS_HEAD_MAX]);
PRIVATE ssize_t layers_give(struct lane_connection *l, const uint8_t *octets, size_t size);
PRIVATE void layers_fail(struct lane_connection *l, const char *condition, const char *description);
PRIVATE ssize_t layers_take(struct lane_connection *l, uint8_t *to, size_t room);
PRIVATE bool layers_ended(const struct lane_connection *l);
PRIVATE bool layers_refused(const struct lane_connection *l);
PRIVATE bool layers_below(const struct lane_connection *l);
PRIVATE ssize_t layers_in(struct lane_connection *l, const uint8_t *octets, size_t size);

/* Whoever reads and writes frames defines these (workers/session).  A result of PN_EOS: no more. */
PRIVATE void lane_begin_connection(pump *p, worker_connection *c);
PRIVATE ssize_t lane_write(struct lane_connection *l, uint8_t *to, size_t room);
PRIVATE void lane_wake(worker_connection *c);
PRIVATE bool lane_orderly(struct lane_connection *l, const uint8_t *octets, size_t there);
PRIVATE void lane_disorder(struct lane_connection *l);
PRIVATE ssize_t lane_hold(struct lane_connection *l, const uint8_t *octets, size_t size);
PRIVATE ssize_t lane_joined(struct lane_connection *l, const uint8_t *octets, size_t size);
PRIVATE void lane_answered(struct lane_connection *l);

/* The same without the transport, on a socket that nothing is between. */
PRIVATE uint8_t *lane_room(struct lane_connection *l, size_t *room);
PRIVATE void lane_came(struct lane_connection *l, size_t size);
PRIVATE ssize_t lane_given(struct lane_connection *l, const uint8_t *octets, size_t size);
PRIVATE ssize_t straight_socket(struct lane_connection *l, int fd, size_t *room);
PRIVATE void lane_pulse(struct lane_connection *l);
PRIVATE bool lane_make(struct lane_connection *l);
PRIVATE int lane_pieces(struct lane_connection *l, struct iovec *to);
PRIVATE void lane_sent(struct lane_connection *l, size_t size);
PRIVATE void lane_own(struct lane_connection *l);

/* trace.c */
GLUE void trace_apply(pump *p, worker_connection *c);
GLUE void trace_all(pump *p, bool tracing);
PRIVATE void trace_frame(worker_connection *c, frame_seen *seen);
PRIVATE bool trace_sound(const worker_connection *c, const uint8_t *octets, size_t size);
PRIVATE void trace_octets(const worker_connection *c, bool sent, const uint8_t *octets, size_t size);
PRIVATE void trace_end(worker_connection *c);

/* The engine describes no frame until trace_resume. */
static inline void trace_pause(const worker_connection *c)
{
    if (__builtin_expect(c->tracer != NULL, 0)) pn_transport_trace(c->transport, PN_TRACE_OFF);
}

static inline void trace_resume(const worker_connection *c)
{
    if (__builtin_expect(c->tracer != NULL, 0)) pn_transport_trace(c->transport, PN_TRACE_FRM);
}

/* websocket.c */
PRIVATE void websocket_end(websocket *s, uint32_t status);
PRIVATE ssize_t websocket_read(websocket *s, int fd, pn_transport_t *t);
PRIVATE bool websocket_flush(websocket *s, int fd);
PRIVATE ssize_t websocket_send(websocket *s, int fd, const char *bytes, size_t size);
GLUE bool websocket_door(int fd);
PRIVATE int websocket_accept(int fd, struct sockaddr_in6 *peer);

/* relay.c */
GLUE void relay_refuse(relay *r, int outcome, const char *why);
GLUE void relay_admit(relay *r, const char *user);
GLUE void relay_question(relay *r, const char *start, size_t size);
GLUE void relay_dialled(relay *r, worker_connection *c, const char *realm);
PRIVATE bool relay_asking(const worker_connection *c);
PRIVATE bool relay_passes(const worker_connection *c);
PRIVATE bool relay_accept(pump *p, const worker_listener *l, worker_connection *c);
PRIVATE void relay_left(worker_connection *c);
PRIVATE bool relay_ended(const worker_connection *c);
PRIVATE void relay_forgo(worker_connection *c);

/* security.c */
extern GLUE const char security_proxy[];
extern GLUE const char security_order[];
PRIVATE bool security_begin(const worker_listener *l, worker_connection *c);
PRIVATE void security_refresh(pump *p, worker_listener *l);
PRIVATE bool security_session(pump *p, worker_connection *c);
PRIVATE enum scan_result security_sections(const worker_connection *c, const uint8_t *bytes, size_t size,
                                           scan_found *found, enum scan_result result);
PRIVATE bool security_follow(worker_link *k);
PRIVATE enum scan_result security_user_id(const worker_connection *c, const uint8_t *start, scan_found *found,
    enum scan_result result);
GLUE void security_peer(const worker_connection *c, char *text, size_t size);
PRIVATE bool security_too_large(const worker_connection *c, uint64_t size);

/* accept.c */
PRIVATE bool begin_allowed(pump *p);
PRIVATE void sockets_accept(pump *p, worker_listener *l);
PRIVATE void sockets_retry(pump *p);
PRIVATE void accept_calm(pump *p);

/* sockets.c */
PRIVATE uint64_t epoll_name(uint64_t kind, uint64_t handle);
GLUE void listener_arm(pump *p, worker_listener *l, bool armed);
GLUE void listeners_arm(pump *p, bool armed);
GLUE worker_listener *listener_new(pump *p);
GLUE void listener_close(pump *p, worker_listener *l);
PRIVATE void conn_watch(pump *p, worker_connection *c);
PRIVATE void conn_unwatch(const pump *p, const worker_connection *c);
PRIVATE worker_connection *conn_begin(pump *p, int fd, uint16_t listener);
PRIVATE void conn_begun(pump *p, worker_connection *c, bool secured, bool writing);
GLUE void conn_broken(pump *p, worker_connection *c);
PRIVATE bool conn_read(pump *p, worker_connection *c);
PRIVATE bool conn_write(pump *p, worker_connection *c);

/* pressure.c */
PRIVATE void conn_pause(pump *p, worker_connection *c);
PRIVATE void conn_resume(pump *p, worker_connection *c);
GLUE void pressure_check(pump *p);
PRIVATE bool conn_waits(pump *p, worker_connection *c);

#endif
