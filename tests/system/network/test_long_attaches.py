"""A client's ATTACH as long as a frame may be: the router's own one for it would be longer, and routers share that
connection."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clients.frame_broker import FrameBroker
from tests.support.clients.frame_client import MESSAGE, FrameClient, flow, transfer
from tests.support.clients.octets import ATTACH, DETACH, FLOW, SOURCE, TARGET, Described, Ulong, said
from tests.support.routers.members import OURS, Network, query, section
from tests.support.running import free_port, until

LARGEST = 16_384  # octets of a frame
TOO_SMALL = "amqp:frame-size-too-small"
DOOR = free_port()  # where the broker connects


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """An interior router with an edge router, and another one with a broker."""
    network = Network(Path(tmp_path_factory.mktemp("long")))
    door = section("listener", "host: 127.0.0.1", f"port: {DOOR}", "role: route-container")
    routes = "".join(
        section("linkRoute", "prefix: queue", f"direction: {way}", "containerId: broker") for way in ("in", "out")
    )
    network.add("hub")
    network.add("far", OURS, {"hub": 1}, more=door + routes)
    network.add("edge", OURS, {"hub": 1}, mode="edge")
    try:
        network.start()
        until(lambda: routers_connections(network, "edge"), "the uplink")
        yield network
    finally:
        network.end()


@pytest.fixture
def client(network: Network) -> Iterator[FrameClient]:
    """Of the edge router."""
    with FrameClient(network["edge"].address) as client:
        client.begin()
        yield client


def routers_connections(network: Network, name: str) -> list[object]:
    """Those of a router with others, by their identities: another one has come instead of one that was lost."""
    rows = query(network[name], "connection", ["identity", "role"])
    return sorted(str(row["identity"]) for row in rows if row["role"] in ("edge", "inter-router"))


def attaching(client: FrameClient, receiver: bool, address: str) -> bytes:
    """The shortest ATTACH: its other terminus is null."""
    end = Described(Ulong(SOURCE if receiver else TARGET), [address])
    ends = {"source": end if receiver else None, "target": None if receiver else end}
    return client.attaching(None, 0, receiver, name="l", **ends)


def longest(client: FrameClient, prefix: str) -> str:
    """An address with which a sender's ATTACH has just LARGEST octets."""
    address = prefix.ljust(LARGEST, "a")
    address = address[: 2 * LARGEST - len(attaching(client, False, address))]
    assert len(attaching(client, False, address)) == LARGEST
    return address


@pytest.mark.parametrize("receiver", [True, False], ids=["receiver", "sender"])
def test_a_long_address_at_an_edge_router_costs_no_uplink(
    network: Network, client: FrameClient, receiver: bool
) -> None:
    """It serves the clients of that router, whose log says that the interior router does not know of it."""
    before, edge = routers_connections(network, "edge"), network["edge"]
    address = longest(client, f"long.{receiver}.")
    attached(client, receiver, address)
    line = f"refused a link {'from' if receiver else 'to'} 'long.{receiver}.a"
    until(lambda: line in edge.log, "its line")
    (found,) = (one for one in edge.log.splitlines() if line in one)
    assert TOO_SMALL in found
    assert len(found) < 1000
    with FrameClient(edge.address) as other, FrameClient(network["hub"].address) as far:
        for one in (other, far):
            one.begin()
        sends, takes = (other, client) if receiver else (client, other)
        attached(other, not receiver, address)
        takes.write(flow(handle=0, count=0, credit=9))
        while not sends.expect(FLOW, 0, handle=sends.handles[0, 0])["credit"]:
            pass
        sends.write(transfer(0))
        assert takes.take(1)[0].payload == MESSAGE
        far.receiver("crossing", credit=9)
        client.sender("crossing", 1)
        client.write(transfer(1, handle=1))
        assert far.take(1)[0].payload == MESSAGE
    assert routers_connections(network, "edge") == before


def test_a_long_attach_beyond_another_router_is_refused(network: Network) -> None:
    """Its client learns why; the routers keep their connection, by which a shorter one reaches the broker."""
    before = routers_connections(network, "hub")
    with FrameBroker(("127.0.0.1", DOOR), "broker") as broker, FrameClient(network["hub"].address) as client:
        client.begin()
        broker.round_trip(channel=100)
        until(lambda: "broker" in str(query(network["far"], "connection", ["container"])), "the broker")
        octets = attaching(client, True, longest(client, "queue."))
        error = unreached(client, octets)
        while error[0] == "qd:no-route-to-dest":  # the hub does not know of the broker yet
            error = unreached(client, octets)
        assert error[0] == TOO_SMALL
        assert f"have {LARGEST} at most" in error[1]
        client.write(client.attaching("queue.a", 1, True))
        assert broker.answer(5, count=0)["source"].value[0] == "queue.a"
        client.attached(1)
        assert not [got for got in broker.passed if got.code == ATTACH]
    assert routers_connections(network, "hub") == before


def attached(client: FrameClient, receiver: bool, address: str) -> None:
    """A link of that address, which the router accepts."""
    client.write(attaching(client, receiver, address))
    got = client.expect(ATTACH, 0, name="l")
    assert got["source" if receiver else "target"].value[0] == address
    client.handles[0, 0] = got["handle"]


def unreached(client: FrameClient, octets: bytes) -> list[str]:
    """The error of a link with that ATTACH, which the router refuses."""
    client.write(octets)
    client.expect(ATTACH, 0, name="l")
    got = client.expect(DETACH, 0)
    client.write(said(DETACH, 0, handle=0, closed=True))
    return list(got["error"].value)
