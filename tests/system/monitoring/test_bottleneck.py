"""What `routerd stat --workers` says of a router whose worker does not keep up, and of one that is idle."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from routerd.cli.client import Client as Manager
from routerd.cli.client import Place
from routerd.cli.stat import with_rates
from routerd.cli.views import remark
from shm import native
from tests.support.peer import Net, Peer
from tests.support.running import LONG, Configuration, RunningRouter, roles, until

WAITING = native.RING_CAPACITY * 5 // 8  # records for the worker that does not read them


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    """One sender may fill a ring."""
    return Configuration(router=f"workers: 2\n linkCapacity: {WAITING}")


def test_an_idle_router_has_no_bottleneck(router: RunningRouter) -> None:
    shown = subprocess.run(
        [Path(sys.executable).with_name("routerd"), "stat", "--workers", "--json", "--bus", router.url],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=True,
    )
    remarks = {row["name"]: remark(row) for row in json.loads(shown.stdout)}
    assert remarks.keys() == {"supervisor", "core", "worker-0", "worker-1"}
    assert not {"bottleneck", "needs CPU", "down"} & set(remarks.values())


def peer_on(router: RunningRouter, net: Net, worker: int) -> Peer:
    """A connection that this worker has."""
    for _ in range(99):
        before = router.workers[worker]["connections"]
        peer = net.peer()
        if router.workers[worker]["connections"] > before:
            return peer
    raise AssertionError(f"worker {worker} takes no connection")


@contextmanager
def held(router: RunningRouter, worker: int) -> Iterator[None]:
    """That worker does nothing; nor does the supervisor, which would replace it."""
    supervisor, children = router.process, roles(router.process.pid)
    supervisor.send_signal(signal.SIGSTOP)
    children[f"worker {worker}"].suspend()
    try:
        yield
    finally:
        children[f"worker {worker}"].resume()
        supervisor.send_signal(signal.SIGCONT)


def test_the_process_that_is_behind_is_named(router: RunningRouter, net: Net) -> None:
    """A worker with most of a ring to read; not the core that filled it, nor the worker that sent."""
    with Manager(Place(router.url)) as manager:
        until(lambda: router.counted("connections") == 1, "the manager's connection alone")
        (here,) = [i for i, worker in enumerate(router.workers) if worker["connections"]]
        receiving, sending = peer_on(router, net, 1 - here), peer_on(router, net, here)
        receiver = receiving.receiver("a", credit=WAITING)
        sender = sending.ready_sender("a")
        net.until(lambda: sender.credit >= WAITING, "credit")
        with held(router, 1 - here):
            for _ in range(WAITING):
                net.send(sender, b"\x00Sw\xa1\x01m")
            net.until(lambda: not sender.queued and sending.transport.pending() == 0, "sending")
            seen: dict[str, str | None] = {}

            def named() -> bool:
                rows = with_rates([], list(manager.query("worker")), 1.0)
                seen.update({row["name"]: remark(row) for row in rows})
                return seen[f"worker-{1 - here}"] == "bottleneck"

            until(named, "a bottleneck")
            assert "bottleneck" not in (seen["core"], seen[f"worker-{here}"])
    for arrived in receiving.take(receiver, WAITING):
        arrived.settle()
