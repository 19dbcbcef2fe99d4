"""The pump's C11 headers and the system calls the glue needs."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from workers.loop.libproton cimport pn_collector_t, pn_connection_t, pn_link_t, pn_session_t, pn_ssl_domain_t, pn_terminus_t, pn_transport_t
from workers.source_routes.routes cimport route_engine, route_sender

cdef extern from "semaphore.h" nogil:
    ctypedef struct sem_t
    sem_t *sem_open(const char *name, int oflag)
    int sem_close(sem_t *sem)

cdef extern from "sys/epoll.h" nogil:
    int epoll_create1(int flags)
    int epoll_ctl(int epfd, int op, int fd, epoll_event *event)
    int EPOLL_CLOEXEC
    int EPOLL_CTL_ADD
    unsigned int EPOLLIN, EPOLLET
    ctypedef union epoll_data_t:
        uint64_t u64
    cdef struct epoll_event:
        uint32_t events
        epoll_data_t data

cdef extern from "workers/loop/api.h" nogil:
    bint terminus_there(pn_terminus_t *)
    uint32_t ROUTERD_NIL, SLOT_USED
    uint32_t CONTROL_RESERVE
    uint32_t MAX_CONNECTIONS, MAX_LINKS, MAX_DELIVERIES, MAX_LISTENERS
    int EV_CONNECTION_OPEN, EV_CONNECTION_CLOSE, EV_CONNECTION_GONE, EV_ATTACH, EV_DETACH, EV_LINK_LOST, EV_CONTROL, EV_ACCEPT_FAILED, EV_ACCEPT_AGAIN
    int EV_CERTIFICATES, EV_SESSION_DENIED, EV_MESSAGE_DENIED, EV_MESSAGE_REFUSED, EV_TRACE, EV_ATTACHED, EV_MESSAGE, EV_FRAMED_OPEN
    int EV_ROUTE_SENDER, EV_RELAY
    int TRACE_AS_LOGGED, TRACE_ON, TRACE_OFF
    int EXTRACT_MESSAGES, EXTRACT_TRANSACTIONS
    uint64_t EPOLL_DOORBELL, EPOLL_WAKE
    int A_CONTROL
    int N_ACCEPTING, N_BAD_RECORDS
    ctypedef struct slot_head:
        uint32_t next_free, generation
    ctypedef struct pool:
        uint32_t used, high
    ctypedef struct framed_connection:
        worker_link *data
        worker_link *other
        worker_link *out
        worker_link *back
        uint32_t number
        const char *why
        const framed_protocol *speaks
        uint8_t *name
        uint16_t name_length
        uint8_t name_type
    ctypedef struct framed_protocol:
        uint8_t number
    ctypedef struct framed_terms:
        const framed_protocol *speaks
        uint32_t most
    const framed_protocol rmr_protocol
    const framed_protocol ockam_protocol
    ctypedef struct ockam_terms:
        framed_terms framed
        uint8_t framing
        uint32_t reach_count
        uint8_t *reach
    uint8_t OCKAM_CBOR, OCKAM_BARE
    void ockam_greet(native_pump *, worker_connection *)
    ctypedef struct rmr_terms:
        framed_terms framed
        char address[1024]
        char control[1024]
        char back[1024]
        uint32_t address_length, control_length, back_length
        char source[64]
        uint64_t nonce
        uint8_t key[16]
        uint8_t reply
        bint replies
    uint32_t RMR_ADDRESS_MAX, RMR_NUMBER
    ctypedef struct relay_said:
        char *start
        size_t size
    ctypedef struct relay:
        int state
        bint local
        char mechanism[64]
        relay_said client
        const char *why
        bint faulty
    int RELAY_DECIDED
    void relay_admit(relay *, const char *)
    void relay_refuse(relay *, int, const char *)
    void relay_question(relay *, const char *, size_t)
    void relay_dialled(relay *, worker_connection *, const char *)
    ctypedef struct worker_connection:
        slot_head slot
        pn_connection_t *engine
        pn_transport_t *transport
        int fd
        uint16_t listener
        bint opened, known, failed
        int64_t deadline
        char *user
        bint secured, admitted
        uint8_t trace
        bint dialled
        framed_connection *framed
        relay *relay
        bint messages_logged
        uint64_t max_message
        uint32_t window, widest, max_sessions
        uint8_t trusted, annotations
    ctypedef struct worker_link:
        route_sender *sender
        slot_head slot
        pn_link_t *engine
        worker_connection *conn
        uint32_t capacity
        bint outgoing, open, known, router_initiated, routed, to_table, framed
        uint8_t outlived
        int32_t credit
        uint32_t asked
        uint64_t order
    void link_limit(worker_link *, uint32_t)
    uint32_t link_configured(const worker_link *)
    void link_routed(worker_link *)
    ctypedef struct in_delivery:
        pass
    ctypedef struct out_delivery:
        pass
    ctypedef struct annotations_self:
        char id[255]
        uint8_t length
    uint32_t ANNOTATIONS_ID_MAX
    uint8_t ANNOTATIONS_NONE, ANNOTATIONS_MAP, ANNOTATIONS_SKUPPER
    uint8_t annotations_form_bit(int)
    ctypedef struct worker_listener:
        int fd
        uint32_t config
        bint dials, relays, hands_over
        char offered[256]
        uint32_t max_frame, idle_timeout_ms, handshake_ms, link_capacity, window, widest
        uint16_t channel_max
        bint authenticate, encrypt
        char mechanisms[256]
        pn_ssl_domain_t *tls
        framed_terms *framed
    ctypedef struct routerd_record:
        uint8_t type, arena
        uint32_t link, link_gen, block, state, credit
        uint64_t time
    ctypedef struct arena_view:
        uint32_t small_count, large_count
    ctypedef struct arena_owner:
        pass
    ctypedef struct routerd_outbox:
        bint failed
    ctypedef struct routerd_consumer:
        pass
    ctypedef struct routerd_doorbell
    ctypedef struct routerd_ring
    ctypedef struct stats_page
    ctypedef void (*pump_callback)(void *, int, worker_connection *, worker_link *, void *, const routerd_record *) noexcept
    ctypedef struct native_pump "pump":
        route_engine *routes
        uint32_t index, workers
        arena_owner arena
        arena_view views[65]
        routerd_outbox actions
        routerd_consumer work
        routerd_doorbell *own_bell
        routerd_doorbell *core_bell
        sem_t *core_semaphore
        int epoll_fd
        stats_page *stats
        stats_page *others[64]
        pool conns, links, ins, outs
        uint32_t *outs_of_core
        pn_collector_t *collector
        worker_listener listeners[512]
        uint32_t listener_count, dirty_first, ending_first, stalled_first, stalled_last, low_small, low_large, reserve
        bint accepting, withhold, woken, detached
        uint8_t extracts
        int64_t now_ms
        uint64_t busy_poll_ns
        uint32_t unsettled
        const annotations_self *identity
        pump_callback on_event
        void *self
    bint pool_open(pool *, size_t, uint32_t)
    void pool_close(pool *)
    void *pool_at(const pool *, uint32_t)
    uint32_t pool_index(const pool *, const void *)
    void *pool_find2(const pool *, uint32_t, uint32_t)
    bint arena_attach(arena_view *, void *, size_t)
    bint arena_own(arena_owner *, const arena_view *)
    void arena_disown(arena_owner *)
    bint outbox_attach(routerd_outbox *, routerd_ring *)
    bint ring_consume(routerd_consumer *, routerd_ring *)
    bint control_post(native_pump *, const routerd_record *, const void *, size_t)
    uint64_t payload_size(const native_pump *, uint8_t, uint32_t)
    ssize_t payload_load(const native_pump *, uint8_t, uint32_t, uint8_t *, size_t)
    void framed_end(native_pump *)
    worker_connection *framed_new(native_pump *, int, uint16_t, bint)
    worker_link *framed_link(native_pump *, worker_connection *, bint)
    void framed_close(native_pump *, worker_connection *, const char *)
    worker_link *link_new(native_pump *, worker_connection *, pn_link_t *)
    void egress_flow(native_pump *, worker_link *)
    void link_free(native_pump *, worker_link *)
    void link_lost(native_pump *, worker_link *, int)
    void listeners_arm(native_pump *, bint)
    bint layers_found()
    void listener_arm(native_pump *, worker_listener *, bint)
    worker_listener *listener_new(native_pump *)
    bint websocket_door(int)
    void listener_close(native_pump *, worker_listener *)
    worker_listener *dial_place(native_pump *)
    worker_connection *dial(native_pump *, int, uint16_t, const char *, const char *, const char *)
    int NAME_FREE, NAME_LIVE
    int dial_taken(worker_connection *, const char *, bint)
    enum: REFUSAL_ROOM
    bint dial_refused(const worker_connection *, uint32_t, uint32_t, char *)
    bint slow_refused(const worker_connection *, uint32_t, char *)
    bint share_refused(const worker_connection *, uint32_t, bint, size_t, char *)
    void share_take(worker_link *, uint32_t, bint, size_t)
    void link_give_up(native_pump *, worker_link *)
    void dial_attach(native_pump *, worker_link *)
    void dial_unask(native_pump *, worker_link *)
    worker_link *dial_link(native_pump *, worker_connection *, uint32_t, uint32_t, const char *, bint)
    void dial_forget(native_pump *, worker_link *)
    uint32_t frame_largest(const worker_connection *)
    bint blocks_left(const native_pump *)
    void publish_actions(native_pump *)
    void pump_leave(native_pump *, bint died)
    bint pump_return(native_pump *, routerd_ring *, routerd_ring *)
    void pump_present(native_pump *)
    int resync_credit(worker_link *)
    void poll_all_links(native_pump *, uint64_t)
    void poll_links(native_pump *, const char *, size_t, uint64_t, char *)
    void resync_link(native_pump *, worker_link *)
    void mark_dirty(native_pump *, worker_connection *)
    void pressure_check(native_pump *)
    void security_peer(const worker_connection *, char *, size_t)
    void conn_broken(native_pump *, worker_connection *)
    ctypedef struct message_seen:
        bint sent
        uint32_t length
        uint8_t *bytes
    ctypedef struct frame_seen:
        bint sent
        uint32_t length, head_length, payload_length
        const uint8_t *head
        const uint8_t *payload
    void trace_all(native_pump *, bint)
    void trace_apply(native_pump *, worker_connection *)
    void stats_set(stats_page *, uint32_t, uint64_t)
    void stats_add(stats_page *, uint32_t, uint64_t)
    void pump_run(native_pump *, int64_t)
    int64_t clock_ns()
    size_t LAYOUT_CORE_DOORBELL, LAYOUT_CORE_ARENA_BYTES
    size_t layout_worker_doorbell(uint32_t)
    size_t layout_stats(uint32_t)
    ctypedef struct layout_control
    uint32_t layout_next_connection(layout_control *)
    size_t layout_action_ring(uint32_t)
    size_t layout_work_ring(uint32_t)
