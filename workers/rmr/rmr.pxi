"""The native side of connections of RMR applications (rmr.c), for workers.rmr.connections."""

cdef extern from "stdlib.h" nogil:
    void *calloc(size_t, size_t)


cdef uint32_t put_address(char *place, str value) except? 0:
    cdef bytes b = value.encode("utf-8", "surrogateescape")
    cdef uint32_t length = len(b)
    if length + RMR_NUMBER + 1 >= RMR_ADDRESS_MAX:
        raise ValueError(f"an address of {length} octets is too long for RMR: {value[:40]}…")
    memcpy(place, <const char *> b, length + 1)
    return length


cdef class RmrTransport(FramedTransport):
    """RMR connections of one pump."""

    def __cinit__(self, Pump pump):
        self.protocol = rmr_protocol.number

    def add_place(self, uint32_t capacity):
        """Add a place for outgoing connections and return it. Raises ValueError."""
        cdef worker_listener *l = dial_place(&self.pump.p)
        if l == NULL:
            raise ValueError(f"more than {MAX_LISTENERS} listening sockets and connectors")
        l.link_capacity = capacity
        return l - self.pump.p.listeners

    def remove_place(self, int place):
        """Remove a place for outgoing connections; its connections keep their terms."""
        self.pump.listener(place).dials = False

    def speak(self, int place, given):
        """Set the workers.rmr.connections.Terms of a place's connections. Raises ValueError."""
        cdef worker_listener *l = self.pump.listener(place)
        cdef bytes b = given.source.encode()
        cdef bytes key = given.key
        cdef rmr_terms *terms
        if len(key) != sizeof(terms.key):
            raise ValueError(f"a key of {len(key)} octets, not {sizeof(terms.key)}")
        if len(b) > 63:
            raise ValueError(f"{given.source} is longer than the 63 octets that RMR has room for")
        terms = <rmr_terms *> calloc(1, sizeof(rmr_terms))
        if terms == NULL:
            raise MemoryError()
        try:
            terms.address_length = put_address(terms.address, given.address)
            terms.control_length = put_address(terms.control, given.control)
            terms.back_length = put_address(terms.back, given.back)
        except ValueError:
            free(terms)
            raise
        memcpy(terms.source, <const char *> b, len(b))
        memcpy(terms.key, <const char *> key, sizeof(terms.key))
        terms.nonce, terms.reply, terms.replies = given.nonce, given.reply, given.replies
        framed_speak(l, &terms.framed, &rmr_protocol, given.max_frame_size)
