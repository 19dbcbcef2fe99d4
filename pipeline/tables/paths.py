"""Paths through the network: hops and their latency, detours, pairs with different paths back, loops.

Records with the same ``msg_id_hash`` are of one message if they came within one hour, by the clocks of their routers.
Around the end of an hour two records of which each lacks its counterpart are of one message, too, if one came up to
``EDGE_S`` seconds before it and the other up to so many after it. So each hour is computed by itself (`passages`,
`trips`), and hours add up to the same as if all were computed at once.

The clocks of two routers differ. The time from one to the other seems longer by the difference, the time back shorter.
The clocks therefore differ by half of the difference between the quickest messages of the two directions.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from pipeline.flow_log.records import require
from pipeline.tables.flows import RECEIVER, ROUTE, SENDER, SUBJECT, added, client
from pipeline.tables.measures import HOUR_S, gathered, hour, identity, origin, weight
from pipeline.tables.ranges import Values

NEEDS: Final = (
    "ts", "router_id", "ingress_kind", "egress_kind", "path", "msg_id_hash", "message_number", "address_class",
    "n_deliveries", "sample_weight", "queue_ns", "latency_ns", "size_bytes", *RECEIVER, *SENDER, *SUBJECT,
)  # fmt: skip
EDGE_S: Final = 600
# Treatments by which a message has one receiver; by `uc`, a route table, it may have one in each group.
SINGLE: Final = ("anycast", "balanced", "link")
TRANSITS: Final = Values("pair", "transit", ("p50", "p99"))
TIMES: Final = Values("path", "took", ("p50", "p90", "p99"))
WHOLE: Final = ("sender", "receiver", "subject", "weight", "bytes")  # of a trip, besides path and time


def _followed(log: DataFrame) -> DataFrame:
    """Return records of messages that can be recognised, with times by their router's clock."""
    began = f.unix_micros("ts") * 1000
    # The path of what came from an edge router begins at its interior router.
    before = f.when(~client("ingress_kind"), f.concat("ingress_container", f.lit(">"), "path"))
    return (
        require(log, NEEDS, "paths")
        .where("path is not null and msg_id_hash is not null")
        .select(
            hour(),
            "msg_id_hash",
            "message_number",
            "path",
            "router_id",
            "peer_container",
            "address_class",
            (~client("egress_kind")).alias("inner"),
            f.when(f.locate(">", f.col("path")) > 0, f.col("path")).otherwise(before).alias("came_by"),
            weight().alias("weight"),
            (f.col("size_bytes") * f.col("sample_weight")).alias("bytes"),
            f.when(client("ingress_kind"), identity(*SENDER)).alias("sender"),
            f.when(client("egress_kind"), identity(*RECEIVER)).alias("receiver"),
            identity(*SUBJECT).alias("subject"),
            began.alias("began_ns"),
            f.when(f.col("latency_ns").isNotNull(), began + f.col("queue_ns")).alias("sent_ns"),
            (began + f.col("latency_ns")).alias("ended_ns"),
        )
    )


def edge(at_ns: str) -> Column:
    """Return the end of an hour to which a time is near; null for other times. ``began`` is the hour of the time."""
    end = f.col("began") + f.expr(f"interval {HOUR_S} seconds")
    into = f.col(at_ns) - f.unix_micros("began") * 1000
    return f.when(into < EDGE_S * 10**9, f.col("began")).when(into >= (HOUR_S - EDGE_S) * 10**9, end)


def passages(log: DataFrame) -> DataFrame:
    """Return by hour how long messages took from a router to the next.

    A row is a message. It has the ``pair`` of routers, the time between the two by both clocks (``transit``) and its
    ``weight``, or else the message is near the end of an hour (``edge``) at one of the two, and `transits` looks for it
    at the other one.
    The records of both ends of a link share the message, and the path of the second end. A record in the middle of a
    path is of both ends. Copies of one message to several receivers came over the link once.
    """
    followed = gathered(_followed(log))
    sent = f.col("inner") & f.col("sent_ns").isNotNull() & f.col("peer_container").isNotNull()
    came = f.col("came_by").isNotNull()
    at_end = f.col("side") == 1  # of the link; a record may be of one link's second end and of another's first
    seen = (
        followed.select("*", f.explode(f.array(f.lit(0), f.lit(1))).alias("side"))
        .where(f.when(at_end, came).otherwise(sent))
        .select(
            "began",
            "msg_id_hash",
            f.when(at_end, f.col("came_by")).otherwise(f.concat("path", f.lit(">"), "peer_container")).alias("way"),
            "began_ns",
            f.when(~at_end, f.col("weight")).alias("weight"),
            f.when(~at_end, f.col("sent_ns")).alias("sent_ns"),
            f.when(at_end, f.col("began_ns")).alias("came_ns"),
            f.when(~at_end, f.col("message_number")).alias("sent_number"),
            f.when(at_end, f.col("message_number")).alias("came_number"),
        )
    )
    both = f.col("sent_ns").isNotNull() & f.col("came_ns").isNotNull()
    passed = (
        seen.groupBy("msg_id_hash", "began", "way")
        .agg(
            f.min("sent_ns").alias("sent_ns"),
            f.min("came_ns").alias("came_ns"),
            f.min("began_ns").alias("at_ns"),
            f.max("weight").alias("weight"),
            _alike("sent_number").alias("sent_alone"),
            _alike("came_number").alias("came_alone"),
        )
        .where("sent_alone and came_alone")
    )
    return _hourly(passed, both, _between(), "transit", "at_ns", ("msg_id_hash", "way", "sent_ns", "came_ns"))


def _between() -> tuple[Column, Column]:
    """Return the two routers of the end of a way, and how long a message took between them."""
    return f.substring_index("way", ">", -2).alias("pair"), f.col("came_ns") - f.col("sent_ns")


def _hourly(
    rows: DataFrame, both: Column, told: tuple[Column, Column], name: str, at_ns: str, half: tuple[str, ...],
    *, more: tuple[str, ...] = (), sums: tuple[str, ...] = ("weight",),
) -> DataFrame:  # fmt: skip
    """Return rows that have both ends as values (``told``, called ``name``) and ``sums``, and others near an ``edge``
    with what is known of them (``half``); ``more`` are columns that both have."""
    group, value = told
    return rows.select(
        "began",
        group,
        f.when(both, value).alias(name),
        f.when(~both, edge(at_ns)).alias("edge"),
        *(f.when(~both, f.col(one)).alias(one) for one in half),
        *more,
        *sums,
    ).where(f.col(name).isNotNull() | f.col("edge").isNotNull())


def links(flows: DataFrame, times: DataFrame) -> DataFrame:
    """Return one row for each pair of neighbours: messages, and their time between the two by both clocks.

    The time is that of a message's first byte from the one router to the other: ``least_ns``, and percentiles, the
    `ranks` of `transits`. The last byte of a streamed message leaves when the first one came long ago. Records without
    path or ``msg_id_hash``, or with one of several messages, count in the messages, not in the times. What was not
    given to the other router as a whole counts in neither.
    """
    counts = (
        flows.where(~client("egress_kind") & (f.col("passed") > 0))
        .groupBy("router_id", f.col("peer_container").alias("onward"))
        .agg(f.sum("passed").alias("messages"), f.sum("passed_bytes").alias("bytes"))
    )
    found = times.select(
        f.substring_index("pair", ">", 1).alias("router_id"),
        f.substring_index("pair", ">", -1).alias("onward"),
        f.col("least").alias("least_ns"), "transit_n", "transit_p50", "transit_p99",
    )  # fmt: skip
    return counts.join(found, ["router_id", "onward"], "left")


def transits(hours: DataFrame) -> DataFrame:
    """Return the times between two routers with their weights from `passages`, also those over the end of an hour."""
    pair, transit = _between()
    over = (
        hours.where("edge is not null")
        .groupBy("edge", "msg_id_hash", "way")
        .agg(*(f.min(name).alias(name) for name in ("sent_ns", "came_ns", "weight")))
        .where("sent_ns is not null and came_ns is not null")
        .select(f.col("edge").alias("began"), pair, transit.alias("transit"), "weight", _single())
    )
    whole = hours.where("edge is null").select("began", "pair", "transit", "weight", _many(hours))
    return whole.unionByName(over)


def _single() -> Column:
    return f.lit(False).alias("many")


def _many(hours: DataFrame) -> Column:
    """Return whether a row stands for several, as those of a day may (`condensed`)."""
    return f.coalesce("many", f.lit(False)).alias("many") if "many" in hours.columns else _single()


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
    """Return one row for each path that messages took, and each source route on it: how many, when, and one address."""
    left = flows.where(f.col("path").isNotNull() & client("egress_kind"))
    return (
        left.groupBy(origin().alias("origin"), f.col("router_id").alias("target"), "path", *ROUTE)
        .agg(
            *added(),
            f.min("first").alias("first"),
            f.max("last").alias("last"),
            f.max(f.struct("heaviest", "address")).alias("example"),
        )
        .select(
            "origin", "target", "path", *ROUTE, "messages", "bytes", "first", "last",
            f.col("example.address").alias("address"),
        )
    )  # fmt: skip


def ways(ended: DataFrame) -> DataFrame:
    """Return `taken` with the kinds of each path.

    ``usual`` is the path between its two routers that most messages took, a ``detour`` is longer. On a ``loop`` a
    router occurs twice, and loop protection ended it. An ``asymmetric`` path is the usual one and not the reverse of
    the usual path of the other direction, ``way_back``. A source route says where its messages go, so their paths are
    none of these, and no other path is compared with them.
    """
    routers = f.split("path", ">")
    routed = f.coalesce(*ROUTE).isNotNull()
    found = ended.select(
        "*", f.size(routers).alias("routers"), routed.alias("routed"),
        (~routed & (f.size(f.array_distinct(routers)) < f.size(routers))).alias("loop"),
    )  # fmt: skip
    by_use = Window.partitionBy("origin", "target", "routed").orderBy(f.col("loop"), f.desc("messages"), "path")
    most = found.withColumn("place", f.row_number().over(by_use)).withColumn(
        "usual_routers", f.first("routers").over(by_use)
    )
    marked = most.withColumn("usual", (f.col("place") == 1) & ~f.col("loop") & ~f.col("routed")).withColumn(
        "detour", ~f.col("loop") & ~f.col("routed") & (f.col("routers") > f.col("usual_routers"))
    )
    back = marked.where("usual").select(
        f.col("origin").alias("target"), f.col("target").alias("origin"), f.col("path").alias("way_back"),
        f.lit(False).alias("routed"),
    )  # fmt: skip
    turned = f.array_join(f.reverse(f.split("way_back", ">")), ">")
    asymmetric = f.col("usual") & f.coalesce(f.col("path") != turned, f.lit(False))
    return (
        marked.join(back, ["origin", "target", "routed"], "left")
        .withColumn("asymmetric", asymmetric)
        .select(
            "origin", "target", "path", *ROUTE, "routers", "messages", "bytes", "first", "last",
            "address", "usual", "detour", "loop", "asymmetric", "way_back",
        )
    )  # fmt: skip


def trips(log: DataFrame) -> DataFrame:
    """Return by hour how long messages took from entering the network to leaving it.

    A row is a message. It has the ``path``, the time (``took``) by the clocks of its ends, numbers of ``sender``,
    ``receiver`` and ``subject`` (`identity`), ``weight`` and ``bytes``, or else the message is near the end of an hour
    (``edge``) and entered or left, and `whole_trips` looks for it in the other one. Where a message may have several
    copies, others of them may have left in the other hour.
    """
    ends = (
        _followed(log)
        .select("*", origin().alias("origin"), (~f.col("inner")).alias("left"))
        # first records of messages that other routers forward, and last ones of those that came from others
        .where("ended_ns is not null and (path = router_id) = inner")
    )
    in_order = Window.partitionBy("msg_id_hash", "began", "origin").orderBy("left", "began_ns")
    whole = in_order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    number = f.when(~f.col("left"), f.col("message_number"))
    sender = f.when(~f.col("left"), f.col("sender"))
    alike = f.equal_null(f.min(sender).over(whole), f.max(sender).over(whole))
    joined = (
        gathered(ends)
        .select(
            "began", "msg_id_hash", "origin", "began_ns",
            f.min(f.when(~f.col("left"), f.col("began_ns"))).over(whole).alias("start_ns"),
            f.equal_null(f.min(number).over(whole), f.max(number).over(whole)).alias("alone"),
            f.max("left").over(whole).alias("any_left"),
            f.max(~f.coalesce(f.col("address_class").isin(*SINGLE), f.lit(False))).over(whole).alias("has_copies"),
            f.row_number().over(in_order).alias("place"),
            f.when(f.col("left"), f.col("path")).alias("path"),
            f.when(f.col("left"), f.col("ended_ns")).alias("ended_ns"),
            f.when(alike, f.min(sender).over(whole)).alias("sender"),
            *(f.when(f.col("left"), f.col(one)).alias(one) for one in ("receiver", "subject", "weight", "bytes")),
        )
        .where("alone and (ended_ns is not null or (place = 1 and (has_copies or not any_left)))")
        .withColumn("at_ns", f.col("began_ns"))
    )  # fmt: skip
    both = f.col("ended_ns").isNotNull() & f.col("start_ns").isNotNull()
    told = f.col("path"), f.col("ended_ns") - f.col("start_ns")
    half, more = ("msg_id_hash", "origin", "start_ns", "ended_ns"), ("sender", "receiver", "subject")
    return _hourly(joined, both, told, "took", "at_ns", half, more=more, sums=("weight", "bytes"))


def journeys(pairs: DataFrame, times: DataFrame) -> DataFrame:
    """Return one row for each path: the corrected time of messages from entering the network to leaving it.

    ``pairs`` is the result of `hops`, ``times`` are the `ranks` of `whole_trips`. The times of a path with a link over
    which nothing came back are not corrected, and its ``clock_ns`` is null.
    """
    return _set_right(times, pairs, [f"took_{one}" for one in TIMES.percentiles])


def whole_trips(hours: DataFrame) -> DataFrame:
    """Return the times through the network with clients and weights from `trips`, also over the end of an hour."""
    half = hours.where("edge is not null")
    entered = half.where("start_ns is not null").select("edge", "msg_id_hash", "origin", "start_ns", "sender")
    took = (f.col("ended_ns") - f.col("start_ns")).alias("took")
    over = (
        half.where("ended_ns is not null")
        .drop("start_ns", "sender")
        .join(entered, ["edge", "msg_id_hash", "origin"])
        .select(f.col("edge").alias("began"), "path", took, *WHOLE, _single())
    )
    return hours.where("edge is null").select("began", "path", "took", *WHOLE, _many(hours)).unionByName(over)


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
