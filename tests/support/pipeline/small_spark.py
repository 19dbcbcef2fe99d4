"""What makes Spark small and quick: for tests."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from pipeline.session import UNCOMPILED

# Code that Spark compiles for each query takes longer to compile than tests of a few records take without. Java's first
# compiler alone has room for less code than Spark has by the end of all tests, and would compile it again and again.
PLAIN = {
    "spark.driver.memory": "600m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=128m",
    "spark.sql.shuffle.partitions": "2",
    **UNCOMPILED,
}


@contextmanager
def compiled(spark: SparkSession) -> Iterator[None]:
    """Have Spark compile code for queries of many records, as it does for users."""
    for name in UNCOMPILED:
        spark.conf.unset(name)
    try:
        yield
    finally:
        for name, value in UNCOMPILED.items():
            spark.conf.set(name, value)
