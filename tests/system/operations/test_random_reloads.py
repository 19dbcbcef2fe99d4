"""One reload after the other, from any configuration to any other: each listener serves, and nothing is left behind.

A reload changes what runs, piece by piece, in some order; a start makes all of it. Whatever a piece needs of another
one, or leaves to it, only a sequence of reloads can show.
"""

import os
import random
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from bench.processes import processes
from routerd.supervise.spares import SPARES
from tests.support.running import LONG, Configuration, RunningRouter, free_port, roles, until

RELOADS = 8
KINDS = ("none", "amqp", "http", "ockam", "rmr one", "rmr two")  # what may listen at a port
DIALS = ("none", "amqp", "ockam")  # what may connect to a port where nobody listens
TABLES = ("none", "plain", "longer frames", "proxied")
OPENING = {"amqp": b"AMQP\0\1\0\0", "http": b"GET /healthz HTTP/1.0\r\n\r\n"}
FIRST = {"amqp": b"A", "http": b"H", "ockam": b"\x01"}  # octets of an answer
COMPLAINTS = r"(?m)^.*(?:Traceback|\bdied\b|makes no connection|there is no route table).*$"


def section(kind: str, **attributes: object) -> str:
    return f"{kind} {{\n" + "".join(f" {name}: {value}\n" for name, value in attributes.items()) + "}\n"


def listener(place: int, kind: str, port: int) -> str:
    if kind == "none":
        return ""
    protocol, _, table = kind.partition(" ")
    more: dict[str, object] = {"http": "yes"} if protocol == "http" else {}
    if protocol in ("ockam", "rmr"):
        more["protocol"] = protocol
    if table:
        more["table"] = table
    return section("listener", name=f"l{place}", host="127.0.0.1", port=port, **more)


def connector(place: int, kind: str, port: int) -> str:
    if kind == "none":
        return ""
    more = {"protocol": "ockam", "reach": f"node{place}", "routeAddress": f"T{place}"} if kind == "ockam" else {}
    return section("connector", name=f"c{place}", host="127.0.0.1", port=port, **more)


def table(name: str, kind: str) -> str:
    how: dict[str, dict[str, object]] = {
        "plain": {},
        "longer frames": {"maxFrameSize": 100_000},
        "proxied": {"reply": "proxied"},
    }
    return "" if kind == "none" else section("routeTable", name=name, **how[kind])


class Choice:
    """A configuration, drawn at random; tables that listeners name are there."""

    def __init__(self, draw: random.Random, ports: list[int]) -> None:
        self.listeners = {port: draw.choice(KINDS) for port in ports[:3]}
        tables = {name: draw.choice(TABLES) for name in ("one", "two")}
        for kind in self.listeners.values():
            name = kind.partition(" ")[2]
            if name and tables[name] == "none":
                tables[name] = "plain"
        self.sections = "".join(table(*each) for each in tables.items())
        self.sections += "".join(listener(i, kind, port) for i, (port, kind) in enumerate(self.listeners.items()))
        self.sections += "".join(connector(i, draw.choice(DIALS), port) for i, port in enumerate(ports[3:]))


class Held(NamedTuple):
    """What a process holds."""

    pid: int
    descriptors: int
    threads: int


class Reloaded:
    """A router with one worker, whose file changes."""

    def __init__(self, folder: Path) -> None:
        self.configuration = Configuration("workers: 1\n arenaSize: 4")
        self.router = RunningRouter(folder, self.configuration)

    def reload(self, sections: str) -> None:
        text = Configuration(self.configuration.router, self.first, sections).text(self.router.id)
        before = self.router.log.count(") Reload")
        if self.router.config.read_text() == text:
            return
        self.router.config.write_text(text)
        os.kill(self.router.process.pid, signal.SIGHUP)
        until(lambda: self.router.log.count(") Reload") > before, "reload")
        assert "Reload refused" not in self.router.log, self.router.log

    @property
    def first(self) -> str:
        return self.configuration.listener

    def serves(self, listeners: dict[int, str]) -> None:
        """Each listener lets a client in, in its own protocol, and nobody else listens."""
        own = [port for port, kind in listeners.items() if kind not in ("none", "http")]
        for port, kind in listeners.items():
            until(partial(self._serves, port, kind.partition(" ")[0]), f"{kind} at {port}")
        until(partial(self._keeps, own), f"{len(own)} connections")

    def _keeps(self, ports: list[int]) -> bool:
        """Whether a client of each port stays. A table that is still changing ends RMR connections once more."""
        until(lambda: self._connected == 0, "end of the connections")
        with ExitStack() as clients:
            for port in ports:
                clients.enter_context(socket.create_connection(("127.0.0.1", port), timeout=LONG))
            with suppress(AssertionError):
                until(lambda: self._connected == len(ports), "all", 2)
                return True
        return False

    @staticmethod
    def _serves(port: int, protocol: str) -> bool:
        """Whether a port speaks a protocol. One that has just changed may still speak its former one."""
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as client:
                client.sendall(OPENING.get(protocol, b""))
                return protocol == "rmr" or (protocol != "none" and client.recv(1) == FIRST[protocol])
        except TimeoutError:
            return False
        except (ConnectionRefusedError, ConnectionResetError):
            return protocol == "none"

    @property
    def _connected(self) -> int:
        return self.router.counted("connections")

    @property
    def spares(self) -> int:
        return sum(name.startswith("spare") for name in processes(self.router.process.pid))

    @property
    def held(self) -> dict[str, Held]:
        """What the processes that are always there hold."""
        found = roles(self.router.process.pid) | {"supervisor": psutil.Process(self.router.process.pid)}
        return {
            role: Held(found[role].pid, found[role].num_fds(), found[role].num_threads())
            for role in ("supervisor", "core", "worker 0")
        }


@pytest.fixture
def reloaded(tmp_path: Path) -> Iterator[Reloaded]:
    reloaded = Reloaded(tmp_path)
    yield reloaded
    reloaded.router.kill()


@pytest.mark.parametrize("attempt", range(2))
def test_a_reload_brings_what_a_start_would(reloaded: Reloaded, attempt: int) -> None:
    """Nobody dies, nobody complains, and each process holds as much after many reloads as after some."""
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")  # pytest shows it if the test fails
    draw = random.Random(seed)  # noqa: S311 - a choice, no secret
    ports = [free_port() for _ in range(5)]
    _wander(reloaded, draw, ports)
    until(lambda: reloaded.spares == SPARES, "spares, which come late and have descriptors of the supervisor")
    held = reloaded.held  # with what is begun when it is needed first, such as a thread
    _wander(reloaded, draw, ports)
    until(lambda: _no_more(reloaded.held, held), f"as little as half-way: {held}, {reloaded.held}")
    reloaded.router.come_to_rest()
    reloaded.router.end()
    assert not re.findall(COMPLAINTS, reloaded.router.log)


def _no_more(held: dict[str, Held], before: dict[str, Held]) -> bool:
    """Whether the same processes hold at most as much as before: what one was about to close half-way is no loss."""
    return all(
        held[role].pid == each.pid and held[role].descriptors <= each.descriptors and held[role].threads <= each.threads
        for role, each in before.items()
    )


def _wander(reloaded: Reloaded, draw: random.Random, ports: list[int]) -> None:
    """From one configuration to the other, and at last to none of them."""
    for _ in range(RELOADS):
        choice = Choice(draw, ports)
        print(choice.sections, end="-- \n")
        reloaded.reload(choice.sections)
        reloaded.serves(choice.listeners)
    reloaded.reload("")
    reloaded.serves(dict.fromkeys(ports, "none"))
