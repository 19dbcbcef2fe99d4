"""Flows: records of the log added up over all time, from which every table without times of day is made.

A log has as many records as messages, and few flows: the log is read once for all of those tables.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from pipeline.flow_log.records import require
from pipeline.tables.measures import messages, octets, weight

KEY: Final = (
    "router_id", "boot_id", "ingress_conn_id", "ingress_kind", "egress_conn_id", "egress_kind",
    "peer_container", "path", "address", "mtype", "sub_id", "meid",
)  # fmt: skip
NEEDS: Final = (
    *KEY, "ts", "size_bytes", "n_deliveries", "sample_weight", "latency_ns", "outcome", "by_meid",
)  # fmt: skip
INNER: Final = "inter_router"
NOBODY: Final = "undeliverable"


def flows(log: DataFrame) -> DataFrame:
    """One row for each way in, way out, path, address or message type, and managed entity.

    ``passed``: messages that were given to somebody whole, with their ``passed_bytes``. ``heaviest``: the
    most messages that one record stands for. ``nobody``: whether one of them found no receiver.
    """
    whole = f.col("latency_ns").isNotNull()
    size = f.col("size_bytes") * f.col("sample_weight")
    return (
        require(log, NEEDS, "flows")
        .groupBy(*KEY)
        .agg(
            messages(),
            octets(),
            f.sum(f.when(whole, weight()).otherwise(0)).alias("passed"),
            f.sum(f.when(whole, size).otherwise(0)).alias("passed_bytes"),
            f.min("ts").alias("first"),
            f.max("ts").alias("last"),
            f.max(weight()).alias("heaviest"),
            f.max(f.col("outcome") == NOBODY).alias("nobody"),
            f.max("by_meid").alias("by_meid"),
        )
    )


def added() -> tuple[Column, Column]:
    """Messages and bytes of flows."""
    return f.sum("messages").alias("messages"), f.sum("bytes").alias("bytes")


def outer(kind: str) -> Column:
    """Whether a connection of that kind, by the column's name, is none to another router."""
    return f.col(kind).isNull() | (f.col(kind) != INNER)
