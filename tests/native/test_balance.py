"""Workers share connections by how many each has, whatever becomes of those that are refused."""

import subprocess
from pathlib import Path

from tests.fuzz.catalogue import engine

ROOT = Path(__file__).parents[2]


def test_refused_connections_push_nobody_to_one_worker(tmp_path: Path) -> None:
    """During a flood of them, after one, and where one worker has no place left."""
    source, program = Path(__file__).with_name("balance.c"), tmp_path / "balance"
    command = ["gcc", "-std=gnu11", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    done = subprocess.run(
        [*command, f"-I{ROOT}", str(source), *engine(), "-o", str(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    done = subprocess.run([program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
