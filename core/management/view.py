"""What the agent sees of the router: the core's tables, the statistics pages, the set-up.

Used in the agent's thread. What the tables hold changes only under the interpreter lock, except for counters,
which are single words; so a look at them needs no other lock, and costs no message anything.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from core.links.connections import Connections
from core.links.link import Link
from core.links.links import Links
from core.management.request import Requester
from core.process.router import Core
from shm.contract.control import ChangeReply, Setup
from shm.contract.management import Management
from shm.contract.payloads import ConnectionOpened
from shm.segment import Segments

SECOND = 1_000_000_000


class Command(Protocol):
    """Runs something in the core's own thread and gives what it returns."""

    def __call__(self, action: Callable[[], Any]) -> Any: ...


class Change(Protocol):
    """Asks the supervisor for a change of the configuration, and waits for its answer."""

    def __call__(
        self, operation: str, kind: str, identity: str, attributes: dict[str, Any]
    ) -> ChangeReply: ...


class Looks(Protocol):
    """Asks the workers how the links of receivers are; what none of them says in time is missing."""

    def __call__(self, links: Sequence[Link]) -> dict[int, tuple[int, int, int]]: ...


class View:
    """The agent's way to everything it tells of, or changes."""

    def __init__(
        self,
        core: Core,
        setup: Setup,
        segments: Segments,
        command: Command,
        change: Change,
        look: Looks = lambda _: {},
    ) -> None:
        self.core = core
        self.setup = setup
        self.segments = segments
        self.command = command
        self.change = change
        self.look = look
        self.management = setup.management or Management([], {})
        self.requester = Requester()  # of the request being served
        self.started = time.monotonic_ns()

    def configure(self, management: Management) -> None:
        """The configuration has changed."""
        self.management.entities.clear()
        self.management.entities.update(management.entities)
        self.follow()

    def follow(self) -> None:
        """What the set-up says is as the entities say now."""
        router = next(iter(self.management.entities.get("router", ())), {})
        distribution = router.get("defaultDistribution", self.setup.default_distribution)
        self.setup = msgspec.structs.replace(self.setup, default_distribution=distribution)

    @property
    def links(self) -> Links:
        return self.core.links

    @property
    def connections(self) -> Connections:
        return self.core.connections

    def seconds_since(self, then: int) -> int:
        """Whole seconds since a time of CLOCK_MONOTONIC in nanoseconds."""
        return max(0, time.monotonic_ns() - then) // SECOND

    def connection_number(self, worker: int, connection: int) -> int | None:
        """The number of a connection in the router."""
        opened = self.connections.find(worker, connection)
        return None if opened is None else opened.number


class ConnectionRow(msgspec.Struct, frozen=True):
    """A connection as a row of a table."""

    worker: int
    opened: ConnectionOpened
    since: int  # nanoseconds of CLOCK_MONOTONIC
    last: int  # when the last delivery came or went; 0: never
    uptime: int
    idle: int | None
    active: bool = True
