"""A C file beside a test, as a library that the test calls."""

import ctypes
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]  # a body has functions for others, too


def library(source: Path, folder: Path) -> ctypes.CDLL:
    """Compile a file into a folder, and load it. It includes files by their paths from the root."""
    built = folder / f"{source.stem}.so"
    command = ["gcc", "-std=gnu11", "-O0", *WARNINGS, "-shared", "-fPIC", f"-I{ROOT}", str(source), "-o", str(built)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(built))
