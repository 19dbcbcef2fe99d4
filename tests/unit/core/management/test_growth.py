"""What a management request costs does not grow with the tables: a READ, and a page of a QUERY."""

import os
from pathlib import Path
from typing import Any

import msgspec

from bench.contract import C_ATTACH, C_CONNECTION_OPENED
from core.link_routes.routes import Routes
from core.management.entities import Entities
from core.management.request import Requester, request_of
from core.rmr.active.route_tables import RouteTables
from shm.contract.management import Delta
from shm.contract.payloads import Attach, ConnectionOpened
from shm.memory import segment
from tests.support.beds.agent import Bed
from tests.support.beds.effort import Effort

FEW, MANY = 60, 240  # connections, each with a link to an address of its own
PAGE = 20
GROWTH = 1.25
OFFERED = "router.connection.linkRoute"
SCANNED = {"connection": 2}  # lines of a QUERY for each entity that is not on the page


def filled(bed: Bed, n: int) -> None:
    for i in range(1, n):
        bed.say(C_CONNECTION_OPENED, ConnectionOpened(i, 1, f"c{i}", f"10.0.0.1:{i}", number=100 + i))
        bed.say(C_ATTACH, Attach(2 + i, 1, i, f"l{i}", True, f"addr.{i}"))
        bed.core.step(i)
        for record in bed.heard():
            bed.arena.free_chain(record["block"])
        bed.work.give_back()
    assert len(bed.core.connections) == n


def costs(bed: Bed, n: int) -> dict[str, float]:
    """The lines of each request."""
    filled(bed, n)
    found: dict[str, float] = {}
    for kind in ("connection", "router.link", "router.address"):
        row = bed.query(kind, "identity", "name", offset=n // 2, count=1)[0]
        for by in ("identity", "name"):
            with Effort() as effort:
                assert bed.crud("READ", type=kind, **{by: row[by]})[1]["identity"] == row["identity"]
            found[f"read {kind} by {by}"] = effort.lines
        for offset in (0, n - PAGE):
            with Effort() as effort:
                assert len(bed.query(kind, offset=offset, count=PAGE)) == PAGE
            found[f"query {kind} from {'the end' if offset else 'the beginning'}"] = (
                effort.lines - SCANNED.get(kind, 0) * n
            )
    return found


def entity(kind: str, **attributes: object) -> str:
    return "\n".join([f"{kind} {{", *(f" {name}: {value}" for name, value in attributes.items()), "}\n"])


def configured(n: int, table: Path) -> str:
    """A configuration with so many entities of some types, and a route table with as many entries and endpoints."""
    entries = (f"mse | {i} | -1 | host{i}:4560" for i in range(n))
    table.write_text("\n".join(["newrt | start | T", *entries, f"newrt | end | {n}\n"]))
    found = [entity("exchange", name="x", address="x"), entity("routeTable", name="t", address="t", seed=table)]
    for i in range(n):
        found += [
            entity("address", prefix=f"a.{i}", name=f"a{i}"),
            entity("linkRoute", prefix=f"l.{i}", name=f"l{i}", containerId="broker", direction="in"),
            entity("autoLink", address=f"q.{i}", name=f"q{i}", containerId="broker", direction="in"),
            entity("binding", name=f"b{i}", exchangeName="x", bindingKey=f"k{i}", nextHopAddress="h"),
            entity("vhost", hostname=f"v{i}", maxConnections=i + 1),
        ]
    return "".join(found)


def entity_costs(bed: Bed, n: int) -> dict[str, float]:
    """The lines of each request for one of many entities, and for one of a connection's many link routes."""
    found: dict[str, float] = {}

    def count(what: str, operation: str, body: dict[str, Any] | None = None, **named: str) -> None:
        with Effort() as effort:
            status, answer = bed.crud(operation, body, **named)
        assert status < 300, answer
        found[what] = effort.lines

    while (active := bed.core.plane(RouteTables).find("t")) is None or active.table is None:
        bed.core.step(1)
    for i in range(n):
        bed.core.plane(Routes).offer((0, 0), f"offer{i}", f"offered.{i}.*", False, "box")
    kinds = ["router.config.address", "router.config.linkRoute", "router.config.autoLink", "router.config.binding"]
    for kind in [*kinds, "vhost", "vhostStats", "routeTable.entry", "routeTable.endpoint"]:
        row = bed.query(kind, "identity", "name", offset=n // 2, count=1)[0]
        for by in ("identity", "name"):
            count(f"read {kind} by {by}", "READ", type=kind, **{by: row[by]})
    count("read the address of a link route", "READ", type="router.address", name=f"Cl.{n // 2}")
    requester = Requester(4, container="box")
    for operation in ("READ", "DELETE"):
        request = request_of({"operation": operation, "type": OFFERED, "name": f"offer{n // 2}"}, None)
        with Effort() as effort:
            answer = bed.agent.handle(msgspec.structs.replace(request, requester=requester))
        assert answer.status < 300, answer
        found[f"{operation} {OFFERED}"] = effort.lines
    return found


def test_a_request_costs_as_much_among_many(tmp_path: Path) -> None:
    """A READ looks at one entity. A QUERY passes over those that are not on its page, and reads none."""
    counted: list[dict[str, float]] = []
    for n in (FEW, MANY):
        counted.append({})
        for what, more in ((costs, ""), (entity_costs, configured(n, tmp_path / "table"))):
            segments = segment.create(segment.segment_prefix(f"test-growth-{n}", os.getpid()), 1, 8)
            try:
                counted[-1] |= what(Bed(segments, more), n)
            finally:
                segments.unlink()
    few, many = counted
    assert {name: (few[name], cost) for name, cost in many.items() if cost > few[name] * GROWTH} == {}


def test_a_change_of_one_entity_costs_as_much_among_many() -> None:
    """One comes, another one changes its name, and goes: what was it before is found no more."""
    few: dict[str, int] = {}
    many: dict[str, int] = {}
    for n, found in ((FEW, few), (MANY, many)):
        entities = Entities({"name": f"n{i}", "identity": str(i)} for i in range(n))
        changes = {
            "comes": Delta("", n, 0, [{"name": "n", "identity": "new"}]),
            "changes": Delta("", 5, 1, [{"name": "m", "identity": "5"}]),
            "goes": Delta("", 5, 1, []),
        }
        for name, change in changes.items():
            with Effort() as effort:
                entities.change(change)
            found[name] = effort.lines
            assert entities.find(None, "5") == ([] if name == "goes" else [entities.rows[5]])
        assert [entities.find(name, None) for name in ("n5", "m")] == [[], []]
        assert entities.find("n", None) == entities.find(None, "new") == [entities.rows[n - 1]]
    assert few == many
