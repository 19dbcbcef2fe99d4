"""Builds the simulation of a whole router in one process (simulation.h)."""

import subprocess
from pathlib import Path

from tests.fuzz.catalogue import ROOT, engine

SOURCES = ROOT / "tests" / "simulation" / "depth"
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-g", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
PARTS = ("process", "wire", "world", "core", "worker")


def compiled(part: str, folder: Path, optimised: str, *include: Path) -> Path:
    """Compile one part; what `include` holds wins over the router's own sources."""
    made = folder / f"{part}.o"
    paths = [f"-I{path}" for path in (*include, ROOT)]
    command = ["gcc", *FLAGS, optimised, *paths, "-c", str(SOURCES / f"{part}.c"), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return made


def linked(parts: list[Path], program: Path) -> Path:
    """Make the program of its parts, and of the AMQP engine."""
    command = ["gcc", *map(str, parts), *engine(), "-pthread", "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def build(folder: Path, optimised: str = "-O2") -> Path:
    """Make the program in a folder, which is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    return linked([compiled(part, folder, optimised) for part in PARTS], folder / "world")
