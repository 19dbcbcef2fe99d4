"""Whatever stands in the work ring and in blocks: the pump goes on, inside its memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VICTIM = ROOT / "tests" / "support" / "programs" / "pump_victim.py"


def run(seed: int, lives: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", str(VICTIM), str(seed), lives],
        capture_output=True,
        text=True,
        timeout=600,
        env=environment,
        check=False,
    )


@pytest.mark.parametrize("seed", range(3))
def test_pump_stays_in_its_memory(sanitized: dict[str, str], seed: int) -> None:
    """Random records, broken indices, scribbled blocks, under sanitizers."""
    done = run(seed, os.environ.get("FUZZ_LIVES", "15"), sanitized)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("seed", range(100, 103))
def test_pump_goes_on(seed: int) -> None:
    """The same, more often, with the pump as it is installed."""
    done = run(seed, os.environ.get("FUZZ_LIVES", "40"))
    assert done.returncode == 0, done.stdout + done.stderr
