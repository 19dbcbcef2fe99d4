"""What is missing from a flow log, and what is there twice, against sets of numbers."""

import json
import shutil
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.flow_log.survey import LogFile, survey
from routerd.recorder.files import File
from routerd.recorder.keeping import Keeper
from routerd.recorder.spool import Head
from shm.contract.flow_log.arrow import SCHEMA
from shm.contract.flow_log.numbers import Range, joined
from shm.contract.flow_log.setup import FlowLogSetup
from tests.support.pipeline.logs import dropped, lost

START = datetime(2026, 1, 2, tzinfo=UTC)
Key = tuple[str, int, int]
DEFAULTS: dict[Any, Any] = {pa.bool_(): True, pa.dictionary(pa.int32(), pa.string()): "x"}


def table(keys: list[Key]) -> pa.Table:
    """Records with these numbers, and of no interest else."""
    known = {"boot_id": 0, "worker_id": 1, "seq": 2}
    arrays = []
    for field in SCHEMA:
        if field.name in known:
            values = [key[known[field.name]] for key in keys]
        else:
            values = [None if field.nullable else DEFAULTS.get(field.type, 0)] * len(keys)
        arrays.append(pa.array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


class Log:
    """A router's log, and as sets of numbers what every file of it holds."""

    def __init__(self, root: Path) -> None:
        self.root, self.hour, self.boot, self.number = root, 0, 0, 0
        self.next: dict[tuple[str, int], int] = defaultdict(lambda: 1)
        self.held: set[Key] = set()
        self.keeper = Keeper(FlowLogSetup(str(root), 1, raw_seconds=0), "me")

    def write(self, spans: list[tuple[int, int, int]]) -> None:
        """One file: of each worker so many records, of which so many before them and every Nth is lost."""
        keys, sequences = [], {}
        boot = f"b{self.boot}"
        for worker, (before, size, every) in enumerate(spans):
            first = self.next[boot, worker] + before
            self.next[boot, worker] = first + size
            mine = [(boot, worker, one) for one in range(first, first + size) if not every or one % every]
            if mine:
                sequences[str(worker)] = [mine[0][2], mine[-1][2]]
            keys += mine
        if keys:
            self.number += 1
            begun = START + timedelta(hours=self.hour)
            file = File(self.root / "raw", Head("me", boot, 0, self.boot, self.number, begun, 1))
            for at in range(0, len(keys), 7):
                file.write(table(keys[at : at + 7]), {})
            file._sequences = sequences
            file.close(7 * self.boot)
            self.held |= set(keys)

    def close(self, sweep: bool) -> None:
        """The hour is over: its files are put together, and deleted or kept."""
        self.hour += 1
        now = START + timedelta(hours=self.hour, minutes=6)
        self.keeper.compact(now)
        if sweep:
            self.keeper.delete(now)

    def copy(self, which: int) -> None:
        if files := self.files():
            one = files[which % len(files)]
            shutil.copy(one, one.with_name(f"copy-{which}-{one.name}"))

    def forget(self) -> None:
        """The manifest is lost."""
        for path in (self.root / "compact").glob("_manifest*"):
            path.unlink()

    def age(self) -> None:
        """Compacted files are as early versions wrote them: they do not say which numbers they have."""
        for path in (self.root / "compact").rglob("*.parquet"):
            whole = pq.ParquetFile(path).read()
            told = {"routerd.flow.schema": "routerd.flow.v1", "routerd.flow.router": "me"}
            pq.write_table(whole.replace_schema_metadata(told), path)

    def files(self) -> list[Path]:
        return sorted(self.root.rglob("*.parquet"))

    def step(self, what: tuple[str, Any]) -> None:
        match what:
            case ("write", spans):
                self.write(spans)
            case ("close", sweep):
                self.close(sweep)
            case ("copy", which):
                self.copy(which)
            case ("boot", _):
                self.boot += 1
            case ("forget", _):
                self.forget()
            case _:
                self.age()


def keys_of(files: list[LogFile]) -> list[Key]:
    """Of all records."""
    found: list[Key] = []
    for file in files:
        rows = pq.ParquetFile(file.path).read(["boot_id", "worker_id", "seq"]).to_pydict()
        found += zip(rows["boot_id"], rows["worker_id"], rows["seq"], strict=True)
    return found


def missing(held: set[Key]) -> int:
    """By the numbers alone."""
    numbers: dict[tuple[str, int], set[int]] = defaultdict(set)
    for boot, worker, number in held:
        numbers[boot, worker].add(number)
    return sum(max(one) - min(one) + 1 - len(one) for one in numbers.values())


SPAN = st.tuples(st.integers(0, 3), st.integers(0, 12), st.sampled_from([0, 0, 0, 4]))
WRITE = st.tuples(st.just("write"), st.lists(SPAN, min_size=1, max_size=2))
CLOSE = st.tuples(st.just("close"), st.booleans())
COPY = st.tuples(st.just("copy"), st.integers(0, 99))
PLAIN = st.sampled_from([(name, 0) for name in ("boot", "forget", "age")])
STEPS = st.lists(st.one_of(WRITE, WRITE, WRITE, CLOSE, CLOSE, COPY, PLAIN), min_size=4, max_size=16)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(STEPS)
def test_what_is_missing_stays_known_and_nothing_counts_twice(steps: list[tuple[str, Any]]) -> None:
    """Whatever is lost within files or between them, put together, deleted after that, copied, by whichever
    version, with a manifest or without: each record is read once, and `lost` is what a plain count says."""
    with TemporaryDirectory() as folder:
        log = Log(Path(folder))
        for step in steps:
            log.step(step)
        found = survey(folder)
        clean, tangled = keys_of(found.clean), keys_of(found.tangled)
        assert not found.skipped
        assert len(clean) == len(set(clean))
        assert not set(clean) & set(tangled)
        assert set(clean) | set(tangled) == log.held
        assert lost(folder) == missing(log.held)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 6)), max_size=12), st.integers(1, 6))
def test_ranges_that_are_joined_hold_the_same_numbers(pairs: list[tuple[int, int]], most: int) -> None:
    """Exactly where there may be enough of them; otherwise as many, in no more than there may be."""
    ranges = [Range(first, first + size, size + 1) for first, size in pairs]
    numbers = {one for first, last, _ in ranges for one in range(first, last + 1)}
    exact = joined(ranges)
    assert [one for first, last, _ in exact for one in range(first, last + 1)] == sorted(numbers)
    few = joined(ranges, most)
    assert len(few) <= most
    assert sum(one.there for one in few) == len(numbers)


def test_a_compacted_file_says_what_its_sources_said(tmp_path: Path) -> None:
    """Numbers with their gaps, what had no room, by life of the core, and the names of the files."""
    log = Log(tmp_path)
    log.write([(20, 10, 0)])
    log.write([(5, 10, 0)])
    log.boot = 1
    log.write([(0, 3, 0), (0, 3, 0)])
    log.close(sweep=False)
    (path,) = (tmp_path / "compact").rglob("*.parquet")
    told = pq.read_metadata(path).metadata
    assert json.loads(told[b"routerd.flow.lives"]) == {
        "b0": {"sequences": {"0": [[21, 30, 10], [36, 45, 10]]}, "dropped": 0, "sampling": [1]},
        "b1": {"sequences": {"0": [[1, 3, 3]], "1": [[1, 3, 3]]}, "dropped": 7, "sampling": [1]},
    }
    assert len(json.loads(told[b"routerd.flow.sources"])) == 3
    assert (lost(tmp_path), dropped(tmp_path)) == (5, 7)
    log.close(sweep=True)
    assert log.files() == [path]
    assert (lost(tmp_path), dropped(tmp_path)) == (5, 7)
