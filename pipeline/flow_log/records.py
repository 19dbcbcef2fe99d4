"""The records of the flow log as Spark sees them: their types, and what a job is given of them."""

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from pipeline.errors import PipelineError
from pipeline.flow_log.survey import LogFile, Survey
from shm.contract.flow_log.arrow import SCHEMA

FLOW: Final = from_arrow_schema(pa.schema([field.with_nullable(True) for field in SCHEMA]))  # dictionaries are strings

# One record is one (router, boot, worker, seq); a record that is there twice is the same record.
KEY: Final = ("router_id", "boot_id", "worker_id", "seq")


def read_log(spark: SparkSession, found: Survey, places: Mapping[str, str] | None = None) -> DataFrame:
    """Return the records of a log, each once, in no order. Columns that an older file lacks are null.

    ``places`` says by path where a file is to be read instead.
    """
    clean = _read(spark, found.clean, places or {})
    if not found.tangled:
        return clean
    return clean.unionByName(_read(spark, found.tangled, places or {}).dropDuplicates(list(KEY)))


def _read(spark: SparkSession, files: list[LogFile], places: Mapping[str, str]) -> DataFrame:
    if not files:
        return spark.createDataFrame([], FLOW)
    return spark.read.schema(FLOW).parquet(*(places.get(file.path, file.path) for file in files))


def require(frame: DataFrame, columns: Iterable[str], job: str) -> DataFrame:
    """Return the columns that a job needs and no others.

    Raises ``PipelineError`` before the job runs if a column is missing, or has another type than in the log.
    """
    wanted = {field.name: field.dataType for field in FLOW if field.name in set(columns)}
    given = {field.name: field.dataType for field in frame.schema}
    for name, kind in wanted.items():
        if name not in given:
            raise PipelineError(f"{job} needs the column {name}, which the log does not have")
        if given[name] != kind:
            raise PipelineError(f"{job} needs {name} as {kind.simpleString()}, and it is {given[name].simpleString()}")
    return frame.select(*wanted)
