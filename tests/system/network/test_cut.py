"""Routers in network namespaces: a cable is pulled out and put back, and no socket is closed."""

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from proton import Message

from tests.support.peer import ACCEPTED, MODIFIED, RELEASED, Net
from tests.support.routers.members import Member, Network, nodes, query
from tests.support.running import until

IP = shutil.which("ip", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
IDLE = 2  # seconds until a silent connection is given up: as long as the protocol waits for a greeting
SPACE = f"routerd-{os.getpid()}"
NUMBER, PART = os.getpid() % 250, 4 * (os.getpid() // 250 % 62)  # a network of four addresses in each
CABLE, CLIENTS = f"198.18.{NUMBER}", f"198.19.{NUMBER}"

pytestmark = [
    pytest.mark.skipif(IP is None, reason="network namespaces are made with the command ip: install iproute2"),
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root: run the tests as root"),
]


def ip(*words: str) -> bool:
    return subprocess.run([str(IP), *words], capture_output=True, check=False).returncode == 0


def lay(name: str, net: str) -> None:
    """A cable from here into the namespace."""
    here, there = f"{name}{os.getpid()}", f"{name}x{os.getpid()}"
    assert ip("link", "add", here, "type", "veth", "peer", "name", there)
    assert ip("link", "set", there, "netns", SPACE)
    assert ip("addr", "add", f"{net}.{PART + 1}/30", "dev", here)
    assert ip("-n", SPACE, "addr", "add", f"{net}.{PART + 2}/30", "dev", there)
    assert ip("link", "set", here, "up")
    assert ip("-n", SPACE, "link", "set", there, "up")


@pytest.fixture
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """``near`` is here, ``far`` in the namespace; one cable between the routers, one for far's clients."""
    if not ip("netns", "add", SPACE):
        pytest.skip("this machine makes no network namespaces: run the tests with CAP_SYS_ADMIN")
    network = Network(tmp_path_factory.mktemp("network"))
    try:
        lay("rt", CABLE)
        lay("rc", CLIENTS)
        assert ip("-n", SPACE, "link", "set", "lo", "up")
        far = network.add("far")
        far.host, far.inter_router_host = f"{CLIENTS}.{PART + 2}", f"{CABLE}.{PART + 2}"
        far.command[:0] = [str(IP), "netns", "exec", SPACE]
        far.inter_router = network.add("near", costs={"far": 1}).inter_router = f"idleTimeoutSeconds: {IDLE}"
        network.start()
        yield network
    finally:
        network.end()
        ip("link", "del", f"rt{os.getpid()}")
        ip("link", "del", f"rc{os.getpid()}")
        ip("netns", "del", SPACE)


def test_a_cable_is_pulled_out_and_put_back(network: Network) -> None:
    """Both ends notice, what was on its way is in doubt or came back, and messages flow again after."""
    near, far = network["near"], network["far"]
    with Net(near.address) as net:
        sender_at, receiver_at = net.peer(), net.peer(far.address)
        receiver = receiver_at.receiver("closest.cut", 100)
        sender = sender_at.ready_sender("closest.cut")
        first = net.send(sender, Message(body="before"))
        receiver_at.take(receiver)[0].settle()
        assert net.settled(first) == [ACCEPTED]

        sent = [net.send(sender, Message(body=i)) for i in range(5)]
        got = receiver_at.take(receiver, 5)
        assert ip("-n", SPACE, "link", "set", f"rtx{os.getpid()}", "down")
        for one in got:
            one.settle()  # of which nothing is heard
        sent += [net.send(sender, Message(body=i)) for i in range(5)]
        states = net.settled(*sent)
        assert set(states[:5]) == {MODIFIED}
        assert set(states[5:]) <= {MODIFIED, RELEASED}
        until(lambda: not reaches(near, "far"), "near notices")
        until(lambda: not reaches(far, "near"), "far notices")
        until(lambda: "inter-router" not in roles(far), "the end of a silent connection")

        assert ip("-n", SPACE, "link", "set", f"rtx{os.getpid()}", "up")
        network.converge()
        net.until(lambda: sender.credit > 0, "credit for a way that is there again")
        after = net.send(sender, Message(body="after"))
        net.until(lambda: receiver_at.inbox(receiver), "the message")
        receiver_at.take(receiver)[-1].settle()
        assert net.settled(after) == [ACCEPTED]


def roles(member: Member) -> list[str]:
    return [row["role"] for row in query(member, "connection", ["role"])]


def reaches(here: Member, there: str) -> bool:
    return any(row["id"] == there and row["cost"] for row in nodes(here))
