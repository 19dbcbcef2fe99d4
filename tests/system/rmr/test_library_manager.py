"""Applications on the real RMR library have their tables from the router (see test_library)."""

import ctypes.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from routerd.cli.client import Client, Place
from tests.support.clients.rmr import Link
from tests.support.clients.rmr_frames import Frame
from tests.support.running import Configuration, RunningRouter, address_of, free_port, until

LIBRARY = os.environ.get("ROUTERD_TEST_RMR") or ctypes.util.find_library("rmr_si")
pytestmark = pytest.mark.skipif(
    not LIBRARY, reason="the RMR library is not on this machine: give its path as ROUTERD_TEST_RMR"
)
ENTRIES = "".join(f"mse|{one}|-1|127.0.0.1:9\n" for one in range(5000))
MANY = f"newrt|start|second\n{ENTRIES}newrt|end|5000\n"


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Configuration:
    seed = tmp_path_factory.mktemp("seed") / "seed"
    seed.write_text(
        "newrt|start|first\nmse|1000|-1|127.0.0.1:9\nnewrt|end|1\n"
        "meid_map|start|m\nmme_ar|127.0.0.1:9|gnb1\nmeid_map|end|1\n"
    )
    return Configuration(
        router="workers: 2",
        sections=f"""
routeTable {{
 name: rt
 seed: {seed}
 serve: yes
 connect: no
}}
listener {{
 host: 127.0.0.1
 port: 0
 protocol: rmr
 table: rt
}}
""",
        expected="Route table|endpoint .*: ",
    )


class Program:
    """An application that answers, once it has a table from the router."""

    def __init__(self, router: RunningRouter, port: int, control: int) -> None:
        host, rm_port = address_of(router.urls[1])
        here = {
            "RMR_RTG_SVC": f"{host}:{rm_port}",
            "RMR_CTL_PORT": str(control),
            "RMR_RTREQ_FREQ": "1",
            "RMR_SRC_ID": "127.0.0.1",
            "RMR_LOG_VLEVEL": "0",
        }
        script = Path(__file__).parents[2] / "support" / "programs" / "rmr_library.py"
        self.process = subprocess.Popen(
            [sys.executable, script, LIBRARY or "", str(port), "answer", "1"],
            env=os.environ | here,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def applications(router: RunningRouter) -> list[dict[str, object]]:
    with Client(Place(router.url)) as client:
        return [dict(row) for row in client.query("routeTable.application")]


def in_step(router: RunningRouter) -> bool:
    """Whether there is one application, which runs what the router does."""
    return [row["state"] for row in applications(router)] == ["ok"]


def acknowledged(router: RunningRouter, number: int) -> Callable[[], bool]:
    return lambda: router.core["table_acks"] >= number


def push(router: RunningRouter, text: str, folder: Path) -> None:
    file = folder / "table"
    file.write_text(text)
    routerd = Path(sys.executable).with_name("routerd")
    subprocess.run([routerd, "table", "push", "--bus", router.url, file], check=True, capture_output=True)


@pytest.fixture
def program(router: RunningRouter) -> Iterator[tuple[Program, int, int]]:
    port, control = free_port(), free_port()
    program = Program(router, port, control)
    yield program, port, control
    program.end()


def test_the_library_gets_its_table_acknowledges_it_and_every_change(
    router: RunningRouter, program: tuple[Program, int, int], tmp_path: Path
) -> None:
    """Table, map, updates, another whole table; and when it starts again it is another instance."""
    started, port, control = program
    assert started.line() == "ready"  # it has a table
    until(lambda: in_step(router), "table and map")
    (row,) = applications(router)
    assert (row["endpoint"], row["controlIdentity"]) == (f"127.0.0.1:{port}", f"127.0.0.1:{control}")
    assert str(row["tableId"]).startswith("first@")
    assert row["mapId"]
    acks = router.core["table_acks"]
    for text in (
        "updatert|start|u\nmse|1001|-1|127.0.0.1:9\nupdatert|end|1\n",
        "updatert|start|u\ndel|1001|-1\nmse|1002,127.0.0.1:9|-1|127.0.0.1:9\nupdatert|end|2\n",
        "meid_map|start|m\nmme_ar|127.0.0.1:9|gnb2\nmme_del|gnb1\nmeid_map|end|2\n",
        MANY,
    ):
        push(router, text, tmp_path)
        acks += 1
        until(acknowledged(router, acks), f"acknowledgement of {text[:60]!r}")
        until(lambda: in_step(router), "it being known")
    assert router.core["table_nacks"] == 0
    assert str(applications(router)[0]["tableId"]).startswith("second@")
    started.go()
    link = Link.to(f"127.0.0.1:{port}")  # the application itself is as well as before
    link.send(Frame(1000, b"hello"))
    assert '"hello"' in started.line()
    link.close()
    started.end()
    until(lambda: applications(router)[0]["state"] == "unknown", "the lost connection")
    again = Program(router, port, control)
    try:
        assert again.line() == "ready"
        until(lambda: in_step(router), "the table of the next instance")
        assert str(applications(router)[0]["tableId"]).startswith("second@")
    finally:
        again.end()
