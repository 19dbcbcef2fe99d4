"""Where Spark finds the flow log: as a source of its own, `spark.read.format("routerd")`, and by URLs."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.flow_log.hours import EVER
from pipeline.flow_log.records import FLOW, read_log, require
from pipeline.flow_log.survey import survey
from pipeline.hourly import Hourly
from pipeline.output.directory import RESULTS, claimed
from pipeline.output.generations import begin


@pytest.fixture
def few(flows: Path, tmp_path: Path) -> Path:
    """Two files of the log, and text."""
    for file in sorted(flows.rglob("*.parquet"))[:2]:
        shutil.copy(file, tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    return tmp_path


def test_it_reads_what_the_jobs_read(spark: SparkSession, few: Path) -> None:
    """The same records, all columns with their types."""
    given = spark.read.format("routerd").load(str(few))
    assert given.schema == FLOW
    wanted = read_log(spark, survey(str(few)))
    order = ["router_id", "seq"]
    assert given.orderBy(*order).toArrow().to_pylist() == wanted.orderBy(*order).toArrow().to_pylist()


def test_a_wrong_directory_is_said(spark: SparkSession, tmp_path: Path) -> None:
    """In the words of the command line."""
    with pytest.raises(PySparkException, match="missing is not a directory; give the directory of a flowLog"):
        spark.read.format("routerd").load(str(tmp_path / "missing")).count()


def test_repeated_records_are_read_once(spark: SparkSession, few: Path, tmp_path: Path) -> None:
    """A copy is left out by its numbers; where numbers lie, records are compared."""
    wanted = read_log(spark, survey(str(few))).count()
    shutil.copy(sorted(few.glob("*.parquet"))[0], few / "copy.parquet")
    found = survey(str(few))
    assert len(found.copies) == 1
    assert read_log(spark, found).count() == wanted
    found.tangled = [*found.clean, *found.copies]
    found.clean = []
    assert read_log(spark, found).count() == wanted


def test_a_job_says_what_it_lacks_when_it_is_put_together(spark: SparkSession) -> None:
    """A missing column, and one of another type."""
    with pytest.raises(PipelineError, match="a job needs the column ts"):
        require(spark.createDataFrame([("a",)], "kind string"), ("ts",), "a job")
    with pytest.raises(PipelineError, match="a job needs ts as timestamp, and it is string"):
        require(spark.createDataFrame([("a",)], "ts string"), ("ts",), "a job")


def test_spark_reads_and_writes_what_its_urls_name(
    spark: SparkSession, few: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hadoop's `s3a://` is mounted on a directory, where pyarrow finds its files: the log, and rollups of its hours."""
    bucket = tmp_path_factory.mktemp("mounted") / "bucket"
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in {
        "fs.s3a.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
        "fs.viewfs.overload.scheme.target.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
        "fs.viewfs.mounttable.bucket.link./flows": f"file://{few}",
        "fs.viewfs.mounttable.bucket.link./out": f"file://{bucket}/out",
    }.items():
        hadoop.set(name, value)
    (bucket / "out").mkdir(parents=True)
    (bucket / "flows").symlink_to(few)
    mounted = fs.SubTreeFileSystem(str(bucket.parent), fs.LocalFileSystem())

    class FileSystem:
        @staticmethod
        def from_uri(uri: str) -> tuple[Any, str]:
            return mounted, uri.removeprefix("s3://").partition("?")[0]

    monkeypatch.setattr(fs, "FileSystem", FileSystem)
    source, output = "s3a://bucket/flows?region=r", "s3a://bucket/out/results"
    found = survey(source)
    for known in (False, True):
        with claimed(output, RESULTS, source) as place:
            made = begin(place)
            hours = Hourly.of_log(spark, found, made, {}, EVER)
            hours.compute(hours.lacking(["minutes"]), lambda _: None)
            assert bool(hours.computed) != known  # the second one finds manifest and rollups of the first
            counted = hours.read("minutes").agg({"records": "sum"}).collect()[0][0]
            assert counted == found.rows > 0
            made.publish({}, hours.manifest())
