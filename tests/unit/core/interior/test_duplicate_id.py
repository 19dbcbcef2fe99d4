"""Two routers of one name: told apart by their instances, however close together they start."""

import secrets

from hypothesis import given
from hypothesis import strategies as st

from core.interior.duplicate_id import DRAWN, instance


def test_routers_that_start_in_the_same_second_have_other_instances() -> None:
    """What two units at one boot do: without it neither notices that the other one has its name."""
    made = {instance(1_800_000_000.5, 0, secrets.randbits) for _ in range(100)}
    assert len(made) > 95


@given(st.floats(0, 2**33), st.floats(1, 1e6), st.integers(0, 1000), st.integers(0), st.integers(0))
def test_a_later_life_has_the_larger_instance(start: float, later: float, generation: int, one: int, two: int) -> None:
    """A core of the next generation, though within the second; a router that starts again a second later."""

    def draw(value: int, bits: int) -> int:
        assert bits == DRAWN
        return value % 2**bits

    first = instance(start, generation, lambda bits: draw(one, bits))
    assert instance(start, generation + 1, lambda bits: draw(two, bits)) > first
    assert instance(start + later, generation, lambda bits: draw(two, bits)) > first
    assert 0 <= first < 2**63
