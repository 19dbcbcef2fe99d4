"""The flow log as Spark sees it: types of the columns, and checks of what a job is given."""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import types as t

from pipeline.errors import PipelineError
from shm.contract.flow import COLUMNS

# By the type of a column in shm.contract.flow; dictionaries are plain strings here.
SPARK_TYPES: Final[dict[str, t.DataType]] = {
    "dictionary": t.StringType(),
    "timestamp": t.TimestampType(),
    "int8": t.ByteType(),
    "int16": t.ShortType(),
    "int32": t.IntegerType(),
    "int64": t.LongType(),
    "bool": t.BooleanType(),
    "binary": t.BinaryType(),
    "trace": t.BinaryType(),
    "span": t.BinaryType(),
    "histogram": t.ArrayType(t.StructType([t.StructField("b", t.ShortType()), t.StructField("n", t.LongType())])),
}

FLOW: Final = t.StructType([t.StructField(c.name, SPARK_TYPES[c.type], True) for c in COLUMNS])

# One record is one (router, boot, worker, seq); a record that is there twice is the same record.
KEY: Final = ("router_id", "boot_id", "worker_id", "seq")


def require(frame: DataFrame, columns: Iterable[str], job: str) -> DataFrame:
    """The columns a job needs, of the types they have in the log, and no others.

    Raises PipelineError: a column is missing or of another type; when the job is put together, not when it
    runs.
    """
    wanted = {field.name: field.dataType for field in FLOW if field.name in set(columns)}
    given = {field.name: field.dataType for field in frame.schema}
    for name, kind in wanted.items():
        if name not in given:
            raise PipelineError(f"{job} needs the column {name}, which the log does not have")
        if given[name] != kind:
            raise PipelineError(f"{job} needs {name} as {kind.simpleString()}, and it is {given[name].simpleString()}")
    return frame.select(*wanted)
