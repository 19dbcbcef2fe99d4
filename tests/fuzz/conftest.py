"""The pump, built with AddressSanitizer."""

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Undefined behaviour is looked for by the target `worker`. Checks that are calls compile in half the time.
SANITIZER = ["-fsanitize=address", "--param", "asan-instrumentation-with-call-threshold=0"]


def runtime() -> str:
    """Where the compiler's library of the sanitizer is."""
    command = ["gcc", "-print-file-name=libasan.so"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the pump is one that was built with AddressSanitizer."""
    folder = tmp_path_factory.mktemp("sanitized")
    package = folder / "workers"
    shutil.copytree(ROOT / "workers", package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    library = package / f"loop/pump{sysconfig.get_config_var('EXT_SUFFIX')}"
    command = ["gcc", "-shared", "-fPIC", "-O0", "-g1", "-std=gnu11", "-D_GNU_SOURCE", "-w", *SANITIZER]
    command += [f"-I{ROOT}", f"-I{sysconfig.get_paths()['include']}"]
    sources = [str(ROOT / "workers/loop" / name) for name in ("pump.c", "unity.c")]
    done = subprocess.run([*command, *sources, "-o", str(library)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return os.environ | {
        "PYTHONPATH": str(folder),
        "LD_PRELOAD": runtime(),
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter's
    }
