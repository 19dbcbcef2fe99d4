"""Ways through the network: hops and their latency, detours, pairs that go and return differently, loops.

The clocks of two routers differ. What it takes from one to the other seems longer by the difference, and
the way back shorter: half of what the quickest messages of the two directions differ by is the difference
of the clocks.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from pipeline.measures import gathered, messages, octets, origin, ranked, weight
from pipeline.schema import require

NEEDS: Final = (
    "kind", "ts", "router_id", "egress_kind", "peer_container", "path", "address", "msg_id_hash",
    "message_number", "size_bytes", "n_deliveries", "sample_weight", "latency_ns", "outcome", "end_reason",
)  # fmt: skip


def _log(log: DataFrame) -> DataFrame:
    """Records whose path is known; ``began_ns`` and ``ended_ns`` by the clock of their router."""
    began = f.unix_micros("ts") * 1000
    return (
        require(log, NEEDS, "paths")
        .where("path is not null")
        .select(
            "*",
            origin().alias("origin"),
            began.alias("began_ns"),
            (began + f.col("latency_ns")).alias("ended_ns"),
        )
    )


def _leaving(log: DataFrame) -> DataFrame:
    """Records of messages that left the network, or ended in it."""
    return log.where("egress_kind is null or egress_kind <> 'inter_router'")


def links(log: DataFrame) -> DataFrame:
    """One row for each pair of neighbours: messages, and how long they were between the two by both clocks.

    From the one router's last byte to the other's first: ``least_ns``, and percentiles above that. Joined
    on the message: records without ``msg_id_hash``, or with one that several messages have, count in the
    messages, not in the times.
    """
    known = _log(log)
    sent = known.where("egress_kind = 'inter_router' and latency_ns is not null")
    counts = sent.groupBy("router_id", f.col("peer_container").alias("onward")).agg(messages(), octets())
    # Copies of one message to several receivers came over the link once.
    came = (
        known.where("msg_id_hash is not null and locate('>', path) > 0")
        .groupBy("msg_id_hash", _before("path").alias("path"), f.col("router_id").alias("onward"))
        .agg(f.min("began_ns").alias("came_ns"), _alone().alias("alone"))
        .where("alone")
        .drop("alone")
    )
    passed = (
        sent.where("msg_id_hash is not null")
        .groupBy("msg_id_hash", "path", f.col("peer_container").alias("onward"))
        .agg(
            f.min("router_id").alias("router_id"),  # one and the same: the path ends with it
            f.min("ended_ns").alias("sent_ns"),
            f.max("n_deliveries").alias("n_deliveries"),
            f.max("sample_weight").alias("sample_weight"),
            _alone().alias("alone"),
        )
        .where("alone")
        .join(came, ["msg_id_hash", "path", "onward"])
        .withColumn("transit_ns", f.col("came_ns") - f.col("sent_ns"))
    )
    return counts.join(_transit(passed), ["router_id", "onward"], "left")


def _alone() -> Column:
    """Whether records of one ``msg_id_hash`` are of one message; those that do not say are."""
    return f.equal_null(f.min("message_number"), f.max("message_number"))


def _before(path: str) -> Column:
    """A path without its last router."""
    return f.expr(f"substring({path}, 1, length({path}) - locate('>', reverse({path})))")


def _transit(passed: DataFrame) -> DataFrame:
    """Quickest and percentiles; gathered above the quickest, so that no clock makes them negative."""
    least = f.min("transit_ns").over(Window.partitionBy("router_id", "onward"))
    above = passed.withColumn("least_ns", least).withColumn("above_ns", f.col("transit_ns") - least)
    gathered_rows = above.groupBy("router_id", "onward").agg(
        f.min("transit_ns").alias("least_ns"), *gathered("above_ns", "above")
    )
    return gathered_rows.select("router_id", "onward", "least_ns", *ranked("above", ("p50", "p99")))


def hops(pairs: DataFrame) -> DataFrame:
    """The result of `links` with clocks set right; ``clock_ns`` is how far the clock of ``onward`` is ahead.

    It is null where nothing came back: then the times are as the clocks have them.
    """
    back = pairs.select(
        f.col("router_id").alias("onward"),
        f.col("onward").alias("router_id"),
        f.col("least_ns").alias("back_ns"),
    )
    clock = ((f.col("least_ns") - f.col("back_ns")) / 2).cast("long")
    quickest = f.col("least_ns") - f.coalesce("clock_ns", f.lit(0))
    return (
        pairs.join(back, ["router_id", "onward"], "left")
        .withColumn("clock_ns", clock)
        .select(
            "router_id",
            "onward",
            "messages",
            "bytes",
            "clock_ns",
            f.coalesce("above_n", f.lit(0)).alias("transit_n"),
            (quickest + f.col("above_p50")).alias("transit_p50"),
            (quickest + f.col("above_p99")).alias("transit_p99"),
        )
    )


def taken(log: DataFrame) -> DataFrame:
    """One row for each way that messages took: how many, when, how long in its last router."""
    left = _leaving(_log(log)).groupBy("origin", f.col("router_id").alias("target"), "path")
    return left.agg(
        messages(),
        octets(),
        f.min("ts").alias("first"),
        f.max("ts").alias("last"),
        f.max(f.struct(weight(), "address")).alias("example"),
        *gathered("latency_ns", "passing"),
    ).select(
        "origin", "target", "path", "messages", "bytes", "first", "last",
        f.col("example.address").alias("address"), *ranked("passing", ("p50", "p99")),
    )  # fmt: skip


def ways(ended: DataFrame) -> DataFrame:
    """The result of `taken`, told apart.

    ``usual``: the way of its pair of routers that most took. ``detour``: a longer one than that. ``loop``: a
    router is on it twice, and the guard cut it. ``asymmetric``: it is the usual one, and not that of the
    other direction turned round, which is ``way_back``.
    """
    routers = f.split("path", ">")
    found = ended.select(
        "*",
        f.size(routers).alias("routers"),
        (f.size(f.array_distinct(routers)) < f.size(routers)).alias("loop"),
    )
    by_use = Window.partitionBy("origin", "target").orderBy(f.col("loop"), f.desc("messages"), "path")
    most = found.withColumn("place", f.row_number().over(by_use)).withColumn(
        "usual_routers", f.first("routers").over(by_use)
    )
    marked = most.withColumn("usual", (f.col("place") == 1) & ~f.col("loop")).withColumn(
        "detour", ~f.col("loop") & (f.col("routers") > f.col("usual_routers"))
    )
    back = marked.where("usual").select(
        f.col("origin").alias("target"),
        f.col("target").alias("origin"),
        f.col("path").alias("way_back"),
    )
    turned = f.array_join(f.reverse(f.split("way_back", ">")), ">")
    asymmetric = f.col("usual") & f.coalesce(f.col("path") != turned, f.lit(False))
    return (
        marked.join(back, ["origin", "target"], "left")
        .withColumn("asymmetric", asymmetric)
        .select(
            "origin", "target", "path", "routers", "messages", "bytes", "first", "last",
            "address", "usual", "detour", "loop", "asymmetric", "way_back",
            "passing_n", "passing_p50", "passing_p99",
        )
    )  # fmt: skip


def journeys(log: DataFrame, pairs: DataFrame) -> DataFrame:
    """One row for each way: how long messages took from entering the network to leaving it, clocks set right.

    ``pairs`` is the result of `hops`. Ways with a link over which nothing came back have no correction: their
    ``clock_ns`` is null, and their times are as the clocks have them.
    """
    known = _log(log).where("msg_id_hash is not null and latency_ns is not null")
    began = (
        known.where("path = router_id")
        .groupBy("msg_id_hash", "origin")
        .agg(f.min("began_ns").alias("start_ns"), _alone().alias("alone"))
        .where("alone")
    )
    times = (
        _leaving(known)
        .where("path <> router_id")
        .select("msg_id_hash", "origin", "path", "ended_ns", "n_deliveries", "sample_weight")
        .join(began, ["msg_id_hash", "origin"])
        .withColumn("took_ns", f.col("ended_ns") - f.col("start_ns"))
    )
    least = f.min("took_ns").over(Window.partitionBy("path"))
    above = times.withColumn("least_ns", least).withColumn("above_ns", f.col("took_ns") - least)
    gathered_rows = above.groupBy("path").agg(
        f.min("least_ns").alias("least_ns"), *gathered("above_ns", "above")
    )
    found = gathered_rows.select("path", "least_ns", *ranked("above", ("p50", "p90", "p99")))
    clocks = _clocks(found, pairs)
    quickest = f.col("least_ns") - f.coalesce("clock_ns", f.lit(0))
    return found.join(clocks, "path", "left").select(
        "path",
        "clock_ns",
        f.col("above_n").alias("took_n"),
        *((quickest + f.col(f"above_{one}")).alias(f"took_{one}") for one in ("p50", "p90", "p99")),
    )


def _clocks(found: DataFrame, pairs: DataFrame) -> DataFrame:
    """By way: how far the clock of its last router is ahead of its first one's, link by link."""
    routers = f.split("path", ">")
    links = f.arrays_zip(
        f.slice(routers, 1, f.size(routers) - 1).alias("router_id"),
        f.slice(routers, 2, f.size(routers) - 1).alias("onward"),
    )
    return (
        found.select("path", f.explode(links).alias("link"))
        .select("path", "link.*")
        .join(pairs.select("router_id", "onward", "clock_ns"), ["router_id", "onward"], "left")
        .groupBy("path")
        .agg(f.when(f.count("clock_ns") == f.count("*"), f.sum("clock_ns")).alias("clock_ns"))
    )
