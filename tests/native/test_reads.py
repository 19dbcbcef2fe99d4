"""A worker reads as many octets of a connection as its share of the turn allows, whatever they cost."""

import subprocess
from pathlib import Path

from tests.fuzz.catalogue import engine

ROOT = Path(__file__).parents[2]


def test_octets_that_cost_much_are_read_in_small_parts(tmp_path: Path) -> None:
    """And those that cost little as before; a connection that changes is judged anew."""
    source, program = Path(__file__).with_name("reads.c"), tmp_path / "reads"
    command = ["gcc", "-std=gnu11", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    done = subprocess.run(
        [*command, f"-I{ROOT}", str(source), *engine(), "-o", str(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    done = subprocess.run([program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
