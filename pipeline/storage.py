"""The one place that reads and writes: the log in, tables of results out, each replaced as a whole."""

import json
from typing import Any, Final
from uuid import uuid4

from pyarrow import fs
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pipeline.errors import PipelineError
from pipeline.files import file_system
from pipeline.schema import FLOW, KEY
from pipeline.survey import LogFile, Survey

SUMMARY: Final = "summary.json"


def read_log(spark: SparkSession, found: Survey) -> DataFrame:
    """The records of a log, each once, in no order. Columns that an older file lacks are null."""
    clean = _read(spark, found.clean)
    if not found.tangled:
        return clean
    return clean.unionByName(_read(spark, found.tangled).dropDuplicates(list(KEY)))


def _read(spark: SparkSession, files: list[LogFile]) -> DataFrame:
    if not files:
        return spark.createDataFrame([], FLOW)
    return spark.read.schema(FLOW).parquet(*(file.path for file in files))


def prepare(directory: str) -> None:
    """Make a directory for results. Raises PipelineError: it cannot be written to."""
    files, root = file_system(directory)
    try:
        files.create_dir(root, recursive=True)
        with files.open_output_stream(f"{root}/.probe"):
            pass
        files.delete_file(f"{root}/.probe")
    except OSError as error:
        raise PipelineError(f"{directory} cannot be written to: {error.strerror or error}") from error


def summary(directory: str) -> dict[str, Any]:
    """What the last run said of its results. Raises PipelineError: there are none."""
    files, root = file_system(directory)
    try:
        with files.open_input_file(f"{root}/{SUMMARY}") as file:
            return dict(json.loads(file.read()))
    except (OSError, ValueError) as error:
        raise PipelineError(
            f"{directory} holds no results: `routerd pipeline run` makes them there"
        ) from error


class Results:
    """A directory of tables, each a directory of Parquet files that is replaced by a rename."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        self._spark = spark
        self._files, self._root = file_system(directory)
        self.directory = directory
        self._schemas: dict[str, StructType] = {}  # of tables written: Spark need not look into them

    def prepare(self) -> None:
        """Make the directory. Raises PipelineError: it cannot be written to."""
        prepare(self.directory)

    def write(self, name: str, table: DataFrame) -> None:
        """Write a table in place of the former one of that name."""
        fresh = f"{self._root}/.{name}-{uuid4().hex}"
        try:
            table.write.parquet(self._url(fresh))
            self._replace(f"{self._root}/{name}", fresh)
            self._schemas[name] = table.schema
        finally:
            self._remove(fresh)

    def write_text(self, name: str, text: str) -> str:
        """Write a file in place of the former one of that name; where it stands."""
        fresh = f"{self._root}/.{name}-{uuid4().hex}"
        with self._files.open_output_stream(fresh) as stream:
            stream.write(text.encode())
        self._files.move(fresh, f"{self._root}/{name}")
        return f"{self._root}/{name}"

    def read(self, name: str) -> DataFrame:
        """A table. Raises PipelineError: it is not there."""
        try:
            known = self._schemas.get(name)
            reader = self._spark.read if known is None else self._spark.read.schema(known)
            return reader.parquet(self._url(f"{self._root}/{name}"))
        except AnalysisException as error:
            raise PipelineError(
                f"{self.directory} has no table {name}: `routerd pipeline run` makes it there"
            ) from error

    def summary(self) -> dict[str, Any]:
        """What the last run said of itself. Raises PipelineError: there was none."""
        return summary(self.directory)

    def _url(self, path: str) -> str:
        scheme = self.directory.partition("://")
        return f"{scheme[0]}://{path}" if scheme[1] else path

    def _replace(self, target: str, fresh: str) -> None:
        """A reader finds the old table or the new one, or for a moment none; never a mixture."""
        old = f"{fresh}-old"
        if self._files.get_file_info(target).type != fs.FileType.NotFound:
            self._files.move(target, old)
        self._files.move(fresh, target)
        self._remove(old)

    def _remove(self, path: str) -> None:
        if self._files.get_file_info(path).type != fs.FileType.NotFound:
            self._files.delete_dir(path)
