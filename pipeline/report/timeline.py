"""The time line: findings, traffic, outcomes and latency over one axis, and a heat map of addresses."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from pipeline.report import charts
from pipeline.report.charts import Band, Heat, Lane
from pipeline.report.findings import ODD, Finding, Findings
from pipeline.report.page import Cell, Figure, folded, milliseconds, octets, said, share, table
from pipeline.report.tables import Name, Tables
from pipeline.report.times import QUARTER, Axis, axis
from pipeline.report.traffic import FAILED, Addresses, Buckets, Counts, added, by_slot, over_time, percentile

LANES: Final = 16  # findings with a line of their own
ROWS: Final = 16  # addresses in the heat map
NAMED: Final = 6  # of them because a finding names them
BANDS: Final = 40  # times that are marked in the plots
ALL_DAY: Final = 0.5  # of the log: a finding that is longer is no time to mark


# Colours of outcomes: the same each day, whichever there are.
COLOURS: Final = {"rejected": 1, "released": 5, "modified": 4, "undeliverable": 3, "aborted": 2, "dropped": 0}


class Row(NamedTuple):
    """A row of the heat map: a name, its messages, and its latencies by slot."""

    name: str
    counts: Counts
    slots: Sequence[Buckets]


class Timeline(NamedTuple):
    """What the plots show."""

    axis: Axis
    counts: Sequence[Counts]
    late: Axis  # of latencies, whose steps are a quarter of an hour or more
    rows: Sequence[Row]
    slots: Sequence[Buckets]  # of all names
    found: Findings


def timeline(tables: Tables, first: datetime, last: datetime, known: Addresses, found: Findings) -> Timeline:
    """Read what the plots show."""
    wide, late = axis(first, last), axis(first, last, QUARTER)
    chosen = _chosen(known, found)
    by = by_slot(tables, late, chosen)
    rest = Counts()
    for one in [known.others, *(counts for name, counts in known.known.items() if name not in chosen)]:
        rest.add({"messages": one.messages, "bytes": one.bytes, **one.outcomes})
    rows = [Row(str(name), known.known.get(name, Counts()), slots) for name, slots in zip(chosen, by, strict=False)]
    others = known.number - sum(name in known.known for name in chosen)
    if others:
        rows.append(Row(f"{others:,} others", rest, by[-1]))
    slots = [added(one[at] for one in by) for at in range(late.slots)]
    return Timeline(wide, over_time(tables, wide), late, rows, slots, found)


def _chosen(known: Addresses, found: Findings) -> list[Name]:
    """Return the busiest names, and some of those that findings name."""
    named = {one.name: None for one in found.wrong}
    busiest = list(known.known)
    wanted = [name for name in busiest if str(name) in named]
    first = busiest[:ROWS]
    extra = [name for name in wanted if name not in first][:NAMED]
    return sorted({*first[: ROWS - len(extra)], *extra}, key=busiest.index)


def shown(made: Timeline) -> str:
    """Return the chapter."""
    bands = _bands(made)
    step = made.axis.step
    most = max((one.messages for one in made.counts), default=0) / step
    traffic = charts.lines(
        "Messages a second",
        made.axis,
        [("messages", [one.messages / step for one in made.counts])],
        charts.rates(most, "/s"),
        bands,
    )
    return (
        said(
            f"All plots have the same time axis, in steps of {_minutes(step)}; dashed lines are midnights of UTC. What "
            "findings mark as out of the ordinary is shaded in every plot."
        )
        + _lanes(made)
        + traffic
        + _outcomes(made, bands)
        + _latency(made, bands)
        + folded("The figures of these plots", _figures(made))
        + _heat(made)
    )


def _minutes(step: int) -> str:
    return f"{step // 60} min" if step < 7200 else f"{step // 3600} h"


def _bands(made: Timeline) -> list[Band]:
    """Return the times of findings that are not most of the log."""
    whole = made.axis.slots * made.axis.step * ALL_DAY
    return [_band(one) for one in made.found.wrong if (one.row["last"] - one.row["first"]).total_seconds() < whole][
        :BANDS
    ]


def _band(one: Finding) -> Band:
    return Band(one.row["first"], one.row["last"], f"{one.sentence()}, {one.when()}")


def _lanes(made: Timeline) -> str:
    every = made.found.every
    rows = [
        Lane(f"{at} {one.kind}", f"finding-{at}", "warn" if one.tone == ODD else one.tone, [_band(one)])
        for at, one in enumerate(every[:LANES], 1)
    ]
    if not rows:
        return said("No finding: nothing is marked.")
    more = len(every) + made.found.more - len(rows)
    said_of = f"Findings: the {len(rows)} worst, {more:,} more in the table" if more else "Findings"
    return charts.lanes(said_of, made.axis, rows)


def _outcomes(made: Timeline, bands: Sequence[Band]) -> str:
    series = [
        (name, COLOURS[name], [one.outcomes[name] / one.messages if one.messages else None for one in made.counts])
        for name in FAILED
        if any(one.outcomes[name] for one in made.counts)
    ]
    if not series:
        return said("Every message was accepted, or settled by its sender.")
    most = max(one.failed_share or 0.0 for one in made.counts)
    title = "Outcomes: share that was not accepted"
    return charts.stacked(title, made.axis, series, charts.shares(most), bands)


def _latency(made: Timeline, bands: Sequence[Band]) -> str:
    series = [(name, [percentile(one, at) for one in made.slots]) for name, at in (("p50", 500), ("p99", 990))]
    scale = charts.latencies(value for _, values in series for value in values)
    return charts.lines("Time in a router, all messages", made.late, series, scale, bands)


def _figures(made: Timeline) -> str:
    outcomes = [name for name in FAILED if any(one.outcomes[name] for one in made.counts)]
    late = {made.late.when(at): one for at, one in enumerate(made.slots)}
    rows: list[list[Cell]] = []
    for at, one in enumerate(made.counts):
        when = made.axis.when(at)
        slot = late.get(when, {})
        rows.append(
            [
                f"{when:%m-%d %H:%M}",
                one.messages,
                *(one.outcomes[name] for name in outcomes),
                milliseconds(percentile(slot, 500)),
                milliseconds(percentile(slot, 990)),
            ]
        )
    heads = ("from", "messages", *outcomes, "p50, ms", "p99, ms")
    return table(heads, rows, caption="Messages, those that were not accepted, and time in a router")


def _heat(made: Timeline) -> str:
    p99 = [[percentile(one, 990) for one in row.slots] for row in made.rows]
    counts = [[sum(one.values()) for one in row.slots] for row in made.rows]
    drawn = charts.heat(
        "p99 of the time in a router, by address",
        made.late,
        [
            Heat(row.name, values, some, _marks(made, row.name))
            for row, values, some in zip(made.rows, p99, counts, strict=True)
        ],
    )
    note = said(
        f"Addresses are the busiest ones, and up to {NAMED} less busy ones that findings name; the others are one row. "
        "A cell says its time, its p99 and how many latencies it has, under the pointer. A frame is the time of a "
        "finding. Colours mean the same every day."
    )
    heads = ("from", *(row.name for row in made.rows))
    rows = [
        [f"{made.late.when(at):%m-%d %H:%M}", *(_both(row.slots[at]) for row in made.rows)]
        for at in range(made.late.slots)
    ]
    return (
        drawn
        + note
        + folded("The figures of the heat map, with p50", table(heads, rows, caption="p50 and p99 in ms by address"))
    )


def _both(slot: Buckets) -> Cell:
    """Return p50 and p99."""
    return Figure(f"{milliseconds(percentile(slot, 500))} / {milliseconds(percentile(slot, 990))}") if slot else None


def addresses(made: Timeline) -> str:
    """Return the chapter on addresses: a row and a plot for each."""
    note = (
        "Messages that left the network or found no receiver; failed are those that were not accepted. Latency is the "
        "time in a router, of each router that a message passed, within 4.4 % and a microsecond."
    )
    rows = []
    for row in made.rows:
        whole = added(row.slots)
        worst = max(((percentile(one, 990) or 0.0, at) for at, one in enumerate(row.slots) if one), default=(None, 0))
        rows.append(
            (
                row.name,
                row.counts.messages,
                octets(row.counts.bytes),
                share(row.counts.failed_share),
                milliseconds(percentile(whole, 500)),
                milliseconds(percentile(whole, 990)),
                None if worst[0] is None else Figure(f"{made.late.when(worst[1]):%m-%d %H:%M}"),
            )
        )
    heads = ("address", "messages", "bytes", "failed", "p50, ms", "p99, ms", "worst from")
    return (
        said(note)
        + charts_of(made)
        + table(heads, rows, caption="The busiest addresses, those that findings name, and all others")
    )


def charts_of(made: Timeline) -> str:
    """Return a small plot of p50 and p99 of each address, all with one scale."""
    series = [
        (row, [(name, [percentile(one, at) for one in row.slots]) for name, at in (("p50", 500), ("p99", 990))])
        for row in made.rows
    ]
    scale = charts.latencies(value for _, both in series for _, values in both for value in values)
    drawn = "".join(charts.lines(row.name, made.late, both, scale, _marks(made, row.name)) for row, both in series)
    return f'<div class="small">{drawn}</div>'


def _marks(made: Timeline, name: str) -> list[Band]:
    """Return the times of findings of a name."""
    return [_band(one) for one in made.found.wrong if one.name == name][:LANES]
