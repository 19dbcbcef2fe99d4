# Included by native.pyx: the board, and read-only facts of rings and arenas for the exporter.

BOARD_ROOM = BOARD_BYTES - sizeof(shared_board)

JOURNAL_BYTES = LAYOUT_JOURNAL_BYTES


cdef class Board(Mapped):
    """The board; readers may map it read-only."""

    def __cinit__(self, memory, size_t offset):
        self.take(memory, offset, BOARD_BYTES, False)

    def write(self, bytes content) -> None:
        """Writer: replace the content. Raises ValueError if it is longer than BOARD_ROOM bytes."""
        self.writable()
        if len(content) > BOARD_ROOM:
            raise ValueError(f"the board holds {BOARD_ROOM} bytes, not {len(content)}")
        board_write(<shared_board *> self.base, <const uint8_t *> PyBytes_AS_STRING(content), <uint32_t> len(content))

    def read(self) -> bytes:
        """Return the content; it is empty before the first write and during a replacement."""
        cdef bytearray copy = bytearray(BOARD_ROOM)
        cdef uint32_t length = board_read(<const shared_board *> self.base, <uint8_t *> PyByteArray_AS_STRING(copy))
        return bytes(copy[:length])


def ring_records(memory, size_t offset) -> int:
    """Return the number of records that wait in a ring; 0 if an index is broken."""
    cdef Mapped m = Mapped()
    m.take(memory, offset, c_ring_bytes(0), False)
    return ring_waiting(<const routerd_ring *> m.base, LAYOUT_RING_CAPACITY)


def arena_split(size_t size) -> tuple[int, int]:
    """Return the numbers of small and large blocks in an arena segment of ``size`` bytes."""
    cdef uint32_t small = 0, large = 0
    layout_arena_split(size, &small, &large)
    return small, large
