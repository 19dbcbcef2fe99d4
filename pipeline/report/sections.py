"""The chapters of a report that are mostly tables."""

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any, Final

import pyarrow.compute as pc

from pipeline.report.findings import Findings
from pipeline.report.page import Cell, Figure, between, days, figures, milliseconds, octets, said, share, table
from pipeline.report.tables import Row, Tables, named, shown

FINDINGS: Final = 30
LINKS: Final = 40
NAMED: Final = 5  # of links whose clocks disagree
WAYS: Final = 25
TALKERS: Final = 10
PROCESSES: Final = 24
ADVICE: Final = 16
FILES: Final = 10
WHAT: Final = ("usual", "detour", "loop", "asymmetric")  # of a path
ROUTE: Final = ("return_route", "route_state")

Columns = Mapping[str, str | Callable[[Row], Cell]]  # by heading: a field of a row, or what to make of a row


def _table(rows: list[Row], columns: Columns, caption: str, empty: str = "nothing", cards: bool = False) -> str:
    take = [itemgetter(one) if isinstance(one, str) else one for one in columns.values()]
    return table(tuple(columns), [[one(row) for one in take] for row in rows], empty, cards, caption=caption)


def _in(form: Callable[[Any], Cell], field: str) -> Callable[[Row], Cell]:
    return lambda row: form(row[field])


def _named(row: Row) -> str:
    return named(row["address"], row["mtype"])


def of(count: int, most: int, what: str, by: str) -> str:
    """Return the caption of a table that has the first of so many."""
    return f"{what}: all {count:,}" if count <= most else f"{what}: the {most:,} {by}, of {count:,}"


def findings(found: Findings) -> str:
    """Return the table of findings, the worst first."""
    note = (
        "What is out of the ordinary, the worst first, those that went on when the log ended before those that were "
        "over; n records or messages show it. Times are by the clock of the router named."
    )
    rows = [
        (
            at,
            one.kind,
            one.when(),
            one.row["router_id"],
            one.name,
            one.row["container"],
            one.row["n"],
            one.row["evidence"],
        )
        for at, one in enumerate(found.every[:FINDINGS], 1)
    ]
    heads = ("number", "what", "when", "router", "address", "receiver, path or error", "n", "evidence")
    caption = of(len(found.every) + found.more, FINDINGS, "Findings", "worst")
    empty = "Nothing is out of the ordinary."
    return said(note) + table(heads, rows, empty, cards=True, caption=caption, anchor="finding")


def links(tables: Tables) -> str:
    """Return the links between routers."""
    note = (
        "Time from one router to the next, corrected by the difference of their clocks; followed are messages found in "
        "the logs of both."
    )
    columns: Columns = {
        "from": "router_id",
        "to": "onward",
        "messages": "messages",
        "clock ahead, ms": _in(milliseconds, "clock_ns"),
        "followed": "transit_n",
        "p50, ms": _in(between, "transit_p50"),
        "p99, ms": _in(between, "transit_p99"),
    }
    busiest = {"messages": "descending", "router_id": "ascending", "onward": "ascending"}
    rows = tables.rows("hops", order=busiest, most=LINKS)
    rows.sort(key=lambda row: (row["router_id"], row["onward"] or ""))  # a name that is not known any more
    return said(note) + _disagreeing(rows) + _table(rows, columns, of(tables.count("hops"), LINKS, "Links", "busiest"))


def _disagreeing(rows: Iterable[Row]) -> str:
    """Return what is wrong with the clocks of neighbours, or nothing."""
    pairs = [
        f"{row['router_id']} to {row['onward']}"
        for row in rows
        if min(row["transit_p50"] or 0, row["transit_p99"] or 0) < 0
    ]
    if not pairs:
        return ""
    more = f" and {len(pairs) - NAMED} more" if len(pairs) > NAMED else ""
    return said(
        f"{', '.join(pairs[:NAMED])}{more}: messages came before they were sent, by the clocks of the two routers. "
        "Nothing came back to compare the clocks by, or one was set meanwhile; such times are shown as 0. Check that "
        "NTP or PTP keeps both clocks."
    )


def ways(tables: Tables) -> str:
    """Return the paths through the network."""
    note = "Times are from entering the network to leaving it, of the messages that were followed."
    columns: Columns = {
        "path": "path",
        "messages": "messages",
        "what it is": lambda row: ", ".join(one for one in WHAT if row[one]),
        "return route": _returns,
        "followed": "took_n",
        "p50, ms": _in(between, "took_p50"),
        "p99, ms": _in(between, "took_p99"),
    }
    order = {"messages": "descending", "path": "ascending"}
    most = tables.read("ways", order=order, most=WAYS)
    times = tables.read("journeys", pc.field("path").isin(most["path"].combine_chunks()))
    joined = most.select(["path", "messages", *WHAT, *ROUTE]).join(times, "path")
    rows = shown(joined.take(pc.sort_indices(joined, sort_keys=list(order.items()))))
    return said(note) + _table(rows, columns, of(tables.count("ways"), WAYS, "Paths", "most used"))


def _returns(row: Row) -> str:
    """Return the return route of a source route, with its state."""
    said = (row["return_route"], row["route_state"])
    return ", ".join(one for one in said if one)


def talkers(tables: Tables) -> str:
    """Return who sends and receives the most."""
    columns: Columns = {
        "role": "role",
        "router": "router_id",
        "container": "container",
        "user": "user",
        "host": "host",
        "busiest address": _named,
        "messages": "messages",
        "bytes": _in(octets, "bytes"),
    }
    order = {"role": "ascending", "place": "ascending"}
    rows = tables.rows("talkers", pc.field("place") <= TALKERS, order, 2 * TALKERS)
    caption = f"The {TALKERS} clients that send the most, and that receive the most"
    return _table(rows, columns, caption, cards=True)


def capacity(tables: Tables) -> str:
    """Return the load of processes, and what is advised."""
    note = "Share of a CPU that messages cost: the mean, and what 99 of 100 minutes do not exceed."
    processes: Columns = {
        "router": "router_id",
        "process": lambda row: "core" if row["worker_id"] < 0 else f"worker {row['worker_id']}",
        "mean": _in(share, "load_mean"),
        "peak": _in(share, "load_peak"),
        "busiest minute": "busiest",
        "growth a day": _in(share, "growth_per_day"),
        "full in days": _in(days, "full_in_days"),
    }
    advice: Columns = {
        "router": "router_id",
        "workers": "workers",
        "should be": "workers_needed",
        "CPUs": "cpus",
        "next one in days": _in(days, "next_worker_in_days"),
        "advice": "pinning",
    }
    busiest = {"load_peak": "descending", "router_id": "ascending", "worker_id": "ascending"}
    rows = tables.rows("processes", order=busiest, most=PROCESSES)
    rows.sort(key=lambda row: (row["router_id"], row["worker_id"]))
    advised = tables.rows("advice", order={"worker_peak": "descending", "router_id": "ascending"}, most=ADVICE)
    advised.sort(key=itemgetter("router_id"))
    return (
        said(note)
        + _table(rows, processes, of(tables.count("processes"), PROCESSES, "Processes", "busiest"))
        + _table(advised, advice, of(tables.count("advice"), ADVICE, "Routers", "busiest"), cards=True)
    )


def log(summary: dict[str, Any]) -> str:
    """Return what the run read and left out."""
    numbers: dict[str, Cell | tuple[Cell, str]] = {
        "messages": (summary["messages"], "that clients sent"),
        "bytes": (octets(summary["bytes"]), "of these"),
        "hops": (summary["hops"], "of their copies, at all routers"),
        "records": summary["records"],
        "files": summary["files"],
        "records lost": (summary["lost"], "by gaps in their numbers"),
        "without room": (summary["dropped"], "records, in the routers"),
        "files left out": len(summary["skipped"]),
        "run made": Figure(str(summary["made"])[:16].replace("T", " ")),
    }
    skipped = summary["skipped"]
    left_out = ""
    if skipped:
        caption = of(len(skipped), FILES, "Files left out, and why", "first")
        left_out = table(("file",), [(str(one)[:300],) for one in skipped[:FILES]], caption=caption)
    return figures(numbers) + left_out
