"""The traffic matrix: per minute, pair of routers, address and message type."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from pipeline.flow_log.records import require
from pipeline.tables.measures import beginning, gathered, messages, octets, origin, outcomes, packed, ranked
from shm.contract.flow import OUTCOMES

NEEDS: Final = (
    "ts", "router_id", "egress_kind", "path", "address", "mtype", "size_bytes", "n_deliveries",
    "sample_weight", "outcome", "latency_ns",
)  # fmt: skip
MINUTE_S: Final = 60
KEY: Final = ("minute", "origin", "router_id", "egress_kind", "address", "mtype")


def keyed(log: DataFrame) -> DataFrame:
    """The log with the key of the matrix.

    ``origin`` is the router at which the message entered the network, ``router_id`` the one that passed it
    on: with ``egress_kind`` other than `inter_router` it is where it left the network.
    """
    return require(log, NEEDS, "the traffic matrix").select(
        beginning(MINUTE_S).alias("minute"), origin().alias("origin"), "*"
    )


def traffic(log: DataFrame) -> DataFrame:
    """One row a key: messages, bytes, outcomes, and latency with nearest-rank percentiles and their n."""
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
