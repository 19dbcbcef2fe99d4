"""What a worker has given back to the system stays there when its core dies."""

import subprocess
from pathlib import Path

from tests.fuzz.catalogue import engine

ROOT = Path(__file__).parents[2]
MORE_KB = 2048  # the tables that are gone take ten times as much


def test_a_new_core_brings_no_memory_back(tmp_path: Path) -> None:
    """Connections and links that are gone are not written to."""
    source, program = Path(__file__).with_name("core_death_memory.c"), tmp_path / "core_death_memory"
    command = ["gcc", "-std=gnu11", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    command += [f"-I{ROOT}", str(source), *engine(), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    before, after = map(int, done.stdout.split())
    assert after - before < MORE_KB
