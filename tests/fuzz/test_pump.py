"""Whatever stands in the work ring and in blocks: the pump goes on, inside its memory."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VICTIM = ROOT / "tests" / "support" / "programs" / "pump_victim.py"
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]


def runtime(sanitizer: str) -> str:
    """Where the compiler's library of a sanitizer is."""
    command = ["gcc", f"-print-file-name=lib{sanitizer}.so"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the pump is one that was built with sanitizers."""
    folder = tmp_path_factory.mktemp("sanitized")
    package = folder / "workers"
    shutil.copytree(ROOT / "workers", package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    library = package / f"loop/pump{sysconfig.get_config_var('EXT_SUFFIX')}"
    command = ["gcc", "-shared", "-fPIC", "-O0", "-g1", "-std=gnu11", "-D_GNU_SOURCE", "-w", *SANITIZERS]
    command += [f"-I{ROOT}", f"-I{sysconfig.get_paths()['include']}"]
    sources = [str(ROOT / "workers/loop" / name) for name in ("pump.c", "unity.c")]
    done = subprocess.run([*command, *sources, "-o", str(library)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    runtimes = [runtime(name) for name in ("asan", "ubsan")]
    return os.environ | {
        "PYTHONPATH": str(folder),
        "LD_PRELOAD": ":".join(runtimes),
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter's
    }


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
