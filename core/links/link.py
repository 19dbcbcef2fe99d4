"""One attached link, as the core knows it, and what edge connections say of attaches."""

import msgspec

from core.addresses.addresses import Address, strip_spelling
from core.edge.place import Place
from core.interior.inter_router import TYPES
from core.links.admission import Guarded
from core.process.plane import Plane
from shm.contract.payloads import Attach, ConnectionOpened, Detach, Error


class Link(msgspec.Struct):
    """An attached link."""

    worker: int
    link: int
    generation: int
    connection: int
    name: str
    outgoing: bool
    address: Address | None
    identity: int = 0  # unique in this router
    guarded: Guarded | None = None  # its connection, if under vhost policy
    scope: int = 0  # of an anonymous sender's rights
    kind: int = 0  # enum core_link_kind of tables.h
    priority: int = 0  # of one between routers
    edge: int = 0  # of which edge router's connection
    ours: bool = False  # this router has begun it
    routed: str = ""  # the address that one which is routed through is for

    @property
    def owning(self) -> str | None:
        """The key of its address, as management says it."""
        if self.routed:
            return f"M0{strip_spelling(self.routed)}"
        return None if self.address is None else self.address.key

    @property
    def feeds(self) -> bool:
        """Whether it is an auto link by which messages come, or such a one of an edge router's."""
        return self.ours and not (self.outgoing or self.kind)

    @property
    def type(self) -> str:
        """What it is for, as management says it."""
        if self.edge and self.outgoing and self.address is not None and self.address.key[0] == "H":
            return "edge-downlink"
        return TYPES[0 if self.edge else self.kind]


class Edges(Plane):
    """Connections of edge routers here, or of this one to interior routers."""

    def find(self, worker: int, connection: int) -> int:
        """The number of an edge connection; 0: it is none."""
        raise NotImplementedError

    def is_active(self, worker: int, connection: int) -> bool:
        """Whether an edge connection carries messages."""
        raise NotImplementedError

    def place(self, worker: int, attach: Attach) -> Place | Error | None:
        """Where a link of an edge connection leads; None: as that of any client."""
        raise NotImplementedError

    def serves(self, attach: Attach) -> Place | Error | None:
        """Where a link to what serves edge routers leads on any other connection; None: it is none."""
        return None

    def asks(self, worker: int, attach: Attach, connection: ConnectionOpened, address: str) -> bool:
        """Ask whether a client's link is routed beyond. False: it is decided here."""
        return False

    def cancel(self, worker: int, detach: Detach) -> bool:
        """A client's link is gone. False: it was not asked about."""
        return False
