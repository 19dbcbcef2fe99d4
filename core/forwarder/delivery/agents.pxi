"""Distinguishes messages and links for management agents (deliver.c). Part of forward.pyx."""


cdef class Agents(Part):
    """The addresses of management agents, this router's and others'."""

    def serve(self, uint64_t address) -> None:
        """Set the address of this router's management agent, which must stay."""
        self.forwarder.core.agent = self.forwarder.address(address)

    def bound(self, uint32_t worker, uint32_t link, uint32_t generation) -> None:
        """Send a link's messages for any agent to this router's, because its connection has a limited right."""
        cdef core_link *l = self.forwarder.link(worker, link, generation)
        if l is not NULL:
            l.bounded = True

    def called(self, uint32_t arena, uint32_t block) -> bytes:
        """Return the `to` of a message for the core itself, or an empty text without a valid one."""
        cdef core_router *c = self.forwarder.core
        cdef uint8_t found[CORE_MAX_TEXT]
        cdef uint32_t length = content_to(&c.arena[arena], block, found) if arena <= c.workers else 0
        return PyBytes_FromStringAndSize(<char *> found, length) if length <= CORE_MAX_TEXT else b""
