"""Who talks to whom: which client sent what another one received, also through several routers.

A record of one router has both clients. Of a message that passes several, the first router knows the sender and the
last one the receiver; `trips` puts the two together where the message has an id of its own. What is left is from the
only sender of its address at its first router, or else from an unknown one.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from pipeline.tables.flows import RECEIVER, SENDER, SUBJECT, WHO, added, client
from pipeline.tables.measures import identity, origin
from pipeline.tables.paths import whole_trips

SENT_BY: Final = tuple(f"sender_{one}" for one in WHO)
RECEIVED_BY: Final = tuple(f"receiver_{one}" for one in WHO)
KEY: Final = ("origin", *SENT_BY, *SUBJECT, "router_id", *RECEIVED_BY)
ENDS: Final = ("origin", "router_id", "receiver", "subject")
SUMS: Final = ("messages", "bytes")


def conversations(flows: DataFrame, hours: DataFrame) -> DataFrame:
    """Return one row for each sender, address, and receiver, from flows and `trips`; each copy of a message counts."""
    left = _left(flows)
    here, far = left.where("near"), left.where("not near").drop("near", *SENT_BY)
    names = flows.where(client("ingress_kind")).select(
        identity(*SENDER).alias("sender"), *(f.col(one).alias(name) for one, name in zip(SENDER, SENT_BY, strict=True))
    )
    names = names.distinct()
    trips = whole_trips(hours).where("sender is not null and receiver is not null")
    followed = (
        trips.select(
            f.substring_index("path", ">", 1).alias("origin"), f.substring_index("path", ">", -1).alias("router_id"),
            "receiver", "subject", "sender", "weight", "bytes",
        )
        .groupBy(*ENDS, "sender")
        .agg(f.sum("weight").alias("messages"), f.sum("bytes").alias("bytes"))
    )  # fmt: skip
    known = followed.join(far.drop(*SUMS), [*ENDS]).join(names, ["sender"])
    rest = (
        _rest(far, followed).join(_only_senders(flows), ["origin", "subject"], "left").join(names, ["sender"], "left")
    )
    columns = (*KEY, *SUMS, "first", "last")
    found = here.select(*columns).unionByName(known.select(*columns)).unionByName(rest.select(*columns))
    return found.groupBy(*KEY).agg(*added(), f.min("first").alias("first"), f.max("last").alias("last"))


def _left(flows: DataFrame) -> DataFrame:
    """Return what clients received, by router and receiver; ``near`` is what they got of clients of this router."""
    went = flows.where(f.col("egress_conn_id").isNotNull() & client("egress_kind"))
    near = client("ingress_kind")
    named = went.select(
        near.alias("near"), origin().alias("origin"), "router_id", *SUBJECT, *SUMS, "first", "last",
        identity(*RECEIVER).alias("receiver"), identity(*SUBJECT).alias("subject"),
        *(f.when(near, f.col(one)).alias(name) for one, name in zip(SENDER, SENT_BY, strict=True)),
        *(f.col(one).alias(name) for one, name in zip(RECEIVER, RECEIVED_BY, strict=True)),
    )  # fmt: skip
    return named.groupBy("near", *KEY, "receiver", "subject").agg(
        *added(), f.min("first").alias("first"), f.max("last").alias("last")
    )


def _rest(far: DataFrame, followed: DataFrame) -> DataFrame:
    """Return what came from other routers, less the messages that were followed from their senders."""
    less = followed.groupBy(*ENDS).agg(*(f.sum(name).alias(f"known_{name}") for name in SUMS))
    left = far.join(less, [*ENDS], "left")
    for name in SUMS:
        left = left.withColumn(name, f.col(name) - f.coalesce(f"known_{name}", f.lit(0)))
    return left.where("messages > 0")


def _only_senders(flows: DataFrame) -> DataFrame:
    """Return by router and subject the only client there whose messages went on to other routers."""
    onward = flows.where(client("ingress_kind") & f.col("egress_conn_id").isNotNull() & ~client("egress_kind"))
    return (
        onward.groupBy(f.col("router_id").alias("origin"), identity(*SUBJECT).alias("subject"))
        .agg(f.min(identity(*SENDER)).alias("sender"), f.max(identity(*SENDER)).alias("other"))
        .where("sender = other")
        .drop("other")
    )
