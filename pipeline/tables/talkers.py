"""Senders, receivers, the busiest of them, and addresses without consumers; from flows."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from pipeline.tables.flows import RECEIVER, SENDER, SUBJECT, WHO, client
from shm.contract.flow_log.schema import OUTCOMES


def talkers(flows: DataFrame) -> DataFrame:
    """Return one row for each client as a sender, and as a receiver; ``place`` 1 sends or receives the most.

    A message counts once at its sender, however many copies it has, and once at each of its receivers.
    """
    sent = flows.where(client("ingress_kind") & (f.col("sent") > 0))
    received = flows.where(f.col("egress_conn_id").isNotNull() & client("egress_kind"))
    both = _end(sent, "sender", SENDER, ("sent", "sent_bytes")).unionByName(
        _end(received, "receiver", RECEIVER, ("messages", "bytes"))
    )
    client_ = ("role", "router_id", *WHO)
    by_address = both.groupBy(*client_, *SUBJECT).agg(
        *(f.sum(name).alias(name) for name in ("messages", "bytes", *OUTCOMES)),
    )  # fmt: skip
    busiest = f.max_by(f.struct(*SUBJECT), f.struct("messages", *SUBJECT))
    whole = by_address.groupBy(*client_).agg(
        f.count("*").alias("addresses"), busiest.alias("busiest"),
        *(f.sum(name).alias(name) for name in ("messages", "bytes", *OUTCOMES)),
    )  # fmt: skip
    order = Window.partitionBy("role").orderBy(f.desc("messages"), "router_id", *WHO)
    return whole.select(
        *client_, "addresses", *(f.col(f"busiest.{one}").alias(one) for one in SUBJECT),
        "messages", "bytes", *OUTCOMES, f.row_number().over(order).alias("place"),
    )  # fmt: skip


def _end(flows: DataFrame, role: str, names: tuple[str, ...], counted: tuple[str, str]) -> DataFrame:
    """Return flows as one of their ends has them: who it is, and what counts there."""
    number, size = counted
    return flows.select(
        f.lit(role).alias("role"), "router_id", *SUBJECT,
        *(f.col(one).alias(name) for one, name in zip(names, WHO, strict=True)),
        f.col(number).alias("messages"), f.col(size).alias("bytes"), *_outcomes(number),
    )  # fmt: skip


def _outcomes(number: str) -> list[Column]:
    return [f.when(f.col("outcome") == one, f.col(number)).otherwise(0).alias(one) for one in OUTCOMES]


def unheard(flows: DataFrame) -> DataFrame:
    """Return one row for each address and message type of which no message went to a receiver.

    A message counts where it ended, not where it went on to another router. Nobody knows what became of one that went
    on to a router without a log: that one may have had a receiver.
    """
    logs = flows.select(f.col("router_id").alias("peer_container"), f.lit(True).alias("has_log")).distinct()
    ended = client("egress_kind")
    gone = f.col("egress_conn_id").isNotNull() & (ended | f.col("has_log").isNull())
    return (
        flows.join(f.broadcast(logs), "peer_container", "left")
        .groupBy("address", "mtype")
        .agg(
            f.sum(f.when(ended, f.col("messages"))).alias("messages"),
            f.min(f.when(ended, f.col("first"))).alias("first"),
            f.max(f.when(ended, f.col("last"))).alias("last"),
            f.sort_array(f.collect_set(f.when(ended, f.col("router_id")))).alias("routers"),
            f.max(gone).alias("went"),
            f.max("nobody").alias("nobody"),
        )
        .where("not went and nobody")
        .drop("went", "nobody")
    )
