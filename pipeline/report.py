"""The report: results of a run, or of a stream, as one HTML page that needs nothing else."""

from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from pipeline.page import bars, lines, milliseconds, page, section, table
from pipeline.storage import Results

REPORT: Final = "report.html"
POINTS: Final = 240  # on a line
BUSIEST: Final = 4  # addresses that have a line of their own

Rows = list[dict[str, Any]]


def report(results: Results) -> str:
    """Make the page from the results of a run; where it stands. Raises PipelineError: there are none."""
    said = results.summary()
    parts = [_summary(said)]
    matrix = results.read("traffic").where("egress_kind is null or egress_kind <> 'inter_router'")
    parts += [
        _findings(results), _over_time(matrix), _addresses(matrix), _pairs(matrix), _links(results),
        _ways(results), _talkers(results), _capacity(results),
    ]  # fmt: skip
    return results.write_text(REPORT, page("Flow log of routerd", parts))


def _rows(frame: DataFrame) -> Rows:
    """As dictionaries, with times that know their zone."""
    return list(frame.toArrow().to_pylist())


def _named(row: dict[str, Any]) -> str:
    """What messages were sent to: an address, or a message type of a route table."""
    return str(row["address"]) if row["address"] is not None else f"message type {row['mtype']}"


def _summary(said: dict[str, Any]) -> str:
    left_out = table(("files left out",), [(one,) for one in said["skipped"]]) if said["skipped"] else ""
    return (
        table(
            ("from", "to", "records", "messages", "bytes", "files", "records lost", "dropped by routers"),
            [
                (said["first_minute"], said["last_minute"], said["records"], said["messages"], said["bytes"],
                 said["files"], said["lost"], said["dropped"]),
            ],
        )
        + left_out
    )  # fmt: skip


def _findings(results: Results) -> str:
    rows = _rows(results.read("findings").orderBy("first", "kind", "address"))
    return section(
        "Findings",
        "What is out of the ordinary, with the evidence. Times are UTC, by the clock of the router named.",
        table(
            ("what", "from", "to", "router", "address", "receiver, way or error", "n", "evidence"),
            [
                (
                    r["kind"],
                    r["first"],
                    r["last"],
                    r["router_id"],
                    _named(r),
                    r["container"],
                    r["n"],
                    r["evidence"],
                )
                for r in rows
            ],
            "nothing is out of the ordinary",
        ),
    )


def _over_time(matrix: DataFrame) -> str:
    edges = matrix.agg(f.unix_seconds(f.min("minute")), f.unix_seconds(f.max("minute"))).collect()[0]
    if edges[0] is None:
        return section("Messages over time", "The log is empty.")
    step = max(60, (edges[1] - edges[0]) // POINTS // 60 * 60)
    busiest = [_named(row) for row in _by_address(matrix, BUSIEST)]
    name = f.coalesce("address", f.format_string("message type %s", f.col("mtype")))
    slot = f.floor((f.unix_seconds("minute") - edges[0]) / step)
    counted = matrix.groupBy(slot.alias("slot")).agg(
        f.timestamp_seconds(f.min(edges[0] + slot * step)).alias("time"),
        f.sum("messages").alias("all"),
        *(
            f.sum(f.when(name == one, f.col("messages")).otherwise(0)).alias(f"a{at}")
            for at, one in enumerate(busiest)
        ),
    )
    rows = _rows(counted.orderBy("slot"))
    series = {"all": [row["all"] / step for row in rows]}
    series |= {one: [row[f"a{at}"] / step for row in rows] for at, one in enumerate(busiest)}
    return section(
        "Messages over time",
        f"Messages a second that left the network, in steps of {step} s.",
        lines([row["time"] for row in rows], series, "/s"),
    )


def _by_address(matrix: DataFrame, limit: int) -> Rows:
    sums = matrix.groupBy("address", "mtype").agg(f.sum("messages").alias("messages"))
    return _rows(sums.orderBy(f.desc("messages"), "address", "mtype").limit(limit))


def _addresses(matrix: DataFrame) -> str:
    rows = [(_named(row), row["messages"]) for row in _by_address(matrix, 15)]
    return section("Busiest addresses", "Messages that left the network, or went to nobody.", bars(rows))


def _pairs(matrix: DataFrame) -> str:
    rows = _rows(matrix.groupBy("origin", "router_id").agg(f.sum("messages").alias("messages")))
    counts = {(row["origin"], row["router_id"]): row["messages"] for row in rows}
    routers = sorted({one for pair in counts for one in pair})
    return section(
        "Traffic matrix",
        "Messages from the router where they came in (rows) to the one where they left (columns).",
        table(("", *routers), [(one, *(counts.get((one, to), 0) for to in routers)) for one in routers]),
    )


def _links(results: Results) -> str:
    rows = _rows(results.read("hops").orderBy("router_id", "onward"))
    return section(
        "Links between routers",
        "Time between the two, set right by what their clocks differ by; n is of messages found at both.",
        table(
            ("from", "to", "messages", "clock ahead, ms", "n", "p50, ms", "p99, ms"),
            [
                (r["router_id"], r["onward"], r["messages"], milliseconds(r["clock_ns"]), r["transit_n"],
                 milliseconds(r["transit_p50"]), milliseconds(r["transit_p99"]))
                for r in rows
            ],
        ),
    )  # fmt: skip


def _ways(results: Results) -> str:
    ways = results.read("ways").join(results.read("journeys"), "path", "left")
    rows = _rows(ways.orderBy(f.desc("messages"), "path").limit(40))
    return section(
        "Ways through the network",
        "From entering to leaving it; times are end to end, where messages could be followed.",
        table(
            ("way", "messages", "usual", "detour", "loop", "asymmetric", "n", "p50, ms", "p99, ms"),
            [
                (r["path"], r["messages"], r["usual"], r["detour"], r["loop"], r["asymmetric"], r["took_n"],
                 milliseconds(r["took_p50"]), milliseconds(r["took_p99"]))
                for r in rows
            ],
        ),
    )  # fmt: skip


def _talkers(results: Results) -> str:
    rows = _rows(results.read("talkers").where("place <= 10").orderBy("role", "place"))
    return section(
        "Top talkers",
        "Clients that send and receive the most, by connection and address.",
        table(
            ("role", "router", "connection", "container", "address", "messages", "bytes"),
            [
                (
                    r["role"],
                    r["router_id"],
                    str(r["connection"]),
                    r["container"],
                    _named(r),
                    r["messages"],
                    r["bytes"],
                )
                for r in rows
            ],
        ),
    )


def _capacity(results: Results) -> str:
    processes = _rows(results.read("processes").orderBy("router_id", "worker_id"))
    told = _rows(results.read("advice").orderBy("router_id"))
    return section(
        "Capacity",
        "Share of a CPU: the mean, and what 99 of 100 minutes do not exceed.",
        table(
            ("router", "process", "mean", "peak", "busiest minute", "growth a day", "full in days"),
            [
                (r["router_id"], "core" if r["worker_id"] < 0 else f"worker {r['worker_id']}", r["load_mean"],
                 r["load_peak"], r["busiest"], r["growth_per_day"], r["full_in_days"])
                for r in processes
            ],
        ),
        table(
            ("router", "workers", "should be", "CPUs", "next one in days", "advice"),
            [
                (r["router_id"], r["workers"], r["workers_needed"], r["cpus"], r["next_worker_in_days"],
                 r["pinning"])
                for r in told
            ],
        ),
    )  # fmt: skip
