# cython: language_level=3
"""The forwarder as the control plane sees it: its tables and its loop.

Per-message work is in the C files of the rooms below. Python runs for control records, for unresolved addresses
and for ticks.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from core.forwarder.machine cimport *

NOTHING, CONTROL = STOP_NOTHING, STOP_CONTROL
UNKNOWN, LOCAL, HELD = STOP_UNKNOWN, STOP_LOCAL, STOP_HELD
ALIASES = ALIAS_BYTES
PHASES = <uint32_t> ALIAS_PHASES   # an address's phase as a scope is this plus the phase
CONTROL_LINK, DATA_LINK = LINK_CONTROL, LINK_DATA
STREAM_LINK = LINK_STREAM
ROUTED_LINK = LINK_ROUTED


cdef class Forwarder:
    """The tables of one core and its native loop. Methods raise ValueError, KeyError (invalid handles) and MemoryError."""

    cdef core_router *core
    cdef Py_buffer held[67]        # control, rings, and an arena for each worker and the core, mapped as long as this object
    cdef int holds

    def __cinit__(self, uint32_t workers, control, rings, arenas, doorbells, *, semaphore=None, uint64_t seed=0, uint32_t active=0):
        if not 1 <= workers <= ROUTERD_MAX_WORKERS or len(arenas) != workers + 1 or len(doorbells) != workers:
            raise ValueError(f"{workers} workers need as many doorbells and one arena more, 1 to {ROUTERD_MAX_WORKERS}")
        self.core = <core_router *> calloc(1, sizeof(core_router))
        if self.core is NULL:
            raise MemoryError()
        cdef uint8_t *control_base = self.take(control, layout_control_bytes(workers))
        cdef uint8_t *rings_base = self.take(rings, layout_rings_bytes(workers))
        cdef uint32_t i
        cdef const char *wrong = NULL
        self.core.active = active if 0 < active <= workers else workers
        for i in range(workers + 1):
            base = <uintptr_t> self.take(arenas[i], 0)
            if not arena_attach(&self.core.arena[i], <void *> <uintptr_t> base, self.held[self.holds - 1].len):
                raise ValueError(f"segment of arena {i}: it is no arena of its size")
        for i in range(workers):
            wrong = setup_worker(self.core, i, control_base, rings_base, doorbells[i])
            if wrong is not NULL:
                raise ValueError(f"rings of worker {i}: {wrong.decode()}")
        wrong = core_open(self.core, workers, control_base, seed)
        if wrong is not NULL:
            raise ValueError(wrong.decode())
        if semaphore is not None:
            name = semaphore.encode()
            self.core.sem = sem_open(name, 0)
            if self.core.sem == SEM_FAILED:
                self.core.sem = NULL
                raise ValueError(f"semaphore {semaphore} cannot be opened: is the supervisor alive?")

    def __dealloc__(self):
        cdef int i
        if self.core is not NULL:
            core_close(self.core)
            free(self.core)
        for i in range(self.holds):
            PyBuffer_Release(&self.held[i])

    cdef uint8_t *take(self, memory, size_t least) except NULL:
        cdef Py_buffer *b = &self.held[self.holds]
        PyObject_GetBuffer(memory, b, PyBUF_SIMPLE | PyBUF_WRITABLE)
        self.holds += 1
        if <size_t> b.len < least or <uintptr_t> b.buf % 64:
            raise ValueError(f"a segment of {least} bytes at a multiple of 64 is needed, not of {b.len}")
        return <uint8_t *> b.buf

    cdef int worker_known(self, uint32_t worker) except -1:
        if worker >= self.core.workers:
            raise ValueError(f"there is no worker {worker}")
        return 0

    cdef int place_known(self, uint32_t place) except -1:
        if place > self.core.workers:
            raise ValueError(f"there is no worker {place}")
        return 0

    cdef core_link *link(self, uint32_t worker, uint32_t link, uint32_t generation) except? NULL:
        """Return a link of a worker or of the core, or NULL."""
        self.place_known(worker)
        return link_find(self.core, worker, link, generation)

    cdef core_address *address(self, uint64_t handle) except NULL:
        cdef core_address *a = <core_address *> pool_find(&self.core.addresses, handle)
        if a is NULL:
            raise KeyError(f"no address has the handle {handle:#x}")
        return a

    # ---- the loop ----

    def step(self, uint64_t now) -> int:
        """Handle all pending actions at ``now``, in ns. Return NOTHING, or CONTROL, UNKNOWN, LOCAL or HELD if Python is needed."""
        cdef int stop
        with nogil:
            stop = core_step(self.core, now)
        return stop

    def run(self, uint64_t timeout, uint64_t busy=0) -> int:
        """Forward, and sleep for up to ``timeout`` ns after polling for ``busy`` ns. Return as ``step``; NOTHING may also
        mean that another thread has posted the semaphore."""
        if self.core.sem is NULL:
            raise ValueError("run needs a semaphore to sleep on; use step")
        cdef int stop
        with nogil:
            core_publish(self.core)
            stop = core_run(self.core, clock_now() + timeout, busy)
        return stop

    def drain(self, uint32_t worker, uint64_t now) -> int:
        """Handle all actions of one worker. Return as ``step``."""
        self.worker_known(worker)
        cdef uint32_t handled = 0
        cdef int stop
        self.core.now = now
        with nogil:
            stop = core_batch(self.core, worker, 0xffffffff, &handled)
        return stop

    def publish(self) -> None:
        """Publish what Python has posted now, and not at the next step."""
        core_publish(self.core)

    def control(self) -> tuple[int, int, bytes | None]:
        """Return worker, kind and payload (None: invalid) after CONTROL, and free the worker's block."""
        cdef core_router *c = self.core
        cdef uint32_t w = c.stop_worker
        cdef arena_content *content = NULL
        if c.control.arena == w:
            content = arena_content_of(&c.arena[w], c.control.block)
        if content is NULL:
            count_bad(c)
            return w, c.control.state, None
        cdef uint64_t length = chain_length(content)
        payload = None
        if length <= CONTENT_CONTROL_MAX:
            payload = PyBytes_FromStringAndSize(NULL, <Py_ssize_t> length)
            if not content_copy(&c.arena[w], c.control.block, 0, <uint8_t *> PyBytes_AS_STRING(payload), <uint32_t> length,
                                CONTENT_HOPS):
                payload = None
        if payload is None:
            count_bad(c)
        core_release(c, <uint8_t> w, c.control.block, NULL, 0)
        return w, c.control.state, payload

    def unknown(self) -> tuple[bytes, int]:
        """Return a message's `to` and its link's scope after UNKNOWN. The message waits for their ``add_alias``."""
        return PyBytes_FromStringAndSize(<char *> self.core.text, self.core.text_length), self.core.text_scope

    def unpark(self, uint32_t worker, uint32_t link, uint32_t generation) -> bool:
        """Handle what waits on a link that is about to go. Return True if ``unknown`` tells an address to find first."""
        cdef core_link *l = self.link(worker, link, generation)
        return l is not NULL and park_finish(self.core, l) == STOP_UNKNOWN

    def hold(self, uint32_t worker, bint on) -> None:
        """Let the records of a worker wait, or no longer. Each turn returns HELD while there is such a worker."""
        self.worker_known(worker)
        self.core.held = self.core.held & ~(<uint64_t> 1 << worker) | <uint64_t> on << worker

    # ---- addresses ----

    def add_address(self, uint8_t treatment, int priority=-1, bint listed=True, uint8_t phase=0) -> int:
        """Add an address and return its handle. ``treatment`` is an index into core.addresses.addresses.TREATMENTS.
        ``priority`` is -1 for each message's own. ``listed`` addresses may appear among the busiest."""
        if treatment > T_FLOOD or not -1 <= priority <= 9 or phase > 9:
            raise ValueError(f"no treatment {treatment}, no priority {priority} or no phase {phase}")
        cdef core_address *a = <core_address *> pool_take(&self.core.addresses)
        if a is NULL: raise MemoryError()
        a.treatment = treatment
        a.priority = <int8_t> priority
        a.unlisted = not listed
        a.phase = phase
        return pool_handle(a)

    def set_text(self, uint64_t handle, bytes text not None) -> None:
        """Set what other routers are told of an address when a message does not name it."""
        cdef core_address *a = self.address(handle)
        text_disown(self.core, a.text)
        a.text = text_new(<const uint8_t *> PyBytes_AS_STRING(text), <uint32_t> PyBytes_GET_SIZE(text))

    def set_treatment(self, uint64_t handle, uint8_t treatment, int priority=-1) -> None:
        """Change an address's treatment from the next message on. Arguments are as for ``add_address``."""
        if treatment > T_FLOOD or not -1 <= priority <= 9:
            raise ValueError(f"no treatment {treatment} or no priority {priority}")
        cdef core_address *a = self.address(handle)
        a.treatment = treatment
        a.priority = <int8_t> priority
        ranks_settle(a)

    def set_fallback(self, uint64_t handle, uint64_t fallback=0) -> None:
        """Set the address that gets what finds no receiver at this one; 0: none."""
        cdef core_address *a = self.address(handle)
        address_set_fallback(self.core, a, self.address(fallback) if fallback else NULL)

    def remove_address(self, uint64_t handle) -> bool:
        """Remove an address. Return False if links or aliases still use it."""
        cdef core_address *a = self.address(handle)
        if not address_idle(a): return False
        address_free(self.core, a)
        return True

    def add_alias(self, bytes text not None, uint64_t handle, uint32_t scope=0, bint agent=False) -> None:
        """Let messages of a scope's links to ``text`` go to an address; handle 0 rejects them as unauthorized. ``agent``
        marks a management agent's address."""
        if not alias_insert(self.core, scope, <const uint8_t *> PyBytes_AS_STRING(text), <uint32_t> PyBytes_GET_SIZE(text),
                            self.address(handle) if handle else NULL, agent):
            raise MemoryError()

    def evict_alias(self) -> int | None:
        """Forget an alias if all of them cost more than ALIASES bytes. Return the handle of an address that this made
        idle, 0 without one, and None if they do not cost too much."""
        cdef core_address *idle = NULL
        if not alias_evict(self.core, &idle): return None
        return 0 if idle is NULL else pool_handle(idle)

    @property
    def now(self) -> int:
        """The time of the present turn, in nanoseconds."""
        return self.core.now

    def address_info(self, uint64_t handle) -> dict[str, int]:
        """Return an address's counts, for inspection."""
        cdef core_address *a = self.address(handle)
        cdef uint32_t i, own = sum([a.out[i].worker == self.core.workers for i in range(a.out_count)])
        return {"treatment": a.treatment, "priority": a.priority, "outgoing": a.out_count, "own": own, "incoming": a.in_count,
                "deliveries": a.deliveries, "ingress": a.ingress, "to_core": a.to_core, "from_core": a.from_core,
                "transit": a.transit, "reached": int(a.reached), "redirects": int(a.redirects), "redirected": a.redirected,
                "to_containers": a.to_containers, "from_containers": a.from_containers}

    def set_exit(self, uint64_t handle) -> None:
        """Set the address, which must stay, for an edge router's anonymous messages without another path."""
        self.core.exit = self.address(handle)

    # ---- links ----

    def add_link(self, uint32_t worker, uint32_t link, uint32_t generation, terms not None) -> bool:
        """Add a link of a worker, or of the core (``worker`` is the number of workers), on LinkTerms. Return False if
        its index is taken or invalid."""
        self.place_known(worker)
        cdef core_link t
        cdef uint64_t address = terms.address
        cdef bytes text = terms.text
        memset(&t, 0, sizeof(t))
        t.address = self.address(address) if address else NULL
        t.outgoing, t.capacity, t.granted, t.settles = terms.outgoing, terms.capacity, terms.granted, terms.settles
        t.scope, t.edge, t.annotated, t.wants_override = terms.scope, terms.edge, terms.annotated, terms.wants_override
        t.fallback, t.container, t.to_table, t.growth = terms.fallback, terms.container, terms.to_table, terms.grows
        if not address and terms.connection is not None:
            t.connection = terms.connection + 1
        cdef core_link *l = link_add(self.core, worker, link, generation, &t)
        if l is not NULL and text is not None and not l.outgoing:
            l.text = text_new(<const uint8_t *> PyBytes_AS_STRING(text), <uint32_t> PyBytes_GET_SIZE(text))
        return l is not NULL

    def remove_link(self, uint32_t worker, uint32_t link, uint32_t generation, bint failed=False) -> bool:
        """Settle a link's deliveries and remove it. Return False if it is unknown."""
        cdef core_link *l = self.link(worker, link, generation)
        if l is NULL: return False
        link_remove(self.core, l, failed)
        return True

    def thin_link(self, uint32_t worker, uint32_t link, uint32_t generation) -> bool:
        """End some deliveries of a link before it is removed. Return True if others are left for another portion."""
        cdef core_link *l = self.link(worker, link, generation)
        return l is not NULL and link_thin(self.core, l)

    def move_link(self, uint32_t worker, uint32_t link, uint32_t generation, uint64_t address) -> bool:
        """Let an outgoing link receive from another address. Return False if it is unknown."""
        cdef core_link *l = self.link(worker, link, generation)
        if l is NULL or not l.outgoing or l.address is NULL or l.leaving: return False
        if not link_move(self.core, l, self.address(address)): raise MemoryError()
        return True

    def link_last(self, uint32_t worker, uint32_t link, uint32_t generation) -> int:
        """Return when its last delivery came, in nanoseconds; 0: never, or the link is unknown."""
        cdef core_link *l = self.link(worker, link, generation)
        return 0 if l is NULL else l.counts.last

    def link_info(self, uint32_t worker, uint32_t link, uint32_t generation) -> dict[str, int] | None:
        """Return a link's counts, for inspection, or None if it is unknown."""
        cdef core_link *l = self.link(worker, link, generation)
        if l is NULL:
            return None
        cdef core_stalled stalled = stall_of(self.core, l)
        return {"outgoing": int(l.outgoing), "count": l.count, "granted": l.granted, "withheld": 0 if l.outgoing else l.withheld,
                "draining": int(l.draining), "deliveries": l.deliveries, "capacity": l.capacity, "last": l.counts.last,
                "accepted": l.counts.outcome[0], "rejected": l.counts.outcome[1], "released": l.counts.outcome[2],
                "modified": l.counts.outcome[3], "presettled": l.counts.presettled, "dropped": l.counts.dropped,
                "delayed_1": l.counts.delayed_1, "delayed_10": l.counts.delayed_10, "stuck": stalled.stuck,
                "dry_since": stalled.dry_since, "rate": link_rate(&l.counts, <uint32_t> (self.core.now >> RATE_SHIFT))}

    def stuck_at(self, uint32_t worker, uint32_t link, uint32_t generation) -> tuple[int, int, int] | None:
        """Return worker, index and generation of the link that holds up an incoming one's first stuck delivery, or None."""
        cdef core_link *found = self.link(worker, link, generation)
        cdef core_link *l = NULL if found is NULL else stall_holder(self.core, found)
        return None if l is NULL else (l.worker, l.link, l.link_gen)

    def own_work(self) -> tuple[int, int, int, int, int, int, int, int, tuple[int, int, int] | None] | None:
        """Return the next work for the core itself after LOCAL, or None when there is no more. The items are type,
        flags, link, peer, arena and block; the place of the router that sent it (-1: none); the number of octets in
        front that only routers read; and worker, index and generation of the link that it came on (None: unknown)."""
        cdef routerd_record r
        if not local_take(self.core, &r):
            return None
        if r.type != W_SEND:
            return r.type, r.flags, r.link, r.peer, r.arena, r.block, -1, 0, None
        source = (r.length - 1, r.delivery & 0xffffffff, r.delivery >> 32) if r.length else None
        return r.type, r.flags, r.link, r.peer, r.arena, r.block, <int> r.credit - 1, r.time, source

    def own_action(self, uint8_t type, uint8_t flags, uint64_t delivery, uint32_t state=0, uint64_t length=0) -> None:
        """Report on a delivery to the core as a worker would: A_UPDATE, A_DONE or A_PROGRESS."""
        cdef routerd_record r
        memset(&r, 0, sizeof(r))
        r.type = type
        r.flags = flags
        r.delivery = delivery
        r.state = state
        r.length = length
        core_action(self.core, self.core.workers, &r)

    def own_send(self, uint32_t link, uint64_t address, bytes content not None, bint control=False) -> int | None:
        """Send a message from a link of the core to an address that leads somewhere. Return the block, which comes
        back with W_RELEASE, or None without room: half of the core's arena is reserved for control payloads.
        ``control`` sends to other routers only, over control links. Raises KeyError."""
        cdef core_router *c = self.core
        cdef core_address *a = self.address(address)
        cdef core_link *l = link_find(c, c.workers, link, 1)
        if l is NULL or not address_has_way(a):
            raise KeyError(f"the core has no link {link}, or nobody receives from {address:#x}")
        if not own_room(c, PyBytes_GET_SIZE(content)):
            return None
        cdef uint32_t block = local_send(c, l, a, <const uint8_t *> PyBytes_AS_STRING(content), <uint32_t> PyBytes_GET_SIZE(content), control)
        return None if block == ROUTERD_NIL else block

    def look(self) -> bool:
        """Examine some links. Return True at the end of a pass, when ``counts`` are up to date."""
        return stall_step(self.core)

    # ---- workers ----

    def post_control(self, uint32_t worker, uint32_t kind, bytes payload not None) -> None:
        """Post a W_CONTROL record. A payload without room waits, with everything behind it."""
        self.worker_known(worker)
        if not core_post_control(self.core, worker, kind, <const uint8_t *> PyBytes_AS_STRING(payload),
                                 <uint32_t> PyBytes_GET_SIZE(payload)):
            raise MemoryError()

    def reclaim(self, uint32_t worker) -> None:
        """Reclaim what a dead worker held, after ``drain`` has handled its actions."""
        self.worker_known(worker)
        core_reclaim(self.core, worker)
        stats_add(self.core.stats, N_WORKERS_RECLAIMED, 1)

    def empty_place(self, uint32_t worker) -> None:
        """Reclaim what a worker without a successor held."""
        self.worker_known(worker)
        place_empty(self.core, worker)

    def fill_place(self, uint32_t worker) -> None:
        """Prepare an empty place for a worker."""
        self.worker_known(worker)
        place_fill(self.core, worker)

    def count(self, uint32_t which, uint64_t more=1) -> None:
        """Add to a counter of shm/statistics/counters.h."""
        stats_add(self.core.stats, which, more)

    def gauge(self, uint32_t which, uint64_t value) -> None:
        """Set a gauge of shm/statistics/counters.h."""
        stats_set(self.core.stats, which, value)

    def bad(self) -> None:
        """Count an invalid control record."""
        count_bad(self.core)

    def stale(self) -> None:
        """Count a control record about something that is gone."""
        count_stale(self.core)

    def counts(self) -> dict[str, int]:
        """Return how full the tables are. Without connections all but configured addresses are 0.

        ``unaddressed`` is what the statistics page has counted of copies for which there was no room.
        """
        cdef core_router *c = self.core
        return {"incoming": c.ins.live, "outgoing": c.outs.live, "links": c.links.live, "addresses": c.addresses.live,
                "aliases": c.aliases.count, "alias_bytes": c.aliases.bytes, "payloads": c.payloads.count, "overflow": core_overflow(c),
                "free_small": c.own.free_count[0], "free_large": c.own.free_count[1], "waiting": c.stall.waiting if c.stall else 0,
                "stuck": c.stall.stuck if c.stall else 0, "blocked": c.stall.blocked if c.stall else 0,
                "unaddressed": stats_get(c.stats, N_UNADDRESSED)}


cdef class Part:
    """What the control plane sees of a part of a forwarder's tables."""

    cdef Forwarder forwarder

    def __cinit__(self, Forwarder forwarder not None):
        self.forwarder = forwarder


include "delivery/agents.pxi"
include "inspection/busiest.pxi"
include "changes/nodes.pxi"
include "delivery/exchanges.pxi"
include "delivery/link_route_pairs.pxi"
include "../rmr/forwarding/tables.pxi"
include "inspection/pools.pxi"
include "turns/flight.pxi"
include "turns/way.pxi"
include "../flow_log/flow_log.pxi"
