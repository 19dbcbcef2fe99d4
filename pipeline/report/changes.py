"""What changed from the day before to the last day of the log, beyond limits that the report states."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.report.findings import ODD, Finding, Findings
from pipeline.report.page import Cell, Figure, counted, duration, figures, milliseconds, said, share, short, side, table
from pipeline.report.tables import Name, Tables, names
from pipeline.report.times import DAY, HOUR, Days
from pipeline.report.traffic import BUSIEST, FAILED, SUMS, Buckets, Counts, added, compared, latencies_of, percentile

SHOWN: Final = 12  # rows of a table
THERE: Final = 10  # messages that make an address new or gone
ENOUGH: Final = 100  # messages that a comparison needs
TIMES: Final = 1.5  # more, or less by as much, is a change of traffic or latency
LEAST_NS: Final = 1e6  # that latencies must differ
POINTS: Final = 0.01  # of the share that failed
FAILURES: Final = 10  # that one of the days must have


class Both(NamedTuple):
    """A value of the day before and of the last day."""

    old: float
    new: float

    @property
    def times(self) -> float:
        """How many times as much it became, or was before if it became less."""
        more, less = max(self), min(self)
        return more / less if less else float("inf")


class Changes(NamedTuple):
    """Everything that changed; names with values of both days, those that changed most first, and how many in all."""

    days: Days
    total: tuple[Counts, Counts]
    latency: tuple[Buckets, Buckets]
    new: tuple[list[tuple[Name, Both]], int]
    gone: tuple[list[tuple[Name, Both]], int]
    traffic: tuple[list[tuple[Name, Both]], int]
    p99: tuple[list[tuple[Name, Both]], int]
    failed: tuple[list[tuple[Name, Both]], int]
    begun: list[Finding]
    ended: list[Finding]


def changes(tables: Tables, days: Days, found: Findings) -> Changes:
    """Compare the two days."""
    both = compared(tables, days)
    old, new = both["messages_old"], both["messages_new"]
    enough = pc.or_(pc.greater_equal(old, ENOUGH), pc.greater_equal(new, ENOUGH))
    much = pc.or_(
        pc.greater_equal(pc.cast(new, pa.float64()), pc.multiply(pc.cast(old, pa.float64()), TIMES)),
        pc.greater_equal(pc.cast(old, pa.float64()), pc.multiply(pc.cast(new, pa.float64()), TIMES)),
    )
    here, there = pc.greater(new, 0), pc.greater(old, 0)
    total = (Counts(), Counts())
    for one, end in zip(total, ("_old", "_new"), strict=True):
        one.add({column: pc.sum(both[column + end]).as_py() or 0 for column in SUMS})
    failed_old, failed_new = _failed(both, "_old"), _failed(both, "_new")
    differs = pc.greater_equal(pc.abs(pc.subtract(failed_new, failed_old)), POINTS)
    many = pc.or_(
        pc.greater_equal(_failures(both, "_old"), FAILURES), pc.greater_equal(_failures(both, "_new"), FAILURES)
    )
    each = pc.and_(pc.greater_equal(old, ENOUGH), pc.greater_equal(new, ENOUGH))
    p99, latency = _p99(tables, days, both)
    before, now = ([one for one in found.every if one.within(span)] for span in (days.before, days.now))
    known, lasting = {one.same for one in before}, {one.same for one in now}
    return Changes(
        days,
        total,
        latency,
        _most(both, pc.and_(pc.invert(there), pc.greater_equal(new, THERE)), old, new),
        _most(both, pc.and_(pc.invert(here), pc.greater_equal(old, THERE)), old, new),
        _most(both, pc.and_(pc.and_(enough, much), pc.and_(here, there)), old, new),
        p99,
        _most(both, pc.fill_null(pc.and_(pc.and_(each, many), differs), False), failed_old, failed_new),
        [one for one in now if one.same not in known],
        [one for one in before if one.same not in lasting],
    )


def _failures(both: pa.Table, end: str) -> pa.ChunkedArray:
    """Return the messages of each name that were not accepted."""
    failed = both[FAILED[0] + end]
    for one in FAILED[1:]:
        failed = pc.add(failed, both[one + end])
    return failed


def _failed(both: pa.Table, end: str) -> pa.ChunkedArray:
    """Return the share of each name that was not accepted; null without messages."""
    failed = _failures(both, end)
    messages = pc.cast(both[f"messages{end}"], pa.float64())
    none = pa.scalar(None, pa.float64())
    return pc.divide(pc.cast(failed, pa.float64()), pc.if_else(pc.greater(messages, 0), messages, none))


def _most(
    both: pa.Table, chosen: pa.ChunkedArray, old: pa.ChunkedArray, new: pa.ChunkedArray
) -> tuple[list[tuple[Name, Both]], int]:
    """Return the chosen names whose values differ most, and how many there are."""
    rows = both.select(["address", "mtype"]).append_column("old", old).append_column("new", new).filter(chosen)
    rows = rows.append_column("apart", pc.abs(pc.subtract(rows["new"], rows["old"])))
    order = [("apart", "descending"), ("address", "ascending"), ("mtype", "ascending")]
    top = rows.take(pc.sort_indices(rows, sort_keys=order)).slice(0, SHOWN)
    values = zip(top["old"].to_pylist(), top["new"].to_pylist(), strict=True)
    return [(name, Both(*pair)) for name, pair in zip(names(top), values, strict=True)], len(rows)


def _p99(
    tables: Tables, days: Days, both: pa.Table
) -> tuple[tuple[list[tuple[Name, Both]], int], tuple[Buckets, Buckets]]:
    """Return the names whose p99 changed, among the busiest, and the latencies of all names together."""
    order = [("messages_new", "descending"), ("address", "ascending"), ("mtype", "ascending")]
    busiest = names(both.take(pc.sort_indices(both, sort_keys=order)).slice(0, BUSIEST))
    buckets = latencies_of(tables, days, busiest)
    found = []
    for name, (old, new) in zip(busiest, buckets, strict=False):
        if min(sum(old.values()), sum(new.values())) < ENOUGH:
            continue
        pair = Both(percentile(old, 990) or 0.0, percentile(new, 990) or 0.0)
        if pair.times >= TIMES and abs(pair.new - pair.old) >= LEAST_NS:
            found.append((name, pair))
    found.sort(key=lambda one: (-one[1].times, one[0].key))
    return (found[:SHOWN], len(found)), (added(old for old, _ in buckets), added(new for _, new in buckets))


def shown(made: Changes | None) -> str:
    """Return the chapter."""
    if made is None:
        return said(
            "The log has no more than one day, so there is no day before to compare it with. A run over two days or "
            "more makes this comparison."
        )
    now, before = (_span(one) for one in (made.days.now, made.days.before))
    part = "" if made.days.length == DAY else " The log has no more of the day before; the same hours are compared."
    note = f"The last day, {now}, and the day before, {before}.{part}"
    if not made.total[0].messages:
        return said(f"{note} The day before had no message, so nothing is compared.")
    quiet = [
        what
        for what, there in (
            (f"no address is new or gone ({THERE} messages or more)", made.new[1] + made.gone[1]),
            (f"no address has {TIMES:g} times the traffic or more, up or down", made.traffic[1]),
            (f"no p99 is {TIMES:g} times as long or as short, and {duration(LEAST_NS)} apart", made.p99[1]),
            ("the share that failed changed by less than one percentage point everywhere", made.failed[1]),
            ("no finding begins or ends", len(made.begun) + len(made.ended)),
        )
        if not there
    ]
    unchanged = said("Unchanged: " + "; ".join(quiet) + ".") if quiet else ""
    return said(note) + figures(_figures(made)) + _findings(made) + _addresses(made) + unchanged


def _span(span: tuple[int, int]) -> str:
    first, end = (datetime.fromtimestamp(one, UTC) for one in span)
    return f"{first:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"


def _figures(made: Changes) -> dict[str, tuple[Cell, str]]:
    old, new = made.total
    shown: dict[str, tuple[Cell, str]] = {
        "messages": (new.messages, f"{_grown(old.messages, new.messages)} (before {old.messages:,})"),
        "failed": (share(new.failed_share), f"before {share(old.failed_share) or 'no message'}"),
    }
    for name, per_mille in (("p50", 500), ("p99", 990)):
        was, now = (percentile(one, per_mille) for one in made.latency)
        shown[f"{name} of latency"] = (
            None if now is None else Figure(duration(now)),
            "before " + ("not known" if was is None else duration(was)),
        )
    shown["findings"] = (len(made.begun), f"new; {counted(len(made.ended), 'is', 'are')} over")
    return shown


def _became(pair: Both, points: bool) -> str:
    return f"{(pair.new - pair.old) * 100:+.1f} points" if points else _grown(*pair)


def _grown(old: float, new: float) -> str:
    """Return how much more it became."""
    if not old:
        return "new"
    if new >= old * 10:
        return f"{new / old:,.0f} times"
    more = (new / old - 1) * 100
    return f"{more:+.1f} %" if abs(more) < 9.95 else f"{more:+,.0f} %"


def _findings(made: Changes) -> str:
    rows = [
        (what, one.sentence(), one.when())
        for what, some in (("new", made.begun), ("over", made.ended))
        for one in sorted(some, key=lambda one: one.tone == ODD)[:SHOWN]
    ]
    more = _more(len(made.begun) + len(made.ended) - len(rows))
    caption = "Findings of one day and not of the other" + more
    return table(("finding", "what", "when"), rows, "", cards=True, caption=caption) if rows else ""


def _addresses(made: Changes) -> str:
    """Return a table of each kind of change that there is."""

    def count(value: float) -> Cell:
        return int(value)

    kinds: Sequence[tuple[str, tuple[list[tuple[Name, Both]], int], Any]] = (
        (f"New addresses: none of their messages the day before, {THERE} or more now", made.new, count),
        (f"Addresses that are gone: {THERE} messages or more the day before, none now", made.gone, count),
        (
            f"Traffic: messages {TIMES:g} times as many or as few, {ENOUGH} or more in one of the days",
            made.traffic,
            count,
        ),
        (
            f"p99 in ms: {TIMES:g} times as long or as short, {duration(LEAST_NS)} or more apart, {ENOUGH} messages or "
            f"more each day, of the {BUSIEST:,} busiest addresses",
            made.p99,
            milliseconds,
        ),
        (
            f"Share that was not accepted: one percentage point or more apart, {ENOUGH} messages or more each day, "
            f"{FAILURES} failures or more in one",
            made.failed,
            share,
        ),
    )
    parts = []
    for caption, (some, number), form in kinds:
        rows = [
            (str(name), form(pair.old), form(pair.new), Figure(_became(pair, form is share))) for name, pair in some
        ]
        if rows:
            heads = ("address", "day before", "last day", "change")
            parts.append(table(heads, rows, caption=caption + _more(number - len(rows))))
    return side(*parts)


def _more(number: int) -> str:
    return f"; {number:,} more are not shown" if number > 0 else ""


def sentence(made: Changes) -> str:
    """Return the change in one sentence, for the top of the page."""
    old, new = made.total
    hours = made.days.length // HOUR
    p99 = [percentile(one, 990) for one in made.latency]
    took = "" if p99[1] is None else f", and 99 of 100 took at most {duration(p99[1])} in a router"
    was = "" if p99[0] is None or p99[1] is None else f" ({duration(p99[0])} the day before)"
    before = share(old.failed_share) or "no message"
    failed = f"{share(new.failed_share) or 'none'} were not accepted ({before} the day before)"
    return (
        f"In the last {counted(hours, 'hour', 'hours')} "
        f"{counted(new.messages, 'message', 'messages', short(new.messages))} left the network or found no receiver "
        f"({_grown(old.messages, new.messages)} from the day before); {failed}{took}{was}."
    )
