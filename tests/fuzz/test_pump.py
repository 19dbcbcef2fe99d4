"""Whatever stands in the work ring and in blocks, and whatever clients say: the pump goes on, inside its memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[1] / "support" / "programs"
VICTIMS = pytest.mark.parametrize("victim", ["pump_victim", "session_victim"])


def run(victim: str, seed: int, lives: str, environment: dict[str, str] | None = None) -> None:
    command = [sys.executable, "-X", "faulthandler", str(PROGRAMS / f"{victim}.py"), str(seed), lives]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@VICTIMS
def test_the_pump_stays_in_its_memory(sanitized: dict[str, str], victim: str) -> None:
    """Random records, broken indices, scribbled blocks; frames that are nearly right, in pieces: under sanitizers."""
    run(victim, 0, os.environ.get("FUZZ_LIVES", "20"), sanitized)


@VICTIMS
def test_the_pump_goes_on(victim: str) -> None:
    """The same, more often, with the pump as it is installed."""
    run(victim, 100, os.environ.get("FUZZ_LIVES", "60"))
