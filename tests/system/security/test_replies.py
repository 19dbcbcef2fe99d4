"""The management agent answers nobody but its requester, whatever a request names as its reply-to."""

import pytest
from proton import Message

from tests.support.peer import ACCEPTED, Net, Peer
from tests.support.running import Configuration, RunningRouter, address_of, until

POLICY = """
policy {
    enableVhostPolicy: yes
}
vhost {
    hostname: asking
    allowUnknownUser: yes
    groups: {
        $default: {
            remoteHosts: *
            sources: own
            targets: $management, _local/$management
        }
    }
}
vhost {
    hostname: other
    allowUnknownUser: yes
    groups: {
        $default: {
            remoteHosts: *
            sources: *
            targets: *
        }
    }
}
listener {
    host: 127.0.0.1
    port: 0
    multiTenant: yes
}
"""
READ = {"operation": "READ", "type": "org.apache.qpid.dispatch.router", "name": "self"}


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(router="workers: 1", sections=POLICY)


def connect(net: Net, router: RunningRouter, vhost: str, listener: int = 0) -> Peer:
    peer = net.begin_peer(address_of(router.urls[listener]))
    peer.connection.hostname = vhost
    return peer.open()


@pytest.mark.parametrize("tenant", [False, True])
def test_answers_reach_nobody_else(net: Net, router: RunningRouter, tenant: bool) -> None:
    """Neither an address that the requester may not use, nor one of another tenant; its own it gets."""
    asking, other = connect(net, router, "asking", int(tenant)), connect(net, router, "other", 0)
    stolen = other.receiver("orders", 5)
    own = asking.receiver("own", 5)
    sender = asking.ready_sender("_local/$management")
    requests = [Message(reply_to=to, correlation_id=to, properties=READ, body={}) for to in ("orders", "own")]
    for request in requests:
        assert net.settled(net.send(sender, request)) == [ACCEPTED]
    assert [one.message.correlation_id for one in asking.take(own)] == ["own"]
    net.send(other.ready_sender("orders"), Message(body="an order"))
    assert [one.body for one in other.take(stolen)] == ["an order"]
    said = "it may neither send to its reply-to 'orders' nor receive there"
    until(lambda: said in router.log, said)
