# cython: language_level=3
"""The C11 headers as Cython sees them; the enumerations are Python names of shm.native too."""

from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint16_t, uint32_t, uint64_t, uint8_t

cdef extern from "shm/memory/record.h" nogil:
    const uint32_t ROUTERD_MAX_WORKERS, ROUTERD_LINK_CREDIT, ROUTERD_LINK_CREDIT_MOST
    const uint32_t first_stream "STREAM_SESSIONS", first_routed "ROUTED_SESSIONS"
    cpdef enum:
        A_UPDATE, A_DONE, A_PROGRESS
        W_SEND, W_CONTINUE, W_UPDATE, W_RELEASE
        F_SETTLED, F_COMPLETE, F_ABORTED, F_DROPPED
        S_ACCEPTED, S_REJECTED, S_RELEASED

cdef extern from "shm/memory/ring.h" nogil:
    ctypedef struct routerd_ring:
        pass
    size_t c_ring_bytes "ring_bytes"(uint64_t)
    uint64_t ring_waiting(const routerd_ring *, uint64_t)

cdef extern from "shm/memory/doorbell.h" nogil:
    ctypedef struct routerd_doorbell:
        pass
    void doorbell_wake(routerd_doorbell *)

cdef extern from "shm/codec/sections.h" nogil:
    ctypedef struct section_name:
        uint8_t code
        const char *text
    const section_name section_names[]
    const uint32_t SECTION_COUNT

cdef extern from "shm/statistics/counters.h" nogil:
    ctypedef struct counter_line:
        const char *name
        const char *kind
        const char *writers
        const char *text
        uint32_t place
    const counter_line counter_lines[], histogram_lines[]
    const uint32_t COUNTER_LINES, HISTOGRAM_LINES

cdef extern from "shm/statistics/stats.h" nogil:
    ctypedef struct stats_histogram:
        uint64_t sum
        uint64_t bucket[192]
    ctypedef struct stats_page:
        uint32_t magic, pid, generation
        uint64_t heartbeat
        stats_histogram histogram[4]
    const uint32_t STATS_COUNTERS, STATS_HISTOGRAMS, STATS_BUCKETS, STATS_PAGE_BYTES, STATS_MAGIC
    void stats_add(stats_page *, uint32_t, uint64_t)
    void stats_set(stats_page *, uint32_t, uint64_t)
    uint64_t stats_get(const stats_page *, uint32_t)
    void stats_beat(stats_page *)
    uint64_t stats_bucket_floor(uint32_t)

cdef extern from "shm/statistics/board.h" nogil:
    ctypedef struct shared_board:
        pass
    const uint32_t BOARD_BYTES
    void board_write(shared_board *, const uint8_t *, uint32_t)
    uint32_t board_read(const shared_board *, uint8_t *)

cdef extern from "shm/memory/arena.h" nogil:
    ctypedef struct arena_view:
        uint32_t small_count, large_count
    ctypedef struct arena_reader:
        uint32_t head
        uint64_t position
    ctypedef struct arena_content:
        pass
    const uint32_t ARENA_SMALL_BYTES, ARENA_LARGE_BYTES
    bint arena_attach(arena_view *, void *, size_t)
    uint32_t arena_blocks(const arena_view *)
    uint8_t *arena_in_use(const arena_view *)
    arena_content *arena_content_of(const arena_view *, uint32_t)
    void chain_open(arena_reader *, uint32_t)
    uint64_t chain_length(const arena_content *)
    uint32_t chain_state(const arena_content *)
    const uint8_t *chain_read(const arena_view *, arena_reader *, uint64_t, uint32_t *)
    void chain_advance(arena_reader *, uint32_t)
    void arena_mark_none(const arena_view *)

cdef extern from "shm/memory/layout.h" nogil:
    const uint32_t LAYOUT_RING_CAPACITY, LAYOUT_CORE_ARENA_BYTES
    size_t layout_core_doorbell()
    int LAYOUT_JOURNAL_BYTES
    void layout_arena_split(size_t, uint32_t *, uint32_t *)
    ctypedef struct layout_control:
        uint32_t places
        uint64_t arena_bytes
    void layout_format_control(void *, uint32_t, uint64_t)
    uint32_t layout_workers(const layout_control *)
    uint32_t layout_most(const layout_control *)
    void layout_set_workers(layout_control *, uint32_t, uint32_t)
    void layout_format_rings(void *, uint32_t)
    void layout_mend_rings(void *, uint32_t)
    void layout_format_arena(void *, size_t)
    const char *layout_check_control(const void *, size_t)
    const char *layout_check_rings(const void *, size_t, uint32_t)
    const char *layout_check_arena(void *, size_t)

cdef extern from "shm/memory/telemetry.h" nogil:
    cdef enum:
        TELEMETRY_RECORDS, TELEMETRY_TEXT, TELEMETRY_SPANS
    ctypedef struct telemetry_message:
        uint64_t delivery
        uint32_t generation, address, from_link, front
        uint8_t hops, known, kind, outcome, marks
    ctypedef struct telemetry_said:
        telemetry_message of
        uint64_t arrived, settled, sent, bytes
        uint32_t to_link, condition
    ctypedef struct telemetry_more:
        uint8_t *trace
        uint8_t *span
    ctypedef struct telemetry_record:
        telemetry_said said
        telemetry_more more
    cdef enum telemetry_known:
        KNOWN_BODY, KNOWN_TRACE, KNOWN_TRANSACTION, KNOWN_OWNER
    cdef enum telemetry_marks:
        MARK_PRESETTLED
    ctypedef struct telemetry_link:
        uint32_t connection
        uint64_t number
        uint32_t container, user, host
        uint8_t kind
    ctypedef struct telemetry_header:
        uint64_t started, dropped, spans
    ctypedef struct telemetry_view:
        telemetry_header *header
        telemetry_record *record
    ctypedef struct telemetry_consumer:
        telemetry_view view
        uint64_t next
    size_t telemetry_bytes()
    telemetry_view telemetry_at(void *)
    void telemetry_format(void *, uint64_t)
    const char *telemetry_check(const void *, size_t)
    void telemetry_consume(telemetry_consumer *, const telemetry_view *)
    uint64_t telemetry_waiting(const telemetry_consumer *)
    void telemetry_return(telemetry_consumer *)
    void telemetry_replayed(const telemetry_consumer *, uint64_t)
    int telemetry_read_name(const telemetry_view *, uint32_t, uint8_t *)
    bint telemetry_read_link(const telemetry_view *, uint32_t, telemetry_link *)
    bint telemetry_read_span(const telemetry_view *, uint64_t, telemetry_record *)

cdef extern from "shm/memory/flow_columns.h" nogil:
    cdef enum:
        FLOW_ROWS, FLOW_PLACES, FLOW_CODED
    const char *flow_coded_names[]
    ctypedef struct flow_code:
        pass
    ctypedef struct flow_codes:
        int32_t *column
        uint32_t *id
        flow_code *place
        uint32_t count
    ctypedef struct flow_column_line:
        const char *name
        size_t at, bytes
    const flow_column_line flow_column_lines[]
    const uint32_t FLOW_COLUMN_LINES
    ctypedef struct flow_columns:
        flow_codes *codes
        int64_t lowest[1]
        int64_t highest[1]
        uint32_t count, room
    uint32_t flow_take(flow_columns *, telemetry_consumer *, uint64_t, uint32_t, uint64_t, uint64_t *)
    void flow_columns_clear(flow_columns *)


cdef class Mapped:
    cdef Py_buffer buffer
    cdef bint held
    cdef uint8_t *base
    cdef size_t size
    cdef int take(self, object memory, size_t offset, size_t least, bint writable=*) except -1
    cdef int writable(self) except -1


cdef class Arena(Mapped):
    cdef arena_view view
    cdef arena_content *content_of(self, uint32_t head) except NULL
    cdef bytes read_on(self, arena_reader *reader)
