"""The exporter process: serves HTTP, samples the router once a second, and obeys the supervisor."""

import contextlib
import logging
import os
import platform
import socket
import time
from itertools import islice

from routerd.exporter.collector import Identity
from routerd.exporter.gate import Gate
from routerd.exporter.history import TICK_SECONDS
from routerd.exporter.observer import Observer
from routerd.exporter.server import Door, Server
from routerd.exporter.site import Pages
from routerd.exporter.tls import Secured
from routerd.exporter.tracing import Tracing
from shm.contract.channel import Channel
from shm.contract.control import Alive, Exit, ListenerSetup, Ready, SetListeners, Setup, StopAccepting
from shm.contract.security import TlsSetup
from shm.contract.tracing import SetTracing
from shm.memory.observer import SharedView, spans
from shm.memory.segment import SegmentError

LOGGER = logging.getLogger("HTTP")
NICENESS = 10  # requests get only the CPU time that the router leaves


def run(setup: Setup, channel: Channel) -> None:
    """Serve until the supervisor sends Exit."""
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    server = Server()
    identity = Identity(setup.router_id, setup.version, platform.python_version(), setup.generation)
    observer = Observer(SharedView(setup.segments), time.monotonic)
    tracing = Tracing(spans(setup.segments, later=setup.generation > 1), setup.router_id, setup.version)
    counts = server.answered, server.refused, server.by_listener, tracing.counts, tracing.exemplars.copy
    doors = Doors(server, Pages(observer, identity, *counts))
    doors.change(setup.listeners, [fd for one in setup.listeners for fd in one.fds])
    server.watch(channel.fileno())
    _look(observer)  # an exporter that cannot read shared memory is not ready
    tracing.configure(setup.tracing)
    channel.send(Ready(os.getpid()))
    serve(server, doors, observer, tracing, channel)
    server.close()


def serve(server: Server, doors: "Doors", observer: Observer, tracing: Tracing, channel: Channel) -> None:
    """Run turns until the supervisor sends Exit."""
    due = 0.0
    while True:
        now = time.monotonic()
        if now >= due:
            due = now + TICK_SECONDS
            channel.send(Alive())
            _look(observer)
            tracing.step(now)
        server.turn(now, max(0.0, due - now))
        while (message := channel.receive()) is not None:
            match message:
                case Exit():
                    return
                case SetListeners(listeners):
                    doors.change(listeners, channel.take_descriptors())
                case SetTracing(setup):
                    tracing.configure(setup)
                case StopAccepting():
                    observer.stopping = True  # clients want health and metrics to the end
                case _:
                    LOGGER.debug("the supervisor said %r, which is not for the exporter", message)


def _look(observer: Observer) -> None:
    with contextlib.suppress(SegmentError):  # it is being replaced, or the router stops: the next tick tells
        observer.tick()


class Doors:
    """What the sockets of the listeners lead to. The TLS of a set-up is kept while others come and go."""

    def __init__(self, server: Server, pages: Pages) -> None:
        self._server = server
        self._pages = pages
        self._secured: dict[TlsSetup, Secured] = {}

    def change(self, listeners: list[ListenerSetup], descriptors: list[int]) -> None:
        """Serve these listeners from now on; ``descriptors`` are the sockets of all of them in order."""
        sockets = iter([socket.socket(fileno=fd) for fd in descriptors])
        wanted = {one.tls for one in listeners if one.tls is not None}
        self._secured = {tls: self._secured.get(tls) or Secured(tls) for tls in wanted}
        doors: dict[socket.socket, Door] = {}
        for one in listeners:
            mine = list(islice(sockets, len(one.fds)))
            door = self._door(one, mine.pop() if one.websockets else None)
            doors |= dict.fromkeys(mine, door)
        self._server.listen(doors)

    def _door(self, listener: ListenerSetup, workers: socket.socket | None) -> Door:
        site = self._pages.site(listener.metrics, listener.healthz, listener.http_root_dir, listener.websockets)
        gate = Gate(listener.allowed_hosts, listener.allowed_origins)
        return Door(site, gate, self._secured[listener.tls] if listener.tls else None, workers, listener.name)
