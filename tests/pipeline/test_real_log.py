"""The log of a real router with real clients: what the jobs make of it is what the clients know."""

from collections import Counter
from pathlib import Path

import pytest
from peer import ACCEPTED, REJECTED, RELEASED, Net
from proton import Message
from pyspark.sql import SparkSession
from running import Configuration, RunningRouter, until

from pipeline import stream, talkers
from pipeline.parts import Parts
from pipeline.storage import read_log
from pipeline.stream import Pace
from pipeline.survey import survey
from pipeline.traffic import traffic

NAMES = {ACCEPTED: "accepted", REJECTED: "rejected", RELEASED: "released"}


@pytest.fixture
def told(tmp_path: Path) -> Counter[str]:
    """What the senders of 90 messages were told; the log is in ``flows``."""
    section = f"flowLog {{\n directory: {tmp_path / 'flows'}\n rollAge: 1\n}}"
    router = RunningRouter(tmp_path, Configuration(sections=section))
    try:
        until(lambda: "recorder serves" in router.log, "the recorder")
        with Net(router.address) as net:
            receiver = (at := net.peer()).receiver("orders", 1000)
            sender = net.peer().ready_sender("orders")
            sent = []
            for number in range(90):
                sent.append(net.send(sender, Message(body=b"x" * number)))
                (arrived,) = at.take(receiver)
                arrived.settle((ACCEPTED, ACCEPTED, REJECTED, RELEASED)[number % 4])
            outcomes = Counter(NAMES[state] for state in net.settled(*sent))
        flows = tmp_path / "flows"
        until(lambda: flows.is_dir() and survey(str(flows)).rows >= 90, "the rows")
        assert router.core["flow_records"] == 90
    finally:
        router.stop()
    return outcomes


def test_totals_are_the_clients_ledgers(spark: SparkSession, told: Counter[str], tmp_path: Path) -> None:
    """Of the batch job and of the stream, with the counter of the core; nothing is lost or left out."""
    found = survey(str(tmp_path / "flows"))
    assert (found.skipped, found.tangled, found.lost(), found.dropped()) == ([], [], 0, 0)
    log = read_log(spark, found)
    stream.run(spark, str(tmp_path / "flows"), str(tmp_path / "matrix"), Pace(once=True), print)
    sums = Parts(spark, str(tmp_path / "matrix")).read()
    assert sums is not None
    for matrix in (traffic(log), stream.traffic(sums)):
        rows = matrix.where("address = 'orders'").toArrow().to_pylist()
        given = {name: sum(row[name] for row in rows) for name in told}
        assert given == dict(told)
        assert sum(row["messages"] for row in rows) == 90
    receivers = talkers.talkers(log).where("role = 'receiver' and address = 'orders'").collect()
    assert [row["messages"] for row in receivers] == [90]
