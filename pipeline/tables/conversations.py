"""Who talks to whom: which client sent what another one received, also through several routers.

A record of one router has both clients. Of a message that passes several, the first router knows the sender and the
last one the receiver; `trips` puts the two together where the message has an id of its own. What is left is from the
only sender of its address at its first router, or else from an unknown one. Where that router is not known, because
the message came over a link route or from an edge router, the sender is unknown.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from pipeline.tables.flows import RECEIVER, SENDER, SUBJECT, WHO, added, client
from pipeline.tables.measures import identity, origin
from pipeline.tables.paths import whole_trips

SENT_BY: Final = tuple(f"sender_{one}" for one in WHO)
RECEIVED_BY: Final = tuple(f"receiver_{one}" for one in WHO)
KEY: Final = ("origin", *SENT_BY, *SUBJECT, "router_id", *RECEIVED_BY)
ENDS: Final = ("origin", "router_id", "receiver", "subject")
SUMS: Final = ("messages", "bytes")


def conversations(flows: DataFrame, days: DataFrame) -> DataFrame:
    """Return one row for each sender, address, and receiver, from flows and `daily`; each copy of a message counts."""
    left = _left(flows)
    here, far = left.where("not far"), left.where("far").drop("far", *SENT_BY)
    names = flows.where(client("ingress_kind")).select(
        identity(*SENDER).alias("sender"), *(f.col(one).alias(name) for one, name in zip(SENDER, SENT_BY, strict=True))
    )
    sent = (
        _split(far, _followed(days))
        .join(_only_senders(flows), ["origin", "subject"], "left")
        .withColumn("sender", f.coalesce("sender", "only"))
        .join(names.distinct(), ["sender"], "left")
    )
    columns = (*KEY, *SUMS, "first", "last")
    found = here.select(*columns).unionByName(sent.select(*columns))
    return found.groupBy(*KEY).agg(*added(), f.min("first").alias("first"), f.max("last").alias("last"))


def _left(flows: DataFrame) -> DataFrame:
    """Return what clients received, by router and receiver; ``far`` is what came in at another router that is known."""
    went = flows.where(f.col("egress_conn_id").isNotNull() & client("egress_kind"))
    near = client("ingress_kind")
    far = ~near & f.coalesce(f.locate(">", f.col("path")) > 0, f.lit(False))
    named = went.select(
        far.alias("far"), origin().alias("origin"), "router_id", *SUBJECT, *SUMS, "first", "last",
        identity(*RECEIVER).alias("receiver"), identity(*SUBJECT).alias("subject"),
        *(f.when(near, f.col(one)).alias(name) for one, name in zip(SENDER, SENT_BY, strict=True)),
        *(f.col(one).alias(name) for one, name in zip(RECEIVER, RECEIVED_BY, strict=True)),
    )  # fmt: skip
    return named.groupBy("far", *KEY, "receiver", "subject").agg(
        *added(), f.min("first").alias("first"), f.max("last").alias("last")
    )


def daily(trips: DataFrame) -> DataFrame:
    """Return how many messages of other routers' clients were followed from their senders each day: `whole_trips`
    added up."""
    return (
        trips.where("sender is not null and receiver is not null")
        .groupBy(f.date_trunc("day", "began").alias("began"), "path", "sender", "receiver", "subject")
        .agg(f.sum("weight").alias("weight"), f.sum("bytes").alias("bytes"))
    )


def _followed(days: DataFrame) -> DataFrame:
    """Return by both ends how many messages of other routers' clients were followed from their senders."""
    return (
        whole_trips(days)
        .where("sender is not null and receiver is not null")
        .select(
            f.substring_index("path", ">", 1).alias("origin"), f.substring_index("path", ">", -1).alias("router_id"),
            "receiver", "subject", "sender", "weight", "bytes",
        )
        .groupBy(*ENDS, "sender")
        .agg(f.sum("weight").alias("messages"), f.sum("bytes").alias("bytes"))
    )  # fmt: skip


def _split(far: DataFrame, followed: DataFrame) -> DataFrame:
    """Return what came from other routers by sender; it is null for what is left when all that was followed is gone."""
    both = far.withColumn("sender", f.lit(None).cast("long")).unionByName(followed, allowMissingColumns=True)
    ends, whole = Window.partitionBy(*ENDS), f.col("sender").isNull()
    known = {name: f.sum(f.when(~whole, f.col(name)).otherwise(0)).over(ends) for name in SUMS}
    return both.select(
        *ENDS, "sender",
        *(f.when(whole, f.col(name) - known[name]).otherwise(f.col(name)).alias(name) for name in SUMS),
        *(f.max(name).over(ends).alias(name) for name in (*SUBJECT, *RECEIVED_BY, "first", "last")),
    ).where("messages > 0 and mtype is not null")  # fmt: skip


def _only_senders(flows: DataFrame) -> DataFrame:
    """Return by router and subject the only client there whose messages went on to other routers.

    There is none where messages of an edge router went on, too: these have the same path.
    """
    own = client("ingress_kind")
    onward = flows.where(f.col("egress_conn_id").isNotNull() & ~client("egress_kind")).where(
        own | (f.col("path") == f.col("router_id"))
    )
    return (
        onward.groupBy(f.col("router_id").alias("origin"), identity(*SUBJECT).alias("subject"))
        .agg(f.min(identity(*SENDER)).alias("only"), f.max(identity(*SENDER)).alias("other"), f.min(own).alias("own"))
        .where("own and only = other")
        .select("origin", "subject", "only")
    )
