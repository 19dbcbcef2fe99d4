"""Latency by quarter of an hour and address, as buckets: they add up to longer times, and percentiles do not."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from pipeline.flow_log.records import require
from pipeline.tables.anomalies import QUARTER_S
from pipeline.tables.measures import beginning, bucket, weight

NEEDS: Final = ("ts", "address", "mtype", "n_deliveries", "sample_weight", "latency_ns")


def latencies(log: DataFrame) -> DataFrame:
    """Return one row for each quarter, address, message type and bucket of latency: messages whose latency is known.

    Each router that a message passed counts.
    """
    timed = require(log, NEEDS, "latencies").where("latency_ns is not null")
    return (
        timed.select(
            beginning(QUARTER_S).alias("quarter"),
            "address",
            "mtype",
            bucket("latency_ns").alias("bucket"),
            weight().alias("weight"),
        )
        .groupBy("quarter", "address", "mtype", "bucket")
        .agg(f.sum("weight").alias("messages"))
    )
