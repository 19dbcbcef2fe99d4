"""Connections of Ockam nodes (ockam.h): what workers.ockam asks of the pump."""


cdef class OckamTransport(PlainTransport):
    """Ockam connections of one pump. The handler is also asked who sends on a link: ``asked(connection, link, generation)``."""

    def __init__(self, Pump pump, handler):
        pump.plain[ockam_protocol.number] = handler

    def speak(self, int place, bint bare, uint32_t most, list reach):
        """Connections of a place speak Ockam's TCP transport, in the framing of before June 2024 (``bare``) or today's. ``reach``: type, octets and
        whether they are a prefix, of the addresses that are no workers' and may be reached. Raises ValueError."""
        cdef wlistener *l = self.pump.listener(place)
        cdef ockam_terms *terms
        cdef bytes packed = b"".join([bytes((kind, prefix)) + len(name).to_bytes(2, "little") + name for kind, name, prefix in reach])
        terms = <ockam_terms *> calloc(1, sizeof(ockam_terms) + len(packed))
        if terms == NULL:
            raise MemoryError()
        terms.plain.speaks, terms.plain.most = &ockam_protocol, most
        terms.framing = OCKAM_BARE if bare else OCKAM_CBOR
        terms.reach_count = len(reach)
        memcpy(terms.reach, <const char *> packed, len(packed))
        free(l.plain)
        l.plain = <plain_terms *> terms

    def greet(self, uint32_t index, int kind, bytes name):
        """An open connection gets its address in routes, and says what each side says first."""
        cdef wconn *c = <wconn *> pool_at(&self.pump.p.conns, index)
        free(c.plain.name)
        c.plain.name = <uint8_t *> calloc(1, len(name) + 1)
        if c.plain.name == NULL:
            raise MemoryError()
        memcpy(c.plain.name, <const char *> name, len(name))
        c.plain.name_length, c.plain.name_type = len(name), kind
        ockam_greet(&self.pump.p, c)
