"""The Python half of a worker: what the core and the peers say, and what follows."""

from typing import Any

import msgspec
import pytest

from shm.contract.control import ListenerSetup, Setup
from shm.contract.payloads import (
    C_ATTACH,
    C_ATTACHED,
    C_CLOSE,
    C_CONNECTION_CLOSED,
    C_CONNECTION_OPENED,
    C_DETACH,
    PAYLOADS,
    Attach,
    Attached,
    Close,
    Detach,
    Error,
)
from workers.control.guard import Passed
from workers.control.handler import Handler
from workers.control.policy import DENIED, DeniedError

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

    def enter(
        self, index: int, listener: ListenerSetup, hostname: str, user: str, mechanism: str, peer: str
    ) -> Passed:
        if hostname == "forbidden":
            raise DeniedError("no such vhost")
        return Passed(user, True, False, "", "", 0, None)

    def peer(self, index: int) -> str:
        return "10.0.0.1:99"

    def refused(self, index: int, peer: str, error: tuple[str, str] | None) -> bool:
        return self.refusal

    def unopened(self, peer: str, error: tuple[str, str] | None = None) -> None:
        pass


@pytest.fixture
def handler() -> Handler:
    handler = Handler(SETUP)
    handler.pump, handler.guard = FakePump(), FakeGuard()
    return handler


def encode(message: object) -> bytes:
    return msgspec.msgpack.encode(message)


@pytest.mark.parametrize(
    ("kind", "message", "asked"),
    [
        (C_ATTACHED, Attached(3, 4, "made"), ("link_open", 3, 4, "made", False, 0)),
        (C_ATTACHED, Attached(3, 4, keyed=True), ("link_open", 3, 4, None, True, 0)),
        (C_ATTACHED, Attached(3, 4, capacity=9), ("link_open", 3, 4, None, False, 9)),
        (C_ATTACHED, Attached(3, 4, None, Error("a:b", "c")), ("link_refuse", 3, 4, "a:b", "c")),
        (C_DETACH, Detach(3, 4), ("link_close", 3, 4, None)),
        (C_DETACH, Detach(3, 4, Error("a:b", "c")), ("link_close", 3, 4, ("a:b", "c"))),
        (C_CLOSE, Close(3, 4, Error("a:b", "c")), ("connection_close", 3, 4, ("a:b", "c"))),
    ],
)
def test_what_the_core_says_is_done(
    handler: Handler, kind: int, message: object, asked: tuple[Any, ...]
) -> None:
    """Each control record has its one consequence."""
    assert handler.control(kind, encode(message))
    assert handler.pump.asked == [asked]


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
def test_nonsense_of_the_core_is_dropped(handler: Handler, kind: int, payload: bytes) -> None:
    """A worker does not die of it."""
    assert not handler.control(kind, payload)
    assert handler.pump.asked == []


def test_a_number_that_does_not_fit_is_nonsense(handler: Handler) -> None:
    """The pump refuses what does not fit its fields."""

    def link_close(*_: object) -> None:
        raise OverflowError

    handler.pump.link_close = link_close
    assert not handler.control(C_DETACH, encode(Detach(-1, 4)))


def test_an_opened_connection_is_answered_and_reported(handler: Handler) -> None:
    """The peer learns the router's name and a number of its own, the core who it is."""
    handler.connection_open(7, 8)
    handler.connection_open(9, 1)
    answer, report, annotations, second, *_ = handler.pump.asked
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


def test_a_connection_that_never_opened_is_not_reported(handler: Handler) -> None:
    """The core did not know it."""
    handler.connection_gone(7, 8, False, ("amqp:x", "garbage"))
    assert handler.pump.asked == []


def test_the_end_of_a_connection_is_reported(handler: Handler) -> None:
    """With its reason."""
    handler.connection_open(7, 8)
    handler.connection_gone(7, 8, True, ("amqp:x", "why"))
    name, kind, payload, *names = handler.pump.asked[-1]
    assert (name, kind, names) == ("post", C_CONNECTION_CLOSED, [7, 8])
    assert msgspec.msgpack.decode(payload) == [7, 8, "why"]


def test_one_connection_too_many_is_answered_and_closed_at_once(handler: Handler) -> None:
    """It hears of it with OPEN; the core is told, too, as it decides and counts."""
    handler.guard.crowded = True
    handler.connection_open(7, 8)
    assert [asked[:2] for asked in handler.pump.asked[:3]] == [
        ("connection_open", 7),
        ("post", C_CONNECTION_OPENED),
        ("connection_close", 7),
    ]
    assert handler.pump.asked[2] == ("connection_close", 7, 8, DENIED)


def test_a_denied_connection_is_answered_closed_and_never_reported(handler: Handler) -> None:
    """It learns why as AMQP has it: OPEN, then CLOSE with the error. Its links are refused."""
    info = handler.pump.connection_info(7)
    handler.pump.connection_info = lambda _: (info[0], "forbidden", *info[2:])
    handler.connection_open(7, 8)
    handler.attach(Attach(3, 4, 7, "l", False, "a"))
    handler.connection_gone(7, 8, True, None)
    assert handler.pump.asked[0][0] == "connection_open"
    assert handler.pump.asked[1:] == [("connection_close", 7, 8, DENIED), ("link_refuse", 3, 4, *DENIED)]


def test_a_message_too_large_ends_its_connection(handler: Handler) -> None:
    """The pump has rejected it and closed the link."""
    handler.message_denied(7, 8)
    assert handler.pump.asked[0][:3] == ("connection_close", 7, 8)
    assert handler.pump.asked[0][3][0] == "amqp:connection:forced"
