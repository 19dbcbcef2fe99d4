"""What breaks a rule ends as little as the rule says: a link, a session or a connection (AMQP 1.0 parts 2.5 to 2.8)."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from tests.support.beds.bystander import Bystander
from tests.support.beds.conformance import BACK, CAPACITY, FREE, NEIGHBOUR, SENDER, SMALLEST, WINDOW, Connect, Scene
from tests.support.clients.frame_client import EndedError, FrameClient, disposition, flow, termini, transfer
from tests.support.clients.octets import (
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    OPEN,
    TRANSFER,
    Described,
    Encoded,
    Symbol,
    Ubyte,
    Uint,
    Ulong,
    encode,
    frame,
    listed,
    performative,
    said,
    state,
)
from tests.support.running import RunningRouter

DECODE, FRAMING = "amqp:decode-error", "amqp:connection:framing-error"
UNATTACHED, IN_USE = "amqp:session:unattached-handle", "amqp:session:handle-in-use"
INVALID, NOT_ALLOWED = "amqp:invalid-field", "amqp:not-allowed"


@pytest.fixture
def scene(connect: Connect, name: str) -> Scene:
    return Scene(connect, name)


# ---- the connection ends ----


def body(octets: bytes) -> bytes:
    return frame(0, octets)


def mistyped(code: int, least: dict[str, Any], wrong: dict[str, Any]) -> dict[str, bytes]:
    """The performative with each field in turn as a value of another type."""
    return {f"{name} of another type": said(code, **{**least, name: value}) for name, value in wrong.items()}


TEXT = "text"
LEAST_FLOW = {"in_window": 9, "next_out": 0, "out_window": 9}
WRONG = {
    "transfer": mistyped(TRANSFER, {"handle": 0, "id": 0, "tag": b"x"}, {
        "handle": TEXT, "id": TEXT, "tag": TEXT, "format": TEXT, "settled": Uint(1), "more": TEXT, "rcv_mode": TEXT,
        "state": Uint(1), "resume": TEXT, "aborted": TEXT, "batchable": TEXT,
    }),
    "flow": mistyped(FLOW, LEAST_FLOW, {
        "next_in": TEXT, "in_window": TEXT, "next_out": TEXT, "out_window": TEXT, "handle": TEXT, "count": TEXT,
        "credit": TEXT, "available": TEXT, "drain": Uint(1), "echo": Uint(1),
    }),
    "disposition": mistyped(DISPOSITION, {"receiver": True, "first": 0}, {
        "receiver": Uint(1), "first": TEXT, "last": TEXT, "settled": TEXT, "state": Uint(1), "batchable": TEXT,
    }),
}  # fmt: skip
ABSENT = {
    "transfer without handle": said(TRANSFER, id=0, tag=b"x"),
    "transfer without fields": said(TRANSFER),
    "flow without incoming-window": said(FLOW, next_in=0, next_out=0, out_window=9),
    "flow without outgoing-window": said(FLOW, next_in=0, in_window=9, next_out=0),
    "flow without fields": said(FLOW),
    "disposition without role": said(DISPOSITION, first=0),
    "disposition without first": said(DISPOSITION, receiver=True),
    "disposition without fields": said(DISPOSITION),
}
MALFORMED = {
    **{f"{kind}: {what}": octets for kind, fields in WRONG.items() for what, octets in fields.items()},
    **ABSENT,
    "a settle mode that there is not": transfer(0, rcv_mode=Ubyte(2)),
    "fewer fields than the list says": body(b"\0\x53\x14\xc0\x03\x05\x43\x43"),
    "a list longer than its frame": body(b"\0\x53\x14\xc0\x40\x02\x43\x43"),
    "a long list longer than its frame": body(b"\0\x53\x14\xd0\xff\xff\xff\xff\0\0\0\x02\x43\x43"),
    "a field longer than its list": body(b"\0\x53\x14\xc0\x06\x03\x43\x43\xa0\x20x"),
    "a constructor that there is not": body(b"\0\x53\x14\xc0\x03\x02\x3f\x43"),
    "a map for a list": body(b"\0\x53\x14\xc1\x03\x02\x43\x43"),
    "no list": body(b"\0\x53\x14"),
    "no descriptor": body(listed([encode(Uint(0))])),
    "a descriptor that is text": body(b"\0" + encode(TEXT) + listed([encode(Uint(0))])),
    "a descriptor of its own": body(b"\0\0\x53\x14\x43" + listed([encode(Uint(0))])),
    "a symbolic descriptor": body(b"\0" + encode(Symbol("amqp:transfer:list")) + listed([encode(Uint(0))])),
    "a cut descriptor": body(b"\0"),
    "no performative that we know": body(b"\0\x53\x99\x45"),
    "the number behind the last performative": body(b"\0\x53\x19\x45"),
    "the number before the first one": body(b"\0\x53\x0f\x45"),
    "a performative of SASL": body(b"\0\x53\x44\xc0\x03\x01\x50\0"),
    "a descriptor that is too long a number": body(b"\0\x80\0\0\0\x01\0\0\0\x14\x45"),
    "a begin that is cut": frame(FREE, performative(BEGIN, next_out=0, in_window=9, out_window=9)[:-1]),
    "a begin without windows": said(BEGIN, FREE, next_out=0),
    "a begin whose windows are text": said(BEGIN, FREE, next_out=0, in_window=TEXT, out_window=TEXT),
    "an attach whose handle is text": said(ATTACH, name="x", handle=TEXT, receiver=True),
    "an attach without role": said(ATTACH, name="x", handle=FREE),
    "a detach without handle": said(DETACH),
    "an attach that is cut": body(performative(ATTACH, name="x", handle=FREE, receiver=True)[:-1]),
    "a detach that is cut": body(performative(DETACH, handle=0, closed=True)[:-1]),
    "an end that is cut": body(performative(END, error=Described(Ulong(0x1D), [Symbol("a")]))[:-1]),
}  # fmt: skip


@pytest.mark.parametrize("octets", MALFORMED.values(), ids=MALFORMED)
def test_what_cannot_be_decoded_ends_the_connection(scene: Scene, octets: bytes) -> None:
    """2.8.15: with a CLOSE that says so, not with silence."""
    scene.client.write(octets)
    assert scene.client.end_of_connection().condition == DECODE


FRAMES = {
    "size below the header's": b"\0\0\0\x07\x02\0\0\0",
    "size of nothing": b"\0\0\0\0\x02\0\0\0",
    "size beyond max-frame-size": frame(0, bytes(SMALLEST - 7)),
    "size of 4 GB": b"\xff\xff\xff\xff\x02\0\0\0",
    "data offset below 2": b"\0\0\0\x08\x01\0\0\0",
    "data offset behind the frame": b"\0\0\0\x08\x03\0\0\0",
}


@pytest.mark.parametrize("octets", FRAMES.values(), ids=FRAMES)
def test_a_frame_that_cannot_be_is_a_framing_error(scene: Scene, octets: bytes) -> None:
    """2.3.1, 2.7.1."""
    scene.client.write(octets)
    assert scene.client.end_of_connection().condition == FRAMING


@pytest.mark.parametrize("kind", [1, 2, 255])
def test_a_frame_of_another_type_is_a_framing_error(scene: Scene, kind: int) -> None:
    """2.3.1: SASL's type has no place behind the AMQP header, and others have none at all."""
    scene.client.write(b"\0\0\0\x08\x02" + bytes((kind, 0, 0)))
    error = scene.client.end_of_connection()["error"].value
    assert [str(one) for one in error[:2]] == [FRAMING, "a frame is of another type than AMQP's"]


def test_a_handle_above_handle_max_is_a_framing_error(scene: Scene) -> None:
    """2.7.2."""
    scene.client.write(scene.client.attaching(scene.name, 2**31, True))
    assert scene.client.end_of_connection().condition == FRAMING


BEGINS = {"next_out": 0, "in_window": 9, "out_window": 9}
HOMELESS = {
    "transfer": transfer(0, channel=FREE),
    "flow": flow(FREE),
    "disposition": disposition(0, channel=FREE),
    "detach": said(DETACH, FREE, handle=0),
    "end": said(END, FREE),
    "begin on a channel in use": said(BEGIN, **BEGINS),
    "begin that answers its own session": said(BEGIN, FREE, remote_channel=0, **BEGINS) + said(END, FREE) + transfer(0),
    "begin on the channel that it answers": said(BEGIN, remote_channel=0, **BEGINS) + said(END) + transfer(0),
}


@pytest.mark.parametrize("octets", HOMELESS.values(), ids=HOMELESS)
def test_a_frame_that_its_channel_does_not_have_is_not_allowed(scene: Scene, octets: bytes) -> None:
    """2.5.1, 2.5.5: an endpoint that is not mapped receives no frames, and one that is mapped no BEGIN."""
    scene.client.write(octets)
    assert scene.client.end_of_connection().condition == NOT_ALLOWED


EARLY = {
    "attach": said(ATTACH, name="x", handle=0, receiver=True),
    "transfer": transfer(0),
    "flow": flow(),
    "disposition": disposition(0),
    "detach": said(DETACH, handle=0),
    "end": said(END),
    "close": said(CLOSE),
    "nonsense": said(FLOW),
    "no frame": b"\0\0\0\x07\x02\0\0\0",
}


@pytest.mark.parametrize("octets", EARLY.values(), ids=EARLY)
def test_what_comes_before_open_ends_the_connection(router: RunningRouter, octets: bytes) -> None:
    """2.4.1: OPEN is the first frame; the router's own stands before its CLOSE."""
    client = FrameClient(router.address)
    with client.socket, suppress(EOFError, ConnectionResetError):
        client.write(AMQP_HEADER, octets)
        client.answer_to_open()
        client.end_of_connection()


# ---- the session ends ----


class Fault(NamedTuple):
    condition: str
    octets: bytes


def attach(handle: int) -> bytes:
    return said(ATTACH, name="another", handle=handle, receiver=True, **termini(True, "elsewhere"))


PIECES = b"".join(transfer(None, more=True) for _ in range(2 * WINDOW))
SESSION_FAULTS = {
    "transfer on a free handle": Fault(UNATTACHED, transfer(0, handle=FREE)),
    "transfer on the handle of a receiver": Fault(UNATTACHED, transfer(0, handle=BACK)),
    "flow on a free handle": Fault(UNATTACHED, flow(handle=FREE, count=0, credit=1)),
    "detach of a free handle": Fault(UNATTACHED, said(DETACH, handle=FREE)),
    "attach on the handle of a sender": Fault(IN_USE, attach(SENDER)),
    "attach on the handle of a receiver": Fault(IN_USE, attach(BACK)),
    "more frames than the window": Fault("amqp:session:window-violation", transfer(0, more=True) + PIECES),
    "first transfer without delivery-id": Fault(INVALID, transfer(None, tag=b"x")),
    "a delivery-id that skips one": Fault(INVALID, transfer(0) + transfer(2)),
    "a delivery-id that comes again": Fault(INVALID, transfer(0) + transfer(0)),
    "a delivery-id of another link": Fault(INVALID, transfer(0) + transfer(0, handle=NEIGHBOUR)),
    "a continuation with another id": Fault(INVALID, transfer(0, more=True) + transfer(1)),
    "unsettled behind settled": Fault(INVALID, transfer(0, more=True, settled=True) + transfer(None, settled=False)),
    "disposition whose last is before first": Fault(INVALID, disposition(5, 4)),
    "disposition whose last is far before first": Fault(INVALID, disposition(2**31, 0)),
}


@pytest.mark.parametrize("fault", SESSION_FAULTS.values(), ids=SESSION_FAULTS)
def test_a_violation_within_a_session_ends_that_session(scene: Scene, fault: Fault) -> None:
    """2.5.4: what comes behind it is discarded until END; the other session goes on, and the channel is free again."""
    client = scene.client
    client.write(fault.octets, transfer(77, handle=FREE), attach(SENDER), attach(FREE), said(DETACH, handle=BACK))
    assert client.ended().condition == fault.condition
    scene.passes(0, watched=2, channel=1)
    client.begin()
    client.sender(f"{scene.name}.d")
    scene.passes(0, watched=3)
    client.close()


def test_a_session_that_has_just_begun_ends_alone(scene: Scene) -> None:
    """2.5.4: BEGIN and the violation in one write."""
    client = scene.client
    client.write(client.beginning(4), transfer(0, channel=4, handle=FREE))
    client.begun(4)
    assert client.ended(4).condition == UNATTACHED
    scene.passes(0, watched=2, channel=1)
    client.close()


# ---- the link ends ----


def test_more_deliveries_than_credit_end_the_link(scene: Scene) -> None:
    """2.6.7: the neighbour in the session goes on behind them, and the handle is free after the answer."""
    client = scene.client
    client.write(*(transfer(number) for number in range(CAPACITY + 1)))
    got = client.expect(DETACH)
    assert (got.condition, got["handle"]) == ("amqp:link:transfer-limit-exceeded", client.handles[0, SENDER])
    assert got["closed"]
    client.write(said(DETACH, handle=SENDER, closed=True))
    scene.passes(CAPACITY + 1, watched=1, handle=NEIGHBOUR)
    scene.passes(0, watched=2, channel=1)
    client.sender(f"{scene.name}.d", SENDER)
    scene.passes(CAPACITY + 2, watched=3)
    client.close()


def counted(client: FrameClient) -> int:
    """How many TRANSFERs of the session on channel 0 the router has seen."""
    client.write(flow(echo=True))
    return int(client.expect(FLOW, 0)["next_in"])


def test_what_crosses_the_detach_is_discarded_and_counted(scene: Scene) -> None:
    """2.5.6: each TRANSFER counts for the window and next-incoming-id, also behind the end of its link."""
    client = scene.client
    client.write(*(transfer(number) for number in range(CAPACITY + 3)))
    client.expect(DETACH)
    client.write(flow(handle=SENDER, count=0, credit=0))
    while (got := counted(client)) != CAPACITY + 3:
        assert got < CAPACITY + 3
    client.write(said(DETACH, handle=SENDER, closed=True))
    scene.passes(CAPACITY + 3, watched=1, handle=NEIGHBOUR)
    client.close()


def test_behind_both_detaches_the_handle_is_nobodys(scene: Scene) -> None:
    """2.6.2: what the link's end does not excuse is a violation."""
    client = scene.client
    client.write(said(DETACH, handle=SENDER, closed=True), transfer(0))
    assert client.ended().condition == UNATTACHED
    scene.passes(0, watched=2, channel=1)


# ---- what has no condition of its own ----


ODD = {
    "a second open": said(OPEN, container="again"),
    "a begin that answers none": said(BEGIN, FREE, remote_channel=5, **BEGINS),
    "an attach of a name in use": said(ATTACH, name="link-0-0", handle=FREE, receiver=False, count=0,
                                       **termini(False, "again")),
    "an end and a transfer": said(END) + transfer(0),
    "an end and a flow": said(END) + flow(),
    "a frame of an unknown type": frame(0, b"whatever", kind=7),
    "a frame of SASL": frame(0, b"\0\x53\x44\xc0\x03\x01\x50\0", kind=1),
    "another header": AMQP_HEADER,
    "a close, and more": said(CLOSE) + transfer(0) + flow() + disposition(0),
    "text": b"GET / HTTP/1.1\r\n\r\n",
    "a disposition of what never was": disposition(0, 2**31 - 1, state=state(0x24)),
    "a disposition of a sender that sent nothing": disposition(0, 9, receiver=False, state=state(0x24)),
    "a state that lies": disposition(0, state=Encoded(b"\0\x53\x25\xc0\x02\x05\x43")),
    "a state inside states": disposition(0, state=Encoded(b"\0\x53\x34\xc0\x05\x01" + b"\0" * 3 + b"\x45")),
}  # fmt: skip


@pytest.mark.parametrize("octets", ODD.values(), ids=ODD)
def test_what_is_odd_is_answered(scene: Scene, bystander: Bystander, octets: bytes) -> None:
    """By the end of the connection, or by going on with it: never by silence."""
    client = scene.client
    client.write(octets)
    bystander.goes_on()
    with suppress(EOFError, ConnectionError, EndedError):
        client.round_trip(channel=3)


def test_states_that_lie_stay_here(connect: Connect, name: str, violations: list[bytes]) -> None:
    """Octets that are no value reach nobody: they would end the connection of whoever reads them."""
    at, to = connect(), connect()
    at.receiver(name, credit=100)
    to.sender(name)
    for number, octets in enumerate(violations):
        to.write(transfer(number, state=Encoded(octets)))
        at.take(1)
        at.write(disposition(number, state=Encoded(octets)))
        to.settled(number, number)


@pytest.fixture
def violations() -> list[bytes]:
    """Described lists with counts without items, items without counts, and lengths that reach outside."""
    inside = (b"\xc0\x02\x02\x43", b"\xc0\x03\x01\x43\x43", b"\xc1\x02\x01\x43", b"\xe0\x02\x05\x60", b"\xe0\x01\x00")
    return [b"\0\x53\x25\xc0" + bytes((len(one) + 1, 1)) + one for one in inside]


def test_a_crowd_of_violators_leaves_nothing_behind(connect: Connect, name: str) -> None:
    """Each kind of end, twenty times, from clients that then just go."""
    faults: list[Callable[[], bytes]] = [lambda: transfer(0, handle=FREE), lambda: said(TRANSFER), lambda: b"\0" * 8]
    for number in range(60):
        client = connect(narrow=True)
        client.write(client.attaching(name, 0, number % 2 == 0), faults[number % 3]())
        if number % 4 == 0:
            client.socket.close()
