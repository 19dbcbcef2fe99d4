"""The stream killed before any of its steps: what it wrote, and what it does again, is each record once."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from pipeline import stream
from pipeline.errors import PipelineError
from pipeline.output.directory import Output
from pipeline.output.parts import Parts, State, prepare
from pipeline.stream import Pace, _Batches

NUMBERS = "part-00000-00000000-0000-0000-0000-000000000000-c000.zstd.parquet"
BATCHES = ([1, 2, 3], [3, 4], [5, 6], [2, 6, 7], [8])  # some records come twice


class Killed(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


class Records(list[int]):
    """What the stream does with a data frame: numbers instead of rows, a file of them instead of Parquet."""

    def where(self, _: str) -> "Records":
        return self

    def coalesce(self, _: int) -> "Records":
        return self

    @property
    def write(self) -> "Records":
        return self

    def parquet(self, path: str) -> None:
        local(path).mkdir(parents=True)
        (local(path) / NUMBERS).write_text(json.dumps(self))


def local(path: str) -> Path:
    """The path that Spark is told with its scheme."""
    return Path(path.removeprefix("file://"))


class Spark:
    """What `Parts` reads with."""

    @property
    def read(self) -> "Spark":
        return self

    def parquet(self, *paths: str) -> Records:
        return Records(number for path in paths for number in json.loads((local(path) / NUMBERS).read_text()))


class Mortal(fs.LocalFileSystem):  # type: ignore[misc]  # it has no types
    """A file system whose process is killed instead of changing anything for the n-th time."""

    left = 0

    def step(self) -> None:
        Mortal.left -= 1
        if Mortal.left < 0:
            raise Killed

    def open_output_stream(self, *args: Any, **more: Any) -> Any:
        self.step()
        return super().open_output_stream(*args, **more)

    def delete_dir(self, *args: Any) -> None:
        self.step()
        super().delete_dir(*args)

    def delete_file(self, *args: Any) -> None:
        self.step()
        super().delete_file(*args)

    def move(self, *args: Any) -> None:
        self.step()
        super().move(*args)


class Quiet:
    """Nothing is wrong with any file."""

    def fresh(self) -> list[Any]:
        return []


def fresh_of(records: Records, before: State) -> tuple[Records, State]:
    """Stands for `once_only`: what was not taken before."""
    taken = {number for number, _ in before.taken.get("w", [])}
    new = Records(sorted(set(records) - taken))
    ranges = [(number, number) for number in sorted(taken | set(new))]
    return new, State(-1, before.records + len(new), 0, {"w": ranges}, {})


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers instead of records; three parts become one sum."""
    monkeypatch.setattr(stream, "FOLD_AT", 2)
    monkeypatch.setattr(stream, "once_only", fresh_of)
    monkeypatch.setattr(stream, "sums", lambda records: records)
    monkeypatch.setattr(stream, "added", lambda records: records)
    monkeypatch.setattr("pipeline.output.directory.file_system", lambda path: (Mortal(), path))


def start(output: Path) -> tuple[Parts, _Batches]:
    """The stream's process: again after each death."""
    checkpoint = output / "_checkpoint" / "metadata"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.touch()
    stand_ins: tuple[Any, Any] = Spark(), Quiet()
    prepare(Output(str(output)))
    parts = Parts(stand_ins[0], str(output))
    return parts, _Batches(parts, stand_ins[1], Pace(), lambda _: None)


def died(output: Path, steps: int) -> bool:
    """Take all batches, killed after so many steps; Spark gives the batch again, or even the one before."""
    Mortal.left = steps
    number, deaths = 0, 0
    parts, batches = start(output)
    while number < len(BATCHES):
        batch: Any = Records(BATCHES[number])
        try:
            batches.take(batch, number)
            number += 1
        except Killed:
            Mortal.left = 1000
            deaths, number = deaths + 1, max(0, number - 1)
            parts, batches = start(output)
    result: Any = parts.read()
    assert sorted(result) == list(range(1, 9))
    assert (parts.latest().records, parts.latest().missing()) == (8, 0)
    start(output)
    assert len([*output.glob("*part-*"), *output.glob("*sum-*")]) == parts.number  # nothing is left over
    return deaths == 1


@pytest.mark.parametrize("renames", [True, False])
def test_killed_before_any_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: bool) -> None:
    """However far it had come; also where a rename is a copy."""
    monkeypatch.setattr("pipeline.output.directory.appears_whole", lambda files: renames)
    steps = 0
    while died(tmp_path / str(steps), steps):
        steps += 1
    assert steps >= 2 * len(BATCHES)


def test_what_others_put_beside_the_parts_is_left_alone(tmp_path: Path) -> None:
    """Hidden or not; it stops nothing. What is called like a part and is none is refused by name."""
    Mortal.left = 1000
    half = Output(str(tmp_path)).fresh(".part")
    (tmp_path / half).mkdir()
    for name in (".git", ".ssh", ".old"):
        (tmp_path / name / "below").mkdir(parents=True)
    (tmp_path / ".hidden").touch()
    (tmp_path / ".link").symlink_to("nowhere")
    kept = {path.name for path in tmp_path.iterdir()} - {half}
    assert died(tmp_path, 1000) is False
    alike = tmp_path / ".part-0123456789abcdef0123456789abcdef"
    alike.mkdir()
    (tmp_path / "part-000000000000").mkdir()  # as if a sum held it
    for name in ("_state.json", "notes.txt"):
        (tmp_path / "part-000000000000" / name).touch()
    start(tmp_path)
    assert len(list((tmp_path / "part-000000000000").iterdir())) == 2
    assert kept < {path.name for path in tmp_path.iterdir()}
    assert not (tmp_path / half).exists()
    assert alike.exists()
    (tmp_path / "part-000000000099" / "thesis").mkdir(parents=True)
    with pytest.raises(PipelineError, match=r"part-000000000099 has no _state\.json, so it is not a part of a stream"):
        start(tmp_path)
    assert (tmp_path / "part-000000000099" / "thesis").is_dir()


def test_missing_are_the_numbers_that_did_not_come() -> None:
    """Between files and within one; not those in front of the first, which may be older than the log, nor
    those behind the last, of which nobody knows."""
    assert State().missing() == 0
    assert State(0, 12, 0, {"a": [(5, 9), (12, 15)], "b": [(1, 10)]}, {}).missing() == 9
