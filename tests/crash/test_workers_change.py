"""Workers added and removed under load, and killed meanwhile: what was accepted, a receiver has accepted."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from shm.memory.segment import DIRECTORY
from tests.support.clients.ledger import Clients, check
from tests.support.routers.hurt import HurtRouter
from tests.support.running import Configuration, until

ROLES = [
    ["send=balanced", "send=closest", "receive=balanced", "receive=multicast"],
    ["send=multicast", "receive=closest", "receive=multicast", "receive=balanced"],
]
SECTIONS = (
    "address {\n prefix: closest\n distribution: closest\n}\naddress {\n prefix: multicast\n distribution: multicast\n}"
)
ROUNDS = 2
MAP = 12288  # bytes: of an arena of 8 MiB, two for each of its blocks


def configuration(workers: int) -> Configuration:
    return Configuration(router=f"workers: {workers}\n arenaSize: 8", sections=SECTIONS)


class Changing(HurtRouter):
    """A router whose file changes."""

    def want(self, workers: int) -> None:
        """Reload with another number of workers, and wait until there are so many."""
        self.ask_for(workers)
        until(lambda: len(self.workers) == workers and self.all_serve, f"{workers} workers that serve")

    def ask_for(self, workers: int) -> None:
        """Change the file at one blow, and reload."""
        new = self.config.with_suffix(".new")
        new.write_text(configuration(workers).text(self.id))
        new.replace(self.config)
        self.process.send_signal(signal.SIGHUP)

    def get_on(self) -> None:
        """Wait until some more messages have been delivered."""
        before = self.core["forwarded"]
        until(lambda: self.core["forwarded"] > before + 50, "deliveries")

    def memory_of(self, worker: int) -> int:
        """Bytes of a worker's arena that are backed by memory."""
        (name,) = (name for name in self.left_in_shared_memory if name.endswith(f"-arena-{worker}"))
        return os.stat(DIRECTORY / name).st_blocks * 512


@pytest.fixture
def router(tmp_path: Path) -> Iterator[Changing]:
    """One worker at first."""
    router = Changing(tmp_path, configuration(1))
    try:
        yield router
    finally:
        router.kill()


def test_one_three_one_again_and_again(router: Changing) -> None:
    """Clients are spread over those that there are; the memory of those that went is given back."""
    fresh = router.memory_of(2)
    with Clients(router.url, ROLES) as clients:
        for _ in range(ROUNDS):
            router.get_on()
            router.want(3)
            router.get_on()
            router.want(1)
        router.get_on()
        until(lambda: router.memory_of(2) <= fresh + MAP, "return of all but the map of its blocks")
        check(clients.finish(), at_least=50)
    until(lambda: len(router.children) == 2, "core and worker")
    assert router.core["bad_records"] == 0
    assert "(error)" not in router.log
    router.come_to_rest()
    router.stop()


@pytest.mark.parametrize("victim", ["worker 0", "worker 2", "core"])
def test_processes_are_killed_while_their_number_changes(router: Changing, victim: str) -> None:
    """At once after the change was asked for, so in every state of it."""
    with Clients(router.url, ROLES) as clients:
        for _ in range(ROUNDS):
            router.get_on()
            router.want(3)
            router.get_on()
            process = router.children[victim]
            router.ask_for(1)
            with suppress(ProcessLookupError):  # it was faster
                os.kill(process, signal.SIGKILL)
            router.want(1)
        router.get_on()
        router.want(3)
        check(clients.finish(), at_least=50)
    until(lambda: router.all_serve, "all workers back")
    until(lambda: len(router.children) == 4, "core and workers")
    router.stop()
