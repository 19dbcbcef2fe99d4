"""kill -9 of core and workers under the plane of route tables: tables and links are there again."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message, Receiver, Sender

from routerd.cli.client import Client, Place, long_type
from shm.memory.segment import DIRECTORY
from tests.support.peer import ACCEPTED, MODIFIED, RELEASED, Net, Peer
from tests.support.routers.hurt import HurtRouter
from tests.support.running import Configuration, address_of, until

SEED = "newrt|start|seed\nmse|1000|-1|app0:1,app1:1\nnewrt|end|1\n"
PUSHED = SEED.replace("seed", "pushed")
COUNT = 20


@pytest.fixture
def router(tmp_path: Path) -> Iterator[HurtRouter]:
    seed = tmp_path / "seed.rt"
    seed.write_text(SEED)
    table = f"routeTable {{\n name: ric\n seed: {seed}\n connect: no\n}}\n"
    router = HurtRouter(tmp_path, Configuration(router="workers: 2", sections=table))
    try:
        until(lambda: router.core["tables_installed"] == 1, "the seed")
        yield router
    finally:
        router.kill()


def flow(net: Net, sender: Sender, *ends: tuple[Peer, Receiver]) -> None:
    """Messages are routed, in turn."""
    sent = [net.send(sender, message(i)) for i in range(COUNT)]
    for peer, receiver in ends:
        for got in peer.take(receiver, COUNT // len(ends)):
            got.settle()
    assert net.settled(*sent) == [ACCEPTED] * COUNT


def message(number: int) -> Message:
    return Message(number, properties={"rmr.mt": 1000})


def is_kept(router: HurtRouter, table_id: str) -> bool:
    """Whether a core that started now would know of a table."""
    kept = [name for name in router.left_in_shared_memory if re.search(r"-table-\w+$", name)]
    return any(f"start|{table_id}" in (DIRECTORY / name).read_text() for name in kept)


def endpoint(net: Net, name: str) -> tuple[Peer, Receiver]:
    peer = net.peer()
    return peer, peer.receiver(f"ric/{name}", 100)


def busiest(router: HurtRouter, what: str) -> int:
    """The worker that has most of something, once one has any."""
    until(lambda: router.counted(what), what)
    return max(range(2), key=lambda i: router.workers[i][what])


def test_the_core_dies(router: HurtRouter) -> None:
    """Links to a table stay so, what was pushed is in use again, and what was in doubt is told so."""
    with Client(Place(router.url)) as client:
        client.call("PUSH", {"text": PUSHED}, type=long_type("routeTable"), name="ric")
    until(lambda: is_kept(router, "pushed"), "what is kept")
    with Net(address_of(router.url)) as net:
        ends = [endpoint(net, "app0:1"), endpoint(net, "app1:1")]
        sender = net.peer().ready_sender("ric")
        flow(net, sender, *ends)
        doubtful = [net.send(sender, message(i)) for i in range(4)]
        for peer, receiver in ends:
            peer.take(receiver, 2)
        router.hit("core")
        until(lambda: router.log.count("Route table ric: table pushed") == 2, "the table in the next core")
        assert router.log.count("Route table ric: table seed") == 1
        assert net.settled(*doubtful) == [MODIFIED] * 4
        net.round_trips(*(peer for peer, _ in ends))  # now the core knows of both
        net.until(lambda: sender.credit > COUNT, "credit")
        flow(net, sender, *ends)


def test_a_worker_dies(router: HurtRouter) -> None:
    """What its endpoint had is in doubt; the other members have all that follows until it is back."""
    with Net(address_of(router.url)) as net:
        sender = net.peer().ready_sender("ric")
        here = busiest(router, "links")
        first = endpoint(net, "app0:1")
        while (at := next((i for i in range(2) if i != here and router.workers[i]["links"]), -1)) < 0:
            first[0].close_link(first[1])
            first = endpoint(net, "app0:1")
        sent = [net.send(sender, message(i)) for i in range(4)]
        first[0].take(first[1], 4)
        first[0].expect_error = True
        router.hit(f"worker {at}")
        assert net.settled(*sent) == [MODIFIED] * 4
        nobody = net.send(sender, message(5))
        assert net.settled(nobody) == [RELEASED]
        second = endpoint(net, "app1:1")
        flow(net, sender, second)
        flow(net, sender, second, endpoint(net, "app0:1"))
