"""The logs of two real routers with real clients: what the jobs make of them is what the clients know."""

from collections import Counter
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import pytest
from proton import Message
from pyspark.sql import DataFrame, SparkSession

from pipeline.batch import chosen, recipes_of
from pipeline.flow_log.records import read_log
from pipeline.flow_log.survey import survey
from pipeline.output import days
from pipeline.output.directory import STREAM, claimed
from pipeline.output.generations import current
from pipeline.output.results import Results
from pipeline.stream import Pace, Stream
from pipeline.tables import paths, talkers
from pipeline.tables.capacity import Costs
from pipeline.tables.conversations import conversations
from pipeline.tables.flows import flows, hourly
from pipeline.tables.ranges import ranks
from pipeline.tables.traffic import traffic
from routerd.cli.client import Client, Place
from tests.support.peer import ACCEPTED, REJECTED, RELEASED, Net, Peer
from tests.support.pipeline.logs import dropped, lost
from tests.support.routers.network import NetworkRouter
from tests.support.running import until

NAMES = {ACCEPTED: "accepted", REJECTED: "rejected", RELEASED: "released"}
TOTAL = 60
NEWS, MULTICAST = 7, "multicast/news"


class Told(NamedTuple):
    """What the sender was told, and the containers of it and of the receivers at both routers."""

    outcomes: Counter[str]
    sender: str
    receivers: tuple[str, str]


def counted(router: NetworkRouter) -> Counter[str]:
    """What the metrics of a router say has become of deliveries."""
    return Counter({name: router.core[name] for name in NAMES.values()})


@pytest.fixture
def told(tmp_path: Path) -> Told:
    """Of a sender at R1, whose messages go to a receiver at R2, and multicast ones to one at each; both logs are in
    ``flows``."""
    log = f"flowLog {{\n directory: {tmp_path / 'flows'}\n rollAge: 1\n}}\n"
    first = NetworkRouter(tmp_path / "R1", more=log)
    routers = [first]
    try:
        routers.append(second := NetworkRouter(tmp_path / "R2", first.routers_url, more=log))
        for router in routers:
            until(lambda router=router: "recorder serves" in router.log, "the recorder")
        before = [counted(router) for router in routers]
        with Net(first.address) as net:
            receiver = (at := net.peer(second.address)).receiver("closest/orders", 1000)
            sender = (by := net.peer()).ready_sender("closest/orders")
            sent = []
            for number in range(TOTAL):
                sent.append(net.send(sender, Message(id=f"m{number}", body=b"x" * number)))
                (arrived,) = at.take(receiver)
                arrived.settle((ACCEPTED, ACCEPTED, REJECTED, RELEASED)[number % 4])
            outcomes = Counter(NAMES[state] for state in net.settled(*sent))
            assert [counted(router) - old for router, old in zip(routers, before, strict=True)] == [outcomes] * 2
            assert [router.core["flow_records"] for router in routers] == [TOTAL, TOTAL]
            news(net, first, by, at, near := net.peer(first.address))
            names = [one.connection.container for one in (by, near, at)]
        flows = tmp_path / "flows"
        until(lambda: flows.is_dir() and survey(str(flows)).rows >= 2 * TOTAL + 3 * NEWS, "the rows")
    finally:
        for router in reversed(routers):
            router.end()
    return Told(outcomes, names[0], (names[1], names[2]))


def news(net: Net, router: NetworkRouter, sender: Peer, *receivers: Peer) -> None:
    """Multicast messages, which each of the receivers accepts; one of these is at another router."""
    links = [(one, one.receiver(MULTICAST, 100)) for one in receivers]
    out = sender.ready_sender(MULTICAST)
    until(lambda: remotes(router, MULTICAST) == 1, "the receiver at the other router")
    sent = [net.send(out, Message(id=f"n{number}", body=b"x")) for number in range(NEWS)]
    for one, link in links:
        for arrived in one.take(link, NEWS):
            arrived.settle()
    assert net.settled(*sent) == [ACCEPTED] * NEWS


def remotes(router: NetworkRouter, address: str) -> int:
    """How many other routers have receivers of an address."""
    with Client(Place(router.url)) as client:
        rows = list(client.query("router.address", ["name", "remoteCount"]))
    return sum(row.get("remoteCount", 0) for row in rows if row["name"].endswith(address))


def test_totals_are_the_clients_ledgers(spark: SparkSession, told: Told, tmp_path: Path) -> None:
    """Of the batch job and of the stream, with the counters of the cores; nothing is lost or left out, and
    every message is followed from one router to the other."""
    found = survey(str(tmp_path / "flows"))
    assert (found.skipped, found.tangled, lost(tmp_path / "flows"), dropped(tmp_path / "flows")) == ([], [], 0, 0)
    log = read_log(spark, found).cache()
    rows = log.where("address = 'closest/orders'").collect()
    assert all(None not in (row["latency_ns"], row["settle_ns"], row["msg_id_hash"]) for row in rows)
    with claimed(str(tmp_path / "days"), STREAM, str(tmp_path / "flows")) as output:
        recipes = chosen(recipes_of(Costs()), ("traffic",))
        Stream(spark, str(tmp_path / "flows"), output, recipes, Pace(), print).batch()
        of_days = [Results(spark, current(days.of(output, day))).read("traffic") for day in days.days(output)]
    for matrix in (traffic(log), reduce(DataFrame.unionByName, of_days)):
        left = matrix.where("address = 'closest/orders' and egress_kind = 'normal'").toArrow().to_pylist()
        given = {name: sum(row[name] for row in left) for name in told.outcomes}
        assert given == dict(told.outcomes)
        assert sum(row["messages"] for row in left) == TOTAL
    ours = log.where(f"address in ('closest/orders', '{MULTICAST}')")  # and no requests to management
    all_flows = flows(hourly(ours)).cache()
    times = ranks(paths.transits(paths.passages(ours)), paths.TRANSITS)
    (hop,) = paths.hops(paths.links(all_flows, times)).collect()
    assert (hop["messages"], hop["transit_n"]) == (TOTAL + NEWS, TOTAL + NEWS)
    rows = talkers.talkers(all_flows).toArrow().to_pylist()
    near, far = told.receivers
    assert {(row["role"], row["container"]): row["messages"] for row in rows} == {
        ("sender", told.sender): TOTAL + NEWS,  # not the copies
        ("receiver", far): TOTAL + NEWS,
        ("receiver", near): NEWS,
    }
    assert {(row["user"], row["host"]) for row in rows} == {("anonymous", "127.0.0.1")}
    (sender,) = (row for row in rows if row["role"] == "sender")
    assert {name: sender[name] for name in told.outcomes} == told.outcomes + Counter(accepted=NEWS)
    said = conversations(all_flows, paths.trips(ours)).toArrow().to_pylist()
    assert {(row["sender_container"], row["address"], row["receiver_container"]): row["messages"] for row in said} == {
        (told.sender, "closest/orders", far): TOTAL,
        (told.sender, MULTICAST, far): NEWS,
        (told.sender, MULTICAST, near): NEWS,
    }
    log.unpersist()
