"""The output of the stream: parts that add up. A batch is one part, which a rename makes appear, so it counts once.

    part-NUMBER   the sums of one batch, and the state after it
    sum-NUMBER    the sums of all batches up to that one, made from time to time; the parts in it are then removed

Where a rename is a copy, as in object stores, they are called part-NUMBER-ID and sum-NUMBER-ID, and appear when their
last file is there, the state; one without it is not finished, or going.

A batch that is repeated after a crash replaces its part, or is skipped if a sum contains it already.

Only what we made is removed: parts that a sum contains, each with a state of ours in it, and with an ID that this
output gave, parts on their way in or out.
"""

import json
import re
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from pipeline.errors import PipelineError
from pipeline.output.directory import ID, TABLE, Output
from pipeline.output.spans import Ledger

STATE: Final = "_state.json"
CHECKPOINT: Final = "_checkpoint"
HALF: Final = rf"\.(?:part|sum)-{ID}"
NAMED: Final = rf"(?:part|sum)-\d{{12}}-{ID}"  # in an object store
HOLDS: Final = rf"_state\.json|{TABLE}"

Numbered = tuple[str, int, str]  # kind, number and path of a part or a sum


@dataclass(slots=True)
class State:
    """The state after a batch: what was taken so far; ``heard`` is each router's newest record, in µs since 1970."""

    batch: int = -1
    records: int = 0
    repeated: int = 0  # records that had been taken before
    taken: Ledger = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)

    def closed_until(self, delay_s: float) -> int | None:
        """Return the end of the complete minutes, in µs since 1970, if no record is later than ``delay_s``."""
        return min(self.heard.values()) - int(delay_s * 1e6) if self.heard else None

    def missing(self) -> int:
        """Return how many records are missing so far, between the first and last number of each writer."""
        numbers = sum(ranges[-1][1] - ranges[0][0] + 1 for ranges in self.taken.values() if ranges)
        return max(0, numbers - self.records)


class Parts:
    """The parts in an output. Only one process at a time may call the methods."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        self._spark = spark
        self._output = Output(directory)
        self._files, self._root = self._output.files, self._output.root
        self.checkpoint = self._output.url(self._output.path(CHECKPOINT))

    def state_before(self, batch: int) -> State | None:
        """Return the state before a batch; None if a sum contains the batch already."""
        numbered = self._numbered()
        if any(kind == "sum" and number >= batch for kind, number, _ in numbered):
            return None
        earlier = [(number, path) for _, number, path in numbered if number < batch]
        return self._state(max(earlier)[1]) if earlier else State()

    def latest(self) -> State:
        """Return the state after the last batch."""
        numbered = self._numbered()
        return self._state(max((number, path) for _, number, path in numbered)[1]) if numbered else State()

    def write(self, sums: DataFrame, state: State) -> None:
        """Write the part of a batch, in place of one that a killed process left."""
        self._put(sums, state, "part")

    def read(self) -> DataFrame | None:
        """Return all sums, to be added up by key; None if there are none yet."""
        paths = [self._output.url(path) for _, _, path in self._current()]
        return self._spark.read.parquet(*paths) if paths else None

    def fold(self, sums: DataFrame) -> None:
        """Make ``sums``, everything that `read` returned, the only sum, and remove the rest."""
        current = self._current()
        self._put(sums, self.latest(), "sum")
        for _, _, path in current:
            _discard(self._output, path)

    @property
    def number(self) -> int:
        """The number of parts that a reader has to add up."""
        return len(self._current())

    def _put(self, sums: DataFrame, state: State, kind: str) -> None:
        name = f"{kind}-{state.batch:012d}"
        fresh = self._output.path(self._output.fresh(f".{kind}" if self._output.renames else name))
        sums.coalesce(1).write.parquet(self._output.url(fresh))
        if not self._output.renames:
            self._clear(kind, state.batch)
        with self._files.open_output_stream(f"{fresh}/{STATE}") as stream:
            stream.write(json.dumps(asdict(state)).encode())
        if self._output.renames:
            self._clear(kind, state.batch)
            self._files.move(fresh, f"{self._root}/{name}")

    def _clear(self, kind: str, batch: int) -> None:
        """Remove the part or sum that a repeated batch replaces. Raises ``PipelineError`` if it is not ours alone."""
        for path in (path for its, number, path in self._numbered() if (its, number) == (kind, batch)):
            if not _discard(self._output, path):
                there = self._output.strangers(path, HOLDS)[0]
                raise PipelineError(
                    f"{there} is in the way of a batch, and routerd did not put it there: move it away, and start again"
                )

    def _numbered(self) -> list[Numbered]:
        return _numbered(self._output)

    def _current(self) -> list[Numbered]:
        return _current(self._numbered())

    def _state(self, path: str) -> State:
        with self._files.open_input_file(f"{path}/{STATE}") as file:
            read: dict[str, Any] = json.loads(file.read())
        read["taken"] = {name: [(one[0], one[1]) for one in ranges] for name, ranges in read["taken"].items()}
        return State(**read)


def prepare(output: Output) -> None:
    """Make a claimed output ready for a stream to continue, and remove what a killed one left.

    Raises ``PipelineError`` if its checkpoint is gone, or something in it is not a part of ours.
    """
    numbered = _numbered(output)
    if numbered and not output.has(output.path(f"{CHECKPOINT}/metadata")):
        raise PipelineError(
            f"{output.directory} has results, but not the {CHECKPOINT} that says which files they are of: "
            "give another --output"
        )
    for _, _, path in numbered:
        _own(output, path)
    output.sweep(HALF, HOLDS)
    output.sweep(NAMED, HOLDS, keep={path.rpartition("/")[2] for _, _, path in numbered})
    current = _current(numbered)
    for one in numbered:
        if one not in current:
            _discard(output, one[2])


def _numbered(output: Output) -> list[Numbered]:
    """Return all parts and sums, in order; of those with an ID, the ones that have their state."""
    named = ((re.fullmatch(rf"(part|sum)-(\d{{12}})(-{ID})?", name), output.path(name)) for name in output.entries())
    return sorted(
        (found[1], int(found[2]), path)
        for found, path in named
        if found and (not found[3] or output.has(f"{path}/{STATE}"))
    )


def _current(numbered: list[Numbered]) -> list[Numbered]:
    """Return the newest sum and the parts after it."""
    newest = max((number for kind, number, _ in numbered if kind == "sum"), default=-1)
    return [one for one in numbered if one[1] > newest or (one[0] == "sum" and one[1] == newest)]


def _own(output: Output, path: str) -> None:
    """Raise ``PipelineError`` unless we made it."""
    if not output.has(f"{path}/{STATE}"):
        raise PipelineError(f"{path} has no {STATE}, so it is not a part of a stream: move it away")


def _discard(output: Output, path: str) -> bool:
    """Remove a part, unless somebody put something into it.

    It loses its name first, or else its state, because half a part would pass for a whole one.
    """
    _own(output, path)
    if output.strangers(path, HOLDS):
        return False
    going = path
    if output.renames:
        going = output.path(output.fresh(".part"))
        output.files.move(path, going)
    else:
        output.files.delete_file(f"{path}/{STATE}")
    output.remove(going, HOLDS)
    return True
