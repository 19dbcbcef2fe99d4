"""native.pyi says what the compiled module really has."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_stub_agrees_with_the_module():
    """mypy's stubtest finds no difference."""
    command = [
        sys.executable,
        "-m",
        "mypy.stubtest",
        "shm.native",
        "--allowlist",
        str(HERE / "stub_allowlist.txt"),
    ]
    done = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
