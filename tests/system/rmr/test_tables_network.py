"""A route table at one router of a network: senders and endpoints at either, with targets and without."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message, Receiver, symbol

from tests.support.clients.rmr import Application, Link
from tests.support.clients.rmr_frames import CALL
from tests.support.peer import ACCEPTED, CHUNK, CREDIT, REJECTED, RELEASED, Net, Peer, error_of
from tests.support.routers.network import LISTENERS, NetworkRouter, connector
from tests.support.routers.rmr_stage import changed
from tests.support.running import Configuration, RunningRouter, address_of

TABLE = """newrt|start|net
mse|1000|-1|near:1
mse|1001|-1|far:1
mse|1002|-1|near:1;far:1
mse|1003|-1|%meid
mse|1004,me:1|-1|me:1,near:1
mse|1005|-1|nobody:1
newrt|end|6
meid_map|start|m
mme_ar|far:1|ran-1
meid_map|end|1
"""
PLACES = ["near", "far"]


CALLS = """newrt|start|calls
mse|2000|-1|{application}
mse|2001|-1|amqp:1
newrt|end|2
"""
NEAR = """
routeTable {{
 name: ric
 seed: {seed}
 connect: no
}}
routeTable {{
 name: calls
 seed: {calls}
}}
listener {{
 host: 127.0.0.1
 port: 0
 protocol: rmr
 table: calls
}}
"""


class Side(NetworkRouter):
    """A router with tables, if it is given some."""

    def __init__(self, folder: Path, tables: str, *others: str) -> None:
        folder.mkdir()
        sections = LISTENERS + "".join(map(connector, others)) + tables
        configuration = Configuration(
            "mode: interior\n workers: 1", sections=sections, expected="endpoint .*: (host |Connection re|closed)"
        )
        RunningRouter.__init__(self, folder, configuration)


@pytest.fixture(scope="module")
def application() -> Iterator[Application]:
    """On RMR, at the router with the tables."""
    with Application() as application:
        yield application


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory, application: Application) -> Iterator[tuple[Side, Side]]:
    """The first has the tables."""
    folder = tmp_path_factory.mktemp("sides")
    seed = folder / "seed"
    seed.write_text(TABLE)
    calls = folder / "calls"
    calls.write_text(CALLS.format(application=application.name))
    near = Side(folder / "near", NEAR.format(seed=seed, calls=calls))
    try:
        far = Side(folder / "far", "", near.routers_url)
        try:
            near.knows(far.id)
            far.knows(near.id)
            yield near, far
        finally:
            far.stop()
    finally:
        near.stop()


@pytest.fixture
def net(sides: tuple[Side, Side]) -> Iterator[Net]:
    with Net(sides[0].address) as net:
        yield net


@pytest.fixture
def ends(net: Net, sides: tuple[Side, Side]) -> dict[str, tuple[Peer, Receiver]]:
    """Endpoints near and far, known where the table is."""
    near, far = net.peer(), net.peer(sides[1].address)
    found = {"near": (near, near.receiver("ric/near:1", 100)), "far": (far, far.receiver("ric/far:1", 100))}
    probe = net.peer()
    probe.close_link(probe.ready_sender("ric/far:1"))
    return found


def message(kind: int, body: object = "x", **more: object) -> Message:
    return Message(body, address="ric", properties={"rmr.mt": kind} | more)


def bodies(end: tuple[Peer, Receiver], number: int) -> list[object]:
    """Of the next messages."""
    taken = end[0].take(end[1], number)
    for one in taken:
        one.settle()
    return [one.message.body for one in taken]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("target", [True, False])
def test_the_table_is_reached(
    place: str, target: bool, net: Net, sides: tuple[Side, Side], ends: dict[str, tuple[Peer, Receiver]]
) -> None:
    """From either router, with a target and without one: entries, groups, owners, own endpoints, outcomes."""
    peer = net.peer(sides[PLACES.index(place)].address)
    if not target:
        peer.close_link(peer.ready_sender("ric"))  # its router knows of the table
    sender = peer.ready_sender("ric" if target else None)
    given = [
        message(1000, "near"),
        message(1001, "far"),
        message(1002, "both"),
        message(1003, "by meid", **{"rmr.meid": "ran-1"}),
        message(1004, "not to itself", **{"rmr.source": "me:1"}),
    ]
    sent = [net.send(sender, one) for one in given]
    assert bodies(ends["near"], 3) == ["near", "both", "not to itself"]
    assert sorted(map(str, bodies(ends["far"], 3))) == ["both", "by meid", "far"]
    assert net.settled(*sent) == [ACCEPTED] * 5
    lost = [message(1005), message(1003, **{"rmr.meid": "other"}), message(4711)]
    assert net.settled(*(net.send(sender, one) for one in lost)) == [RELEASED] * 3


@pytest.mark.parametrize("place", PLACES)
def test_a_message_without_key_is_refused_with_the_reason(place: str, net: Net, sides: tuple[Side, Side]) -> None:
    """As on a link to the table itself; and its sender goes on."""
    peer = net.peer(sides[PLACES.index(place)].address)
    peer.close_link(peer.ready_sender("ric"))
    sender = peer.ready_sender(None)
    bad = [Message("x", address="ric"), message(7), Message("x", address="ric", properties={"rmr.mt": "x"})]
    sent = [net.send(sender, one) for one in bad]
    assert net.settled(*sent) == [REJECTED] * 3
    conditions = ["routerd:no-route-key", "routerd:reserved-message-type", "routerd:no-route-key"]
    assert [error_of(one)[0] for one in sent] == conditions


def test_the_key_may_be_annotated(net: Net, sides: tuple[Side, Side], ends: dict[str, tuple[Peer, Receiver]]) -> None:
    """Annotations count more than properties, also where routers have added their own."""
    given = message(1001)
    given.annotations = {symbol("x-opt-rmr.mt"): 1000, symbol("x-opt-other"): "y" * 3000}
    for place in PLACES:
        peer = net.peer(sides[PLACES.index(place)].address)
        peer.close_link(peer.ready_sender("ric"))
        sent = net.send(peer.ready_sender(None), given)
        assert bodies(ends["near"], 1) == ["x"]
        assert net.settled(sent) == [ACCEPTED]


@pytest.mark.parametrize("place", PLACES)
def test_a_long_message_streams_once_its_key_is_there(
    place: str, net: Net, sides: tuple[Side, Side], ends: dict[str, tuple[Peer, Receiver]]
) -> None:
    """Without a target; the first piece ends before the key does."""
    peer = net.peer(sides[PLACES.index(place)].address)
    peer.close_link(peer.ready_sender("ric"))
    sender = peer.ready_sender(None)
    body = bytes(range(256)) * 2000
    data = bytes(message(1001, body, filler="f" * 600).encode())
    delivery = net.begin(sender, data[:150])
    peer.round_trip()
    for at in range(150, len(data), CHUNK):
        sender.stream(data[at : at + CHUNK])
    sender.advance()
    inbox = ends["far"][0].inbox(ends["far"][1])
    net.until(lambda: (inbox and inbox[0].complete) or delivery.settled, "the end")
    assert bytes(inbox[0].message.body) == body
    inbox.pop().settle()
    assert net.settled(delivery) == [ACCEPTED]


def test_senders_far_away_have_credit(net: Net, sides: tuple[Side, Side]) -> None:
    """The address of a table leads somewhere."""
    sender = net.peer(sides[1].address).ready_sender("ric")
    net.until(lambda: sender.credit == CREDIT, "credit")


def test_a_client_far_away_asks_an_rmr_application(
    net: Net, sides: tuple[Side, Side], application: Application
) -> None:
    """Its reply-to is an address of its own router."""
    peer = net.peer(sides[1].address)
    replies = peer.receiver(None, 10)
    asked = Message(b"ask", inferred=True, correlation_id="mine", properties={"rmr.mt": 2000})
    asked.reply_to = replies.remote_source.address
    sent = net.send(peer.ready_sender("calls"), asked)
    assert net.settled(sent) == [ACCEPTED]
    _, got = application.take(lambda frame: frame.payload == b"ask")
    link = Link.to(got.source)
    link.send(changed(got, payload=b"told", source=application.name))
    (arrived,) = peer.take(replies)
    assert (bytes(arrived.message.body), arrived.message.correlation_id) == (b"told", "mine")
    arrived.settle()
    link.close()


def test_a_client_far_away_answers_a_blocking_call(
    net: Net, sides: tuple[Side, Side], application: Application
) -> None:
    """The address of the caller's connection is known everywhere."""
    peer, probe = net.peer(sides[1].address), net.peer()
    receiver = peer.receiver("calls/amqp:1", 10)
    probe.close_link(probe.ready_sender("calls/amqp:1"))
    link = application.connect(address_of(sides[0].urls[2]))
    application.send_on(link, 2001, b"call", transaction=b"T" * 32, d1=b"\2\0\0\0", flags=CALL)
    (arrived,) = peer.take(receiver)
    arrived.settle()
    to, call_id = arrived.message.reply_to, arrived.message.id
    sender = peer.ready_sender(to)
    assert net.settled(net.send(sender, Message(b"told", inferred=True, correlation_id=call_id))) == [ACCEPTED]
    (back,) = link.receive()
    assert (back.payload, back.call, back.flags, back.transaction) == (b"told", 2, 0, b"T" * 32)
    link.close()
