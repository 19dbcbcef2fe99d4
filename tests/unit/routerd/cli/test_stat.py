"""`routerd stat` without a router: tables, numbers, arguments."""

import io
import os
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click import UsageError
from rich.console import Console

from core.management.worker import _pinned_by
from routerd.cli.blame import explain
from routerd.cli.client import ClientError, Place, RefusedError
from routerd.cli.figures import duration, short_bytes, short_number
from routerd.cli.processes import remark
from routerd.cli.stat import Options, check, chosen, frames, show, with_rates, with_traffic
from routerd.cli.views import VIEWS, router_rows

BIG = 123_456_789
CONNECTION = {
    "identity": "123456",
    "host": "[2001:db8::1234:5678]:65535",
    "container": "a-container-with-a-name-that-goes-on-and-on",
    "role": "route-container",
    "dir": "out",
    "isAuthenticated": True,
    "user": "somebody@example.org",
    "isEncrypted": True,
    "sslProto": "TLSv1.3",
    "lastDlvSeconds": BIG,
    "uptimeSeconds": BIG,
}
TRAFFIC = CONNECTION | dict.fromkeys(("inRate", "outRate", "in", "out", "unsettled", "stuck"), BIG)
LINK = {
    "identity": "1234",
    "linkDir": "out",
    "connectionId": "1234",
    "owningAddr": "M0a.long.address.of.somebody.who.likes.words",
    **dict.fromkeys(("creditAvailable", "unsettledCount", "deliveryCount", "acceptedCount", "settleRate"), BIG),
}
ADDRESS = {
    "key": "M0a.long.address.of.somebody.who.likes.words.and.more.words.than.fit",
    "distribution": "multicast",
    **dict.fromkeys(("inProcess", "subscriberCount", "deliveriesIngress", "deliveriesEgress"), BIG),
}
NODE = {
    "id": "a-router-with-a-name-of-its-own." * 3,
    "nextHop": "another-router-with-a-long-name",
    "cost": 12_345,
    "routerLink": 1234,
    "linkState": ["one-router", "another-router", "a-third-router"],
    "validOrigins": ["one-router", "a-third-router"],
}
WORKER = {
    "name": "worker-63",
    "pid": 4194304,
    "cpuPercent": 100,
    "cpus": [63],
    "numaNode": 7,
    "memory": BIG,
    "connections": 10_000,
    "links": 20_000,
    "actionsWaiting": 8192,
    "workWaiting": 0,
    "ringSize": 8192,
    "smallBlocks": 100,
    "smallBlocksFree": 100,
    "largeBlocks": 100,
    "largeBlocksFree": 50,
    "restarts": 0,
    "longestLoopNanoseconds": BIG,
}
POOL = {"typeName": "worker-63_large_block", "typeSize": 16384, "totalAllocFromHeap": BIG, "heldByThreads": BIG}


def shown(view: str, rows: list[dict[str, Any]], width: int = 80) -> list[str]:
    """The lines that a terminal of that width shows."""
    out = io.StringIO()
    show(Console(file=out, width=width, highlight=False), Options(view=view), rows)
    return out.getvalue().splitlines()


@pytest.mark.parametrize(
    ("view", "row"),
    [
        ("connections", CONNECTION),
        ("links", LINK),
        ("addresses", ADDRESS),
        ("nodes", NODE),
        ("workers", WORKER),
        ("memory", POOL),
        ("traffic", TRAFFIC),
        ("connectors", {"name": "c" * 30, "host": "h" * 60, "port": "amqps", "role": "route-container",
                        "connectionStatus": "INITIALIZING"}),
        ("link_routes", {"name": "r" * 30, "pattern": "p.#" * 30, "direction": "out", "containerId": "c" * 30,
                         "operStatus": "inactive"}),
        ("auto_links", {"name": "r" * 30, "address": "a" * 30, "direction": "out", "connection": "c" * 30,
                        "operStatus": "quiescing"}),
    ],
)  # fmt: skip
def test_tables_fit_80_columns(view: str, row: dict[str, Any]) -> None:
    """Long names are cut off; no column, header or number is."""
    header, line, *rows = shown(view, [row])
    (text,) = [one for one in rows if one.strip() and not one.startswith("pinned: ")]
    assert max(map(len, (header, line, text))) <= 80
    for cell in VIEWS[view].cells:
        if not cell.optional or cell.value(row):
            assert cell.header in header
            if cell.least is None:
                assert cell.text(row) in text


@pytest.mark.parametrize("view", ["link_routes", "auto_links"])
def test_what_is_not_active_has_its_error_below_the_table(view: str) -> None:
    """Whole: a column would cut it off at 80."""
    error = "connector broker: Connection to 127.0.0.1:5999 failed: refused to all addresses; is it running?"
    row = {"name": "orders", "address": "q", "pattern": "q.#", "direction": "in", "connection": "broker"}
    active = row | {"name": "other", "operStatus": "active"}
    lines = shown(view, [active, row | {"operStatus": "inactive", "lastError": error}])
    assert " ".join("".join(line + " " for line in lines[4:]).split()) == f"orders in: {error}"
    assert not [line for line in shown(view, [active])[3:] if line]


@pytest.mark.parametrize(("restarts", "told"), [(0, []), (1, ["29s ago"]), (3, ["29s ago, 3 times in all"])])
def test_the_age_of_the_router_is_not_that_of_its_core(restarts: int, told: list[str]) -> None:
    """Its counters go on over the core's death, too."""
    pairs = router_rows({"uptimeSeconds": 7380, "coreUptimeSeconds": 29, "coreRestarts": restarts})
    assert ("Up", "2h03m") in pairs
    assert [text for label, text in pairs if label == "Core restarted"] == told


def test_stat_asks_for_what_no_query_returns_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A router of another kind refuses that, and its table lacks it."""
    router, gone = {"identity": "1", "id": "A"}, {"identity": "0", "coreRestarts": 7}
    more = [gone, {"identity": "1", "coreRestarts": 2}]
    Flaky.answers = [[dict(router)], more, [dict(router)], RefusedError(404, "no such attribute")]
    monkeypatch.setattr("routerd.cli.stat.Client", Flaky)
    first, other = (next(frames(Place(), VIEWS["router"], Options())).rows for _ in range(2))
    assert first == [router | {"coreRestarts": 2}]
    assert other == [router]


def test_empty_tables_say_so() -> None:
    """A sentence, not an empty frame."""
    assert shown("nodes", []) == ["it knows no other router: its mode is standalone, or edge (see stat -c)"]
    assert shown("links", []) == ["no links"]


def test_connectors_stand_below_connections() -> None:
    """With their states; the whole error of each that fails, without the number of the attempt."""
    why = (
        "Connection to broker.example:5671 failed: amqp:connection:framing-error SSL Failure: certificate verify failed"
    )
    broker = {"name": "broker", "host": "broker.example", "port": "5671", "role": "route-container"}
    failing = broker | {"connectionStatus": "CONNECTING", "connectionMsg": f"[C17] {why}"}
    well = broker | {"name": "well", "connectionStatus": "SUCCESS", "connectionMsg": "[C3] Connection Opened: dir=out"}
    out = io.StringIO()
    show(Console(file=out, width=200, highlight=False), Options(view="connections"), [CONNECTION], [failing, well])
    lines = out.getvalue().splitlines()
    assert [line.split()[::3] for line in lines if "broker.example:5671 " in line and "failed" not in line] == [
        ["broker", "connecting"], ["well", "up"],
    ]  # fmt: skip
    assert lines[-1] == f"broker: {why}"


def test_a_stuck_link_says_who_is_to_blame() -> None:
    """A receiver holds others up; a sender waits for one, whose number it names, if its router knows."""
    rows = [
        {"identity": "3", "linkDir": "in", "deliveriesStuck": 5},
        {"identity": "4", "linkDir": "in", "deliveriesStuck": 5},
        {"identity": "1", "linkDir": "out", "deliveriesStuck": 5, "unsettledCount": 5},
        {"identity": "2", "linkDir": "out", "deliveriesStuck": 5, "zeroCreditSeconds": 11},
    ]
    Flaky.answers = [[{"identity": "3", "waitsFor": "1"}, {"identity": "4"}, {"identity": "1"}, {"identity": "2"}]]
    explain(Flaky(Place()), rows)  # type: ignore[arg-type]  # it answers as a client does
    assert [row["why"] for row in rows] == ["waits for 1", "waits", "does not settle", "gives no credit"]
    assert [row.get("waitsFor") for row in rows] == ["1", None, None, None]
    Flaky.answers = [RefusedError(404, "router.link has no attribute 'waitsFor'")]
    explain(Flaky(Place()), rows[1:])  # type: ignore[arg-type]  # the same
    assert rows[1]["why"] == "waits"
    assert "waits for 1" in shown("links", [LINK | rows[0]], 120)[2]


def test_nodes_say_when_the_network_changed() -> None:
    """The latest change that any of the routers tells of, below the table."""
    rows = [NODE | {"lastTopoChange": when} for when in (1_790_000_000, 1_790_000_060, 0)]
    assert shown("nodes", rows)[-1] == "the network changed last at 2026-09-21 14:14:20 UTC"
    assert "changed" not in shown("nodes", [NODE])[-1]


def test_traffic_is_that_of_a_connections_links() -> None:
    """Added up by direction, with rates of what came between two looks; one link is new."""
    before = [link_of(1, 7, "in", 100), link_of(2, 7, "out", 10), link_of(3, 8, "in", 5)]
    after = [link_of(1, 7, "in", 150), link_of(2, 7, "out", 10), link_of(4, 7, "in", 30), link_of(3, 8, "in", 5)]
    busy, idle, other = with_traffic([{"identity": str(one)} for one in (7, 8, 9)], before, after, 2.0)
    assert (busy["in"], busy["out"], busy["inRate"], busy["outRate"]) == (180, 10, 40, 0)
    assert (busy["unsettled"], busy["stuck"]) == (6, 3)
    assert (idle["in"], idle["inRate"], other["inRate"]) == (5, 0, 0)
    assert "out" not in other


def link_of(identity: int, connection: int, direction: str, deliveries: int) -> dict[str, Any]:
    return {
        "identity": str(identity), "connectionId": connection, "linkDir": direction, "deliveryCount": deliveries,
        "unsettledCount": 2, "deliveriesStuck": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (Options(address="orders.*"), [0, 2]),
        (Options(address="news"), [1]),
        (Options(connection=2), [1, 2]),
        (Options(address="orders.*", connection=2), [2]),
        (Options(stuck=True), [0, 1]),
    ],
)
def test_some_links_are_chosen(options: Options, kept: list[int]) -> None:
    """By address, connection, and by what waits: deliveries without an outcome, or a receiver without credit."""
    links = [
        {"owningAddr": "M0orders.eu", "connectionId": 1, "deliveriesStuck": 1, "linkDir": "in"},
        {"owningAddr": "M0news", "connectionId": 2, "zeroCreditSeconds": 11, "linkDir": "out"},
        {"owningAddr": "M0orders.us", "connectionId": 2, "zeroCreditSeconds": 11, "linkDir": "in"},
    ]
    assert [number for number, row in enumerate(links) if chosen(VIEWS["links"], row, options)] == kept


def test_a_choice_that_a_view_cannot_make_is_refused() -> None:
    """It says which view can."""
    with pytest.raises(UsageError, match=r"--stuck does not .* one of: --traffic, --links"):
        check(VIEWS["nodes"], Options(stuck=True))


def test_rows_of_all_routers_name_theirs() -> None:
    """The column is there only then."""
    assert "router" not in shown("links", [LINK])[0]
    assert "router" in shown("links", [LINK | {"router": "A"}])[0]


def test_why_a_link_of_another_router_is_stuck_fits_80_columns() -> None:
    """What it did before makes room."""
    counts = dict.fromkeys(("undeliveredCount", "rejectedCount", "releasedCount", "modifiedCount"), BIG)
    row = LINK | counts | {"router": "another.router", "deliveriesStuck": BIG, "why": "waits for 123456"}
    header, _, text, *_ = shown("links", [row])
    assert max(map(len, (header, text))) <= 80
    assert text.rstrip().endswith("waits for 123456")
    assert ("why" in header, "acc" in header) == (True, False)


def test_columns_of_zeros_are_left_out() -> None:
    """What never happened takes no room; when it happens, it is there."""
    assert "rej" not in shown("links", [LINK])[0]
    assert "rej" in shown("links", [LINK, LINK | {"rejectedCount": 1}], 120)[0]


def test_markup_in_names_is_text() -> None:
    """A container cannot colour the table."""
    assert any("[red]" in line for line in shown("connections", [CONNECTION | {"container": "[red]x"}]))


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (99_999, "99999"), (100_000, "100k"), (12_345_678, "12.3M"), (BIG, "123M"), (10**13, "10.0T")],
)
def test_short_numbers(number: int, text: str) -> None:
    """At most five characters."""
    assert short_number(number) == text


def test_where_a_router_is_asked() -> None:
    """The one at the URL, another one of the network, an edge router."""
    assert Place().address == "$management"
    assert Place(router="B").address == "_topo/0/B/$management"
    assert Place(edge="E").address == "_edge/E/$management"


def test_a_mechanism_is_no_user() -> None:
    """Who has connected with a certificate learns no name; the mechanism looked like one."""
    cell = VIEWS["connections"].cell("user")
    known = {"isAuthenticated": True, "sasl": "EXTERNAL"}
    found = [cell.value(row) for row in (known, known | {"user": "CN=a"}, {"sasl": "ANONYMOUS"})]
    assert found == ["(EXTERNAL)", "CN=a", "no auth"]


def test_units() -> None:
    """Bytes and durations as people read them."""
    assert [short_bytes(n) for n in (5, 16384, 200 << 20, 3 << 30)] == ["5", "16.0K", "200M", "3.0G"]
    assert [duration(n) for n in (5, 185, 7380, 90_000)] == ["5s", "3m05s", "2h03m", "1d01h"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"cpuPercent": 95}, "bottleneck"),
        ({"workWaiting": 5000}, "bottleneck"),
        ({"actionsWaiting": 5000}, None),  # for the core, which is behind
        ({"largeBlocksFree": 3}, "arena full"),
        ({"awake": True}, "needs CPU"),
        ({"longestLoopNanoseconds": 200_000_000, "stalling": True}, "stalling"),
        ({"longestLoopNanoseconds": 200_000_000}, "has stalled"),
        ({"longestLoopNanoseconds": 20_000_000, "stalling": True}, None),
        ({"pid": 0}, "down"),
    ],
)
def test_remarks(change: dict[str, Any], text: str | None) -> None:
    """What an operator should look at first."""
    calm = {"cpuPercent": 5, "actionsWaiting": 9, "workWaiting": 9, "longestLoopNanoseconds": BIG // 10}
    assert remark(WORKER | calm | change) == text


def test_who_is_behind_is_the_bottleneck() -> None:
    """A full ring of actions is the core's to empty, one of work its worker's."""
    core = {"name": "core", "pid": 7, "loops": 1, "sleeps": 1}
    rows = with_rates([], [core, WORKER | {"actionsWaiting": 6000, "longestLoopNanoseconds": 0}], 0.5)
    assert [remark(row) for row in rows] == ["bottleneck", None]
    rows = with_rates([], [core, WORKER | {"actionsWaiting": 0, "workWaiting": 6000}], 0.5)
    assert [remark(row) for row in rows] == [None, "bottleneck"]


def test_rates_are_of_one_process() -> None:
    """The difference of two looks; a process that was started in between has used nothing yet."""
    before = [{"name": "a", "pid": 1, "cpuSeconds": 1.0, "loops": 5, "sleeps": 5, "longestLoopNanoseconds": 1}]
    before.append({"name": "b", "pid": 2, "cpuSeconds": 9.0, "loops": 900, "sleeps": 9})
    after = [{"name": "a", "pid": 1, "cpuSeconds": 1.25, "loops": 99, "sleeps": 5, "longestLoopNanoseconds": 2}]
    after.append({"name": "b", "pid": 3, "cpuSeconds": 0.1, "loops": 990, "sleeps": 9})
    rows = with_rates(before, after, 0.5)
    assert [(row["cpuPercent"], row["awake"], row["stalling"]) for row in rows] == [(50, True, True), (0, False, False)]


class Flaky:
    """A client that answers as it is told: rows, or an error."""

    answers: ClassVar[list[Any]] = []
    made = 0

    def __init__(self, _: Place) -> None:
        type(self).made += 1

    def query(self, _: str, names: list[str] | None = None, limit: int | None = None) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return iter(answer[:limit])

    def close(self) -> None:
        """As the real one."""


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (Options(limit=2), ["1", "2"]),
        (Options(sort="id"), ["1", "2", "3"]),
        (Options(sort="host", reverse=True, limit=2), ["2", "1"]),
        (Options(reverse=True, limit=1), ["3"]),
    ],
)
def test_the_first_of_all_that_are_sorted(monkeypatch: pytest.MonkeyPatch, options: Options, ids: list[str]) -> None:
    """What is cut off is what comes last, not what the router tells last."""
    rows = [{"identity": number, "host": host} for number, host in (("1", "b"), ("2", "c"), ("3", "a"))]
    Flaky.answers = [rows, RefusedError(404, "no connectors")]
    monkeypatch.setattr("routerd.cli.stat.Client", Flaky)
    frame = next(frames(Place(), VIEWS["connections"], options))
    assert [row["identity"] for row in frame.rows] == ids
    assert not frame.below


def test_watching_goes_on_over_another_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker that had the first is replaced: what was seen stays, with the trouble, until it is back."""
    Flaky.made, Flaky.answers = 0, [[{"a": 1}], ClientError("lost"), ClientError("still"), [{"a": 2}]]
    monkeypatch.setattr("routerd.cli.stat.Client", Flaky)
    monkeypatch.setattr("routerd.cli.stat.time.sleep", lambda seconds: None)
    found = list(islice(frames(Place(), VIEWS["links"], Options(watch=1.0)), 4))
    assert [(frame.rows, frame.trouble) for frame in found] == [
        ([{"a": 1}], ""), ([{"a": 1}], "lost"), ([{"a": 1}], "still"), ([{"a": 2}], ""),
    ]  # fmt: skip
    assert Flaky.made == 3


def test_watching_ends_when_the_router_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another attempt would be refused as well."""
    Flaky.answers = [RefusedError(403, "no")]
    monkeypatch.setattr("routerd.cli.stat.Client", Flaky)
    with pytest.raises(RefusedError):
        next(frames(Place(), VIEWS["links"], Options(watch=1.0)))


def test_an_unknown_column_to_sort_by() -> None:
    """The columns there are, are named."""
    with pytest.raises(UsageError, match=r"'colour'.*id, host"):
        VIEWS["connections"].cell("colour")
    with pytest.raises(UsageError, match="these are no rows"):
        VIEWS["router"].cell("colour")
    with pytest.raises(UsageError, match="did you mean unset"):
        VIEWS["links"].cell("unst")


def test_the_processes_tell_who_has_pinned_them() -> None:
    """Below the table: the attributes that did, or what stands around the router."""
    pinned = [dict(WORKER, name="core", pinnedBy="coreCpu"), dict(WORKER, pinnedBy="workerCpus")]
    assert "pinned: core by coreCpu, workers by workerCpus" in shown("workers", pinned)
    assert "pinned: nobody" in shown("workers", [dict(WORKER, pinnedBy="nobody")])
    (told,) = [line for line in shown("workers", [dict(WORKER, pinnedBy="outside")]) if line.startswith("pinned")]
    assert told.startswith("pinned: nobody; the router's CPUs are limited from outside")


def test_it_is_told_how_the_cpus_of_a_process_came(tmp_path: Path) -> None:
    """Other CPUs than the supervisor's are pinned; fewer than the machine's came from outside."""
    allowed = sorted(os.sched_getaffinity(0))
    (tmp_path / "all").write_text(",".join(map(str, allowed)))
    (tmp_path / "more").write_text(f"{allowed[-1] + 1}")
    me = os.getpid()
    assert _pinned_by("worker", allowed, me, tmp_path / "all") == "nobody"
    assert _pinned_by("worker", allowed, me, tmp_path / "more") == "outside"
    assert _pinned_by("worker", [allowed[-1] + 1], me, tmp_path / "all") == "workerCpus"
    assert _pinned_by("core", [allowed[-1] + 1], me, tmp_path / "all") == "coreCpu"
