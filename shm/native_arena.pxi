# Part of shm/native.pyx: arenas, their owner's side and everybody else's.

def arena_bytes(uint32_t small_count, uint32_t large_count) -> int:
    """Bytes that an arena of so many blocks needs."""
    return c_arena_bytes(small_count, large_count)


def format_arena(memory, uint32_t small_count, uint32_t large_count) -> None:
    """Make a zeroed buffer an arena; ValueError if it does not fit."""
    cdef Mapped m = Mapped()
    m.take(memory, 0, c_arena_bytes(small_count, large_count))
    c_arena_format(m.base, small_count, large_count)


cdef class Arena(Mapped):
    """An arena as any process sees it; ValueError where no arena of the buffer's size stands."""

    cdef arena_view view

    def __cinit__(self, memory):
        self.take(memory, 0, 0)
        if not arena_attach(&self.view, self.base, self.size):
            raise ValueError("there is no arena that fits in its memory")

    @property
    def blocks(self) -> tuple[int, int]:
        """Number of small and of large blocks."""
        return self.view.small_count, self.view.large_count

    def content(self, uint32_t head) -> tuple[int, int]:
        """Published length and state of the chain that begins with a block; ValueError if there is no such block."""
        cdef arena_content *c = self.content_of(head)
        cdef uint32_t state = chain_state(c)
        return chain_length(c), state

    def read(self, uint32_t head) -> bytes:
        """All published bytes of a chain; ValueError if the chain is broken."""
        cdef arena_reader reader
        chain_open(&reader, head)
        return self.read_on(&reader)

    def mark_none(self) -> None:
        """After the owner's death: forget what was in use."""
        arena_mark_none(&self.view)

    def mark_chain(self, uint32_t head) -> int:
        """After the owner's death: keep a chain from the next owner; returns how many blocks that are."""
        return arena_mark_chain(&self.view, head)

    def marked(self) -> list[int]:
        """The blocks that a new owner does not get."""
        cdef const uint8_t *used = arena_in_use(&self.view)
        return [i for i in range(arena_blocks(&self.view)) if used[i]]

    def gaps(self) -> list[tuple[int, int]]:
        """Where unmarked blocks stand: beginning and end in the segment, as far apart as they go."""
        cdef const uint8_t *used = arena_in_use(&self.view)
        cdef size_t at, size, start = 0, end = 0
        gaps = []
        for i in range(arena_blocks(&self.view)):
            if used[i]:
                continue
            at = <size_t> (<uint8_t *> arena_at(&self.view, i) - <uint8_t *> self.base)
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
    """Reads a chain that is still growing, from its first byte on."""

    cdef Arena arena
    cdef arena_reader reader

    def __cinit__(self, Arena arena not None, uint32_t head):
        self.arena = arena
        chain_open(&self.reader, head)

    @property
    def position(self) -> int:
        """Bytes read so far."""
        return self.reader.position

    def read(self) -> bytes:
        """What was published since the last call; ValueError if the chain is broken."""
        return self.arena.read_on(&self.reader)


cdef class ArenaOwner(Arena):
    """The owner's side: the only one that allocates, writes and frees."""

    cdef arena_owner owner
    cdef bint owns

    def __cinit__(self, memory):
        if not arena_own(&self.owner, &self.view):
            raise MemoryError("no memory for the free lists of an arena")
        self.owns = True

    def __dealloc__(self):
        if self.owns:
            arena_disown(&self.owner)

    @property
    def free(self) -> tuple[int, int]:
        """Number of free small and free large blocks."""
        return self.owner.free_count[<int> ARENA_SMALL], self.owner.free_count[<int> ARENA_LARGE]

    def alloc(self, bint large=False) -> int | None:
        """A block, of the other class when the wanted one is used up; None: no block is left."""
        cdef uint32_t index = arena_alloc(&self.owner, ARENA_LARGE if large else ARENA_SMALL)
        return None if index == ROUTERD_NIL else index

    def free_one(self, uint32_t index) -> bool:
        """Give one block back; False: no block, or free already."""
        return arena_free_one(&self.owner, index)

    def free_chain(self, uint32_t head) -> int:
        """Give a chain and its key block back; returns how many blocks that were."""
        return arena_free_chain(&self.owner, head)

    def set_key_block(self, uint32_t head, uint32_t index) -> None:
        """Tie an extra block to a chain: it is freed and marked with it."""
        self.content_of(head).key_block = index

    def begin(self, bint large=False) -> "ChainWriter | None":
        """A new chain; None: no block is left."""
        cdef ChainWriter w = ChainWriter.__new__(ChainWriter, self)
        w.want = ARENA_LARGE if large else ARENA_SMALL
        return w if chain_begin(&self.owner, &w.writer, w.want) else None

    def write(self, bytes content, bint large=False) -> int | None:
        """A complete chain with this content; None (and nothing taken) when the arena has no room for it."""
        cdef ChainWriter w = self.begin(large)
        if w is None:
            return None
        if w.write(content):
            w.publish(CONTENT_COMPLETE)
            return w.head
        self.free_chain(w.head)
        return None


cdef class ChainWriter:
    """Writes one chain; made by ``ArenaOwner.begin``."""

    cdef ArenaOwner owner
    cdef arena_writer writer
    cdef arena_class want

    def __cinit__(self, ArenaOwner owner not None):
        self.owner = owner
        self.writer.head = ROUTERD_NIL

    def __init__(self, owner):
        raise TypeError("a chain begins with ArenaOwner.begin")

    @property
    def head(self) -> int:
        """The block that names the chain."""
        return self.writer.head

    @property
    def written(self) -> int:
        """Bytes written so far."""
        return self.writer.written

    def write(self, bytes content) -> bool:
        """Append; False, with what fitted written, when the arena is used up."""
        return chain_write(&self.owner.owner, &self.writer, self.want, PyBytes_AS_STRING(content), len(content))

    def publish(self, int state=CONTENT_RECEIVING) -> None:
        """Show readers what was written."""
        chain_publish(&self.owner.owner, &self.writer, state)

    def trim(self, uint64_t consumed) -> int:
        """Free the blocks whose bytes every reader has behind it; returns how many that were."""
        return chain_trim(&self.owner.owner, &self.writer, consumed)
