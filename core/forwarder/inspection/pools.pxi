"""The sizes of the forwarder's own tables, and which of their addresses are in use. Part of forward.pyx."""


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

    def freed(self) -> None:
        """Much of the heap is free: it goes back in a second with few records."""
        memory_freed(self.forwarder.core)

    def thin_aliases(self, uint64_t now) -> tuple[list[int], int]:
        """Forget some aliases that no message has named for minutes. Return the handles of addresses that this made
        idle, and the nanoseconds until the next step."""
        cdef core_address *idle[ALIAS_IDLE_ROOM]
        cdef uint64_t pause = 0
        cdef uint32_t i
        self.forwarder.core.now = now
        cdef uint32_t found = alias_thin(self.forwarder.core, idle, &pause)
        return [pool_handle(idle[i]) for i in range(found)], pause


cdef class Uses(Part):
    """Tells which addresses are more than the text of unroutable messages."""

    def among(self, addresses):
        """Return those of these addresses, which have a ``handle``, that something uses; one that is gone is not."""
        cdef const core_address *a
        found = []
        for one in addresses:
            a = <const core_address *> pool_find(&self.forwarder.core.addresses, one.handle)
            if a is not NULL and address_used(a):
                found.append(one)
        return found


cdef tuple seen(const core_pool *p):
    return p.entry_bytes, pool_room(p), p.live
