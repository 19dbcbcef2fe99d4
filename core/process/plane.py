"""The seam for planes: what each of them hears, and from whom.

A plane is one subject of the control plane, such as auto links, route tables or the flow log. The core
forwards without any; ``core.process.planes`` builds those that a router has, in the order in which they hear.
What happens to a delivery is no event of a plane: that is native.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from core.addresses.addresses import Address
    from core.links.link import Link
    from shm.board import Board
    from shm.contract.payloads import ConnectionOpened, Detach, LinkRefused


class Plane:
    """Hears of everything and does nothing: a plane overrides what it needs.

    All of it runs in the core's thread. A plane that fails at an event costs the connection that the event is
    about, if there is one; the planes behind it hear of the event all the same.
    """

    # ---- configuration and workers ----

    def configure(self, change: msgspec.Struct) -> None:
        """A part of the configuration is another one: a message of ``shm.control``, of which each plane takes
        its own. At the start all parts are told, before any worker is heard."""

    def worker_added(self, worker: int) -> None:
        """There is one more worker."""

    def forget_worker(self, worker: int, removed: bool = False) -> None:
        """A worker is dead. ``detached`` has told of its links; of its connections nothing else does.
        ``removed``: nobody takes its place."""

    # ---- connections ----

    def opened(self, worker: int, opened: "ConnectionOpened") -> None:
        """A connection is open and admitted. It replaces one of the same worker and index."""

    def cost(self, worker: int, opened: "ConnectionOpened") -> None:
        """Our end's cost of a connection is another one."""

    def closed(self, worker: int, connection: int) -> None:
        """A connection is gone; ``detached`` has told of its links."""

    # ---- links and addresses ----

    def attached(self, link: "Link") -> None:
        """A link is attached, whoever has begun it; an answer to its peer is on its way."""

    def detached(self, link: "Link", detach: "Detach | None") -> None:
        """A link is gone, as ``detach`` says; None: its worker is dead."""

    def refused(self, refused: "LinkRefused") -> None:
        """A link that the core has asked for will not be. Whose request that was, the plane knows."""

    def served(self, address: "Address", number: int, sends: bool) -> None:
        """Something in this process takes the messages of an address from now on (1), or no longer (-1); or,
        ``sends``, it sends messages there. Of links ``attached`` and ``detached`` tell."""

    # ---- records, time ----

    def heard(self, worker: int, message: msgspec.Struct) -> bool:
        """A control record that only one plane understands. False: it is another one's."""
        return False

    def work(self) -> None:
        """The forwarder has stopped for this process: a stream waits for a link, or a message was for us."""

    @property
    def restless(self) -> bool:
        """Whether ``step`` has something to do before anybody sleeps."""
        return False

    def step(self, now: int) -> None:
        """Do what is due at ``now`` (nanoseconds); of a lot of work, a part."""

    def show(self, board: "Board") -> None:
        """Put on the board what the live page and the exporter show of this plane, once a second."""

    def close(self) -> None:
        """The process ends in good order."""


def each(planes: Iterable[Plane], tell: Callable[[Plane], object]) -> None:
    """Tell every plane, also those behind one that fails. Raises what failed when all have been told."""
    failed: list[Exception] = []
    for plane in planes:
        try:
            tell(plane)
        except Exception as error:  # it is raised below
            failed.append(error)
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise ExceptionGroup("several planes failed", failed)
