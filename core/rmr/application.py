"""An application on the RMR library, as its Route Manager sees it: which table it runs, what it is sent next.

    pending --all of it sent, OK--> ok          (or the next change, if there is one)
    pending --ERR--> err                        sent whole, later
    pending --no word in time--> unknown        sent whole, later
    any     --it asks again, or is reached again--> pending, from the beginning

One table or map is under way at a time, and a change goes only to who has acknowledged what it changes: ERR
is no success, and who has not said anything may run anything (facts rmr 11, M3 to M7).
"""

from typing import Final

from core.rmr.writing import Text
from shm.contract.hosts import host_of

OK, ERR, PENDING, UNKNOWN = "ok", "err", "pending", "unknown"

SECOND: Final = 1_000_000_000
TIMEOUT: Final = 5 * SECOND  # for the acknowledgement, from the last piece on
FIRST_RETRY: Final = 2 * SECOND
LAST_RETRY: Final = 60 * SECOND
NOTHING: Final = -1


class Track:
    """Tables, or maps: the revision that the application has acknowledged, and what it was sent last."""

    __slots__ = ("acknowledged", "sent", "table_id", "text")

    def __init__(self) -> None:
        self.acknowledged = NOTHING
        self.table_id = ""  # acknowledged
        self.sent = NOTHING
        self.text: Text | None = None  # sent, or being sent


class Application:
    """One instance after the other of an application; ``control`` is where its control port is, ``endpoint``
    where it listens for messages, empty: it has not said. ``dial`` is where it is connected to when it has no
    connection, empty: nowhere. ``connection``: address of the connection to it; empty: there is none."""

    def __init__(self, endpoint: str, control: str, dial: str, fixed: bool = False) -> None:
        self.endpoint = endpoint
        self.control = control
        self.dial = dial
        self.host = host_of(dial)  # that asked for it last, or is dialled
        self.fixed = fixed  # configured: it is never forgotten
        self.connection = ""
        self.dialled = False  # that connection is one that we have asked for
        self.table = Track()
        self.map = Track()
        self.owned: set[str] = set()  # managed entities that it may know
        self.sending: Track | None = None
        self.at = 0  # pieces sent
        self.xact = b""
        self.deadline = 0  # of the acknowledgement; 0: not all has been sent
        self.due = 0  # not before
        self.failures = 0
        self.state = UNKNOWN
        self.reason = ""
        self.since = 0
        self.requests = 0
        self.asked = NOTHING  # when it asked last
        self.gone = 0  # since when there is no connection

    def begin(self, now: int) -> None:
        """Another instance of it, or one of which nothing is known."""
        self.table, self.map = Track(), Track()
        self.stop()
        self.due, self.failures = now, 0
        self.be(PENDING, now)

    def send(self, track: Track, revision: int, text: Text, xact: bytes, now: int) -> None:
        """Something is under way to it."""
        track.sent, track.text = revision, text
        self.sending, self.at, self.xact, self.deadline = track, 0, xact, 0
        self.be(PENDING, now)

    def stop(self) -> None:
        """Nothing is under way any more."""
        self.sending, self.deadline = None, 0

    def fail(self, state: str, reason: str, now: int) -> None:
        """What was under way is not in use there, as far as we know: all of it is sent again, later."""
        self.stop()
        self.table.acknowledged = self.map.acknowledged = NOTHING
        self.due = now + min(FIRST_RETRY << min(self.failures, 10), LAST_RETRY)
        self.failures += 1
        self.be(state, now, reason)

    def acknowledge(self, track: Track, now: int) -> None:
        """What was sent last is in use there."""
        assert track.text is not None
        track.acknowledged, track.table_id = track.sent, track.text.table_id
        if self.sending is track:
            self.stop()
        self.due, self.failures = now, 0

    def be(self, state: str, now: int, reason: str = "") -> None:
        """Another state."""
        if (state, reason) != (self.state, self.reason):
            self.state, self.reason, self.since = state, reason, now
