"""What makes Spark small and quick: for tests."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from pipeline.session import UNCOMPILED

# Code that Spark compiles for each query, and plans that it makes anew after each shuffle, take longer than tests of a
# few records take without. Java's first compiler alone has room for less code than Spark has by the end of all tests,
# and would compile it again and again.
QUICK = {**UNCOMPILED, "spark.sql.adaptive.enabled": "false"}
PLAIN = {
    "spark.driver.memory": "600m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=128m",
    "spark.sql.shuffle.partitions": "2",
    **QUICK,
}


@contextmanager
def as_for_users(spark: SparkSession) -> Iterator[None]:
    """Have Spark compile code for queries of many records, and change its plans, as it does for users."""
    for name in QUICK:
        spark.conf.unset(name)
    try:
        yield
    finally:
        for name, value in QUICK.items():
            spark.conf.set(name, value)
