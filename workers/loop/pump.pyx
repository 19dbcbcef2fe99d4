# cython: language_level=3, freethreading_compatible=False
"""The Python side of a worker's pump, which is native (workers/state/pump.h).

workers.loop.engine.load() has to run before this module is imported.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset, strlen, strncpy
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize

import os

from shm.contract.payloads import Attach, Termini, Terminus
from workers.loop.engine import VERSION as _ENGINE_VERSION
from workers.loop.libproton cimport *
from workers.loop.machine cimport *
from workers.source_routes.routes cimport *

cdef enum:
    VALUE_DEPTH = 8           # nesting of lists and maps in a peer's properties

include "../amqp/values.pxi"
include "../amqp/annotations.pxi"


cdef void on_event(void *self, int event, worker_connection *c, worker_link *k, void *obj, const routerd_record *r) noexcept with gil:
    cdef Pump pump = <Pump> self
    try:
        contained(pump, event, c, k, obj, r)
    except BaseException as error:   # run() raises it: no exception may unwind native frames
        if pump.error is None:
            pump.error = error
        pump.p.woken = True


cdef class Pump(AnnotatingPump):
    """The native side of a worker.

    The handler that it serves is called for everything that is not per message: ``connection_open(connection, generation)``,
    ``connection_close(…)``, ``connection_gone(connection, generation, opened, error, host)``, ``attach(…)``,
    ``link_lost(connection, link, generation, error)``, ``control(kind, payload)``, ``accept_failed(listener)`` and ``accept_again()``.
    ``segments`` is a shm.memory.segment.Segments and must outlive the pump.
    """

    cdef object handler, relays, segments, error
    cdef dict framed
    cdef layout_control *control

    def __cinit__(self, segments, int index, int workers, int doorbell_fd, int wake_fd, *,
                  int busy_poll_us=0, uint32_t most_links=MAX_LINKS):
        cdef uintptr_t control = segments.address("control")
        cdef uintptr_t rings = segments.address("rings"), base
        cdef size_t size
        cdef epoll_event e
        if not layers_found():
            raise ImportError(f"the AMQP engine's transport has another layout than the data lane knows; install python-qpid-proton {_ENGINE_VERSION}")
        memset(&self.p, 0, sizeof(self.p))
        self.segments = segments
        self.control = <layout_control *> control
        self.framed = {}                     # who serves a protocol, by its number
        self.p.identity = &self.identity
        self.p.index = index
        self.p.workers = workers
        for i in range(workers + 1):
            base = segments.address(f"arena-{i}")
            size = segments.size(f"arena-{i}")
            if not arena_attach(&self.p.views[i], <void *> base, size):
                raise ValueError(f"shared memory arena-{i} is not an arena of this version; restart the router")
        for i in range(workers):
            self.p.others[i] = <stats_page *> (control + layout_stats(i))
        self.p.stats = self.p.others[index]
        self.p.own_bell = <routerd_doorbell *> (control + layout_worker_doorbell(index))
        self.p.core_bell = <routerd_doorbell *> (control + LAYOUT_CORE_DOORBELL)
        if (not outbox_attach(&self.p.actions, <routerd_ring *> (rings + layout_action_ring(index)))
                or not ring_consume(&self.p.work, <routerd_ring *> (rings + layout_work_ring(index)))):
            raise ValueError("the rings in shared memory are malformed; restart the router")
        name = segments.names.semaphore.encode()
        self.p.core_semaphore = sem_open(name, 0)
        if self.p.core_semaphore == NULL:
            raise OSError(f"cannot open the core's semaphore {name!r}")
        if (not pool_open(&self.p.conns, sizeof(worker_connection), MAX_CONNECTIONS) or not pool_open(&self.p.links, sizeof(worker_link), most_links)
                or not pool_open(&self.p.ins, sizeof(in_delivery), MAX_DELIVERIES) or not pool_open(&self.p.outs, sizeof(out_delivery), MAX_DELIVERIES)
                or not arena_own(&self.p.arena, &self.p.views[index])):
            raise MemoryError("no address space for the worker's tables")
        self.p.collector = pn_collector()
        self.p.dirty_first = self.p.ending_first = self.p.stalled_first = self.p.stalled_last = ROUTERD_NIL
        self.p.low_small = self.p.views[index].small_count // 16
        self.p.low_large = self.p.views[index].large_count // 16
        self.p.reserve = max(CONTROL_RESERVE, self.p.low_small)
        self.p.busy_poll_ns = <uint64_t> busy_poll_us * 1000
        self.p.epoll_fd = epoll_create1(EPOLL_CLOEXEC)
        if self.p.epoll_fd < 0:
            raise OSError("epoll_create1 failed: too many open files?")
        # Nobody reads the doorbell: each ring is an event, and its count never gets near the end of 64 bits.
        for fd, kind, events in ((doorbell_fd, EPOLL_DOORBELL, EPOLLIN | EPOLLET), (wake_fd, EPOLL_WAKE, EPOLLIN)):
            e.events = events
            e.data.u64 = <uint64_t> kind << 60
            if epoll_ctl(self.p.epoll_fd, EPOLL_CTL_ADD, fd, &e) != 0:
                raise OSError(f"epoll_ctl failed for descriptor {fd}")
        self.p.on_event = on_event
        self.p.self = <void *> self

    def __dealloc__(self):
        if self.p.core_semaphore != NULL:
            sem_close(self.p.core_semaphore)
        if self.p.epoll_fd > 0:
            os.close(self.p.epoll_fd)
        framed_end(&self.p)
        arena_disown(&self.p.arena)
        pool_close(&self.p.conns)
        pool_close(&self.p.links)
        pool_close(&self.p.ins)
        pool_close(&self.p.outs)
        free(self.p.outs_of_core)

    # ---- set-up ----

    def serve(self, handler):
        """Call this handler from now on; None, at the end, means nobody."""
        self.handler = handler

    def add_listener(self, int fd, *terms):
        """Take over a listening socket, which all workers share, and return its place.

        ``terms`` are: number (connection_info returns it), maximum frame size (bytes), highest channel, idle
        timeout and handshake timeout (ms), link capacity, session window and that of the first session (frames), authenticate, SASL mechanisms.
        """
        cdef worker_listener *l = listener_new(&self.p)
        if l == NULL:
            raise ValueError(f"more than {MAX_LISTENERS} listening sockets")
        l.fd = -1
        listener_terms(l, terms)
        l.fd = fd
        l.hands_over = websocket_door(fd)
        listener_arm(&self.p, l, self.p.accepting)
        return l - self.p.listeners

    def change_listener(self, int place, *terms):
        """Replace a place's terms, for new connections and for new links and sessions of existing ones."""
        listener_terms(self.listener(place), terms)

    def remove_listener(self, int place):
        """Close a listening socket; its connections stay."""
        listener_close(&self.p, self.listener(place))

    cdef worker_listener *listener(self, int place) except NULL:
        if not 0 <= place < <int> self.p.listener_count:
            raise ValueError(f"there is no listening socket {place}")
        return &self.p.listeners[place]

    def accept(self, bint accepting):
        """Start or stop accepting connections."""
        if not accepting:
            listeners_arm(&self.p, False)
        self.p.accepting = accepting
        listeners_arm(&self.p, accepting)
        stats_set(self.p.stats, N_ACCEPTING, accepting)
        pressure_check(&self.p)             # publishes the number of free blocks from the start

    def withhold_credit(self):
        """Grant no more credit, so that senders come to rest in an orderly stop."""
        self.p.withhold = True

    # ---- running ----

    def run(self, double seconds):
        """Serve for at most ``seconds``, or until the control socket is readable. Raises a handler's exception."""
        cdef int64_t until = clock_ns() // 1000000 + <int64_t> (seconds * 1000)
        with nogil:
            pump_run(&self.p, until)
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        if self.p.actions.failed:
            raise MemoryError("out of memory: an action for the core was lost")

    @property
    def connections(self):
        return self.p.conns.used

    @property
    def unsettled(self):
        """The number of unsettled deliveries, in and out."""
        return self.p.unsettled

    cdef dispatch(self, int event, worker_connection *c, worker_link *k, void *obj, const routerd_record *r):
        cdef uint32_t index = pool_index(&self.p.conns, c) if c != NULL else 0
        if c != NULL and c.framed != NULL and framed_dispatch(self, event, index, c, k, obj): return
        if c != NULL and c.relay != NULL and relay_dispatch(self, event, index, c): return
        if event == EV_CONTROL:
            payload = self.payload(r)
            if payload is None or not self.handler.control(r.state, payload):
                stats_add(self.p.stats, N_BAD_RECORDS, 1)
        elif event == EV_ATTACH:
            self.attach(c, <pn_link_t *> obj)
        elif event == EV_DETACH or event == EV_LINK_LOST:
            error = condition(pn_link_remote_condition(k.engine)) if event == EV_DETACH else None
            if k.routed and event == EV_LINK_LOST: error = condition(pn_link_condition(k.engine))
            if k.asked:
                self.handler.link_refused(k.asked, error or condition(pn_link_condition(k.engine)))
            else:
                closed = event == EV_DETACH and pn_link_state(k.engine) & PN_REMOTE_CLOSED != 0
                self.handler.link_lost(pool_index(&self.p.links, k), k.slot.generation, error, closed, event == EV_LINK_LOST)
        elif event == EV_ATTACHED:
            if self.tell(k):
                k.asked = 0
        elif event == EV_CONNECTION_OPEN:
            self.handler.connection_open(index, c.slot.generation)
        elif event == EV_CONNECTION_CLOSE:
            self.handler.connection_close(index, c.slot.generation, condition(pn_connection_remote_condition(c.engine)))
        elif event == EV_CONNECTION_GONE:
            self.handler.connection_gone(index, c.slot.generation, c.opened, condition(pn_transport_condition(c.transport)))
        elif event == EV_ACCEPT_FAILED: self.handler.accept_failed((<worker_listener *> obj).config)
        elif event == EV_ACCEPT_AGAIN: self.handler.accept_again()
        elif event == EV_CERTIFICATES: self.handler.certificates_due(<worker_listener *> obj - self.p.listeners)
        elif event == EV_TRACE: self.handler.trace(index, text(<const char *> obj), c.trace == TRACE_ON)
        elif event == EV_MESSAGE: self.message(index, k, <message_seen *> obj)
        elif event == EV_ROUTE_SENDER: self.handler.senders.asked(index, pool_index(&self.p.links, k), k.slot.generation, k.router_initiated, target_of(k.engine))
        elif event == EV_SESSION_DENIED: self.handler.session_denied(index, c.slot.generation)
        elif event == EV_MESSAGE_REFUSED: self.handler.message_refused(index, text(<const char *> obj))
        elif event == EV_MESSAGE_DENIED: self.handler.message_denied(index, c.slot.generation)

    cdef message(self, uint32_t index, worker_link *k, message_seen *m):
        self.handler.tracing.messages.seen(index, text(pn_link_name(k.engine)), m.sent, m.bytes[:m.length])

    cdef bytes payload(self, const routerd_record *r):
        cdef uint64_t size = payload_size(&self.p, r.arena, r.block)
        if size > LAYOUT_CORE_ARENA_BYTES:
            return None
        cdef bytes out = PyBytes_FromStringAndSize(NULL, size)
        return out if payload_load(&self.p, r.arena, r.block, <uint8_t *> <char *> out, size) == <ssize_t> size else None

    cdef attach(self, worker_connection *c, pn_link_t *engine):
        cdef worker_link *k = link_new(&self.p, c, engine)
        if k == NULL:
            self.handler.guard.without_room(self.handler.peers.get(pool_index(&self.p.conns, c), "?"), text(pn_link_name(engine)))
            refuse_attach(engine, "amqp:resource-limit-exceeded", "this router has no room for another link")
            mark_dirty(&self.p, c)
        elif c.known and not self.p.detached:   # otherwise present() reports it with the others
            self.tell(k)

    # ---- a dead core, a new core ----

    def leave(self, bint died) -> None:
        """After the core's death or planned end, end all deliveries, and keep connections and links."""
        pump_leave(&self.p, died)
        unask(&self.p)

    def come_back(self) -> None:
        """Attach to a new core with empty rings and free blocks; then call ``present`` until it returns True."""
        cdef uintptr_t rings = self.segments.address("rings")
        if self.p.detached and not pump_return(&self.p, <routerd_ring *> (rings + layout_action_ring(self.p.index)),
                                           <routerd_ring *> (rings + layout_work_ring(self.p.index))):
            raise MemoryError("the worker cannot begin anew with the new core: no memory, or broken rings")

    def present(self) -> bool:
        """Present connections, then links, to the new core; return False to be called again when blocks ran out."""
        done = present_all(self)
        publish_actions(&self.p)
        return done

    def go_on(self) -> None:
        """Let messages flow, because the new core knows the links of all workers."""
        pump_present(&self.p)

    cdef bint tell(self, worker_link *k) except -1:
        """Ask the core about an attach, or present an open link; return False if the handler has ended it instead.

        The terminus is that at the peer, with the requested capabilities, if the router has initiated the link,
        and that at the router otherwise.
        """
        cdef pn_link_t *engine = k.engine
        cdef pn_terminus_t *t = pn_link_remote_source(engine) if k.outgoing != k.router_initiated else pn_link_remote_target(engine)
        cdef pn_terminus_t *requested = t if not k.router_initiated else pn_link_target(engine) if k.outgoing else pn_link_source(engine)
        cdef const char *address = pn_terminus_get_address(t)
        cdef uint32_t index = pool_index(&self.p.links, k), generation = k.slot.generation
        if k.open and not k.router_initiated:
            address = pn_terminus_get_address(pn_link_source(engine) if k.outgoing else pn_link_target(engine))
        k.known = True
        self.handler.attach(Attach(
            link=index, generation=generation, connection=pool_index(&self.p.conns, k.conn),
            name=text(pn_link_name(engine)), outgoing=bool(k.outgoing), address=None if address == NULL else text(address),
            dynamic=bool(pn_terminus_is_dynamic(t)), coordinator=pn_terminus_get_type(t) == PN_COORDINATOR,
            capabilities=symbols(pn_terminus_capabilities(requested)), snd_settle_mode=pn_link_remote_snd_settle_mode(engine),
            rcv_settle_mode=pn_link_remote_rcv_settle_mode(engine), capacity=link_configured(k), restored=bool(k.open and not k.asked),
            granted=0 if k.outgoing or not k.open else resync_credit(k), request=k.asked, router_initiated=bool(k.router_initiated), routed=bool(k.routed),
            termini=termini(k), session=<uintptr_t> pn_link_session(engine), to_table=bool(k.to_table)))
        return pool_find2(&self.p.links, index, generation) != NULL

    # ---- what the handler asks for ----

    def next_connection(self):
        """Return a new connection number, unique in the router."""
        return layout_next_connection(self.control)

    def poll(self, uint64_t now):
        """Check which receivers have credit at ``now``, nanoseconds of CLOCK_MONOTONIC; to be called periodically."""
        poll_all_links(&self.p, now)

    def links_seen(self, bytes links not None, uint64_t now):
        """Return the ``links`` of shm.contract.payloads.Seen for those of a Poll."""
        cdef bytes seen = bytes(len(links) // 8 * 24)
        poll_links(&self.p, links, len(links) // 8, now, PyBytes_AS_STRING(seen))
        return seen

    def connection_info(self, uint32_t index):
        """Return container, hostname, user, SASL mechanism, properties, offered capabilities, listener's number.

        The number of an outgoing connection is its connector's.
        """
        cdef worker_connection *c = <worker_connection *> pool_at(&self.p.conns, index)
        cdef pn_sasl_t *sasl = pn_sasl(c.transport)
        return (text(pn_connection_remote_container(c.engine)), text(pn_connection_remote_hostname(c.engine)),
                text(pn_transport_get_user(c.transport)), text(pn_sasl_get_mech(sasl)), properties_of(pn_connection_remote_properties(c.engine)),
                symbols(pn_connection_remote_offered_capabilities(c.engine)), self.p.listeners[c.listener].config)

    def connection_open(self, uint32_t index, str container, list capabilities, dict properties):
        """Send OPEN, or answer the peer's. Properties are JSON values; integers become AMQP int if they fit."""
        cdef worker_connection *c = <worker_connection *> pool_at(&self.p.conns, index)
        cdef bytes b = container.encode()
        pn_connection_set_container(c.engine, b)
        put_symbols(pn_connection_offered_capabilities(c.engine), capabilities)
        put_symbols(pn_connection_desired_capabilities(c.engine), capabilities)
        put_map(pn_connection_properties(c.engine), properties, True)
        pn_connection_open(c.engine)
        c.admitted = True
        mark_dirty(&self.p, c)

    def connection_close(self, uint32_t index, uint32_t generation, error=None):
        """Close a connection with an AMQP error (name, description) or without; the peer has 5 s to answer."""
        close_connection(self, <worker_connection *> pool_find2(&self.p.conns, index, generation), error)

    def connection_generations(self):
        """Return index and generation of every connection."""
        cdef worker_connection *c
        out = []
        for i in range(MAX_CONNECTIONS):
            if len(out) == self.p.conns.used:
                break
            c = <worker_connection *> pool_at(&self.p.conns, i)
            if c.slot.next_free == ROUTERD_NIL - 1:
                out.append((i, c.slot.generation))
        return out

    def link_open(self, uint32_t index, uint32_t generation, address, bint to_table=False, uint32_t capacity=0):
        """Answer an attach with the same termini; return False if the link is gone, or the answer too large.

        ``address`` is that of a dynamic terminus; ``to_table`` and ``capacity`` are those of Attached.
        """
        cdef worker_link *k = <worker_link *> pool_find2(&self.p.links, index, generation)
        cdef bytes b
        if k == NULL:
            return False
        pn_terminus_copy(pn_link_source(k.engine), pn_link_remote_source(k.engine))
        pn_terminus_copy(pn_link_target(k.engine), pn_link_remote_target(k.engine))
        if terminus_there(pn_link_source(k.engine)):   # between routers a source has no address but is not null
            pn_terminus_set_type(pn_link_source(k.engine), PN_SOURCE)
        if address is not None:
            b = address.encode()
            pn_terminus_set_address(pn_link_source(k.engine) if k.outgoing else pn_link_target(k.engine), b)
        pn_link_set_snd_settle_mode(k.engine, pn_link_remote_snd_settle_mode(k.engine))
        pn_link_set_rcv_settle_mode(k.engine, pn_link_remote_rcv_settle_mode(k.engine))
        if not k.outgoing and k.conn.max_message:
            pn_link_set_max_message_size(k.engine, k.conn.max_message)
        if not attach_answer(self, k):
            return False
        k.to_table = to_table
        if capacity:
            link_limit(k, capacity)
        return True

    def link_refuse(self, uint32_t index, uint32_t generation, str name, str description):
        """Refuse an unanswered attach."""
        cdef worker_link *k = <worker_link *> pool_find2(&self.p.links, index, generation)
        cdef pn_link_t *engine
        if k == NULL:
            return
        engine = k.engine
        mark_dirty(&self.p, k.conn)
        link_free(&self.p, k)
        refuse_attach(engine, name, description)

    def link_close(self, uint32_t index, uint32_t generation, error=None):
        """Detach an attached link; the handler's link_lost is called for it."""
        cdef pn_link_t *engine = lose_link(self, index, generation, error)
        if engine != NULL:
            pn_link_close(engine)

    def post(self, int kind, bytes payload, uint32_t link=0xffffffff, uint32_t link_generation=0,
             uint32_t connection=0, uint32_t connection_generation=0):
        """Post a control action (record.h, A_CONTROL) to the core; no-op while the worker is detached."""
        if self.p.detached:
            return
        cdef routerd_record r
        memset(&r, 0, sizeof(r))
        r.type = A_CONTROL
        r.state = kind
        r.link = link
        r.link_gen = link_generation
        r.credit = connection
        r.time = connection_generation
        r.arena = self.p.index
        if not control_post(&self.p, &r, <const char *> payload, len(payload)):
            raise MemoryError("a control message to the core is larger than the arena; raise arenaSize")


include "dial.pxi"
include "../transport/security.pxi"
include "../transport/trace.pxi"
include "../amqp/attaching.pxi"
include "../amqp/termini.pxi"
include "../framed/framed.pxi"
include "../transport/relay.pxi"
include "../source_routes/source_routes.pxi"
