"""Names in `remoteHosts`, and a resolver that takes its time."""

import errno
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from routerd.config.entities.policy import Policy, Vhost
from routerd.machine import lookups
from routerd.translate import remote_hosts
from routerd.translate.security import policy_setup
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
    monkeypatch.setattr(lookups, "LOOKUP_SECONDS", LONG)
    found = remote_hosts.look_up(f"{number}.example" for number in range(10))
    assert [one.ranges for one in found.values()] == [((f"192.0.2.{n}", f"192.0.2.{n}"),) for n in range(10)]


@pytest.mark.parametrize("silent", [True, False])
def test_a_name_without_an_answer_keeps_the_addresses_that_it_had(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, silent: bool
) -> None:
    """A reload at a resolver that is silent, or away, locks nobody out. A name that is gone lets nobody in."""
    over, away = threading.Event(), set[str]()
    answers = {"gate.example": "192.0.2.7", "gone.example": "192.0.2.9"}

    def answer(name: str, *_: object, flags: int = 0) -> list[Any]:
        if flags or name not in (*answers, *away):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        if name in away:
            if silent:
                over.wait()
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [(0, 0, 0, "", (answers[name], 0))]

    def found() -> dict[str, Any]:
        caplog.clear()
        (group,) = policy_setup(Policy(enable_vhost_policy=True), [vhost]).vhosts[0].groups
        lines = [line.getMessage().partition("remoteHosts: host ")[2] for line in caplog.records]
        told = {line.split()[0]: line.rpartition("; ")[2] for line in lines}
        return {"in": [first for first, _ in group.hosts or []], "told": told}

    vhost = Vhost(hostname="a", groups={"g": {"users": "*", "remoteHosts": "gate.example, gone.example, new.example"}})
    monkeypatch.setattr(socket, "getaddrinfo", answer)
    monkeypatch.setattr(lookups, "LOOKUP_SECONDS", LONG)
    nobody, before = (
        "it lets nobody in: give an address, or mend the name",
        "the addresses that it had before stay allowed",
    )
    assert found() == {"in": ["192.0.2.7", "192.0.2.9"], "told": {"new.example": nobody}}
    away |= {"gate.example", "new.example"}
    answers.clear()
    if silent:
        away |= {"gone.example"}
        monkeypatch.setattr(lookups, "LOOKUP_SECONDS", 0.0)
    for _ in range(2):
        remote_hosts.forget()
        remote_hosts.forget()  # a reload that was refused
        now = found()
        assert now["in"] == ["192.0.2.7", "192.0.2.9"][: 1 + silent]
        assert now["told"] == {
            "gate.example": before,
            "gone.example": before if silent else nobody,
            "new.example": nobody,
        }
    over.set()


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (socket.gaierror(socket.EAI_SYSTEM, "System error"), True),
        (socket.gaierror(socket.EAI_MEMORY, "Memory allocation failure"), True),
        (socket.gaierror(socket.EAI_FAIL, "Non-recoverable failure in name resolution"), True),
        (OSError(errno.EMFILE, "Too many open files"), True),
        (socket.gaierror(socket.EAI_NODATA, "No address associated with hostname"), False),
        (socket.gaierror(socket.EAI_ADDRFAMILY, "Address family for hostname not supported"), False),
        (UnicodeError("label too long"), False),
    ],
)
def test_a_failure_of_the_machine_is_no_answer(monkeypatch: pytest.MonkeyPatch, error: Exception, kept: bool) -> None:
    """It says nothing about the name, which keeps its addresses; an answer that there are none takes them."""
    failing = False

    def answer(_: str, *more: object, flags: int = 0) -> list[Any]:
        if flags:
            raise socket.gaierror(socket.EAI_NONAME, "it is no address")
        if failing:
            raise error
        return [(0, 0, 0, "", ("192.0.2.7", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    monkeypatch.setattr(lookups, "LOOKUP_SECONDS", LONG)
    before = remote_hosts.look_up(["gate.example"])["gate.example"].ranges
    failing = True
    remote_hosts.forget()
    assert remote_hosts.look_up(["gate.example"])["gate.example"].ranges == (before if kept else ())


def test_a_resolver_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name lets nobody in and the log can say why; hosts that need no resolver are known all the same."""
    over = threading.Event()

    def answer(name: str, *_: object, flags: int = 0) -> list[Any]:
        if flags:
            raise socket.gaierror(socket.EAI_NONAME, "it is no address")
        over.wait()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    monkeypatch.setattr(lookups, "LOOKUP_SECONDS", 0.0)
    found = remote_hosts.look_up(["silent.example", "10.0.0.1-10.0.0.9", "::1"])
    over.set()
    assert [one.ranges for one in found.values()] == [(), (("10.0.0.1", "10.0.0.9"),), (("::1", "::1"),)]
    assert found["silent.example"].why.startswith("host silent.example is not known: the resolver has not answered")
