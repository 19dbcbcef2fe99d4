"""The protocol trace: every frame of a connection in one line, and no peer's octets harm the process that writes it."""

import socket
import struct
import time

import pytest
from proton import Message

from routerd.cli.client import Client, Place
from tests.support.clients import octets
from tests.support.clients.frame_client import FrameClient, transfer
from tests.support.clients.sasl_frames import SASL_HEADER
from tests.support.clients.wire import (
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    DISPOSITION,
    FLOW,
    OPEN,
    TRANSFER,
    begin,
    described,
    frame,
)
from tests.support.peer import ACCEPTED, Net
from tests.support.running import Configuration, RunningRouter, roles, until

HELD_S = 0.3  # the router has read what was written by then
NAMES = {"open": OPEN, "begin": BEGIN, "attach": ATTACH, "flow": FLOW, "transfer": TRANSFER, "disposition": DISPOSITION}
CROWD = 400  # links
HOLLOW = bytes.fromhex("d000000001ffffffff")  # a list that has fewer octets than its head
OPENING = AMQP_HEADER + frame(0, described(OPEN, "traced"))


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(sections="log {\n module: PROTOCOL\n enable: trace+\n}")


def test_frames_of_all_kinds_are_told_both_ways(router: RunningRouter, net: Net) -> None:
    """In the engine's words, with their fields by name and the beginning of their payload."""
    one, other = net.peer(), net.peer()
    receiver = one.receiver("traced.words", 10)
    sent = net.send(other.ready_sender("traced.words"), Message(body="payload in words"))
    (got,) = one.take(receiver)
    got.settle()
    assert net.settled(sent) == [ACCEPTED]

    def told(name: str, way: str) -> list[str]:
        return [line for line in router.log.splitlines() if f"FRAME: 0 {way} @{name}({NAMES[name]}) [" in line]

    for name in NAMES:
        for way in ("->", "<-"):
            until(lambda: told(name, way), f"{way} {name}")  # noqa: B023  asked for at once
    for way in ("->", "<-"):
        assert any("handle=0x0" in line and "payload in words" in line for line in told("transfer", way))
        assert any("state=@accepted(36) []" in line for line in told("disposition", way))
        assert any("link-credit=" in line for line in told("flow", way))


def test_a_frame_that_waits_for_its_turn_is_told_once(router: RunningRouter) -> None:
    """An END whose session has hundreds of links comes again and again, until they have gone."""
    with FrameClient(router.address) as client:
        client.begin()
        client.write(*(client.attaching("traced.crowd", n, receiver=True) for n in range(CROWD)))
        for _ in range(CROWD):
            client.expect(octets.ATTACH, 0)
        client.write(octets.said(octets.END))
        client.expect(octets.END, 0)
    until(lambda: "-> @end(" in router.log, "its answer")
    assert router.log.count("<- @end(") == 1


def test_a_heartbeat_is_told(router: RunningRouter) -> None:
    with socket.create_connection(router.address) as connection:
        connection.sendall(OPENING + frame(0))
        until(lambda: "FRAME: 0 <- (EMPTY FRAME)" in router.log, "its line")


def sasl(body: bytes) -> bytes:
    return struct.pack(">IBBH", 8 + len(body), 2, 1, 0) + body


MALFORMED = {
    "sasl-init": SASL_HEADER + sasl(b"\0\x53\x41" + HOLLOW),
    "sasl-init with such a field": SASL_HEADER + sasl(b"\0\x53\x41\xc0\x0d\x02\xa3\x01x" + HOLLOW),
    "open": AMQP_HEADER + frame(0, b"\0\x53\x10" + HOLLOW),
    "begin": OPENING + frame(0, b"\0\x53\x11" + HOLLOW),
    "attach": OPENING + begin(0) + frame(0, b"\0\x53\x12" + HOLLOW),
    "attach with such a source": OPENING
    + begin(0)
    + frame(0, b"\0\x53\x12\xc0\x1d\x06\xa1\x01a\x43\x41\x40\x40\0\x53\x28" + HOLLOW),
    "transfer": OPENING + begin(0) + frame(0, b"\0\x53\x14" + HOLLOW),
    "disposition with such a state": OPENING
    + begin(0)
    + frame(0, b"\0\x53\x15\xc0\x12\x05\x41\x43\x40\x41\0\x53\x25" + HOLLOW),
    "an array of more than there is": OPENING + begin(0) + frame(0, b"\0\x53\x12\xf0\0\0\0\x05\xff\xff\xff\xff\x71"),
    "values within values": OPENING + begin(0) + frame(0, b"\0\x53\x12" + b"\0" * 400),
}


@pytest.mark.parametrize("octets", MALFORMED.values(), ids=MALFORMED)
def test_malformed_frames_have_lines_without_their_content(router: RunningRouter, octets: bytes) -> None:
    """The engine would read beyond them to describe them."""
    before = {role: process.pid for role, process in roles(router.process.pid).items()}
    lines = router.log.count("(MALFORMED FRAME of ")
    with socket.create_connection(router.address, timeout=30) as connection:
        connection.sendall(octets)
        until(lambda: router.log.count("(MALFORMED FRAME of ") == lines + 1, "its line")
    # A spare process may have begun meanwhile.
    assert before.items() <= {role: process.pid for role, process in roles(router.process.pid).items()}.items()


def test_a_trace_may_begin_in_the_middle_of_a_long_message(router: RunningRouter) -> None:
    """The TRANSFERs that begin from then on are told, of the same message, too."""
    message = b"\0\x53\x75\xb0" + struct.pack(">I", 400_000) + bytes(400_000)
    parts = [message[at : at + 16_000] for at in range(0, len(message), 16_000)]
    said = [transfer(None if n else 0, part, more=n + 1 < len(parts)) for n, part in enumerate(parts)]
    with (
        FrameClient(router.address, "receives") as at,
        FrameClient(router.address, "sends") as to,
        Client(Place(router.url)) as manager,
    ):
        for client in (at, to):
            client.begin(0)
        at.receiver("traced.middle", credit=1)
        to.sender("traced.middle")
        (row,) = (one for one in manager.query("connection") if one["container"] == "sends")
        connection = {"type": "connection", "identity": row["identity"]}
        manager.call("UPDATE", {"enableProtocolTrace": False}, **connection)
        to.write(*said[:10], said[10][:9000])
        time.sleep(HELD_S)
        manager.call("UPDATE", {"enableProtocolTrace": True}, **connection)
        before = len(router.log)
        to.write(said[10][9000:], *said[11:])
        assert at.take(1)[0].payload == message
        whose = f"[C{row['identity']}]"

        def told() -> list[str]:
            return [one for one in router.log[before:].splitlines() if whose in one and "<- @transfer" in one]

        until(lambda: len(told()) >= len(said) - 11, "lines of those that began later")
