"""Link-route pairs (link_route_pair.c). Part of forward.pyx."""


cdef class LinkRoutePairs(Part):
    """The ends of link-route pairs in a forwarder's tables."""

    def add(self, uint32_t worker, uint32_t link, uint32_t generation, bint outgoing, bint far=False) -> bool:
        """Add an end, still unpaired; ``far``: at another router.

        Return False if its index is taken or invalid.
        """
        self.forwarder.worker_known(worker)
        return link_add_routed(self.forwarder.core, worker, link, generation, outgoing, far) is not NULL

    def pair(self, uint32_t worker, uint32_t link, uint32_t generation, uint32_t far_worker, uint32_t far_link, uint32_t far_generation) -> bool:
        """Pair two ends. Return False unless they are free and of opposite directions."""
        cdef core_link *near = self.forwarder.link(worker, link, generation)
        cdef core_link *far = self.forwarder.link(far_worker, far_link, far_generation)
        if near is NULL or far is NULL or near.kind != LINK_ROUTED or far.kind != LINK_ROUTED or near.outgoing == far.outgoing:
            return False
        if near.pair is not NULL or far.pair is not NULL:
            return False
        near.pair = far
        far.pair = near
        return True
