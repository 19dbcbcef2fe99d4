"""The Python half of a worker: what the core and the peers say, and what follows."""

import logging
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from bench.contract import C_ATTACH, C_ATTACHED, C_CLOSE, C_CONNECTION_CLOSED, C_CONNECTION_OPENED, C_DETACH, C_ENDPOINT
from shm.contract.control import ListenerSetup, Setup
from shm.contract.payloads import LONGEST, PAYLOADS, Attach, Attached, Close, Detach, Endpoint, Error, Termini, Terminus
from workers.control.guard import Passed
from workers.control.handler import Handler
from workers.control.policy import DENIED, DeniedError
from workers.control.registry import Registry

SETUP = Setup("worker", 1, 1, "/none", "me", "1.0", 3, [-1], listeners=[ListenerSetup("l", [])])


class FakePump:
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.connections = 0

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **names: self.asked.append((name, *args, *names.values()))

    def next_connection(self) -> int:
        self.connections += 1
        return self.connections

    def connection_info(self, index: int) -> tuple[Any, ...]:
        return ("client", "host", "anonymous", "ANONYMOUS", {"product": "p", "version": "2"}, [], 0)


class FakeGuard:
    """Lets everybody in whose host name is not `forbidden`."""

    def __init__(self) -> None:
        self.refusal = False
        self.crowded = False

    def full(self) -> bool:
        return self.crowded

    def enter(self, index: int, listener: ListenerSetup, hostname: str, user: str, mechanism: str, peer: str) -> Passed:
        if hostname == "forbidden":
            raise DeniedError("no such vhost")
        return Passed(user, True, False, "", "", 0, None)

    def peer(self, index: int) -> str:
        return "10.0.0.1:99"

    def place(self, index: int) -> int:
        return 0

    def refused(self, index: int, peer: str, error: tuple[str, str] | None) -> bool:
        return self.refusal

    def unopened(self, peer: str, error: tuple[str, str] | None = None) -> None:
        pass


class Bed:
    """A handler, with a pump and a guard that are none."""

    def __init__(self, *framed: Any) -> None:
        self.pump, self.guard, nobody = FakePump(), FakeGuard(), Mock()
        registry = self.registry = Registry(SETUP, self.pump)  # type: ignore[arg-type]  it answers to every name
        self.handler = Handler(registry, self.guard, nobody, nobody, nobody, nobody, framed)  # type: ignore[arg-type]  the same


@pytest.fixture
def bed() -> Bed:
    return Bed()


def encode(message: object) -> bytes:
    return msgspec.msgpack.encode(message)


@pytest.mark.parametrize(
    ("kind", "message", "asked"),
    [
        (C_ATTACHED, Attached(3, 4, "made"), ("link_open", 3, 4, "made", False, 0)),
        (C_ATTACHED, Attached(3, 4, to_table=True), ("link_open", 3, 4, None, True, 0)),
        (C_ATTACHED, Attached(3, 4, capacity=9), ("link_open", 3, 4, None, False, 9)),
        (C_ATTACHED, Attached(3, 4, None, Error("a:b", "c")), ("link_refuse", 3, 4, "a:b", "c")),
        (C_DETACH, Detach(3, 4), ("link_close", 3, 4, None)),
        (C_DETACH, Detach(3, 4, Error("a:b", "c")), ("link_close", 3, 4, ("a:b", "c"))),
        (C_CLOSE, Close(3, 4, Error("a:b", "c")), ("connection_close", 3, 4, ("a:b", "c"))),
    ],
)
def test_what_the_core_says_is_done(bed: Bed, kind: int, message: object, asked: tuple[Any, ...]) -> None:
    """Each control record has its one consequence."""
    assert bed.handler.control(kind, encode(message))
    assert bed.pump.asked == [asked]


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (99, encode([])),
        (C_ATTACHED, b""),
        (C_ATTACHED, encode({"link": 1})),
        (C_ATTACHED, bytes.fromhex("930104a1ff")),  # an address that is no UTF-8
        (C_ATTACH, encode([])),
    ],
)
def test_nonsense_of_the_core_is_dropped(bed: Bed, kind: int, payload: bytes) -> None:
    """A worker does not die of it."""
    assert not bed.handler.control(kind, payload)
    assert bed.pump.asked == []


class Framed:
    """Who serves the connections of a framed protocol, and hears what the core says of them."""

    def take(self, message: object) -> bool:
        return isinstance(message, Endpoint)


def test_a_framed_protocol_is_one_entry_in_a_list(bed: Bed) -> None:
    """What the core says to one that is not served makes no sense, and all else is done as ever."""
    endpoint = encode(Endpoint("t", "t/h:1", "h", 1))
    assert not bed.handler.control(C_ENDPOINT, endpoint)
    assert bed.handler.control(C_DETACH, encode(Detach(3, 4)))
    with_one = Bed(Framed())
    assert with_one.handler.control(C_ENDPOINT, endpoint)
    assert with_one.handler.control(C_DETACH, encode(Detach(3, 4)))
    assert with_one.pump.asked == bed.pump.asked == [("link_close", 3, 4, None)]


def test_a_number_that_does_not_fit_is_nonsense(bed: Bed) -> None:
    """The pump refuses what does not fit its fields."""

    def link_close(*_: object) -> None:
        raise OverflowError

    bed.pump.link_close = link_close
    assert not bed.handler.control(C_DETACH, encode(Detach(-1, 4)))


def test_an_opened_connection_is_answered_and_reported(bed: Bed) -> None:
    """The peer learns the router's name and a number of its own, the core who it is."""
    bed.handler.connection_open(7, 8)
    bed.handler.connection_open(9, 1)
    answer, report, annotations, second, *_ = bed.pump.asked
    assert annotations == ("connection_annotations", 7, 0, True, True)
    assert answer[:3] == ("connection_open", 7, "me")
    assert answer[4]["qd.conn-id"] == 1
    assert second[4]["qd.conn-id"] == 2
    opened = msgspec.msgpack.decode(report[2], type=PAYLOADS[C_CONNECTION_OPENED])
    assert report[:2] == ("post", C_CONNECTION_OPENED)
    assert report[3:] == (7, 8)
    assert (opened.container, opened.host, opened.product, opened.product_version) == (
        "client",
        "10.0.0.1:99",
        "p",
        "2",
    )


def test_a_connection_keeps_the_terms_of_its_acceptance(bed: Bed) -> None:
    """A client was a router to the next core once a reload had made its listener one for routers."""
    bed.handler.connection_open(7, 8)
    bed.registry.listeners[0] = ListenerSetup("routers", [], role="inter-router", multi_tenant=True)
    bed.handler.connection_present(7, 8)
    presented = msgspec.msgpack.decode(bed.pump.asked[-1][2], type=PAYLOADS[C_CONNECTION_OPENED])
    assert (presented.role, presented.listener, presented.tenant) == ("normal", "l", "")
    bed.handler.connection_gone(7, 8, True, None)
    assert not bed.registry.accepted


def test_a_connection_that_never_opened_is_not_reported(bed: Bed) -> None:
    """The core did not know it."""
    bed.handler.connection_gone(7, 8, False, ("amqp:x", "garbage"))
    assert bed.pump.asked == []


def test_the_end_of_a_connection_is_reported(bed: Bed) -> None:
    """With its reason."""
    bed.handler.connection_open(7, 8)
    bed.handler.connection_gone(7, 8, True, ("amqp:x", "why"))
    name, kind, payload, *names = bed.pump.asked[-1]
    assert (name, kind, names) == ("post", C_CONNECTION_CLOSED, [7, 8])
    assert msgspec.msgpack.decode(payload) == [7, 8, "why"]


def test_a_connection_that_the_core_closes_ends_with_its_reason(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    """Though its peer cuts it in place of an answer; the next connection of its index has reasons of its own."""
    forced, cut = ("amqp:connection:forced", "closed by management"), ("amqp:connection:framing-error", "aborted")
    bed.handler.connection_open(7, 8)
    bed.handler.control(C_CLOSE, msgspec.msgpack.encode(Close(7, 8, Error(*forced))))
    with caplog.at_level(logging.INFO):
        bed.handler.connection_gone(7, 8, True, cut)
        bed.handler.connection_open(7, 9)
        bed.handler.connection_gone(7, 9, True, cut)
    ends = [line for line in caplog.messages if " ended: " in line]
    assert [line.partition(" ended: ")[2] for line in ends] == [": ".join(forced), ": ".join(cut)]


def test_a_silent_peer_is_told_as_such(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    """The engine calls it a limit of resources, which sends who reads it to another place."""
    bed.handler.connection_open(7, 8)
    with caplog.at_level(logging.INFO):
        bed.handler.connection_gone(7, 8, True, ("amqp:resource-limit-exceeded", "local-idle-timeout expired"))
    said = "local-idle-timeout expired: its peer has sent nothing for idleTimeoutSeconds"
    assert caplog.messages[-1].endswith(f"ended: amqp:resource-limit-exceeded: {said}")


def test_a_link_whose_answer_fits_no_frame_is_lost(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its peer has detached nothing, so a broker keeps what is to outlive the link."""
    bed.handler.connection_open(7, 8)
    told: list[object] = []
    monkeypatch.setattr(bed.handler._registry, "post", lambda message, **_: told.append(message))
    bed.handler.unanswerable(3, 4, 7, "l", ("a:b", "c"))
    assert told == [Detach(3, 4, Error("a:b", "c"), closed=False, lost=True)]


def test_one_connection_too_many_is_answered_and_closed_at_once(bed: Bed) -> None:
    """It hears of it with OPEN; the core is told, too, as it decides and counts."""
    bed.guard.crowded = True
    bed.handler.connection_open(7, 8)
    assert [asked[:2] for asked in bed.pump.asked[:3]] == [
        ("connection_open", 7),
        ("post", C_CONNECTION_OPENED),
        ("connection_close", 7),
    ]
    assert bed.pump.asked[2] == ("connection_close", 7, 8, DENIED)


def test_a_denied_connection_is_answered_closed_and_never_reported(bed: Bed) -> None:
    """It learns why as AMQP has it: OPEN, then CLOSE with the error. Its links are refused."""
    info = bed.pump.connection_info(7)
    bed.pump.connection_info = lambda _: (info[0], "forbidden", *info[2:])
    bed.handler.connection_open(7, 8)
    bed.handler.attach(Attach(3, 4, 7, "l", False, "a"))
    bed.handler.connection_gone(7, 8, True, None)
    assert bed.pump.asked[0][0] == "connection_open"
    assert bed.pump.asked[1:] == [("connection_close", 7, 8, DENIED), ("link_refuse", 3, 4, *DENIED)]


LONG = Terminus(1, "a", filters=b"f" * LONGEST)


@pytest.mark.parametrize(
    ("terms", "asked"),
    [({}, "link_refuse"), ({"request": 5}, "link_close"), ({"restored": True}, "link_close")],
    ids=["first", "answer", "restored"],
)
def test_an_attach_that_the_core_would_not_read_is_refused(
    bed: Bed, caplog: pytest.LogCaptureFixture, terms: dict[str, Any], asked: str
) -> None:
    """Its peer learns why, and so does the log, by the beginning of its name."""
    bed.handler.connection_open(7, 8)
    bed.pump.asked.clear()
    with caplog.at_level(logging.INFO):
        bed.handler.attach(Attach(3, 4, 7, "n" * 5000, True, "a", termini=Termini(LONG, Terminus()), **terms))
    (done,) = bed.pump.asked
    assert done[:3] == (asked, 3, 4)
    assert "amqp:resource-limit-exceeded" in str(done[3:])
    (line,) = caplog.messages
    assert "n" * 200 in line
    assert len(line) < 500


def test_a_connection_whose_open_the_core_would_not_read_is_closed(bed: Bed) -> None:
    """The core never hears of it, nor of its end; its links are refused."""
    info = bed.pump.connection_info(7)
    bed.pump.connection_info = lambda _: ("c" * LONGEST, *info[1:])
    bed.handler.connection_open(7, 8)
    bed.handler.attach(Attach(3, 4, 7, "l", False, "a"))
    bed.handler.connection_gone(7, 8, True, None)
    assert [asked[0] for asked in bed.pump.asked] == ["connection_open", "connection_close", "link_refuse"]
    assert bed.pump.asked[1][3][0] == "amqp:resource-limit-exceeded"


def test_a_message_too_large_ends_its_connection(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    """The pump has rejected it and closed the link; the log says whose it was, and what bounds it."""
    bed.handler.connection_open(7, 8)
    bed.handler._passed[7] = Passed("alice", True, False, "", "", 0, None, max_message=1000)
    with caplog.at_level(logging.INFO):
        bed.handler.message_denied(7, 8)
    assert bed.pump.asked[-1][:3] == ("connection_close", 7, 8)
    assert bed.pump.asked[-1][3][0] == "amqp:connection:forced"
    why = "denied: larger than maxMessageSize of the policy, 1000 bytes"
    assert caplog.messages[-1] == f"message of 10.0.0.1:99 (user 'alice', vhost -) {why}"
