"""Management agents, as messages and links to them are told apart (deliver.c). Part of forward.pyx."""


cdef class Agents:
    """Our own agent in a forwarder's tables, and what is bound for those of other routers."""

    cdef Forwarder forwarder

    def __cinit__(self, Forwarder forwarder not None):
        self.forwarder = forwarder

    def serve(self, uint64_t address) -> None:
        """This is the address of the router's own management agent; it stays."""
        self.forwarder.core.agent = self.forwarder.address(address)

    def bound(self, uint32_t worker, uint32_t link, uint32_t generation) -> None:
        """What comes on a link for agents of other routers goes to our own first: its connection may not manage all."""
        self.forwarder.place_known(worker)
        cdef core_link *l = link_find(self.forwarder.core, worker, link, generation)
        if l is not NULL:
            l.bounded = True

    def called(self, uint32_t arena, uint32_t block) -> bytes:
        """Where a message for the core itself says that it goes; empty: nowhere, or that cannot be told."""
        cdef core_router *c = self.forwarder.core
        cdef uint8_t found[CORE_MAX_TEXT]
        cdef uint32_t length = content_to(&c.arena[arena], block, found) if arena <= c.workers else 0
        return PyBytes_FromStringAndSize(<char *> found, length) if length <= CORE_MAX_TEXT else b""
