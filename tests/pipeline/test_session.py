"""The settings of a Spark session that change while it runs."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline import session
from pipeline.errors import PipelineError
from pipeline.session import FIXED, UNCOMPILED, uncompiled
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


@pytest.mark.parametrize("name", FIXED)
def test_a_setting_that_makes_results_wrong_is_refused(name: str, tmp_path: Path) -> None:
    """Rollups of hours of another time zone would be found by nobody, and sums beyond 64 bits would wrap."""
    with (
        pytest.raises(PipelineError, match=rf"--conf {name}=Europe/Berlin would make wrong results, which need "),
        session.session(None, {name: "Europe/Berlin"}),
    ):
        pytest.fail("Spark has started")
    builder, _ = session._build(None, {session.MEMORY: "512m", name: FIXED[name].swapcase()}, tmp_path, None)
    assert str(builder._options[name]).lower() == FIXED[name].lower()
    builder, _ = session._build(None, {session.MEMORY: "512m"}, tmp_path, None)
    assert builder._options[name] == FIXED[name]
