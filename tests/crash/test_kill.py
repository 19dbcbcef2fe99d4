"""kill -9 of workers and supervisor while messages flow: whatever was accepted, a receiver has accepted."""

import os
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.support.clients.ledger import Clients, check
from tests.support.routers.hurt import HurtRouter
from tests.support.running import LONG, Configuration, until

SECONDS = float(os.environ.get("CRASH_SECONDS", "8"))
WORKERS = 3
CONFIGURATION = Configuration(
    router=f"workers: {WORKERS}\n arenaSize: 4",  # little: blocks run low at times, too
    sections="address {\n prefix: closest\n distribution: closest\n}\n"
    "address {\n prefix: multicast\n distribution: multicast\n}",
)
ROLES = [
    ["send=balanced", "send=closest", "receive=balanced", "receive=multicast"],
    ["send=multicast", "receive=closest", "receive=multicast", "receive=balanced"],
]
SENDERS = sum(role.startswith("send") for roles in ROLES for role in roles)


@pytest.fixture
def router(tmp_path: Path) -> Iterator[HurtRouter]:
    """A router, in its worst hour."""
    router = HurtRouter(tmp_path, CONFIGURATION)
    try:
        yield router
    finally:
        router.kill()


def get_on(router: HurtRouter) -> None:
    """Wait until some more messages have been delivered."""
    before = router.counted("deliveries_out")
    until(lambda: router.counted("deliveries_out") > before + 10, "deliveries")


def served(clients: Clients) -> int:
    """How many messages have been accepted to the sender with the fewest."""
    counts = clients.accepted()
    return min(counts.values()) if len(counts) == SENDERS else 0


def test_a_worker_is_killed_every_second(router: HurtRouter) -> None:
    """For some time; the others go on, nothing accepted is missing, no memory is lost."""
    memory, core = router.segments, router.children["core"]
    with Clients(router.url, ROLES) as clients:
        get_on(router)
        finish = time.monotonic() + SECONDS
        kills = 0
        while time.monotonic() < finish:
            victims = [role for role in router.children if role != "core"]
            router.hit(random.choice(victims))  # noqa: S311 - no secret
            kills += 1
            get_on(router)
            time.sleep(1.0)
        check(clients.finish(), at_least=int(SECONDS))
    until(lambda: router.all_serve, "all workers back")
    router.come_to_rest()
    assert router.children["core"] == core
    until(lambda: router.core["workers_reclaimed"] == kills, "return of what each victim held")
    assert router.segments == memory
    router.stop()


def test_the_supervisor_is_killed(router: HurtRouter, tmp_path: Path) -> None:
    """Its children end at once; the next router removes what it left; nothing accepted is missing."""
    with Clients(router.url, ROLES) as clients:
        get_on(router)
        children = [psutil.Process(pid) for pid in router.children.values()]
        left = router.segments
        router.process.kill()
        router.process.wait()
        assert psutil.wait_procs(children, timeout=LONG)[1] == []
        assert router.segments.keys() <= left.keys()  # another router's start may have swept already
        folder = tmp_path / "next"
        folder.mkdir()
        same_port = replace(CONFIGURATION, listener=f"host: 127.0.0.1\n port: {router.address[1]}")
        successor = HurtRouter(folder, same_port)
        try:
            assert router.segments == {}
            until(lambda: successor.all_serve, "start")
            until(lambda: served(clients) >= 10, "messages of each sender")
            check(clients.finish(), at_least=10)
            successor.come_to_rest()
            successor.stop()
        finally:
            successor.kill()
