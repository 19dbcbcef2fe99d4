"""Which process gets which CPU."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routerd.pinning import Pinning, UnknownCpuError, plan, ranges


def test_enough_cpus_are_spread() -> None:
    """One each, the core first, and one left for the rest of the machine."""
    assert plan(None, (), 2, {0, 1, 2, 3}) == Pinning([0], [[1], [2]])


def test_too_few_cpus_are_left_to_the_scheduler() -> None:
    """Two processes pinned to one CPU are worse than none pinned."""
    assert plan(None, (), 2, {0, 1, 2}) == Pinning([], [[], []])


def test_what_is_asked_for_is_done() -> None:
    """Workers take their CPUs in turn."""
    assert plan(1, (2, 3), 3, {0, 1, 2, 3}) == Pinning([1], [[2], [3], [2]])


def test_a_pinned_core_leaves_the_other_cpus_to_the_workers() -> None:
    """Spreading avoids what was asked for elsewhere."""
    assert plan(0, (), 2, {0, 1, 2, 3}) == Pinning([0], [[1], [2]])
    assert plan(None, (0, 1), 2, {0, 1, 2, 3}) == Pinning([2], [[0], [1]])


@pytest.mark.parametrize(("core", "workers", "name"), [(7, (), "coreCpu"), (None, (0, 7), "workerCpus")])
def test_an_unknown_cpu_is_an_error_that_names_the_usable_ones(
    core: int | None, workers: tuple[int, ...], name: str
) -> None:
    """The attribute, the CPU, and what could be given instead."""
    with pytest.raises(UnknownCpuError, match=f"{name}: no CPU 7 here; usable are 0-2,5"):
        plan(core, workers, 2, {0, 1, 2, 5})


@given(st.integers(1, 64), st.sets(st.integers(0, 100), min_size=1))
def test_by_default_no_cpu_is_given_twice(workers: int, usable: set[int]) -> None:
    """Either everybody is pinned to a CPU of its own that exists, or nobody is."""
    pinning = plan(None, (), workers, usable)
    given_out = [cpu for cpus in (pinning.core, *pinning.workers) for cpu in cpus]
    assert len(given_out) in (0, workers + 1)
    assert len(set(given_out)) == len(given_out)
    assert set(given_out) <= usable


def test_ranges_read_as_people_write_them() -> None:
    """Neighbours join."""
    assert ranges({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8"
