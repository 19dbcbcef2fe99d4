"""What the pump shows the message log of a message: sections that are sound."""

import logging

import msgspec
import pytest
from proton import Described, Message, uint, ulong

from bench import contract as n
from shm.contract.payloads import Attach, Attached
from tests.support.beds.door import Client, Door
from tests.support.clients.wire import (
    AMQP_HEADER,
    ATTACH,
    FLOW,
    OPEN,
    SOURCE,
    TARGET,
    TRANSFER,
    begin,
    described,
    frame,
)

FEW, MANY = 3, 60_000


def section(elements: int) -> bytes:
    """Application properties with an array of so many times true, which have no octets."""
    array = b"\xa1\x01a\xf0\0\0\0\x05" + elements.to_bytes(4) + b"\x41"
    return b"\0\x53\x74\xc1" + bytes([len(array) + 1, 2]) + array


@pytest.mark.parametrize(("elements", "shown"), [(FEW, "True, True, True"), (MANY, "")])
def test_elements_without_octets_make_no_line_long(elements: int, shown: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "MESSAGE")
    door = Door("logged", None)
    listeners = door.registry.listeners
    listeners[0] = msgspec.structs.replace(listeners[0], logged_parts=["subject", "app-properties"])
    client = Client(door, door.dial())
    ends = Described(ulong(SOURCE), ["x"]), Described(ulong(TARGET), ["a"])
    client.write(AMQP_HEADER + frame(0, described(OPEN, "peer")) + begin(0))
    client.take(len(AMQP_HEADER))
    client.write(frame(0, described(ATTACH, "link", uint(0), False, None, None, *ends, None, None, uint(0))))
    (asked,) = door.hear(Attach)
    door.tell(n.C_ATTACHED, Attached(asked.link, asked.generation))
    door.work.push(n.pack(type=n.W_FLOW, link=asked.link, link_gen=asked.generation, credit=5))
    client.all_until(FLOW)
    message = Message(subject="here").encode() + section(elements)
    client.write(frame(0, described(TRANSFER, uint(0), uint(0), b"t", uint(0), True), message))
    door.until(lambda: "Received" in caplog.text, "line")
    assert 'subject="here"' in caplog.text
    assert len(caplog.text) < 1000
    assert shown in caplog.text
    client.socket.close()
    door.end()
