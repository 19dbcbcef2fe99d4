"""A .pyi says what its compiled module really has."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize("module", ["shm.native", "bench.contract"])
def test_stub_agrees_with_the_module(module: str) -> None:
    """mypy's stubtest finds no difference."""
    command = [
        sys.executable,
        "-m",
        "mypy.stubtest",
        module,
        "--allowlist",
        str(HERE / "stub_allowlist.txt"),
    ]
    done = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
