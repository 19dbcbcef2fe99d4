# Included by forward.pyx: the table of routers.


cdef class Nodes(Part):
    """The routers of the network and the links to neighbours, in a forwarder's tables.

    A router is a bit, and 0 is this router. A neighbour is a place, one for each connection.
    """

    cdef int bit_known(self, int bit) except -1:
        if not 1 <= bit < <int> NODES or not self.forwarder.core.network.node[bit].known:
            raise ValueError(f"there is no router with bit {bit}")
        return 0

    cdef int place_taken(self, int place) except -1:
        if not 0 <= place < <int> NEIGHBOURS or not self.forwarder.core.network.neighbour[place].taken:
            raise ValueError(f"there is no neighbour in place {place}")
        return 0

    # ---- routers ----

    def add_router(self, int bit, bytes text not None) -> None:
        """Add a router. ``text`` is area/id, as routers write it into messages."""
        if not 0 <= bit < <int> NODES or len(text) > <int> NODE_TEXT:
            raise ValueError(f"bit {bit} is no router's, or its id is longer than {NODE_TEXT} bytes")
        network_add(self.forwarder.core, <uint32_t> bit, <const uint8_t *> PyBytes_AS_STRING(text), <uint32_t> len(text))

    def remove_router(self, int bit) -> None:
        """Remove a router, also as a destination."""
        self.bit_known(bit)
        network_remove(self.forwarder.core, <uint32_t> bit)

    def set_path(self, int bit, int next_hop, uint32_t cost, origins) -> None:
        """Set the path to a router: the bit of the next hop, or -1 for none.

        ``origins`` are the bits of routers whose messages to it pass through this router.
        """
        self.bit_known(bit)
        if next_hop != -1:
            self.bit_known(next_hop)
        cdef core_mask mask
        memset(&mask, 0, sizeof(mask))
        for origin in origins:
            if 0 <= origin < <int> NODES:
                mask_set(&mask, origin)
        network_path(self.forwarder.core, <uint32_t> bit, next_hop, cost, mask)

    def set_neighbour(self, int bit, int place) -> None:
        """Set the connection to a neighbour, or -1 for none."""
        self.bit_known(bit)
        if place != -1:
            self.place_taken(place)
        network_neighbour(self.forwarder.core, <uint32_t> bit, place)

    def set_radius(self, uint32_t radius) -> None:
        """Set the hops to the farthest router. A message that has visited over one router more is looping."""
        self.forwarder.core.network.radius = radius

    # ---- addresses ----

    def add_remote(self, uint64_t address, int bit) -> None:
        """Record that a router has receivers of an address."""
        self.bit_known(bit)
        if not address_add_remote(self.forwarder.core, self.forwarder.address(address), <uint32_t> bit):
            raise MemoryError()

    def drop_remote(self, uint64_t address, int bit) -> None:
        """Record that a router has no more receivers of an address."""
        if not 0 <= bit < <int> NODES:
            raise ValueError(f"bit {bit} is no router's")
        address_drop_remote(self.forwarder.core, self.forwarder.address(address), <uint32_t> bit)

    def remotes(self, uint64_t address) -> list[int]:
        """Return the bits of the routers that have receivers."""
        cdef core_address *a = self.forwarder.address(address)
        return [bit for bit in range(NODES) if mask_has(&a.remotes, bit)]

    def has_remote(self, uint64_t address, int bit) -> bool:
        """Whether a router has receivers of an address."""
        self.bit_known(bit)
        return mask_has(&self.forwarder.address(address).remotes, <uint32_t> bit)

    def outstanding(self, uint64_t address) -> dict[int, int]:
        """Return the unsettled copies by bit of the next hop, without zeros."""
        cdef core_address *a = self.forwarder.address(address)
        if a.outstanding is NULL:
            return {}
        return {bit: a.outstanding[bit] for bit in range(NODES) if a.outstanding[bit]}

    def origins(self, uint32_t worker, uint32_t link, uint32_t generation) -> dict[int, int]:
        """Return the deliveries to a receiver by bit of the ingress router, without those from here."""
        cdef core_link *l = self.forwarder.link(worker, link, generation)
        if l is NULL or not l.outgoing or l.origins is NULL:
            return {}
        return {bit: l.origins[bit] for bit in range(NODES) if l.origins[bit]}

    # ---- neighbours ----

    def take_neighbour(self, uint64_t streams, bint abroad=False) -> int:
        """Take a place for a connection to a router. Return -1 if none is left.

        ``streams`` is the handle of its streaming links, or 0. ``abroad`` means that it speaks the other
        dialect.
        """
        return neighbour_take(self.forwarder.core, streams, abroad)

    def set_border(self, uint64_t address) -> None:
        """Set the address for announcements of addresses that must not cross a border."""
        self.forwarder.core.network.border = self.forwarder.address(address)

    def give_neighbour(self, int place) -> None:
        """Free the place of a connection that is gone. Its links have been removed before."""
        self.place_taken(place)
        neighbour_give(self.forwarder.core, <uint32_t> place)

    def add_link(self, uint32_t worker, uint32_t link, uint32_t generation, int place, uint8_t kind, uint32_t priority, terms not None) -> bool:
        """Add a link of a neighbour's connection, on LinkTerms without an address.

        ``kind`` is CONTROL_LINK, DATA_LINK or STREAM_LINK. Return False if its index is taken or invalid.
        """
        cdef int64_t granted = terms.granted
        cdef core_link t
        self.place_taken(place)
        self.forwarder.worker_known(worker)
        if not LINK_CONTROL <= kind <= LINK_STREAM or priority >= ROUTERD_PRIORITIES:
            raise ValueError(f"no kind {kind} of link between routers, or no priority {priority}")
        cdef core_router *c = self.forwarder.core
        memset(&t, 0, sizeof(t))
        t.outgoing, t.capacity, t.growth, t.kind, t.annotated = terms.outgoing, terms.capacity, terms.grows, kind, True
        cdef core_link *l = link_place(c, worker, link, generation, &t)
        if l is NULL:
            return False
        neighbour_add_link(c, l, <uint32_t> place, priority)
        if not l.outgoing:
            link_credit(c, l, granted)
        return True

    def tell(self, uint32_t link, int place, bytes content not None) -> int | None:
        """Send a message over a neighbour's control link. Return the block, which comes back with W_RELEASE.

        Return None without room or control link. Raises KeyError.
        """
        self.place_taken(place)
        cdef core_router *c = self.forwarder.core
        cdef core_link *l = link_find(c, c.workers, link, 1)
        if l is NULL:
            raise KeyError(f"the core has no link {link}")
        if not own_room(c, PyBytes_GET_SIZE(content)):
            return None
        cdef uint32_t block = local_tell(c, l, <uint32_t> place, <const uint8_t *> PyBytes_AS_STRING(content), <uint32_t> PyBytes_GET_SIZE(content))
        return None if block == ROUTERD_NIL else block


cdef class StreamLinks(Part):
    """Streaming links, under one handle for each connection that offers them (stream.c)."""

    cdef core_streams *find(self, uint64_t handle) except NULL:
        cdef core_streams *k = <core_streams *> pool_find(&self.forwarder.core.streams, handle)
        if k is NULL:
            raise ValueError(f"there are no streaming links with the handle {handle:#x}")
        return k

    def open(self) -> int:
        """Return a handle for another connection."""
        cdef core_streams *k = stream_open(self.forwarder.core)
        if k is NULL:
            raise MemoryError()
        return pool_handle(k)

    def close(self, uint64_t handle) -> None:
        """Release a handle and what waited for its links. The links have been removed before."""
        stream_close(self.forwarder.core, self.find(handle))

    def use(self, uint64_t handle, uint32_t worker, uint32_t link, uint32_t generation) -> None:
        """Send streams for an outgoing link of an edge router's connection over streaming links."""
        self.find(handle)
        cdef core_link *l = self.forwarder.link(worker, link, generation)
        if l is not NULL and l.outgoing and l.edge:
            l.streams = handle

    def add_link(self, uint64_t handle, uint32_t worker, uint32_t link, uint32_t generation, uint32_t capacity) -> bool:
        """Add a link to an edge router or from it to its interior router.

        Return False if its index is taken or invalid.
        """
        self.find(handle)
        self.forwarder.worker_known(worker)
        cdef core_link t
        memset(&t, 0, sizeof(t))
        t.outgoing, t.capacity, t.kind = True, capacity, LINK_STREAM
        cdef core_link *l = link_place(self.forwarder.core, worker, link, generation, &t)
        if l is NULL:
            return False
        stream_add_link(self.forwarder.core, l, handle)
        return True

    def thirsty(self) -> bool:
        """Whether a stream has begun to wait for a link since the last call."""
        cdef bint thirsty = self.forwarder.core.network.thirsty
        self.forwarder.core.network.thirsty = False
        return thirsty

    def state(self, uint64_t handle) -> tuple[int, int, int]:
        """Return the numbers of a connection's streaming links, of idle ones, and of streams that wait."""
        cdef core_streams *k = self.find(handle)
        return k.count, k.idle_count, k.waiting.count

    def surplus(self, uint64_t handle, uint32_t keep, uint32_t most) -> list[tuple[int, int]]:
        """Take idle links beyond ``keep`` out of use. Return index and generation of each, for the detach."""
        cdef core_streams *k = self.find(handle)
        cdef core_link *l
        taken = []
        while k.idle_count > keep and <uint32_t> len(taken) < most:
            l = k.idle
            k.idle = l.next
            k.idle_count -= 1
            l.leaving = True
            taken.append((l.link, l.link_gen))
        return taken
