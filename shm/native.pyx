# cython: language_level=3
"""The Python view of the C11 headers of the shared-memory contract.

It formats and checks segments and reads statistics; no message passes through it. Other extensions include the
headers and take the address of a segment as an integer (``address``).

An object on a buffer keeps that buffer alive: a mapping that still has one cannot be closed (BufferError).
"""

from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t, uintptr_t
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.string cimport memcpy

cdef extern from "shm/memory/layout.h" nogil:  # functions of Python, too
    cpdef size_t stats_offset "layout_stats"(uint32_t slot)
    cpdef size_t board_offset "layout_board"(uint32_t places)
    cpdef size_t journal_offset "layout_journal"(uint32_t places, uint32_t slot)
    cpdef size_t control_bytes "layout_control_bytes"(uint32_t places)
    cpdef size_t action_ring_offset "layout_action_ring"(uint32_t worker)
    cpdef size_t work_ring_offset "layout_work_ring"(uint32_t worker)
    cpdef size_t rings_bytes "layout_rings_bytes"(uint32_t places)

MAX_WORKERS = ROUTERD_MAX_WORKERS
RING_CAPACITY = LAYOUT_RING_CAPACITY
CORE_ARENA_BYTES = LAYOUT_CORE_ARENA_BYTES
LINK_CREDIT, LINK_CREDIT_MOST = ROUTERD_LINK_CREDIT, ROUTERD_LINK_CREDIT_MOST
STREAM_SESSIONS, ROUTED_SESSIONS = first_stream, first_routed
BUCKET_FLOORS = tuple([stats_bucket_floor(i) for i in range(STATS_BUCKETS)])
COUNTERS = [(counter_lines[i].name.decode().lower(), counter_lines[i].place, counter_lines[i].kind.decode().lower(),
             counter_lines[i].writers.decode(), counter_lines[i].text.decode()) for i in range(COUNTER_LINES)]
HISTOGRAMS = {histogram_lines[i].name.decode().lower(): histogram_lines[i].place for i in range(HISTOGRAM_LINES)}
SECTIONS = {section_names[i].text.decode(): section_names[i].code for i in range(SECTION_COUNT)}

cdef class Mapped:
    """A part of a buffer, which this object keeps alive; a reader's buffer may be read-only."""

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.buffer)

    cdef int take(self, object memory, size_t offset, size_t least, bint writable=True) except -1:
        PyObject_GetBuffer(memory, &self.buffer, PyBUF_SIMPLE | (PyBUF_WRITABLE if writable else 0))
        self.held = True
        cdef size_t length = <size_t> self.buffer.len
        if offset > length or length - offset < least:
            raise ValueError(f"{least} bytes at {offset} do not fit in {length} bytes of memory")
        self.base = <uint8_t *> self.buffer.buf + offset
        self.size = length - offset
        if <uintptr_t> self.base % 64:
            raise ValueError("shared structures begin at a multiple of 64 bytes; use mmap")
        return 0

    cdef int writable(self) except -1:
        if self.buffer.readonly:
            raise TypeError("this memory is mapped to be read only")
        return 0


def address(memory) -> int:
    """Return the address of a writable buffer, for extensions; it is valid while the buffer is open."""
    cdef Mapped m = Mapped()
    m.take(memory, 0, 0)
    return <uintptr_t> m.base


# ---- layout ------------------------------------------------------------------------------------------------------

def format_control(memory, uint32_t places, uint64_t arena_bytes) -> None:
    """Write a control segment's header, with all places filled, and mark the statistics pages; all else stays."""
    cdef Mapped m = Mapped()
    m.take(memory, 0, control_bytes(places))
    layout_format_control(m.base, places, arena_bytes)


def format_rings(memory, uint32_t workers) -> None:
    """Format a zeroed segment as the empty rings of all workers."""
    cdef Mapped m = Mapped()
    m.take(memory, 0, rings_bytes(workers))
    layout_format_rings(m.base, workers)


def mend_rings(memory, uint32_t workers) -> None:
    """Write again what check_rings checks of all workers' rings; their records stay."""
    cdef Mapped m = Mapped()
    m.take(memory, 0, rings_bytes(workers))
    layout_mend_rings(m.base, workers)


def format_arena_segment(memory) -> None:
    """Write an arena's header: small blocks have a third of its bytes, large ones two thirds. The marks stay."""
    cdef Mapped m = Mapped()
    m.take(memory, 0, 65536)
    layout_format_arena(m.base, m.size)


def wake_core(memory) -> None:
    """Reset the core's doorbell in a control segment: the core is awake."""
    cdef Mapped m = Mapped()
    m.take(memory, layout_core_doorbell(), sizeof(routerd_doorbell))
    doorbell_wake(<routerd_doorbell *> m.base)


cdef wrong(const char *what):
    return None if what is NULL else what.decode("ascii")


def check_control(memory) -> str | None:
    """Return what is wrong with a control segment; None if nothing is."""
    cdef Mapped m = Mapped()
    m.take(memory, 0, 0, False)
    return wrong(layout_check_control(m.base, m.size))


def control_header(memory) -> tuple[int, int]:
    """Return the number of places and the bytes of a worker's arena from a checked control segment."""
    cdef Mapped m = Mapped()
    m.take(memory, 0, sizeof(layout_control), False)
    return (<layout_control *> m.base).places, (<layout_control *> m.base).arena_bytes


def workers(memory) -> tuple[int, int]:
    """Return the number of workers and its maximum since the router's start from a checked control segment."""
    cdef Mapped m = Mapped()
    m.take(memory, 0, sizeof(layout_control), False)
    return layout_workers(<layout_control *> m.base), layout_most(<layout_control *> m.base)


def set_workers(memory, uint32_t workers, uint32_t most) -> None:
    """Set the number of workers and its maximum since the router's start."""
    cdef Mapped m = Mapped()
    m.take(memory, 0, sizeof(layout_control))
    layout_set_workers(<layout_control *> m.base, workers, most)


def check_rings(memory, uint32_t workers) -> str | None:
    """Return what is wrong with a rings' segment; None if nothing is."""
    cdef Mapped m = Mapped()
    m.take(memory, 0, 0, False)
    return wrong(layout_check_rings(m.base, m.size, workers))


def check_arena(memory) -> str | None:
    """Return what is wrong with an arena's segment; None if nothing is."""
    cdef Mapped m = Mapped()
    m.take(memory, 0, 0)
    return wrong(layout_check_arena(m.base, m.size))


# ---- statistics --------------------------------------------------------------------------------------------------

cdef class StatsPage(Mapped):
    """A statistics page; shm/statistics/stats.py maps names to indices. Raises ValueError if there is no page.

    Readers may map it read-only; a writer's method then raises TypeError.
    """

    cdef stats_page *page

    def __cinit__(self, memory, size_t offset):
        self.take(memory, offset, STATS_PAGE_BYTES, False)
        self.page = <stats_page *> self.base
        if self.page.magic != STATS_MAGIC:
            raise ValueError("there is no statistics page")

    @property
    def pid(self) -> int:
        """The process id of the page's current writer; 0: there is none."""
        return self.page.pid

    @property
    def generation(self) -> int:
        """The generation of the page's current or last writer."""
        return self.page.generation

    @property
    def heartbeat(self) -> int:
        """The number of turns of the writer's loop."""
        return self.page.heartbeat

    def own(self, uint32_t pid, uint32_t generation) -> None:
        """Writer: own the page from now on; a pid of 0 gives it up."""
        self.writable()
        self.page.generation = generation
        self.page.pid = pid

    def beat(self) -> None:
        """Writer: count one turn of the loop."""
        self.writable()
        stats_beat(self.page)

    def get(self, uint32_t which) -> int:
        """Return a counter or gauge."""
        self.among(which, STATS_COUNTERS)
        return stats_get(self.page, which)

    def set(self, uint32_t which, uint64_t value) -> None:
        """Writer: set a gauge."""
        self.writable()
        self.among(which, STATS_COUNTERS)
        stats_set(self.page, which, value)

    def add(self, uint32_t which, uint64_t n=1) -> None:
        """Writer: add to a counter."""
        self.writable()
        self.among(which, STATS_COUNTERS)
        stats_add(self.page, which, n)

    def histogram(self, uint32_t which) -> tuple[int, list[int]]:
        """Return the sum of a histogram's values and its counts by bucket (``BUCKET_FLOORS``)."""
        self.among(which, STATS_HISTOGRAMS)
        return self.page.histogram[which].sum, [self.page.histogram[which].bucket[i] for i in range(STATS_BUCKETS)]

    cdef int among(self, uint32_t which, uint32_t count) except -1:
        if which >= count:
            raise IndexError(f"{which} is not one of {count}")
        return 0


include "native_arena.pxi"
include "native_board.pxi"
include "native_flow.pxi"
include "native_spans.pxi"
