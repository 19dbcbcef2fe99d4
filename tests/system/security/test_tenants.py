"""A multi-tenant listener: each vhost has addresses of its own, which have its name in front for others."""

import pytest
from proton import Message

from routerd.cli.client import Client, ClientError, Place
from tests.support.peer import ACCEPTED, Net, Peer
from tests.support.running import Configuration, RunningRouter, address_of


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(sections="listener {\n host: 127.0.0.1\n port: 0\n multiTenant: yes\n}")


def connect(net: Net, router: RunningRouter, tenant: str = "") -> Peer:
    """A client of a tenant; without one, of the listener for everybody."""
    peer = net.begin_peer(address_of(router.urls[1 if tenant else 0]))
    if tenant:
        peer.connection.hostname = tenant
    return peer.open()


@pytest.mark.parametrize("anonymous", [False, True])
def test_tenants_share_no_address(net: Net, router: RunningRouter, anonymous: bool) -> None:
    """The same name for two of them and for somebody without a tenant; each hears its own alone."""
    name = f"orders.{anonymous}"
    peers = {tenant: connect(net, router, tenant) for tenant in ("", "red", "blue")}
    receivers = {tenant: peer.receiver(name, 5) for tenant, peer in peers.items()}
    for tenant, peer in peers.items():
        sender = peer.ready_sender(None if anonymous else name)
        for number in range(2):
            net.send(sender, Message(address=name, body=f"{tenant} {number}"))
    for tenant, peer in peers.items():
        bodies = [arrived.body for arrived in peer.take(receivers[tenant], 2)]
        peer.round_trip()
        assert (bodies, peer.inbox(receivers[tenant])) == ([f"{tenant} 0", f"{tenant} 1"], [])


def test_everybody_else_finds_them_below_the_tenants_name(net: Net, router: RunningRouter) -> None:
    inside, outside = connect(net, router, "red"), connect(net, router)
    receiver = inside.receiver("/letters/", 1)
    sent = net.send(outside.ready_sender("red/letters"), Message(body="x"))
    inside.take(receiver)[0].settle()
    assert net.settled(sent) == [ACCEPTED]
    with Client(Place(router.url)) as client:
        assert "M0red/letters" in [row["key"] for row in client.query("router.address")]
        assert "red" in [row.get("tenant") for row in client.query("connection")]


def test_answers_find_their_way(net: Net, router: RunningRouter) -> None:
    """Dynamic addresses are in nobody's space: they are known only to whom they are told."""
    inside, outside = connect(net, router, "red"), connect(net, router)
    answers = inside.receiver(None, 1)
    net.send(outside.ready_sender(answers.remote_source.address), Message(body="x"))
    assert inside.take(answers)[0].body == "x"


def test_who_asks_a_tenants_listener_for_management_is_told(router: RunningRouter) -> None:
    """However long the command waits, nobody there takes its request."""
    with Client(Place(router.urls[1], timeout=1)) as client, pytest.raises(ClientError) as late:
        client.call("QUERY")
    assert "nobody takes requests there, as at a listener with multiTenant" in late.value.message


def test_tenants_do_not_manage_the_router_by_its_common_name(net: Net, router: RunningRouter) -> None:
    """$management is an address like others there: nobody receives from it."""
    inside = connect(net, router, "red")
    sender = inside.sender("$management")
    inside.round_trip()
    assert sender.credit == 0
