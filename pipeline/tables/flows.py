"""Flows: the records of the log added up. Every table without times of day is made from them.

A log has as many records as messages, but few flows, so a run reads each hour once for all of those tables.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from pipeline.flow_log.records import require
from pipeline.tables.measures import hour, messages, octets, weight
from shm.contract.flow_log.schema import ROUTER_KINDS

WHO: Final = ("container", "user", "host")
RECEIVER: Final = ("peer_container", "egress_user", "egress_host")  # in this order
SENDER: Final = ("ingress_container", "ingress_user", "ingress_host")
SUBJECT: Final = ("address", "mtype")
ROUTE: Final = ("onward_route", "return_route", "route_state")  # of a source route
KEY: Final = (
    "router_id", "boot_id", "ingress_conn_id", "ingress_kind", "egress_conn_id", "egress_kind",
    *RECEIVER, *SENDER, *ROUTE, "path", *SUBJECT, "sub_id", "meid", "outcome",
)  # fmt: skip
NEEDS: Final = (
    *KEY, "ts", "size_bytes", "n_deliveries", "sample_weight", "latency_ns", "by_meid", "further_copy",
)  # fmt: skip
NOBODY: Final = "undeliverable"


def hourly(log: DataFrame) -> DataFrame:
    """Return one row for each hour, both connections, path, address or message type, managed entity, and outcome.

    ``sent`` counts messages of clients, once for all copies, ``sent_bytes`` their bytes. ``passed`` counts messages
    given to the receiver's connection as a whole, ``passed_bytes`` their bytes. ``heaviest`` is the largest weight of a
    record. ``nobody`` is true if a message found no receiver.
    """
    whole = f.col("latency_ns").isNotNull()
    size = f.col("size_bytes") * f.col("sample_weight")
    return (
        require(log, NEEDS, "flows")
        .groupBy(hour(), *KEY)
        .agg(
            messages(),
            octets(),
            *sent(),
            f.sum(f.when(whole, weight()).otherwise(0)).alias("passed"),
            f.sum(f.when(whole, size).otherwise(0)).alias("passed_bytes"),
            f.min("ts").alias("first"),
            f.max("ts").alias("last"),
            f.max(weight()).alias("heaviest"),
            f.max(f.col("outcome") == NOBODY).alias("nobody"),
            f.max("by_meid").alias("by_meid"),
        )
    )


def daily(hours: DataFrame) -> DataFrame:
    """Return the flows of hours, or of days, added up by day."""
    return _added_up(hours, f.date_trunc("day", "began").alias("began"), *map(f.col, KEY))


def flows(days: DataFrame) -> DataFrame:
    """Return the flows of days, added up over all time."""
    return _added_up(days, *map(f.col, KEY))


def _added_up(rows: DataFrame, *key: Column) -> DataFrame:
    return rows.groupBy(*key).agg(
        *(f.sum(name).alias(name) for name in ("messages", "bytes", "sent", "sent_bytes", "passed", "passed_bytes")),
        f.min("first").alias("first"),
        f.max("last").alias("last"),
        *(f.max(name).alias(name) for name in ("heaviest", "nobody", "by_meid")),
    )


def added() -> tuple[Column, Column]:
    """Return the sums of messages and bytes of flows."""
    return f.sum("messages").alias("messages"), f.sum("bytes").alias("bytes")


def sent() -> tuple[Column, Column]:
    """Return how many messages of records clients have sent, each once however many copies it has, and their bytes."""
    once = client("ingress_kind") & ~f.coalesce("further_copy", f.lit(False))
    size = f.col("size_bytes") * f.col("sample_weight")
    return (
        f.coalesce(f.sum(f.when(once, weight()).otherwise(0)), f.lit(0)).alias("sent"),
        f.coalesce(f.sum(f.when(once, size).otherwise(0)), f.lit(0)).alias("sent_bytes"),
    )


def client(kind: str) -> Column:
    """Return whether no router is at the other end of a connection; ``kind`` is the column with its kind.

    By ``ingress_kind`` that says where messages enter the network, and by ``egress_kind`` where they leave it, or, with
    null, went nowhere.
    """
    return f.col(kind).isNull() | ~f.col(kind).isin(*ROUTER_KINDS)
