"""The tables of a run, as Spark writes and reads them."""

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pipeline.errors import PipelineError
from pipeline.output.generations import Generation


class Results:
    """The tables of one run, each a directory of Parquet files."""

    def __init__(self, spark: SparkSession, generation: Generation) -> None:
        self._spark = spark
        self._schemas: dict[str, StructType] = {}  # of the tables written, so that Spark need not read them
        self.generation = generation

    def write(self, name: str, table: DataFrame) -> None:
        """Write a table that does not exist yet."""
        table.write.parquet(self.generation.table(name))
        self._schemas[name] = table.schema

    def read(self, name: str) -> DataFrame:
        """Return a table. Raises ``PipelineError`` if it does not exist."""
        try:
            known = self._schemas.get(name)
            reader = self._spark.read if known is None else self._spark.read.schema(known)
            return reader.parquet(self.generation.table(name))
        except AnalysisException as error:
            raise PipelineError(
                f"{self.generation.root} has no table {name}: `routerd pipeline run` makes it anew"
            ) from error
