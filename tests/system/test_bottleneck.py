"""`routerd stat --workers` under load: it names the process that holds up the others, if there is one."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import LONG, Configuration, RunningRouter, roles, until

from routerd.views import remark

BEHIND = {"bottleneck", "needs CPU"}  # the second where others take the CPU from it


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Configuration:
    """A line in the log for each message: that is work for the worker, and none for the core."""
    log = tmp_path_factory.mktemp("log") / "messages"
    return Configuration(
        router="workers: 1",
        listener="host: 127.0.0.1\n port: 0\n messageLoggingComponents: all",
        sections=f"log {{\n module: MESSAGE\n enable: info+\n outputFile: {log}\n}}",
    )


@pytest.fixture
def load(router: RunningRouter) -> Iterator[None]:
    """A sender and a receiver that do nothing else. Where CPUs are scarce the worker comes last, or its
    clients might be what everybody waits for."""
    roles(router.process.pid)["worker 0"].nice(10)
    host, port = router.address
    clients = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "bench.client",
                mode,
                "--host",
                host,
                "--port",
                str(port),
                "--count",
                "10000000",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for mode in ("recv", "send")
    ]
    yield
    for client in clients:
        client.kill()
        client.wait()


def remarks(router: RunningRouter) -> dict[str, str]:
    """By process, what the table says."""
    shown = subprocess.run(
        [Path(sys.executable).with_name("routerd"), "stat", "--workers", "--json", "--bus", router.url],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=True,
    )
    return {row["name"]: remark(row) or "" for row in json.loads(shown.stdout)}


def test_an_idle_router_has_no_bottleneck(router: RunningRouter) -> None:
    assert not BEHIND & set(remarks(router).values())


@pytest.mark.usefixtures("load")
def test_the_process_that_is_behind_is_named(router: RunningRouter) -> None:
    """The worker, and not the core that waits for it."""
    seen: list[dict[str, str]] = []

    def named() -> bool:
        seen.append(remarks(router))
        return seen[-1]["worker-0"] in BEHIND

    until(named, "a bottleneck", 2 * LONG)
    assert "bottleneck" not in [one["core"] for one in seen]
