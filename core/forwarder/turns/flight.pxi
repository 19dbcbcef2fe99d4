"""The flight recorder, and a core that replays what it wrote (shm/memory/flight.h). Part of forward.pyx."""

from libc.stdint cimport uint16_t

cdef extern from "shm/memory/flight.h" nogil:
    cdef enum:
        FLIGHT_CALL, LAYOUT_VERSION
    bint flight_open(core_flight *, void *, size_t, const flight_header *)
    void flight_octets(core_flight *, uint8_t, uint16_t, uint64_t, const void *, uint32_t)

cdef extern from "core/forwarder/recording/recording.h" nogil:
    uint64_t checkpoint_room(const core_flight *)

cdef extern from "core/forwarder/recording/image.h" nogil:
    uint64_t image_mark()
    const char *checkpoint_restore(core_router *, uint32_t, const uint8_t *, uint32_t)
    const char *checkpoint_restored(core_router *)

cdef extern from "core/forwarder/turns/turns.h" nogil:
    void core_portion(core_router *, bint, uint32_t)
    ctypedef struct replay_key:
        uint32_t worker, block, what, owner
        uint64_t source
        int32_t type, subscription
    int replay_action(core_router *, uint32_t, const routerd_record *, uint64_t, const replay_key *)
    bint replay_keyed(core_router *, replay_key *, const replay_key *)
    bint replay_work(core_router *, uint32_t, routerd_record *)
    bint replay_text(core_router *, uint32_t, uint32_t, uint32_t, uint32_t, uint64_t)
    bint replay_routed(core_router *, uint32_t, uint32_t, const uint8_t *)
    bint replay_state(core_router *, uint32_t, uint32_t, uint32_t)
    bint exchange_give(core_exchange *, uint32_t)
    void exchange_given_over(core_exchange *)
    void alias_forgotten(core_router *, uint32_t, const uint8_t *, uint32_t)

cdef extern from "core/forwarder/tables/access.h" nogil:
    const int FLIGHT_TEXT_ABOUT
    bint text_about_addresses(const uint8_t *, uint32_t)

IMAGE_MARK = image_mark()
RECORD_LAYOUT = LAYOUT_VERSION


cdef bytes stand_in(uint64_t hashed, bint about):
    """Return what stands for a text in a recording, as flight_stand_in() in flight.c."""
    return b"%016x" % hashed + (b"/qdrouter.ma" if about else b"")


cdef class Flight:
    """Records what a forwarder is given and makes, as long as this object lives.

    ``memory`` is the segment, ``generation`` and ``pid`` are the core's; ``began`` and ``wall`` are now in nanoseconds of CLOCK_MONOTONIC and since 1970; ``texts``
    tells whoever reads it that addresses stand in it. Raises ValueError if the segment is no ring.
    """

    cdef Forwarder forwarder
    cdef core_flight ring
    cdef Py_buffer held
    cdef bint holds

    def __cinit__(self, Forwarder forwarder not None, memory, uint32_t generation, uint32_t pid, uint64_t began, uint64_t wall, bint texts=False):
        cdef flight_header about
        self.forwarder = forwarder
        PyObject_GetBuffer(memory, &self.held, PyBUF_SIMPLE | PyBUF_WRITABLE)
        self.holds = True
        memset(&about, 0, sizeof(about))
        about.layout, about.image = LAYOUT_VERSION, image_mark()
        about.places, about.workers = forwarder.core.workers, forwarder.core.active
        about.generation, about.pid = generation, pid
        about.began, about.wall, about.texts = began, wall, texts
        about.arena_bytes, about.core_arena_bytes = forwarder.held[2].len, forwarder.held[2 + forwarder.core.workers].len
        if not flight_open(&self.ring, self.held.buf, <size_t> self.held.len, &about):
            raise ValueError("the flight recorder's segment has no valid size")
        forwarder.core.flight = &self.ring

    def __dealloc__(self):
        if self.holds:
            if self.forwarder is not None and self.forwarder.core.flight is &self.ring:
                self.forwarder.core.flight = NULL
            PyBuffer_Release(&self.held)

    def call(self, uint16_t kind, bytes octets not None) -> None:
        """Record a call of the control plane, before it is made."""
        flight_octets(&self.ring, FLIGHT_CALL, kind, self.forwarder.core.now, PyBytes_AS_STRING(octets), <uint32_t> PyBytes_GET_SIZE(octets))

    @property
    def room(self) -> int:
        """Lines that a checkpoint may take."""
        return checkpoint_room(&self.ring)

    def blind(self) -> None:
        """Record that what follows cannot be replayed."""
        self.ring.header.blind = 1

    def hashed(self, bytes text not None, uint32_t scope) -> bytes:
        """Return what stands for a text that a scope's links name."""
        cdef const uint8_t *octets = <const uint8_t *> PyBytes_AS_STRING(text)
        cdef uint32_t length = <uint32_t> PyBytes_GET_SIZE(text)
        hashed = alias_hash_in(self.forwarder.core.aliases.seed, scope, octets, length)
        return stand_in(hashed, text_about_addresses(octets, length))


cdef class Replay(Part):
    """A forwarder that is given again what a recording says, on segments of its own."""

    cdef replay_key given          # of the next action's message

    def restore(self, uint32_t kind, bytes octets not None) -> str | None:
        """Take an entry of a checkpoint. Return what is wrong with it."""
        cdef const char *wrong = checkpoint_restore(self.forwarder.core, kind, <const uint8_t *> PyBytes_AS_STRING(octets),
                                                    <uint32_t> PyBytes_GET_SIZE(octets))
        return None if wrong is NULL else wrong.decode()

    def restored(self) -> str | None:
        """End a checkpoint, whose route tables are in use. Return what is wrong with it as a whole."""
        cdef const char *wrong = checkpoint_restored(self.forwarder.core)
        return None if wrong is NULL else wrong.decode()

    def named(self) -> list[int]:
        """Return the handles of addresses that the core itself names."""
        cdef core_router *c = self.forwarder.core
        found = [0 if c.agent is NULL else pool_handle(c.agent), 0 if c.exit is NULL else pool_handle(c.exit)]
        found.append(0 if c.network.border is NULL else pool_handle(c.network.border))
        return [one for one in found if one]

    def at(self, uint64_t now) -> None:
        """Set the time of the next call."""
        self.forwarder.core.now = now
        self.given.what = 0

    def action(self, uint32_t worker, bytes record not None, uint64_t now) -> int:
        """Handle an action of 64 octets. Return as ``Forwarder.step``."""
        self.forwarder.worker_known(worker)
        if PyBytes_GET_SIZE(record) != sizeof(routerd_record):
            raise ValueError("an action has 64 octets")
        cdef routerd_record r
        memcpy(&r, PyBytes_AS_STRING(record), sizeof(r))
        stop = replay_action(self.forwarder.core, worker, &r, now, &self.given)
        self.given.what = 0
        return stop

    def work(self, uint32_t worker) -> bytes | None:
        """Return the next work that was made for a worker, or None."""
        self.forwarder.worker_known(worker)
        cdef routerd_record r
        return PyBytes_FromStringAndSize(<char *> &r, sizeof(r)) if replay_work(self.forwarder.core, worker, &r) else None

    def portion(self, bint parked, uint32_t count, uint64_t now) -> None:
        """Give a turn to parked links, or to copies that are made in portions; ``count`` is that of its line."""
        self.at(now)
        core_portion(self.forwarder.core, parked, count)

    def text(self, uint32_t worker, uint32_t block, uint32_t length, uint32_t what, uint64_t hashed) -> bool:
        """Write the `to` of a message. Return False without such a block."""
        return replay_text(self.forwarder.core, worker, block, length, what, hashed)

    def routed(self, uint32_t worker, uint32_t block, bytes detail not None) -> bool:
        """Write what a message's header says of routers. Return False without such a block."""
        return PyBytes_GET_SIZE(detail) >= 28 and replay_routed(self.forwarder.core, worker, block, <const uint8_t *> PyBytes_AS_STRING(detail))

    def keyed(self, uint32_t worker, uint32_t block, uint32_t what, uint32_t owner, uint64_t source, bytes detail not None) -> bool:
        """Write what a route table asks for of a message. Return False without such a block."""
        cdef replay_key more = replay_key(worker=worker, block=block, what=what, owner=owner, source=source, type=0, subscription=0)
        if PyBytes_GET_SIZE(detail) < 8:
            return False
        memcpy(&more.type, PyBytes_AS_STRING(detail), 4)
        memcpy(&more.subscription, PyBytes_AS_STRING(detail) + 4, 4)
        return replay_keyed(self.forwarder.core, &self.given, &more)

    def give_exchange(self, uint64_t address) -> None:
        """Let a recording say which hops of an exchange messages match. Raises KeyError."""
        self.forwarder.address(address).exchange.state = EXCHANGE_GIVEN

    def hops(self, uint64_t address, bint first, uint64_t base, bytes bits not None) -> None:
        """Say which hops the next message through an exchange matches, in one call or several. Raises MemoryError."""
        cdef core_address *a = <core_address *> pool_find(&self.forwarder.core.addresses, address)
        cdef uint64_t i
        if a is NULL or a.exchange is NULL:
            return
        if first and not exchange_give(a.exchange, EXCHANGE_NONE):
            raise MemoryError()
        for i in range(8 * <uint64_t> len(bits)):
            if bits[i // 8] >> i % 8 & 1 and base + i < EXCHANGE_NONE and not exchange_give(a.exchange, <uint32_t> (base + i)):
                raise MemoryError()

    def hops_over(self, uint64_t address) -> None:
        """Forget what no message of this step has used."""
        cdef core_address *a = <core_address *> pool_find(&self.forwarder.core.addresses, address)
        if a is not NULL and a.exchange is not NULL:
            exchange_given_over(a.exchange)

    def state(self, uint32_t worker, uint32_t block, uint32_t state) -> bool:
        """Write the state of a message. Return False without such a block."""
        return replay_state(self.forwarder.core, worker, block, state)

    def forget(self, uint64_t hashed, uint32_t what, uint32_t scope) -> None:
        """Forget a text of a scope."""
        text = stand_in(hashed, what & FLIGHT_TEXT_ABOUT != 0)
        alias_forgotten(self.forwarder.core, scope, <const uint8_t *> PyBytes_AS_STRING(text), <uint32_t> PyBytes_GET_SIZE(text))
