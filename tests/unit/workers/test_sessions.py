"""Sessions and links that begin, end and begin again before the other side answers (AMQP 1.0 part 2.5, 2.6)."""

from collections.abc import Iterator

import pytest
from proton import Described, uint, ulong, ushort

from bench import contract as n
from shm.contract.payloads import Attach, Attached, ConnectionOpened, OpenLink
from tests.support.beds.dialled import dialled
from tests.support.beds.door import Client, Door
from tests.support.clients.wire import (
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    END,
    FLOW,
    OPEN,
    SOURCE,
    TARGET,
    TRANSFER,
    begin,
    described,
    frame,
)

CHANNELS = 101  # of a door


@pytest.fixture
def client() -> Iterator[Client]:
    """A connection that is open."""
    door = Door("sessions", None)
    client = Client(door, door.dial())
    client.write(AMQP_HEADER + frame(0, described(OPEN, "peer")))
    client.take(8)
    client.frames(OPEN)
    yield client
    client.socket.close()
    door.end()


@pytest.fixture
def broker() -> Iterator[Client]:
    """What a connector has connected to; the connection is open."""
    with dialled("sessions-dialled") as broker:
        yield broker


def attach(name: str, handle: int, *, receives: bool = False) -> bytes:
    ends = Described(ulong(SOURCE), ["a"]), Described(ulong(TARGET), ["a"])
    count = None if receives else uint(0)
    return frame(0, described(ATTACH, name, uint(handle), receives, None, None, *ends, None, None, count))


def detach(handle: int) -> bytes:
    return frame(0, described(DETACH, uint(handle), True))


def accept(client: Client) -> None:
    """Let the core accept the next link, and grant its sender credit."""
    (asked,) = client.stand.hear(Attach)
    client.stand.tell(n.C_ATTACHED, Attached(asked.link, asked.generation))
    client.stand.work.push(n.pack(type=n.W_FLOW, link=asked.link, link_gen=asked.generation, credit=5))
    client.stand.work.publish()


def test_channels_are_used_again_in_the_write_that_frees_them(client: Client) -> None:
    """All of them: who writes the answers must free ours before it takes one."""
    every = range(CHANNELS)
    client.write(b"".join(map(begin, every)))
    client.frames(*[BEGIN] * CHANNELS)
    client.write(b"".join(frame(channel, described(END)) + begin(channel) for channel in every))
    answers = client.frames(*[END, BEGIN] * CHANNELS)
    assert [fields[0] for fields in answers[1::2]] == list(every)


def test_a_name_is_used_again_in_the_write_that_frees_it(client: Client) -> None:
    """Credit is that of the link which is there, with the handle of its own answer."""
    client.write(begin(0) + attach("x", 0) + detach(0) + attach("x", 0))
    client.frames(BEGIN)
    (gone,) = client.stand.hear(Attach)
    accept(client)
    first, _, second, flow = client.frames(ATTACH, DETACH, ATTACH, FLOW)
    assert first[0] == second[0] == "x"
    assert flow[4] == second[1]
    assert gone.name == "x"


def test_a_session_that_ends_in_the_write_in_which_it_begins_is_answered_by_its_channel(client: Client) -> None:
    client.write(b"".join(begin(channel) + frame(channel, described(END)) for channel in (3, 3, 7)))
    answers = client.frames(*[BEGIN, END] * 3)
    assert [fields[0] for fields in answers[::2]] == [3, 3, 7]


@pytest.mark.parametrize("handle", [0, 2**31 - 1])
def test_any_handle_is_taken_once(client: Client, handle: int) -> None:
    """The second ATTACH ends the session, whose channel then begins another one."""
    client.write(begin(0) + attach("x", handle) + attach("y", handle) + attach("z", 5) + detach(9))
    client.frames(BEGIN)
    (ended,) = [fields for code, fields in client.all_until(END) if code == END]
    assert str(ended[-1].value[0]) == "amqp:session:handle-in-use"
    client.write(frame(0, described(END)) + begin(0))
    client.frames(BEGIN)


@pytest.mark.parametrize("octets", [begin(0), frame(0, described(OPEN, "again"))], ids=["begin", "open"])
def test_what_may_come_once_ends_the_connection(client: Client, octets: bytes) -> None:
    client.write(begin(0) + octets)
    (closed,) = [fields for code, fields in client.all_until(CLOSE) if code == CLOSE]
    assert str(closed[-1].value[0]) == "amqp:not-allowed"


def test_a_frame_before_open_ends_the_connection(client: Client) -> None:
    other = Client(client.stand, client.stand.dial())
    other.write(AMQP_HEADER + begin(0))
    other.take(8)
    (closed,) = [fields for code, fields in other.all_until(CLOSE) if code == CLOSE]
    assert str(closed[-1].value[0]) == "amqp:not-allowed"
    other.socket.close()


def test_nothing_follows_our_close(client: Client) -> None:
    """Not the answer to a FLOW that asks for one, nor a transfer."""
    client.write(begin(0) + attach("x", 0))
    client.frames(BEGIN)
    accept(client)
    client.frames(ATTACH, FLOW)
    client.stand.pump.connection_close(0, client.stand.pump.connection_generations()[0][1], ("amqp:x", "y"))
    flow = (uint(0), uint(9), uint(0), uint(9), None, None, None, None, None, True)
    client.frames(CLOSE)
    client.write(frame(0, described(FLOW, *flow)), frame(0, described(CLOSE)))
    assert client.over() == b""


def test_a_link_that_ends_for_its_peers_violation_leaves_the_others_their_window(client: Client) -> None:
    """It was one frame wide, and a delivery that the link had no credit for took it."""
    client.stand.pump.change_listener(0, 0, 16384, 100, 60_000, 60_000, 50, 1, 1, False, "ANONYMOUS")
    other = Client(client.stand, client.stand.dial())
    other.write(AMQP_HEADER + frame(0, described(OPEN, "other")) + begin(0) + attach("x", 0) + attach("y", 1))
    other.take(8)
    (asked,) = client.stand.hear(Attach)
    client.stand.tell(n.C_ATTACHED, Attached(asked.link, asked.generation))
    accept(other)
    _, begun, *_ = other.frames(OPEN, BEGIN, ATTACH, ATTACH, FLOW)
    assert begun[2] == 1
    other.write(frame(0, described(TRANSFER, uint(0), uint(0), b"t", uint(0), True), b"\0\x53\x77\xa1\x01x"))
    flow, _ = other.frames(FLOW, DETACH)
    assert flow[:2] == [1, 1]
    other.socket.close()


def ask(broker: Client) -> None:
    """Let the core, which has just heard of the connection, want a link from a queue of the broker's."""
    (opened,) = broker.stand.hear(ConnectionOpened)
    ends = opened.connection, opened.generation
    broker.stand.tell(n.C_OPEN_LINK, OpenLink(*ends, 7, "x", outgoing=False, source="q", session=5))
    broker.frames(BEGIN, ATTACH)


def answers(ours: int, theirs: int) -> bytes:
    """The broker's to a BEGIN with this channel of ours, and to an ATTACH, on this channel of its own."""
    begun = frame(theirs, described(BEGIN, ushort(ours), uint(0), uint(100), uint(100)))
    ends = Described(ulong(SOURCE), ["q"]), Described(ulong(TARGET), [])
    return begun + frame(theirs, described(ATTACH, "x", uint(0), False, None, None, *ends, None, None, uint(0)))


def test_a_session_of_ours_ends_once_the_broker_has_answered_its_begin(broker: Client) -> None:
    """The core that wanted it dies before; the next one has the connection, and a link in a session of its own."""
    ask(broker)
    broker.stand.core_dies()
    broker.frames(DETACH)
    ask(broker)
    broker.write(answers(0, 8), frame(8, described(DETACH, uint(0), True)))
    broker.frames(END)
    broker.write(frame(8, described(END)), answers(1, 9))
    accept(broker)
    broker.frames(FLOW)
