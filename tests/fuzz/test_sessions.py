"""Whatever clients say of sessions, links and transfers: the pump goes on, inside its memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

VICTIM = Path(__file__).parents[2] / "tests/support/programs/session_victim.py"


def run(seed: int, lives: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "faulthandler", str(VICTIM), str(seed), lives]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, check=False)


@pytest.mark.parametrize("seed", range(3))
def test_sessions_stay_in_their_memory(sanitized: dict[str, str], seed: int) -> None:
    """Frames that are nearly right, in pieces, from clients that go at any moment, under sanitizers."""
    done = run(seed, os.environ.get("FUZZ_LIVES", "15"), sanitized)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("seed", range(100, 103))
def test_sessions_go_on(seed: int) -> None:
    """The same, more often, with the pump as it is installed."""
    done = run(seed, os.environ.get("FUZZ_LIVES", "40"))
    assert done.returncode == 0, done.stdout + done.stderr
