"""Connections to endpoints of route tables, which a worker reopens as long as the core wants them."""

import logging
import os
import time
from collections.abc import Callable
from typing import Final

from shm.contract.complaints import Complaints
from shm.contract.payloads import Endpoint
from workers.control.lookup import POLL_SECONDS, Address, Lookup, begin
from workers.control.neighbours import Name

SERVER = logging.getLogger("SERVER")

FIRST_SECONDS: Final = 1.0  # delay of the second attempt; it doubles each time
LONGEST_SECONDS: Final = 30.0

Connect = Callable[[Endpoint, int], Name | None]


class _Wanted:
    """A wanted endpoint and its connection, if there is one."""

    def __init__(self, endpoint: Endpoint, now: float) -> None:
        self.endpoint = endpoint
        self.due: float | None = now
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
        self._stopped = False

    def take(self, wanted: Endpoint) -> None:
        """Take the core's order to keep a connection or to end it."""
        known = self._wanted.get(wanted.address)
        if known is not None and (not wanted.open or known.endpoint != wanted):
            self._drop(self._wanted.pop(wanted.address))
            known = None
        if wanted.open and known is None:
            self._wanted[wanted.address] = _Wanted(wanted, self._clock())

    def forget(self) -> None:
        """Drop the orders of a dead core; the next core gives its own."""
        while self._wanted:
            self._drop(self._wanted.popitem()[1])

    def stop(self) -> None:
        """Open no more connections; open ones stay until they are closed."""
        self._stopped = True

    def _drop(self, one: _Wanted) -> None:
        if one.connection is not None:
            self._hang_up(one.connection)

    def wait(self, at_most: float) -> float:
        """Return the seconds until `step` has something to do, at most ``at_most``."""
        now = self._clock()
        for one in () if self._stopped else self._wanted.values():
            if one.lookup is not None:
                at_most = min(at_most, POLL_SECONDS)
            elif one.due is not None:
                at_most = min(at_most, max(0.0, one.due - now))
        return at_most

    def step(self) -> None:
        """Start the attempts that are due, and connect where a lookup has ended."""
        now = self._clock()
        for one in () if self._stopped else list(self._wanted.values()):
            if one.due is not None and now >= one.due:
                one.due = None
                one.lookup = self._look_up(one.endpoint.host, str(one.endpoint.port))
            if one.lookup is not None and one.lookup.done:
                found, one.lookup = one.lookup, None
                one.addresses = list(found.addresses)
                if found.addresses:
                    self._begin(one)
                else:
                    self._failed(one, found.error)

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
        one.due = now + one.delay
        text = "endpoint %s: %s; next attempt in %g s"
        one.failures.tell(now, SERVER, logging.WARNING, text, one.address, why, one.delay, key=why)
        one.delay = min(LONGEST_SECONDS, one.delay * 2)
