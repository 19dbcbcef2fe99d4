"""Rollups of one hour added up, each of other records: for hours of which the log has lost records already.

Counts and sums add up. What does not (percentiles, means) is that of the row with the most messages, where two rows
are of the same minute or quarter, router, address and receiver.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from pipeline.tables import anomalies, flows, traffic
from pipeline.tables.measures import PERCENTILES

Add = Callable[[DataFrame], DataFrame]


def _added(
    rows: DataFrame,
    key: Iterable[str],
    least: Iterable[str] = (),
    most: Iterable[str] = (),
    by: Iterable[tuple[str, str]] = (),
) -> DataFrame:
    """Return one row for each key, with the sums of all columns that are not named otherwise.

    ``by`` are columns that do not add up, each with the one that says of how much it is.
    """
    found: dict[str, Column] = {name: f.min(name) for name in least} | {name: f.max(name) for name in most}
    found |= {name: f.max(f.struct(weight, name))[name] for name, weight in by}
    found |= {name: f.sum(name) for name in rows.columns if name not in (*key, *found)}
    return rows.groupBy(*key).agg(*(column.alias(name) for name, column in found.items())).select(*rows.columns)


_MINUTES: Final = ("minute", "router_id", "worker_id")
_QUARTERS: Final = ("quarter", *anomalies.WHERE, "outer")
_OF_QUARTERS: Final = (
    ("error", "failed"), ("latency_mean", "n"), ("credit_mean", "n"), ("answer_p50", "answer_n"), ("own_p50", "own_n"),
)  # fmt: skip


def _alike(rows: DataFrame) -> DataFrame:
    """Return rows that are equal but for messages, weights and bytes as one, with these added up."""
    return _added(rows, [name for name in rows.columns if name not in ("messages", "weight", "bytes")])


ADDED: Final[dict[str, Add]] = {  # by rollup
    "minutes": partial(_added, key=_MINUTES),
    "flows": partial(
        _added, key=("began", *flows.KEY), least=("first",), most=("last", "heaviest", "nobody", "by_meid")
    ),
    "traffic": partial(
        _added, key=traffic.KEY, most=("latency_max",), by=[(f"latency_{name}", "latency_n") for name in PERCENTILES]
    ),
    "latencies": partial(_added, key=("quarter", "address", "mtype", "bucket")),
    "quarters": partial(_added, key=_QUARTERS, by=_OF_QUARTERS),
    "endpoints": _alike,
    "passages": _alike,
    "trips": _alike,
}
