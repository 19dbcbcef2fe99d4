"""Edge routers on interior ones, of ours, of qdrouterd's and of skrouterd's: everybody reaches everybody."""

import itertools
from collections.abc import Iterator

import pytest
from proton import Message

from tests.support.peer import ACCEPTED, MODIFIED, REJECTED, RELEASED, Net, error_of, is_closed
from tests.support.routers.members import DISPATCH, OURS, SKUPPER, Member, Network, program, query, section
from tests.support.running import free_port, until

STATES = [ACCEPTED, REJECTED, RELEASED, MODIFIED]


# Of other makes: an interior router, its edge router of ours, and an edge router of it on ours.
OTHERS = {DISPATCH: ("qd", "e3", "qe"), SKUPPER: ("sk", "e4", "se")}


ENDPOINTS = ["e1", "hub", "e2"]
TENANTS = {"hub": free_port(), "e1": free_port()}  # where tenants connect
TABLE = """newrt|start|star
mse|1000|-1|e1:1
mse|1001|-1|hub:1
mse|1002|-1|e2:1
mse|1003|-1|nobody:1
newrt|end|4
"""


def available(kind: str) -> bool:
    try:
        program(kind)
    except pytest.skip.Exception:
        return False
    return True


@pytest.fixture(scope="module")
def star(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """Two edge routers on an interior one; with other makes, one of their edge routers too, and a further one
    of ours on an interior router of theirs."""
    network = Network(tmp_path_factory.mktemp("star"))
    seed = network.folder / "seed"
    seed.write_text(TABLE)
    tables = {
        name: section("routeTable", f"name: {name}", f"address: ric.{name}", f"seed: {seed}", "connect: no")
        for name in ("hub", "e1")
    }
    doors = {
        name: section("listener", "host: 127.0.0.1", f"port: {TENANTS[name]}", "multiTenant: yes") for name in TENANTS
    }
    network.add("hub", more=tables["hub"] + doors["hub"])
    network.add("e1", OURS, {"hub": 1}, mode="edge", more=tables["e1"] + doors["e1"])
    network.add("e2", OURS, {"hub": 1}, mode="edge")
    for kind, (interior, ours, theirs) in OTHERS.items():
        if available(kind):
            network.add(interior, kind, {"hub": 1})
            network.add(ours, OURS, {interior: 1}, mode="edge")
            network.add(theirs, kind, {"hub": 1}, mode="edge")
    try:
        network.start()
        for name in network.members:
            up(network, name)
        yield network
        for member in network.members.values():
            assert member.complaints() == []
    finally:
        network.end()


def up(network: Network, name: str) -> None:
    """Wait until an edge router has its uplink."""
    member = network[name]
    until(
        lambda: member.mode == "interior" or any(row["role"] == "edge" for row in connections(member)),
        f"uplink of {name}",
    )


def connections(member: Member, router: str = "") -> list[dict[str, object]]:
    return query(member, "connection", ["role", "container", "active", "dir"], router)


@pytest.fixture
def net(star: Network) -> Iterator[Net]:
    with Net(("", 0)) as net:
        yield net


PAIRS = [("e1", "e2"), ("hub", "e1"), ("e1", "hub"), ("e2", "e2")]
MIXED = [
    ("qe", "e1"),
    ("e1", "qe"),
    ("e3", "qe"),
    ("qe", "e3"),
    ("e3", "hub"),
    ("hub", "qe"),
    ("qd", "e3"),
    ("e3", "qd"),
    ("se", "e1"),
    ("e1", "se"),
    ("e4", "se"),
    ("se", "e4"),
    ("hub", "e4"),
    ("e4", "hub"),
    ("e4", "qe"),
    ("qe", "se"),
]


def pair(star: Network, *names: str) -> None:
    for kind, others in OTHERS.items():
        if set(names) & set(others):
            program(kind)


@pytest.mark.parametrize(("here", "there"), PAIRS + MIXED)
def test_messages_and_outcomes_cross(star: Network, net: Net, here: str, there: str) -> None:
    """With a target and without one; what the receiver says comes back to the sender."""
    pair(star, here, there)
    receiver_at, sender_at = net.peer(star[there].address), net.peer(star[here].address)
    address = f"closest.{here}.{there}"
    receiver = receiver_at.receiver(address, 100)
    sender = sender_at.ready_sender(address)
    sent = [net.send(sender, Message(id=i, body="x" * i * 100)) for i in range(20)]
    got = receiver_at.take(receiver, len(sent))
    for one in got:
        one.settle(STATES[one.message.id % 4])
    assert net.settled(*sent) == [STATES[i % 4] for i in range(20)]
    anonymous = sender_at.ready_sender(None)
    sent = [net.send(anonymous, Message(id=i, address=address, body=i)) for i in range(20)]
    for one in receiver_at.take(receiver, len(sent)):
        one.settle(STATES[one.message.id % 4])
    assert net.settled(*sent) == [STATES[i % 4] for i in range(20)]


@pytest.mark.parametrize(("here", "there"), PAIRS + MIXED)
def test_dynamic_addresses_are_reached_from_everywhere(star: Network, net: Net, here: str, there: str) -> None:
    pair(star, here, there)
    receiver_at, sender_at = net.peer(star[there].address), net.peer(star[here].address)
    receiver = receiver_at.receiver(None, 10)
    address = receiver.remote_source.address
    if star[there].mode == "edge":
        assert address.startswith(f"amqp:/_edge/{there}/temp.")
    for sender in (sender_at.ready_sender(address), sender_at.ready_sender(None)):
        sent = net.send(sender, Message(address=address, body="hello"))
        got = receiver_at.take(receiver)[0]
        got.settle()
        assert net.settled(sent) == [ACCEPTED]


@pytest.mark.parametrize(("here", "there"), [("hub", "e1"), ("e1", "hub"), ("e1", "e2"), ("hub", "hub")])
def test_a_tenants_dynamic_addresses_are_reached_from_everywhere(
    star: Network, net: Net, here: str, there: str
) -> None:
    """Also by a tenant at another router, by link and by message; but not by a name that it has chosen."""
    tenant = net.peer(("127.0.0.1", TENANTS[here]), hostname="red")
    place = ("127.0.0.1", TENANTS[there]) if there in TENANTS else star[there].address
    asker = net.peer(place, hostname="blue")
    receiver = asker.receiver(None, 10)
    address = receiver.remote_source.address
    anonymous = tenant.ready_sender(None)
    for sender in (tenant.ready_sender(address), anonymous):
        sent = net.send(sender, Message(address=address, body="hello"))
        asker.take(receiver)[0].settle()
        assert net.settled(sent) == [ACCEPTED]
    sent = net.send(anonymous, Message(address=address[:-1], body="guessed"))
    assert net.settled(sent) == [REJECTED]


@pytest.mark.parametrize(("at", "address"), [("hub", "_edge/e1/x"), ("e2", "_edge/e1/x"), ("e2", "_topo/0/hub/x")])
def test_nobody_receives_what_is_for_another_router(star: Network, net: Net, at: str, address: str) -> None:
    """A client's receiver there would get all that goes to dynamic addresses and to the management agent."""
    link = net.peer(star[at].address).begin_receiver(address)
    net.until(lambda: is_closed(link), "refusal")
    assert error_of(link)[0] == "amqp:not-allowed"


def hears(member: Member, key: str, number: int) -> None:
    """Wait until a router has so many receivers of an address of its own, and edge routers'."""

    def so() -> bool:
        rows = query(member, "router.address", ["key", "subscriberCount"])
        return any(row["key"] == key and row["subscriberCount"] == number for row in rows)

    until(so, f"{member.name} has {number} receivers of {key}")


def test_multicast_reaches_everybody_once(star: Network, net: Net) -> None:
    names = ["hub", "e1", "e2"]
    peers = {name: net.peer(star[name].address) for name in names}
    receivers = {name: peer.receiver("multicast.news", 100) for name, peer in peers.items()}
    for name in ("e1", "hub"):
        sender = peers[name].ready_sender("multicast.news")
        hears(star["hub"], "M0multicast.news", 3)
        if name == "e1":
            hears(star["e1"], "M0multicast.news", 2)
        sent = net.send(sender, Message(body=name))
        for one, receiver in receivers.items():
            got = peers[one].take(receiver)
            assert [each.message.body for each in got] == [name], one
            got[0].settle()
        assert net.settled(sent) == [ACCEPTED]
        sender.close()


@pytest.mark.parametrize("targeted", [True, False])
@pytest.mark.parametrize("here", ENDPOINTS)
@pytest.mark.parametrize("table", ["e1", "hub"])
def test_a_route_table_is_reached(star: Network, net: Net, table: str, here: str, targeted: bool) -> None:
    """From everywhere; an interior router's endpoints are anywhere, an edge router's are its own clients."""
    names = ENDPOINTS if table == "hub" else ["e1"]
    peers = {name: net.peer(star[name].address) for name in names}
    receivers = {name: peers[name].receiver(f"ric.{table}/{name}:1", 10) for name in names}
    if table == "hub":
        for name in names:
            hears(star["hub"], f"M0ric.hub/{name}:1", 1)
    sender = net.peer(star[here].address).ready_sender(f"ric.{table}" if targeted else None)
    for number, name in enumerate(names):
        message = Message(address=f"ric.{table}", body=name, properties={"rmr.mt": 1000 + number})
        sent = net.send(sender, message)
        (got,) = peers[name].take(receivers[name])
        assert got.message.body == name
        got.settle(STATES[number])
        assert net.settled(sent) == [STATES[number]]
    lost = Message(address=f"ric.{table}", properties={"rmr.mt": 1003})
    assert net.settled(net.send(sender, lost)) == [RELEASED]


def test_a_long_message_crosses(star: Network, net: Net) -> None:
    receiver_at, sender_at = net.peer(star["e2"].address), net.peer(star["e1"].address)
    receiver = receiver_at.receiver("closest.long", 10)
    body = bytes(range(256)) * 4096
    sent = net.stream(sender_at.ready_sender("closest.long"), Message(body=body).encode())
    got = receiver_at.take(receiver)[0]
    assert got.body == body
    got.settle()
    assert net.settled(sent) == [ACCEPTED]


@pytest.mark.parametrize(("here", "there"), [("e1", "e2"), ("e3", "qe"), ("qe", "e3"), ("e1", "hub"), ("hub", "e1")])
def test_a_message_that_goes_on_holds_up_no_other(star: Network, net: Net, here: str, there: str) -> None:
    """Two begin, and a third comes whole before they end, over the same edge connections."""
    pair(star, here, there)
    receiver_at, sender_at = net.peer(star[there].address), net.peer(star[here].address)
    address = f"closest.{here}.{there}.stream"
    receivers = [receiver_at.receiver(address, 10) for _ in range(3)]  # they take turns

    def arrived() -> list[bool]:
        return sorted(one.complete for link in receivers for one in receiver_at.inbox(link) if one.data)

    data = Message(body=b"x" * 300_000).encode()
    senders = [sender_at.ready_sender(address) for _ in range(3)]
    begun = [net.begin(sender, data[:250_000]) for sender in senders[:2]]
    net.until(lambda: arrived() == [False, False], "their beginnings")
    whole = net.send(senders[2], Message(body="short"))
    net.until(lambda: arrived() == [False, False, True], "the short one")
    for sender in senders[:2]:
        sender.stream(data[250_000:])
        sender.advance()
    net.until(lambda: arrived() == [True] * 3, "their ends")
    for link in receivers:
        receiver_at.take(link)[0].settle()
    assert net.settled(whole, *begun) == [ACCEPTED] * 3


@pytest.mark.parametrize(("here", "there"), [*itertools.permutations(("hub", "e1", "e2"), 2)])
def test_each_is_managed_from_each(star: Network, here: str, there: str) -> None:
    (row,) = query(star[here], "router", ["id", "mode"], there)
    assert row == {"id": there, "mode": star[there].mode}


def test_the_uplink_is_shown_as_active(star: Network) -> None:
    (uplink,) = [row for row in connections(star["e1"]) if row["role"] == "edge"]
    assert uplink == {"role": "edge", "container": "hub", "active": True, "dir": "out"}
    links = query(star["hub"], "router.link", ["linkType", "linkDir", "owningAddr"])
    assert {"linkType": "edge-downlink", "linkDir": "out", "owningAddr": "He1"} in links
