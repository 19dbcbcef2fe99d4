"""Connections to endpoints of route tables, which a worker reopens as long as the core wants them."""

import logging
import os
import time
from collections.abc import Callable
from typing import Final

from shm.contract.complaints import Complaints
from shm.contract.payloads import Endpoint
from workers.control.attempts import Attempt, Attempts
from workers.control.lookup import Address, Lookup, begin
from workers.control.neighbours import Name

SERVER = logging.getLogger("SERVER")

FIRST_SECONDS: Final = 1.0  # delay of the second attempt; it doubles each time
LONGEST_SECONDS: Final = 30.0
PORTION: Final = 32  # attempts that begin before messages have their turn: about three milliseconds
ALL_SECONDS: Final = 10.0  # between lines about failures of all endpoints, after ALL_BURST of them
ALL_BURST: Final = 50

Connect = Callable[[Endpoint, int], Name | None]


class _Wanted(Attempt):
    """A wanted endpoint and its connection, if there is one."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.delay = FIRST_SECONDS
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
    def asked(self) -> tuple[str, str, str]:
        return self.endpoint.host, str(self.endpoint.port), ""

    @property
    def host_port(self) -> str:
        host = self.endpoint.host
        return f"[{host}]:{self.endpoint.port}" if ":" in host else f"{host}:{self.endpoint.port}"


class Endpoints(Attempts[_Wanted]):
    """All endpoints that the core wants connections to.

    ``connect`` starts a connection on a connecting socket, or raises ValueError; ``hang_up`` ends one.
    ``failed`` is called once for an endpoint whose first attempt fails. ``clock`` returns monotonic seconds.
    """

    def __init__(
        self,
        connect: Connect,
        hang_up: Callable[[Name], None],
        failed: Callable[[Endpoint], None],
        clock: Callable[[], float] = time.monotonic,
        look_up: Callable[[str, str, str], Lookup] = Lookup,
    ) -> None:
        super().__init__(clock, look_up, PORTION)
        self._connect = connect
        self._hang_up = hang_up
        self._tell_failed = failed
        self._wanted: dict[str, _Wanted] = {}  # by address
        self._by_name: dict[Name, _Wanted] = {}
        self._lines = Complaints(ALL_SECONDS, ALL_BURST)  # about all of them

    def take(self, wanted: Endpoint) -> None:
        """Take the core's order to keep a connection or to end it."""
        known = self._wanted.get(wanted.address)
        if known is not None and (not wanted.open or known.endpoint != wanted):
            self._drop(self._wanted.pop(wanted.address))
            known = None
        if wanted.open and known is None:
            one = self._wanted[wanted.address] = _Wanted(wanted)
            self._plan(one, self._clock())

    def forget(self) -> None:
        """Drop the orders of a dead core; the next core gives its own."""
        while self._wanted:
            self._drop(self._wanted.popitem()[1])

    def _drop(self, one: _Wanted) -> None:
        self._give_up(one)
        if one.connection is not None:
            self._hang_up(one.connection)

    def _found(self, one: _Wanted, lookup: Lookup) -> None:
        one.addresses = list(lookup.addresses)
        if lookup.addresses:
            self._begin(one)
        else:
            self._failed(one, lookup.error)

    def _begin(self, one: _Wanted) -> None:
        try:
            fd = begin(one.addresses)
        except OSError as error:
            self._failed(one, str(error))
            return
        name, why = None, "this worker has no room for another connection"
        try:
            name = self._connect(one.endpoint, fd)
        except ValueError as error:
            why = str(error)
        if name is None:
            os.close(fd)
            self._failed(one, why)
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
        if not opened and one.addresses and not self._stopped:
            self._begin(one)
        else:
            self._failed(one, why or "closed by the peer")

    def _failed(self, one: _Wanted, why: str) -> None:
        now = self._clock()
        if not one.reported:
            one.reported = True
            self._tell_failed(one.endpoint)
        self._plan(one, now + one.delay)
        text = "endpoint %s: %s; next attempt in %g s%s"
        if (left_out := one.failures.due(now, why)) is not None:
            more = f" (and {left_out} more of it since the last such line)" if left_out else ""
            self._lines.tell(now, SERVER, logging.WARNING, text, one.address, why, one.delay, more)
        one.delay = min(LONGEST_SECONDS, one.delay * 2)
