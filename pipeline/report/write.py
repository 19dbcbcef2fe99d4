"""The report: the results of a run as one self-contained HTML page."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from pipeline.output.generations import REPORT
from pipeline.output.results import Results
from pipeline.report.page import Cell, bars, days, figures, lines, milliseconds, octets, page, period, said, share, table
from shm.contract.flow_log.schema import OUTCOMES

POINTS: Final = 240  # of a line at most
BUSIEST: Final = 4  # addresses with a line of their own
SHOWN: Final = 15  # addresses with a bar
WAYS: Final = 40
TALKERS: Final = 10
WELL: Final = ("accepted", "presettled")  # outcomes of messages that did not fail

Row = dict[str, Any]
Rows = list[Row]
Columns = Mapping[str, str | Callable[[Row], Cell]]  # by heading: a field of a row, or what to make of a row


def report(results: Results) -> str:
    """Write the page from the results of a run and return its path. Raises ``PipelineError`` if there are none."""
    summary = results.generation.summary()
    matrix = results.read("traffic").where("egress_kind is null or egress_kind <> 'inter_router'")
    parts = {
        "": _summary(summary),
        "Findings": _findings(results),
        "Messages over time": _over_time(matrix),
        "Busiest addresses": _addresses(matrix),
        "Traffic matrix": _pairs(matrix),
        "Links between routers": _links(results),
        "Paths through the network": _ways(results),
        "Top talkers": _talkers(results),
        "Capacity": _capacity(results),
    }
    note = "The log is empty."
    if summary["first_minute"] is not None:
        first, last = (_minute(summary[name]) for name in ("first_minute", "last_minute"))
        note = f"{period(first, last)}. All times are UTC."
    return results.generation.write_text(REPORT, page("Flow log of routerd", note, parts))


def _minute(text: str) -> datetime:
    """Return a minute of the summary, which Spark wrote as text, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _rows(frame: DataFrame) -> Rows:
    """Return the rows as dictionaries, with times that know their zone."""
    return list(frame.toArrow().to_pylist())


def _table(frame: DataFrame, columns: Columns, empty: str = "nothing", cards: bool = False) -> str:
    take = [itemgetter(one) if isinstance(one, str) else one for one in columns.values()]
    return table(tuple(columns), [[one(row) for one in take] for row in _rows(frame)], empty, cards)


def _in(form: Callable[[Any], Cell], field: str) -> Callable[[Row], Cell]:
    return lambda row: form(row[field])


def _named(row: Row) -> str:
    """Return what messages were sent to: an address, a message type of a route table, or both."""
    names = [] if row["address"] is None else [str(row["address"])]
    if row["mtype"] >= 0:
        names.append(f"message type {row['mtype']}")
    return ", ".join(names) or "no address"


def _summary(summary: dict[str, Any]) -> str:
    shown: dict[str, Cell] = {
        "messages": summary["messages"],
        "bytes": octets(summary["bytes"]),
        "records": summary["records"],
        "files": summary["files"],
        "records lost": summary["lost"],
        "of them without room": summary["dropped"],
        "files left out": len(summary["skipped"]),
    }
    left_out = table(("files left out",), [(one,) for one in summary["skipped"]]) if summary["skipped"] else ""
    return figures(shown) + left_out


def _findings(results: Results) -> str:
    note = "What is out of the ordinary, with evidence; n messages show it. Times are by the clock of the router named."
    columns: Columns = {
        "what": "kind",
        "when": lambda row: period(row["first"], row["last"]),
        "router": "router_id",
        "address": _named,
        "receiver, path or error": "container",
        "n": "n",
        "evidence": "evidence",
    }
    found = results.read("findings").orderBy("first", "kind", "address")
    return said(note) + _table(found, columns, "Nothing is out of the ordinary.", cards=True)


def _over_time(matrix: DataFrame) -> str:
    edges = matrix.agg(f.unix_seconds(f.min("minute")), f.unix_seconds(f.max("minute"))).collect()[0]
    if edges[0] is None:
        return said("No message left the network.")
    step = max(60, (edges[1] - edges[0]) // POINTS // 60 * 60)
    busiest = _by_address(matrix, BUSIEST)
    slot = f.floor((f.unix_seconds("minute") - edges[0]) / step)
    counted = matrix.groupBy(slot.alias("slot")).agg(
        f.sum("messages").alias("all"),
        *(f.sum(f.when(_is(one), f.col("messages")).otherwise(0)).alias(f"a{at}") for at, one in enumerate(busiest)),
    )
    found = {row["slot"]: row for row in _rows(counted)}
    slots = range((edges[1] - edges[0]) // step + 1)

    def rates(column: str) -> list[float]:
        """Return messages a second by slot; a slot without messages has no row."""
        return [found[one][column] / step if one in found else 0.0 for one in slots]

    series = {"all": rates("all")}
    series |= {_named(one): rates(f"a{at}") for at, one in enumerate(busiest)}
    return said(
        f"Messages a second that left the network or found no receiver, in steps of {step // 60} min: all, and "
        "those of the busiest addresses."
    ) + lines(datetime.fromtimestamp(edges[0], UTC), step, series, "/s")


def _is(one: Row) -> Any:
    return f.col("address").eqNullSafe(f.lit(one["address"])) & (f.col("mtype") == one["mtype"])


def _by_address(matrix: DataFrame, limit: int) -> Rows:
    totals = matrix.groupBy("address", "mtype").agg(
        *(f.sum(name).alias(name) for name in ("messages", "bytes", *OUTCOMES))
    )
    return _rows(totals.orderBy(f.desc("messages"), "address", "mtype").limit(limit))


def _addresses(matrix: DataFrame) -> str:
    rows = _by_address(matrix, SHOWN)
    return said("Messages that left the network or found no receiver; failed are those that were not accepted.") + bars(
        [
            (
                _named(row),
                row["messages"],
                octets(row["bytes"]),
                share(1 - sum(row[name] for name in WELL) / row["messages"]),
            )
            for row in rows
            if row["messages"]
        ],
        ("address", "messages", "bytes", "failed"),
    )


def _pairs(matrix: DataFrame) -> str:
    rows = _rows(matrix.groupBy("origin", "router_id").agg(f.sum("messages").alias("messages")))
    counts = {(row["origin"], row["router_id"]): row["messages"] for row in rows}
    routers = sorted({one for pair in counts for one in pair})
    return said("Messages from the router where they came in to the one where they left.") + table(
        ("from", *(f"to {one}" for one in routers)),
        [(one, *(counts.get((one, to), 0) for to in routers)) for one in routers],
    )


def _links(results: Results) -> str:
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
        "p50, ms": _in(milliseconds, "transit_p50"),
        "p99, ms": _in(milliseconds, "transit_p99"),
    }
    return said(note) + _table(results.read("hops").orderBy("router_id", "onward"), columns)


def _ways(results: Results) -> str:
    note = (
        f"The {WAYS} most used. Times are from entering the network to leaving it, of the messages that were followed."
    )
    columns: Columns = {
        "path": "path",
        "messages": "messages",
        "what it is": lambda row: ", ".join(one for one in ("usual", "detour", "loop", "asymmetric") if row[one]),
        "followed": "took_n",
        "p50, ms": _in(milliseconds, "took_p50"),
        "p99, ms": _in(milliseconds, "took_p99"),
    }
    ways = results.read("ways").join(results.read("journeys"), "path", "left")
    return said(note) + _table(ways.orderBy(f.desc("messages"), "path").limit(WAYS), columns)


def _talkers(results: Results) -> str:
    note = f"The {TALKERS} clients that send the most, and that receive the most, by connection and address."
    columns: Columns = {
        "role": "role",
        "router": "router_id",
        "connection": _in(str, "connection"),
        "container": "container",
        "address": _named,
        "messages": "messages",
        "bytes": _in(octets, "bytes"),
    }
    talkers = results.read("talkers").where(f"place <= {TALKERS}").orderBy("role", "place")
    return said(note) + _table(talkers, columns, cards=True)


def _capacity(results: Results) -> str:
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
    load = _table(results.read("processes").orderBy("router_id", "worker_id"), processes)
    return said(note) + load + _table(results.read("advice").orderBy("router_id"), advice, cards=True)
