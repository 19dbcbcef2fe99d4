"""The seam for planes: one more hears all, nobody misses one less, and claims of attaches have an order."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from bench import contract as n
from bench.contract import (
    C_ATTACH,
    C_CONNECTION_CLOSED,
    C_CONNECTION_OPENED,
    C_COST,
    C_DETACH,
    C_ENDPOINT,
    C_LINK_REFUSED,
)
from core.forwarder.forward import ROUTED_LINK
from core.interior.network_adapter import NetworkAdapter
from core.link_routes.ends import NO_ROUTE, Ends
from core.links.administration import Administration
from core.links.auto_links import AutoLinks
from core.links.link import Edges, Link
from core.links.plane import Plane
from core.links.streams import Streams
from core.process import planes
from core.rmr.active.route_tables import RouteTables
from shm.contract.control import SetRouting, SetTables, WorkerAdded, WorkerGone
from shm.contract.failures import failures
from shm.contract.management import PREFIX
from shm.contract.payloads import Attach, ConnectionClosed, ConnectionOpened, Cost, Detach, Endpoint, LinkRefused
from shm.contract.routing import ExchangeSetup, Routing
from shm.contract.tables import TableSetup
from shm.memory import segment
from tests.support.beds.agent import Bed as Managed
from tests.support.beds.control import Bed


class Witness(Plane):
    """A plane that writes down what it hears; a record of its own is an Endpoint."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        for name in ("configure", "worker_added", "forget_worker", "opened", "cost", "closed"):
            setattr(self, name, partial(self._hear, name))
        for name in ("attached", "detached", "refused", "served", "close"):
            setattr(self, name, partial(self._hear, name))

    def _hear(self, name: str, *what: Any) -> None:
        self.said.append((name, *what))

    def heard(self, worker: int, message: object) -> bool:
        self._hear("heard", worker, message)
        return isinstance(message, Endpoint)

    def step(self, now: int) -> None:
        self._hear("step", now)


def test_a_plane_hears_every_event_in_its_order() -> None:
    """Connection, link, refusal, a record of its own, configuration, the death of a worker, time, the end."""
    bed, mine = Bed(), Witness()
    bed.core.planes.insert(0, mine)
    opened = ConnectionOpened(0, 1, "c", "h:1")

    def hears(kind: int, record: Any) -> list[Any]:
        mine.said.clear()
        bed.say(kind, record)
        bed.step()
        assert mine.said.pop() == ("step", bed.now)
        return mine.said

    def link(index: int) -> Link | None:
        return bed.core.links.find(0, index, 1)

    assert hears(C_CONNECTION_OPENED, opened) == [("opened", 0, opened)]
    assert hears(C_COST, Cost(0, 1, 7)) == [("cost", 0, replace(opened, cost=7))]
    assert hears(C_ATTACH, Attach(3, 1, 0, "l", True, "a")) == [("attached", there := link(3))]
    assert hears(C_LINK_REFUSED, LinkRefused(9)) == [("refused", LinkRefused(9))]
    assert hears(C_ENDPOINT, gone := Endpoint("t", "t/h:1", "h", 1, open=False)) == [("heard", 0, gone)]
    assert hears(C_DETACH, detach := Detach(3, 1)) == [("detached", there, detach)]
    assert hears(C_CONNECTION_CLOSED, ConnectionClosed(0, 2)) == []  # another one's
    assert hears(C_CONNECTION_CLOSED, ConnectionClosed(0, 1)) == [("closed", 0, 0)]
    change = SetRouting(Routing(exchanges=[ExchangeSetup("1", "x")]))
    mine.said.clear()
    bed.core.configure(change)
    exchange = bed.core.addresses.known("M0x")
    assert mine.said == [("configure", change), ("served", exchange, 1, False)]
    hears(C_CONNECTION_OPENED, opened)
    hears(C_ATTACH, Attach(4, 1, 0, "l", True, "a"))
    there = link(4)
    mine.said.clear()
    bed.core.worker_changed(WorkerGone(0, 1, removed=True), 9)
    bed.core.worker_changed(WorkerAdded(0, 2), 9)
    bed.core.close()
    dead = ("detached", there, None), ("forget_worker", 0, True)
    assert mine.said == [*dead, ("worker_added", 0), ("close",)]


def test_a_plane_sees_the_address_of_a_link_routes_link() -> None:
    """The flow log names it once, when the link is attached."""
    bed, mine = Bed(), Witness()
    bed.core.planes.insert(0, mine)
    seen: list[str] = []
    mine.attached = lambda link: seen.append(link.routed)  # type: ignore[method-assign]  what it has now, not later
    bed.core.links.enter(0, Attach(3, 1, 0, "l", True, "q"), kind=ROUTED_LINK, routed="q")
    assert seen == ["q"]


@pytest.fixture
def without_tables(monkeypatch: pytest.MonkeyPatch) -> Iterator[Managed]:
    """An agent beside a core that has no route tables: their line in core/process/planes.py is gone."""
    monkeypatch.setattr(planes.route_tables, "planes", lambda core: [])
    segments = segment.create(segment.segment_prefix("test-planes", os.getpid()), 1, 4)
    try:
        yield Managed(segments)
    finally:
        segments.unlink()


def test_without_route_tables_the_rest_works(without_tables: Managed, caplog: pytest.LogCaptureFixture) -> None:
    """Addresses are found, messages go through, management answers for all that is there, nothing fails."""
    bed, before = without_tables, failures.number
    assert bed.core.find(RouteTables) is None
    bed.core.configure(SetTables([TableSetup("routes", "routes")]))
    block = bed.arena.write(b"news")
    assert block is not None
    record = n.pack(type=n.A_DELIVER, flags=n.F_COMPLETE | n.F_SETTLED, link_gen=1, block=block, length=1, time=1)
    assert bed.actions.push(record)
    bed.actions.publish()
    bed.say(C_ATTACH, Attach(2, 1, 0, "other", True, "routes"))
    bed.core.step(2)
    heard = bed.heard()
    assert [(one["link"], bed.arena.read(one["block"])) for one in heard if one["type"] == n.W_SEND] == [(1, b"news")]
    status, types = bed.ask("GET-TYPES")
    assert status == 200
    assert PREFIX + "router.address" in types
    assert PREFIX + "routeTable.entry" not in types
    assert "M0routes" in [row["key"] for row in bed.query(PREFIX + "router.address")]
    for name in types:
        assert bed.ask("QUERY", {"attributeNames": []}, entityType=name)[0] == 200, name
    assert bed.crud("PUSH", {}, type=PREFIX + "routeTable", name="routes")[0] == 501
    bed.core.worker_gone(WorkerGone(0, 1), 3)
    bed.core.close()
    assert failures.number == before
    assert [one for one in caplog.records if one.exc_info] == []


def watched(core: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of those that were asked whose an attach is."""
    asked: list[str] = []

    def watch(who: object, name: str) -> None:
        ask: Callable[..., Any] = getattr(who, name)
        monkeypatch.setattr(who, name, lambda *given: asked.append(name) or ask(*given))

    ends, edges = core.plane(Ends), core.plane(Edges)
    for who, name in [
        (core.plane(Streams), "asked"),
        (core.plane(AutoLinks), "claim"),
        (ends, "is_answer"),
        (ends, "wanted"),
        (ends, "route"),
        (edges, "place"),
        (edges, "serves"),
        (edges, "asks"),
        (core.admissions, "refusal"),
        (core.plane(Administration), "judge"),
        *([] if (network_adapter := core.find(NetworkAdapter)) is None else [(network_adapter.inter_routers, "kind")]),
    ]:
        watch(who, name)
    return asked


CLIENTS = ["asked", "is_answer", "refusal", "serves", "wanted", "route", "asks", "judge", "route"]


def test_the_order_in_which_an_attach_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this router has asked for comes first, then what policy refuses, then what leads elsewhere."""
    bed = Bed(mode="interior")
    bed.core.plane(NetworkAdapter).start(lambda _: SilentNetwork())  # type: ignore[arg-type,return-value]  all that is called
    asked = watched(bed.core, monkeypatch)
    bed.say(C_CONNECTION_OPENED, ConnectionOpened(0, 1, "c", "h:1"))
    bed.say(C_CONNECTION_OPENED, ConnectionOpened(1, 1, "e", "h:2", role="edge", number=1))
    bed.say(C_ATTACH, Attach(0, 1, 0, "l", True, "a"))
    bed.step()
    assert asked == ["kind", *CLIENTS]
    asked.clear()
    bed.say(C_ATTACH, Attach(1, 1, 1, "l", True, "a"))  # over an edge connection
    bed.step()
    assert asked == ["kind", "asked", "is_answer", "place", "serves", "refusal", "judge", "route"]
    asked.clear()
    bed.say(C_ATTACH, Attach(2, 1, 0, "l", True, "a", router_initiated=True))
    bed.step()
    assert asked == ["kind", "asked", "is_answer", "claim"]


class SilentNetwork:
    """A router protocol with nothing to say."""

    last_change = 0

    def tick(self, now: float) -> None:
        """Nothing is done."""

    def due(self, now: float) -> float | None:
        """Nothing is due."""

    def local_address(self, key: str, treatment: int) -> None:
        """Nobody is told."""


@pytest.mark.parametrize("name", ["asked", "is_answer", "refusal", "serves", "asks", "judge"])
def test_whoever_claims_an_attach_has_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody behind is asked."""
    bed = Bed(mode="edge")
    core = bed.core
    streams, ends, edges = core.plane(Streams), core.plane(Ends), core.plane(Edges)
    attach = Attach(0, 1, 0, "l", True, "a")
    claims: dict[str, tuple[object, Any]] = {
        "asked": (streams, True),
        "is_answer": (ends, True),
        "refusal": (core.admissions, (NO_ROUTE, 1)),
        "serves": (edges, NO_ROUTE),
        "asks": (edges, True),
        "judge": (core.plane(Administration), (attach, NO_ROUTE)),
    }
    claimant, claim = claims[name]
    monkeypatch.setattr(claimant, name, lambda *_: claim)
    monkeypatch.setattr(streams, "add", lambda *_: False)
    monkeypatch.setattr(ends, "answered", lambda *_: None)
    asked = watched(core, monkeypatch)
    bed.say(C_CONNECTION_OPENED, ConnectionOpened(0, 1, "c", "h:1"))
    bed.say(C_ATTACH, attach)
    bed.step()
    assert asked == CLIENTS[: CLIENTS.index(name) + 1]
    assert len(core.links) == 0
