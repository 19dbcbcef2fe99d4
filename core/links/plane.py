"""The interface through which planes see events.

A plane is one subject of the control plane, such as auto links, route tables or the flow log. The core
forwards without any plane. ``core.process.planes`` builds those of a router, and they see events in that
order. Deliveries are no events of planes: native code handles them.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from core.addresses.addresses import Address
    from core.links.link import Link
    from shm.contract.payloads import ConnectionOpened, Detach, LinkRefused
    from shm.statistics.board import Board


class Plane:
    """A plane overrides the methods that it needs; all others do nothing.

    Every method runs in the core's thread. If a plane fails at an event that concerns a connection, that
    connection is closed, and the remaining planes still see the event.
    """

    # ---- configuration and workers ----

    def configure(self, change: msgspec.Struct) -> None:
        """Apply a changed part of the configuration: a message of ``shm.contract.control``.

        A plane ignores parts that are not its own. At the start every plane sees all parts before the first
        worker's record.
        """

    def worker_added(self, worker: int) -> None:
        """A worker has been added."""

    def forget_worker(self, worker: int, removed: bool = False) -> None:
        """A worker is dead, and with ``removed`` no successor takes its place.

        ``detached`` has already run for its links; ``closed`` does not run for its connections.
        """

    # ---- connections ----

    def opened(self, worker: int, opened: "ConnectionOpened") -> None:
        """A connection is open and admitted. It replaces an earlier one of the same worker and index."""

    def cost(self, worker: int, opened: "ConnectionOpened") -> None:
        """The cost of this end of a connection has changed."""

    def closed(self, worker: int, connection: int) -> None:
        """A connection is gone. ``detached`` has already run for its links."""

    # ---- links and addresses ----

    def attached(self, link: "Link") -> None:
        """A link is attached, whichever side began it. The answer to its peer is already on its way."""

    def detached(self, link: "Link", detach: "Detach | None") -> None:
        """A link is gone; ``detach`` is None when its worker is dead."""

    def refused(self, refused: "LinkRefused") -> None:
        """A link that the core requested is refused. Each plane checks whether the request was its own."""

    def served(self, address: "Address", number: int, sends: bool) -> None:
        """A plane starts (1) or stops (-1) taking an address's messages, or with ``sends`` sending to it.

        Links of workers do not count here: ``attached`` and ``detached`` report them.
        """

    # ---- records, time ----

    def heard(self, worker: int, message: msgspec.Struct) -> bool:
        """Handle a control record that only one plane understands. Return False if it is another plane's."""
        return False

    def work(self) -> None:
        """The forwarder stopped because a stream waits for a link or a message to the core arrived."""

    @property
    def restless(self) -> bool:
        """Whether ``step`` has work to do before the core sleeps."""
        return False

    def pause(self, now: int) -> int | None:
        """Return for how many nanoseconds the core may sleep until ``step`` has work, or None for no limit."""
        return None

    def step(self, now: int) -> None:
        """Do what is due at ``now``, in nanoseconds. A step does a bounded part of long work."""

    def show(self, board: "Board") -> None:
        """Write this plane's rows for the live page and the exporter onto the board.

        The core calls it once a second.
        """

    def close(self) -> None:
        """The process stops in good order."""


def each(planes: Iterable[Plane], tell: Callable[[Plane], object]) -> None:
    """Call ``tell`` for every plane, and raise what failed only after all of them.

    One failure is raised as it is, several as an ExceptionGroup.
    """
    failed: list[Exception] = []
    for plane in planes:
        try:
            tell(plane)
        except Exception as error:  # raised after the loop
            failed.append(error)
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise ExceptionGroup("several planes failed", failed)
