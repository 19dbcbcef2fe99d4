"""Policy over the core's death: who was let in is counted by the next core, and may do what it might."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message

from tests.support.clients.secured import Credentials, attempt
from tests.support.peer import ACCEPTED, Net, errors_of
from tests.support.routers.hurt import HurtRouter
from tests.support.running import Configuration, until

POLICY = """
policy {
    enableVhostPolicy: yes
}
vhost {
    hostname: narrow
    maxConnections: 2
    allowUnknownUser: yes
    groups: {
        $default: {
            remoteHosts: *
            sources: own
            targets: own
            maxSenders: 1
            maxReceivers: 1
        }
    }
}
"""
TOO_MANY = "amqp:resource-limit-exceeded"
NARROW = Credentials(vhost="narrow", mechanisms="ANONYMOUS")


@pytest.fixture
def router(tmp_path: Path) -> Iterator[HurtRouter]:
    router = HurtRouter(tmp_path, Configuration("workers: 2", sections=POLICY))
    try:
        yield router
    finally:
        router.kill()


def test_what_was_let_in_is_counted_on(router: HurtRouter) -> None:
    """Connections and links of before fill the limits of after; one that goes makes room for one."""
    with Net(router.address) as net:
        one, other = net.peer(hostname="narrow"), net.peer(hostname="narrow")
        receiver, sender = one.receiver("own", 5), one.ready_sender("own")
        router.next_core()
        sent = net.send(sender, Message(body="x"))
        one.take(receiver)[0].settle()
        assert net.settled(sent) == [ACCEPTED]
        for link in (one.begin_sender("own"), one.begin_receiver("own")):
            net.until(lambda link=link: link.remote_condition is not None, "refusal")
            assert link.remote_condition.name == TOO_MANY
        for link in (other.begin_sender("foreign"), other.begin_receiver("foreign")):
            net.until(lambda link=link: link.remote_condition is not None, "refusal")
            assert link.remote_condition.name == "amqp:unauthorized-access"
        assert attempt(router.url, NARROW, [("receiver", "own")]).error == TOO_MANY
        assert router.core["refused_connections"] == 1
        other.drop()
        until(lambda: attempt(router.url, NARROW, [("receiver", "own")]).error == "", "room")
        assert not errors_of(one)
    router.stop()


def test_a_connection_that_was_denied_stays_denied(router: HurtRouter) -> None:
    """It is on its way out when the core dies: the next one does not take it in."""
    with Net(router.address) as net:
        net.peer(hostname="narrow")
        net.peer(hostname="narrow")
        for _ in range(3):
            assert attempt(router.url, NARROW, [("receiver", "own")]).error == TOO_MANY
            router.next_core()
    router.stop()
