"""Every fuzzing target with its corpus, and with inputs changed at random, under gcc's sanitizers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.catalogue import CORPUS, ROOT, SANITIZERS, SOURCES, TARGETS, Target

CHANGED = os.environ.get("FUZZ_INPUTS", "300")  # inputs made from those of the corpus
NATIVE = [target for target in TARGETS if target.native]
PYTHON = [target for target in TARGETS if not target.native]
SEED = "1"
LONGEST = 600  # seconds for a program
QUICKLY = ["--param", "asan-instrumentation-with-call-threshold=0"]  # compiled: checks are calls

pytestmark = pytest.mark.timeout(LONGEST + 20)


@pytest.mark.parametrize("target", NATIVE, ids=lambda target: str(target.name))
def test_a_target_survives_its_corpus(target: Target, tmp_path: Path) -> None:
    """No step outside of memory, no leak, no broken promise; what all inputs together have to reach is reached."""
    program, failed = tmp_path / "program", tmp_path / "failed"
    target.build("gcc", SANITIZERS, program, str(ROOT / "tests" / "fuzz" / "replay.c"), *QUICKLY)
    environment = os.environ | target.prepare(tmp_path / "material") | {"FUZZ_FAILED": str(failed)}
    command = [str(program), SEED, CHANGED, *map(str, target.unpack(tmp_path / "inputs"))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST, check=False)
    assert done.returncode == 0, f"input {failed.read_bytes().hex()}\n{done.stderr[-6000:]}"


@pytest.mark.parametrize("target", PYTHON, ids=lambda target: str(target.name))
def test_a_python_target_survives_its_corpus(target: Target) -> None:
    """In a process of its own, so that its death is seen."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.replay", target.name, SEED, CHANGED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST, check=False)
    assert done.returncode == 0, done.stderr[-6000:]


def test_the_catalogue_is_complete() -> None:
    """Each target has a source and a corpus, and there are no others."""
    assert {*CORPUS.iterdir()} == {target.corpus for target in TARGETS}
    for target in TARGETS:
        assert (SOURCES / f"{target.name}{'.c' if target.native else '.py'}").exists()
    for path in SOURCES.iterdir():
        shared = path.suffix == ".h" or path.name.startswith("__")
        assert shared or path.stem in {target.name for target in TARGETS}, path
