"""What `routerd bench` says of clients that do not get as far as their link."""

import time
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest

from routerd.cli.bench import Load, Result, Stage, _Receiver, attached
from routerd.cli.client import ClientError, Place


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ([], "a client is still starting after 0.01 s; this machine is slow or busy"),
        ([Stage.CONNECTING], "a client is still connecting after 0.01 s; the router answered another connection"),
        ([Stage.CONNECTING, Stage.ATTACHING], "a client is still attaching after 0.01 s; the router has not answered"),
        ([Result(trouble="amqp:not-found: no")], "a client cannot attach to news: amqp:not-found: no"),
    ],
)
def test_a_client_without_a_link(said: list[Stage | Result], text: str) -> None:
    """The text says how far the client got, and what to do there."""
    here, there = Pipe()
    for one in said:
        there.send(one)
    with pytest.raises(ClientError, match=text):
        attached(here, "news", 0.01)


def test_a_client_that_ends_without_a_word() -> None:
    here, there = Pipe()
    there.close()
    with pytest.raises(ClientError, match="ended too early"):
        attached(here, "news", 1.0)


def test_a_client_with_a_link() -> None:
    here, there = Pipe()
    for one in (Stage.CONNECTING, Stage.ATTACHING, Stage.MEASURING):
        there.send(one)
    attached(here, "news", 1.0)


def test_messages_of_others_have_no_latency() -> None:
    """Their ids are whatever their senders like."""
    receiver = _Receiver(Place(), Load("a"), Pipe()[0], 1.0)
    for sent in (None, 0, "text", b"octets", time.monotonic_ns()):
        receiver.on_message(SimpleNamespace(message=SimpleNamespace(id=sent)))
    assert receiver.result.messages == 5
    assert len(receiver.result.latencies) == 1
