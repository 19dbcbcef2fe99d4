"""Who talks to whom: senders, receivers, the busiest of them, addresses that nobody receives from."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from pipeline.measures import messages, octets, origin
from pipeline.schema import require

NEEDS: Final = (
    "ts", "kind", "router_id", "boot_id", "ingress_conn_id", "ingress_kind", "egress_conn_id", "egress_kind",
    "peer_container", "path", "address", "mtype", "size_bytes", "n_deliveries", "sample_weight", "outcome",
)  # fmt: skip
INNER: Final = "inter_router"
NOBODY: Final = "undeliverable"


def talkers(log: DataFrame) -> DataFrame:
    """One row for each sender, address or message type, and receiver; ``place`` 1 sends or gets the most.

    At the routers where they are connected, so that a message counts once at its sender's router (``role``
    `sender`) and once at its receiver's (`receiver`). A sender is a connection; its container is known
    where that connection receives, too.
    """
    rows = require(log, NEEDS, "talkers")
    outer = f"(kind is null or kind <> '{INNER}')"
    sent = rows.where(outer.replace("kind", "ingress_kind")).groupBy(
        "router_id", "boot_id", f.col("ingress_conn_id").alias("connection"), "address", "mtype"
    )
    names = (
        rows.where("egress_conn_id is not null and peer_container is not null")
        .groupBy("router_id", "boot_id", f.col("egress_conn_id").alias("connection"))
        .agg(f.max("peer_container").alias("container"))
    )
    senders = (
        sent.agg(messages(), octets())
        .join(names, ["router_id", "boot_id", "connection"], "left")
        .select(f.lit("sender").alias("role"), "router_id", "boot_id", "connection", "container", "address",
                "mtype", "messages", "bytes")
    )  # fmt: skip
    received = rows.where("egress_conn_id is not null and " + outer.replace("kind", "egress_kind"))
    receivers = (
        received.groupBy(
            "router_id", "boot_id", f.col("egress_conn_id").alias("connection"),
            f.col("peer_container").alias("container"), "address", "mtype",
        )
        .agg(messages(), octets())
        .select(f.lit("receiver").alias("role"), "router_id", "boot_id", "connection", "container", "address",
                "mtype", "messages", "bytes")
    )  # fmt: skip
    order = Window.partitionBy("role").orderBy(
        f.desc("messages"), "router_id", "connection", "address", "mtype", "boot_id"
    )
    return senders.unionByName(receivers).withColumn("place", f.row_number().over(order))


def conversations(log: DataFrame) -> DataFrame:
    """One row for each pair of a router where messages came in and a container that got them, by address."""
    rows = require(log, NEEDS, "conversations").where(
        f"egress_conn_id is not null and (egress_kind is null or egress_kind <> '{INNER}')"
    )
    return rows.groupBy(
        origin().alias("origin"), "address", "mtype", f.col("peer_container").alias("receiver"), "router_id"
    ).agg(messages(), octets(), f.min("ts").alias("first"), f.max("ts").alias("last"))


def unheard(log: DataFrame) -> DataFrame:
    """Addresses and message types of which not one message went to anybody: senders without receivers."""
    rows = require(log, NEEDS, "unheard addresses")
    went = f.max(f.col("egress_conn_id").isNotNull())
    return (
        rows.groupBy("address", "mtype")
        .agg(
            messages(),
            f.min("ts").alias("first"),
            f.max("ts").alias("last"),
            f.sort_array(f.collect_set("router_id")).alias("routers"),
            went.alias("went"),
            f.max(f.col("outcome") == NOBODY).alias("nobody"),
        )
        .where("not went and nobody")
        .drop("went", "nobody")
    )
