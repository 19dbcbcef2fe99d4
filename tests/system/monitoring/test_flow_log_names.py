"""Who sent and who received is in the flow log's rows: containers, users and hosts of real clients."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from proton import Message, Transport

from shm.memory.segment import attach, segment_prefix
from tests.support.peer import ACCEPTED, Net, Peer
from tests.support.programs import sasl_users
from tests.support.running import Configuration, RunningRouter, address_of, needs_users, until
from tests.support.servers.broker import Broker

pytestmark = needs_users

PASSWORDS = {"alice": "secret", "bob": "hidden"}
LISTENER = "host: 127.0.0.1\n port: 0\n authenticatePeer: no\n saslMechanisms: ANONYMOUS PLAIN"
SECTIONS = (
    "listener {\n host: ::1\n port: 0\n role: route-container\n}\n"
    "linkRoute {\n prefix: queue\n direction: in\n containerId: broker\n}\n"
    "linkRoute {\n prefix: queue\n direction: out\n containerId: broker\n}\n"
    "address {\n prefix: many\n distribution: multicast\n}\n"
)
Who = tuple[str, str | None, str | None]
LOCAL = "127.0.0.1"


class User(Peer):
    """A client that logs in by PLAIN."""

    name_of_user = "alice"

    def begin_transport(self, sasl: bool) -> Transport:
        transport = Transport()
        mechanism = transport.sasl()
        mechanism.allow_insecure_mechs = True
        mechanism.allowed_mechs("PLAIN")
        self.connection.user, self.connection.password = self.name_of_user, PASSWORDS[self.name_of_user]
        return transport

    @property
    def who(self) -> Who:
        return self.connection.container, self.name_of_user, LOCAL


class Bob(User):
    """Another one."""

    name_of_user = "bob"


class Logged:
    """A router with users and a flow log."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.directory = folder, folder / "flows"
        sasl_users.make(folder, **PASSWORDS)
        self.settings = f"workers: 2\n saslConfigDir: {folder}\n saslConfigName: routerd"
        log = self.log()
        self.router = RunningRouter(
            folder, Configuration(self.settings, LISTENER, SECTIONS + log, expected=r"core died")
        )
        until(lambda: "recorder serves" in self.router.log, "the recorder")

    def log(self, *more: str) -> str:
        lines = "\n ".join((f"directory: {self.directory}", "rollAge: 1", *more))
        return f"flowLog {{\n {lines}\n}}\n"

    def reload(self, *more: str) -> None:
        text = Configuration(self.settings, LISTENER, SECTIONS + self.log(*more)).text(self.router.id)
        (self.folder / "router.conf").write_text(text)
        before = len(self.router.log)
        os.kill(self.router.process.pid, signal.SIGHUP)
        until(lambda: "flowLog changed" in self.router.log[before:], "the change")

    def has(self, address: str, number: int) -> list[dict[str, Any]]:
        def rows() -> list[dict[str, Any]]:
            files = sorted((self.directory / "raw").rglob("*.parquet"))
            found = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
            return [row for row in found if row["address"] == address]

        until(lambda: len(rows()) >= number, f"{number} rows of {address}")
        return rows()

    def kill_core(self) -> None:
        before = self.router.log.count("core serves")
        with attach(segment_prefix(self.router.id, self.router.process.pid)) as segments:
            page = segments.core_stats()
            pid = page.pid
            del page
        os.kill(pid, signal.SIGKILL)
        until(lambda: self.router.log.count("core serves") > before, "the next core")


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    logged = Logged(tmp_path_factory.mktemp("named"))
    yield logged
    logged.router.stop()


@pytest.fixture
def net(logged: Logged) -> Iterator[Net]:
    with Net(logged.router.address) as net:
        yield net


def opened(net: Net, kind: type[User]) -> User:
    net.peers.append(peer := kind(net, net.address))
    return peer.open()


def sender_of(row: dict[str, Any]) -> Who:
    return row["ingress_container"], row["ingress_user"], row["ingress_host"]


def receiver_of(row: dict[str, Any]) -> Who:
    return row["peer_container"], row["egress_user"], row["egress_host"]


def exchange(net: Net, number: int, address: str, sender: Peer, *receivers: Peer) -> None:
    """So many messages, accepted by each of the receivers."""
    links = [(one, one.receiver(address, number)) for one in receivers]
    sent = [net.send(to, Message(body=b"x")) for to in [sender.ready_sender(address)] for _ in range(number)]
    for one, link in links:
        for arrived in one.take(link, number):
            arrived.settle()
    assert net.settled(*sent) == [ACCEPTED] * number
    for one, link in links:
        one.close_link(link)


def test_both_ends_are_named(logged: Logged, net: Net) -> None:
    """Of several clients at one address: users, one that nobody is, and the same user in two containers."""
    alice, other, bob, nobody = opened(net, User), opened(net, User), opened(net, Bob), net.peer()
    exchange(net, 3, "names.a", alice, bob)
    exchange(net, 4, "names.a", other, nobody)
    exchange(net, 5, "names.a", nobody, alice)
    anonymous = nobody.connection.container, "anonymous", LOCAL
    told = Counter((sender_of(row), receiver_of(row)) for row in logged.has("names.a", 12))
    assert told == {(alice.who, bob.who): 3, (other.who, anonymous): 4, (anonymous, alice.who): 5}


def test_one_of_the_copies_counts(logged: Logged, net: Net) -> None:
    """Each copy has its receiver, and one of each message's is not a further one."""
    alice, bob, other = opened(net, User), opened(net, Bob), opened(net, Bob)
    exchange(net, 6, "many.a", alice, bob, other)
    rows = logged.has("many.a", 12)
    assert {sender_of(row) for row in rows} == {alice.who}
    assert Counter(map(receiver_of, rows)) == {bob.who: 6, other.who: 6}
    once = [row["message_number"] for row in rows if row["further_copy"] is False]
    assert len(once) == len(set(once)) == 6 == len({row["message_number"] for row in rows})


def test_a_broker_is_named_at_the_end_of_a_link_route(logged: Logged, net: Net) -> None:
    """It speaks of itself; its host is an IPv6 address without brackets."""
    alice = opened(net, User)
    broker = Broker(net, address_of(logged.router.urls[1])).open()
    broker.round_trip()
    sent = net.send(alice.ready_sender("queue.a"), Message(body=b"x"))
    (arrived,) = broker.take(broker.taken())
    arrived.settle()
    assert net.settled(sent) == [ACCEPTED]
    (row,) = logged.has("queue.a", 1)
    assert sender_of(row) == alice.who
    assert receiver_of(row) == ("broker", "anonymous", "::1")
    assert row["address_class"] == "link"


def test_names_are_told_again_after_the_core_s_death(logged: Logged, net: Net) -> None:
    """Connections stay open over it; rows of both lives have the names, and a connection that is gone had them."""
    alice, bob = opened(net, User), opened(net, Bob)
    receiver, sender = bob.receiver("names.b", 100), alice.ready_sender("names.b")

    def pass_on(number: int) -> None:
        sent = [net.send(sender, Message(body=b"x")) for _ in range(number)]
        for arrived in bob.take(receiver, number):
            arrived.settle()
        assert net.settled(*sent) == [ACCEPTED] * number

    pass_on(5)
    logged.kill_core()
    net.until(lambda: sender.credit, "credit")
    pass_on(5)
    for peer in (alice, bob):
        peer.connection.close()
        net.until(lambda peer=peer: peer.closed, "the end")
    rows = logged.has("names.b", 10)
    assert {(sender_of(row), receiver_of(row)) for row in rows} == {(alice.who, bob.who)}
    assert sorted(Counter(row["boot_id"] for row in rows).values()) == [5, 5]


def test_users_and_hosts_may_be_left_out(logged: Logged, net: Net) -> None:
    """Soon after a reload, also for links that are open; and they come back."""
    alice, bob = opened(net, User), opened(net, Bob)
    receiver, sender = bob.receiver("names.c", 100), alice.ready_sender("names.c")
    sent = []

    def named() -> tuple[Who, Who]:
        """Who sent and received one message more."""
        sent.append(net.send(sender, Message(body=b"x")))
        (arrived,) = bob.take(receiver)
        arrived.settle()
        assert net.settled(sent[-1]) == [ACCEPTED]
        row = logged.has("names.c", len(sent))[-1]
        return sender_of(row), receiver_of(row)

    assert named() == (alice.who, bob.who)
    logged.reload("clients: no")  # says so before it asks the core, which then goes in portions
    until(lambda: named() == ((alice.who[0], None, None), (bob.who[0], None, None)), "rows without users")
    logged.reload()
    until(lambda: named() == (alice.who, bob.who), "rows with users")
