"""The control channel between the supervisor and a child."""

import os
import select
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import get_args

import msgspec
import pytest

from routerd.supervise import channel
from routerd.supervise.channel import FRAGMENT, Channel, ChannelClosedError, ChildEnd, of_child, pair
from shm.contract import control
from shm.contract.control import AddressSetup, ChangeRequest, Exit, FromChild, LogSetup, Ready, SetLogs, Setup, ToChild

Ends = tuple[Channel[FromChild], Channel[ToChild]]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = pair()
    child = of_child(theirs.detach())
    yield ours, child
    ours.close()
    child.close()


def received(end: Channel[ToChild]) -> ToChild:
    while (message := end.receive()) is None:
        select.select([end], [], [], 20)
    return message


def setup(addresses: int) -> Setup:
    return Setup(
        role="core",
        index=2,
        generation=1,
        segments="/routerd-x-1",
        router_id="x",
        version="1",
        workers=2,
        doorbells=[3, 4],
        addresses=[AddressSetup(prefix=f"a.long.prefix.number.{i}") for i in range(addresses)],
    )


def test_messages_arrive_in_order_and_whole(ends: Ends) -> None:
    """Both directions; nothing to receive is None."""
    ours, child = ends
    assert ours.receive() is None
    child.send(Ready(1))
    child.send(Ready(2))
    assert [ours.receive(), ours.receive(), ours.receive()] == [Ready(1), Ready(2), None]
    ours.send(setup(3))
    assert child.receive() == setup(3)


def test_a_set_up_larger_than_a_packet_arrives_whole(ends: Ends) -> None:
    """Thousands of addresses are a few fragments."""
    ours, child = ends
    big = setup(2500)
    assert len(channel.msgspec.msgpack.encode(big)) > 2 * FRAGMENT
    sender = threading.Thread(target=lambda: (ours.send(big), ours.send(Exit())))
    sender.start()  # it waits while the buffer is full, as the supervisor waits for a child that is starting
    assert [received(child), received(child)] == [big, Exit()]
    sender.join()


def test_the_end_of_the_other_side_is_an_error_after_its_last_words(ends: Ends) -> None:
    """What was said before is still heard."""
    ours, child = ends
    child.send(Ready(1))
    child.close()
    assert ours.receive() == Ready(1)
    with pytest.raises(ChannelClosedError, match="closed"):
        ours.receive()
    with pytest.raises(ChannelClosedError):
        ours.send(Exit())


@pytest.mark.parametrize("nonsense", [b"\x00\xc1", b"\x00", b"\x00\x81\xa4type\xa5Panic"])
def test_nonsense_closes_the_channel(nonsense: bytes) -> None:
    """A process that speaks nonsense is not listened to any more."""
    ours, theirs = pair()
    with theirs:
        theirs.send(nonsense)
        with pytest.raises(ChannelClosedError, match="not a message of the router"):
            ours.receive()
    ours.close()


def test_a_peer_that_never_reads_is_given_up(monkeypatch: pytest.MonkeyPatch, ends: Ends) -> None:
    """The supervisor does not wait for ever for a child that hangs."""
    monkeypatch.setattr(channel, "SEND_SECONDS", 0.01)
    with pytest.raises(ChannelClosedError, match="not read"):
        ends[0].send(setup(20_000))


def test_a_peer_that_reads_a_little_now_and_then_is_given_up_too(monkeypatch: pytest.MonkeyPatch, ends: Ends) -> None:
    """The bound is for a whole structure, however many packets it takes: the supervisor does nothing else meanwhile."""
    ours, child = ends
    now = [0.0]

    class Poll:
        """Another packet is read 2 s later."""

        def register(self, *_: object) -> None: ...

        def poll(self, milliseconds: float) -> list[int]:
            now[0] += min(2.0, milliseconds / 1000)
            return [len(child._socket.recv(FRAGMENT + 1))] if milliseconds >= 2000 else []

    monkeypatch.setattr(channel, "select", SimpleNamespace(poll=Poll, POLLOUT=select.POLLOUT))
    monkeypatch.setattr(channel, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with pytest.raises(ChannelClosedError, match="not read"):
        ours.send(setup(20_000))
    assert now[0] == channel.SEND_SECONDS


def test_what_follows_a_message_that_was_not_read_in_time_is_whole(monkeypatch: pytest.MonkeyPatch, ends: Ends) -> None:
    """The sender is told of the torn one, and may go on: a core has other work, and other requests."""
    ours, child = ends
    monkeypatch.setattr(channel, "SEND_SECONDS", 0.01)
    with pytest.raises(ChannelClosedError, match="not read"):
        child.send(ChangeRequest(1, "CREATE", "listener", "", {"name": "x" * 4_000_000}))
    assert ours.receive() is None
    child.send(Ready(1))
    child.send(Ready(2))
    assert [ours.receive(), ours.receive(), ours.receive()] == [Ready(1), Ready(2), None]


def test_a_torn_message_leaves_no_room_taken(monkeypatch: pytest.MonkeyPatch, ends: Ends) -> None:
    """However many there are: only the last one's octets count for its size."""
    ours, child = ends
    monkeypatch.setattr(channel, "SEND_SECONDS", 0.01)
    monkeypatch.setattr(channel, "LARGEST", 5_000_000)
    for _ in range(60):
        with pytest.raises(ChannelClosedError, match="not read"):
            child.send(ChangeRequest(1, "CREATE", "listener", "", {"name": "x" * 4_000_000}))
        assert ours.receive() is None
    child.send(Ready(1))
    assert ours.receive() == Ready(1)


def test_a_flood_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message has an end, or memory has."""
    monkeypatch.setattr(channel, "LARGEST", 1000)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    receiver: Channel[FromChild] = Channel(ours, FromChild)
    with theirs:
        theirs.send(b"\x01" + bytes(900))
        theirs.send(b"\x03" + bytes(900))
        with pytest.raises(ChannelClosedError, match="more than 1000 bytes"):
            receiver.receive()
    receiver.close()


def test_descriptors_travel_to_a_child(ends: Ends) -> None:
    """With their structure, also one of several packets; the child gets duplicates of its own."""
    ours, child = ends
    reader, writer = os.pipe()
    ours.send(setup(addresses=1200), [writer])
    ours.send(Exit())
    received(child)
    (taken,) = child.take_descriptors()
    assert child.take_descriptors() == []
    received(child)
    os.write(taken, b"through")
    assert os.read(reader, 10) == b"through"
    for fd in (reader, writer, taken):
        os.close(fd)


def test_descriptors_nobody_takes_are_closed(ends: Ends) -> None:
    """With the next structure: a child does not fill up with them."""
    ours, child = ends
    reader, writer = os.pipe()
    ours.send(Exit(), [writer])
    os.close(writer)
    ours.send(Exit())
    received(child)
    received(child)
    assert os.read(reader, 10) == b""
    os.close(reader)


def test_a_child_sends_no_descriptors(ends: Ends) -> None:
    """The supervisor takes none: whatever comes is closed by the kernel."""
    ours, child = ends
    reader, writer = os.pipe()
    child.send(Ready(1), [writer])
    os.close(writer)
    select.select([ours], [], [], 20)
    assert ours.receive() == Ready(1)
    assert ours.take_descriptors() == []
    assert os.read(reader, 10) == b""
    os.close(reader)


def test_the_log_is_set_before_the_role_sees_anything(ends: Ends) -> None:
    """Every child does the same with it."""
    ours, child = ends
    assert isinstance(child, ChildEnd)
    heard: list[list[LogSetup]] = []
    child.set_logs = heard.append
    ours.send(SetLogs([LogSetup("SERVER", "debug+")]))
    ours.send(Exit())
    assert received(child) == Exit()
    assert heard == [[LogSetup("SERVER", "debug+")]]


def test_every_structure_said_to_a_child_is_one_that_it_takes() -> None:
    """One that is missing in the union would end the child that gets it."""
    tagged = {
        one
        for one in vars(control).values()
        if isinstance(one, type) and issubclass(one, msgspec.Struct) and one.__struct_config__.tag
    }
    assert tagged == {*get_args(ToChild), *get_args(FromChild)}
