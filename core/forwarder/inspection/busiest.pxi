# Included by forward.pyx: the search for the busiest addresses, and what becomes of their copies.

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
    core_load address_load(const core_router *, const core_address *)


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

    def outcomes(self, uint64_t handle=0) -> tuple[int, int, int, int, int, int, int]:
        """Return what became of the copies for an address, or without one of those for addresses while they had no
        row, as the last poll of links found it: how many ended accepted, rejected, released and modified, the
        nanoseconds that these took together, and how many took more than 1 s and more than 10 s."""
        cdef core_outcomes *o = &self.forwarder.address(handle).ended if handle else &self.forwarder.core.rest
        return (o.outcome[0], o.outcome[1], o.outcome[2], o.outcome[3], o.latency, o.delayed_1, o.delayed_10)

    def load(self, uint64_t handle) -> tuple[int, int, int]:
        """Return what the last poll of an address's links found: copies for its receivers that are not over, the
        credit of its senders together, and how many of these have none."""
        cdef core_load found = address_load(self.forwarder.core, self.forwarder.address(handle))
        return found.backlog, found.credit, found.dry
