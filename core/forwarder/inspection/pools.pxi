"""The sizes of the forwarder's own tables. Part of forward.pyx."""


cdef class Pools(Part):
    """The tables that grow by chunks (pool.h)."""

    def rows(self) -> list[tuple[str, int, int, int]]:
        """Return each table's name, bytes per entry, capacity and entries in use."""
        cdef core_router *c = self.forwarder.core
        return [(name, one[0], one[1], one[2]) for name, one in (
            ("address", seen(&c.addresses)), ("link", seen(&c.links)), ("incoming", seen(&c.ins)), ("outgoing", seen(&c.outs)))]

    def thin(self, uint64_t now) -> int:
        """Give back some memory that is no longer needed. Return the nanoseconds until the next step."""
        self.forwarder.core.now = now
        return memory_step(self.forwarder.core)


cdef tuple seen(const core_pool *p):
    return p.entry_bytes, pool_room(p), p.live
