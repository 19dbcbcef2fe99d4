"""Compiles the hand-made clients when their sources are newer than their executables."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bench.clients import RMR, WIRE
from bench.targets import ROOT, BenchError

SOURCES = {
    WIRE: (
        "wire.c",
        "wire_connection.h",
        "wire_frames.h",
        "message.h",
        "../shm/codec/amqp.h",
        "../shm/codec/sections.h",
    ),
    RMR: ("rmr.c",),
}
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra")


def build_wire() -> None:
    """Bring the executables ``WIRE`` and ``RMR`` up to date."""
    for binary, names in SOURCES.items():
        _build(binary, [ROOT / "bench" / name for name in names])


def _build(binary: Path, sources: list[Path]) -> None:
    newest = max(source.stat().st_mtime for source in sources)
    if binary.exists() and binary.stat().st_mtime >= newest:
        return
    compiler = shutil.which("cc")
    if compiler is None:
        raise BenchError("no C compiler (cc) is installed; the hand-made client needs one: apt install gcc")
    binary.parent.mkdir(exist_ok=True)
    subprocess.run(  # noqa: S603  every word is ours
        [compiler, *FLAGS, f"-I{ROOT}", str(sources[0]), "-o", str(binary)], check=True
    )
