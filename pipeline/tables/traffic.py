"""The traffic matrix: traffic by minute, pair of routers, address and message type."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from pipeline.flow_log.records import require
from pipeline.tables.measures import beginning, gathered, messages, octets, origin, outcomes, packed, ranked
from shm.contract.flow_log.schema import OUTCOMES

NEEDS: Final = (
    "ts", "router_id", "egress_kind", "path", "address", "mtype", "size_bytes", "n_deliveries",
    "sample_weight", "outcome", "latency_ns",
)  # fmt: skip
MINUTE_S: Final = 60
KEY: Final = ("minute", "origin", "router_id", "egress_kind", "address", "mtype")


def keyed(log: DataFrame) -> DataFrame:
    """Return the log with the key of the matrix.

    ``origin`` is the router at which the message entered the network. ``router_id`` is the router that forwarded it;
    unless ``egress_kind`` is `inter_router`, the message left the network there.
    """
    return require(log, NEEDS, "the traffic matrix").select(
        beginning(MINUTE_S).alias("minute"), origin().alias("origin"), "*"
    )


def traffic(log: DataFrame) -> DataFrame:
    """Return one row for each key: messages, bytes, outcomes, and nearest-rank percentiles of latency."""
    gathered_rows = (
        keyed(log)
        .select("*", packed("latency_ns", "latency"))
        .groupBy(*KEY)
        .agg(
            f.count("*").alias("records"),
            messages(),
            octets(),
            *outcomes(),
            f.max("latency_ns").alias("latency_max"),
            *gathered("latency"),
        )
    )
    return gathered_rows.select(*KEY, "records", "messages", "bytes", *OUTCOMES, *ranked("latency"), "latency_max")
