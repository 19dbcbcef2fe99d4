"""`routerd manage update --type router workers=N`: as many, at once, and nobody is refused."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from proton import ProtonException
from proton.utils import BlockingConnection

from routerd.cli.client import Client as Manager
from routerd.cli.client import Place, RefusedError
from tests.support.clients.knocker import Knocker
from tests.support.running import LONG, Configuration, RunningRouter, until


@pytest.fixture
def router(tmp_path: Path) -> Iterator[RunningRouter]:
    router = RunningRouter(tmp_path, Configuration(router="workers: 1\n arenaSize: 4"))
    yield router
    router.kill()


def update(router: RunningRouter, **attributes: Any) -> dict[str, Any]:
    with Manager(Place(router.url)) as manager:
        found = manager.call("UPDATE", attributes, type="router", identity=f"router/{router.id}")
        assert isinstance(found, dict)
        return found


def hang_up(connection: BlockingConnection) -> None:
    """Close a connection, whose worker may have gone without its knowing."""
    with suppress(ProtonException):
        connection.close()


def test_workers_come_and_go_and_nobody_is_refused(router: RunningRouter) -> None:
    """Who asks through the worker that goes is answered; new connections use those that there are."""
    client = Knocker(router.address)
    client.start()
    assert update(router, workers=3)["workers"] == 3
    until(lambda: len(router.workers) == 3 and all(worker["accepting"] for worker in router.workers), "three")
    held = [BlockingConnection(router.url, timeout=LONG) for _ in range(6)]
    until(lambda: all(worker["connections"] for worker in router.workers), "a share for each")
    assert update(router, workers=1)["workers"] == 1
    until(lambda: len(router.workers) == 1, "one")
    before = client.outcomes["served"]
    until(lambda: client.outcomes["served"] > before + 5, "service")
    client.end.set()
    client.join()
    assert client.outcomes.keys() <= {"served", "cut off", "ConnectionResetError"}, client.outcomes
    assert client.outcomes.total() - client.outcomes["served"] <= 2, client.outcomes
    assert "how=SIGKILL" not in router.log
    for connection in held:
        threading.Thread(target=hang_up, args=(connection,), daemon=True).start()


def test_what_cannot_be_is_refused_and_changes_nothing(router: RunningRouter) -> None:
    """With the reason."""
    for attributes, why in (
        ({"workers": 65}, "out of range"),
        ({"workers": "many"}, "workers"),
        ({"workerCpus": "4095"}, "CPU 4095"),
        ({"arenaSize": 5}, "cannot be changed"),
    ):
        with pytest.raises(RefusedError, match=why):
            update(router, **attributes)
    assert len(router.workers) == 1
