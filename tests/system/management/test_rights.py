"""What the vhost policy lets a client do at the management address."""

from collections.abc import Iterator

import pytest
from proton import Message
from proton.reactor import AtMostOnce
from proton.utils import BlockingConnection, LinkDetached

from routerd.cli.client import Client, Place, RefusedError
from tests.support.running import LONG, Configuration, RunningRouter

# Clients say in OPEN whom they connect to: by that name the policy tells them apart.
POLICY = """
policy {
    enableVhostPolicy: yes
    defaultVhost: $none
}
vhost {
    hostname: 127.0.0.1
    allowUnknownUser: yes
    groups: {
        $default: {
            remoteHosts: *
            targets: $management
            allowDynamicSource: yes
            allowAnonymousSender: yes
            allowAdminStatusUpdate: no
            allowDynamicLinkRoutes: no
        }
    }
}
vhost {
    hostname: localhost
    allowUnknownUser: yes
    groups: {
        $default: {
            remoteHosts: *
            sources: *
            targets: *
            allowDynamicSource: yes
        }
    }
}
vhost {
    hostname: kept.out
    allowUnknownUser: yes
    groups: {
        $default: {
            remoteHosts: *
            targets: other
        }
    }
}
"""


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    """Three vhosts."""
    return Configuration(router="workers: 1", sections=POLICY)


@pytest.fixture
def trusted(router: RunningRouter) -> Iterator[Client]:
    """One who may change adminStatus."""
    with Client(Place(router.url.replace("127.0.0.1", "localhost"))) as client:
        yield client


def test_a_connection_is_closed_only_by_who_may(router: RunningRouter, trusted: Client) -> None:
    """The other one is told so, and may ask everything else."""
    close = {"adminStatus": "deleted"}
    with Client(Place(router.url)) as client:
        names = [row["identity"] for row in client.query("connection")]
        assert len(names) == 2
        for identity in names:
            with pytest.raises(RefusedError, match="not allowed") as refused:
                client.call("UPDATE", close, type="org.apache.qpid.dispatch.connection", identity=identity)
            assert refused.value.status == 403
        link = next(iter(client.query("link")))["identity"]
        with pytest.raises(RefusedError, match="allowAdminStatusUpdate") as refused:
            client.call(
                "UPDATE", {"adminStatus": "disabled"}, type="org.apache.qpid.dispatch.router.link", identity=link
            )
        assert refused.value.status == 403
    victim = BlockingConnection(router.url, timeout=LONG)
    mine = victim.container.container_id
    (row,) = [row for row in trusted.query("connection") if row["container"] == mine]
    kind = "org.apache.qpid.dispatch.connection"
    assert trusted.call("UPDATE", close, type=kind, identity=row["identity"])["operStatus"] == "closing"


def test_a_link_route_to_oneself_is_made_only_by_who_may(router: RunningRouter, trusted: Client) -> None:
    """For the connection that asks."""
    route, kind = ({"pattern": "mine.#", "direction": "in"}, "org.apache.qpid.dispatch.router.connection.linkRoute")
    with Client(Place(router.url)) as client:
        with pytest.raises(RefusedError, match="allowDynamicLinkRoutes of the policy is no") as refused:
            client.call("CREATE", route, type=kind)
        assert refused.value.status == 403
    made = trusted.call("CREATE", route, type=kind)
    assert made["pattern"] == "mine.#"
    trusted.call("DELETE", type=kind, identity=made["identity"])


def test_who_asks_without_a_trace_has_no_right(router: RunningRouter) -> None:
    """A settled request of an anonymous sender cannot be traced back to its connection."""
    connection = BlockingConnection(router.url, timeout=LONG)
    receiver = connection.create_receiver(None, dynamic=True)
    request = Message(
        address="$management",
        reply_to=receiver.remote_source.address,
        properties={"operation": "UPDATE", "type": "org.apache.qpid.dispatch.connection", "identity": "1"},
        body={"adminStatus": "deleted"},
    )
    connection.create_sender(None, options=AtMostOnce()).send(request)
    assert receiver.receive(timeout=LONG).properties["statusCode"] in (403, 404)
    connection.close()


def test_who_may_not_send_there_asks_nothing(router: RunningRouter) -> None:
    """The address is one like any other for the policy."""
    connection = BlockingConnection(router.url, timeout=LONG, virtual_host="kept.out")
    with pytest.raises(LinkDetached):
        connection.create_sender("$management")
    connection.close()


def test_denials_are_told(trusted: Client) -> None:
    """By vhost, and of the router."""
    rows = {row["hostname"]: row for row in trusted.query("vhostStats")}
    assert rows["kept.out"]["senderDenied"] == 1
    assert rows["localhost"]["connectionsCurrent"] == 1
    assert list(rows["localhost"]["perHostState"]) == ["127.0.0.1"]
    (policy,) = trusted.query("policy")
    assert (policy["linksDenied"], policy["totalDenials"]) == (1, 1)
