"""What one operation of the core or of a worker costs does not grow with what a peer may make many."""

from pathlib import Path

import pytest

from tests.support.native.program import compiled, said

FEW, MANY = 1000, 4000  # both well beyond 256, from where a session's links end in portions
GROWTH = 1.25  # of the steps of one operation: all these tables promise a constant
SCENARIOS = {"growth": 45, "growth_worker": 66}


def steps(program: Path, n: int) -> dict[str, float]:
    return {name: float(cost) for name, cost in (line.split() for line in said(program, str(n)).splitlines())}


@pytest.mark.parametrize("name", SCENARIOS)
def test_one_operation_costs_as_much_among_many(name: str, tmp_path: Path) -> None:
    """Four times as many connections, sessions, links, deliveries, spellings or rows cost each no more."""
    program = compiled(Path(__file__).with_name(f"{name}.c"), tmp_path, "-fsanitize-coverage=trace-pc")
    few, many = steps(program, FEW), steps(program, MANY)
    assert {name: (few[name], cost) for name, cost in many.items() if cost > few[name] * GROWTH} == {}
    assert len(many) == SCENARIOS[name]
