"""Who sends, as workers of source routes are told; and what the core says of addresses and rights."""

from typing import Any

import msgspec
import pytest

from core.links.link import Link
from core.source_routes.route_workers import Count, RouteWorkers
from shm.contract.control import ConnectorSetup, ListenerSetup, SetSourceRoutes
from shm.contract.payloads import RouteCounts, RouteReach
from shm.contract.source_routes import REASONS, RouteWorkerSetup, SourceRoutesSetup, Stop
from workers.control.guard import Passed
from workers.source_routes.senders import Senders
from workers.source_routes.table import MOST_SOURCES, Sources, entries


def stop(text: str) -> Stop:
    return Stop(0, text.encode(), text)


LISTED = ["user:alice", "listener:front", "link:w", "uplink:cloud", "uplink:router2", "local"]
WORKERS = SourceRoutesSetup(
    on=True,
    workers=[
        RouteWorkerSetup("routeWorker/w", "forward", stop("w"), allow=LISTED),
        RouteWorkerSetup("routeWorker/d", "discovery", stop("d"), inner=stop("d.in"), pattern="^([a-z])"),
    ],
)


class Engine:
    """What the pump was told."""

    def __init__(self) -> None:
        self.tables: list[bytes | None] = []
        self.senders: list[tuple[Any, ...]] = []
        self.forgotten: list[tuple[int, int]] = []
        self.counted: dict[int, tuple[int, int, list[int]]] = {}

    def set(self, table: bytes | None) -> None:
        self.tables.append(table)

    def sender(self, *what: Any) -> None:
        self.senders.append(what)

    def forget_sender(self, index: int, generation: int) -> None:
        self.forgotten.append((index, generation))

    def counts(self) -> dict[int, tuple[int, int, list[int]]]:
        counted, self.counted = self.counted, {}
        return counted


class Connections:
    """Connection 1 with a user, of a listener or a connector."""

    def __init__(self, terms: ListenerSetup | ConnectorSetup, user: str, admission: Any = None) -> None:
        self.pump = self
        self.accepted = {1: terms} if isinstance(terms, ListenerSetup) else {}
        self.passed = {1: Passed(user, True, False, "", "", 0, admission)}
        self.dialled_by = {1: terms} if isinstance(terms, ConnectorSetup) else {}
        self.posted: list[Any] = []

    def connection_info(self, index: int) -> tuple[str, str, str, str, dict[str, Any], list[str], int]:
        return "router2", "host", "", "", {}, [], 7

    def post(self, message: Any) -> None:
        self.posted.append(message)


FRONT = ListenerSetup("front", [], 7)
INTER_ROUTER = ListenerSetup("front", [], 7, role="inter-router")
CLOUD = ConnectorSetup("cloud", 9, [])
NO_TYPE = f"{'9' * 5000}#w"  # more digits than int() takes
EDGE = ConnectorSetup("hub", 9, [], role="edge")


def told(connections: Any, target: str | None, ours: bool = False) -> Any:
    engine = Engine()
    senders = Senders(engine, connections)
    senders.configure(WORKERS)
    senders.asked(1, 3, 4, ours, target)
    if not engine.senders:
        return None
    ((link, generation, inter_router, at, names, foreign, reach),) = engine.senders
    assert (link, generation) == (3, 4)
    sources = Sources(WORKERS.workers)
    return inter_router, at, {one for one in LISTED if sources.number(one) in names}, foreign, reach


@pytest.mark.parametrize(
    ("connections", "target", "expected"),
    [
        (Connections(FRONT, "alice"), "w", (False, (0, b"w"), {"user:alice", "listener:front", "link:w"}, False, None)),
        (Connections(FRONT, ""), None, (False, None, {"listener:front"}, False, None)),
        (Connections(FRONT, ""), "64#w", (False, (64, b"w"), {"listener:front"}, False, None)),
        (Connections(FRONT, ""), NO_TYPE, (False, (0, NO_TYPE.encode()), {"listener:front"}, False, None)),
        (Connections(INTER_ROUTER, "alice"), None, (True, None, {"uplink:router2"}, True, None)),
        (Connections(CLOUD, "alice"), "w", (False, (0, b"w"), {"uplink:cloud"}, True, None)),
        (Connections(FRONT, "", object()), None, (False, None, {"listener:front"}, False, b"\0\0\0")),
    ],
    ids=["a client", "anonymous", "another type", "no type", "a router", "behind a connector", "under policy"],
)
def test_names_are_those_that_the_router_saw(connections: Any, target: str | None, expected: Any) -> None:
    assert told(connections, target) == expected


def test_some_links_are_none_of_theirs() -> None:
    """Of a tenant, of an auto link, of a connection that was denied."""
    tenants = ListenerSetup("front", [], 7, multi_tenant=True)
    assert told(Connections(tenants, "alice"), "w") is None
    assert told(Connections(CLOUD, ""), "w", ours=True) is None
    denied = Connections(FRONT, "")
    denied.passed.clear()
    assert told(denied, "w") is None


@pytest.mark.parametrize(("terms", "inter_router"), [(CLOUD, False), (EDGE, True)])
def test_a_link_that_this_router_has_begun_leads_where_the_core_says(terms: Any, inter_router: bool) -> None:
    """An auto link, or one of an edge router: it has no target of its own. Gone, it leads nowhere again."""
    engine = Engine()
    senders = Senders(engine, Connections(terms, ""))
    senders.configure(WORKERS)
    senders.reached(RouteReach(3, 4, [], "w"))
    assert engine.forgotten == [(3, 4)]
    senders.asked(1, 3, 4, True, None)
    assert [(one[2], one[3], one[5]) for one in engine.senders] == [(inter_router, (0, b"w"), True)]
    senders.gone(3, 4)
    senders.asked(1, 3, 4, True, None)
    assert [one[3] for one in engine.senders[1:]] == ([None] if inter_router else [])


def test_policy_says_what_an_anonymous_link_reaches() -> None:
    """The core tells; before, nothing is reached. Nothing is kept of a link that is gone."""
    engine = Engine()
    senders = Senders(engine, Connections(FRONT, "", object()))  # type: ignore[arg-type]  no real admission
    senders.configure(WORKERS)
    senders.reached(RouteReach(3, 4, ["d", "d.in"]))
    assert engine.forgotten == [(3, 4)]
    senders.asked(1, 3, 4, False, None)
    senders.gone(3, 4)
    senders.asked(1, 3, 4, False, None)
    assert [one[-1] for one in engine.senders] == [b"\0\1\1", b"\0\0\0"]
    assert [one.text for one in entries(WORKERS)] == ["w", "d", "d.in"]


def test_a_pattern_tells_scopes() -> None:
    senders = Senders(Engine(), Connections(FRONT, ""))
    senders.configure(WORKERS)
    assert (senders.scope(1, b"x9"), senders.scope(1, b"9x")) == (b"x", None)


def test_counts_are_told_before_another_table_comes() -> None:
    """And only if there are any. Without a worker or sourceRoutes nobody looks at messages."""
    engine, connections = Engine(), Connections(FRONT, "")
    senders = Senders(engine, connections)
    senders.configure(WORKERS)
    engine.counted = {0: (2, 1, [1])}
    senders.configure(SourceRoutesSetup())
    assert connections.posted == [RouteCounts({"routeWorker/w": (2, 1, [1])})]
    assert engine.tables[-1] is None
    senders.report()
    assert len(connections.posted) == 1


def test_there_are_only_so_many_sources() -> None:
    allow = [f"user:{n}" for n in range(MOST_SOURCES + 1)]
    with pytest.raises(ValueError, match="257 different sources"):
        Sources([RouteWorkerSetup("x", "forward", stop("x"), allow=allow)])


class Rights:
    """Of a link that may send to what begins with d."""

    key = ("d*",), ()

    def __init__(self) -> None:
        self.rights = self.targets = self

    def allow(self, address: str) -> bool:
        return address.startswith("d")


class Core:
    """Addresses, links and the core's own links, as far as route workers ask them."""

    def __init__(self) -> None:
        self.addresses = self.links = self.local = self
        self.told: list[tuple[str, int]] = []
        self.posted: list[tuple[int, Any]] = []
        self.held: list[int] = []

    def served(self, address: str, number: int, sends: bool) -> None:
        assert not sends
        self.told.append((address, number))

    def resolve(self, text: str) -> str:
        return text

    def forget_idle(self, address: str) -> None:
        assert address not in [name for name, _ in self.told[-1:] if _ > 0]

    def refuse(self, address: str) -> int:
        self.held.append(len(self.told))
        return self.held[-1]

    def leave(self, link: int) -> None:
        self.held.remove(link)

    def entries(self) -> list[Any]:
        return []

    def post(self, worker: int, message: Any) -> None:
        self.posted.append((worker, message))


def test_addresses_of_workers_lead_somewhere_while_they_are_there() -> None:
    """Both of a discovery worker; what stays is not touched, and counts of what goes are forgotten."""
    core: Any = Core()
    route_workers = RouteWorkers(core)
    route_workers.configure(SetSourceRoutes(WORKERS))
    assert core.told == [("w", 1), ("d", 1), ("d.in", 1)]
    assert route_workers.heard(0, RouteCounts({"routeWorker/w": (3, 2, [1] + [0] * (len(REASONS) - 1))}))
    assert route_workers.heard(0, RouteCounts({"routeWorker/w": (1, 1, [])}))
    assert route_workers.count("routeWorker/w") == Count(4, 3, {REASONS[0]: 1})
    route_workers.configure(SetSourceRoutes(SourceRoutesSetup(on=True, workers=WORKERS.workers[1:])))
    assert core.told[3:] == [("w", -1)]
    assert len(core.held) == 2
    assert route_workers.count("routeWorker/w") == Count()


def test_a_link_under_policy_is_told_what_it_reaches() -> None:
    core: Any = Core()
    route_workers = RouteWorkers(core)
    route_workers.configure(SetSourceRoutes(WORKERS))

    guarded: Any = Rights()
    link = Link(2, 3, 4, 1, "anonymous", False, None, guarded=guarded, scope=1)
    route_workers.attached(link)
    assert core.posted == [(2, RouteReach(3, 4, ["d", "d.in"]))]
    link.scope = 0
    route_workers.attached(link)
    assert len(core.posted) == 1


@pytest.mark.parametrize(("outgoing", "kind", "told"), [(False, 0, ["w"]), (True, 0, []), (False, 1, [])])
def test_a_link_of_this_router_is_told_its_worker(outgoing: bool, kind: int, told: list[str]) -> None:
    """Whether link or worker comes first; a client's says it itself."""
    core: Any = Core()
    link = Link(2, 3, 4, 1, "auto", outgoing, "w", kind=kind, router_initiated=True)  # type: ignore[arg-type]  its text
    core.entries = lambda: [link]
    route_workers = RouteWorkers(core)
    route_workers.configure(SetSourceRoutes(WORKERS))
    assert [message.target for _, message in core.posted] == told
    route_workers.attached(link)
    assert len(core.posted) == 2 * len(told)
    link.router_initiated = False
    route_workers.attached(link)
    assert len(core.posted) == 2 * len(told)


@pytest.mark.parametrize("message", [RouteReach(0, 0, ["w"]), RouteReach(0, 0, [], "w")], ids=["reach", "target"])
def test_what_comes_after_a_link_has_ended_is_kept_only_until_the_next_link_in_its_place(message: RouteReach) -> None:
    """The core answers an ATTACH, and the link may have ended by then: nobody says again that it has."""
    senders = Senders(Engine(), Connections(FRONT, ""))
    for generation in range(1, 101):
        senders.gone(3, generation)
        senders.reached(msgspec.structs.replace(message, link=3, generation=generation))
    assert len(senders._reach) + len(senders._fed) == 1
    senders.gone(3, 99)
    assert len(senders._reach) + len(senders._fed) == 1, "the end of an older link"
    senders.gone(3, 100)
    assert len(senders._reach) + len(senders._fed) == 0
