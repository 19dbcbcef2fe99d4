"""kill -9 of the core: connections and links stay, what was in doubt is told so, messages flow again."""

import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from proton import Delivery, Message, Receiver, Sender

from tests.support.clients.ledger import Clients, check
from tests.support.peer import ACCEPTED, MODIFIED, Net, Peer
from tests.support.routers.hurt import HurtRouter
from tests.support.running import Configuration, address_of, until

SECONDS = float(os.environ.get("CRASH_SECONDS", "8")) / 2
ENOUGH = 100  # messages of each sender
WORKERS = 2
CREDIT = 7  # so little that none of it is held back to be given in one go
CONFIGURATION = Configuration(
    router=f"workers: {WORKERS}",
    sections=f"listener {{\n host: 127.0.0.1\n port: 0\n linkCapacity: {CREDIT}\n}}\n"
    "address {\n prefix: closest\n distribution: closest\n}\n"
    "address {\n prefix: multicast\n distribution: multicast\n}",
)
ROLES = [
    ["send=balanced", "send=closest", "receive=balanced", "receive=multicast"],
    ["send=multicast", "receive=closest", "receive=multicast", "receive=balanced"],
]


class Orphaned(HurtRouter):
    """A router whose core dies."""

    def freeze(self) -> None:
        """The core hears nothing more; what is said to it is lost."""
        os.kill(self.children["core"], signal.SIGSTOP)


@pytest.fixture
def router(tmp_path: Path) -> Iterator[Orphaned]:
    router = Orphaned(tmp_path, CONFIGURATION)
    try:
        yield router
    finally:
        router.kill()


@pytest.fixture
def net(router: Orphaned) -> Iterator[Net]:
    """Clients that lose no connection; behind them the router is as it was in the beginning."""
    memory = router.segments
    workers = [router.children[f"worker {i}"] for i in range(WORKERS)]
    with Net(address_of(router.urls[1])) as net:
        yield net
    router.come_to_rest()
    assert [router.children[f"worker {i}"] for i in range(WORKERS)] == workers
    assert router.segments == memory
    router.stop()


@dataclass
class Pair:
    """A sender and a receiver on one address, on connections of different workers."""

    net: Net
    to: Peer
    at: Peer
    sender: Sender
    receiver: Receiver

    def check(self) -> None:
        """All credit is there, and as many messages as that arrive."""
        self.receiver.flow(2 * CREDIT)
        self.net.until(lambda: self.sender.credit == CREDIT, "all credit")
        sent = [self.net.send(self.sender, Message(body=i)) for i in range(CREDIT)]
        for got in self.at.take(self.receiver, CREDIT):
            got.settle()
        assert self.net.settled(*sent) == [ACCEPTED] * CREDIT
        self.net.until(lambda: self.sender.credit == CREDIT, "all credit again")


def pair(net: Net, address: str = "a", credit: int = 0) -> Pair:
    at, to = net.peer(), net.peer()
    receiver = at.receiver(address, credit)
    return Pair(net, to, at, to.ready_sender(address), receiver)


def test_everything_goes_on_under_load(router: Orphaned) -> None:
    """Several deaths, some soon after the other: nobody reconnects, nothing accepted is missing."""
    memory = router.segments
    workers = [router.children[f"worker {i}"] for i in range(WORKERS)]
    with Clients(router.url, ROLES) as clients:
        finish = time.monotonic() + SECONDS
        while time.monotonic() < finish:
            before = router.counted("deliveries_out")
            until(lambda before=before: router.counted("deliveries_out") > before + 100, "deliveries")
            time.sleep(random.random())  # noqa: S311 - no secret
            router.next_core()
        until(lambda: min(clients.accepted().values()) >= ENOUGH, "each sender to get on")
        ledgers = clients.finish()
    check(ledgers, ENOUGH)
    assert [ledger["counts"].get("reconnects", 0) for ledger in ledgers] == [0, 0]
    assert sum(ledger["counts"].get("modified", 0) for ledger in ledgers) > 0
    assert [ledger["counts"].get("released", 0) for ledger in ledgers] == [0, 0]
    router.come_to_rest()
    assert [router.children[f"worker {i}"] for i in range(WORKERS)] == workers
    assert router.segments == memory
    router.stop()


@pytest.mark.parametrize("frozen", [False, True])
def test_what_was_in_doubt_is_modified(net: Net, router: Orphaned, frozen: bool) -> None:
    """At the receiver, waiting for its credit, half sent: delivery-failed; late answers change nothing."""
    one = pair(net, credit=3)
    sent = [net.send(one.sender, Message(body=i)) for i in range(5)]
    half = net.begin(one.sender, Message(body="x" * 100_000).encode()[:50_000])
    seen = one.at.take(one.receiver, 3)
    net.round_trips(one.to, one.at)
    if frozen:
        router.freeze()
        seen[0].settle()
        net.turn(0.1)
    router.next_core()  # until then the receiver's worker may not know, and would go on with its credit
    net.until(lambda: all(d.settled for d in sent), "settlement")
    assert [d.remote_state for d in sent] == [MODIFIED] * 5
    assert all(d.remote.failed for d in sent)
    half.abort()
    for got in seen[frozen:]:
        got.settle()
    one.check()


def test_an_outcome_that_was_told_stands(net: Net, router: Orphaned) -> None:
    """The receiver has accepted and waits for the sender to settle (AMQP 2.6.12): it is not in doubt."""
    at, to = net.peer(), net.peer()
    receiver = at.receiver("a", 1, rcv_settle_mode=1)
    sender = to.ready_sender("a")
    sent = net.send(sender, Message(body="x"))
    (got,) = at.take(receiver)
    got.delivery.update(Delivery.ACCEPTED)
    net.until(lambda: sent.remote_state == ACCEPTED, "outcome")
    router.next_core()
    net.until(lambda: sent.settled, "settlement")
    assert sent.remote_state == ACCEPTED
    net.until(lambda: got.delivery.settled or sent.settled, "settlement")
    Pair(net, to, at, sender, receiver).check()


def test_a_half_sent_message_is_aborted(net: Net, router: Orphaned) -> None:
    """Its receiver has seen the beginning; the sender is told, and goes on with the next one."""
    one = pair(net, credit=2)
    data = Message(body="x" * 200_000).encode()
    half = net.begin(one.sender, data[:100_000])
    net.until(lambda: one.at.inbox(one.receiver) and one.at.inbox(one.receiver)[0].data, "its beginning")
    router.next_core()
    net.until(lambda: one.at.inbox(one.receiver)[0].aborted, "abort")
    one.at.inbox(one.receiver).clear()
    net.until(lambda: half.remote_state == MODIFIED, "outcome")
    one.sender.stream(data[100_000:])
    one.sender.advance()
    assert net.settled(half) == [MODIFIED]
    one.check()


def test_credit_follows_destinations_as_before(net: Net, router: Orphaned) -> None:
    """A sender that waits for a receiver still waits; an anonymous one has all; drains are answered."""
    at, to = net.peer(), net.peer()
    waiting, anonymous = to.sender("later"), to.ready_sender(None)
    receiver = at.receiver("now")
    router.freeze()
    receiver.drain(10)
    net.turn(0.1)
    router.next_core()
    net.until(lambda: receiver.credit == 0, "answer to the drain")
    net.round_trips(at, to)
    assert waiting.credit == 0
    net.until(lambda: anonymous.credit == CREDIT, "all credit")
    later = at.receiver("later", 1)
    net.until(lambda: waiting.credit == CREDIT, "credit")
    for sender, address in ((waiting, None), (anonymous, "later")):
        sent = net.send(sender, Message(address=address))
        later.flow(1)
        at.take(later)[0].settle()
        assert net.settled(sent) == [ACCEPTED]


def test_dynamic_addresses_stay_valid(net: Net, router: Orphaned) -> None:
    """Request and reply go on: the address that the router made leads where it led."""
    at, to = net.peer(), net.peer()
    replies = at.receiver(None, 5)
    sender = to.ready_sender(replies.remote_source.address)
    router.next_core()
    router.next_core()
    anonymous = to.ready_sender(None)
    net.round_trips(at)  # now the core knows of the receiver, too
    sent = [
        net.send(sender, Message(body="known")),
        net.send(anonymous, Message(address=replies.remote_source.address)),
    ]
    for got in at.take(replies, 2):
        got.settle()
    assert net.settled(*sent) == [ACCEPTED] * 2


def test_attaches_and_detaches_meanwhile(net: Net, router: Orphaned) -> None:
    """Who comes while there is no core waits for it; who goes is not missed; who connects is welcome."""
    one = pair(net, credit=5)
    leaving = one.at.receiver("a", 5)
    router.freeze()
    net.turn(0.05)
    newcomer = one.to.begin_sender("a")
    leaving.close()
    stranger = net.begin_peer()
    stranger.open()
    another = stranger.begin_receiver("b")
    net.turn(0.05)
    router.next_core()
    net.until(lambda: newcomer.credit == CREDIT, "credit")
    other = stranger.ready_sender("b")
    net.round_trips(one.at)  # one of its receivers is known, and the other one forgotten
    sent = [net.send(newcomer, Message(body=1)), net.send(other, Message(body=2))]
    another.flow(1)
    one.at.take(one.receiver)[0].settle()
    stranger.take(another)[0].settle()
    assert net.settled(*sent) == [ACCEPTED] * 2
    one.check()


def test_presettled_messages_are_not_answered(net: Net, router: Orphaned) -> None:
    """They may be lost; their credit is not."""
    one = pair(net)
    for i in range(CREDIT):
        net.send(one.sender, Message(body=i), settled=True)
    net.round_trips(one.to, one.at)
    router.next_core()
    one.check()


def test_core_and_worker_die_together(router: Orphaned) -> None:
    """Each order: the clients of the other worker keep their connections, and all is served again."""
    for roles in (("core", "worker 0"), ("worker 1", "core"), ("core", "worker 0", "worker 1", "core")):
        dead = {role: router.children[role] for role in roles}
        for role in dead:
            router.hit(role)
        until(lambda dead=dead: all(router.children.get(role, pid) != pid for role, pid in dead.items()), "replacement")
        until(lambda: router.all_serve, "service")
        with Net(address_of(router.urls[1])) as net:
            pair(net).check()
    router.come_to_rest()
    router.stop()
