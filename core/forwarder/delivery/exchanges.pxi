# Included by forward.pyx: exchanges.


cdef class Exchanges(Part):
    """Addresses that forward messages to others by subject, in a forwarder's tables."""

    def put(self, uint64_t address, bytes separator not None, nodes, bindings, hops, alternate=None) -> None:
        """Make an address an exchange, or change one.

        ``nodes`` are parent, kind and token of each place in the tree of keys, the root first. ``bindings`` are node,
        hop and matches so far. ``hops`` are an address and its text for other routers. ``alternate`` is the number of
        the hop for messages that match nothing. Raises ValueError and MemoryError.
        """
        cdef core_router *c = self.forwarder.core
        cdef core_address *a = self.forwarder.address(address)
        cdef core_exchange *x
        cdef uint32_t at = 0
        cdef uint64_t total = 0
        if len(separator) != 1 or not nodes or any(not 0 <= parent < max(1, i) for i, (parent, _, _) in enumerate(nodes)):
            raise ValueError("an exchange needs one separator, and a tree of keys with parents before children")
        if any(not 0 <= node < len(nodes) or not 0 <= hop < len(hops) for node, hop, _ in bindings):
            raise ValueError("a binding has an invalid node or hop")
        if alternate is not None and not 0 <= alternate < len(hops):
            raise ValueError(f"there is no hop {alternate}")
        for handle, _ in hops:
            self.forwarder.address(handle)
        for _, _, token in nodes:
            total += len(<bytes?> token)
        if total + len(nodes) + len(bindings) + len(hops) >= 1 << 28:
            raise ValueError("an exchange has too many bindings")
        x = exchange_new(c, (<bytes> separator)[0], <uint32_t> len(nodes), <uint32_t> len(bindings), <uint32_t> len(hops), <uint32_t> total)
        if x is NULL:
            raise MemoryError()
        for parent, kind, token in nodes:
            exchange_add_node(x, parent, kind, <const uint8_t *> PyBytes_AS_STRING(token), <uint32_t> len(token), at)
            at += <uint32_t> len(token)
        for node, hop, matched in bindings:
            exchange_add_binding(x, node, hop, matched)
        for handle, text in hops:
            exchange_add_hop(x, self.forwarder.address(handle), <const uint8_t *> PyBytes_AS_STRING(<bytes?> text), <uint32_t> len(text))
        if alternate is not None:
            x.alternate = alternate
        exchange_take_counts(x, a)
        address_set_exchange(c, a, x)

    def remove(self, uint64_t address) -> None:
        """End an address's use as an exchange."""
        address_set_exchange(self.forwarder.core, self.forwarder.address(address), NULL)

    def counts(self, uint64_t address) -> tuple[int, int, int, int, list[int]]:
        """Return the messages received, forwarded, diverted and dropped, and each binding's matches."""
        cdef core_exchange *x = self.forwarder.address(address).exchange
        if x is NULL:
            return 0, 0, 0, 0, []
        return x.received, x.forwarded, x.diverted, x.dropped, [x.binding[i].matched for i in range(x.binding_count)]
