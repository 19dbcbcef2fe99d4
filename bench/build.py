"""Compiles the hand-made client when its sources are newer than its executable."""

from __future__ import annotations

import shutil
import subprocess

from bench.clients import WIRE
from bench.targets import ROOT, BenchError

SOURCES = tuple(
    ROOT / "bench" / name for name in ("wire.c", "wire_connection.h", "wire_frames.h", "message.h")
)
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra")


def build_wire() -> None:
    """Leaves an up-to-date executable at ``WIRE``."""
    newest = max(source.stat().st_mtime for source in SOURCES)
    if WIRE.exists() and WIRE.stat().st_mtime >= newest:
        return
    compiler = shutil.which("cc")
    if compiler is None:
        raise BenchError("no C compiler (cc) is installed; the hand-made client needs one: apt install gcc")
    WIRE.parent.mkdir(exist_ok=True)
    subprocess.run(  # noqa: S603  every word is ours
        [compiler, *FLAGS, str(SOURCES[0]), "-o", str(WIRE)], check=True
    )
