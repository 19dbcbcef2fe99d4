"""The output of the stream: parts that add up. Each batch is one, and appears by a rename, so it counts once.

    part-NUMBER   sums of one batch, and the state behind it
    sum-NUMBER    sums of all batches up to that one, made from parts now and then; what it holds is then
    removed

A batch that is made again after a crash replaces its part, or is passed over if a sum holds it already.
"""

import json
import re
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from uuid import uuid4

from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession

from pipeline.errors import PipelineError
from pipeline.files import file_system
from pipeline.spans import Ledger

STATE: Final = "_state.json"
CHECKPOINT: Final = "_checkpoint"


@dataclass(slots=True)
class State:
    """Behind a batch: what was taken so far. ``heard``: by router, the newest record, in µs since 1970."""

    batch: int = -1
    records: int = 0
    repeated: int = 0  # records that had been taken before
    taken: Ledger = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)

    def closed_until(self, delay_s: float) -> int | None:
        """Minutes before this (µs since 1970) get no more records but later ones than that; None: none."""
        return min(self.heard.values()) - int(delay_s * 1e6) if self.heard else None

    def missing(self) -> int:
        """Records that were not there, so far: numbers between the first and the last of each writer."""
        numbers = sum(ranges[-1][1] - ranges[0][0] + 1 for ranges in self.taken.values() if ranges)
        return max(0, numbers - self.records)


class Parts:
    """The directory. Its methods are called by one process at a time."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        self._spark = spark
        self._files, self._root = file_system(directory)
        self.directory = directory
        self.checkpoint = self.url(f"{self._root}/{CHECKPOINT}")

    def prepare(self) -> None:
        """Make the directory. Raises PipelineError: it cannot be, or its checkpoint is gone."""
        try:
            self._files.create_dir(self._root, recursive=True)
        except OSError as error:
            raise PipelineError(f"{self.directory} cannot be made: {error.strerror or error}") from error
        begun = self._files.get_file_info(f"{self._root}/{CHECKPOINT}/metadata").type == fs.FileType.File
        if self._numbered() and not begun:
            raise PipelineError(
                f"{self.directory} has results, but not the {CHECKPOINT} that says which files they are of: "
                "give another --output"
            )
        for info in self._files.get_file_info(fs.FileSelector(self._root)):
            if info.base_name.startswith("."):  # of a process that was killed
                self._files.delete_dir(info.path)

    def state_before(self, batch: int) -> State | None:
        """What the batch goes on from; None: it is in the output for good."""
        numbered = self._numbered()
        if any(kind == "sum" and number >= batch for kind, number, _ in numbered):
            return None
        earlier = [(number, path) for _, number, path in numbered if number < batch]
        return self._state(max(earlier)[1]) if earlier else State()

    def latest(self) -> State:
        """Behind the last batch."""
        numbered = self._numbered()
        return self._state(max((number, path) for _, number, path in numbered)[1]) if numbered else State()

    def write(self, sums: DataFrame, state: State) -> None:
        """The part of a batch, in place of one that a killed process left."""
        self._put(sums, state, "part")

    def read(self) -> DataFrame | None:
        """All sums, to be added up by their keys; None: there are none yet."""
        paths = [self.url(path) for _, _, path in self._current()]
        return self._spark.read.parquet(*paths) if paths else None

    def fold(self, sums: DataFrame) -> None:
        """Make one sum of everything, from what `read` gave, and remove the rest."""
        current = self._current()
        self._put(sums, self.latest(), "sum")
        for _, _, path in current:
            self._files.delete_dir(path)

    @property
    def number(self) -> int:
        """Parts that a reader has to add up."""
        return len(self._current())

    def url(self, path: str) -> str:
        """As Spark wants it."""
        scheme, given, _ = self.directory.partition("://")
        return f"{scheme}://{path}" if given else path

    def _put(self, sums: DataFrame, state: State, kind: str) -> None:
        fresh = f"{self._root}/.{kind}-{uuid4().hex}"
        sums.coalesce(1).write.parquet(self.url(fresh))
        with self._files.open_output_stream(f"{fresh}/{STATE}") as stream:
            stream.write(json.dumps(asdict(state)).encode())
        target = f"{self._root}/{kind}-{state.batch:012d}"
        if self._files.get_file_info(target).type != fs.FileType.NotFound:
            self._files.delete_dir(target)
        self._files.move(fresh, target)

    def _numbered(self) -> list[tuple[str, int, str]]:
        """Kind, number and path of everything there."""
        infos = self._files.get_file_info(fs.FileSelector(self._root, allow_not_found=True))
        named = ((re.fullmatch(r"(part|sum)-(\d{12})", info.base_name), info.path) for info in infos)
        return sorted((found[1], int(found[2]), path) for found, path in named if found)

    def _current(self) -> list[tuple[str, int, str]]:
        """The newest sum and the parts behind it."""
        numbered = self._numbered()
        newest = max((number for kind, number, _ in numbered if kind == "sum"), default=-1)
        return [one for one in numbered if one[1] > newest or (one[0] == "sum" and one[1] == newest)]

    def _state(self, path: str) -> State:
        with self._files.open_input_file(f"{path}/{STATE}") as file:
            read: dict[str, Any] = json.loads(file.read())
        read["taken"] = {name: [(one[0], one[1]) for one in ranges] for name, ranges in read["taken"].items()}
        return State(**read)
