"""Each .pyi says what its compiled module really has."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCES = [file.relative_to(ROOT) for file in ROOT.glob("*/**/*.pyx") if ".venv" not in file.parts]
MODULES = sorted(str(file.with_suffix("")).replace("/", ".") for file in SOURCES)
# The pump and the load generator call the engine, whose symbols must be there first.
STUBTEST = "import sys; from mypy import stubtest; from workers.loop import engine; engine.load(); "
STUBTEST += "sys.exit(stubtest.main())"


def test_stubs_agree_with_the_modules() -> None:
    """mypy's stubtest finds no difference but what stub_allowlist.txt gives a reason for."""
    assert MODULES
    allowed = ["--allowlist", str(HERE / "stub_allowlist.txt"), "--ignore-unused-allowlist"]
    command = [sys.executable, "-c", STUBTEST, *MODULES, *allowed]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
