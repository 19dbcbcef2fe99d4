"""The tables of a run, as Spark writes and reads them."""

from collections.abc import Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from pipeline.files import literal
from pipeline.output.columns import differs
from pipeline.output.generations import Generation


class Results:
    """The tables of one run, each a directory of Parquet files."""

    def __init__(self, spark: SparkSession, generation: Generation) -> None:
        self._spark = spark
        self._schemas: dict[str, StructType] = {}  # of the tables written, so that Spark need not read them
        self.generation = generation

    def write(self, name: str, table: DataFrame, hours: Mapping[str, list[str]] | None = None) -> None:
        """Write a table that does not exist yet. Raises ``ValueError`` if its columns are not those declared.

        ``hours`` are the files of the table by hour, if a rollup has the same rows: then it has links to these, where
        there are links.
        """
        if why := differs(name, types_of(table)):
            raise ValueError(f"the table {name} is not as declared: {why}")
        if hours is None or not self.generation.link(name, hours):
            table.write.parquet(self.generation.table(name))
        self._schemas[name] = table.schema

    def read(self, name: str) -> DataFrame:
        """Return a table. Raises ``PipelineError`` if it does not exist, or its columns are not those declared."""
        try:
            known = self._schemas.get(name)
            reader = self._spark.read if known is None else self._spark.read.schema(known)
            table = reader.parquet(literal(self.generation.table(name)))
        except AnalysisException as error:
            raise self.generation.lacks(name) from error
        if why := differs(name, types_of(table)):
            raise self.generation.strange(name, why)
        return table


def write_rollup(rows: DataFrame, time: str, directory: str) -> None:
    """Write the rows of each hour, by their column ``time``, as a partition of a directory that has none of it."""
    named = rows.withColumn("date", f.date_format(time, "yyyy-MM-dd")).withColumn("hour", f.date_format(time, "HH"))
    named.write.mode("append").partitionBy("date", "hour").parquet(directory)


def types_of(table: DataFrame) -> dict[str, str]:
    """Return Spark's type of each column, in order."""
    return {field.name: field.dataType.simpleString() for field in table.schema}
