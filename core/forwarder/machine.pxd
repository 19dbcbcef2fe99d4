"""What the glue needs of the headers of the forwarder and of the planes on it."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "semaphore.h" nogil:
    ctypedef struct sem_t:
        pass
    sem_t *SEM_FAILED
    sem_t *sem_open(const char *, int)

cdef extern from "shm/memory/layout.h" nogil:
    ctypedef struct arena_view:
        pass
    ctypedef struct arena_content:
        pass
    bint arena_attach(arena_view *, void *, size_t)
    arena_content *arena_content_of(const arena_view *, uint32_t)
    uint64_t chain_length(const arena_content *)
    ctypedef struct arena_owner:
        uint32_t free_count[2]
    ctypedef struct routerd_record:
        uint8_t type, flags, arena
        uint32_t link, link_gen, state, block, credit
        uint64_t delivery, peer, length, time
    const uint32_t ROUTERD_NIL, ROUTERD_MAX_WORKERS
    size_t layout_control_bytes(uint32_t)
    size_t layout_rings_bytes(uint32_t)

cdef extern from "core/forwarder/delivery/delivery.h" nogil:
    cdef enum:
        CORE_MAX_TEXT
        W_SEND
        STOP_NOTHING, STOP_CONTROL, STOP_UNKNOWN, STOP_LOCAL, STOP_HELD
        RATE_SHIFT, N_WORKERS_RECLAIMED, N_UNADDRESSED
        T_FLOOD
        LINK_CONTROL, LINK_DATA, LINK_STREAM, LINK_ROUTED
        NODES, NEIGHBOURS, NODE_TEXT, ROUTERD_PRIORITIES
        CONTENT_CONTROL_MAX, CONTENT_HOPS, ALIAS_PHASES, ALIAS_IDLE_ROOM
    ctypedef struct core_pool:
        uint32_t live, entry_bytes
    ctypedef struct core_alias_table:
        uint32_t count
        uint64_t seed, bytes
    uint64_t alias_hash(uint64_t, const uint8_t *, uint32_t)
    uint64_t alias_hash_in(uint64_t, uint32_t, const uint8_t *, uint32_t)
    ctypedef struct core_payloads:
        uint32_t count
    ctypedef struct core_mask:
        uint64_t word[2]
    bint mask_has(const core_mask *, uint32_t)
    void mask_set(core_mask *, uint32_t)
    ctypedef struct core_text:
        pass
    core_text *text_new(const uint8_t *, uint32_t)
    void text_disown(core_router *, core_text *)
    ctypedef struct core_binding:
        uint64_t matched
    const uint32_t EXCHANGE_NONE
    const int EXCHANGE_GIVEN
    ctypedef struct core_exchange:
        uint8_t state
        uint32_t binding_count, alternate
        core_binding *binding
        uint64_t received, forwarded, diverted, dropped

cdef extern from "core/rmr/forwarding/active_tables.h" nogil:
    const uint32_t ROUTE_NONE, ROUTE_GONE, ROUTE_SPECIAL
    ctypedef struct route_slot:
        uint32_t target
    ctypedef struct route_special:
        uint32_t senders, sender_count, next
        uint64_t turn
    ctypedef struct route_endpoint:
        uint64_t hash, sent, missed
        core_address *address
        uint32_t name, length
    ctypedef struct route_endpoints:
        route_endpoint *at
        uint32_t count
        const uint8_t *names
    ctypedef struct route_table:
        uint32_t entries, keys
        route_special *special
        const uint64_t *sender
        route_endpoints endpoints
    ctypedef struct route_columns:
        const int32_t *type
        const int32_t *subscription
        const uint32_t *target
        uint32_t rows, sender_rows
        const uint32_t *place
        const uint32_t *word
        const uint32_t *sender_row
        const uint32_t *sender_start
        const uint64_t *sender
        uint32_t words, senders
    ctypedef struct route_owners:
        route_endpoints endpoints
    const int ROUTES_NO_ENTRY, ROUTES_NO_ENDPOINT, ROUTES_NO_OWNER
    ctypedef struct core_unroutable:
        int32_t type, subscription
    ctypedef struct core_routes:
        core_address *address
        route_table *table
        route_owners *owners
        const route_table *former
        bint skip_dead, closed
        uint64_t routed, no_entry, no_endpoint, no_owner, refused
        core_unroutable *unroutable
    route_table *route_build(const route_columns *, uint32_t)
    void route_table_free(route_table *)
    route_slot *route_slot_of(const route_table *, int32_t, int32_t)
    uint64_t route_slot_turns(const route_table *, const route_slot *)
    uint32_t route_find_target(route_table *, int32_t, int32_t, uint64_t, uint64_t *)
    void route_prefetch(const route_table *, int32_t, int32_t)
    route_owners *route_owners_build(uint64_t, const uint8_t *, const uint32_t *, const uint32_t *, uint32_t, uint32_t)
    void route_owners_free(route_owners *)
    void routes_use_table(core_routes *, route_table *, const uint32_t *)
    void routes_use_owners(core_routes *, route_owners *, const uint32_t *)
    bint routes_settle(core_routes *)

cdef extern from "core/forwarder/delivery/delivery.h" nogil:
    void address_set_routes(core_router *, core_address *, core_routes *)
    ctypedef struct core_outcomes:
        uint64_t outcome[4]
        uint64_t latency, delayed_1, delayed_10
    ctypedef struct core_load:
        uint64_t backlog, credit, dry
    ctypedef struct core_address:
        uint8_t treatment, phase
        int8_t priority
        bint unlisted, reached, redirects
        core_exchange *exchange
        core_routes *routes
        uint64_t redirected, to_containers, from_containers
        uint32_t flow
        core_link **out
        uint32_t out_count, in_count
        core_outcomes ended
        uint32_t *outstanding
        uint64_t deliveries, ingress, to_core, from_core, transit
        core_mask remotes
        core_text *text
    ctypedef struct core_node:
        bint known
        uint32_t length
    ctypedef struct core_neighbour:
        bint taken
        core_link *control
    ctypedef struct core_streams:
        core_link *idle
        core_link *waiting
        uint32_t idle_count, count
    ctypedef struct core_network:
        core_node *node
        core_neighbour *neighbour
        uint32_t radius
        bint thirsty
        core_address *border
    ctypedef struct core_link_counts:
        uint64_t outcome[4]
        uint64_t presettled, dropped, last
        uint32_t delayed_1, delayed_10
    ctypedef struct core_link:
        bint outgoing, settles, draining, annotated, bounded, leaving, wants_override, fallback, container, to_table
        core_link *next
        core_address *address
        core_link *pair
        uint8_t worker, kind, growth
        core_text *text
        uint32_t scope, count, withheld, capacity, edge, connection
        uint64_t streams
        int64_t granted
        uint64_t deliveries
        uint64_t *origins
        uint32_t link, link_gen, flow
        core_link_counts counts
    ctypedef struct stats_page:
        pass

cdef extern from "core/flow_log/flow_log.h" nogil:
    ctypedef struct telemetry_producer:
        pass
    ctypedef struct telemetry_link:
        uint32_t connection, container, user, host
        uint64_t number
        uint8_t kind
    ctypedef struct core_flow:
        telemetry_producer ring
        uint32_t every, asked
        uint64_t spans
        bint unflagged

cdef extern from "core/forwarder/inspection/inspection.h" nogil:
    ctypedef struct core_stalled:
        uint32_t stuck
        uint64_t dry_since
    ctypedef struct core_stall:
        uint32_t stuck, blocked, waiting

cdef extern from "shm/memory/flight.h" nogil:
    ctypedef struct flight_header:
        uint32_t layout, places, workers, generation, pid, texts, blind
        uint64_t began, wall, image, arena_bytes, core_arena_bytes
    ctypedef struct core_flight:
        flight_header *header

cdef extern from "core/forwarder/tables/access.h" nogil:
    ctypedef struct core_router:
        uint32_t workers, active, stop_worker, text_length, text_scope
        stats_page *stats
        core_flow *flow
        core_flight *flight
        uint64_t now, held
        core_stall *stall
        core_outcomes rest
        core_address *agent
        arena_view *arena
        arena_owner own
        core_pool ins, outs, links, addresses, streams
        core_alias_table aliases
        core_payloads payloads
        sem_t *sem
        routerd_record control
        uint8_t *text
        core_address *exit
        core_network network
    void *pool_take(core_pool *)
    void ranks_settle(core_address *)
    uint32_t pool_room(const core_pool *)
    void *pool_find(const core_pool *, uint64_t)
    uint64_t pool_handle(const void *)
    bint address_idle(const core_address *)
    bint address_used(const core_address *)
    bint alias_insert(core_router *, uint32_t, const uint8_t *, uint32_t, core_address *, bint)
    bint alias_evict(core_router *, core_address **)
    uint32_t alias_thin(core_router *, core_address **, uint64_t *)
    const uint64_t ALIAS_BYTES
    uint32_t content_to(const arena_view *, uint32_t, uint8_t *)
    core_link *link_find(const core_router *, uint32_t, uint32_t, uint32_t)
    bint content_copy(const arena_view *, uint32_t, uint64_t, uint8_t *, uint32_t, uint32_t)
    void stats_add(stats_page *, uint32_t, uint64_t)
    void stats_set(stats_page *, uint32_t, uint64_t)
    uint64_t stats_get(const stats_page *, uint32_t)
    bint own_room(const core_router *, uint64_t)

cdef extern from "core/forwarder/settlement/settlement.h" nogil:
    void core_publish(core_router *)
    uint64_t core_overflow(const core_router *)
    bint core_post_control(core_router *, uint32_t, uint32_t, const uint8_t *, uint32_t)
    void core_release(core_router *, uint8_t, uint32_t, const core_link *, uint32_t)
    bint address_has_way(const core_address *)
    core_streams *stream_open(core_router *)
    void stream_close(core_router *, core_streams *)
    void stream_add_link(core_router *, core_link *, uint64_t)
    void count_bad(core_router *)
    void count_stale(core_router *)
    uint64_t link_rate(const core_link_counts *, uint32_t)

cdef extern from "core/forwarder/delivery/delivery.h" nogil:
    void address_set_fallback(core_router *, core_address *, core_address *)
    void address_set_exchange(core_router *, core_address *, core_exchange *)
    core_exchange *exchange_new(core_router *, uint8_t, uint32_t, uint32_t, uint32_t, uint32_t)
    void exchange_add_node(core_exchange *, uint32_t, int, const uint8_t *, uint32_t, uint32_t)
    void exchange_add_binding(core_exchange *, uint32_t, uint32_t, uint64_t)
    void exchange_add_hop(core_exchange *, core_address *, const uint8_t *, uint32_t)
    void exchange_take_counts(core_exchange *, const core_address *)
    bint local_take(core_router *, routerd_record *)
    uint32_t local_send(core_router *, core_link *, core_address *, const uint8_t *, uint32_t, bint)
    uint32_t local_tell(core_router *, core_link *, uint32_t, const uint8_t *, uint32_t)

cdef extern from "core/forwarder/changes/changes.h" nogil:
    core_link *link_add_routed(core_router *, uint32_t, uint32_t, uint32_t, bint, bint)
    void core_reclaim(core_router *, uint32_t)
    void place_fill(core_router *, uint32_t)
    void place_empty(core_router *, uint32_t)
    void address_free(core_router *, core_address *)
    core_link *link_add(core_router *, uint32_t, uint32_t, uint32_t, const core_link *)
    bint link_move(core_router *, core_link *, core_address *)
    bint link_thin(core_router *, core_link *)
    void link_remove(core_router *, core_link *, bint)
    core_link *link_place(core_router *, uint32_t, uint32_t, uint32_t, const core_link *)
    void link_credit(core_router *, core_link *, int64_t)
    void network_add(core_router *, uint32_t, const uint8_t *, uint32_t)
    void network_remove(core_router *, uint32_t)
    void network_path(core_router *, uint32_t, int, uint32_t, core_mask)
    void network_neighbour(core_router *, uint32_t, int)
    bint address_add_remote(core_router *, core_address *, uint32_t)
    void address_drop_remote(core_router *, core_address *, uint32_t)
    int neighbour_take(core_router *, uint64_t, bint)
    void neighbour_give(core_router *, uint32_t)
    void neighbour_add_link(core_router *, core_link *, uint32_t, uint32_t)

cdef extern from "core/forwarder/inspection/inspection.h" nogil:
    bint stall_step(core_router *)
    uint64_t memory_step(core_router *)
    void memory_freed(core_router *)
    core_stalled stall_of(const core_router *, const core_link *)
    core_link *stall_holder(const core_router *, const core_link *)

cdef extern from "core/forwarder/turns/turns.h" nogil:
    const char *core_open(core_router *, uint32_t, uint8_t *, uint64_t)
    const char *setup_worker(core_router *, uint32_t, uint8_t *, uint8_t *, int)
    void core_close(core_router *)
    int core_step(core_router *, uint64_t)
    int core_run(core_router *, uint64_t, uint64_t)
    int core_batch(core_router *, uint32_t, uint32_t, uint32_t *)
    uint64_t clock_now()
    int park_finish(core_router *, core_link *)
    int core_action(core_router *, uint32_t, const routerd_record *)

cdef extern from "core/flow_log/flow_log.h" nogil:
    int FLOW_LOCAL
    const char *telemetry_check(const void *, size_t)
    void flow_publish(core_flow *)
    void flow_open(core_flow *, void *, const uint8_t *, uint32_t, uint32_t, uint64_t)
    void flow_close(core_flow *)
    uint32_t flow_keep(core_flow *, const uint8_t *, uint32_t)
    void flow_pin(core_flow *, uint32_t, int)
    uint32_t flow_link(core_flow *, const telemetry_link *, uint32_t)
    void flow_drop_link(core_flow *, uint32_t)
