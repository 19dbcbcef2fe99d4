"""The project's own files, as tests of the tree read them."""

import re
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parents[2]
OURS = ("routerd", "shm", "core", "workers", "pipeline", "bench")
CODE = (".py", ".pyi", ".pyx", ".pxd", ".pxi", ".h", ".c")


@cache
def tracked() -> list[Path]:
    """The files that belong to the project: known to git, or about to be."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],  # noqa: S607  whichever git there is
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    files = [ROOT / name for name in listing.stdout.split("\0") if name]
    return sorted(file for file in files if file.is_file())


def sources(*suffixes: str) -> list[Path]:
    return [file for file in tracked() if file.suffix in suffixes]


T = TypeVar("T")


def once(find: Callable[[Path], Iterator[T]]) -> Callable[[Path], tuple[T, ...]]:
    """Have a function find what is in a file once, whoever asks."""

    @cache
    def found(file: Path) -> tuple[T, ...]:
        return tuple(find(file))

    return found


def lines(file: Path, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Lines of a file in which there is a match, with their numbers. Most files have none, which one search tells."""
    text = file.read_text(errors="replace")
    if re.search(pattern.pattern, text, pattern.flags | re.MULTILINE):
        yield from ((number, line) for number, line in enumerate(text.splitlines(), 1) if pattern.search(line))


def package(file: Path) -> str:
    return file.relative_to(ROOT).parts[0]


def place(file: Path, line: int) -> str:
    return f"{file.relative_to(ROOT)}:{line}"
