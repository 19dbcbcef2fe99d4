"""Fake children, with short names for what tests do to it."""

from collections.abc import Sequence

import msgspec

from routerd.config import Address, Log, Router
from routerd.machine.listeners import Listening
from routerd.machine.pinning import Pinning
from routerd.supervise import children as children_module
from routerd.supervise.child import Death
from routerd.supervise.children import Children
from routerd.translate.setup import Blueprint, address_setup, log_setups
from shm.contract.control import Ready, Setup


class FakeChild:
    """Does nothing but remember; the pid is unique."""

    count = 0

    def __init__(self, argv: list[str], setup: Setup | None, fds: Sequence[int], now: float) -> None:
        FakeChild.count += 1
        self.pid = FakeChild.count
        self.setup, self.fds, self.born = setup, list(fds), now
        self.generation = setup.generation if setup else 0
        self.ready: float | None = None
        self.kill_at: float | None = None
        self.why = ""
        self.sent: list[msgspec.Struct] = []
        self.killed = ""
        self.unkillable = False

    def enlist(self, setup: Setup, fds: Sequence[int], now: float) -> None:
        self.setup, self.fds, self.born, self.generation = setup, list(fds), now, setup.generation

    def is_ready(self, now: float) -> None:
        self.ready = now

    def send(self, message: msgspec.Struct, descriptors: Sequence[int] = ()) -> None:
        self.sent.append(message)
        self.got = list(descriptors)

    def hang_up(self, now: float | None, why: str) -> None:
        self.kill_at, self.why = now, why

    def kill(self, why: str) -> None:
        self.killed = self.killed or why

    def is_gone(self, seconds: float) -> bool:
        return not self.unkillable

    def reap(self) -> Death:
        return Death(self.pid, self.generation, "SIGKILL", self.killed)


class FakeMemory:
    prefix = "/routerd-test-1"
    flight = None  # there is no flight recorder

    def __init__(self) -> None:
        self.done: list[str] = []

    def reset(self) -> None:
        self.done.append("reset")

    def mend(self) -> None: ...

    def wake_core(self) -> None:
        self.done.append("wake core")

    def worker_gone(self, index: int) -> None:
        self.done.append(f"worker {index} gone")

    def recorder_gone(self) -> None:
        self.done.append("recorder gone")

    def set_workers(self, count: int) -> None:
        self.done.append(f"{count} workers")

    def empty(self, index: int) -> None:
        self.done.append(f"worker {index} empty")


def blueprint(
    addresses: Sequence[Address] = (), listening: Sequence[Listening] = (), logs: Sequence[Log] = ()
) -> Blueprint:
    router = Router(id="test", workers=2)
    changing = {"addresses": list(map(address_setup, addresses)), "logs": log_setups(logs)}
    return Blueprint(router, "1", listening, [70, 71], **changing)


class Home:
    """The children of a supervisor, with short names for what tests do to it."""

    def __init__(self) -> None:
        self.memory = FakeMemory()
        self.children = Children(
            blueprint(), self.memory, Pinning([], [[], []]), lambda role, index: [role, str(index)]
        )
        self.children.spares._state = lambda _: "sleeping"  # whatever process has that number
        self.core, self.workers = self.children.core, self.children.workers

    def child(self, place: children_module.Place) -> FakeChild:
        assert isinstance(place.child, FakeChild)
        return place.child

    def ready(self, place: children_module.Place, now: float) -> None:
        self.children.said(place, Ready(self.child(place).pid), now)

    def up(self, now: float = 0.0) -> None:
        self.children.step(now)
        self.ready(self.core, now)
        self.children.step(now)
        for worker in self.workers:
            self.ready(worker, now)

    def fill_up(self, now: float) -> None:
        """There are all the spares that there can be."""
        for place in self.children.spares.places:
            while place.child is None:
                now = self.children.next_step(now) or now
                self.children.step(now)
