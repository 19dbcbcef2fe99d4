"""What messages of one broker hold of a worker counts for the clients of its links, each by itself."""

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from proton import Described, uint, ulong, ushort

from bench import contract as n
from shm.contract.payloads import Attach, ConnectionOpened, Detach, LinkRefused, OpenLink, Termini, Terminus
from shm.native import ROUTED_SESSIONS
from tests.support.beds.dialled import dialled
from tests.support.beds.door import Client
from tests.support.clients.wire import (
    ATTACH,
    BEGIN,
    DETACH,
    END,
    FLOW,
    SOURCE,
    TARGET,
    TRANSFER,
    begin,
    described,
    frame,
)

HOG, OTHER = 1, 2  # clients
ENOUGH = 2000  # messages
TURNS = 5000  # of the worker
SHORT = b"\0\x53\x77\xa1\x14" + 20 * b"x"
ENDS = Described(ulong(SOURCE), ["q"]), Described(ulong(TARGET), [])


class Broker:
    """A broker whose connection has links for clients; the core keeps what comes."""

    def __init__(self, client: Client) -> None:
        self.client, self.stand = client, client.stand
        (opened,) = self.stand.hear(ConnectionOpened)
        self.name = opened.connection, opened.generation
        self.links: dict[int, Attach] = {}
        self.came: dict[int, int] = {}  # deliveries, by link
        self.sent: dict[int, int] = {}  # by channel
        self.handles: dict[int, int] = {}
        self.marks = 0  # sessions of the broker, whose BEGIN is answered when all before it has been read
        hear = self.stand._hear

        def deliver(action: dict[str, int]) -> None:
            if action["type"] == n.A_DELIVER:
                self.came[action["link"]] = self.came.get(action["link"], 0) + 1
            hear(action)

        setattr(self.stand, "_hear", deliver)  # noqa: B010 - the test listens, too

    def receive(self, request: int, client: int, session: int = 0, credit: int = ENOUGH, **source: Any) -> int:
        """Attach a client's receiver in a session of that number; return its handle, which is that of the request."""
        termini = Termini(Terminus(1, "q", **source), Terminus(1))
        link = OpenLink(*self.name, request, f"l{request}", outgoing=False, termini=termini, client=client)
        self.stand.tell(n.C_OPEN_LINK, msgspec.structs.replace(link, session=ROUTED_SESSIONS + session))
        channel = session
        if session not in self.sent:
            self.client.frames(BEGIN)
            window = uint(0), uint(1 << 20), uint(1 << 20)
            self.client.write(frame(channel, described(BEGIN, ushort(channel), *window)))
            self.sent[channel] = 0
        self.client.frames(ATTACH)
        said = described(ATTACH, f"l{request}", uint(request), False, None, None, *ENDS, None, None, uint(0))
        self.client.write(frame(channel, said))
        (there,) = self.stand.hear(Attach)
        if credit:
            self.stand.work.push(n.pack(type=n.W_FLOW, link=there.link, link_gen=there.generation, credit=credit))
            self.client.all_until(FLOW)
        self.links[request] = there
        self.handles[request] = channel
        return request

    def send(self, request: int, number: int = 1, message: bytes = SHORT) -> None:
        """Send messages, whenever the worker takes them."""
        channel = self.handles[request]
        octets = b""
        for _ in range(number):
            head = described(TRANSFER, uint(request), uint(self.sent[channel]), b"t", uint(0), False, False)
            octets += frame(channel, head, message)
            self.sent[channel] += 1
        self.write(octets)

    def write(self, octets: bytes) -> None:
        for _ in range(TURNS):
            with suppress(BlockingIOError):
                octets = octets[self.client.socket.send(octets) :]
            if not octets:
                return
            self.client.step()
        raise AssertionError("the worker reads no more")

    def arrived(self, request: int) -> int:
        """How many of a link's deliveries the core has heard of, when the worker has read all that was sent."""
        self.write(begin(200 + self.marks))
        self.marks += 1
        before = len(self.client.got)
        for _ in range(TURNS):
            if len(self.client.got) > before:
                break
            self.client.step()
        self.client.all_until(BEGIN)
        return self.came.get(self.links[request].link, 0)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with dialled("client-shares", arena=4) as client:
        yield Broker(client)


LONG = b"\0\x53\x75\xb0" + struct.pack(">I", 10_000) + bytes(10_000)


@pytest.mark.parametrize("message", [SHORT, LONG])
def test_a_client_who_settles_nothing_holds_up_no_other_clients_messages(broker: Broker, message: bytes) -> None:
    """It has so many links that each could keep one message, and all of them every block."""
    hogs = [broker.receive(request, HOG) for request in range(1, 250)]
    other = broker.receive(250, OTHER, session=1)
    for hog in hogs:
        broker.send(hog, 12, message)  # fewer than the session's window allows
    broker.arrived(other)
    assert sum(broker.came.values()) < 12 * len(hogs)
    broker.send(other, 3, message)
    assert broker.arrived(other) == 3


@pytest.mark.parametrize("seconds", [0, 60])
def test_a_link_that_ends_for_the_brokers_violation_keeps_a_terminus_that_lasts(broker: Broker, seconds: int) -> None:
    """The broker sends without credit; the core hears why the link has gone."""
    broker.send(broker.receive(1, OTHER, credit=0, timeout=seconds))
    *_, (_, detach) = broker.client.all_until(DETACH)
    assert bool(detach[1]) == (not seconds)
    (gone,) = broker.stand.hear(Detach)
    assert gone.lost
    assert gone.error is not None
    assert gone.error.condition == "amqp:link:transfer-limit-exceeded"


UNATTACHED = frame(0, described(TRANSFER, uint(999), uint(0), b"t", uint(0)), SHORT)


@pytest.mark.parametrize("last", [UNATTACHED, frame(0, described(END))], ids=["violation", "end"])
def test_a_link_that_is_asked_for_while_its_session_ends_has_another_one(broker: Broker, last: bytes) -> None:
    """Links end in portions, and the session after them."""
    links = [broker.receive(request, OTHER, credit=0) for request in range(1, 60)]
    broker.write(last)
    broker.stand.turn(0.0)
    assert 0 < sum(isinstance(one, Detach) for one in broker.stand.heard) < len(links)
    termini = Termini(Terminus(1, "q"), Terminus(1))
    link = OpenLink(*broker.name, 60, "l60", outgoing=False, termini=termini, client=OTHER, session=ROUTED_SESSIONS)
    broker.stand.tell(n.C_OPEN_LINK, link)
    assert [code for code, _ in broker.client.all_until(END)] == [BEGIN, ATTACH, END]
    broker.stand.hear(Detach, len(links))
    assert not any(isinstance(one, LinkRefused) for one in broker.stand.heard)
