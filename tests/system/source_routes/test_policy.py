"""Who may send where, live: by what the router saw of a client, its user and its vhost's policy."""

import pytest
from proton import Message, symbol

from tests.support.peer import ACCEPTED, REJECTED, Net, error_of
from tests.support.running import Configuration

POLICY = """
policy {
    enableVhostPolicy: yes
    defaultVhost: all
}
vhost {
    hostname: all
    allowUnknownUser: yes
    groups: {
        $default: {
            remoteHosts: *
            sources: *
            targets: open, through
            allowAnonymousSender: yes
        }
    }
}
"""


def worker(address: str, allow: str = "", more: str = "") -> str:
    listed = f"allow: {allow}\n" if allow else ""
    return f"routeWorker {{\nkind: forward\naddress: {address}\n{listed}{more}\n}}\n"


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(
        listener="name: door\n host: 127.0.0.1\n port: 0\n saslMechanisms: ANONYMOUS",
        sections=POLICY
        + worker("open")
        + worker("through", more="sendTo: behind, bounded")
        + worker("behind", "worker:through")
        + worker("bounded", "user:somebody, link:bounded")
        + worker("shut"),
    )


def sent(net: Net, onward: list[str], target: str | None, at: str = "") -> tuple[str, str | None] | None:
    """Why a message is refused; None: it comes to an address, and is accepted there."""
    peer = net.peer()
    receiver = peer.receiver(at, credit=1) if at else None
    made = Message(body=b"x", inferred=True)
    made.annotations = {symbol("x-opt-route.onward"): onward, symbol("x-opt-route.return"): ["through"]}
    delivery = net.send(peer.ready_sender(target), made)
    if receiver is not None:
        (arrived,) = peer.take(receiver)
        arrived.settle()
        assert net.settled(delivery) == [ACCEPTED]
        return None
    assert net.settled(delivery) == [REJECTED]
    return error_of(delivery)


@pytest.mark.parametrize("target", [None, "open"])
def test_a_worker_that_policy_lists(net: Net, target: str | None) -> None:
    """Behind it the client's policy does not count."""
    assert sent(net, ["open", "anywhere"], target, "anywhere") is None


def test_a_worker_that_policy_does_not_list(net: Net) -> None:
    condition, text = sent(net, ["shut", "anywhere"], None) or ("", "")
    assert (condition, text) == (
        "amqp:unauthorized-access", "shut: the policy does not let its sender send here"
    )  # fmt: skip


def test_by_way_of_the_worker_that_may(net: Net) -> None:
    """Its own list says where it may send; one behind it asks who sends now, and not who sent first."""
    assert sent(net, ["through", "behind", "there"], None, "there") is None
    assert (sent(net, ["through", "open", "there"], None) or ("",))[0] == "amqp:unauthorized-access"
    condition, text = sent(net, ["through", "bounded", "there"], None) or ("", "")
    assert (condition, text) == ("amqp:unauthorized-access", "bounded: its sender may not send here")
