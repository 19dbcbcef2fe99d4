"""Findings as a reader needs them: how bad each one is, whether it goes on, and a sentence that says what and where."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import pyarrow.compute as pc

from pipeline.report.page import period
from pipeline.report.tables import Row, Tables, named
from pipeline.report.times import QUARTER

GOES_ON: Final = timedelta(seconds=2 * QUARTER)  # before the end of the log; a gap as long ends a finding
LATEST: Final = 2000  # findings that are looked at one by one

# The kinds of findings, the worst first: messages are lost to somebody, then late, then on an odd way.
FAILS, LATE, ODD = "bad", "warn", "odd"
KINDS: Final = {
    "error burst": (FAILS, "Messages to {name} fail"),
    "no consumers": (FAILS, "Nobody receives what is sent to {name}"),
    "loop": (FAILS, "Messages to {name} go in a circle, {container}"),
    "slow consumer": (LATE, "The receiver {container} of {name} is slow"),
    "credit starvation": (LATE, "The receiver {container} of {name} grants too little credit"),
    "latency shift": (LATE, "Messages to {name} take longer than on earlier days"),
    "detour": (ODD, "Messages to {name} take a detour, {container}"),
    "asymmetric pair": (ODD, "The way back differs from {container}"),
}
UNKNOWN: Final = (LATE, "{kind}: {name}")
_RANK: Final = {kind: at for at, kind in enumerate(KINDS)}


class Finding(NamedTuple):
    """A row of the table of findings, and whether it still was so when the log ended."""

    row: Row
    goes_on: bool

    @property
    def kind(self) -> str:
        """What it is, such as `slow consumer`."""
        return str(self.row["kind"])

    @property
    def tone(self) -> str:
        """How bad it is; a kind that this version does not know is not hidden among the odd ones."""
        return KINDS.get(self.kind, UNKNOWN)[0]

    @property
    def name(self) -> str:
        """What the messages were sent to."""
        return named(self.row["address"], self.row["mtype"])

    @property
    def same(self) -> tuple[object, ...]:
        """What findings of two days have in common if they are the same one."""
        return tuple(self.row[one] for one in ("kind", "router_id", "address", "mtype", "container"))

    def sentence(self) -> str:
        """Return what is wrong and where."""
        text = KINDS.get(self.kind, UNKNOWN)[1]
        container = self.row["container"] or "without a name"
        at = f" (router {self.row['router_id']})" if self.row["router_id"] else ""
        return text.format(kind=self.kind.capitalize(), name=self.name, container=container) + at

    def when(self) -> str:
        """Return since when, or from when to when."""
        if self.goes_on:
            return f"since {self.row['first'].astimezone(UTC):%Y-%m-%d %H:%M}"
        return period(self.row["first"], self.row["last"])

    def within(self, span: tuple[int, int]) -> bool:
        """Return whether it was so at some time of a period."""
        first, end = span
        return bool(self.row["first"].timestamp() < end and self.row["last"].timestamp() >= first)


class Findings(NamedTuple):
    """All findings: the worst first, those that go on before those that are over; ``more`` were not looked at."""

    every: Sequence[Finding]
    more: int

    @property
    def wrong(self) -> list[Finding]:
        """Those of which somebody has a damage."""
        return [one for one in self.every if one.tone != ODD]

    @property
    def odd(self) -> list[Finding]:
        """Those of unusual paths."""
        return [one for one in self.every if one.tone == ODD]


def findings(tables: Tables, end: datetime) -> Findings:
    """Return the findings of a log that ends at this time; of very many those that ended last."""
    order = {"last": "descending", "kind": "ascending", "n": "descending", "address": "ascending"}
    rows = tables.rows("findings", order=order, most=LATEST)
    every = [Finding(row, row["last"] >= end - GOES_ON) for row in rows]
    every.sort(key=lambda one: (not one.goes_on, _RANK.get(one.kind, 0), -one.row["n"], one.row["first"]))
    return Findings(every, tables.count("findings") - len(rows))


def addresses(tables: Tables, most: int) -> set[tuple[bytes | None, int]]:
    """Return addresses and message types that findings name, of at most so many findings that ended last."""
    read = tables.summed(
        "findings",
        {one: pc.field(one) for one in ("address", "mtype", "last")},
        {"n": pc.field("n")},
        pc.field("kind").isin([kind for kind, (tone, _) in KINDS.items() if tone != ODD]),
    )
    last = read.take(pc.sort_indices(read, sort_keys=[("last", "descending"), ("n", "descending")])).slice(0, most)
    return set(zip(last["address"].cast("binary").to_pylist(), last["mtype"].to_pylist(), strict=True))
