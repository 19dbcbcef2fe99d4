"""forward.pyi says what the compiled forwarder really has."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
ADDED = r"core\.forwarder\.forward\.(.*\.)?__(reduce_cython|setstate_cython|test)__"  # Cython's own


def test_stub_agrees_with_the_module(tmp_path: Path) -> None:
    """mypy's stubtest finds no difference."""
    allowed = tmp_path / "allowed"
    allowed.write_text(ADDED)
    command = [sys.executable, "-m", "mypy.stubtest", "core.forwarder.forward", "--allowlist", str(allowed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
