"""Names in `remoteHosts`, and a resolver that takes its time."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from routerd.translate import remote_hosts
from tests.support.running import LONG


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    remote_hosts.forget()
    yield
    remote_hosts.forget()


def test_names_wait_for_the_resolver_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, ten names would make the supervisor stand still until the watchdog ends the router."""
    all_asked = threading.Barrier(10)

    def answer(name: str, *_: object, flags: int = 0) -> list[Any]:
        if flags:
            raise socket.gaierror(socket.EAI_NONAME, "it is no address")
        all_asked.wait(LONG)
        return [(0, 0, 0, "", (f"192.0.2.{name[0]}", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    monkeypatch.setattr(remote_hosts, "LOOKUP_SECONDS", LONG)
    found = remote_hosts.look_up(f"{number}.example" for number in range(10))
    assert [one.ranges for one in found.values()] == [((f"192.0.2.{n}", f"192.0.2.{n}"),) for n in range(10)]


def test_a_resolver_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name lets nobody in and the log can say why; hosts that need no resolver are known all the same."""
    over = threading.Event()

    def answer(name: str, *_: object, flags: int = 0) -> list[Any]:
        if flags:
            raise socket.gaierror(socket.EAI_NONAME, "it is no address")
        over.wait()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    monkeypatch.setattr(remote_hosts, "LOOKUP_SECONDS", 0.0)
    found = remote_hosts.look_up(["silent.example", "10.0.0.1-10.0.0.9", "::1"])
    over.set()
    assert [one.ranges for one in found.values()] == [(), (("10.0.0.1", "10.0.0.9"),), (("::1", "::1"),)]
    assert found["silent.example"].why.startswith("host silent.example is not known: the resolver has not answered")
