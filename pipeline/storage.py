"""The one place where Spark reads and writes: the log in, tables of results out."""

from collections.abc import Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pipeline.errors import PipelineError
from pipeline.generations import Generation
from pipeline.schema import FLOW, KEY
from pipeline.survey import LogFile, Survey


def read_log(spark: SparkSession, found: Survey, places: Mapping[str, str] | None = None) -> DataFrame:
    """The records of a log, each once, in no order. Columns that an older file lacks are null.

    ``places``: by path, where a file is to be read instead.
    """
    clean = _read(spark, found.clean, places or {})
    if not found.tangled:
        return clean
    return clean.unionByName(_read(spark, found.tangled, places or {}).dropDuplicates(list(KEY)))


def _read(spark: SparkSession, files: list[LogFile], places: Mapping[str, str]) -> DataFrame:
    if not files:
        return spark.createDataFrame([], FLOW)
    return spark.read.schema(FLOW).parquet(*(places.get(file.path, file.path) for file in files))


class Results:
    """The tables of one run, each a directory of Parquet files."""

    def __init__(self, spark: SparkSession, generation: Generation) -> None:
        self._spark = spark
        self._schemas: dict[str, StructType] = {}  # of tables written: Spark need not look into them
        self.generation = generation

    def write(self, name: str, table: DataFrame) -> None:
        """Write a table, which is not there yet."""
        table.write.parquet(self.generation.table(name))
        self._schemas[name] = table.schema

    def read(self, name: str) -> DataFrame:
        """A table. Raises PipelineError: it is not there."""
        try:
            known = self._schemas.get(name)
            reader = self._spark.read if known is None else self._spark.read.schema(known)
            return reader.parquet(self.generation.table(name))
        except AnalysisException as error:
            raise PipelineError(
                f"{self.generation.root} has no table {name}: `routerd pipeline run` makes it anew"
            ) from error
