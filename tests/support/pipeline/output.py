"""Outputs of the pipeline without Spark: runs are made by hand."""

from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

from pipeline.output.directory import RESULTS, Kind, Output, claimed
from pipeline.output.generations import Generation, begin
from pipeline.output.rollups import Rollups

ID = "0123456789abcdef0123456789abcdef"
HOUR = "2026-01-05T03"


def tree(path: Path) -> dict[str, str]:
    """Everything below a directory, with what is in it."""
    return {str(one.relative_to(path)): one.read_text() if one.is_file() else "/" for one in sorted(path.rglob("*"))}


def claim(directory: Path | str, log: Path, kind: Kind = RESULTS) -> Output:
    """For a moment: nothing else in these tests uses it at the same time."""
    with claimed(str(directory), kind, str(log)) as output:
        return output


def part(name: str) -> str:
    """What Spark calls the only file of a table; each run has another."""
    return f"part-00000-{uuid5(NAMESPACE_OID, name)}-c000.zstd.parquet"


def make(output: Output, name: str, names: tuple[str, ...] = ("traffic", "links")) -> Generation:
    """Stands for a run: its tables have its name in them."""
    made = begin(output)
    for table in names:
        path = Path(made.root, table)
        path.mkdir()
        (path / part(name)).write_text(name)
        (path / f".{part(name)}.crc").touch()
        (path / "_SUCCESS").touch()
    made.publish({"made": name}, hours(made, name))
    return made


def hours(made: Generation, name: str) -> str:
    """Stands for the rollups of a run: those of one hour, whose records are others each time."""
    kept = Rollups(made.output, made.former, "rollups")
    kept.keep({HOUR: [(name, "b", 0, 1, 1, 1)]})
    folder = Path(made.output.path(made.rollup), "traffic", "date=2026-01-05", "hour=03")
    folder.mkdir(parents=True)
    (folder / part(name)).write_text(name)
    (folder / f".{part(name)}.crc").touch()
    kept.add("traffic", [HOUR], made.rollup)
    return kept.text({})
