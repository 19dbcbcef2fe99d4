# Included by forward.pyx: the table of routers.


cdef class Nodes:
    """The routers of the network and the links to our neighbours, in a forwarder's tables. Routers are bits, 0 is this one;
    neighbours are places, each of one connection."""

    cdef Forwarder forwarder

    def __cinit__(self, Forwarder forwarder not None):
        self.forwarder = forwarder

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
        """``text``: area/id, as routers write it into messages."""
        if not 0 <= bit < <int> NODES or len(text) > <int> NODE_TEXT:
            raise ValueError(f"bit {bit} is none of a router, or its id is longer than {NODE_TEXT} bytes")
        network_add(self.forwarder.core, <uint32_t> bit, <const uint8_t *> PyBytes_AS_STRING(text), <uint32_t> len(text))

    def remove_router(self, int bit) -> None:
        """Forget it, also as a destination."""
        self.bit_known(bit)
        network_remove(self.forwarder.core, <uint32_t> bit)

    def set_path(self, int bit, int next_hop, uint32_t cost, origins) -> None:
        """``next_hop``: bit of a neighbour, -1: out of reach; ``origins``: bits of the routers whose messages to it come
        through here."""
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
        """A router is the peer of a connection; -1: of none."""
        self.bit_known(bit)
        if place != -1:
            self.place_taken(place)
        network_neighbour(self.forwarder.core, <uint32_t> bit, place)

    def set_radius(self, uint32_t radius) -> None:
        """Hops to the farthest router: a message that has been through more than one router more goes in circles."""
        self.forwarder.core.network.radius = radius

    # ---- addresses ----

    def add_remote(self, uint64_t address, int bit) -> None:
        """A router has receivers of an address."""
        self.bit_known(bit)
        if not address_add_remote(self.forwarder.core, self.forwarder.address(address), <uint32_t> bit):
            raise MemoryError()

    def drop_remote(self, uint64_t address, int bit) -> None:
        """A router has no more of them."""
        if not 0 <= bit < <int> NODES:
            raise ValueError(f"bit {bit} is none of a router")
        address_drop_remote(self.forwarder.core, self.forwarder.address(address), <uint32_t> bit)

    def remotes(self, uint64_t address) -> list[int]:
        """Bits of the routers that have receivers."""
        cdef core_address *a = self.forwarder.address(address)
        return [bit for bit in range(NODES) if mask_has(&a.remotes, bit)]

    def has_remote(self, uint64_t address, int bit) -> bool:
        """Whether a router has receivers."""
        self.bit_known(bit)
        return mask_has(&self.forwarder.address(address).remotes, <uint32_t> bit)

    def outstanding(self, uint64_t address) -> dict[int, int]:
        """Copies not settled, by bit of the next hop; those with none left out."""
        cdef core_address *a = self.forwarder.address(address)
        if a.outstanding is NULL:
            return {}
        return {bit: a.outstanding[bit] for bit in range(NODES) if a.outstanding[bit]}

    def origins(self, uint32_t worker, uint32_t link, uint32_t generation) -> dict[int, int]:
        """Deliveries to a receiver by bit of the router where they came in; those that came in here left out."""
        self.forwarder.place_known(worker)
        cdef core_link *l = link_find(self.forwarder.core, worker, link, generation)
        if l is NULL or not l.outgoing or l.origins is NULL:
            return {}
        return {bit: l.origins[bit] for bit in range(NODES) if l.origins[bit]}

    # ---- neighbours ----

    def take_neighbour(self, uint64_t streams, bint abroad=False) -> int:
        """A place for a connection to a router; -1: there is none left. ``streams``: handle of its links for streams, 0: it
        knows none; ``abroad``: it speaks the other dialect when it comes to addresses."""
        return neighbour_take(self.forwarder.core, streams, abroad)

    def set_border(self, uint64_t address) -> None:
        """The address that gets what is said of addresses and cannot cross into the other dialect."""
        self.forwarder.core.network.border = self.forwarder.address(address)

    def give_neighbour(self, int place) -> None:
        """The connection is gone; its links have been removed before."""
        self.place_taken(place)
        neighbour_give(self.forwarder.core, <uint32_t> place)

    def add_link(self, uint32_t worker, uint32_t link, uint32_t generation, int place, uint8_t kind, uint32_t priority, terms not None) -> bool:
        """A link of a neighbour's connection, on LinkTerms, which have no address; ``kind``: CONTROL_LINK, DATA_LINK or STREAM_LINK.
        False: its index is taken or absurd."""
        cdef int64_t granted = terms.granted
        self.place_taken(place)
        self.forwarder.worker_known(worker)
        if not LINK_CONTROL <= kind <= LINK_STREAM or priority >= ROUTERD_PRIORITIES:
            raise ValueError(f"no kind {kind} of link between routers, or no priority {priority}")
        cdef core_router *c = self.forwarder.core
        cdef core_link *l = link_place(c, worker, link, generation, terms.outgoing, terms.capacity)
        if l is NULL:
            return False
        l.kind = kind
        l.annotated = True
        neighbour_add_link(c, l, <uint32_t> place, priority)
        if not l.outgoing:
            link_credit(c, l, granted)
        return True

    def tell(self, uint32_t link, int place, bytes content not None) -> int | None:
        """Send a message over a neighbour's control link; the block that comes back with W_RELEASE. None: there is no room
        for it, or no such link."""
        self.place_taken(place)
        cdef core_router *c = self.forwarder.core
        cdef core_link *l = link_find(c, c.workers, link, 1)
        if l is NULL:
            raise KeyError(f"the core has no link {link}")
        if not self.forwarder.own_room(PyBytes_GET_SIZE(content)):
            return None
        cdef uint32_t block = local_tell(c, l, <uint32_t> place, <const uint8_t *> PyBytes_AS_STRING(content), <uint32_t> PyBytes_GET_SIZE(content))
        return None if block == ROUTERD_NIL else block


cdef class StreamLinks:
    """Links for messages that are still coming in, a handle for those of each connection that knows them (stream.c)."""

    cdef Forwarder forwarder

    def __cinit__(self, Forwarder forwarder not None):
        self.forwarder = forwarder

    cdef core_streams *find(self, uint64_t handle) except NULL:
        cdef core_streams *k = <core_streams *> pool_find(&self.forwarder.core.streams, handle)
        if k is NULL:
            raise ValueError(f"there are no links for streams by the handle {handle:#x}")
        return k

    def open(self) -> int:
        """For another connection."""
        cdef core_streams *k = stream_open(self.forwarder.core)
        if k is NULL:
            raise MemoryError()
        return pool_handle(k)

    def close(self, uint64_t handle) -> None:
        """The connection is gone; its links have been removed before. What waited for one is released."""
        stream_close(self.forwarder.core, self.find(handle))

    def use(self, uint64_t handle, uint32_t worker, uint32_t link, uint32_t generation) -> None:
        """Let streams for an outgoing link of an edge router's connection go over links of their own."""
        self.find(handle)
        cdef core_link *l = link_find(self.forwarder.core, worker, link, generation)
        if l is not NULL and l.outgoing and l.edge:
            l.streams = handle

    def add_link(self, uint64_t handle, uint32_t worker, uint32_t link, uint32_t generation, uint32_t capacity) -> bool:
        """One to an edge router, or from there to its interior router. False: its index is taken or absurd."""
        self.find(handle)
        self.forwarder.worker_known(worker)
        cdef core_link *l = link_place(self.forwarder.core, worker, link, generation, True, capacity)
        if l is NULL:
            return False
        l.kind = LINK_STREAM
        stream_add_link(self.forwarder.core, l, handle)
        return True

    def thirsty(self) -> bool:
        """Whether a stream waits for a link, since this was last asked."""
        cdef bint thirsty = self.forwarder.core.network.thirsty
        self.forwarder.core.network.thirsty = False
        return thirsty

    def state(self, uint64_t handle) -> tuple[int, int, int]:
        """Of a connection's links for streams: all, idle ones, and how many streams wait for one."""
        cdef core_streams *k = self.find(handle)
        return k.count, k.idle_count, k.waiting.count

    def surplus(self, uint64_t handle, uint32_t keep, uint32_t most) -> list[tuple[int, int]]:
        """Take idle links beyond ``keep`` out of use; index and generation of each, to be detached."""
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
