"""Ten priorities: what is more urgent leaves a connection first."""

from itertools import count

import pytest
from proton import Message, Receiver

from tests.support.peer import Net
from tests.support.running import Configuration, RunningRouter, until

SECTIONS = """
address {
 prefix: urgent
 priority: 9
}
address {
 prefix: leisurely
 priority: 0
}
"""


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    """One worker: what it was told before it answered a sender it knows when its receiver opens again."""
    listener = "host: 127.0.0.1\n port: 0\n maxSessionFrames: 16"  # less for a sender to send in advance
    return Configuration(router="workers: 1", listener=listener, sections=SECTIONS)


NUMBERS = count()
BLOCK = Message(body=b"x" * 2_000_000)  # more than the router takes of a message that its receiver does not


PLUGS = Message(priority=9, body=b"x" * 10_000)


class Narrow:
    """A receiving session that can be shut: what is sent to it meanwhile waits in the router."""

    def __init__(self, net: Net, *addresses: str, credit: int = 100) -> None:
        self.net = net
        self.at, self.to = net.peer(max_frame_size=16_384, window=65_536), net.peer()
        self.name = f"narrow.{next(NUMBERS)}"  # the links of another test may not have gone yet
        self.at.receiver(f"{self.name}.blocker", 1)
        self.at.receiver(f"{self.name}.plug", 100)
        self.receivers: list[Receiver] = [self.at.receiver(address, credit) for address in addresses]

    def shut(self) -> None:
        """Let a large message fill the session's window, and the router until its sender cannot go on."""
        self.at.frozen = True
        sender = self.to.ready_sender(f"{self.name}.blocker", self.to.session())
        self.net.send(sender, BLOCK)
        left = [-1]
        while len(set(left[-20:])) > 1 or len(left) < 20:
            self.to.round_trip()
            left.append(sender.session.outgoing_bytes)
        assert left[-1] > 0, "the message was too small"
        self.send(f"{self.name}.plug", *[PLUGS] * 16)  # whatever room is left in the router's engine

    def outcome(self) -> list[object]:
        """The bodies of the small messages in the order of their arrival."""
        return [got.body for got in self.at.arrivals if len(got.data) < 1000]

    def send(self, address: str, *messages: Message) -> None:
        """Messages that the router has when this returns."""
        sender = self.to.ready_sender(address)
        for message in messages:
            self.net.send(sender, message)
        self.to.round_trip()

    def open(self, number: int) -> list[object]:
        """Read again; the bodies of that many small messages in the order of their arrival."""
        self.at.thaw()
        self.net.until(lambda: len(self.outcome()) >= number, f"{number} messages")
        return self.outcome()


def test_the_more_urgent_link_is_served_first(net: Net, request: pytest.FixtureRequest) -> None:
    """By the priority in the messages' headers, whatever order they came in."""
    name = request.node.name
    priorities = [4, 0, 9, 6, 2, 8, 1, 5, 3, 7]
    narrow = Narrow(net, *[f"{name}.{p}" for p in priorities])
    narrow.shut()
    for priority in priorities:
        narrow.send(f"{name}.{priority}", *[Message(priority=priority, body=priority) for _ in range(3)])
    assert narrow.open(30) == [p for p in range(9, -1, -1) for _ in range(3)]


def test_a_worker_sleeps_while_a_session_is_shut(net: Net, router: RunningRouter) -> None:
    """What cannot be written is not tried again and again."""
    narrow = Narrow(net, "urgent.sleepy")
    narrow.shut()
    narrow.send("urgent.sleepy", Message(body="x"))
    sleeps = router.counted("sleeps")
    until(lambda: router.counted("sleeps") > sleeps + 3, "sleep of a worker")
    assert narrow.open(1) == ["x"]


def test_a_shut_session_does_not_hold_up_the_others_of_its_connection(net: Net) -> None:
    """Though what waits for it is more urgent."""
    narrow = Narrow(net, "urgent.shut")
    narrow.shut()
    narrow.send("urgent.shut", Message(body="urgent"))
    other = narrow.at.receiver("leisurely.free", 100, narrow.at.session())
    narrow.at.free.add(other.name)
    narrow.send("leisurely.free", *[Message(body="free")] * 50)
    assert [got.body for got in narrow.at.take(other, 50)] == ["free"] * 50
    assert narrow.open(51)[-1] == "urgent"


def test_the_same_without_credit(net: Net, request: pytest.FixtureRequest) -> None:
    """Credit for all links at once."""
    name = request.node.name
    priorities = [0, 5, 9]
    narrow = Narrow(net, *[f"{name}.{p}" for p in priorities], credit=0)
    for priority in priorities:
        narrow.send(f"{name}.{priority}", Message(priority=priority, body=priority))
    for receiver in narrow.receivers:
        receiver.flow(1)
    assert narrow.open(3) == [9, 5, 0]


def test_an_address_overrides_the_messages(net: Net) -> None:
    """Its priority is what counts; a message without header has priority 4."""
    narrow = Narrow(net, "leisurely.a", "plain", "urgent.a")
    narrow.shut()
    narrow.send("leisurely.a", Message(priority=9, body="leisurely"))
    narrow.send("plain", Message(body="plain"))
    narrow.send("urgent.a", Message(priority=0, body="urgent"))
    assert narrow.open(3) == ["urgent", "plain", "leisurely"]


def test_a_link_keeps_its_order(net: Net, request: pytest.FixtureRequest) -> None:
    """Messages of one link do not overtake each other, whatever their priorities."""
    narrow = Narrow(net, request.node.name)
    narrow.shut()
    narrow.send(request.node.name, *[Message(priority=i % 10, body=i) for i in range(30)])
    assert narrow.open(30) == list(range(30))


def test_a_priority_beyond_nine_is_nine(net: Net, request: pytest.FixtureRequest) -> None:
    """No index beyond the ten lists; the header itself stays as it is."""
    name = request.node.name
    narrow = Narrow(net, f"{name}.8", f"{name}.255")
    narrow.shut()
    narrow.send(f"{name}.8", Message(priority=8, body=8))
    narrow.send(f"{name}.255", Message(priority=255, body=255))
    assert narrow.open(2) == [255, 8]
    assert narrow.at.inbox(narrow.receivers[1])[0].message.priority == 255
