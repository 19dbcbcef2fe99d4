"""A worker's listeners: from what the supervisor says to the pump's places, at the start and later.

One listener may have several sockets, and each has a place in the pump. A removed listener's place is used
again when its last connection is gone, so connections always find the terms they were accepted on.
"""

import logging
import os
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Protocol

import msgspec

from shm.contract.control import ConnectorSetup, ListenerSetup
from workers.control.tls import CertificateError

SERVER = logging.getLogger("SERVER")
SESSION_WINDOW_BYTES = 8 * 1024 * 1024  # what the engine may hold for a session that waits (facts 1)
SESSION_WINDOW_BYTES_OF_ROUTERS = 128 * 1024 * 1024  # their links share sessions, by priority

CONNECT_SECONDS = 60  # until a peer has opened a connection of a connector without idle timeout

Terms = tuple[int, int, int, int, int, int, int, bool, str]


class Pump(Protocol):
    """What is asked of workers.loop.pump.Pump."""

    def add_listener(self, fd: int, *terms: *Terms) -> int: ...
    def change_listener(self, place: int, *terms: *Terms) -> None: ...
    def remove_listener(self, place: int) -> None: ...


class Listeners:
    """All listeners of this worker. ``known`` is by number, and what connections look theirs up in;
    ``protect`` gives a place in the pump what its listener asks for (workers.control.guard)."""

    def __init__(
        self,
        pump: Pump,
        known: dict[int, ListenerSetup],
        protect: Callable[[int, ListenerSetup], None] = lambda place, one: None,
    ) -> None:
        self._pump = pump
        self._protect = protect
        self._known = known
        self._places: dict[int, list[int]] = {}

    def change(self, listeners: Sequence[ListenerSetup], descriptors: Sequence[int]) -> None:
        """Serve these from now on. ``descriptors`` are the sockets of all of them, one after the other, and
        ours to close; a listener that is there already keeps what it has."""
        given = iter(descriptors)
        wanted = [msgspec.structs.replace(one, fds=list(islice(given, len(one.fds)))) for one in listeners]
        for number in self._places.keys() - {one.number for one in wanted}:
            for place in self._places.pop(number):
                self._pump.remove_listener(place)
        for one in wanted:
            self._known[one.number] = one
            if one.number in self._places:
                self._keep(one)
            else:
                self._join(one)
        for left in given:
            os.close(left)

    def add(self, one: ListenerSetup) -> None:
        """Listen. A pump that is full leaves the listener to the other workers. Raises CertificateError."""
        places = self._places[one.number] = []
        for fd in one.fds:
            try:
                places.append(self._pump.add_listener(fd, *terms(one)))
                self._protect(places[-1], one)
            except ValueError as error:
                SERVER.error("listener %s is not served by this worker: %s", one.name or one.number, error)
                os.close(fd)

    def _join(self, one: ListenerSetup) -> None:
        """Listen on another one while running; one that cannot be protected stays closed."""
        try:
            self.add(one)
        except CertificateError as error:
            SERVER.error("listener %s is not served by this worker: %s", one.name or one.number, error)
            for place in self._places.pop(one.number):
                self._pump.remove_listener(place)

    def _keep(self, one: ListenerSetup) -> None:
        for fd in one.fds:
            os.close(fd)
        for place in self._places[one.number]:
            self._pump.change_listener(place, *terms(one))
            try:
                self._protect(place, one)
            except CertificateError as error:
                SERVER.error("listener %s keeps its certificates: %s", one.name or one.number, error)


def terms(one: ListenerSetup | ConnectorSetup) -> Terms:
    """A listener, or a connector, as the pump knows it."""
    routers = one.role in ("inter-router", "edge")
    window = SESSION_WINDOW_BYTES_OF_ROUTERS if routers else SESSION_WINDOW_BYTES
    frames = max(2, window // one.max_frame_size)
    if isinstance(one, ConnectorSetup):
        handshake, authenticate = one.idle_timeout_seconds or CONNECT_SECONDS, False
    else:
        handshake = one.initial_handshake_timeout_seconds or one.idle_timeout_seconds
        authenticate = one.authenticate_peer
    return (
        one.number,
        one.max_frame_size,
        min(one.max_sessions, 32768) - 1,
        one.idle_timeout_seconds * 1000,
        handshake * 1000,
        one.link_capacity,
        one.max_session_frames or frames,
        authenticate,
        one.sasl_mechanisms,
    )
