"""The native side of connections of Ockam nodes (ockam.c), for workers.ockam.connections."""


cdef class OckamTransport(FramedTransport):
    """Ockam connections of one pump; the pump also calls the handler's ``asked(connection, link, generation)``."""

    def __cinit__(self, Pump pump):
        self.protocol = ockam_protocol.number

    def speak(self, int place, bint bare, uint32_t most, list reach):
        """Set the terms of a place's connections. Raises ValueError.

        ``bare`` selects the framing from before June 2024, ``most`` bounds a frame in octets. ``reach`` lists the
        permitted addresses besides those of route workers: type, octets, and whether they are a prefix.
        """
        cdef worker_listener *l = self.pump.listener(place)
        cdef ockam_terms *terms
        cdef bytes packed = b"".join([bytes((kind, prefix)) + len(name).to_bytes(2, "little") + name for kind, name, prefix in reach])
        terms = <ockam_terms *> calloc(1, sizeof(ockam_terms) + len(packed))
        if terms == NULL:
            raise MemoryError()
        terms.framing = OCKAM_BARE if bare else OCKAM_CBOR
        terms.reach_count = len(reach)
        memcpy(terms.reach, <const char *> packed, len(packed))
        framed_speak(l, &terms.framed, &ockam_protocol, most)

    def greet(self, uint32_t index, int kind, bytes name):
        """Set the address of an open connection in routes, and send the transport's greeting."""
        cdef worker_connection *c = <worker_connection *> pool_at(&self.pump.p.conns, index)
        free(c.framed.name)
        c.framed.name = <uint8_t *> calloc(1, len(name) + 1)
        if c.framed.name == NULL:
            raise MemoryError()
        memcpy(c.framed.name, <const char *> name, len(name))
        c.framed.name_length, c.framed.name_type = len(name), kind
        ockam_greet(&self.pump.p, c)
