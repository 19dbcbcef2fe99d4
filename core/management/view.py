"""What the agent sees of the router: the core's tables, the statistics pages and the set-up.

The agent's thread uses it. Tables change only under the interpreter lock, and counters are single words, so
reading needs no other lock and costs messages nothing.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from core.links.connections import Hop
from core.links.link import Link
from core.management.entities import Entities
from core.management.recent import Recent
from core.management.request import Requester
from core.process.router import Core
from shm.contract.control import ChangeReply
from shm.contract.management import Management
from shm.contract.payloads import SeenLink

SECOND = 1_000_000_000

T = TypeVar("T")

Command = Callable[[Callable[[], Any]], Any]  # runs a function in the core's own thread and returns its result
# Asks the supervisor for a change: operation, type, identity and attributes of an entity.
Change = Callable[[str, str, str, dict[str, Any]], ChangeReply]
# Asks the workers for the states of receivers' links, by identity. Late answers are missing.
PollLinks = Callable[[Sequence[Link]], dict[int, SeenLink]]


class View:
    """The agent's access to everything that it shows or changes."""

    def __init__(
        self,
        core: Core,
        command: Command,
        change: Change,
        poll: PollLinks = lambda _: {},
        give_way: Callable[[], None] = lambda: None,
    ) -> None:
        self.core = core
        self.segments = core.memory
        self.command = command
        self.change = change
        self.poll = poll
        self.give_way = give_way  # lets the core's thread have the interpreter lock, between two portions of work
        self.recent = Recent(core.memory)
        management = core.setup.management or Management([], {})
        self.types = management.types
        self.configure(management)
        self.requester = Requester()  # of the current request
        self.core_started = time.monotonic_ns()
        self.started = core.setup.started or self.core_started

    def configure(self, management: Management) -> None:
        """Replace all entities by those of a newly read configuration."""
        self._entities = {kind: Entities(rows) for kind, rows in management.entities.items()}

    def client(self, requester: Requester) -> Hop | None:
        """Return the worker and connection of a requester, or None if it is unknown or gone.

        The number of a connection finds it, and not its index in the worker, which another one may have by now.
        """
        number = requester.connection
        found = None if number is None else self.core.connections.numbered(number)
        return None if found is None else found[:2]

    def entities(self, kind: str) -> Entities:
        """Return the configured entities of a type."""
        return self._entities.setdefault(kind, Entities())

    def portions(self, things: Iterable[T]) -> Iterator[T]:
        """Yield things, and give way to the core's thread before each."""
        for thing in things:
            self.give_way()
            yield thing

    def post(self, worker: int, message: msgspec.Struct) -> None:
        """Send a control record to a worker."""

        def act() -> None:
            self.core.post(worker, message)
            self.core.forwarder.publish()

        self.command(act)

    def seconds_since(self, then: int) -> int:
        """Return whole seconds since a time of CLOCK_MONOTONIC in nanoseconds."""
        return max(0, time.monotonic_ns() - then) // SECOND

    def connection_number(self, worker: int, connection: int) -> int | None:
        """Return the router's number of a connection, or None."""
        opened = self.core.connections.find(worker, connection)
        return None if opened is None else opened.number
