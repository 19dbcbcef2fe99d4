# cython: language_level=3
"""The sides of the shared-memory contract without Python in the router: writers of rings and owners of arenas.

With it measurements and tests stand in for workers and core. It also has all names of `shm.native`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from shm.native cimport Arena as _Arena
from shm.native cimport Mapped as _Mapped
from shm.native cimport arena_content, arena_view, routerd_doorbell, stats_page

from shm.native import *

cdef extern from "shm/memory/record.h" nogil:
    ctypedef struct routerd_record:
        uint8_t type, flags, priority, arena
        uint32_t link, link_gen, block
        uint64_t delivery, peer
        uint32_t state, credit
        uint64_t length, time, extra
    const uint32_t ROUTERD_NIL, ROUTERD_RECORD_SIZE
    cpdef enum:
        A_NONE, A_DELIVER, A_CONTINUE, A_UPDATE, A_DONE, A_PROGRESS, A_DRAIN, A_DRAINED, A_FREE, A_WAITS
        A_CONTROL
        W_NONE, W_SEND, W_CONTINUE, W_UPDATE, W_RELEASE, W_CONSUMED, W_FLOW, W_DRAIN, W_DRAINED
        W_ACCEPTED, W_CONTROL
        F_SETTLED, F_COMPLETE, F_ABORTED, F_IN, F_RELEASE, F_DROPPED, F_STALLED, F_UNSENT, F_BRIEF, F_EXTRACT
        D_FAILED, D_TOLD, D_PAYLOAD
        S_NONE, S_RECEIVED, S_ACCEPTED, S_REJECTED, S_RELEASED, S_MODIFIED, S_DECLARED, S_TRANSACTIONAL
        C_CONNECTION_OPENED, C_CONNECTION_CLOSED, C_ATTACH, C_ATTACHED, C_DETACH, C_CLOSE, C_OPEN_LINK, C_LINK_REFUSED,
        C_POLL, C_SEEN, C_DENIED, C_TRACE, C_CONNECTOR, C_SERVED, C_COST, C_ENDPOINT, C_ROUTE_REACH, C_ROUTE_COUNTS, C_PRESENTED

cdef extern from "shm/memory/ring.h" nogil:
    ctypedef struct routerd_ring:
        uint64_t capacity
    ctypedef struct routerd_producer:
        uint64_t next, capacity
    ctypedef struct routerd_consumer:
        uint64_t next, capacity
    size_t c_ring_bytes "ring_bytes"(uint64_t)
    bint ring_format(routerd_ring *, uint64_t)
    bint ring_produce(routerd_producer *, routerd_ring *)
    bint ring_consume(routerd_consumer *, routerd_ring *)
    routerd_record *ring_slot(routerd_producer *)
    void ring_push(routerd_producer *)
    bint ring_publish(routerd_producer *)
    void ring_discard(routerd_producer *)
    const routerd_record *ring_peek(routerd_consumer *)
    void ring_advance(routerd_consumer *)
    void ring_return(routerd_consumer *)
    bint ring_pending(const routerd_consumer *)

cdef extern from "shm/memory/arena.h" nogil:
    ctypedef struct arena_owner:
        uint32_t free_count[2]
    ctypedef struct arena_writer:
        uint32_t head
        uint64_t written
    cdef enum arena_class:
        ARENA_SMALL, ARENA_LARGE
    cpdef enum:
        CONTENT_RECEIVING, CONTENT_COMPLETE, CONTENT_ABORTED
    size_t c_arena_bytes "arena_bytes"(uint32_t, uint32_t)
    void c_arena_format "arena_format"(void *, uint32_t, uint32_t)
    bint arena_own(arena_owner *, const arena_view *)
    void arena_disown(arena_owner *)
    uint32_t arena_mark_chain(const arena_view *, uint32_t)
    uint32_t arena_free_chain(arena_owner *, uint32_t)
    bint chain_begin(arena_owner *, arena_writer *, arena_class)
    bint chain_write(arena_owner *, arena_writer *, arena_class, const void *, size_t)
    void chain_publish(arena_owner *, const arena_writer *, int)
    uint32_t chain_trim(arena_owner *, arena_writer *, uint64_t)

cdef extern from "shm/memory/doorbell.h" nogil:
    void doorbell_sleep(routerd_doorbell *)
    bint doorbell_should_ring(routerd_doorbell *)

cdef extern from "shm/memory/layout.h" nogil:
    cpdef size_t core_doorbell_offset "layout_core_doorbell"()
    cpdef size_t worker_doorbell_offset "layout_worker_doorbell"(uint32_t worker)

cdef extern from "shm/statistics/stats.h" nogil:
    void stats_observe(stats_page *, uint32_t, uint64_t)
    const uint32_t STATS_HISTOGRAMS

NIL = ROUTERD_NIL
RECORD_SIZE = ROUTERD_RECORD_SIZE


def pack(*, uint8_t type=0, uint8_t flags=0, uint8_t priority=0, uint8_t arena=0, uint32_t link=0, uint32_t link_gen=0,
         uint32_t block=ROUTERD_NIL, uint64_t delivery=0, uint64_t peer=0, uint32_t state=0, uint32_t credit=0,
         uint64_t length=0, uint64_t time=0, uint64_t extra=0) -> bytes:
    """Return a record's 64 bytes. Fields that are not given are 0, ``block`` is none."""
    cdef routerd_record r
    memset(&r, 0, sizeof(r))
    r.type, r.flags, r.priority, r.arena = type, flags, priority, arena
    r.link, r.link_gen, r.block, r.delivery, r.peer = link, link_gen, block, delivery, peer
    r.state, r.credit, r.length, r.time, r.extra = state, credit, length, time, extra
    return PyBytes_FromStringAndSize(<char *> &r, sizeof(r))


def unpack(bytes record) -> dict[str, int]:
    """Return the fields of a record's 64 bytes by name."""
    cdef routerd_record r
    if len(record) != sizeof(r):
        raise ValueError(f"a record has {sizeof(r)} bytes, not {len(record)}")
    memcpy(&r, PyBytes_AS_STRING(record), sizeof(r))
    return {"type": r.type, "flags": r.flags, "priority": r.priority, "arena": r.arena, "link": r.link,
            "link_gen": r.link_gen, "block": r.block, "delivery": r.delivery, "peer": r.peer, "state": r.state,
            "credit": r.credit, "length": r.length, "time": r.time, "extra": r.extra}


cdef class Doorbell(_Mapped):
    """One side's view of a doorbell; the caller itself waits on or writes to the descriptor (doorbell.h)."""

    def __cinit__(self, memory, size_t offset):
        self.take(memory, offset, sizeof(routerd_doorbell))

    def sleep(self) -> None:
        """Consumer: announce that it is about to block; it then has to check the rings once more."""
        doorbell_sleep(<routerd_doorbell *> self.base)

    def should_ring(self) -> bool:
        """Producer, after publishing: return whether the consumer has to be woken, true at most once per sleep."""
        return doorbell_should_ring(<routerd_doorbell *> self.base)


def observe(_Mapped page, uint32_t which, uint64_t value) -> None:
    """Add a value to a histogram of a statistics page. Raises IndexError if there is no such histogram."""
    if which >= STATS_HISTOGRAMS:
        raise IndexError(f"{which} is not one of {STATS_HISTOGRAMS}")
    stats_observe(<stats_page *> page.base, which, value)


def mark_chain(_Arena arena, uint32_t head) -> int:
    """Mark a chain, so that the arena's next owner cannot use it; return its number of blocks."""
    return arena_mark_chain(&arena.view, head)


def ring_bytes(uint64_t capacity) -> int:
    """Return the size in bytes of a ring of so many records."""
    if capacity > <uint64_t> 1 << 32:
        raise ValueError("a ring holds at most 2**32 records")
    return c_ring_bytes(capacity)


def format_ring(memory, uint64_t capacity, size_t offset=0) -> None:
    """Format an empty ring in a buffer. Raises ValueError unless the capacity is a power of two that fits."""
    cdef _Mapped m = _Mapped()
    m.take(memory, offset, ring_bytes(capacity))
    if not ring_format(<routerd_ring *> m.base, capacity):
        raise ValueError(f"a ring's capacity is a power of two and at least 2, not {capacity}")


cdef routerd_ring *ring_in(_Mapped m, object memory, size_t offset) except NULL:
    m.take(memory, offset, c_ring_bytes(0))
    cdef routerd_ring *ring = <routerd_ring *> m.base
    cdef uint64_t capacity = ring.capacity
    if capacity > <uint64_t> 1 << 32 or c_ring_bytes(capacity) > m.size:
        raise ValueError(f"a ring of {capacity} records does not fit in {m.size} bytes")
    return ring


cdef class Producer(_Mapped):
    """The producer of a ring. Raises ValueError if there is no intact ring."""

    cdef routerd_producer producer

    def __cinit__(self, memory, size_t offset=0):
        if not ring_produce(&self.producer, ring_in(self, memory, offset)):
            raise ValueError("there is no intact ring")

    def push(self, bytes record) -> bool:
        """Write one record, which the consumer sees after ``publish``; return False if the ring is full."""
        if len(record) != sizeof(routerd_record):
            raise ValueError(f"a record has {sizeof(routerd_record)} bytes, not {len(record)}")
        cdef routerd_record *slot = ring_slot(&self.producer)
        if slot is NULL:
            return False
        memcpy(slot, PyBytes_AS_STRING(record), sizeof(routerd_record))
        ring_push(&self.producer)
        return True

    def publish(self) -> bool:
        """Show the consumer the pushed records; return False if there are none."""
        return ring_publish(&self.producer)

    def discard(self) -> None:
        """Forget all records that a dead consumer has not read."""
        ring_discard(&self.producer)


cdef class Consumer(_Mapped):
    """The consumer of a ring. Raises ValueError if there is no intact ring."""

    cdef routerd_consumer consumer

    def __cinit__(self, memory, size_t offset=0):
        if not ring_consume(&self.consumer, ring_in(self, memory, offset)):
            raise ValueError("there is no intact ring")

    def pop(self) -> bytes | None:
        """Return the next record, or None. The producer gets its slot back by ``give_back``."""
        cdef const routerd_record *r = ring_peek(&self.consumer)
        if r is NULL:
            return None
        record = PyBytes_FromStringAndSize(<const char *> r, sizeof(routerd_record))
        ring_advance(&self.consumer)
        return record

    def give_back(self) -> None:
        """Let the producer reuse the slots of the records read."""
        ring_return(&self.consumer)

    def pending(self) -> bool:
        """Return whether a published record waits."""
        return ring_pending(&self.consumer)


def arena_bytes(uint32_t small_count, uint32_t large_count) -> int:
    """Return the size in bytes of an arena of so many blocks."""
    return c_arena_bytes(small_count, large_count)


def format_arena(memory, uint32_t small_count, uint32_t large_count) -> None:
    """Format a zeroed buffer as an arena. Raises ValueError if it does not fit."""
    cdef _Mapped m = _Mapped()
    m.take(memory, 0, c_arena_bytes(small_count, large_count))
    c_arena_format(m.base, small_count, large_count)


cdef class ArenaOwner(_Arena):
    """The owner of an arena, which alone allocates, writes and frees."""

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
        """Return the numbers of free small and large blocks."""
        return self.owner.free_count[<int> ARENA_SMALL], self.owner.free_count[<int> ARENA_LARGE]

    def free_chain(self, uint32_t head) -> int:
        """Give a chain and its key block back; return the number of blocks."""
        return arena_free_chain(&self.owner, head)

    def begin(self, bint large=False) -> "ChainWriter | None":
        """Begin a new chain; return None if no block is left."""
        cdef ChainWriter w = ChainWriter.__new__(ChainWriter, self)
        w.want = ARENA_LARGE if large else ARENA_SMALL
        return w if chain_begin(&self.owner, &w.writer, w.want) else None

    def write(self, bytes content, bint large=False) -> int | None:
        """Write a complete chain with this content; return None, and take nothing, if the arena has no room."""
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
        """Append; return False, with a part written, if the arena is used up."""
        return chain_write(&self.owner.owner, &self.writer, self.want, PyBytes_AS_STRING(content), len(content))

    def publish(self, int state=CONTENT_RECEIVING) -> None:
        """Show readers what is written."""
        chain_publish(&self.owner.owner, &self.writer, state)

    def trim(self, uint64_t consumed) -> int:
        """Free the blocks that every reader has read; return their number."""
        return chain_trim(&self.owner.owner, &self.writer, consumed)
