"""The records of the flow log as Spark sees them: their types, and what a job is given of them."""

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from pipeline.errors import PipelineError
from pipeline.files import file_system, for_spark, literal
from pipeline.flow_log.survey import LogFile, Survey
from shm.contract.flow_log.arrow import SCHEMA


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column's values, as every version of Spark knows it."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return pa.binary() if pa.types.is_fixed_size_binary(kind) else kind


FLOW: Final = from_arrow_schema(pa.schema([pa.field(field.name, _plain(field.type)) for field in SCHEMA]))

# One record is one (router, boot, worker, seq); a record that is there twice is the same record.
KEY: Final = ("router_id", "boot_id", "worker_id", "seq")


def read_log(spark: SparkSession, found: Survey, places: Mapping[str, str] | None = None) -> DataFrame:
    """Return the records of a log, each once, in no order. Columns that an older file lacks are null.

    ``places`` says by path which local file is to be read instead.
    """
    _, root = file_system(found.directory)

    def read(files: list[LogFile]) -> DataFrame:
        if not files:
            return spark.createDataFrame([], FLOW)
        given = places or {}
        names = (
            f"file://{given[one.path]}" if one.path in given else for_spark(found.directory, root, one.path)
            for one in files
        )
        return spark.read.schema(FLOW).parquet(*map(literal, names))

    clean = read(found.clean)
    return clean.unionByName(read(found.tangled).dropDuplicates(list(KEY))) if found.tangled else clean


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
