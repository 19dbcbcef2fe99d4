"""Applications on the real RMR library, unmodified, with the router between them.

The library is looked for on this machine: ROUTERD_TEST_RMR is the path of librmr_si.so, or ld.so has it.
"""

import ctypes.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.running import Configuration, RunningRouter, address_of, free_port, until

LIBRARY = os.environ.get("ROUTERD_TEST_RMR") or ctypes.util.find_library("rmr_si")
pytestmark = pytest.mark.skipif(
    not LIBRARY, reason="the RMR library is not on this machine: give its path as ROUTERD_TEST_RMR"
)
MODES = ("proxied", "transparent", "sameConnection")


@pytest.fixture(scope="module")
def answering() -> int:
    """The port of whoever answers."""
    return free_port()


@pytest.fixture(scope="module")
def configuration(answering: int, tmp_path_factory: pytest.TempPathFactory) -> Configuration:
    seed = tmp_path_factory.mktemp("seed") / "seed"
    seed.write_text(f"newrt|start\nmse|1000|-1|127.0.0.1:{answering}\nnewrt|end|1\n")
    tables = (
        f"routeTable {{\n name: {mode}\n seed: {seed}\n reply: {mode}\n}}\n"
        f"listener {{\n host: 127.0.0.1\n port: 0\n protocol: rmr\n table: {mode}\n}}\n"
        for mode in MODES
    )
    return Configuration(router="workers: 2", sections="".join(tables), expected="endpoint .*: ")


class Program:
    """An application; its table sends everything to one place."""

    def __init__(self, folder: Path, to: str, port: int, role: str, number: int) -> None:
        seed = folder / f"{role}-{port}.rt"
        seed.write_text(f"newrt|start\nrte|1000|{to}\nnewrt|end|1\n")
        script = Path(__file__).parents[2] / "support" / "programs" / "rmr_library.py"
        here = {"RMR_SEED_RT": str(seed), "RMR_RTG_SVC": "-1", "RMR_SRC_ID": "127.0.0.1", "RMR_LOG_VLEVEL": "0"}
        self.process = subprocess.Popen(
            [sys.executable, script, LIBRARY or "", str(port), role, str(number)],
            env=os.environ | here,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.line() == "ready"

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def told(self, number: int) -> list[dict[str, Any]]:
        return [json.loads(self.line()) for _ in range(number)]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def answerer(router: RunningRouter, answering: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """The one endpoint, that the router has connected to for each table."""
    program = Program(tmp_path_factory.mktemp("answers"), "127.0.0.1:1", answering, "answer", 1000)
    opened = f"connection to 127.0.0.1:{answering} opened"
    until(lambda: router.log.count(opened) == len(MODES), "the endpoint")
    program.go()
    yield program
    program.end()


@pytest.mark.parametrize("role", ["send", "call"])
def test_the_library_through_the_router(
    router: RunningRouter, answerer: Program, mode: str, role: str, tmp_path: Path
) -> None:
    """What is sent, and asked, comes back answered; from the router where replies are proxied."""
    host, port = address_of(router.urls[1 + MODES.index(mode)])
    number, me = 25, free_port()
    asker = Program(tmp_path, f"{host}:{port}", me, role, number)
    try:
        asker.go()
        source = {"proxied": f"{host}:{port}", "transparent": f"127.0.0.1:{me}", "sameConnection": ""}[mode]
        asked, answered = answerer.told(number), asker.told(number)
        assert [one["text"] for one in asked] == [f"{role} {i}" for i in range(number)]
        assert {one["source"] for one in asked} == {source}
        assert [(one["type"], one["text"]) for one in answered] == [(1001, f"{role} {i}") for i in range(number)]
        assert asker.line() == "done"
    finally:
        asker.end()
