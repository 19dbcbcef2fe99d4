"""Messages of long TRANSFERs in any pieces: the router takes their octets as they come (AMQP 1.0 part 2.6.14)."""

import random
import struct
import threading
from collections.abc import Iterator

import pytest

from tests.support.beds.conformance import Connect
from tests.support.clients.frame_client import FrameClient, disposition, flow, transfer
from tests.support.clients.octets import ACCEPTED, REJECTED, TRANSFER, said, state

FRAME = 16384  # octets: the largest of the router's listener
PLENTY = 100
HELD_S = 0.3  # the router and the sockets hold much by then
EMPTY = struct.pack(">IBBH", 8, 2, 0, 0)


def chance(seed: int) -> random.Random:
    """The same numbers in each run."""
    return random.Random(seed)  # noqa: S311 - no secret


def data(size: int, seed: int) -> bytes:
    """A message whose body is so many octets of data, which tell where each is."""
    return b"\0\x53\x75\xb0" + struct.pack(">I", size) + chance(seed).randbytes(size)


def frames(number: int, message: bytes, size: int, handle: int = 0) -> list[bytes]:
    """A delivery as TRANSFERs of that size."""
    first = size - len(transfer(number, b"", more=True, handle=handle))
    later = size - len(transfer(None, b"", more=True, handle=handle))
    parts = [message[:first], *(message[at : at + later] for at in range(first, len(message), later))]
    return [
        transfer(None if n else number, part, more=n + 1 < len(parts), handle=handle) for n, part in enumerate(parts)
    ]


def pieces(seed: int, longest: int) -> Iterator[int]:
    """Sizes of writes."""
    numbers = chance(seed)
    while True:
        yield numbers.choice([1, 7, 30, 31, 4000, numbers.randrange(1, longest)])


def write(client: FrameClient, octets: bytes, seed: int, longest: int = 200_000) -> None:
    """Write the octets in pieces that end anywhere."""
    sizes, done = [], 0
    for size in pieces(seed, longest):
        if done >= len(octets):
            break
        sizes.append(size)
        done += size
    client.write_in_pieces(octets, sizes)


@pytest.fixture
def ends(connect: Connect, name: str) -> tuple[FrameClient, FrameClient]:
    """A sender and a receiver with credit, on connections of their own."""
    at, to = connect(), connect()
    at.receiver(name, credit=PLENTY)
    to.sender(name)
    return to, at


def arrives(ends: tuple[FrameClient, FrameClient], number: int, message: bytes) -> None:
    """The next delivery is that message, and its sender hears that it has been accepted."""
    to, at = ends
    (got,) = at.take(1)
    assert got.payload == message
    at.write(disposition(got["id"], state=state(ACCEPTED)))
    assert to.settled(number, number) == [state(ACCEPTED)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [4200, 9000, FRAME])
def test_a_message_of_long_transfers_may_come_in_any_pieces(
    ends: tuple[FrameClient, FrameClient], size: int, seed: int
) -> None:
    messages = [data(length, seed) for length in (100_000, 16_288, 300_001, 40_000)]
    octets = b"".join(b"".join(frames(n, one, size)) for n, one in enumerate(messages))
    write(ends[0], octets, seed)
    for n, one in enumerate(messages):
        arrives(ends, n, one)


def test_the_transfers_of_a_message_need_not_begin_alike(ends: tuple[FrameClient, FrameClient]) -> None:
    """With and without the delivery-id, of other sizes, with empty frames and a FLOW between them."""
    message, octets, at = data(500_000, 1), b"", 0
    for n, size in enumerate([*chance(2).choices([5000, 16000, 16000, 16000, 10], k=200), 10**6]):
        part = message[at : at + min(size, 16000)]
        at += len(part)
        again = {"id": 0} if n % 5 == 4 else {}
        octets += said(
            TRANSFER, 0, part, handle=0, more=at < len(message), **({"id": 0, "tag": b"0"} if not n else again)
        )
        octets += [b"", b"", b"", EMPTY, flow()][n % 5]
        if at == len(message):
            break
    write(ends[0], octets, 3)
    arrives(ends, 0, message)


def test_two_links_may_send_long_messages_in_turns(connect: Connect, name: str) -> None:
    at, to = connect(), connect()
    for handle in (0, 1):
        at.receiver(f"{name}.{handle}", handle, credit=PLENTY)
        to.sender(f"{name}.{handle}", handle)
    both = [data(200_000, seed) for seed in (5, 6)]
    parts = [frames(n, one, FRAME, handle=n) for n, one in enumerate(both)]
    to.write(parts[0][0] + parts[1][0])
    later = [b"".join(pair) for pair in zip(parts[0][1:], parts[1][1:], strict=True)]
    write(to, b"".join(later), 4)
    for handle, one in enumerate(both):
        (got,) = at.take(1, handle)
        assert got.payload == one


def test_an_abort_behind_long_transfers_takes_the_message_back(ends: tuple[FrameClient, FrameClient]) -> None:
    to, at = ends
    begun = frames(0, data(200_000, 7), FRAME)[:-1]
    write(to, b"".join(begun) + transfer(None, b"", aborted=True), 8)
    (got,) = at.take(1)
    assert got["aborted"]
    message = data(50_000, 9)
    to.write(*frames(1, message, FRAME))
    arrives(ends, 1, message)


def test_a_sender_that_leaves_within_a_transfer_takes_the_message_back(
    ends: tuple[FrameClient, FrameClient], connect: Connect, name: str
) -> None:
    to, at = ends
    octets = b"".join(frames(0, data(100_000, 10), FRAME))
    to.write(octets[:60_000])
    at.frames(1)
    to.socket.close()
    (got,) = at.take(1)
    assert got["aborted"]
    other, message = connect(), data(50_000, 11)
    other.sender(name)
    other.write(*frames(0, message, FRAME))
    arrives((other, at), 0, message)


def test_a_receiver_may_settle_within_a_transfer(ends: tuple[FrameClient, FrameClient]) -> None:
    """Nobody takes the rest, whose frames count all the same."""
    to, at = ends
    octets = b"".join(frames(0, data(300_000, 12), FRAME))
    to.write(octets[:90_000])
    (begun,) = at.frames(1)
    at.write(disposition(begun["id"], state=state(REJECTED)))
    at.round_trip()
    to.write(octets[90_000:200_000])
    write(to, octets[200_000:], 13)
    assert to.settled(0, 0)[0].descriptor == REJECTED
    at.passed.clear()
    message = data(50_000, 14)
    to.write(*frames(1, message, FRAME))
    arrives(ends, 1, message)


def test_a_link_may_go_within_its_transfer(connect: Connect, name: str) -> None:
    """The receiver's connection ends, the sender's goes on with its frame and with other messages."""
    at, to = connect(), connect()
    at.receiver(name, credit=PLENTY)
    to.sender(name)
    octets = b"".join(frames(0, data(200_000, 15), FRAME))
    to.write(octets[:70_000])
    at.frames(1)
    at.socket.close()
    to.write(octets[70_000:150_000])
    write(to, octets[150_000:], 16)
    to.settled(0, 0)
    other, message = connect(), data(50_000, 17)
    other.receiver(name, credit=PLENTY)
    to.write(*frames(1, message, FRAME))
    arrives((to, other), 1, message)


def test_a_slow_receiver_holds_up_a_long_message_within_its_transfers(ends: tuple[FrameClient, FrameClient]) -> None:
    message = data(20_000_000, 18)
    writer = threading.Thread(target=ends[0].write, args=frames(0, message, FRAME), daemon=True)
    writer.start()
    writer.join(HELD_S)
    arrives(ends, 0, message)
