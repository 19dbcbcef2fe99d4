"""What planes build on: the forwarder, and the tables of addresses, connections and links around it."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from core.addresses.addresses import Address, Addresses, Identity, Rules
from core.addresses.names import Names
from core.forwarder.recorded import Forwarder
from core.links.admission import Admissions
from core.links.connections import Connections
from core.links.links import Links
from core.links.local import Local
from core.links.plane import Plane, each
from core.links.refusals import Refusals
from shm.contract.complaints import Complaints
from shm.contract.control import Setup
from shm.contract.payloads import Close, ConnectionOpened, Error, OpenLink, record
from shm.memory.segment import Segments

LOGGER = logging.getLogger("ROUTER_CORE")

P = TypeVar("P", bound=Plane)


class Base:
    """The lower half of the core. ``planes`` see its events, in their order.

    ``semaphore`` names the semaphore that the core sleeps on. ``wake`` wakes it from another thread.
    ``snapshot_store`` maps a name to the file that keeps a snapshot for the next core; an empty path means
    that none is kept.
    """

    def __init__(
        self,
        setup: Setup,
        memory: Segments,
        seed: bytes,
        semaphore: str | None = None,
        wake: Callable[[], None] | None = None,
        snapshot_store: Callable[[str], str] = lambda _: "",
    ) -> None:
        self.setup, self.memory, self.seed, self.wake, self.snapshot_store = setup, memory, seed, wake, snapshot_store
        self.me = Identity(setup.router_id, setup.area, setup.mode == "edge")
        self.names = Names(seed)
        self.forwarder = Forwarder(
            setup.places,
            memory.control,
            memory.rings,
            memory.arenas,
            setup.doorbells,
            semaphore=semaphore,
            seed=self.names.hash_seed(),
            active=setup.workers,
        )
        if memory.flight is not None:
            self.forwarder.record(memory.flight, setup.generation, setup.flight.addresses)
        self.admissions = Admissions(setup.policy.max_connections, self.me)
        self.addresses = Addresses(self.forwarder, self.me, Rules(setup.addresses, setup.default_distribution))
        self.local = Local(self.forwarder, self.addresses, setup.places, memory.arenas)
        self.connections = Connections(self.forwarder, self.admissions)
        self.refusals = Refusals(self.forwarder, self.connections.host)
        self._complaints = Complaints()
        self.planes: list[Plane] = []
        self.links = Links(self.forwarder, self.addresses, self.admissions, self.planes)
        self.assemble()

    def assemble(self) -> None:
        """Fill ``planes``. A base by itself has none."""

    def find(self, kind: type[P]) -> P | None:
        """Return the plane of a class, or None if this router has none."""
        return next((one for one in self.planes if isinstance(one, kind)), None)

    def plane(self, kind: type[P]) -> P:
        """Return the plane of a class. Raises LookupError if this router has none."""
        if (found := self.find(kind)) is None:
            raise LookupError(f"this router has no {kind.__name__}")
        return found

    def served(self, address: Address, number: int, sends: bool) -> None:
        """Tell all planes that one starts (1) or stops (-1) taking an address's messages, or sends to it."""
        each(self.planes, lambda plane: plane.served(address, number, sends))

    def post(self, worker: int, message: msgspec.Struct) -> None:
        """Send a control record to a worker."""
        self.forwarder.post_control(worker, *record(message))

    def open_link(self, worker: int, opened: ConnectionOpened, request: int, outgoing: bool, **terms: Any) -> str:
        """Request a link on a connection, with more fields of ``OpenLink``. Return the link's name."""
        name = f"qdlink.{self.names.discriminator()}"
        self.post(worker, OpenLink(opened.connection, opened.generation, request, name, outgoing, **terms))
        return name

    def complain(self, who: str, what: str, detail: str = "", level: int = logging.WARNING) -> None:
        """Log a peer's misbehaviour, once per minute for each pair of ``who`` and ``what``."""
        now = self.forwarder.now / 1e9
        self._complaints.tell(now, LOGGER, level, "%s %s%s", who, what, detail, key=(who, what))

    def close_connection(self, worker: int, opened: ConnectionOpened, error: Error) -> None:
        """Close a worker's connection with an error."""
        self.post(worker, Close(opened.connection, opened.generation, error))
