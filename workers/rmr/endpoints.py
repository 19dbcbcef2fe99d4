"""Connections to endpoints of route tables, which a worker reopens as long as the core wants them."""

import logging
import os
import time
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from shm.contract.complaints import Complaints
from shm.contract.payloads import Endpoint
from workers.control.lookup import POLL_SECONDS, Address, Lookup, begin, is_address
from workers.control.neighbours import Name

SERVER = logging.getLogger("SERVER")

FIRST_SECONDS: Final = 1.0  # delay of the second attempt; it doubles each time
LONGEST_SECONDS: Final = 30.0
PORTION: Final = 32  # attempts that begin before messages have their turn: about three milliseconds
LOOKUPS_MOST: Final = 32  # names that are looked up at a time, by a thread each
ALL_SECONDS: Final = 10.0  # between lines about failures of all endpoints, after ALL_BURST of them
ALL_BURST: Final = 50

Connect = Callable[[Endpoint, int], Name | None]


class _Wanted:
    """A wanted endpoint and its connection, if there is one."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.due: float | None = None  # None: no attempt waits
        self.delay = FIRST_SECONDS
        self.lookup: Lookup | None = None
        self.addresses: list[Address] = []
        self.connection: Name | None = None
        self.open = False
        self.failures = Complaints()  # since the last open connection
        self.reported = False  # whether the core knows the outcome of the first attempt

    @property
    def address(self) -> str:
        """The endpoint's address in the route table."""
        return self.endpoint.address

    @property
    def host_port(self) -> str:
        host = self.endpoint.host
        return f"[{host}]:{self.endpoint.port}" if ":" in host else f"{host}:{self.endpoint.port}"


class Endpoints:
    """All endpoints that the core wants connections to.

    ``connect`` starts a connection on a connecting socket, ``hang_up`` ends one. ``failed`` is called once
    for an endpoint whose first attempt fails. ``clock`` returns monotonic seconds.
    """

    def __init__(
        self,
        connect: Connect,
        hang_up: Callable[[Name], None],
        failed: Callable[[Endpoint], None],
        clock: Callable[[], float] = time.monotonic,
        look_up: Callable[[str, str], Lookup] = Lookup,
    ) -> None:
        self._connect = connect
        self._hang_up = hang_up
        self._tell_failed = failed
        self._clock = clock
        self._look_up = look_up
        self._wanted: dict[str, _Wanted] = {}  # by address
        self._by_name: dict[Name, _Wanted] = {}
        self._due: list[tuple[float, int, _Wanted]] = []  # a heap; an attempt that is not due then any more is skipped
        self._attempts = 0
        self._looking: dict[_Wanted, None] = {}  # those whose names are being looked up
        self._queued: deque[_Wanted] = deque()  # names that wait for a thread; addresses need none
        self._stopped = False
        self._lines = Complaints(ALL_SECONDS, ALL_BURST)  # about all of them

    def take(self, wanted: Endpoint) -> None:
        """Take the core's order to keep a connection or to end it."""
        known = self._wanted.get(wanted.address)
        if known is not None and (not wanted.open or known.endpoint != wanted):
            self._drop(self._wanted.pop(wanted.address))
            known = None
        if wanted.open and known is None:
            one = self._wanted[wanted.address] = _Wanted(wanted)
            self._try(one, self._clock())

    def _try(self, one: _Wanted, due: float) -> None:
        """Let an attempt begin at this time."""
        one.due = due
        self._attempts += 1
        heappush(self._due, (due, self._attempts, one))

    def forget(self) -> None:
        """Drop the orders of a dead core; the next core gives its own."""
        while self._wanted:
            self._drop(self._wanted.popitem()[1])

    def stop(self) -> None:
        """Open no more connections; open ones stay until they are closed."""
        self._stopped = True

    def _drop(self, one: _Wanted) -> None:
        one.due = one.lookup = None
        self._looking.pop(one, None)
        if one.connection is not None:
            self._hang_up(one.connection)

    def wait(self, at_most: float) -> float:
        """Return the seconds until `step` has something to do, at most ``at_most``."""
        if self._stopped:
            return at_most
        if self._looking:
            at_most = min(at_most, POLL_SECONDS)
        if self._due:
            at_most = min(at_most, max(0.0, self._due[0][0] - self._clock()))
        return at_most

    def step(self) -> None:
        """Start the attempts that are due, and connect where a lookup has ended."""
        now = self._clock()
        if self._stopped:
            return
        for one in list(self._looking):
            if one.lookup is not None and one.lookup.done:
                self._found(one, one.lookup)
        while self._queued and len(self._looking) < LOOKUPS_MOST:
            if (one := self._queued.popleft()).due is not None:
                self._look(one)
        for _ in range(PORTION):
            if not self._due or self._due[0][0] > now:
                break
            due, _, one = heappop(self._due)
            if one.due != due:
                continue
            if len(self._looking) < LOOKUPS_MOST or is_address(one.endpoint.host):
                self._look(one)
            else:
                self._queued.append(one)

    def _look(self, one: _Wanted) -> None:
        """Begin an attempt."""
        one.due = None
        one.lookup = self._look_up(one.endpoint.host, str(one.endpoint.port))
        self._looking[one] = None
        if one.lookup.done:
            self._found(one, one.lookup)

    def _found(self, one: _Wanted, lookup: Lookup) -> None:
        """Connect to what a lookup has found."""
        one.lookup = None
        del self._looking[one]
        one.addresses = list(lookup.addresses)
        if lookup.addresses:
            self._begin(one)
        else:
            self._failed(one, lookup.error)

    def _begin(self, one: _Wanted) -> None:
        try:
            fd = begin(*one.addresses.pop(0))
        except OSError as error:
            self._failed(one, str(error))
            return
        name = self._connect(one.endpoint, fd)
        if name is None:
            os.close(fd)
            self._failed(one, "this worker has no room for another connection")
            return
        one.connection = name
        self._by_name[name] = one

    def opened(self, name: Name) -> _Wanted | None:
        """Return the endpoint of an open connection; None if the connection was accepted."""
        one = self._by_name.get(name)
        if one is not None:
            one.reported = True
            one.open, one.delay, one.failures = True, FIRST_SECONDS, Complaints()
        return one

    def ended(self, name: Name, why: str) -> None:
        """Note that a connection is lost, or that an attempt has failed."""
        one = self._by_name.pop(name, None)
        if one is None:
            return
        opened, one.connection, one.open = one.open, None, False
        if self._wanted.get(one.address) is not one:
            return
        if not opened and one.addresses:
            self._begin(one)
        else:
            self._failed(one, why or "closed by the peer")

    def _failed(self, one: _Wanted, why: str) -> None:
        now = self._clock()
        if not one.reported:
            one.reported = True
            self._tell_failed(one.endpoint)
        self._try(one, now + one.delay)
        text = "endpoint %s: %s; next attempt in %g s%s"
        if (left_out := one.failures.due(now, why)) is not None:
            more = f" (and {left_out} more of it since the last such line)" if left_out else ""
            self._lines.tell(now, SERVER, logging.WARNING, text, one.address, why, one.delay, more)
        one.delay = min(LONGEST_SECONDS, one.delay * 2)
