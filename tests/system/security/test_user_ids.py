"""A message names nobody else as its user, wherever some receiver might look for the name."""

from itertools import count

import pytest
from proton import Described, symbol, ulong

from tests.support.clients.wire import ATTACH, DISPOSITION, FLOW, TRANSFER, Wire, described, encode
from tests.support.running import Configuration, RunningRouter

POLICY = """
policy {
    enableVhostPolicy: yes
    defaultVhost: $none
}
vhost {
    hostname: sends
    allowUnknownUser: yes
    groups: {
        $default: {
            remoteHosts: *
            targets: list*
        }
    }
}
vhost {
    hostname: receives
    allowUnknownUser: yes
    groups: {
        $default: {
            remoteHosts: *
            sources: list*
        }
    }
}
"""
ACCEPTED, REJECTED = 0x24, 0x25
PART = 7  # octets
NUMBERS = count()  # of messages, each with an address of its own: the last one's receiver may still be going


def section(code: int, value: object) -> bytes:
    return encode(Described(ulong(code), value))


HEADER = described(0x70, True)
ANNOTATIONS, APPLICATION = section(0x72, {symbol("a"): "b"}), section(0x74, {"a": "b"})
NOBODY, OWN, MALLORY = described(0x73), described(0x73, None, b"anonymous"), described(0x73, None, b"mallory")
DATA, FOOTER = section(0x75, b"x" * 90), section(0x78, {})

GOOD = {
    "all sections": HEADER + ANNOTATIONS + OWN + APPLICATION + DATA + DATA + FOOTER,
    "a value": OWN + section(0x77, Described(symbol("a:list"), [1, "two"])),
    "sequences": NOBODY + section(0x76, [1]) + section(0x76, [2]),
    "descriptors of any width": b"\0\x80" + bytes(7) + b"\x75\xa0\x01x" + b"\0\xa3\x10amqp:data:binary\xa0\x01y",
}
BAD = {
    "twice": NOBODY + MALLORY + DATA,
    "behind the application properties": APPLICATION + MALLORY + DATA,
    "behind the body": DATA + MALLORY,
    "behind the footer": NOBODY + DATA + FOOTER + MALLORY,
    "behind a section that nobody knows": section(0x99, [1]) + MALLORY + DATA,
    "behind one that calls itself the router's": section(2, [1]) + MALLORY + DATA,
    "behind a header that comes late": NOBODY + HEADER + MALLORY,
    "by its name": DATA + b"\0\xa3\x14amqp:properties:list" + encode([None, b"mallory"]),
    "in a field that the list does not count": b"\0\x53\x73\xc0\x0b\x01\x40\xa0\x07mallory" + DATA,
}


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration("workers: 2", sections=POLICY)


def send(router: RunningRouter, message: bytes, parts: bool) -> tuple[int, bytes]:
    """The outcome's code and what has come of the message at a receiver that accepts it."""
    with Wire(router.address, "receives") as receiver, Wire(router.address, "sends") as sender:
        address = f"list{next(NUMBERS)}"
        receiver.attach_receiver(address, 1)
        sender.ask(0, False, "", address)
        sender.expect(ATTACH)
        sender.expect(FLOW)
        step = PART if parts else len(message)
        for at in range(0, len(message), step):
            sender.transfer(0, message[at : at + step], more=at + step < len(message))
        outcome = sender.expect(DISPOSITION) if message in BAD.values() else None
        if outcome is not None:
            return int(outcome.fields[4].descriptor), b""
        came = receiver.expect(TRANSFER)
        data = came.payload
        while came.field(5):
            came = receiver.expect(TRANSFER)
            data += came.payload
        return ACCEPTED, data


@pytest.mark.parametrize("parts", [False, True], ids=["whole", "in parts"])
@pytest.mark.parametrize("kind", GOOD)
def test_sections_in_order_pass(router: RunningRouter, kind: str, parts: bool) -> None:
    """As they were sent, whatever the body is."""
    assert send(router, GOOD[kind], parts) == (ACCEPTED, GOOD[kind])


@pytest.mark.parametrize("parts", [False, True], ids=["whole", "in parts"])
@pytest.mark.parametrize("kind", BAD)
def test_a_name_in_another_place_is_rejected(router: RunningRouter, kind: str, parts: bool) -> None:
    """The router judges the properties where they belong; some receivers take the last ones that they find."""
    assert send(router, BAD[kind], parts)[0] == REJECTED
