/* One hand-made AMQP connection with one session and one link: what arrives, and what it answers.
 *
 * The receiver accepts what one read() brought with one ranged disposition, and tops its credit up when half
 * of it is used.  Nothing here polls; the loop is in wire.c.
 */
#ifndef BENCH_WIRE_CONNECTION_H
#define BENCH_WIRE_CONNECTION_H

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/wire_frames.h"

enum mode { SEND, RECV, PINGPONG, ECHO, IDLE, N_MODES };
static const char *const MODES[] = {"send", "recv", "pingpong", "echo", "idle"};
enum { INPUT_SIZE = 256 << 10, INPUT_SIZE_IDLE = 8 << 10, OUTPUT_MAX = 256 << 10 };
enum { MAX_FRAME = 32 << 10, MIN_MAX_FRAME = 512 };
static const uint32_t WINDOW = 0x7fffffff;

struct connection {
    int fd;
    bool server, sender, attached, closed, peer_closed, gone, blocked;
    enum { EXPECT_SASL, EXPECT_SASL_FRAMES, EXPECT_AMQP, EXPECT_FRAMES } stage;
    struct buffer out;
    uint8_t *in;
    size_t in_size, in_used;
    char name[256], address[256];
    uint32_t peer_max_frame, keep_alive_ms;
    uint64_t wrote_ns;
    uint32_t next_out, next_in, window;  /* transfer ids; frames the peer's session still takes */
    uint32_t delivery_count, credit;
    uint64_t sent, settled, received;
    size_t msg_at;                       /* bytes of the message in hand already sent, or received */
    uint32_t delivery_id, first, last;   /* the deliveries to be accepted: first..last */
    bool to_accept;
};

static struct {
    enum mode mode;
    bool listen, presettled, step, running, closing;
    const char *address;
    uint16_t port, far;        /* far: of pingpong's receiver */
    uint32_t credit, links, attached;
    uint64_t count, received, bad, owed, owed_stamp;
    uint64_t first_ns, last_ns, cpu_first_ns, cpu_last_ns;
    struct message message;
    struct samples samples;
} run;

static inline void mark_first(void)
{
    if (run.first_ns) return;
    run.cpu_first_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    run.first_ns = clock_ns(CLOCK_MONOTONIC);
}

static inline struct connection *connection_new(int fd, bool server, bool sender, uint32_t index)
{
    struct connection *c = calloc(1, sizeof *c);
    c->fd = fd;
    c->server = server;
    c->sender = sender;
    c->in_size = run.mode == IDLE ? INPUT_SIZE_IDLE : INPUT_SIZE;
    c->in = malloc(c->in_size);
    c->peer_max_frame = MIN_MAX_FRAME;
    snprintf(c->name, sizeof c->name, "wire-%d-%u", (int)getpid(), index);
    bool own = run.links > 1 && run.mode != PINGPONG;
    snprintf(c->address, sizeof c->address, own ? "%s.%u" : "%s", run.address, index);
    if (!server) put(&c->out, SASL_HEADER, 8);
    return c;
}

/* ---- performatives out ---- */

static inline void send_open(struct connection *c)
{
    struct frame f = frame_begin(&c->out, FRAME_AMQP, OPEN);
    put_text(&f, AMQP_STRING8, c->name);
    put_null(&f);
    put_uint(&f, run.mode == IDLE ? INPUT_SIZE_IDLE : MAX_FRAME);
    put_ushort(&f, 0);
    frame_end(&f);
}

static inline void send_begin(struct connection *c)
{
    struct frame f = frame_begin(&c->out, FRAME_AMQP, BEGIN);
    if (c->server) put_ushort(&f, 0);
    else put_null(&f);
    put_uint(&f, 0);
    put_uint(&f, WINDOW);
    put_uint(&f, WINDOW);
    frame_end(&f);
}

static inline void send_attach(struct connection *c)
{
    struct frame f = frame_begin(&c->out, FRAME_AMQP, ATTACH);
    put_text(&f, AMQP_STRING8, c->name);
    put_uint(&f, 0);
    put_bool(&f, !c->sender);
    put_ubyte(&f, run.presettled ? 1 : c->sender ? 0 : 2);
    put_ubyte(&f, 0);
    put_terminus(&f, SOURCE, c->sender ? NULL : c->address);
    put_terminus(&f, TARGET, c->sender ? c->address : NULL);
    if (c->sender) {
        put_null(&f);
        put_null(&f);
        put_uint(&f, 0);
    }
    frame_end(&f);
}

static inline void send_credit(struct connection *c)
{
    struct frame f = frame_begin(&c->out, FRAME_AMQP, FLOW);
    c->credit = run.credit;
    put_uint(&f, c->next_in);
    put_uint(&f, WINDOW);
    put_uint(&f, c->next_out);
    put_uint(&f, WINDOW);
    put_uint(&f, 0);
    put_uint(&f, c->delivery_count);
    put_uint(&f, c->credit);
    frame_end(&f);
}

static inline void send_settled(struct connection *c, uint32_t first, uint32_t last)
{
    struct frame f = frame_begin(&c->out, FRAME_AMQP, DISPOSITION);
    put_bool(&f, !c->sender);
    put_uint(&f, first);
    put_uint(&f, last);
    put_bool(&f, true);
    put_terminus(&f, ACCEPTED, NULL);  /* an outcome without fields is encoded like a terminus without */
    frame_end(&f);
}

static inline void send_close(struct connection *c)
{
    if (c->closed) return;
    struct frame f = frame_begin(&c->out, FRAME_AMQP, CLOSE);
    frame_end(&f);
    c->closed = true;
}

static inline void connection_settle(struct connection *c)
{
    if (c->sender || !c->attached || c->closed) return;
    if (c->to_accept) send_settled(c, c->first, c->last);
    c->to_accept = false;
    if (c->credit <= run.credit / 2) send_credit(c);
}

/* Frames one message, or the rest of one; returns false if credit, the session's window or our bound stops it. */
static inline bool connection_send(struct connection *c, bool sampled)
{
    struct message *m = &run.message;
    if (!c->credit) return false;
    mark_first();
    uint64_t now = sampled ? clock_ns(CLOCK_MONOTONIC) : 0;
    if (!c->msg_at) message_stamp(m, run.mode == ECHO ? run.owed_stamp : now);
    size_t room = c->peer_max_frame - TRANSFER_MAX_HEADER;
    while (c->window && c->out.end - c->out.start < OUTPUT_MAX) {
        size_t left = m->length - c->msg_at, n = left < room ? left : room;
        put_transfer(&c->out, c->delivery_count, run.presettled, n < left, m->bytes + c->msg_at, n);
        c->msg_at += n;
        c->next_out++;
        c->window--;
        if (n < left) continue;
        c->msg_at = 0;
        c->delivery_count++;
        c->credit--;
        c->sent++;
        return true;
    }
    return false;
}

/* Writes what waits; returns true if nothing is left. */
static inline bool connection_flush(struct connection *c)
{
    while (c->out.start < c->out.end) {
        ssize_t n = send(c->fd, c->out.bytes + c->out.start, c->out.end - c->out.start, MSG_NOSIGNAL);
        if (n < 0) return false;
        c->out.start += (size_t)n;
    }
    return true;
}

/* Sends an empty frame at least twice in the peer's idle time. */
static inline void connection_keep_alive(struct connection *c, uint64_t now)
{
    static const uint8_t empty[FRAME_HEADER] = {0, 0, 0, FRAME_HEADER, 2};
    if (!c->keep_alive_ms || c->gone || now - c->wrote_ns < c->keep_alive_ms / 2 * 1000000ull) return;
    c->wrote_ns = now;
    put(&c->out, empty, sizeof empty);
}

/* ---- performatives in ---- */

static inline void on_sasl(struct connection *c, uint8_t code, struct fields f)
{
    if (code == SASL_MECHANISMS) {
        struct frame out = frame_begin(&c->out, FRAME_SASL, SASL_INIT);
        put_text(&out, AMQP_SYMBOL8, "ANONYMOUS");
        put_text(&out, AMQP_BINARY8, "wire");
        frame_end(&out);
    } else if (code == SASL_INIT) {
        struct frame out = frame_begin(&c->out, FRAME_SASL, SASL_OUTCOME);
        put_ubyte(&out, 0);
        frame_end(&out);
        c->stage = EXPECT_AMQP;
    } else if (code == SASL_OUTCOME) {
        if (get_number(&f, 0)) die("the peer refused SASL ANONYMOUS");
        put(&c->out, AMQP_HEADER, 8);
        send_open(c);
        send_begin(c);
        send_attach(c);
        c->stage = EXPECT_AMQP;
    }
}

static inline void on_open(struct connection *c, struct fields f)
{
    skip_fields(&f, 2);
    uint32_t theirs = get_number(&f, MAX_FRAME);
    c->peer_max_frame = theirs < MAX_FRAME ? theirs : MAX_FRAME;
    skip_fields(&f, 1);
    c->keep_alive_ms = get_number(&f, 0);
    if (c->server) send_open(c);
}

static inline void on_attach(struct connection *c, struct fields f)
{
    amqp_octets name = amqp_string(next_field(&f));
    if (c->server && name.at) snprintf(c->name, sizeof c->name, "%.*s", (int)name.size, (const char *)name.at);
    skip_fields(&f, 1);
    bool peer_receives = get_number(&f, 0);
    if (c->server) {
        c->sender = peer_receives;
        send_attach(c);
    }
    c->attached = true;
    run.attached++;
    if (!c->sender) send_credit(c);
}

static inline void on_flow(struct connection *c, struct fields f)
{
    uint32_t next_in = get_number(&f, 0), window = get_number(&f, 0);
    skip_fields(&f, 2);
    c->window = next_in + window - c->next_out;
    amqp_value handle = next_field(&f);
    if (!handle.at || *handle.at == AMQP_NULL || !c->sender) return;  /* it is about the session alone */
    uint32_t count = get_number(&f, 0), credit = get_number(&f, 0), total = count + credit;
    c->credit = (int32_t)(total - c->delivery_count) > 0 ? total - c->delivery_count : 0;
}

static inline void on_message(struct connection *c, bool settled, const uint8_t *payload, size_t n)
{
    uint64_t stamp = message_stamp_of((const char *)payload, n, run.message.size);
    if (c->msg_at < run.message.size) run.bad++;
    c->msg_at = 0;
    c->delivery_count++;
    c->credit--;
    c->received++;
    run.received++;
    run.owed++;
    run.owed_stamp = stamp;
    samples_add(&run.samples, stamp);
    if (settled) return;
    if (c->to_accept && c->delivery_id != c->last + 1) connection_settle(c);
    if (!c->to_accept) c->first = c->delivery_id;
    c->last = c->delivery_id;
    c->to_accept = true;
}

static inline void on_transfer(struct connection *c, struct fields f, const uint8_t *end)
{
    mark_first();
    skip_fields(&f, 1);
    c->delivery_id = get_number(&f, c->delivery_id);  /* frames that continue a delivery may leave it out */
    skip_fields(&f, 2);
    bool settled = get_number(&f, 0), more = get_number(&f, 0);
    skip_fields(&f, 3);
    if (get_number(&f, 0)) c->msg_at = 0;  /* aborted: counted as cut short */
    else c->msg_at += (size_t)(end - f.items.end);
    c->next_in++;
    if (!more) on_message(c, settled, f.items.end, (size_t)(end - f.items.end));
}

static inline void on_disposition(struct connection *c, struct fields f)
{
    bool from_receiver = get_number(&f, 0);
    uint32_t first = get_number(&f, 0), last = get_number(&f, first);
    bool settled = get_number(&f, 0);
    amqp_value stated = next_field(&f);
    uint8_t outcome = stated.at && *stated.at == AMQP_DESCRIBED ? stated.at[2] : 0;
    if (!from_receiver || !c->sender || (!settled && outcome < ACCEPTED)) return;
    if (outcome != ACCEPTED) run.bad += last - first + 1;
    if (!settled) send_settled(c, first, last);
    c->settled += last - first + 1;
}

static inline void on_frame(struct connection *c, const uint8_t *p, uint32_t size)
{
    const uint8_t *body = p + 4u * p[4], *end = p + size;
    if (body >= end) return;  /* empty: the peer keeps the connection alive */
    amqp_value descriptor = amqp_take(body + 1, end, 0);
    if (!descriptor.at) die("malformed performative");
    const uint8_t *list = descriptor.at + descriptor.size;
    uint8_t code = list[-1];
    struct fields f = fields_of(amqp_take(list, end, 0));
    if (p[5] == FRAME_SASL) {
        on_sasl(c, code, f);
        return;
    }
    switch (code) {
    case OPEN: on_open(c, f); break;
    case BEGIN:
        skip_fields(&f, 1);
        c->next_in = get_number(&f, 0);
        c->window = get_number(&f, 0);
        if (c->server) send_begin(c);
        break;
    case ATTACH: on_attach(c, f); break;
    case FLOW: on_flow(c, f); break;
    case TRANSFER: on_transfer(c, f, end); break;
    case DISPOSITION: on_disposition(c, f); break;
    case DETACH: case END: c->peer_closed = true; break;
    case CLOSE:
        c->peer_closed = true;
        send_close(c);
        break;
    default: die("unknown performative");
    }
}

static inline void on_header(struct connection *c, const uint8_t *p)
{
    if (memcmp(p, "AMQP", 4)) die("not an AMQP peer");
    if (c->stage == EXPECT_SASL && p[4] == SASL_HEADER[4]) {
        c->stage = EXPECT_SASL_FRAMES;
        if (!c->server) return;
        put(&c->out, SASL_HEADER, 8);
        struct frame f = frame_begin(&c->out, FRAME_SASL, SASL_MECHANISMS);
        put_text(&f, AMQP_SYMBOL8, "ANONYMOUS");
        frame_end(&f);
        return;
    }
    if (c->server) put(&c->out, AMQP_HEADER, 8);
    c->stage = EXPECT_FRAMES;
}

static inline void connection_read(struct connection *c)
{
    if (c->gone) return;
    ssize_t n = recv(c->fd, c->in + c->in_used, c->in_size - c->in_used, 0);
    if (n < 0 && errno == EAGAIN) return;
    c->gone = n <= 0;
    if (n > 0) c->in_used += (size_t)n;
    size_t at = 0;
    while (c->in_used - at >= FRAME_HEADER) {
        bool header = c->stage == EXPECT_SASL || c->stage == EXPECT_AMQP;
        uint32_t size = header ? FRAME_HEADER : be32(c->in + at);
        if (size < FRAME_HEADER || size > c->in_size) die("bad frame size");
        if (c->in_used - at < size) break;
        if (header) on_header(c, c->in + at);
        else on_frame(c, c->in + at, size);
        at += size;
    }
    memmove(c->in, c->in + at, c->in_used - at);
    c->in_used -= at;
}

#endif
