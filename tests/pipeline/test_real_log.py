"""The logs of two real routers with real clients: what the jobs make of them is what the clients know."""

from collections import Counter
from pathlib import Path

import pytest
from proton import Message
from pyspark.sql import SparkSession

from pipeline import stream
from pipeline.flow_log.records import read_log
from pipeline.flow_log.survey import survey
from pipeline.output.directory import STREAM, claimed
from pipeline.output.parts import Parts
from pipeline.stream import Pace
from pipeline.tables import paths, talkers
from pipeline.tables.flows import hourly
from pipeline.tables.traffic import traffic
from tests.support.peer import ACCEPTED, REJECTED, RELEASED, Net
from tests.support.routers.network import NetworkRouter
from tests.support.running import until

NAMES = {ACCEPTED: "accepted", REJECTED: "rejected", RELEASED: "released"}
TOTAL = 60


def counted(router: NetworkRouter) -> Counter[str]:
    """What the metrics of a router say has become of deliveries."""
    return Counter({name: router.core[name] for name in NAMES.values()})


@pytest.fixture
def told(tmp_path: Path) -> Counter[str]:
    """What the sender at R1, of messages to a receiver at R2, was told; both logs are in ``flows``."""
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
            sender = net.peer().ready_sender("closest/orders")
            sent = []
            for number in range(TOTAL):
                sent.append(net.send(sender, Message(id=f"m{number}", body=b"x" * number)))
                (arrived,) = at.take(receiver)
                arrived.settle((ACCEPTED, ACCEPTED, REJECTED, RELEASED)[number % 4])
            outcomes = Counter(NAMES[state] for state in net.settled(*sent))
        flows = tmp_path / "flows"
        until(lambda: flows.is_dir() and survey(str(flows)).rows >= 2 * TOTAL, "the rows")
        assert [router.core["flow_records"] for router in routers] == [TOTAL, TOTAL]
        assert [counted(router) - old for router, old in zip(routers, before, strict=True)] == [outcomes] * 2
    finally:
        for router in reversed(routers):
            router.end()
    return outcomes


def test_totals_are_the_clients_ledgers(spark: SparkSession, told: Counter[str], tmp_path: Path) -> None:
    """Of the batch job and of the stream, with the counters of the cores; nothing is lost or left out, and
    every message is followed from one router to the other."""
    found = survey(str(tmp_path / "flows"))
    assert (found.skipped, found.tangled, found.lost(), found.dropped()) == ([], [], 0, 0)
    log = read_log(spark, found).cache()
    rows = log.where("address = 'closest/orders'").collect()
    assert all(None not in (row["latency_ns"], row["settle_ns"], row["msg_id_hash"]) for row in rows)
    with claimed(str(tmp_path / "matrix"), STREAM, str(tmp_path / "flows")) as output:
        stream.run(spark, str(tmp_path / "flows"), output, Pace(once=True), print)
    totals = Parts(spark, str(tmp_path / "matrix")).read()
    assert totals is not None
    for matrix in (traffic(log), stream.traffic(totals)):
        left = matrix.where("address = 'closest/orders' and egress_kind = 'normal'").toArrow().to_pylist()
        given = {name: sum(row[name] for row in left) for name in told}
        assert given == dict(told)
        assert sum(row["messages"] for row in left) == TOTAL
    receivers = talkers.talkers(hourly(log)).where("role = 'receiver' and address = 'closest/orders'").collect()
    assert [row["messages"] for row in receivers] == [TOTAL]
    (hop,) = paths.hops(paths.links(hourly(log), paths.passages(log))).collect()
    assert (hop["messages"], hop["transit_n"]) == (TOTAL, TOTAL)
    log.unpersist()
