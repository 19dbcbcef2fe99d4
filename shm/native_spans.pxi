# Included by native.pyx: the spans of telemetry for the exporter, which reads them and writes nothing.

SPAN_ROOM = TELEMETRY_SPANS


cdef class SpanReader(Mapped):
    """Reads the core's spans, all since the router's start, or with ``later`` those that it makes from now on.

    Raises ValueError if the buffer holds no telemetry.
    """

    cdef telemetry_view view
    cdef uint64_t next
    cdef readonly uint64_t lost            # the number of spans that were overwritten before they were read

    def __cinit__(self, memory, bint later=False):
        self.take(memory, 0, telemetry_bytes(), False)
        if telemetry_check(self.base, self.size) is not NULL:
            raise ValueError("there is no telemetry")
        self.view = telemetry_at(self.base)
        self.next = self.view.header.spans + 1 if later else 1

    def waiting(self) -> int:
        """Return the number of spans that have not been read, lost ones included."""
        return self.view.header.spans + 1 - self.next

    def read(self, uint32_t most) -> list[tuple]:
        """Return up to ``most`` spans, oldest first, and count those that are lost.

        Each is (trace-id, parent-id, arrived, sent, settled, address, link it came on, link it went to, outcome,
        condition, hops, bytes, bytes before the body or None, presettled). Times are nanoseconds of CLOCK_MONOTONIC, 0
        is never. Address and condition are octets or None. A link is (connection, number, kind, container) or None.
        The outcome is an index into shm.contract.flow_log.schema.OUTCOMES.
        """
        cdef telemetry_record r
        cdef telemetry_said *s = &r.said
        cdef uint64_t made = self.view.header.spans
        found = []
        if made + 1 - self.next > TELEMETRY_SPANS:
            if made < self.next:
                self.next = made + 1       # nobody but a broken core counts backwards
                return found
            self.lost += made - TELEMETRY_SPANS + 1 - self.next
            self.next = made - TELEMETRY_SPANS + 1
        while self.next <= made and <uint32_t> len(found) < most:
            if telemetry_read_span(&self.view, self.next, &r):
                found.append((
                    PyBytes_FromStringAndSize(<char *> r.more.trace, 16), PyBytes_FromStringAndSize(<char *> r.more.span, 8),
                    s.arrived, s.sent, s.settled, self.name(s.of.address), self.link(s.of.from_link), self.link(s.to_link),
                    s.of.outcome, self.name(s.condition), s.of.hops, s.bytes,
                    s.of.front if s.of.known & KNOWN_BODY else None, bool(s.of.marks & MARK_PRESETTLED),
                ))
            else:
                self.lost += 1
            self.next += 1
        return found

    cdef object name(self, uint32_t id):
        cdef uint8_t text[TELEMETRY_TEXT]
        cdef int length = telemetry_read_name(&self.view, id, text)
        return None if length < 0 else PyBytes_FromStringAndSize(<char *> text, length)

    cdef object link(self, uint32_t id):
        cdef telemetry_link l
        if not telemetry_read_link(&self.view, id, &l):
            return None
        return l.connection, l.number, l.kind, self.name(l.container)
