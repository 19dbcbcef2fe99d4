"""An RMR application as its Route Manager sees it: the table that it runs, and what it is sent next.

    pending --everything sent, OK--> ok      (or the next change, if there is one)
    pending --ERR--> err                     sent whole, later
    pending --no answer in time--> unknown   sent whole, later
    any     --new request or connection--> pending, from the beginning

One table or map is sent at a time. A change is sent only to an application that has acknowledged what it
changes, because one that answered ERR or nothing may run anything.
"""

from collections.abc import Mapping
from typing import Final

from core.rmr.tables.writing import Text
from shm.contract.hosts import host_of

OK, ERR, PENDING, UNKNOWN = "ok", "err", "pending", "unknown"

SECOND: Final = 1_000_000_000
TIMEOUT: Final = 5 * SECOND  # from the last piece to the acknowledgement
FIRST_RETRY: Final = 2 * SECOND
LAST_RETRY: Final = 60 * SECOND
NOTHING: Final = -1
FAILED: Final = "{} in the router, whose log says more"  # the reason after an unexpected exception


class Track:
    """The tables or maps of an application: the acknowledged revision, and what was sent last."""

    __slots__ = ("acknowledged", "sent", "table_id", "text")

    def __init__(self) -> None:
        self.acknowledged = NOTHING
        self.table_id = ""  # acknowledged
        self.sent = NOTHING
        self.text: Text | None = None  # the latest sent or being sent


class Application:
    """An application, through all its restarts.

    ``endpoint`` is the host:port where it takes messages, empty if unknown; ``control`` is its control port.
    ``dial`` is where the router connects to it without a connection, empty for nowhere. ``connection`` is the
    address of its connection, empty without one.
    """

    def __init__(self, endpoint: str, control: str, dial: str, fixed: bool = False) -> None:
        self.endpoint = endpoint
        self.control = control
        self.dial = dial
        self.host = host_of(dial)  # of its last request, or of `dial`
        self.fixed = fixed  # a configured application, which is never forgotten
        self.connection = ""
        self.proven = False  # it has acknowledged something to this core
        self.dialled = False  # whether this router requested the connection
        self.table = Track()
        self.map = Track()
        # Managed entities that it may know: those of a map, which may be many, and further ones.
        self.owners: Mapping[str, str] = {}
        self.others: frozenset[str] = frozenset()
        self.sending: Track | None = None
        self.at = 0  # pieces sent
        self.xact = b""
        self.deadline = 0  # of the acknowledgement; 0: sending goes on
        self.due = 0  # earliest time of the next sending
        self.failures = 0
        self.state = UNKNOWN
        self.reason = ""
        self.since = 0
        self.requests = 0
        self.requested = NOTHING  # time of its last request
        self.gone: int | None = None  # since when it has no connection; None: the first step says

    def begin(self, now: int) -> None:
        """Start again with a new or unknown instance of the application."""
        self.table, self.map = Track(), Track()
        self.stop()
        self.due, self.failures = now, 0
        self.be(PENDING, now)

    def send(self, track: Track, revision: int, text: Text, xact: bytes, now: int) -> None:
        """Start sending a text."""
        track.sent, track.text = revision, text
        self.sending, self.at, self.xact, self.deadline = track, 0, xact, 0
        self.be(PENDING, now)

    def stop(self) -> None:
        """Stop sending."""
        self.sending, self.deadline = None, 0

    def fail(self, state: str, reason: str, now: int) -> None:
        """Record a failure. Everything is sent again after a pause that grows with each failure."""
        self.stop()
        self.table.acknowledged = self.map.acknowledged = NOTHING
        self.due = now + min(FIRST_RETRY << min(self.failures, 10), LAST_RETRY)
        self.failures += 1
        self.be(state, now, reason)

    def acknowledge(self, track: Track, now: int) -> None:
        """Record that the application runs what was sent last."""
        assert track.text is not None
        track.acknowledged, track.table_id = track.sent, track.text.table_id
        if self.sending is track:
            self.stop()
        self.due, self.failures = now, 0

    def know(self, owners: Mapping[str, str], others: frozenset[str] = frozenset()) -> None:
        """Set the managed entities that it may know."""
        self.owners, self.others = owners, others

    def be(self, state: str, now: int, reason: str = "") -> None:
        """Set the state."""
        if (state, reason) != (self.state, self.reason):
            self.state, self.reason, self.since = state, reason, now
