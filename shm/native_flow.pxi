# Included by native.pyx: telemetry, as its segment's maker and the recorder see it.

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t

TELEMETRY_BYTES = telemetry_bytes()
TELEMETRY_ROOM = TELEMETRY_RECORDS
TRACE_KNOWN = KNOWN_TRACE
TRANSACTION_KNOWN = KNOWN_TRANSACTION
OWNER_KNOWN = KNOWN_OWNER


def format_telemetry(memory, uint64_t started) -> None:
    """Make a zeroed segment telemetry without records; ``started``: when the router was, nanoseconds since 1970."""
    cdef Mapped m = Mapped()
    m.take(memory, 0, telemetry_bytes())
    telemetry_format(m.base, started)


def check_telemetry(memory) -> str | None:
    """What is wrong with a segment of telemetry; None if nothing is."""
    cdef Mapped m = Mapped()
    m.take(memory, 0, sizeof(telemetry_header), False)
    return wrong(telemetry_check(m.base, m.size))


cdef bytearray _column(uint32_t room, size_t size):
    return bytearray(room * size)


cdef class FlowColumns:
    """Room for so many records, a buffer per column: what ``FlowReader.take`` fills. -1 stands for what is not known; ids
    are ``from``, ``to`` (links), ``address``, ``path``, ``meid``, ``condition``, ``onward`` and ``back`` (names). ``trace``, ``span`` and
    ``transaction`` hold 16, 8 and 32 octets of each record; ``known`` says whether they mean something (TRACE_KNOWN, TRANSACTION_KNOWN); OWNER_KNOWN is
    set where a route table went by owner."""

    cdef readonly uint32_t room
    cdef readonly uint32_t count
    cdef readonly dict buffers     # by name: the buffer of int64_t, int32_t, uint32_t, int16_t or int8_t
    cdef int64_t *ts
    cdef int64_t *seq
    cdef int64_t *bytes
    cdef int64_t *latency
    cdef int64_t *settle
    cdef int64_t *queue
    cdef int64_t *starved
    cdef uint32_t *from_link
    cdef uint32_t *to_link
    cdef uint32_t *address
    cdef uint32_t *path
    cdef uint32_t *meid
    cdef uint32_t *condition
    cdef int32_t *mtype
    cdef int32_t *sub_id
    cdef int32_t *weight
    cdef int16_t *worker
    cdef int16_t *hops
    cdef int8_t *kind
    cdef int8_t *outcome
    cdef int8_t *treatment
    cdef int8_t *priority
    cdef int8_t *settled
    cdef int8_t *known
    cdef int64_t *message
    cdef int64_t *body
    cdef int64_t *delivery
    cdef int32_t *pieces
    cdef int16_t *deliveries
    cdef uint32_t *onward
    cdef uint32_t *back
    cdef char *trace
    cdef char *span
    cdef char *transaction

    def __cinit__(self, uint32_t room):
        self.room = room
        self.buffers = {}
        self.ts = <int64_t *> self.column("ts", 8)
        self.seq = <int64_t *> self.column("seq", 8)
        self.bytes = <int64_t *> self.column("bytes", 8)
        self.latency = <int64_t *> self.column("latency", 8)
        self.settle = <int64_t *> self.column("settle", 8)
        self.queue = <int64_t *> self.column("queue", 8)
        self.starved = <int64_t *> self.column("starved", 8)
        self.from_link = <uint32_t *> self.column("from", 4)
        self.to_link = <uint32_t *> self.column("to", 4)
        self.address = <uint32_t *> self.column("address", 4)
        self.path = <uint32_t *> self.column("path", 4)
        self.meid = <uint32_t *> self.column("meid", 4)
        self.condition = <uint32_t *> self.column("condition", 4)
        self.mtype = <int32_t *> self.column("mtype", 4)
        self.sub_id = <int32_t *> self.column("sub_id", 4)
        self.weight = <int32_t *> self.column("weight", 4)
        self.worker = <int16_t *> self.column("worker", 2)
        self.hops = <int16_t *> self.column("hops", 2)
        self.kind = <int8_t *> self.column("kind", 1)
        self.outcome = <int8_t *> self.column("outcome", 1)
        self.treatment = <int8_t *> self.column("treatment", 1)
        self.priority = <int8_t *> self.column("priority", 1)
        self.settled = <int8_t *> self.column("settled", 1)
        self.known = <int8_t *> self.column("known", 1)
        self.message = <int64_t *> self.column("message", 8)
        self.body = <int64_t *> self.column("body", 8)
        self.delivery = <int64_t *> self.column("delivery", 8)
        self.pieces = <int32_t *> self.column("pieces", 4)
        self.deliveries = <int16_t *> self.column("deliveries", 2)
        self.onward = <uint32_t *> self.column("onward", 4)
        self.back = <uint32_t *> self.column("back", 4)
        self.trace = self.column("trace", 16)
        self.span = self.column("span", 8)
        self.transaction = self.column("transaction", 32)

    cdef char *column(self, str name, size_t size) except NULL:
        cdef bytearray buffer = _column(self.room, size)
        self.buffers[name] = buffer
        return PyByteArray_AS_STRING(buffer)

    def clear(self) -> None:
        """Begin anew; nobody may look at the buffers any more."""
        self.count = 0

    cdef bint append(self, const telemetry_record *record, int64_t offset) noexcept:
        cdef const telemetry_said *r = &record.said
        cdef const telemetry_message *m = &r.of
        cdef uint32_t n = self.count
        if m.kind > FLOW_DROP or m.outcome > FLOW_DROPPED or m.treatment > FLOW_NO_CLASS or m.priority > 9 or m.worker > ROUTERD_MAX_WORKERS:
            return False
        self.ts[n] = (<int64_t> r.arrived + offset) // 1000
        self.seq[n] = <int64_t> r.number
        self.bytes[n] = <int64_t> r.bytes
        self.latency[n] = <int64_t> (r.sent - r.arrived) if r.sent >= r.arrived and r.sent else -1
        self.settle[n] = <int64_t> (r.settled - r.arrived) if r.settled >= r.arrived and r.settled else -1
        self.queue[n] = <int64_t> r.queued if r.sent else -1
        self.starved[n] = <int64_t> r.starved if r.sent else -1
        self.from_link[n] = m.from_link
        self.to_link[n] = r.to_link
        self.address[n] = m.address
        self.path[n] = m.path
        self.meid[n] = m.meid
        self.condition[n] = r.condition
        self.mtype[n] = m.mtype
        self.sub_id[n] = m.sub_id
        self.weight[n] = <int32_t> m.weight
        self.worker[n] = m.worker
        self.hops[n] = m.hops
        self.kind[n] = <int8_t> m.kind
        self.outcome[n] = <int8_t> m.outcome
        self.treatment[n] = <int8_t> m.treatment
        self.priority[n] = <int8_t> m.priority
        self.settled[n] = <int8_t> (m.presettled != 0)
        self.known[n] = <int8_t> (m.known & 0x7f)
        self.message[n] = <int64_t> (m.message & 0x7fffffffffffffff) if m.known & KNOWN_DIGEST and m.message else -1
        self.body[n] = <int64_t> (r.bytes - m.front) if m.known & KNOWN_BODY and r.bytes >= m.front else -1
        self.delivery[n] = <int64_t> (m.delivery & 0x7fffffffffffffff)
        self.pieces[n] = <int32_t> m.pieces
        self.deliveries[n] = <int16_t> m.delivery_count if m.known & KNOWN_DIGEST else -1
        self.onward[n] = record.more.onward if m.known & KNOWN_ROUTE else 0
        self.back[n] = record.more.back if m.known & KNOWN_ROUTE else 0
        if m.known & KNOWN_MORE:
            memcpy(self.trace + 16 * n, record.more.trace, 16)
            memcpy(self.span + 8 * n, record.more.span, 8)
            memcpy(self.transaction + 32 * n, record.more.transaction, 32)
        self.count = n + 1
        return True


cdef class FlowReader(Mapped):
    """The consumer of telemetry; ValueError where there is none."""

    cdef telemetry_consumer consumer
    cdef readonly uint32_t generation      # of the core that made what ``take`` has read last
    cdef readonly uint64_t bad             # records that made no sense

    def __cinit__(self, memory):
        self.take_memory(memory)

    cdef int take_memory(self, memory) except -1:
        self.take(memory, 0, telemetry_bytes())
        if telemetry_check(self.base, self.size) is not NULL:
            raise ValueError("there is no telemetry")
        cdef telemetry_view view = telemetry_at(self.base)
        telemetry_consume(&self.consumer, &view)
        return 0

    @property
    def started(self) -> int:
        """When the router was started, nanoseconds since 1970."""
        return self.consumer.view.header.started

    @property
    def dropped(self) -> int:
        """Records that had no room, since the core started."""
        return self.consumer.view.header.dropped

    def waiting(self) -> int:
        """Records that can be read now."""
        return telemetry_waiting(&self.consumer)

    def read(self, FlowColumns columns not None, int64_t offset) -> int:
        """Append what there is and has room, of one core only; how many were read. ``offset``: of the time of day from
        CLOCK_MONOTONIC, nanoseconds."""
        cdef uint64_t waiting = telemetry_waiting(&self.consumer)
        cdef uint64_t first = self.consumer.next
        cdef telemetry_record r
        cdef const telemetry_record *place
        while waiting and columns.count < columns.room:
            place = &self.consumer.view.record[self.consumer.next & (TELEMETRY_RECORDS - 1)]
            r.said = place.said     # a copy: what was checked is used
            if r.said.of.known & KNOWN_MORE:
                r.more = place.more
            if self.consumer.next == first:
                self.generation = r.said.of.generation
            elif r.said.of.generation != self.generation:
                break
            if not columns.append(&r, offset):
                self.bad += 1
            self.consumer.next += 1
            waiting -= 1
        telemetry_return(&self.consumer)
        return self.consumer.next - first

    def next_generation(self) -> int:
        """Of the core that made the next record; that of the last one where there is none."""
        if not telemetry_waiting(&self.consumer):
            return self.generation
        return self.consumer.view.record[self.consumer.next & (TELEMETRY_RECORDS - 1)].said.of.generation

    def name(self, uint32_t id) -> bytes | None:
        """A text; None: there is none, or it is gone."""
        cdef uint8_t text[TELEMETRY_TEXT]
        cdef int length = telemetry_read_name(&self.consumer.view, id, text)
        return None if length < 0 else PyBytes_FromStringAndSize(<char *> text, length)

    def link(self, uint32_t id) -> tuple[int, int, int, int] | None:
        """Connection, number, container's name and kind of a link; None: as ``name``."""
        cdef telemetry_link l
        if not telemetry_read_link(&self.consumer.view, id, &l):
            return None
        return l.connection, l.number, l.container, l.kind
