"""The measure of the growth tests counts what it is given, and nothing that others have left."""

import gc
from collections.abc import Iterator

import pytest

from tests.support.beds.effort import Effort


class Left:
    """Part of a cycle, so that only the collector finds it."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        self.me = Left


@pytest.fixture
def eager() -> Iterator[None]:
    """A collector that comes with each object."""
    before = gc.get_threshold()
    gc.set_threshold(1)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("eager")
def test_what_is_collected_meanwhile_is_not_counted() -> None:
    """One line makes each of ten; what would unmake them comes when nobody counts."""
    with Effort() as effort:
        for _ in range(10):
            Left()
    assert 10 <= effort.lines <= 11  # one more to stop counting
    assert gc.isenabled()
