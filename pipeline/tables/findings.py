"""All findings in one table: anomalies in time, unusual paths, addresses without receivers."""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from pipeline.tables.anomalies import COLUMNS, anomalies


def findings(quarters: DataFrame, ways: DataFrame, unheard: DataFrame, earlier: DataFrame | None = None) -> DataFrame:
    """Return one row for each finding, from `observed`, also that of ``earlier`` days, `ways` and `unheard`."""
    loops = _of_ways(ways.where("loop"), "loop", f.lit("a router is twice on the path; loop protection ended it"))
    detours = _of_ways(ways.where("detour"), "detour", f.lit("longer than the usual path between these two routers"))
    pairs = ways.where("asymmetric and origin < target")
    way_back = f.format_string("the usual path back is %s", f.col("way_back"))
    asymmetric = _of_ways(pairs, "asymmetric pair", way_back)
    nobody = unheard.select(
        *_common("no consumers"), f.col("routers")[0].alias("router_id"), "address", "mtype",
        _none("string").alias("container"), f.col("messages").alias("n"),
        _none("double").alias("value"), _none("double").alias("usual"),
        f.lit("messages were sent, and none went to a receiver").alias("evidence"),
    )  # fmt: skip
    parts = (anomalies(quarters, earlier=earlier), loops, detours, asymmetric, nobody)
    return reduce(DataFrame.unionByName, (part.select(*COLUMNS) for part in parts)).orderBy(
        "first", "kind", "router_id", "address", "container"
    )


def _of_ways(found: DataFrame, kind: str, evidence: Column) -> DataFrame:
    return found.select(
        *_common(kind), f.col("target").alias("router_id"), "address", f.lit(-1).alias("mtype"),
        f.col("path").alias("container"), f.col("messages").alias("n"),
        f.col("routers").cast("double").alias("value"), _none("double").alias("usual"),
        evidence.alias("evidence"),
    )  # fmt: skip


def _common(kind: str) -> tuple[Column, ...]:
    return f.lit(kind).alias("kind"), f.col("first"), f.col("last")


def _none(kind: str) -> Column:
    return f.lit(None).cast(kind)
