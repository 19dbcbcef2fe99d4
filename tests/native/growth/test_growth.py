"""What one operation of the core or of a worker costs does not grow with what a peer may make many."""

import subprocess
from pathlib import Path

import pytest

from tests.fuzz.catalogue import engine

ROOT = Path(__file__).parents[3]
FEW, MANY = 1000, 4000
GROWTH = 1.25  # of the steps of one operation: all these tables promise a constant
SCENARIOS = {"growth": 41, "growth_worker": 56}


def steps(program: Path, n: int) -> dict[str, float]:
    done = subprocess.run([program, str(n)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return {name: float(cost) for name, cost in (line.split() for line in done.stdout.splitlines())}


@pytest.mark.parametrize("name", SCENARIOS)
def test_one_operation_costs_as_much_among_many(name: str, tmp_path: Path) -> None:
    """Four times as many connections, sessions, links, deliveries, spellings or rows cost each no more."""
    source, program = Path(__file__).with_name(f"{name}.c"), tmp_path / name
    command = ["gcc", "-std=gnu11", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    command += ["-fsanitize-coverage=trace-pc", f"-I{ROOT}", str(source), *engine(), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    few, many = steps(program, FEW), steps(program, MANY)
    assert {name: (few[name], cost) for name, cost in many.items() if cost > few[name] * GROWTH} == {}
    assert len(many) == SCENARIOS[name]
