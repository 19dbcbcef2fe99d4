"""The router as an application: asks a Route Manager for its table (spec, Table Request).

    away --connected--> asking --table installed--> accepted
    any  --connection lost--> away

Asking goes on until a table has been accepted, not only until something has come (unlike the RMR library's:
facts rmr 9), and begins anew with each connection: whoever was away may have had a table that nobody saw.
"""

from collections.abc import Callable
from typing import Final

from core.rmr.words import REQUEST, Said, request

SECOND: Final = 1_000_000_000
AWAY, REQUESTING, ACCEPTED, REFUSED = "away", "asking", "accepted", "refused"


class Client:
    """What this router asks of its manager. ``endpoint`` is where it listens, as ``control``; ``send`` says
    whether somebody was there; ``clock`` is UNIX time in seconds. ``since``: of the state, nanoseconds."""

    def __init__(
        self,
        manager: str,
        endpoint: str,
        interval: int,
        send: Callable[[Said], bool],
        clock: Callable[[], int],
    ) -> None:
        self.manager = manager
        self._endpoint = endpoint
        self._interval = interval * SECOND
        self._send = send
        self._clock = clock
        self._due = 0
        self.state = AWAY
        self.table_id = ""  # of the last table that it sent
        self.reason = ""
        self.since = 0
        self.requests = 0
        self._accepted = False

    def connected(self, now: int) -> None:
        """There is a connection to the manager, another one than before."""
        self._accepted = False
        self._be(REQUESTING, now)
        self._due = now

    def lost(self, now: int) -> None:
        """There is none any more."""
        self._be(AWAY, now)

    def table(self, table_id: str, reason: str, whole: bool, now: int) -> None:
        """The manager has sent something: a ``whole`` table, or an update or a map. Empty ``reason``: it is
        in use now."""
        self.table_id = table_id
        self._accepted = self._accepted or (whole and not reason)
        if reason:
            self._be(REFUSED, now, reason)
        elif self._accepted:
            self._be(ACCEPTED, now)

    def step(self, now: int) -> None:
        """Ask, if it is time to."""
        if self.state == AWAY or self._accepted or now < self._due:
            return
        if self._send(Said(REQUEST, request(self._endpoint, self._clock()), self._endpoint, 0)):
            self._due = now + self._interval
            self.requests += 1

    def _be(self, state: str, now: int, reason: str = "") -> None:
        if state != self.state or reason != self.reason:
            self.state, self.reason, self.since = state, reason, now
