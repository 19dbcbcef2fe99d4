"""The traffic matrix: traffic by minute, pair of routers, address and message type."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from pipeline.flow_log.records import require
from pipeline.tables.measures import (
    beginning,
    gathered,
    hour,
    identity,
    messages,
    octets,
    origin,
    outcomes,
    placed,
    ranked,
    weight,
)  # fmt: skip

NEEDS: Final = (
    "ts", "router_id", "egress_kind", "path", "address", "mtype", "size_bytes", "n_deliveries",
    "sample_weight", "outcome", "latency_ns",
)  # fmt: skip
MINUTE_S: Final = 60
KEY: Final = ("minute", "origin", "router_id", "egress_kind", "address", "mtype")


def keyed(log: DataFrame) -> DataFrame:
    """Return the log with the key of the matrix.

    ``origin`` is the router at which the message entered the network. ``router_id`` is the router that forwarded it;
    unless ``egress_kind`` is that of a connection to a router, the message left the network there.
    """
    return require(log, NEEDS, "the traffic matrix").select(
        beginning(MINUTE_S).alias("minute"), origin().alias("origin"), "*"
    )


def traffic(log: DataFrame) -> DataFrame:
    """Return one row for each key: messages, bytes, outcomes, and nearest-rank percentiles of latency."""
    rows = keyed(log).select(hour(), "*", f.col("latency_ns").alias("latency"), weight().alias("weight"))
    return (
        placed(gathered(rows).select("*", identity(*KEY).alias("group")), ("group", "began"), "latency")
        .groupBy(*KEY, "began")
        .agg(
            f.count("*").alias("records"),
            messages(),
            octets(),
            *outcomes(),
            *ranked("latency"),
            f.max("latency").alias("latency_max"),
        )
        .drop("began")
    )
