"""Paths through the network: hops and their latency, detours, pairs with different paths back, loops.

The clocks of two routers differ. The time from one to the other seems longer by the difference, the time back shorter.
The clocks therefore differ by half of the difference between the quickest messages of the two directions.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from pipeline.flow_log.records import require
from pipeline.tables.flows import INNER, added, outer
from pipeline.tables.measures import merged, origin, placed, ranked, weight

NEEDS: Final = (
    "ts", "router_id", "egress_kind", "peer_container", "path", "msg_id_hash", "message_number",
    "n_deliveries", "sample_weight", "latency_ns",
)  # fmt: skip


def _followed(log: DataFrame) -> DataFrame:
    """Return records of messages that can be recognised, with times by their router's clock."""
    began = f.unix_micros("ts") * 1000
    return (
        require(log, NEEDS, "paths")
        .where("path is not null and msg_id_hash is not null")
        .select(
            "msg_id_hash",
            "message_number",
            "path",
            "router_id",
            "peer_container",
            (f.col("egress_kind") == INNER).alias("inner"),
            weight().alias("weight"),
            began.alias("began_ns"),
            (began + f.col("latency_ns")).alias("ended_ns"),
        )
    )


def links(flows: DataFrame, log: DataFrame) -> DataFrame:
    """Return one row for each pair of neighbours: messages, and their time between the two by both clocks.

    The time is from the one router's last byte to the other's first: ``least_ns``, and percentiles. Records are joined
    by message: those without ``msg_id_hash``, or with one of several messages, count in the messages, not in the times.
    """
    counts = (
        flows.where("egress_kind = 'inter_router' and path is not null and passed > 0")
        .groupBy("router_id", f.col("peer_container").alias("onward"))
        .agg(f.sum("passed").alias("messages"), f.sum("passed_bytes").alias("bytes"))
    )
    return counts.join(_transit(log), ["router_id", "onward"], "left")


def _transit(log: DataFrame) -> DataFrame:
    """Return the least time and percentiles of each pair of neighbours, by both clocks.

    The records of both ends of a link share the message, and the path of the second end. A record in the middle of a
    path is of both ends. Copies of one message to several receivers came over the link once.
    """
    followed = _followed(log)
    sent = f.col("inner") & f.col("ended_ns").isNotNull() & f.col("peer_container").isNotNull()
    came = f.locate(">", f.col("path")) > 0
    at_end = f.col("side") == 1  # of the link; a record may be of one link's second end and of another's first
    seen = (
        followed.select("*", f.explode(f.array(f.lit(0), f.lit(1))).alias("side"))
        .where(f.when(at_end, came).otherwise(sent))
        .select(
            "msg_id_hash",
            f.when(at_end, f.col("path")).otherwise(f.concat("path", f.lit(">"), "peer_container")).alias("way"),
            f.when(~at_end, f.col("weight")).alias("weight"),
            f.when(~at_end, f.col("ended_ns")).alias("sent_ns"),
            f.when(at_end, f.col("began_ns")).alias("came_ns"),
            f.when(~at_end, f.col("message_number")).alias("sent_number"),
            f.when(at_end, f.col("message_number")).alias("came_number"),
        )
    )
    passed = (
        seen.repartition("msg_id_hash", "way")  # before it hardly two records of a group are in one partition
        .groupBy("msg_id_hash", "way")
        .agg(
            f.min("sent_ns").alias("sent_ns"),
            f.min("came_ns").alias("came_ns"),
            f.max("weight").alias("weight"),
            _alike("sent_number").alias("sent_alone"),
            _alike("came_number").alias("came_alone"),
        )
        .where("sent_ns is not null and came_ns is not null and sent_alone and came_alone")
        .select("way", (f.col("came_ns") - f.col("sent_ns")).alias("transit"), "weight")
    )
    times = passed.select(f.substring_index("way", ">", -2).alias("pair"), "transit", "weight")
    found = (
        placed(merged(times, ["pair"], "transit"), ["pair"], "transit")
        .groupBy("pair")
        .agg(f.min("transit").alias("least_ns"), *ranked("transit", ("p50", "p99")))
    )
    return found.select(
        f.substring_index("pair", ">", 1).alias("router_id"),
        f.substring_index("pair", ">", -1).alias("onward"),
        "least_ns", "transit_n", "transit_p50", "transit_p99",
    )  # fmt: skip


def _alike(number: str) -> Column:
    """Return whether records are of one message, by their message numbers, as far as they have any."""
    return f.equal_null(f.min(number), f.max(number))


def hops(pairs: DataFrame) -> DataFrame:
    """Return `links` with corrected times; ``clock_ns`` is by how much the clock of ``onward`` is ahead.

    If nothing came back, ``clock_ns`` is null and times are not corrected.
    """
    back = pairs.select(
        f.col("router_id").alias("onward"), f.col("onward").alias("router_id"), f.col("least_ns").alias("back_ns")
    )
    clock = ((f.col("least_ns") - f.col("back_ns")) / 2).cast("long")
    ahead = f.coalesce("clock_ns", f.lit(0))
    return (
        pairs.join(back, ["router_id", "onward"], "left")
        .withColumn("clock_ns", clock)
        .select(
            "router_id",
            "onward",
            "messages",
            "bytes",
            "clock_ns",
            f.coalesce("transit_n", f.lit(0)).alias("transit_n"),
            (f.col("transit_p50") - ahead).alias("transit_p50"),
            (f.col("transit_p99") - ahead).alias("transit_p99"),
        )
    )


def taken(flows: DataFrame) -> DataFrame:
    """Return one row for each path that messages took: how many, when, and one of their addresses."""
    left = flows.where(f.col("path").isNotNull() & outer("egress_kind"))
    return (
        left.groupBy(origin().alias("origin"), f.col("router_id").alias("target"), "path")
        .agg(
            *added(),
            f.min("first").alias("first"),
            f.max("last").alias("last"),
            f.max(f.struct("heaviest", "address")).alias("example"),
        )
        .select(
            "origin", "target", "path", "messages", "bytes", "first", "last",
            f.col("example.address").alias("address"),
        )
    )  # fmt: skip


def ways(ended: DataFrame) -> DataFrame:
    """Return `taken` with the kinds of each path.

    ``usual`` is the path between its two routers that most messages took, a ``detour`` is longer. On a ``loop`` a
    router occurs twice, and loop protection ended it. An ``asymmetric`` path is the usual one and not the reverse of
    the usual path of the other direction, ``way_back``.
    """
    routers = f.split("path", ">")
    found = ended.select(
        "*", f.size(routers).alias("routers"), (f.size(f.array_distinct(routers)) < f.size(routers)).alias("loop")
    )
    by_use = Window.partitionBy("origin", "target").orderBy(f.col("loop"), f.desc("messages"), "path")
    most = found.withColumn("place", f.row_number().over(by_use)).withColumn(
        "usual_routers", f.first("routers").over(by_use)
    )
    marked = most.withColumn("usual", (f.col("place") == 1) & ~f.col("loop")).withColumn(
        "detour", ~f.col("loop") & (f.col("routers") > f.col("usual_routers"))
    )
    back = marked.where("usual").select(
        f.col("origin").alias("target"), f.col("target").alias("origin"), f.col("path").alias("way_back")
    )
    turned = f.array_join(f.reverse(f.split("way_back", ">")), ">")
    asymmetric = f.col("usual") & f.coalesce(f.col("path") != turned, f.lit(False))
    return (
        marked.join(back, ["origin", "target"], "left")
        .withColumn("asymmetric", asymmetric)
        .select(
            "origin", "target", "path", "routers", "messages", "bytes", "first", "last",
            "address", "usual", "detour", "loop", "asymmetric", "way_back",
        )
    )  # fmt: skip


def journeys(log: DataFrame, pairs: DataFrame) -> DataFrame:
    """Return one row for each path: the corrected time of messages from entering the network to leaving it.

    ``pairs`` is the result of `hops`. The times of a path with a link over which nothing came back are not corrected,
    and its ``clock_ns`` is null.
    """
    known = _followed(log).where("ended_ns is not null")
    began = (
        known.where("path = router_id and inner")  # first records of messages that other routers forward
        .groupBy("msg_id_hash", f.col("router_id").alias("origin"))
        .agg(f.min("began_ns").alias("start_ns"), _alike("message_number").alias("alone"))
        .where("alone")
    )
    times = (
        known.where("path <> router_id and (inner is null or not inner)")
        .select("msg_id_hash", origin().alias("origin"), "path", "ended_ns", "weight")
        .join(began, ["msg_id_hash", "origin"])
        .select("path", (f.col("ended_ns") - f.col("start_ns")).alias("took"), "weight")
    )
    shown = ("p50", "p90", "p99")
    found = placed(merged(times, ["path"], "took"), ["path"], "took").groupBy("path").agg(*ranked("took", shown))
    return _set_right(found, pairs, [f"took_{one}" for one in shown])


def _set_right(found: DataFrame, pairs: DataFrame, times: list[str]) -> DataFrame:
    """Return times less the lead of the last router's clock over the first one's, added up link by link."""
    routers = f.split("path", ">")
    links = f.arrays_zip(
        f.slice(routers, 1, f.size(routers) - 1).alias("router_id"),
        f.slice(routers, 2, f.size(routers) - 1).alias("onward"),
    )
    clock = f.when(f.count("clock_ns") == f.count("*"), f.sum("clock_ns")).alias("clock_ns")
    ahead = f.coalesce("clock_ns", f.lit(0))
    return (
        found.select("*", f.explode_outer(links).alias("link"))
        .select("*", "link.*")
        .join(pairs.select("router_id", "onward", "clock_ns"), ["router_id", "onward"], "left")
        .groupBy("path")
        .agg(clock, *(f.first(name).alias(name) for name in ("took_n", *times)))
        .select("path", "clock_ns", "took_n", *((f.col(one) - ahead).alias(one) for one in times))
    )
