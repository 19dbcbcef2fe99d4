"""The project's own files, as tests of the tree read them."""

import subprocess
from functools import cache
from pathlib import Path

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


def package(file: Path) -> str:
    return file.relative_to(ROOT).parts[0]


def place(file: Path, line: int) -> str:
    return f"{file.relative_to(ROOT)}:{line}"
