"""`spark.read.format("routerd")`: the flow log as a data source of Spark, for notebooks.

    spark.dataSource.register(pipeline.flow_log.source.FlowLog)   # not needed where `pyspark_routerd` can be imported
    spark.read.format("routerd").load("/var/lib/routerd/flows")

It leaves out the same files as the batch jobs do. Spark reads plain Parquet several times faster.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pipeline.errors import PipelineError
from pipeline.files import file_system
from pipeline.flow_log.records import FLOW
from pipeline.flow_log.survey import survey

PER_PARTITION = 8  # files
BATCH = 1 << 16  # records
WANTED = to_arrow_schema(FLOW, timezone="UTC")


class FlowLog(DataSource):
    """The data source; its option ``path`` is the directory of a flowLog, local or with a URL."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "routerd"

    def schema(self) -> StructType:
        """Return every column of this version; those that a file lacks are null."""
        return FLOW

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch. Raises ``PipelineError`` without a path."""
        if "path" not in self.options:
            raise PipelineError('give the directory of a flowLog: spark.read.format("routerd").load(DIRECTORY)')
        return _Reader(self.options["path"])


class _Files(InputPartition):
    """The files that one task reads."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(None)
        self.paths = tuple(paths)


class _Reader(DataSourceReader):
    def __init__(self, directory: str) -> None:
        self._directory = directory

    def partitions(self) -> Sequence[InputPartition]:
        found = survey(self._directory)
        if found.tangled:
            raise PipelineError(
                f"{found.tangled[0].path} shares records with other files: `routerd pipeline run` "
                "reads them once, and spark.read.parquet reads them as they are"
            )
        paths = [file.path for file in found.clean]
        return [_Files(paths[at : at + PER_PARTITION]) for at in range(0, len(paths), PER_PARTITION)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, _Files):
            return
        files, _ = file_system(self._directory)
        for path in partition.paths:
            with files.open_input_file(path) as file:
                for batch in pq.ParquetFile(file).iter_batches(BATCH):
                    yield _as_spark_wants(batch)


def _as_spark_wants(batch: Any) -> Any:
    """Return a batch with every column, dictionaries as strings and fixed-size binaries as binaries."""
    arrays = []
    for column in WANTED:
        place = batch.schema.get_field_index(column.name)
        arrays.append(batch.column(place).cast(column.type) if place >= 0 else pa.nulls(len(batch), column.type))
    return pa.RecordBatch.from_arrays(arrays, schema=WANTED)
