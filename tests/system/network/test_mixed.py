"""Networks with routers of other makes: ours beside, behind and between a qdrouterd and a skrouterd."""

import itertools
from collections.abc import Iterator

import pytest
from proton import Message

from tests.support.peer import ACCEPTED, MODIFIED, REJECTED, RELEASED, Net
from tests.support.routers.members import DISPATCH, OURS, SKUPPER, Network, nodes, program, query
from tests.support.running import until

# a - qd - b - sk - c: one of another make between two of ours, and one of ours between the two.
LINE = {"a": OURS, "qd": DISPATCH, "b": OURS, "sk": SKUPPER, "c": OURS}


def available(kind: str) -> bool:
    try:
        program(kind)
    except pytest.skip.Exception:
        return False
    return True


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """As much of the line as is installed, from its middle; each one connects to the one before it."""
    network = Network(tmp_path_factory.mktemp("network"))
    names = [name for name, kind in LINE.items() if available(kind)]
    if not available(DISPATCH):
        names.remove("a")
    if not available(SKUPPER):
        names.remove("c")
    if len(names) == 1:
        program(DISPATCH)
    before: dict[str, int] = {}
    for name in names:
        network.add(name, LINE[name], before)
        before = {name: 1}
    try:
        network.start()
        yield network
        for member in network.members.values():
            assert member.complaints() == []
    finally:
        network.end()


@pytest.fixture
def net(network: Network) -> Iterator[Net]:
    with Net(("", 0)) as net:
        yield net


PAIRS = [(x, y) for x, y in itertools.permutations(LINE, 2)]


def pair(network: Network, here: str, there: str) -> None:
    for name in (here, there):
        if name not in network.members:
            program(LINE[name])
            pytest.skip(f"{name} has no neighbour of another make: install both")


FAR = pytest.mark.parametrize(("here", "there"), [("a", "c"), ("c", "a"), ("qd", "b"), ("b", "sk")])


def knows_all(network: Network, name: str, key: str) -> None:
    """Wait until a router has heard of the receivers at all others."""
    member = network[name]
    if member.kind == SKUPPER:
        key = key[0] + key[2:]

    def there() -> bool:
        rows = query(member, "router.address", ["key", "remoteCount"])
        return any(row["key"] == key and row["remoteCount"] == len(network.members) - 1 for row in rows)

    until(there, f"{name} knows all receivers of {key}")


def test_messages_and_outcomes_cross(network: Network, net: Net) -> None:
    """From each to each, once and whole; what the receiver says comes back to the sender."""
    peers = {name: net.peer(member.address) for name, member in network.members.items()}
    pairs = list(itertools.permutations(peers, 2))
    receivers = {(x, y): peers[y].receiver(f"closest.{x}.{y}", 250) for x, y in pairs}
    senders = {(x, y): peers[x].ready_sender(f"closest.{x}.{y}") for x, y in pairs}
    states = [ACCEPTED, REJECTED, RELEASED, MODIFIED] * 5
    for both in pairs:
        messages = [Message(id=i, priority=i % 10, body={"n": i}) for i in range(len(states))]
        sent = [net.send(senders[both], message) for message in messages]
        got = peers[both[1]].take(receivers[both], len(sent))
        assert sorted(one.message.id for one in got) == [*range(len(sent))]
        for one in got:
            one.settle(states[one.message.id])
        assert net.settled(*sent) == states


@FAR
def test_settled_messages_cross(network: Network, net: Net, here: str, there: str) -> None:
    """Each once; nobody is told an outcome."""
    pair(network, here, there)
    address = f"closest.{here}.{there}.settled"
    receiver_at, sender_at = net.peer(network[there].address), net.peer(network[here].address)
    receiver = receiver_at.receiver(address, 250)
    sender = sender_at.ready_sender(address)
    for number in range(100):
        net.until(lambda: sender.credit > 0, "credit")
        net.send(sender, Message(id=number), settled=True)
    got = receiver_at.take(receiver, 100)
    assert sorted(one.message.id for one in got) == [*range(100)]
    assert all(one.delivery.settled for one in got)


@FAR
def test_long_messages_cross(network: Network, net: Net, here: str, there: str) -> None:
    """A megabyte, byte for byte, and meanwhile others."""
    pair(network, here, there)
    address = f"balanced.{here}.{there}.long"
    receiver_at, sender_at = net.peer(network[there].address), net.peer(network[here].address)
    receiver = receiver_at.receiver(address, 10)
    sender = sender_at.ready_sender(address)
    body = bytes(range(256)) * 4096
    sent = net.stream(sender, Message(body=body).encode())
    short = net.send(sender, Message(body=b"short"))
    got = receiver_at.take(receiver, 2)
    assert {one.body for one in got} == {body, b"short"}
    for one in got:
        one.settle()
    assert net.settled(sent, short) == [ACCEPTED, ACCEPTED]


@FAR
def test_a_message_arrives_while_it_is_being_sent(network: Network, net: Net, here: str, there: str) -> None:
    """Its beginning is there before its end has been sent; one that is given up is given up everywhere."""
    pair(network, here, there)
    address = f"closest.{here}.{there}.stream"
    receiver_at, sender_at = net.peer(network[there].address), net.peer(network[here].address)
    receiver = receiver_at.receiver(address, 10)
    sender = sender_at.ready_sender(address)
    data = Message(body=b"x" * 300_000).encode()
    sent = net.begin(sender, data[:250_000])
    net.until(lambda: any(one.data for one in receiver_at.inbox(receiver)), "its beginning")
    sender.stream(data[250_000:])
    sender.advance()
    got = receiver_at.take(receiver)[0]
    assert bytes(got.data)[-1000:] == data[-1000:]
    got.settle()
    assert net.settled(sent) == [ACCEPTED]
    sent = net.begin(sender, data[:250_000])
    net.until(lambda: any(one.data for one in receiver_at.inbox(receiver)), "its beginning")
    sent.abort()
    net.until(lambda: receiver_at.inbox(receiver)[0].aborted, "that it is given up")


@pytest.mark.parametrize("here", LINE)
def test_a_multicast_reaches_everybody_once(network: Network, net: Net, here: str) -> None:
    """Also with routers of another make in between; all have settled before the sender is told."""
    if here not in network.members:
        program(LINE[here])
        pytest.skip(f"{here} has no neighbour of another make: install both")
    address = f"multicast.{here}"
    peers = {name: net.peer(member.address) for name, member in network.members.items()}
    receivers = {name: peer.receiver(address, 10) for name, peer in peers.items()}
    knows_all(network, here, f"M0{address}")
    sender = peers[here].ready_sender(address)
    sent = [net.send(sender, Message(body=i)) for i in range(5)]
    for name, peer in peers.items():
        got = peer.take(receivers[name], 5)
        assert [one.body for one in got] == [*range(5)]
        for one in got:
            one.settle()
    assert net.settled(*sent) == [ACCEPTED] * 5
    assert not any(peer.inbox(receivers[name]) for name, peer in peers.items())


@FAR
def test_requests_are_answered_at_dynamic_addresses(network: Network, net: Net, here: str, there: str) -> None:
    """The address of the reply leads back, whoever made it."""
    pair(network, here, there)
    address = f"balanced.{here}.{there}.service"
    server, client = net.peer(network[there].address), net.peer(network[here].address)
    service = server.receiver(address, 10)
    answers = client.receiver(None, 10)
    sender = client.ready_sender(address)
    sent = net.send(sender, Message(body="?", reply_to=answers.remote_source.address))
    request = server.take(service)[0]
    request.settle()
    reply = net.send(server.ready_sender(None), Message(address=request.message.reply_to, body="!"))
    answer = client.take(answers)[0]
    assert answer.body == "!"
    answer.settle()
    assert net.settled(sent, reply) == [ACCEPTED, ACCEPTED]


@pytest.mark.parametrize(("here", "there"), PAIRS)
def test_each_can_be_managed_through_each(network: Network, here: str, there: str) -> None:
    """What `qdstat -r` does; all of them know the same routers."""
    pair(network, here, there)
    assert {row["id"] for row in nodes(network[here], there)} == set(network.members)
