"""The core among random clients: whatever happens in whatever order, the promises of the router hold.

A failing seed is the whole report: ``schedule(seed).run(MOVES)`` repeats it.
"""

import pytest

from tests.support.beds.schedule import MOVES, SEEDS, schedule

GROUP = 50


@pytest.mark.parametrize("first", range(0, SEEDS, GROUP))
def test_promises_hold(first: int) -> None:
    """Nothing is lost, duplicated or settled twice; credit and blocks come back; the tables end empty."""
    for seed in range(first, first + GROUP):
        try:
            schedule(seed).run(MOVES)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
