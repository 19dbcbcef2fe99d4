"""Which process gets which CPU."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routerd.machine.pinning import Pinning, UnknownCpuError, plan, ranges


@given(st.integers(1, 64), st.sets(st.integers(0, 100), min_size=1))
def test_nothing_is_pinned_unless_asked(workers: int, usable: set[int]) -> None:
    """However many CPUs there are: two routers of one machine would take the same ones."""
    assert plan(None, (), workers, usable) == Pinning([], [[]] * workers)


def test_what_is_asked_for_is_done() -> None:
    """Workers take their CPUs in turn."""
    assert plan(1, (2, 3), 3, {0, 1, 2, 3}) == Pinning([1], [[2], [3], [2]])


def test_what_is_not_asked_for_is_left_alone() -> None:
    """A pinned core says nothing about the workers, nor they about it."""
    assert plan(0, (), 2, {0, 1, 2, 3}) == Pinning([0], [[], []])
    assert plan(None, (0, 1), 2, {0, 1, 2, 3}) == Pinning([], [[0], [1]])


@pytest.mark.parametrize(("core", "workers", "name"), [(7, (), "coreCpu"), (None, (0, 7), "workerCpus")])
def test_an_unknown_cpu_is_an_error_that_names_the_usable_ones(
    core: int | None, workers: tuple[int, ...], name: str
) -> None:
    """The attribute, the CPU, and what could be given instead."""
    with pytest.raises(UnknownCpuError, match=f"{name}: no CPU 7 here; give some of 0-2,5"):
        plan(core, workers, 2, {0, 1, 2, 5})


def test_ranges_read_as_people_write_them() -> None:
    """Neighbours join."""
    assert ranges({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8"
