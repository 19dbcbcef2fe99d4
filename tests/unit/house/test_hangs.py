"""A test that hangs is named, its stack is printed, and the tests after it run."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
HANGING = """
import signal
import time

def test_first():
    pass

def test_waits():
    time.sleep(60)

def test_hears_no_signal():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(60)

def test_last():
    pass
"""


def test_two_that_hang_are_named_and_the_others_run(tmp_path: Path) -> None:
    """One fails alone; the other ends its process, and is not tried again."""
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    (tmp_path / "tests" / "unit" / "test_hanging.py").write_text(HANGING)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\naddopts = -p tests.conftest\n")
    limits = ["timeout=1", "faulthandler_timeout=3", "faulthandler_exit_on_timeout=true"]
    command = [sys.executable, "-m", "pytest", "-n", "1", "--dist", "loadfile", "--no-loadscope-reorder"]
    command += [part for limit in limits for part in ("-o", limit)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    said = done.stdout + done.stderr
    assert "2 failed, 2 passed" in done.stdout, said
    assert "FAILED tests/unit/test_hanging.py::test_waits" in done.stdout, said
    assert "Failed: Timeout (>1.0s)" in done.stdout, said
    assert "crashed while running 'tests/unit/test_hanging.py::test_hears_no_signal'" in done.stdout, said
    assert 'test_hanging.py", line 13 in test_hears_no_signal' in done.stderr, said
    assert done.returncode == 1


def test_a_test_that_may_take_long_is_not_taken_for_one_that_hangs() -> None:
    """The process of a run ends, with the results of all tests before, if one takes longer than faulthandler allows."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    files = {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("*.py")}
    allowed = {
        name: int(found) for name, text in files.items() for found in re.findall(r"mark\.timeout\((\d+)\)", text)
    }
    assert allowed, "some tests may take long"
    assert {name: most for name, most in allowed.items() if most >= options["faulthandler_timeout"]} == {}
    assert options["timeout"] < options["faulthandler_timeout"]
