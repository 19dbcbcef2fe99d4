"""The core as a state machine: a function of its actions, the times it is given and one seed.

It has no sockets, clock or processes. Tests drive it by ``step``, and recorded actions replay to the same
work.
"""

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from core.addresses.addresses import Rules
from core.forwarder.forward import CONTROL, HELD, LOCAL, NOTHING, UNKNOWN
from core.links.base import Base
from core.links.connections import Hop
from core.links.plane import each
from core.process import planes
from core.process.attaches import Attaches
from core.process.contained import Contained
from core.process.recovery import Recovery
from shm.contract.control import ChangeAddresses, SetAddresses, SetPolicy, WorkerAdded, WorkerGone, WorkerReclaimed
from shm.contract.payloads import (
    PAYLOADS,
    Attach,
    ConnectionClosed,
    ConnectionOpened,
    Cost,
    Denied,
    Detach,
    LinkRefused,
    Presented,
    Seen,
)

LOGGER = logging.getLogger("ROUTER_CORE")

PORTION: Final = 2  # texts of a link that goes, looked up before others have their turn: some 0.1 ms


class Core(Base):
    """The forwarder and the control plane around it. A core without a semaphore is driven by ``step`` alone."""

    def assemble(self) -> None:
        """Build the planes, and the parts of the core that know them."""
        planes.build(self)
        self.attaches = Attaches(self)
        self._contained = Contained(self)
        self.local.contained = self._contained.receive
        self.errands: list[Callable[[], None]] = []  # called in the core's thread between turns
        self.seen: Callable[[Seen], None] = lambda _: None  # the service sets it to take reports
        self._recovery = Recovery(self)
        self._held: dict[int, Detach] = {}  # of workers whose later records wait for it
        self._decoders = {kind: msgspec.msgpack.Decoder(payload) for kind, payload in PAYLOADS.items()}
        for part in planes.parts(self.setup):
            self.configure(part)

    # ---- turns ----

    def step(self, now: int) -> None:
        """Handle all pending actions at ``now``, in nanoseconds."""
        while self.addresses.unsettled:
            self.addresses.settle()
        self._settle(now)
        self.tick(now)
        self._settle(now)
        self.forwarder.publish()

    def _settle(self, now: int) -> None:
        while (stop := self.forwarder.step(now)) != NOTHING:
            self._handle(stop)

    def run(self, timeout: int, busy: int = 0) -> bool:
        """Forward until Python is needed or nothing has happened for ``timeout`` nanoseconds.

        Return True after handling a record, when more may follow, and False when the caller should poll the
        supervisor.
        """
        stop = self.forwarder.run(timeout, busy)
        if stop == NOTHING:
            return False
        self._handle(stop)
        return True

    @property
    def restless(self) -> bool:
        """Whether the core has work to do before it sleeps."""
        return self.addresses.unsettled or any(plane.restless for plane in self.planes)

    def pause(self, now: int) -> int | None:
        """Return for how many nanoseconds the core may sleep at most because of its planes, or None."""
        return min((pause for plane in self.planes if (pause := plane.pause(now)) is not None), default=None)

    def tick(self, now: int) -> None:
        """Do what is due at ``now``, in nanoseconds. Long work is done in parts."""
        self._recovery.step(now)
        self.addresses.settle()
        for plane in self.planes:
            plane.step(now)

    # ---- the supervisor's messages, and what planes tell each other ----

    def configure(self, change: msgspec.Struct) -> None:
        """Apply a message of the supervisor that changes a part of the configuration."""
        match change:
            case SetAddresses(addresses, default):
                self.addresses.set_rules(Rules(addresses, default))
            case ChangeAddresses(gone, new):
                self.addresses.change_rules(gone, new)
            case SetPolicy(policy):
                self.admissions.set_limit(policy.max_connections)
            case _:
                each(self.planes, lambda plane: plane.configure(change))

    def close(self) -> None:
        """Close all planes; the process stops in good order."""
        each(self.planes, lambda plane: plane.close())

    def worker_gone(self, gone: WorkerGone, now: int) -> WorkerReclaimed:
        """Reclaim what a dead worker held. Return the answer for the supervisor."""

        def drain(worker: int) -> None:
            while (stop := HELD if worker in self._held else self.forwarder.drain(worker, now)) != NOTHING:
                self._handle(stop)

        reclaimed = self._recovery.worker_gone(gone, drain)
        each(self.planes, lambda plane: plane.forget_worker(gone.index, gone.removed))
        self.forwarder.publish()
        return reclaimed

    def worker_changed(self, change: WorkerGone | WorkerAdded, now: int) -> WorkerReclaimed:
        """Reclaim a dead worker's place or prepare a new one. Return the answer for the supervisor."""
        if isinstance(change, WorkerGone):
            return self.worker_gone(change, now)
        reclaimed = self._recovery.worker_added(change)
        each(self.planes, lambda plane: plane.worker_added(change.index))
        return reclaimed

    def _handle(self, stop: int) -> None:
        if stop == UNKNOWN:
            self._learn()
        elif stop == CONTROL:
            self._control(*self.forwarder.control())
        elif stop == LOCAL:
            for plane in self.planes:
                plane.work()
        elif stop == HELD:
            self._go_on()

    def _go_on(self) -> None:
        """Take the next portions of what workers wait for."""
        for worker, message in list(self._held.items()):
            del self._held[worker]
            self.forwarder.hold(worker, False)
            self._contained.hear((self._take,), worker, message)

    def _learn(self) -> None:
        text, scope = self.forwarder.unknown()
        self.addresses.learn(text, scope, self.admissions.scopes)

    def _control(self, worker: int, kind: int, payload: bytes | None) -> None:
        decoder = self._decoders.get(kind)
        if decoder is None or payload is None:
            self._nonsense(worker, f"kind {kind}")
            return
        try:
            message = decoder.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._nonsense(worker, f"kind {kind}: {error}")
            return
        self._contained.hear((self._take, self._tell), worker, message)

    def _take(self, worker: int, message: msgspec.Struct) -> None:
        """Apply a worker's control record to links, connections and policy."""
        match message:
            case Attach():
                self.attaches.attach(worker, message, self.connections.find(worker, message.connection))
            case Detach():
                self._detach(worker, message)
            case ConnectionOpened():
                self.connections.opened(worker, message)
            case ConnectionClosed():
                self.connections.closed(worker, message)
            case Cost():
                self.connections.cost(worker, message)
            case LinkRefused():
                pass  # planes recognise their own requests
            case Denied():
                self.admissions.denied(message)
            case Presented():
                self._recovery.presented(worker)
            case Seen():
                self.seen(message)
            case _ if not any(plane.heard(worker, message) for plane in self.planes):
                self._nonsense(worker, f"{type(message).__name__} is a message that only the core sends")

    def decide(
        self, worker: int, attach: Attach, connection: ConnectionOpened, beyond: Hop | None, reached: bool
    ) -> None:
        """Decide about an attach that has waited, as `Attaches.decide` does. A failure closes its connection."""

        def decide(worker: int, attach: msgspec.Struct) -> None:
            assert isinstance(attach, Attach)
            self.attaches.decide(worker, attach, connection, beyond, reached)

        self._contained.hear((decide,), worker, attach)

    def _texts_wait(self, worker: int, link: int, generation: int) -> bool:
        """Look some texts up that a link's messages wait for. Return whether there may be others."""
        for _ in range(PORTION):
            if not self.forwarder.unpark(worker, link, generation):
                return False
            self._learn()
        return True

    def _detach(self, worker: int, message: Detach) -> None:
        """Remove a link once the texts of its last messages are looked up, and most of its deliveries are ended. The
        worker's later records wait."""
        link = worker, message.link, message.generation
        if not self._texts_wait(*link) and not self.forwarder.thin_link(*link):
            self.attaches.detach(worker, message)
            return
        self._held[worker] = message
        self.forwarder.hold(worker, True)

    def _tell(self, worker: int, message: msgspec.Struct) -> None:
        """Tell the planes of a control record. The links report attaches and detaches to them."""
        match message:
            case ConnectionOpened() if (worker, message.connection) in self.connections:
                each(self.planes, lambda plane: plane.opened(worker, message))
            case ConnectionClosed(connection=index, generation=generation):
                known = self.connections.find(worker, index)
                if known is None or known.generation == generation:
                    each(self.planes, lambda plane: plane.closed(worker, index))
            case Cost() if (opened := self.connections.find(worker, message.connection)) is not None:
                each(self.planes, lambda plane: plane.cost(worker, opened))
            case LinkRefused():
                each(self.planes, lambda plane: plane.refused(message))

    def _nonsense(self, worker: int, what: str) -> None:
        self.forwarder.bad()
        LOGGER.warning("worker %d sent an invalid control record, which was dropped: %s", worker, what)
