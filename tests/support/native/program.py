"""Programs of a C file with the AMQP engine: a worker or a core that a test drives by itself."""

import subprocess
from pathlib import Path

from tests.fuzz.catalogue import engine

ROOT = Path(__file__).parents[3]
COMMAND = ["gcc", "-std=gnu11", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]


def compiled(source: Path, folder: Path, *flags: str) -> Path:
    """Compile a C file, with further flags, to a program in a folder. What the compiler says fails the test."""
    program = folder / source.stem
    command = [*COMMAND, *flags, f"-I{ROOT}", str(source), *engine(), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def said(program: Path, *arguments: str, seconds: float = 120) -> str:
    """Run a program, which must succeed, and return its output."""
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
