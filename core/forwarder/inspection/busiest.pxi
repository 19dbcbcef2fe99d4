# Included by forward.pyx: the search for the busiest addresses.

cdef extern from "core/forwarder/inspection/inspection.h" nogil:
    ctypedef struct core_busiest_row:
        uint64_t handle, score
    ctypedef struct core_busiest:
        core_busiest_row *row
        uint32_t count
        bint passing
        uint64_t rest
    void busiest_open(const core_router *, core_busiest *)
    void busiest_begin(core_busiest *)
    bint busiest_step(const core_router *, core_busiest *)


cdef class Busiest(Part):
    """Finds the busiest addresses of a forwarder, step by step."""

    cdef core_busiest state

    def __cinit__(self, Forwarder forwarder not None):
        busiest_open(forwarder.core, &self.state)

    def step(self) -> tuple[list[int], int] | None:
        """Count a portion of the addresses.

        Return None before the end of a pass, then the handles, busiest first, and the deliveries to all
        others. The next call begins a new pass.
        """
        cdef core_busiest *b = &self.state
        if not b.passing:
            busiest_begin(b)
        if not busiest_step(self.forwarder.core, b):
            return None
        rows = sorted([(-<object> b.row[i].score, b.row[i].handle) for i in range(b.count)])
        return [handle for _, handle in rows], b.rest
