"""An attached link as the core knows it, and how edge connections influence attaches."""

from typing import Final

import msgspec

from core.addresses.addresses import Address
from core.forwarder.forward import CONTROL_LINK, DATA_LINK, ROUTED_LINK, STREAM_LINK
from core.links.admission import Guarded
from core.links.plane import Plane
from core.links.terminus import Place
from shm.contract.payloads import Attach, ConnectionOpened, Detach, Error
from shm.contract.spelling import strip_spelling

# What management calls each kind of link.
TYPES: Final = {
    0: "endpoint",
    CONTROL_LINK: "router-control",
    DATA_LINK: "inter-router",
    STREAM_LINK: "inter-router",
    ROUTED_LINK: "endpoint",
}


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
    scope: int = 0  # the number of an anonymous sender's rights (`Scopes`)
    kind: int = 0  # enum core_link_kind of core/forwarder/tables/tables.h
    priority: int = 0  # of a link between routers
    edge: int = 0  # the number of its edge connection, or 0
    router_initiated: bool = False  # this router began the link
    routed: str = ""  # the address of a link route's link

    @property
    def owning(self) -> str | None:
        """The key of its address, as management shows it."""
        if self.routed:
            return f"M0{strip_spelling(self.routed)}"
        return None if self.address is None else self.address.key

    @property
    def feeds(self) -> bool:
        """Whether messages arrive by it as an auto link of this router."""
        return self.router_initiated and not (self.outgoing or self.kind)

    @property
    def type(self) -> str:
        """Its type, as management shows it."""
        if self.edge and self.outgoing and self.address is not None and self.address.key[0] == "H":
            return "edge-downlink"
        return TYPES[0 if self.edge else self.kind]


class Edges(Plane):
    """The plane of edge connections: an interior router's downlinks, or an edge router's uplinks."""

    def find(self, worker: int, connection: int) -> int:
        """Return the number of an edge connection, or 0 for any other connection."""
        raise NotImplementedError

    def is_active(self, worker: int, connection: int) -> bool:
        """Whether an edge connection carries messages."""
        raise NotImplementedError

    def place(self, worker: int, attach: Attach) -> Place | Error | None:
        """Return where a link of an edge connection leads, or None if it is treated as a client's."""
        raise NotImplementedError

    def serves(self, attach: Attach) -> Place | Error | None:
        """Return where a link on an ordinary connection leads that serves edge routers, or None."""
        return None

    def asks(self, worker: int, attach: Attach, connection: ConnectionOpened, address: str) -> bool:
        """Ask the interior router whether a client's link has a link route there.

        Return False if no answer is needed.
        """
        return False

    def cancel(self, worker: int, detach: Detach) -> bool:
        """Cancel the question about a link that is gone. Return False if none was pending."""
        return False
