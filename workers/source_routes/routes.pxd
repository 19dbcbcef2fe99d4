"""Source routes in native code, for the pump and for single steps."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "workers/source_routes/source_routes.h" nogil:
    enum:
        ROUTE_PASS, ROUTE_REFUSED, ROUTE_STOPS, ROUTE_NOBODY
    uint32_t ROUTE_REASONS
    ctypedef struct route_stop:
        const uint8_t *at
        uint16_t length
        uint8_t type
    ctypedef struct route_path:
        route_stop *stop
        uint32_t count
    ctypedef struct route_sources:
        uint64_t *bits
    ctypedef struct route_source:
        route_sources names
        bint foreign
    ctypedef struct route_sender:
        uint32_t epoch, entry
        bint off, anonymous, inter_router, limited
        uint8_t *reach
        route_source source
    ctypedef struct route_entry:
        uint32_t worker
    ctypedef struct route_worker:
        uint64_t in_ "in"
        uint64_t out
        uint64_t *refused
    ctypedef struct route_table:
        uint32_t worker_count, entry_count
        route_worker *worker
        route_entry *entry
    ctypedef struct route_level:
        route_path onward, returning
        uint8_t state
    ctypedef struct route_run:
        route_level *level
        uint32_t depth
        route_run *copies
        const uint8_t *rest
        uint64_t rest_size
        uint8_t reason
        const char *detail
    ctypedef struct route_out:
        size_t used
    ctypedef struct route_engine:
        route_table *table
        void *self
        int (*scope)(void *, uint32_t, const route_stop *, uint8_t *, uint32_t) noexcept
        uint8_t *(*change)(void *, uint32_t, const uint8_t *, size_t, size_t *) noexcept
        route_run run
        route_out out
    const char *const *route_condition
    bint route_engine_open(route_engine *)
    void route_engine_close(route_engine *)
    void route_engine_set(route_engine *, route_table *)
    route_table *route_table_load(const uint8_t *, size_t)
    const route_entry *route_find(const route_table *, const route_stop *)
