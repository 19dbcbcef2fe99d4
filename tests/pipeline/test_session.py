"""The settings of a Spark session that change while it runs."""

import pytest
from pyspark.sql import SparkSession

from pipeline.session import UNCOMPILED, uncompiled
from tests.support.pipeline.small_spark import as_for_users


def compiles(spark: SparkSession) -> bool:
    """Whether Spark makes code of its own for a query: a plan marks what runs in such code by ``*``."""
    explained = spark.range(3).selectExpr("id + 1")._jdf.queryExecution().executedPlan().toString()
    return "*(1) Project" in str(explained)


def test_code_is_made_for_many_rows_and_not_for_few(spark: SparkSession) -> None:
    """The settings are afterwards as they were, also after a query that failed."""
    with as_for_users(spark):
        before = {name: spark.conf.get(name) for name in UNCOMPILED}
        with uncompiled(spark, few=True):
            assert not compiles(spark)
            assert {name: spark.conf.get(name) for name in UNCOMPILED} == UNCOMPILED
        assert compiles(spark)
        with uncompiled(spark, few=False):
            assert compiles(spark)
        with pytest.raises(ValueError, match="a query failed"), uncompiled(spark, few=True):
            raise ValueError("a query failed")
        assert {name: spark.conf.get(name) for name in UNCOMPILED} == before
        assert compiles(spark)
    assert not compiles(spark)
