# Included by native.pyx: arenas as processes other than their owners see them.

cdef class Arena(Mapped):
    """An arena as any process sees it. Raises ValueError if the buffer holds no arena of its size."""

    def __cinit__(self, memory):
        self.take(memory, 0, 0)
        if not arena_attach(&self.view, self.base, self.size):
            raise ValueError("there is no arena that fits in its memory")

    @property
    def blocks(self) -> tuple[int, int]:
        """The numbers of small and large blocks."""
        return self.view.small_count, self.view.large_count

    @property
    def first_block(self) -> int:
        """The offset of the first block: before it are header and marks."""
        return <size_t> (<uint8_t *> arena_content_of(&self.view, 0) - <uint8_t *> self.base)

    def content(self, uint32_t head) -> tuple[int, int]:
        """Return the published bytes and the state of a chain. Raises ValueError if there is no such block."""
        cdef arena_content *c = self.content_of(head)
        cdef uint32_t state = chain_state(c)
        return chain_length(c), state

    def read(self, uint32_t head) -> bytes:
        """Return all published bytes of a chain. Raises ValueError if the chain is broken."""
        cdef arena_reader reader
        chain_open(&reader, head)
        return self.read_on(&reader)

    def mark_none(self) -> None:
        """After the owner's death: clear all marks."""
        arena_mark_none(&self.view)

    def marked(self) -> list[int]:
        """Return the marked blocks, which a new owner cannot use."""
        cdef const uint8_t *used = arena_in_use(&self.view)
        return [i for i in range(arena_blocks(&self.view)) if used[i]]

    def gaps(self) -> list[tuple[int, int]]:
        """Return the ranges of unmarked blocks as start and end offsets in the segment, adjacent ones merged."""
        cdef const uint8_t *used = arena_in_use(&self.view)
        cdef size_t at, size, start = 0, end = 0
        gaps = []
        for i in range(arena_blocks(&self.view)):
            if used[i]:
                continue
            at = <size_t> (<uint8_t *> arena_content_of(&self.view, i) - <uint8_t *> self.base)
            size = ARENA_LARGE_BYTES if i >= self.view.small_count else ARENA_SMALL_BYTES
            if at != end:
                if end > start:
                    gaps.append((start, end))
                start = at
            end = at + size
        if end > start:
            gaps.append((start, end))
        return gaps

    cdef arena_content *content_of(self, uint32_t head) except NULL:
        cdef arena_content *c = arena_content_of(&self.view, head)
        if c is NULL:
            raise ValueError(f"there is no block {head}")
        return c

    cdef bytes read_on(self, arena_reader *reader):
        cdef uint64_t limit = chain_length(self.content_of(reader.head))
        cdef uint32_t size
        cdef const uint8_t *run
        parts = []
        while True:
            run = chain_read(&self.view, reader, limit, &size)
            if run is NULL:
                break
            parts.append(PyBytes_FromStringAndSize(<const char *> run, size))
            chain_advance(reader, size)
        if size:
            raise ValueError(f"the chain of block {reader.head} is broken at {reader.position} of {limit} bytes")
        return b"".join(parts)


cdef class ChainReader:
    """Reads a growing chain from its first byte on."""

    cdef Arena arena
    cdef arena_reader reader

    def __cinit__(self, Arena arena not None, uint32_t head):
        self.arena = arena
        chain_open(&self.reader, head)

    @property
    def position(self) -> int:
        """The number of bytes read so far."""
        return self.reader.position

    def read(self) -> bytes:
        """Return the bytes published since the last call. Raises ValueError if the chain is broken."""
        return self.arena.read_on(&self.reader)
