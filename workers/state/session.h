/* What a connection of the data lane has besides the engine's objects: its frames on their way out, its sessions. */
#ifndef ROUTERD_WORKERS_STATE_SESSION_H
#define ROUTERD_WORKERS_STATE_SESSION_H

#include "workers/lane/lane.h"
#include "workers/state/connection.h"

struct delivery;
struct io_layer;
struct link_share;
struct worker_link;
typedef struct long_state long_state;
typedef struct link_name link_name;

/* The names of links that this side began, by a keyed hash (session/names.c). */
typedef struct {
    link_name **bucket;
    uint32_t mask, count;
    uint32_t waiting;              /* links, in all sessions, whose DETACH the peer has not answered */
    uint64_t key[2];
} link_names;

/* Whether a link may have a name: yes, when others have ended, or not while another one is attached with it. */
enum name_state { NAME_FREE, NAME_ENDS, NAME_LIVE };

/* An ATTACH that the engine has not written yet. */
typedef struct attach_due {
    struct attach_due *next, *previous;
    struct worker_link *link;      /* NULL: the link has gone; the engine writes its ATTACH in any case */
    bool outgoing;
    bool unbegun;                  /* it waits for the peer's BEGIN, and goes if the link goes before */
    uint32_t size;                 /* octets of the link's name */
    char name[];
} attach_due;

/* A session that either side has begun.  It goes when both sides have ended it and the engine's session is free. */
typedef struct worker_session {
    struct worker_session *next, *previous;
    struct worker_session *due_next, *due_previous, *waiting_next;
    struct worker_link *links;     /* all of it */
    struct lane_connection *connection;
    pn_session_t *engine;          /* whose context this is; NULL: its END has been answered */
    uint64_t number;               /* of one that we began, plus 1, or of these below; 0: the peer has (session_name) */
    struct worker_session *idle_next;  /* of those without links that we keep */
    struct worker_session *ours_next, *ours_previous;  /* of those with a number of the same kind */
    link_name *names;              /* of its links that we began */
    uint16_t local, remote;        /* the channels of our frames and of the peer's */
    bool begun_here, begun_there, ended_here, ended_there;
    bool closed_here;              /* our END has been written, or follows: what comes is forgotten */
    bool channel;                  /* it has a channel of ours, or its BEGIN waits for one */
    bool due;                      /* it has a DISPOSITION or FLOW to say */
    lane_session lane;
    lane_map handles;              /* the peer's handles: a worker_link, or HANDLE_IGNORED */
    uint32_t handle_count;
    size_t attach_octets;          /* of the ATTACHs that have them */
    attach_due *attach_first, *attach_last;
    uint32_t handles_taken;        /* handles of ours that links have, or that engine's ATTACHs wait for */
    uint32_t handle_most;          /* the highest that the peer's BEGIN allows us */
    struct delivery *queue_first, *queue_last; /* deliveries whose octets wait for the peer's window */
    size_t queued;                 /* octets of them */
    bool wide;                     /* it has its connection's wide window */
    struct link_share *owner;      /* the client for which it was begun; NULL: none that has links */
    struct worker_session *owned_next, *owned_previous;    /* of that client's */
    uint32_t seams;                /* places on its list of links where those of another client begin; 0: of one */
} worker_session;

/* What sessions that we begin are for, by their numbers (record.h). */
enum session_kind { SESSION_FIXED, SESSION_STREAM, SESSION_ROUTED, SESSION_KINDS };

static inline enum session_kind session_kind_of(uint32_t number)
{
    return number >= ROUTED_SESSIONS ? SESSION_ROUTED : number >= STREAM_SESSIONS ? SESSION_STREAM : SESSION_FIXED;
}

#define IDLE_SESSION UINT64_MAX        /* the number of a session of ours that we keep without links */
#define ENDED_SESSION (UINT64_MAX - 1) /* and of one that ends */

static inline worker_session *session_here(pn_session_t *session)
{
    return (worker_session *) pn_session_get_context(session);
}

/* The value of a handle whose link was refused or closed here: its frames count, no more; and its ATTACH's octets. */
#define HANDLE_IGNORED(octets) ((uint64_t) (octets) << 1 | 1u)
#define HANDLE_LINK(value) ((value) & 1 ? NULL : (struct worker_link *) (uintptr_t) (value))

#define READ_AT_ONCE 65536u            /* octets of a socket */

/* What a socket is read into.  With pieces of it that wait (session/held.c), it is theirs. */
typedef struct read_buffer {
    pump *p;
    struct read_buffer *next;      /* of those for reads to come */
    uint32_t pieces;               /* those, and one while it is the pump's */
    uint8_t octets[READ_AT_ONCE];
} read_buffer;

/* Octets of a block that stand in the output before its octet `at` (session/borrowed.c). */
typedef struct lane_lent {
    size_t at, size;
    const uint8_t *octets;
} lane_lent;

#define LENT_MOST 64u                  /* pieces */
#define LANE_PIECES (2 * LENT_MOST + 1)    /* of output and lent octets, in turn */

/* The TRANSFER whose payload is still coming (session/straight.c). */
typedef struct lane_coming {
    struct delivery *delivery;     /* NULL: nobody takes the rest */
    uint32_t left, payload;        /* octets of its payload: still to come (0: no such TRANSFER), and all */
    bool last;                     /* of its delivery */
    uint8_t head;                  /* octets in front of the payload; 0: the next TRANSFER begins with others */
    uint8_t octets[LANE_SHORT_HEAD];
} lane_coming;

#define SLOW_CLIENTS 16u               /* clients whose pauses a connection of a broker remembers */

typedef struct { uint32_t client; int64_t until; } slow_client;    /* it gets no link before that (milliseconds) */

typedef struct lane_connection {
    pump *p;
    worker_connection *c;
    pn_transport_t *transport;
    const struct io_layer **slots; /* the engine's layers of this transport (layers.c) */
    unsigned layer;                /* the slot of the AMQP layer, whose place the lane takes; before, of a login */
    bool begun;                    /* the peer has said the first frame of a login */
    bool headed;                   /* our protocol header is out: OPEN may follow */
    bool opened;                   /* the peer's OPEN has come */
    bool closed_in, closed_out;    /* the CLOSE of the peer and ours have passed */
    bool behind, choked;           /* frames that came wait: for its turn; for its output, of which too much waits */
    bool open_out;                 /* our OPEN has been written */
    bool full;                     /* it is behind until fewer of its deliveries' states are on their way */
    bool asking;                   /* it is behind until its login is answered: `rest` is what came meanwhile */
    bool shown;                    /* the trace has the first frame of `rest` */
    bool halfway;                  /* the first frame of `rest` is a DISPOSITION that goes on at these delivery-ids */
    uint32_t halfway_first, halfway_last;
    bool halfway_news;             /* its state was new to a delivery before these */
    bool gone;                     /* its peer writes no more, and has repeated too much: it is not heard */
    uint32_t repeats;              /* deliveries that had a state when another came, since the last look at that */
    uint32_t session_faults;       /* sessions that were ended for their peer's violation */
    uint32_t said;                 /* states of its deliveries that are on their way, and say no outcome */
    bool over;                     /* the engine has nothing more to write */
    bool giving;                   /* the engine reads a frame: an error is this frame's, not TLS's */
    bool tail_due;                 /* TLS has not heard that its input has ended: it hears when all output has gone */
    bool active, rested;           /* frames have passed since the last look; it has given its buffers back since */
    bool woken;                    /* the engine's buffers are large */
    bool bare;                     /* octets of the socket come past the transport */
    bool heard, ticking;           /* some have since the last tick; the transport is being told of that */
    int64_t said_ms;               /* when octets last went out, or the connection was choked */
    read_buffer *reading;          /* where the frame that is being read stays if it must; NULL: nowhere */
    uint8_t *rest;                 /* the beginning of a frame, or all that waits (turns.c) */
    size_t rest_size, rest_room;
    uint8_t *out;                  /* frames on their way to the transport: out_at to out_end */
    size_t out_at, out_end, out_room;
    size_t traced;                 /* the end of the frames that the trace has, or that went untraced */
    struct delivery *open;         /* whose TRANSFER stands at the end of `out`, unfinished; NULL: none */
    size_t open_at, open_flags;    /* the places of that frame, and of its `settled` and `more` */
    size_t open_lent, lent_size;   /* lent octets of that frame, and of all */
    uint32_t lent_count;           /* pieces of them */
    lane_map by_remote, by_local;  /* channels: worker_session */
    lane_map by_number;            /* the same of sessions that we began, by number */
    worker_session *idle_first;    /* those that we keep without links */
    uint32_t idle_count;
    worker_session *ours_first[SESSION_KINDS], *ours_last[SESSION_KINDS];  /* those with a number, in turn */
    link_names names;
    worker_session *sessions;
    worker_session *ending;        /* the session whose END the engine is reading; NULL: none */
    struct { worker_session *first, *last; } opening;  /* begun by the peer; the engine's event has not come */
    struct { worker_session *first, *last; } beginning;    /* whose BEGIN the engine writes, in this order */
    uint32_t session_count, handle_count;  /* sessions; handles of the peer in all of them */
    uint32_t channels_taken;       /* channels of ours that sessions have or wait for */
    size_t attach_octets;          /* of the ATTACHs that have them */
    size_t share_octets;           /* of the ATTACHs that began its links, of both sides */
    lane_map shares;               /* link_share, by client (session/shares.c) */
    worker_session *failing;       /* one that ends for its peer's violation, as soon as its links have; NULL: none */
    worker_session *due_first;     /* sessions that have something to say */
    /* the ATTACH that the engine is reading */
    struct {
        worker_session *session;
        lane_attach attach;
        uint32_t octets;
        const lane_no_text *no_text;   /* what it says as text and is none; NULL: all of it is text */
    } attaching;
    struct worker_link *tell_first;    /* links of which a FLOW is due */
    struct delivery *changed_first;    /* deliveries with a state of ours that no frame has said yet */
    long_state *last_said, *last_heard;    /* long states, of ours and the peer's, for others that have the same */
    size_t states;                 /* octets of all of them */
    struct delivery *spare;
    uint32_t max_frame;            /* octets of our largest frame */
    lane_coming coming;
    size_t held, held_most;        /* octets that came and wait; with more than that it is not read */
    struct worker_link *holding_first, *holding_last;  /* links for clients with some, the longest unmoved first */
    int64_t relieve_at;            /* when slow ones among these are looked for; 0: nobody waits for them */
    slow_client *slow;             /* SLOW_CLIENTS that have lost such links, in turn; NULL: none has */
    uint32_t slow_next;
    bool wide;                     /* one of its sessions has the wide window */
    uint64_t turn, spent;          /* the pump's turn that its control frames came in last, and their nanoseconds */
    struct lane_connection *behind_next, *behind_previous;  /* of those that are behind */
    bool waiting;                  /* it is one of them */
} lane_connection;

#endif
