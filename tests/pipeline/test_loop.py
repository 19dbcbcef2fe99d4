"""From traffic to a log, to a plan, to a table in the router, to other traffic: the next log shows it."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message
from pyspark.sql import SparkSession

from pipeline.flow_log.records import read_log
from pipeline.flow_log.survey import survey
from pipeline.plan import Wishes, make_plan, table_text
from pipeline.tables.endpoints import endpoint_sets, entity_loads
from pipeline.tables.flows import hourly
from tests.support.clients.rmr import Application
from tests.support.peer import ACCEPTED, Net
from tests.support.running import Configuration, RunningRouter, until

LOADS = {"ran-1": 20, "ran-2": 20, "ran-3": 20, "ran-4": 5}
TOTAL = sum(LOADS.values())


@pytest.fixture
def owners() -> Iterator[tuple[Application, Application]]:
    with Application() as a, Application() as b:
        yield a, b


@pytest.fixture
def router(owners: tuple[Application, Application], tmp_path: Path) -> Iterator[RunningRouter]:
    """With a table that gives almost everything to the first application."""
    a, b = owners
    seed = tmp_path / "seed.rt"
    seed.write_text(
        "newrt|start|t1\nmse|3000|-1|%meid\nnewrt|end|1\n"
        f"meid_map|start|m1\nmme_ar|{a.name}|ran-1 ran-2 ran-3\nmme_ar|{b.name}|ran-4\nmeid_map|end|2\n"
    )
    table = f"routeTable {{\n name: ric\n seed: {seed}\n}}\n"
    log = f"flowLog {{\n directory: {tmp_path / 'flows'}\n rollAge: 1\n}}\n"
    router = RunningRouter(tmp_path, Configuration(sections=table + log, expected="endpoint .*"))
    yield router
    for one in owners:
        one.close()
    router.stop()


def exchange(router: RunningRouter, owners: tuple[Application, Application]) -> list[Counter[str]]:
    """One message after the other: which managed entities each application has heard of."""
    with Net(router.address) as net:
        sender = net.peer().ready_sender("ric")
        sent = [
            net.send(sender, Message(body=b"x", properties={"rmr.mt": 3000, "rmr.meid": name}))
            for name, count in LOADS.items()
            for _ in range(count)
        ]
        assert set(net.settled(*sent)) == {ACCEPTED}
    heard: list[Counter[str]] = [Counter(), Counter()]

    def listen() -> bool:
        for application, names in zip(owners, heard, strict=True):
            application.look()
            for link in application.links:
                names.update(frame.meid for frame in link.inbox)
                link.inbox.clear()
        return sum(one.total() for one in heard) == TOTAL

    until(listen, "all frames")
    return heard


def connected(application: Application) -> bool:
    application.accept()
    return bool(application.links)


def logged(spark: SparkSession, flows: Path, rows: int) -> Counter[str]:
    """Messages for each endpoint that the log tells of, once it has so many rows."""
    until(lambda: flows.is_dir() and survey(str(flows)).rows >= rows, "the rows")
    found = read_log(spark, survey(str(flows))).where("mtype = 3000").groupBy("peer_container").count()
    return Counter({row["peer_container"]: row["count"] for row in found.collect()})


def test_a_plan_moves_traffic(
    spark: SparkSession, router: RunningRouter, owners: tuple[Application, Application], tmp_path: Path
) -> None:
    """As few entities as possible go to the other owner, with their messages."""
    a, b = (one.name for one in owners)
    flows = tmp_path / "flows"
    until(lambda: "recorder serves" in router.log, "the recorder")
    until(lambda: all(connected(one) for one in owners), "the endpoints' connections")
    assert exchange(router, owners) == [{"ran-1": 20, "ran-2": 20, "ran-3": 20}, {"ran-4": 5}]
    assert logged(spark, flows, TOTAL) == {a: 60, b: 5}

    log = read_log(spark, survey(str(flows)))
    loads, sets = (
        [row.asDict() for row in found.collect()] for found in (entity_loads(hourly(log)), endpoint_sets(log))
    )
    plan = make_plan(lambda: iter(loads), sets, Wishes())
    where = tmp_path / "plan.rt"
    where.write_text(table_text(plan))
    (record,) = (one for one in plan.owners if one.startswith(f"mme_ar|{b}|"))
    (moved,) = {*record.rpartition("|")[2].split(" ")} - {"ran-4"}
    tool = Path(sys.executable).with_name("routerd")
    push = subprocess.run(
        [tool, "table", "push", where, "--bus", router.url], capture_output=True, text=True, check=False
    )
    assert push.returncode == 0, push.stderr

    stay = {name: count for name, count in LOADS.items() if name not in (moved, "ran-4")}
    assert exchange(router, owners) == [stay, {moved: 20, "ran-4": 5}]
    assert logged(spark, flows, 2 * TOTAL) == {a: 60 + 40, b: 5 + 25}
