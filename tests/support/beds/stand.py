"""A worker's pump whose core is the test: it reads what the worker says, and tells it what to do."""

import ctypes
import gc
import os
import socket
from typing import Any, TypeVar

import cproton_ffi
import msgspec

from bench import contract as n
from shm.contract.control import ConnectorSetup, Setup
from shm.contract.payloads import PAYLOADS
from shm.memory import segment
from tests.support.peer import Net
from workers.control.connectors import Connectors
from workers.control.guard import Guard
from workers.control.handler import Handler
from workers.control.link_requests import LinkRequests
from workers.control.message_log import MessageLog
from workers.control.registry import Registry
from workers.control.trace import Tracing
from workers.ockam.connections import Ockam
from workers.source_routes.senders import Senders

ctypes.CDLL(cproton_ffi.__file__, ctypes.RTLD_GLOBAL)  # the tests' clients have loaded it for themselves only

Said = TypeVar("Said")


def serve(pump: Any, setup: Setup, segments: segment.Segments) -> tuple[Handler, Registry, Connectors]:
    """Let a pump be served as a worker's is, but by no RMR."""
    from workers.loop.pump import Coupler, Dialler, OckamTransport, Routes, Security, Trace  # noqa: PLC0415 - the engine must be loaded first

    registry, dialler, security, trace = Registry(setup, pump), Dialler(pump), Security(pump), Trace(pump)
    guard = Guard(setup.policy, security, segments.worker_stats(0))
    tracing = Tracing(trace, MessageLog(trace, registry.number))
    senders = Senders(Routes(pump), registry)
    ockam = Ockam(OckamTransport(pump), security, registry, tracing, senders)
    link_requests = LinkRequests(dialler, Coupler(pump), registry.link_refused)
    connectors = Connectors(dialler, registry, guard, ockam)
    handler = Handler(registry, guard, tracing, link_requests, connectors, senders, [ockam])
    pump.serve(handler)
    return handler, registry, connectors


class Stand(Net):
    """A net whose turns are the pump's, too. ``heard`` is what the worker has told its core, oldest first.

    ``arena``: the MiB of its arena."""

    def __init__(self, name: str, arena: int = 1, **limits: int) -> None:
        from workers.loop.pump import Pump  # noqa: PLC0415 - the engine must be loaded first

        super().__init__(("127.0.0.1", 0))
        self.heard: list[Any] = []
        self.segments = segment.create(f"/routerd-stand-{os.getpid()}-{name}", 1, arena)
        setup = Setup("worker", 0, 1, self.segments.names.prefix, "me", "1.0", 1, [-1])
        self.wake = socket.socketpair()
        self.bell = os.eventfd(0, os.EFD_NONBLOCK)
        self.pump = pump = Pump(self.segments, 0, 1, self.bell, self.wake[0].fileno(), **limits)
        self.handler, self.registry, self.connectors = serve(pump, setup, self.segments)
        self.segments.unlink()  # whatever happens, nothing is left behind
        self.take_up()

    def take_up(self) -> None:
        """Begin as a core: empty rings, no block in use, nothing heard."""
        self.heard.clear()
        self.actions = n.Consumer(self.segments.rings, n.action_ring_offset(0))
        self.work = n.Producer(self.segments.rings, n.work_ring_offset(0))
        self.arena = n.Arena(self.segments.arenas[0])
        self.own = n.ArenaOwner(self.segments.arenas[1])

    def connect(self, port: int, **attributes: Any) -> None:
        """Have a connector to a port of this machine."""
        setup = ConnectorSetup("c", 5, [f"127.0.0.1:{port}"], **attributes)
        self.connectors.change([setup])

    def core_dies(self, died: bool = True) -> None:
        """The core dies, or has been told to go, and another one begins."""
        self.pump.leave(died)
        self.turn(0.0)
        n.format_rings(self.segments.rings, 1)
        for arena in self.segments.arenas:
            n.Arena(arena).mark_none()
        self.take_up()
        self.pump.come_back()
        assert self.pump.present()
        self.pump.go_on()

    def turn(self, seconds: float) -> None:
        self.connectors.step()
        self.pump.run(0.0)
        while (record := self.actions.pop()) is not None:
            self._hear(n.unpack(record))
        self.actions.give_back()
        self.work.publish()
        super().turn(min(seconds, 0.01))

    def _hear(self, action: dict[str, int]) -> None:
        if action["type"] == n.A_FREE:
            self.own.free_chain(action["block"])
        elif action["type"] == n.A_CONTROL:
            payload = self.arena.read(action["block"])
            self.heard.append(msgspec.msgpack.decode(payload, type=PAYLOADS[action["state"]]))
            self.work.push(n.pack(type=n.W_RELEASE, block=action["block"], link=n.NIL))

    def tell(self, kind: int, message: msgspec.Struct) -> None:
        """Say something to the worker."""
        block = self.own.write(msgspec.msgpack.encode(message))
        assert block is not None
        self.work.push(n.pack(type=n.W_CONTROL, state=kind, arena=1, block=block))
        self.work.publish()

    def hear(self, kind: type[Said], number: int = 1) -> list[Said]:
        """Wait until the worker has said so many things of a kind, and take them."""
        self.until(lambda: sum(isinstance(one, kind) for one in self.heard) >= number, kind.__name__)
        found = [one for one in self.heard if isinstance(one, kind)][:number]
        for one in found:
            self.heard.remove(one)
        return found

    def end(self) -> None:
        """Forget the pump, and unmap."""
        self.pump.serve(None)
        del (self.handler, self.registry, self.connectors, self.pump, self.actions, self.work, self.arena, self.own)
        gc.collect()  # whoever serves connections and the pump know each other
        self.segments.close()
        os.close(self.bell)
        for end in self.wake:
            end.close()
