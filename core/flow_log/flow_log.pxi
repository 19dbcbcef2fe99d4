# Included by forward.pyx: the flow log's part of the core.


cdef class Telemetry:
    """Records of a forwarder's deliveries, made from ``record`` on.

    ``memory`` is the segment of shm/memory/telemetry.h. ``router`` is the id that ends each path. ``generation``
    tells this core's records from another's. Names and links are numbers, and 0 is none. Raises ValueError
    and MemoryError.
    """

    cdef Forwarder forwarder
    cdef Py_buffer held
    cdef bint holds
    cdef core_flow *flow

    def __cinit__(self, Forwarder forwarder not None, memory, bytes router not None, uint32_t generation, uint64_t seed=0):
        PyObject_GetBuffer(memory, &self.held, PyBUF_SIMPLE | PyBUF_WRITABLE)
        self.holds = True
        if <uintptr_t> self.held.buf % 64 or telemetry_check(self.held.buf, <size_t> self.held.len) is not NULL:
            raise ValueError("the segment holds no telemetry")
        self.forwarder = forwarder
        self.flow = <core_flow *> calloc(1, sizeof(core_flow))
        if self.flow is NULL:
            raise MemoryError()
        flow_open(self.flow, self.held.buf, <const uint8_t *> PyBytes_AS_STRING(router), <uint32_t> len(router), generation, seed)

    def __dealloc__(self):
        if self.flow is not NULL:
            self.forwarder.core.flow = NULL
            flow_close(self.flow)
        if self.holds:
            PyBuffer_Release(&self.held)

    def record(self, uint32_t every) -> None:
        """Record one of ``every`` deliveries, fewer while the recorder lags; 0 records none."""
        self.flow.every = self.flow.asked = every
        self.forwarder.core.flow = self.flow if every or self.flow.spans else NULL

    def trace(self, uint64_t low, bint flagged) -> None:
        """Make spans of traces whose low eight octets are at most ``low``, with ``flagged`` only of those with the sampled
        flag; 0 makes none."""
        self.flow.spans = low
        self.flow.unflagged = not flagged
        self.forwarder.core.flow = self.flow if self.flow.asked or low else NULL

    def publish(self) -> None:
        """Publish the records to the recorder."""
        flow_publish(self.flow)

    def name(self, bytes text not None) -> int:
        """Return the number of a text, which is kept until as many calls of ``forget``; 0: too many others are kept."""
        return flow_keep(self.flow, <const uint8_t *> PyBytes_AS_STRING(text), <uint32_t> len(text))

    def forget(self, uint32_t name) -> None:
        """Release a text once."""
        flow_pin(self.flow, name, -1)

    def add_link(self, uint32_t worker, uint32_t link, uint32_t generation, *, uint32_t connection, uint64_t number,
                 uint32_t container, uint8_t kind, uint32_t user=0, uint32_t host=0, uint32_t address=0) -> int:
        """Return the number of a link in records of its deliveries; 0: it is unknown, or all numbers are taken.

        ``connection`` and ``number`` are the router's numbers of them, ``kind`` is an index into
        shm.contract.flow_log.schema.LINK_KINDS. ``container``, ``user``, ``host`` and ``address`` are names; the address
        is where a link leads that has none of its own.
        """
        cdef telemetry_link of
        cdef core_link *l = self.forwarder.link(worker, link, generation)
        if l is NULL or kind > FLOW_LOCAL:
            return 0
        of.connection, of.number, of.kind = connection, number, kind
        of.container, of.user, of.host = container, user, host
        l.flow = flow_link(self.flow, &of, address)
        return l.flow

    def drop_link(self, uint32_t number) -> None:
        """Forget a link that is gone."""
        flow_drop_link(self.flow, number)

    def name_address(self, uint64_t handle, uint32_t name) -> None:
        """Record an address's messages under this name."""
        self.forwarder.address(handle).flow = name
