"""Whatever stands in the work ring and in blocks, and whatever clients say: the pump goes on, inside its memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[1] / "support" / "programs"
LIVES = os.environ.get("FUZZ_LIVES", "20")
SEED = "0"


@pytest.mark.parametrize("victim", ["pump_victim", "session_victim"])
def test_the_pump_stays_in_its_memory(sanitized: dict[str, str], victim: str) -> None:
    """Random records, broken indices, scribbled blocks; frames that are nearly right, in pieces: under a sanitizer."""
    command = [sys.executable, "-X", "faulthandler", str(PROGRAMS / f"{victim}.py"), SEED, LIVES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=sanitized, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
