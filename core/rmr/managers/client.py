"""The router as an application: it requests its table from a Route Manager (RMR's Route Table Guide, Table
Request).

    away --connected--> asking --table installed--> accepted
    any  --connection lost--> away

Requests go on until a table has been accepted; the RMR library stops when the first record arrives. They
begin again with each connection, because a table may have been sent while there was none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from core.rmr.managers.messages import REQUEST, Said, request

SECOND: Final = 1_000_000_000
AWAY, REQUESTING, ACCEPTED, REFUSED = "away", "asking", "accepted", "refused"


@dataclass
class Client:
    """This router's requests to one manager.

    ``endpoint`` is where the router listens, as host:port. ``interval`` and ``clock``, which is UNIX time, are in
    seconds. ``send`` returns whether the manager is connected. ``since`` is when the state began, in nanoseconds.
    """

    manager: str
    endpoint: str
    interval: int
    send: Callable[[Said], bool]
    clock: Callable[[], int]
    state: str = AWAY
    table_id: str = ""  # of the last table from the manager
    reason: str = ""
    since: int = 0
    requests: int = 0
    _due: int = 0
    _accepted: bool = False

    def connected(self, now: int) -> None:
        """Begin requests over a new connection to the manager."""
        self._accepted = False
        self._be(REQUESTING, now)
        self._due = now

    def lost(self, now: int) -> None:
        """Stop requests: the connection is gone."""
        self._be(AWAY, now)

    def table(self, table_id: str, reason: str, whole: bool, now: int) -> None:
        """Record a table (``whole``), update or map from the manager.

        An empty ``reason`` means that it is in use.
        """
        self.table_id = table_id
        self._accepted = self._accepted or (whole and not reason)
        if self.state == AWAY:  # it came before the connection was lost
            return
        if reason:
            self._be(REFUSED, now, reason)
        elif self._accepted:
            self._be(ACCEPTED, now)

    def step(self, now: int) -> None:
        """Send a request if one is due. ``now`` is in nanoseconds."""
        if self.state == AWAY or self._accepted or now < self._due:
            return
        if self.send(Said(REQUEST, request(self.endpoint, self.clock()), self.endpoint, 0)):
            self._due = now + self.interval * SECOND
            self.requests += 1

    def failed(self, reason: str, now: int) -> None:
        """Record that a request could not be made. The next one follows in its time."""
        self._due = now + self.interval * SECOND
        self._be(REFUSED, now, reason)

    def _be(self, state: str, now: int, reason: str = "") -> None:
        if state != self.state or reason != self.reason:
            self.state, self.reason, self.since = state, reason, now
