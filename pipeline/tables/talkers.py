"""Who talks to whom: senders, receivers, the busiest of them, and addresses without consumers; from flows."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from pipeline.tables.flows import added, outer
from pipeline.tables.measures import origin


def talkers(flows: DataFrame) -> DataFrame:
    """Return one row for each client and address or message type; ``place`` 1 sends or receives the most.

    A message counts once at its sender's router (``role`` `sender`) and once at its receiver's (`receiver`). A sender
    is a connection; its container is known only if the connection receives, too.
    """
    names = (
        flows.where("egress_conn_id is not null and peer_container is not null")
        .groupBy("router_id", "boot_id", f.col("egress_conn_id").alias("connection"))
        .agg(f.max("peer_container").alias("container"))
    )
    senders = (
        flows.where(outer("ingress_kind"))
        .groupBy("router_id", "boot_id", f.col("ingress_conn_id").alias("connection"), "address", "mtype")
        .agg(*added())
        .join(names, ["router_id", "boot_id", "connection"], "left")
        .select(f.lit("sender").alias("role"), "router_id", "boot_id", "connection", "container", "address",
                "mtype", "messages", "bytes")
    )  # fmt: skip
    receivers = (
        flows.where(f.col("egress_conn_id").isNotNull() & outer("egress_kind"))
        .groupBy(
            "router_id", "boot_id", f.col("egress_conn_id").alias("connection"),
            f.col("peer_container").alias("container"), "address", "mtype",
        )
        .agg(*added())
        .select(f.lit("receiver").alias("role"), "router_id", "boot_id", "connection", "container", "address",
                "mtype", "messages", "bytes")
    )  # fmt: skip
    order = Window.partitionBy("role").orderBy(
        f.desc("messages"), "router_id", "connection", "address", "mtype", "boot_id"
    )
    return senders.unionByName(receivers).withColumn("place", f.row_number().over(order))


def conversations(flows: DataFrame) -> DataFrame:
    """Return one row for each router where messages came in, address, and container that received them."""
    went = flows.where(f.col("egress_conn_id").isNotNull() & outer("egress_kind"))
    return went.groupBy(
        origin().alias("origin"), "address", "mtype", f.col("peer_container").alias("receiver"), "router_id"
    ).agg(*added(), f.min("first").alias("first"), f.max("last").alias("last"))


def unheard(flows: DataFrame) -> DataFrame:
    """Return one row for each address and message type of which no message went to a receiver."""
    return (
        flows.groupBy("address", "mtype")
        .agg(
            f.sum("messages").alias("messages"),
            f.min("first").alias("first"),
            f.max("last").alias("last"),
            f.sort_array(f.collect_set("router_id")).alias("routers"),
            f.max(f.col("egress_conn_id").isNotNull()).alias("went"),
            f.max("nobody").alias("nobody"),
        )
        .where("not went and nobody")
        .drop("went", "nobody")
    )
