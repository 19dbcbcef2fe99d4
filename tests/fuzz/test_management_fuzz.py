"""Whatever bytes the management agent is sent: an answer, or a counted refusal, and the core lives on."""

import subprocess
import sys
from pathlib import Path

import pytest

VICTIM = Path(__file__).parents[1] / "support" / "programs" / "management_victim.py"
NUMBER = 10_000


@pytest.mark.parametrize("seed", range(2))
def test_no_request_stays_without_outcome(seed: int, tmp_path: Path) -> None:
    """In a process of its own, so that its death is seen."""
    trace = tmp_path / "requests"
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(VICTIM), str(seed), str(NUMBER), str(trace)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    last = trace.read_text().split()[-100:] if trace.exists() else []
    assert done.returncode == 0, f"{done.stderr[-4000:]}\nthe last requests: {last}"
    assert done.stdout.startswith(f"{NUMBER} requests, ")
