# Included by native.pyx: telemetry for the supervisor, which formats the segment, and for the recorder.

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t

TELEMETRY_BYTES = telemetry_bytes()
TELEMETRY_ROOM = TELEMETRY_RECORDS
TELEMETRY_RECORD = sizeof(telemetry_record)
TRACE_KNOWN = KNOWN_TRACE
TRANSACTION_KNOWN = KNOWN_TRANSACTION
OWNER_KNOWN = KNOWN_OWNER
_CODED = tuple([flow_coded_names[i].decode() for i in range(FLOW_CODED)])


def format_telemetry(memory, uint64_t started) -> None:
    """Write the header of telemetry, whose records stay; the router's start is ``started`` nanoseconds since 1970."""
    cdef Mapped m = Mapped()
    m.take(memory, 0, telemetry_bytes())
    telemetry_format(m.base, started)


def check_telemetry(memory) -> str | None:
    """Return what is wrong with a telemetry segment; None if nothing is."""
    cdef Mapped m = Mapped()
    m.take(memory, 0, sizeof(telemetry_header), False)
    return wrong(telemetry_check(m.base, m.size))


cdef class FlowColumns:
    """The columns that ``FlowReader.read`` fills: a buffer per column, with room for ``room`` records.

    -1 stands for an unknown value. Columns of ids hold indices into ``ids``: ``from`` and ``to`` are links,
    ``address``, ``path``, ``meid``, ``condition``, ``onward`` and ``back`` are names. ``trace``, ``span`` and
    ``transaction`` hold 16, 8 and 32 octets per record, valid if ``known`` has TRACE_KNOWN or TRANSACTION_KNOWN.
    ``known`` has OWNER_KNOWN if a route table chose the receiver by the managed entity's owner. ``further`` is 1 if the
    message has an earlier record. ``state`` is a place in shm.contract.flow_log.schema.ROUTE_STATES plus 1, or 0.
    """

    cdef readonly dict buffers     # by name: bytearray of int64_t, int32_t, int16_t or int8_t
    cdef list memory
    cdef flow_columns columns

    def __cinit__(self, uint32_t room):
        cdef flow_columns *c = &self.columns
        cdef char *column
        self.buffers, self.memory = {}, []
        c.room = room
        for i in range(FLOW_COLUMN_LINES):
            column = self.column(flow_column_lines[i].name.decode(), flow_column_lines[i].bytes)
            memcpy(<char *> c + flow_column_lines[i].at, &column, sizeof(column))
        for name in _CODED:
            self.code(name)

    cdef char *room_for(self, size_t size) except NULL:
        cdef bytearray buffer = bytearray(size)
        self.memory.append(buffer)
        return PyByteArray_AS_STRING(buffer)

    cdef char *column(self, str name, size_t size) except NULL:
        cdef char *buffer = self.room_for(self.columns.room * size)
        self.buffers[name] = self.memory[-1]
        return buffer

    cdef flow_codes *codes(self, str name) except NULL:
        return &self.columns.codes[<size_t> _CODED.index(name)]

    cdef int code(self, str name) except -1:
        cdef flow_codes *codes = self.codes(name)
        codes.column = <int32_t *> self.column(name, sizeof(int32_t))
        codes.id = <uint32_t *> self.room_for(self.columns.room * sizeof(uint32_t))
        codes.place = <flow_code *> self.room_for(FLOW_PLACES * sizeof(flow_code))
        return 0

    @property
    def room(self) -> int:
        return self.columns.room

    @property
    def count(self) -> int:
        """The number of records in the columns."""
        return self.columns.count

    def ids(self, str name, uint32_t first=0) -> list[int]:
        """Return the distinct ids of a column from index ``first`` on."""
        cdef flow_codes *codes = self.codes(name)
        return [codes.id[i] for i in range(first, codes.count)]

    def sequences(self) -> dict[int, tuple[int, int]]:
        """Return the lowest and the highest number of each worker's records."""
        cdef flow_columns *c = &self.columns
        return {worker: (c.lowest[worker], c.highest[worker]) for worker in range(ROUTERD_MAX_WORKERS + 1) if c.highest[worker]}

    def clear(self) -> None:
        """Remove all records; nobody may read the buffers any more."""
        flow_columns_clear(&self.columns)


cdef class FlowReader(Mapped):
    """The consumer of telemetry. Raises ValueError if the buffer holds none."""

    cdef telemetry_consumer consumer
    cdef readonly uint32_t generation      # the generation of the core whose records ``read`` has returned last
    cdef readonly uint64_t bad             # the number of malformed records

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
        """The time of the router's start in nanoseconds since 1970."""
        return self.consumer.view.header.started

    @property
    def dropped(self) -> int:
        """The number of records without room in the ring since the core's start."""
        return self.consumer.view.header.dropped

    def waiting(self) -> int:
        """Return the number of records that can be read now."""
        return telemetry_waiting(&self.consumer)

    def read(self, FlowColumns columns not None, int64_t offset, bint keep=False) -> int:
        """Append the records of one core that there are and have room; return how many were read.

        ``offset`` is the time of day minus CLOCK_MONOTONIC in nanoseconds. With ``keep``, the core gets the room
        of these records back only by ``give_back``.
        """
        cdef uint64_t waiting = telemetry_waiting(&self.consumer), first = self.consumer.next, bad = 0
        cdef uint32_t read = FLOW_ROWS
        if waiting:
            self.generation = self.next_generation()
        while waiting and read == FLOW_ROWS:
            read = flow_take(&columns.columns, &self.consumer, waiting, self.generation, <uint64_t> offset, &bad)
            waiting -= read
        self.bad += bad
        if not keep:
            self.give_back()
        return self.consumer.next - first

    def give_back(self) -> None:
        """Let the core reuse the room of the records read so far."""
        telemetry_return(&self.consumer)

    @property
    def place(self) -> int:
        """The index of the next record among all since the router's start."""
        return self.consumer.next

    def pass_over(self, uint64_t place) -> None:
        """Skip to a later index, up to which an earlier recorder has read; no-op beyond the last record."""
        if place - self.consumer.next <= telemetry_waiting(&self.consumer):
            self.consumer.next = place
            self.give_back()

    def records(self, uint64_t first) -> list[memoryview]:
        """Return the raw records from index ``first`` on that were read but not given back, in one or two pieces."""
        cdef uint64_t behind = self.consumer.next, end
        pieces = []
        if behind - first > TELEMETRY_RECORDS:
            raise ValueError(f"records from {first} to {behind} are not in the ring")
        while first != behind:
            end = min(behind, (first | (TELEMETRY_RECORDS - 1)) + 1)
            pieces.append(PyMemoryView_FromMemory(<char *> &self.consumer.view.record[first & (TELEMETRY_RECORDS - 1)],
                                                  <Py_ssize_t> ((end - first) * sizeof(telemetry_record)), PyBUF_READ))
            first = end
        return pieces

    def replay(self, const uint8_t[::1] records) -> None:
        """Append raw records in memory that no core has. Raises ValueError if there is no room."""
        cdef uint64_t count = <uint64_t> records.shape[0] // sizeof(telemetry_record), done = 0, at, some
        cdef uint64_t head = self.consumer.next + telemetry_waiting(&self.consumer)
        if telemetry_waiting(&self.consumer) + count > TELEMETRY_RECORDS:
            raise ValueError(f"{count} records have no room")
        while done < count:
            at = (head + done) & (TELEMETRY_RECORDS - 1)
            some = min(count - done, TELEMETRY_RECORDS - at)
            memcpy(&self.consumer.view.record[at], &records[done * sizeof(telemetry_record)], some * sizeof(telemetry_record))
            done += some
        telemetry_replayed(&self.consumer, count)

    def next_generation(self) -> int:
        """Return the generation of the core that made the next record, or the last record if none waits."""
        if not telemetry_waiting(&self.consumer):
            return self.generation
        return self.consumer.view.record[self.consumer.next & (TELEMETRY_RECORDS - 1)].said.of.generation

    def name(self, uint32_t id) -> bytes | None:
        """Return the text of a name id; None if there is none any more."""
        cdef uint8_t text[TELEMETRY_TEXT]
        cdef int length = telemetry_read_name(&self.consumer.view, id, text)
        return None if length < 0 else PyBytes_FromStringAndSize(<char *> text, length)

    def link(self, uint32_t id) -> tuple[int, int, int, int, int, int] | None:
        """Return connection, number, the container's name id, the kind, and the user's and the host's name ids of a link id.

        None if there is none any more.
        """
        cdef telemetry_link l
        if not telemetry_read_link(&self.consumer.view, id, &l):
            return None
        return l.connection, l.number, l.container, l.kind, l.user, l.host
