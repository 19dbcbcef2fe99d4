"""A worker's listeners: they turn the supervisor's configuration into the pump's listening sockets.

One listener may have several sockets, each of which has a place in the pump. The pump reuses a removed
listener's place only after its last connection is gone, so connections keep the terms of their acceptance.
"""

import logging
import os
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Protocol

import msgspec

from shm.contract.control import ConnectorSetup, ListenerSetup
from workers.control.neighbours import Terms
from workers.control.tls import CertificateError, Stamp, stamp

SERVER = logging.getLogger("SERVER")
SESSION_WINDOW_BYTES = 8 * 1024 * 1024  # bytes that may wait of a session (AMQP 1.0 part 2.5.6)
FIRST_WINDOW_BYTES = 64 * 1024 * 1024  # the same of a connection's first session: long messages come in one piece
SESSION_WINDOW_BYTES_OF_ROUTERS = 128 * 1024 * 1024  # routers' links share one session per priority

CONNECT_SECONDS = 60  # timeout of a connector's attempt if it has no idle timeout


class Pump(Protocol):
    """The part of workers.loop.pump.Pump that listeners use."""

    def add_listener(self, fd: int, *terms: *Terms) -> int: ...
    def change_listener(self, place: int, *terms: *Terms) -> None: ...
    def remove_listener(self, place: int) -> None: ...


class Listeners:
    """All listeners of this worker.

    ``known`` has all listeners by number, removed ones too, because their connections still need them.
    ``protect`` sets up a place in the pump, for example its TLS; it may raise CertificateError and ValueError.
    """

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
        self._lacking: dict[int, str] = {}  # names of those that are not served on all their sockets
        self._waiting: dict[int, tuple[ListenerSetup, Stamp]] = {}  # for other files than these; their sockets are open

    def change(self, listeners: Sequence[ListenerSetup], descriptors: Sequence[int]) -> None:
        """Replace the listeners; served ones keep their sockets, unless these bring other connections from now on.

        ``descriptors`` are the sockets of all listeners in order, which this call takes over or closes.
        """
        given = iter(descriptors)
        wanted = [msgspec.structs.replace(one, fds=list(islice(given, len(one.fds)))) for one in listeners]
        kinds = {one.number: _kind(one) for one in wanted}
        for number in list(self._places):
            if number in self._lacking or kinds.get(number) != _kind(self._known[number]):
                self._leave(number)
        self._lacking.clear()
        while self._waiting:
            one, _ = self._waiting.popitem()[1]
            for fd in one.fds:
                os.close(fd)
        for one in wanted:
            self._known[one.number] = one
            if one.number in self._places:
                self._keep(one)
            else:
                self.join(one)
        for left in given:
            os.close(left)

    @property
    def served(self) -> dict[str, bool]:
        """Whether each listener is served on all its sockets, by name."""
        return {self._known[number].name: True for number in self._places} | dict.fromkeys(
            self._lacking.values(), False
        )

    def add(self, one: ListenerSetup) -> None:
        """Serve a listener's sockets. A full pump leaves them to other workers.

        Raises CertificateError, and then none of them is open.
        """
        self._lacking.pop(one.number, None)
        places = self._places[one.number] = []
        fds = iter(one.fds)
        for fd in fds:
            try:
                place = self._pump.add_listener(fd, *terms(one))
            except ValueError as error:
                self._lack(one, error)
                os.close(fd)
                continue
            places.append(place)
            try:
                self._protect(place, one)
            except ValueError as error:
                self._lack(one, error)
                self._pump.remove_listener(places.pop())
            except CertificateError:
                self._leave(one.number)
                for left in fds:
                    os.close(left)
                raise

    def _lack(self, one: ListenerSetup, why: Exception) -> None:
        self._lacking[one.number] = one.name
        SERVER.error("listener %s is not served by this worker: %s", one.shown, why)

    def join(self, one: ListenerSetup) -> None:
        """Serve a listener's sockets while the router runs; one whose certificates cannot be used waits for others.

        Other workers may still have certificates that can be used, so they take its clients meanwhile.
        """
        if one.tls is None:
            self.add(one)
            return
        kept, files = msgspec.structs.replace(one, fds=[os.dup(fd) for fd in one.fds]), stamp(one.tls)
        try:
            self.add(one)
        except CertificateError as error:
            self._lack(one, error)
            self._waiting[one.number] = kept, files
        else:
            for fd in kept.fds:
                os.close(fd)

    def retry(self) -> bool:
        """Serve listeners that waited for certificates if these can be used now; return whether any is served."""
        ready = [one for one, files in self._waiting.values() if one.tls is not None and stamp(one.tls) != files]
        for one in ready:
            del self._waiting[one.number]
            self.join(one)
        served = [one for one in ready if one.number in self._places]
        for one in served:
            SERVER.info("listener %s is served by this worker: its certificates can be used", one.shown)
        return bool(served)

    def _leave(self, number: int) -> None:
        for place in self._places.pop(number):
            self._pump.remove_listener(place)

    def _keep(self, one: ListenerSetup) -> None:
        """Give a served listener its new settings; its former ones may let in whom these keep out."""
        try:
            for place in self._places[one.number]:
                self._pump.change_listener(place, *terms(one))
                self._protect(place, one)
        except CertificateError:
            self._leave(one.number)
            self.join(one)
            return
        except ValueError as error:
            self._lack(one, error)
            self._leave(one.number)
        for fd in one.fds:
            os.close(fd)


def _kind(one: ListenerSetup) -> tuple[bool, bool, bool]:
    """Return what a place's connections are for as long as there is one: they keep its protocol's terms."""
    return bool(one.table), one.ockam is not None, one.websockets


def terms(one: ListenerSetup | ConnectorSetup) -> Terms:
    """Return the pump's terms of a listener or connector; pump.pyx, `add_listener`, lists them and their units."""
    routers = one.role in ("inter-router", "edge")
    windows = (SESSION_WINDOW_BYTES_OF_ROUTERS,) * 2 if routers else (SESSION_WINDOW_BYTES, FIRST_WINDOW_BYTES)
    window, widest = (one.max_session_frames or max(2, octets // one.max_frame_size) for octets in windows)
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
        window,
        widest,
        authenticate,
        one.sasl_mechanisms,
    )
