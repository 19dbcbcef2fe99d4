"""Messages with source routes, sent by hand-driven clients."""

from typing import Any

from proton import Message, symbol

from tests.support.clients.arrival import Arrived
from tests.support.peer import ACCEPTED, REJECTED, Net, error_of

ONWARD, RETURN = symbol("x-opt-route.onward"), symbol("x-opt-route.return")


def message(onward: list[Any] | None = None, returning: list[Any] | None = None, **properties: Any) -> Message:
    made = Message(body=b"ping", inferred=True, **properties)
    annotations = {ONWARD: onward, RETURN: returning}
    made.annotations = {key: value for key, value in annotations.items() if value is not None}
    return made


def routes(message: Message) -> tuple[list[str], list[str]]:
    annotations = message.annotations or {}
    return list(annotations[ONWARD]), list(annotations[RETURN])


def passed(net: Net, sent: Message, target: str | None, at: str) -> Arrived:
    """What arrives at an address of a message that is sent, and accepted there."""
    peer = net.peer()
    receiver = peer.receiver(at, credit=1)
    delivery = net.send(peer.ready_sender(target), sent)
    (arrived,) = peer.take(receiver)
    arrived.settle()
    assert net.settled(delivery) == [ACCEPTED]
    return arrived


def bare(octets: Any) -> bytes:
    """The bare message: from the properties on."""
    octets = bytes(octets)
    return octets[octets.index(b"\x00Ss") :]


def refused(net: Net, sent: Message, target: str | None = None) -> tuple[str, str | None]:
    delivery = net.send(net.peer().ready_sender(target), sent)
    assert net.settled(delivery) == [REJECTED]
    return error_of(delivery)
